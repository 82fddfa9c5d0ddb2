//! Poll times of the watchdog.

use xoff_units::Picos;

/// The shortest poll interval. Shorter configured intervals are replaced by it.
const POLL_MIN: Picos = Picos::from_micros(1);

/// Poll times: multiples of an interval from an origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollSchedule {
    origin: Picos,
    interval: Picos,
}

impl PollSchedule {
    pub(crate) fn new(origin: Picos, interval: Picos) -> PollSchedule {
        PollSchedule {
            origin,
            interval: interval.max(POLL_MIN),
        }
    }

    /// Returns the poll interval.
    pub(crate) fn interval(&self) -> Picos {
        self.interval
    }

    /// Returns the time of the first poll after `now`.
    pub(crate) fn next_after(&self, now: Picos) -> Picos {
        self.poll_time(self.poll_count(now).saturating_add(1))
    }

    /// Returns the start of the last poll interval that was complete at `now`: the time of the poll before
    /// the latest poll.
    pub(crate) fn interval_start(&self, now: Picos) -> Picos {
        self.poll_time(self.poll_count(now).saturating_sub(1))
    }

    fn poll_count(&self, now: Picos) -> u64 {
        now.since(self.origin).0 / self.interval.0
    }

    fn poll_time(&self, number: u64) -> Picos {
        self.origin
            .saturating_add(Picos(self.interval.0.saturating_mul(number)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_multiples_of_the_interval_from_the_origin() {
        let ms = Picos::from_millis;
        let grid = PollSchedule::new(ms(7), ms(200));
        assert_eq!(grid.next_after(ms(7)), ms(207));
        assert_eq!(grid.next_after(Picos(ms(207).0 - 1)), ms(207));
        assert_eq!(
            grid.next_after(ms(207)),
            ms(407),
            "the one that is now has been done"
        );
        assert_eq!(grid.interval_start(ms(407)), ms(207));
        assert_eq!(
            grid.interval_start(ms(410)),
            ms(207),
            "a late interval is about the same interval"
        );
        assert_eq!(grid.interval_start(ms(8)), ms(7));
    }

    #[test]
    fn interval_has_a_minimum_and_times_saturate() {
        let grid = PollSchedule::new(Picos::ZERO, Picos::ZERO);
        assert_eq!(grid.next_after(Picos::ZERO), POLL_MIN);
        assert_eq!(grid.next_after(Picos::NEVER), Picos::NEVER);
    }
}
