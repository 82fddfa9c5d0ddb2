//! Alpha, the estimate of congestion in DCQCN. The updates of alpha need no events.

use xoff_units::Picos;

/// If alpha is below this value, it counts as zero. In double precision, `1 - alpha / 2` is then equal to 1,
/// and `(1 - g) * alpha + g` is equal to `g`, for each `g` in its range.
const NEGLIGIBLE: f64 = 1e-30;

/// Alpha of DCQCN, updated once per interval. If congestion was reported since the last update, the new value
/// is `(1 - g) * alpha + g`. Otherwise it is `(1 - g) * alpha`.
///
/// The value alpha is needed only at notifications and rate cuts. Before each use, all updates since the
/// previous use are computed.
#[derive(Clone, Debug)]
pub(super) struct AlphaEstimator {
    value: f64,
    g: f64,
    interval: Picos,
    /// Time of the first update that is not computed yet. [`Picos::NEVER`] before the start.
    next: Picos,
    is_congested: bool,
}

impl AlphaEstimator {
    /// Creates an estimator without updates: alpha remains `value` until the start.
    pub(super) fn new(value: f64, g: f64, interval: Picos) -> AlphaEstimator {
        AlphaEstimator {
            value,
            g,
            interval: interval.max(Picos(1)),
            next: Picos::NEVER,
            is_congested: false,
        }
    }

    /// Starts the updates. The first one is one interval after `now`.
    pub(super) fn start_updates(&mut self, now: Picos) {
        self.next = now.saturating_add(self.interval);
    }

    /// Applies the update of an interval with congestion.
    pub(super) fn increase_on_congestion(&mut self) {
        self.value = (1.0 - self.g) * self.value + self.g;
    }

    /// Reports congestion for the next update.
    pub(super) fn mark_congested(&mut self) {
        self.is_congested = true;
    }

    /// Returns alpha after all updates up to and including `now`.
    pub(super) fn value_at(&mut self, now: Picos) -> f64 {
        if self.is_congested && self.next <= now {
            self.is_congested = false;
            self.increase_on_congestion();
            self.next = self.next.saturating_add(self.interval);
        }
        while self.next <= now && self.value > NEGLIGIBLE {
            self.value *= 1.0 - self.g;
            self.next = self.next.saturating_add(self.interval);
        }
        if self.next <= now && self.next != Picos::NEVER {
            self.value = 0.0;
            let missed = (now - self.next).0 / self.interval.0 + 1;
            self.next = self
                .next
                .saturating_add(Picos(missed.saturating_mul(self.interval.0)));
        }
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_updates_are_computed_at_the_next_read() {
        let mut alpha = AlphaEstimator::new(1.0, 0.25, Picos(10));
        assert_eq!(alpha.value_at(Picos(1_000)), 1.0, "not started");
        alpha.start_updates(Picos(5));
        assert_eq!(alpha.value_at(Picos(14)), 1.0);
        assert_eq!(alpha.value_at(Picos(15)), 0.75);
        assert_eq!(alpha.value_at(Picos(36)), 0.75 * 0.75 * 0.75);
        alpha.mark_congested();
        assert_eq!(alpha.value_at(Picos(55)), (0.75 * 0.421875 + 0.25) * 0.75);
    }

    #[test]
    fn after_a_long_time_alpha_is_zero() {
        let mut alpha = AlphaEstimator::new(1.0, 1.0 / 256.0, Picos(7));
        alpha.start_updates(Picos(0));
        assert_eq!(alpha.value_at(Picos(7_000_000_003)), 0.0);
        alpha.mark_congested();
        assert_eq!(alpha.value_at(Picos(7_000_000_006)), 0.0);
        assert_eq!(alpha.value_at(Picos(7_000_000_007)), 1.0 / 256.0);
    }
}
