//! Arithmetic of rates and windows.

use xoff_units::Picos;

use super::Context;

/// Between which rates a controller stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) min_bps: u64,
    pub(super) line_bps: u64,
}

impl Bounds {
    /// From `min_bps`, or the line rate where that is lower, to the line rate; never zero.
    pub(super) fn new(min_bps: u64, context: &Context) -> Bounds {
        // A thousand times the fastest link, so that sums do not overflow.
        let line_bps = context.line_rate_bps.clamp(1, 1_000_000_000_000_000);
        Bounds {
            min_bps: min_bps.clamp(1, line_bps),
            line_bps,
        }
    }

    /// The rate, in whole bits per second, brought into the bounds.
    pub(super) fn clamp(&self, rate_bps: f64) -> u64 {
        // The cast saturates; NaN becomes zero.
        (rate_bps as u64).clamp(self.min_bps, self.line_bps)
    }
}

/// Bytes that a rate sends in a time.
pub(super) fn bytes_in(rate_bps: u64, time: Picos) -> f64 {
    rate_bps as f64 * time.0 as f64 / 8e12
}

/// The rate, in bits per second, that sends so many bytes in a time; a time of zero counts as a picosecond.
pub(super) fn rate_of(bytes: f64, time: Picos) -> f64 {
    bytes * 8e12 / time.0.max(1) as f64
}

/// A window in whole bytes: at least one, so that one packet may always be under way.
pub(super) fn whole_bytes(window: f64) -> u64 {
    (window as u64).max(1)
}
