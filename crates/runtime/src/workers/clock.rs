//! Wall time and model time.

use nix::time::{ClockId, clock_gettime};
use xoff_units::Picos;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of CLOCK_REALTIME.
pub fn realtime_ns() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> u64 {
    // Linux has had both clocks since 2.6; a failure is not a state a program can be in.
    clock_gettime(clock).map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Model time as a view of wall time: it starts at zero and runs `dilate` times slower.
#[derive(Clone, Copy, Debug)]
pub struct ModelClock {
    epoch_ns: u64,
    dilate: u64,
}

impl ModelClock {
    /// A clock that reads zero at wall time `epoch_ns`.
    pub fn new(epoch_ns: u64, dilate: u32) -> ModelClock {
        ModelClock {
            epoch_ns,
            dilate: u64::from(dilate.max(1)),
        }
    }

    /// The model time at a wall time; zero before the epoch.
    pub fn at(&self, wall_ns: u64) -> Picos {
        let since = wall_ns.saturating_sub(self.epoch_ns).saturating_mul(1_000);
        Picos(match self.dilate {
            1 => since, // a division a frame less
            dilate => since / dilate,
        })
    }

    /// How long a span of model time lasts on the wall, in nanoseconds, rounded down.
    pub fn span_ns(&self, span: Picos) -> u64 {
        (span.0 / 1_000).saturating_mul(self.dilate)
    }

    /// The wall time of a model time, rounded up, so that waiting until then is waiting long enough.
    pub fn wall_ns(&self, at: Picos) -> u64 {
        let wall_ns = match at.0.checked_mul(self.dilate) {
            Some(wall) => wall.div_ceil(1_000),
            None => {
                let wall = u128::from(at.0) * u128::from(self.dilate);
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
    fn model_time_runs_slower_by_the_dilation_and_back() {
        let clock = ModelClock::new(1_000, 10);
        assert_eq!(clock.at(1_000), Picos::ZERO);
        assert_eq!(clock.at(2_000), Picos::from_nanos(100));
        assert_eq!(clock.wall_ns(Picos::from_nanos(100)), 2_000);
        assert_eq!(clock.wall_ns(Picos(1)), 1_001);
        let as_fast = ModelClock::new(1_000, 1);
        assert_eq!(as_fast.at(2_000), Picos::from_nanos(1_000));
        assert_eq!(as_fast.wall_ns(Picos(1_000_001)), 2_001);
        assert_eq!(clock.wall_ns(Picos(u64::MAX)), 1_000 + u64::MAX / 100 + 1);
        assert_eq!(ModelClock::new(1, 10_000).wall_ns(Picos::NEVER), u64::MAX);
    }
}
