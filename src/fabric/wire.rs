//! Wires: one direction of a link each, with what is on it.

use std::collections::VecDeque;

use xoff_dataplane::{Handle, Line, LinkTiming, Picos};

use super::fault::Faults;
use super::plan::End;

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Wire {
    /// Where it leads.
    pub(super) to: End,
    /// Where it comes from.
    pub(super) from: End,
    delay: Picos,
    /// Speed and framing of the sender.
    timing: LinkTiming,
    /// Of that: how long the gap behind a frame lasts.
    gap: Picos,
    pub(super) up: bool,
    /// Frames under way, in order: when the last bit arrives, and the number of that event's insertion.
    frames: VecDeque<(Picos, Handle, u32)>,
    pub(super) faults: Faults,
    /// Frames that a link that went down, or a fault, took.
    pub(super) lost_frames: u64,
}

impl Wire {
    pub(super) fn new(from: End, to: End, delay: Picos, timing: LinkTiming) -> Wire {
        Wire {
            to,
            from,
            delay,
            timing,
            gap: Line::new(timing).timing().gap(),
            up: true,
            frames: VecDeque::new(),
            faults: Faults::default(),
            lost_frames: 0,
        }
    }

    /// Puts a frame on the wire whose transmission occupies it until `end`, the gap behind the frame included. The time of the
    /// next arrival, if that is this frame.
    #[inline]
    pub(super) fn put(&mut self, end: Picos, frame: Handle, order: u32) -> Option<Picos> {
        let last_bit = end.since(self.gap).saturating_add(self.delay);
        // A link that has become faster or shorter overtakes nothing.
        let at = self
            .frames
            .back()
            .map_or(last_bit, |(before, ..)| last_bit.max(*before));
        self.frames.push_back((at, frame, order));
        (self.frames.len() == 1).then_some(at)
    }

    /// Takes the frame that arrives at `now`; and the time and order of the one behind it, and that itself.
    #[inline]
    pub(super) fn take(&mut self, now: Picos) -> (Option<Handle>, Option<(Picos, u32, Handle)>) {
        match self.frames.front() {
            Some((at, ..)) if *at <= now => {}
            // The event of a frame that went with its link.
            _ => return (None, None),
        }
        let frame = self.frames.pop_front().map(|(_, frame, _)| frame);
        let behind = self.frames.front();
        (frame, behind.map(|(at, frame, order)| (*at, *order, *frame)))
    }

    /// Takes all frames off the wire: the link is down.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Handle> {
        self.lost_frames += self.frames.len() as u64;
        self.frames.drain(..).map(|(_, frame, _)| frame)
    }

    pub(super) fn on_it(&self) -> usize {
        self.frames.len()
    }

    /// Its sender has another speed from the next frame on.
    pub(super) fn set_timing(&mut self, timing: LinkTiming) {
        self.timing = timing;
        self.gap = Line::new(timing).timing().gap();
    }

    pub(super) fn timing(&self) -> &LinkTiming {
        &self.timing
    }
}
