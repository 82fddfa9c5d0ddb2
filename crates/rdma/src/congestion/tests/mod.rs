//! What tests of controllers share.

mod bottleneck;
mod choice;
mod convergence;
mod random;

use super::{Ack, Context};
use xoff_units::Picos;

/// A host with a round trip of 10 us and packets of 1000 bytes.
pub(super) fn context(line_rate_bps: u64) -> Context {
    Context {
        line_rate_bps,
        base_rtt: Picos::from_micros(10),
        packet_bytes: 1000,
        seed: 1,
    }
}

/// An acknowledgement of `acked_bytes` that leaves the stream acknowledged up to `acked_total`.
pub(super) fn ack(acked_bytes: u64, acked_total: u64, sent_total: u64) -> Ack<'static> {
    Ack {
        acked_bytes,
        inflight_bytes: sent_total.saturating_sub(acked_total),
        acked_total,
        sent_total,
        rtt: None,
        marked: false,
        telemetry: None,
    }
}

impl Ack<'_> {
    /// The same with an echoed mark.
    pub(super) fn marked(mut self) -> Self {
        self.marked = true;
        self
    }
}
