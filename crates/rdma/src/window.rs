//! Packets that arrived behind a gap.

use std::collections::VecDeque;

use super::request::Request;

/// One place of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Missing.
    Empty,
    /// Here.
    Held(Request),
    /// One of the further numbers that a READ request here takes.
    Covered,
}

/// The packets from the oldest missing one on. Empty, and without memory, while nothing is missing.
#[derive(Debug, Default)]
pub(super) struct ReorderWindow {
    slots: VecDeque<Slot>,
}

impl ReorderWindow {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Places up to the newest packet.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_missing(&self, ahead: usize) -> bool {
        self.slots.get(ahead).is_none_or(|slot| *slot == Slot::Empty)
    }

    /// Keeps a packet `ahead` of the oldest missing one, which takes `numbers` sequence numbers, as far as `places_max` goes.
    /// False if it is here already.
    pub(super) fn hold(&mut self, ahead: usize, request: Request, numbers: u32, places_max: usize) -> bool {
        if !self.is_missing(ahead) {
            return false;
        }
        let end = ahead
            .saturating_add(numbers as usize)
            .min(places_max)
            .max(ahead + 1);
        if self.slots.len() < end {
            self.slots.resize(end, Slot::Empty);
        }
        self.slots[ahead] = Slot::Held(request);
        self.slots
            .range_mut(ahead + 1..end)
            .for_each(|slot| *slot = Slot::Covered);
        true
    }

    /// The oldest missing one has arrived, or been covered, and `numbers` sequence numbers are done. What comes next, if here.
    pub(super) fn shift(&mut self, numbers: u64) -> Option<Request> {
        for _ in 0..numbers.min(self.slots.len() as u64) {
            self.slots.pop_front();
        }
        match self.slots.front() {
            Some(Slot::Held(request)) => Some(*request),
            _ => None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verb;

    const WRITE: Request = Request {
        verb: Verb::Write,
        first: false,
        last: false,
        ack_req: false,
        payload_len: 1,
        dma_len: 0,
    };

    #[test]
    fn packets_come_out_in_order_once_the_gap_is_filled() {
        let mut window = ReorderWindow::default();
        assert!(window.hold(3, WRITE, 1, 8) && window.hold(1, WRITE, 1, 8));
        assert!(!window.hold(3, WRITE, 1, 8), "here already");
        assert!(window.is_missing(0) && window.is_missing(2) && window.is_missing(4));
        assert_eq!(window.shift(1), Some(WRITE));
        assert_eq!(window.shift(1), None, "the next gap");
        assert_eq!(window.len(), 2);
        assert_eq!(window.shift(1), Some(WRITE));
        assert_eq!(window.shift(1), None);
        assert!(window.is_empty());
    }

    #[test]
    fn a_read_takes_the_numbers_of_its_responses() {
        let mut window = ReorderWindow::default();
        assert!(window.hold(1, WRITE, 100, 8));
        assert_eq!(window.len(), 8, "the window ends");
        assert!(!window.is_missing(7));
        assert_eq!(window.shift(1), Some(WRITE));
        assert_eq!(window.shift(100), None);
        assert!(window.is_empty());
    }
}
