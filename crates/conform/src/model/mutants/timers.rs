//! Pause timers of a wrong implementation.

use xoff_units::{LinkTiming, Picos};
use xoff_wire::{MacControl, PRIORITIES, Pfc};

use crate::link_frame::LinkFrame;
use crate::model::mutation::{Mutation, pfc_frame};
use crate::traffic::INSTRUMENT_MAC;

/// The timers of a wrong implementation. A new time of a paused class is combined with the time that is left.
pub(super) struct Timers {
    pub(super) quantum: Picos,
    pub(super) paused_until: [Picos; PRIORITIES],
    /// Returns the new time, from the time that is left and the time in the frame, in quanta.
    combine: fn(u16, u16) -> u16,
}

impl Timers {
    pub(super) fn new(link: &LinkTiming, combine: fn(u16, u16) -> u16) -> Timers {
        Timers {
            quantum: link.quantum_duration(),
            paused_until: [Picos::ZERO; PRIORITIES],
            combine,
        }
    }

    pub(super) fn is_paused(&self, class: usize, now: Picos) -> bool {
        self.paused_until[class] > now
    }

    /// Sets the timers by a PFC frame. Returns the frame with the times of this implementation.
    pub(super) fn set(&mut self, now: Picos, pfc: Pfc) -> Pfc {
        let mut changed = pfc;
        for class in (0..PRIORITIES).filter(|class| pfc.enable & (1 << class) != 0) {
            let left = self.paused_until[class].since(now).0 / self.quantum.0.max(1);
            let time = match (left, pfc.quanta[class]) {
                (0, new) | (_, new @ 0) => new,
                (left, new) => (self.combine)(left.min(u64::from(u16::MAX)) as u16, new),
            };
            changed.quanta[class] = time;
            self.paused_until[class] = now + Picos(self.quantum.0 * u64::from(time));
        }
        changed
    }
}

/// Passes PFC frames through a function with timers.
pub(super) fn with_timers(frame: LinkFrame, change: impl FnOnce(Pfc) -> Option<Pfc>) -> Option<LinkFrame> {
    match MacControl::parse(&frame.bytes) {
        Ok(MacControl::Pfc(pfc)) if frame.defect.is_none() => {
            change(pfc).map(|pfc| pfc_frame(pfc, INSTRUMENT_MAC))
        }
        _ => Some(frame),
    }
}

impl Mutation for Timers {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        with_timers(frame, |pfc| Some(self.set(now, pfc)))
    }
}
