//! Defects of a mutant, as changes of what a correct device receives, sends and reports.

use xoff_units::Picos;
use xoff_wire::{MacControl, Pfc};

use crate::device::{Counters, Operation};
use crate::link_frame::LinkFrame;
use crate::traffic::{INSTRUMENT_MAC, MODEL_MAC};

/// A defect. Each method changes nothing unless the defect needs it.
pub(super) trait Mutation {
    /// Changes a frame before the device receives it. `None`: the device does not receive it.
    fn receive(&mut self, _now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        Some(frame)
    }

    /// Changes a frame that the device sends. `None`: the frame is lost.
    fn transmit(&mut self, _now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        Some(frame)
    }

    /// Changes an operation. `None`: the device ignores it.
    fn operate(&mut self, _now: Picos, operation: Operation) -> Option<Operation> {
        Some(operation)
    }

    /// Changes the counters that the device reports.
    fn report(&self, _counters: &mut Counters) {}

    /// Returns a frame that the device sends in addition at `now`.
    fn additional_frame(&mut self, _now: Picos) -> Option<LinkFrame> {
        None
    }

    /// Returns the time of the next additional frame.
    fn next_additional_frame(&self) -> Picos {
        Picos::NEVER
    }
}

/// Changes each received frame.
pub(super) struct OnReceive<F>(pub(super) F);

impl<F: FnMut(Picos, LinkFrame) -> Option<LinkFrame>> Mutation for OnReceive<F> {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        (self.0)(now, frame)
    }
}

/// Changes each received PFC frame.
pub(super) struct OnPfc<F>(pub(super) F);

impl<F: FnMut(Picos, Pfc) -> Option<Pfc>> Mutation for OnPfc<F> {
    fn receive(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        match MacControl::parse(&frame.bytes) {
            Ok(MacControl::Pfc(pfc)) if frame.defect.is_none() => {
                (self.0)(now, pfc).map(|pfc| pfc_frame(pfc, INSTRUMENT_MAC))
            }
            _ => Some(frame),
        }
    }
}

/// Changes each sent frame.
pub(super) struct OnTransmit<F>(pub(super) F);

impl<F: FnMut(Picos, LinkFrame) -> Option<LinkFrame>> Mutation for OnTransmit<F> {
    fn transmit(&mut self, now: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        (self.0)(now, frame)
    }
}

/// Changes the bytes of each sent PFC frame.
pub(super) struct OnSentPfc<F>(pub(super) F);

impl<F: FnMut(Pfc, LinkFrame) -> Option<LinkFrame>> Mutation for OnSentPfc<F> {
    fn transmit(&mut self, _: Picos, frame: LinkFrame) -> Option<LinkFrame> {
        match MacControl::parse(&frame.bytes) {
            Ok(MacControl::Pfc(pfc)) => (self.0)(pfc, frame),
            _ => Some(frame),
        }
    }
}

/// Changes each operation.
pub(super) struct OnOperation<F>(pub(super) F);

impl<F: FnMut(Operation) -> Option<Operation>> Mutation for OnOperation<F> {
    fn operate(&mut self, _: Picos, operation: Operation) -> Option<Operation> {
        (self.0)(operation)
    }
}

/// Changes the reported counters.
pub(super) struct OnCounters<F>(pub(super) F);

impl<F: Fn(&mut Counters)> Mutation for OnCounters<F> {
    fn report(&self, counters: &mut Counters) {
        (self.0)(counters);
    }
}

/// Builds a PFC frame.
pub(super) fn pfc_frame(pfc: Pfc, source: [u8; 6]) -> LinkFrame {
    LinkFrame::new(MacControl::Pfc(pfc).to_frame(source).to_vec())
}

/// Builds a PFC frame of the model device.
pub(super) fn sent_pfc_frame(pfc: Pfc) -> LinkFrame {
    pfc_frame(pfc, MODEL_MAC)
}
