//! Conversions between rates, windows and bytes.

use xoff_units::Picos;

use super::ControllerContext;

/// Lowest and highest rate of a controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateBounds {
    pub(super) min_bps: u64,
    pub(super) line_bps: u64,
}

impl RateBounds {
    /// Creates bounds from `min_bps` to the line rate. If `min_bps` is above the line rate, the line rate is
    /// used instead. If `min_bps` is 0, it becomes 1.
    pub(super) fn new(min_bps: u64, context: &ControllerContext) -> RateBounds {
        // The limit is far above the fastest link, so that sums cannot overflow.
        let line_bps = context.line_rate_bps.clamp(1, 1_000_000_000_000_000);
        RateBounds {
            min_bps: min_bps.clamp(1, line_bps),
            line_bps,
        }
    }

    /// Limits a rate to the bounds and rounds it down to whole bits per second.
    pub(super) fn clamp(&self, rate_bps: f64) -> u64 {
        // The cast saturates, and NaN becomes zero.
        (rate_bps as u64).clamp(self.min_bps, self.line_bps)
    }
}

/// Returns the number of bytes that are sent at a rate in a given time.
pub(super) fn bytes_at_rate(rate_bps: u64, time: Picos) -> f64 {
    rate_bps as f64 * time.0 as f64 / 8e12
}

/// Returns the rate in bits per second at which `bytes` bytes need the time `time`. A time of 0 counts as
/// 1 ps.
pub(super) fn rate_for_bytes(bytes: f64, time: Picos) -> f64 {
    bytes * 8e12 / time.0.max(1) as f64
}

/// Returns a window in whole bytes. The result is at least 1, so that one packet can always be in flight.
pub(super) fn window_to_bytes(window: f64) -> u64 {
    (window as u64).max(1)
}
