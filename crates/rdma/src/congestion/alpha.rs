//! DCQCN's estimate of congestion, kept without an event per update.

use xoff_units::Picos;

/// Below this, alpha counts as zero: `1 - alpha / 2` is 1 and `(1 - g) * alpha + g` is `g` to the last bit of a double,
/// for each `g` in its range.
const NEGLIGIBLE: f64 = 1e-30;

/// Alpha, updated once per interval: `alpha = (1 - g) * alpha`, plus `g` if it was flagged since the update before.
///
/// Nobody sees alpha between notifications and rate cuts, so the updates are made up for when it is asked for.
#[derive(Clone, Debug)]
pub(super) struct Alpha {
    value: f64,
    g: f64,
    interval: Picos,
    /// Time of the first update not yet made; [`Picos::NEVER`] before the start.
    next: Picos,
    flagged: bool,
}

impl Alpha {
    /// Not started: it stays at `value`.
    pub(super) fn new(value: f64, g: f64, interval: Picos) -> Alpha {
        Alpha {
            value,
            g,
            interval: interval.max(Picos(1)),
            next: Picos::NEVER,
            flagged: false,
        }
    }

    /// Sets the first update one interval after `now`, the others on the grid from there.
    pub(super) fn start(&mut self, now: Picos) {
        self.next = now.saturating_add(self.interval);
    }

    /// Raises it as a congested interval does.
    pub(super) fn rise(&mut self) {
        self.value = (1.0 - self.g) * self.value + self.g;
    }

    /// Makes the next update one of congestion.
    pub(super) fn flag(&mut self) {
        self.flagged = true;
    }

    /// Its value once the updates up to and including `now` are made.
    pub(super) fn at(&mut self, now: Picos) -> f64 {
        if self.flagged && self.next <= now {
            self.flagged = false;
            self.rise();
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
    fn updates_are_made_up_for_on_the_grid() {
        let mut alpha = Alpha::new(1.0, 0.25, Picos(10));
        assert_eq!(alpha.at(Picos(1_000)), 1.0, "not started");
        alpha.start(Picos(5));
        assert_eq!(alpha.at(Picos(14)), 1.0);
        assert_eq!(alpha.at(Picos(15)), 0.75);
        assert_eq!(alpha.at(Picos(36)), 0.75 * 0.75 * 0.75);
        alpha.flag();
        assert_eq!(alpha.at(Picos(55)), (0.75 * 0.421875 + 0.25) * 0.75);
    }

    #[test]
    fn a_long_silence_ends_at_zero_and_on_the_same_grid() {
        let mut alpha = Alpha::new(1.0, 1.0 / 256.0, Picos(7));
        alpha.start(Picos(0));
        assert_eq!(alpha.at(Picos(7_000_000_003)), 0.0);
        alpha.flag();
        assert_eq!(alpha.at(Picos(7_000_000_006)), 0.0);
        assert_eq!(alpha.at(Picos(7_000_000_007)), 1.0 / 256.0);
    }
}
