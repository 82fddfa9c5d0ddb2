//! Directions of links. A frame on a link is a pending event of the receiver.

use xoff_dataplane::{LinkRate, LinkTiming, Picos};

use super::fault::FaultList;
use super::plan::LinkEnd;

/// One direction of a link. The fields that are needed for each frame are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct LinkDirection {
    /// Receiving end.
    pub(super) to: LinkEnd,
    /// Partition of the receiving end.
    pub(super) to_partition: u32,
    pub(super) up: bool,
    delay: Picos,
    /// Duration of the interframe gap after a frame.
    gap: Picos,
    /// Arrival time of the latest frame that was sent.
    latest: Picos,
    pub(super) faults: FaultList,
    /// Speed and framing of the sender.
    timing: LinkTiming,
    /// Sending end.
    pub(super) from: LinkEnd,
    /// Number of frames lost by faults or because the link went down.
    pub(super) lost_frames: u64,
}

impl LinkDirection {
    /// Creates a direction that leads to a node of `to_partition`.
    pub(super) fn new(
        from: LinkEnd,
        to: LinkEnd,
        to_partition: usize,
        delay: Picos,
        timing: LinkTiming,
    ) -> LinkDirection {
        LinkDirection {
            to,
            to_partition: to_partition as u32,
            from,
            delay,
            timing,
            gap: LinkRate::new(timing).timing().gap_duration(),
            up: true,
            latest: Picos::ZERO,
            faults: FaultList::default(),
            lost_frames: 0,
        }
    }

    /// Adds a frame to the link. The transmission of the frame, including the gap, ends at `end`. Returns the
    /// arrival time of its last bit.
    #[inline]
    pub(super) fn add_frame(&mut self, end: Picos) -> Picos {
        let last_bit = end.since(self.gap).saturating_add(self.delay);
        // A frame must not overtake the previous frame after an increase of the speed, and must not arrive at
        // the same time.
        self.latest = last_bit.max(self.latest.saturating_add(Picos(1)));
        self.latest
    }

    /// Records that frames were removed because the link went down.
    pub(super) fn clear(&mut self, frames: usize) {
        self.lost_frames += frames as u64;
        self.latest = Picos::ZERO;
    }

    /// Sets the speed and framing of the sender for the next frames.
    pub(super) fn set_timing(&mut self, timing: LinkTiming) {
        self.timing = timing;
        self.gap = LinkRate::new(timing).timing().gap_duration();
    }

    pub(super) fn timing(&self) -> &LinkTiming {
        &self.timing
    }
}
