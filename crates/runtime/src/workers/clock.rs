//! Reads wall time, and converts it to model time.

use nix::time::{ClockId, clock_gettime};
use xoff_units::Picos;

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read_clock_ns(ClockId::CLOCK_MONOTONIC)
}

/// Returns the time of `CLOCK_REALTIME` in nanoseconds.
pub fn realtime_ns() -> u64 {
    read_clock_ns(ClockId::CLOCK_REALTIME)
}

fn read_clock_ns(clock: ClockId) -> u64 {
    // Linux has both clocks since 2.6, so the call cannot fail.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// A clock that converts between wall time and model time. Model time runs `dilation` times slower than
/// wall time.
#[derive(Clone, Copy, Debug)]
pub struct ModelClock {
    epoch_ns: u64,
    dilation: u64,
}

impl ModelClock {
    /// Creates a clock. Model time is zero at the wall time `epoch_ns`, in nanoseconds of `CLOCK_MONOTONIC`.
    /// A `dilation` of 0 counts as 1.
    pub fn new(epoch_ns: u64, dilation: u32) -> ModelClock {
        ModelClock {
            epoch_ns,
            dilation: u64::from(dilation.max(1)),
        }
    }

    /// Converts a wall time in nanoseconds of `CLOCK_MONOTONIC` to model time, rounded down. The result is
    /// zero for times before the epoch.
    pub fn model_time(&self, wall_ns: u64) -> Picos {
        let since = wall_ns.saturating_sub(self.epoch_ns).saturating_mul(1_000);
        Picos(match self.dilation {
            1 => since, // saves a division for each frame
            dilation => since / dilation,
        })
    }

    /// Converts a duration in model time to wall time, in nanoseconds. `span` is first rounded down to
    /// full nanoseconds.
    pub fn wall_span_ns(&self, span: Picos) -> u64 {
        (span.0 / 1_000).saturating_mul(self.dilation)
    }

    /// Converts a model time to wall time, in nanoseconds of `CLOCK_MONOTONIC`, rounded up. A thread that
    /// sleeps until this wall time does not wake up too early. The result is `u64::MAX` if the time is too
    /// far in the future.
    pub fn wall_ns(&self, model_time: Picos) -> u64 {
        let wall_ns = match model_time.0.checked_mul(self.dilation) {
            Some(wall) => wall.div_ceil(1_000),
            None => {
                let wall = u128::from(model_time.0) * u128::from(self.dilation);
                u64::try_from(wall.div_ceil(1_000)).unwrap_or(u64::MAX)
            }
        };
        self.epoch_ns.saturating_add(wall_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_converts_between_wall_time_and_dilated_model_time() {
        let clock = ModelClock::new(1_000, 10);
        assert_eq!(clock.model_time(1_000), Picos::ZERO);
        assert_eq!(clock.model_time(2_000), Picos::from_nanos(100));
        assert_eq!(clock.wall_ns(Picos::from_nanos(100)), 2_000);
        assert_eq!(clock.wall_ns(Picos(1)), 1_001);
        let undilated = ModelClock::new(1_000, 1);
        assert_eq!(undilated.model_time(2_000), Picos::from_nanos(1_000));
        assert_eq!(undilated.wall_ns(Picos(1_000_001)), 2_001);
        assert_eq!(clock.wall_ns(Picos(u64::MAX)), 1_000 + u64::MAX / 100 + 1);
        assert_eq!(ModelClock::new(1, 10_000).wall_ns(Picos::NEVER), u64::MAX);
    }
}
