//! Limits on rates.

use std::time::{Duration, Instant};

/// A limit on the rate of units, such as bytes or requests. Unused units accumulate up to the burst. The limit
/// stores one time (the generic cell rate algorithm), so it needs no timer.
#[derive(Clone, Debug)]
pub(crate) struct RateLimit {
    per_second: u64,
    burst: Duration,
    /// The time at which all used units are paid off.
    paid_at: Option<Instant>,
}

impl RateLimit {
    /// Creates a limit of `per_second` units per second, with `burst` units at once.
    pub(crate) fn new(per_second: u64, burst: u64) -> RateLimit {
        RateLimit {
            per_second,
            burst: duration_of(burst, per_second),
            paid_at: None,
        }
    }

    /// Uses units, even if the limit does not permit them now. Returns the time from which the next use is
    /// permitted, or `None` if it is permitted at once.
    pub(crate) fn charge(&mut self, now: Instant, units: u64) -> Option<Instant> {
        self.paid_at = Some(self.paid_after(now, units));
        self.permitted_at(now)
    }

    /// Returns the time from which the next use is permitted, or `None` if it is permitted at once.
    pub(crate) fn permitted_at(&self, now: Instant) -> Option<Instant> {
        self.paid_at?.checked_sub(self.burst).filter(|time| *time > now)
    }

    /// Uses one unit if the limit permits it now. Returns whether it does.
    pub(crate) fn try_take(&mut self, now: Instant) -> bool {
        let paid_at = self.paid_after(now, 1);
        let is_permitted = paid_at.checked_sub(self.burst).is_none_or(|time| time <= now);
        if is_permitted {
            self.paid_at = Some(paid_at);
        }
        is_permitted
    }

    fn paid_after(&self, now: Instant, units: u64) -> Instant {
        let start = self.paid_at.map_or(now, |time| time.max(now));
        start + duration_of(units, self.per_second)
    }
}

fn duration_of(units: u64, per_second: u64) -> Duration {
    Duration::from_nanos(units.saturating_mul(1_000_000_000) / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_permitted_and_then_the_rate() {
        let start = Instant::now();
        let mut limit = RateLimit::new(100, 10);
        let taken = (0..1_000).filter(|_| limit.try_take(start)).count();
        assert_eq!(taken, 10);
        // In the next second, one unit is permitted each 10 ms.
        let taken = (1..=1_000)
            .filter(|ms| limit.try_take(start + Duration::from_millis(*ms)))
            .count();
        assert_eq!(taken, 100);
        // Unused units accumulate only up to the burst.
        let later = start + Duration::from_secs(100);
        assert_eq!((0..1_000).filter(|_| limit.try_take(later)).count(), 10);
    }

    #[test]
    fn a_charge_beyond_the_limit_states_the_time_to_wait() {
        let start = Instant::now();
        let mut limit = RateLimit::new(1_000, 500);
        assert_eq!(limit.charge(start, 500), None);
        assert_eq!(limit.charge(start, 250), Some(start + Duration::from_millis(250)));
        assert_eq!(limit.charge(start + Duration::from_millis(750), 1), None);
    }
}
