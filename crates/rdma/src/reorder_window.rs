//! Reorder buffer for request packets that arrive after a gap.

use std::collections::VecDeque;

use super::request::RequestPacket;

/// One position of the reorder window, for one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReorderSlot {
    /// The packet is missing.
    Empty,
    /// The packet has arrived.
    Held(RequestPacket),
    /// The sequence number belongs to a READ request in an earlier slot. A READ request uses one sequence
    /// number for each of its response packets.
    Covered,
}

/// Slots for packets, starting with the oldest missing packet. If no packet is missing, the window is empty.
#[derive(Debug, Default)]
pub(super) struct ReorderWindow {
    /// `None` until the first packet is stored, because most queue pairs never store one. The box is a quarter of the
    /// size of the list.
    #[allow(clippy::box_collection)]
    slots: Option<Box<VecDeque<ReorderSlot>>>,
}

impl ReorderWindow {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.is_empty())
    }

    /// Returns the number of slots, from the oldest missing packet to the newest packet.
    pub(super) fn len(&self) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.len())
    }

    pub(super) fn is_missing(&self, ahead: usize) -> bool {
        let slot = self.slots.as_ref().and_then(|slots| slots.get(ahead));
        slot.is_none_or(|slot| *slot == ReorderSlot::Empty)
    }

    /// Stores a packet. Its sequence number is `ahead` higher than the number of the oldest missing packet.
    /// The packet uses `sequence_count` sequence numbers. The window has at most `slots_max` slots, and
    /// higher numbers are not stored. Returns `false` if the packet had already arrived.
    pub(super) fn store(
        &mut self,
        ahead: usize,
        request: RequestPacket,
        sequence_count: u32,
        slots_max: usize,
    ) -> bool {
        if !self.is_missing(ahead) {
            return false;
        }
        let end = ahead
            .saturating_add(sequence_count as usize)
            .min(slots_max)
            .max(ahead + 1);
        let slots = self.slots.get_or_insert_default();
        if slots.len() < end {
            slots.resize(end, ReorderSlot::Empty);
        }
        slots[ahead] = ReorderSlot::Held(request);
        slots
            .range_mut(ahead + 1..end)
            .for_each(|slot| *slot = ReorderSlot::Covered);
        true
    }

    /// Removes the first `sequence_count` slots, which are complete. Returns the next packet, or `None` if it
    /// has not arrived.
    pub(super) fn advance(&mut self, sequence_count: u64) -> Option<RequestPacket> {
        let slots = self.slots.as_mut()?;
        for _ in 0..sequence_count.min(slots.len() as u64) {
            slots.pop_front();
        }
        match slots.front() {
            Some(ReorderSlot::Held(request)) => Some(*request),
            _ => None,
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(slots) = &mut self.slots {
            slots.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verb;

    const WRITE: RequestPacket = RequestPacket {
        verb: Verb::Write,
        first: false,
        last: false,
        ack_req: false,
        payload_len: 1,
        dma_len: 0,
    };

    #[test]
    fn packets_leave_in_order_when_the_gap_is_filled() {
        let mut window = ReorderWindow::default();
        assert!(window.store(3, WRITE, 1, 8) && window.store(1, WRITE, 1, 8));
        assert!(!window.store(3, WRITE, 1, 8), "here already");
        assert!(window.is_missing(0) && window.is_missing(2) && window.is_missing(4));
        assert_eq!(window.advance(1), Some(WRITE));
        assert_eq!(window.advance(1), None, "the next gap");
        assert_eq!(window.len(), 2);
        assert_eq!(window.advance(1), Some(WRITE));
        assert_eq!(window.advance(1), None);
        assert!(window.is_empty());
    }

    #[test]
    fn a_read_uses_one_sequence_number_per_response() {
        let mut window = ReorderWindow::default();
        assert!(window.store(1, WRITE, 100, 8));
        assert_eq!(window.len(), 8, "the window ends");
        assert!(!window.is_missing(7));
        assert_eq!(window.advance(1), Some(WRITE));
        assert_eq!(window.advance(100), None);
        assert!(window.is_empty());
    }
}
