//! Converts time stamps of the kernel (`CLOCK_REALTIME`) to `CLOCK_MONOTONIC`.

use nix::time::{ClockId, clock_gettime};

/// Time in nanoseconds between two measurements of the difference between the clocks. NTP slews a clock by at
/// most 500 us per second. A converted time stamp is therefore wrong by at most 50 us. If a clock is stepped,
/// the next measurement corrects the difference.
const REFRESH_NS: u64 = 100_000_000;

/// Returns the current time of `CLOCK_MONOTONIC` in nanoseconds.
pub(super) fn monotonic_ns() -> u64 {
    read_clock(ClockId::CLOCK_MONOTONIC)
}

fn read_clock(clock: ClockId) -> u64 {
    // Both clocks exist on every Linux, so the call cannot fail.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Converts time stamps of the kernel to monotonic time.
#[derive(Debug, Default)]
pub(super) struct KernelTimestampConverter {
    /// Real time minus monotonic time, in nanoseconds.
    difference_ns: i64,
    measured_ns: u64,
    now_ns: u64,
}

impl KernelTimestampConverter {
    /// Reads the present time. If the last measurement of the clock difference is too old, the function also
    /// measures the difference again. Called once for each burst.
    pub(super) fn update(&mut self) {
        self.now_ns = monotonic_ns();
        if self.measured_ns == 0 || self.now_ns - self.measured_ns > REFRESH_NS {
            let before = monotonic_ns();
            let real = read_clock(ClockId::CLOCK_REALTIME);
            let after = monotonic_ns();
            // The real time was read about halfway between the two other readings.
            self.difference_ns = real as i64 - (before + (after - before) / 2) as i64;
            self.measured_ns = after;
        }
    }

    /// Converts a time stamp of the kernel to nanoseconds of `CLOCK_MONOTONIC`. Time stamps before the boot
    /// become 0.
    pub(super) fn to_monotonic_ns(&self, seconds: u32, nanos: u32) -> u64 {
        let real = i64::from(seconds) * 1_000_000_000 + i64::from(nanos);
        (real - self.difference_ns).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_real_time_converts_to_current_monotonic_time() {
        let mut clock = KernelTimestampConverter::default();
        clock.update();
        let real = read_clock(ClockId::CLOCK_REALTIME);
        let stamp = clock.to_monotonic_ns((real / 1_000_000_000) as u32, (real % 1_000_000_000) as u32);
        let now = monotonic_ns();
        // 1 ms covers the time between the readings.
        assert!(stamp >= clock.now_ns.saturating_sub(1_000_000) && stamp <= now + 1_000_000);
    }

    #[test]
    fn time_stamps_before_the_boot_become_zero() {
        let mut clock = KernelTimestampConverter::default();
        clock.update();
        assert_eq!(clock.to_monotonic_ns(0, 5), 0);
    }
}
