//! Wires: one direction of a link each. What is on them are pending events.

use xoff_dataplane::{Line, LinkTiming, Picos};

use super::fault::Faults;
use super::plan::End;

/// One direction of a link. What each frame needs lies in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Wire {
    /// Where it leads.
    pub(super) to: End,
    /// The part that it leads to.
    pub(super) to_part: u32,
    pub(super) up: bool,
    delay: Picos,
    /// How long the gap behind a frame lasts, by `timing`.
    gap: Picos,
    /// When the latest frame arrives, or has.
    latest: Picos,
    pub(super) faults: Faults,
    /// Speed and framing of the sender.
    timing: LinkTiming,
    /// Where it comes from.
    pub(super) from: End,
    /// Frames that a link that went down, or a fault, took.
    pub(super) lost_frames: u64,
}

impl Wire {
    /// One that leads to a node of `to_part`.
    pub(super) fn new(from: End, to: End, to_part: usize, delay: Picos, timing: LinkTiming) -> Wire {
        Wire {
            to,
            to_part: to_part as u32,
            from,
            delay,
            timing,
            gap: Line::new(timing).timing().gap_duration(),
            up: true,
            latest: Picos::ZERO,
            faults: Faults::default(),
            lost_frames: 0,
        }
    }

    /// When a frame arrives whose transmission occupies the wire until `end`, the gap behind the frame included.
    #[inline]
    pub(super) fn put(&mut self, end: Picos) -> Picos {
        let last_bit = end.since(self.gap).saturating_add(self.delay);
        // A link that has become faster or shorter overtakes nothing, and no two frames arrive at one time.
        self.latest = last_bit.max(self.latest.saturating_add(Picos(1)));
        self.latest
    }

    /// So many frames were taken off the wire: the link is down.
    pub(super) fn clear(&mut self, frames: usize) {
        self.lost_frames += frames as u64;
        self.latest = Picos::ZERO;
    }

    /// Its sender has another speed from the next frame on.
    pub(super) fn set_timing(&mut self, timing: LinkTiming) {
        self.timing = timing;
        self.gap = Line::new(timing).timing().gap_duration();
    }

    pub(super) fn timing(&self) -> &LinkTiming {
        &self.timing
    }
}
