//! Kernel time stamps are of `CLOCK_REALTIME`; everything here counts in `CLOCK_MONOTONIC`.

use nix::time::{ClockId, clock_gettime};

/// How often the difference of the clocks is measured again: NTP slews by at most 500 us a second, so that a stamp is off
/// by 50 us at most. (A step of the clock is seen at the next measurement.)
const REFRESH_NS: u64 = 100_000_000;

/// Now, in nanoseconds of `CLOCK_MONOTONIC`.
pub(super) fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

fn read(clock: ClockId) -> u64 {
    // Both clocks exist on every Linux, so this cannot fail.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Turns kernel time stamps into monotonic time.
#[derive(Debug, Default)]
pub(super) struct StampClock {
    /// Real time minus monotonic time.
    difference_ns: i64,
    measured_ns: u64,
    now_ns: u64,
}

impl StampClock {
    /// Reads the time, once per burst, and measures the difference again if that was long ago.
    pub(super) fn tick(&mut self) {
        self.now_ns = monotonic_ns();
        if self.measured_ns == 0 || self.now_ns - self.measured_ns > REFRESH_NS {
            let before = monotonic_ns();
            let real = read(ClockId::CLOCK_REALTIME);
            let after = monotonic_ns();
            // Real time was read about halfway between.
            self.difference_ns = real as i64 - (before + (after - before) / 2) as i64;
            self.measured_ns = after;
        }
    }

    /// A stamp in monotonic time, never later than the last [`tick`](StampClock::tick) by more than the burst took.
    pub(super) fn convert(&self, seconds: u32, nanos: u32) -> u64 {
        let real = i64::from(seconds) * 1_000_000_000 + i64::from(nanos);
        (real - self.difference_ns).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_now_is_now() {
        let mut clock = StampClock::default();
        clock.tick();
        let real = read(ClockId::CLOCK_REALTIME);
        let stamp = clock.convert((real / 1_000_000_000) as u32, (real % 1_000_000_000) as u32);
        let now = monotonic_ns();
        // Not a matter of speed: both say the same moment, up to what passed between the two readings.
        assert!(stamp >= clock.now_ns.saturating_sub(1_000_000) && stamp <= now + 1_000_000);
    }

    #[test]
    fn a_stamp_of_before_the_boot_is_zero() {
        let mut clock = StampClock::default();
        clock.tick();
        assert_eq!(clock.convert(0, 5), 0);
    }
}
