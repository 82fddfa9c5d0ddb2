//! Directions of links. A frame on a link is a pending event of the receiver.

use xoff_dataplane::{LinkRate, LinkTiming, Picos};

use super::fault::FaultList;
use super::plan::LinkEnd;

/// One direction of a link. The fields that are needed for each frame are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct LinkDirection {
    /// Number of the direction in the fabric.
    pub(super) number: u32,
    /// Shard of the receiving end.
    pub(super) to_shard: u32,
    /// Partition of the receiving end in its shard.
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
    /// Sending end, with the index of the node in the fabric.
    pub(super) from: LinkEnd,
    /// Number of frames lost by faults or because the link went down.
    pub(super) lost_frames: u64,
}

impl LinkDirection {
    /// Creates the direction `number`, which leads from `from` to a node of the partition `to_partition` in the shard
    /// `to_shard`.
    pub(super) fn new(
        number: u32,
        from: LinkEnd,
        (to_shard, to_partition): (u32, u32),
        delay: Picos,
        timing: LinkTiming,
    ) -> LinkDirection {
        LinkDirection {
            number,
            to_shard,
            to_partition,
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
