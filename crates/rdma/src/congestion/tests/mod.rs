//! Shared functions for tests of controllers.

mod bottleneck;
mod config;
mod convergence;
mod random;

use super::{Ack, ControllerContext};
use xoff_units::Picos;

/// Returns a context with a round trip of 10 us and packets of 1000 bytes.
pub(super) fn context(line_rate_bps: u64) -> ControllerContext {
    ControllerContext {
        line_rate_bps,
        base_rtt: Picos::from_micros(10),
        packet_bytes: 1000,
        seed: 1,
    }
}

/// Returns an acknowledgement of `acked_bytes`, after which `acked_total` bytes are acknowledged.
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
    /// Adds an echoed mark.
    pub(super) fn marked(mut self) -> Self {
        self.marked = true;
        self
    }
}
