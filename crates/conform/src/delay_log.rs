//! Delays of wake-ups and frames in real time.

use xoff_units::Picos;

/// Largest number of delays that are kept. Later ones replace the shortest.
const DELAYS_MAX: usize = 512;

/// A delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    /// End of the delay.
    pub(crate) at: Picos,
    /// Length of the delay.
    pub(crate) length: Picos,
}

/// The delays that were longer than a criterion of time tolerates.
#[derive(Clone, Debug, Default)]
pub(crate) struct DelayLog {
    delays: Vec<Delay>,
}

impl DelayLog {
    /// Notes a delay if it is longer than `tolerated`. Delays that overlap the one before are one delay: a stall delays
    /// many frames.
    pub(crate) fn add(&mut self, at: Picos, length: Picos, tolerated: Picos) {
        if length <= tolerated {
            return;
        }
        if let Some(last) = self.delays.last_mut()
            && at.since(length) <= last.at
            && last.at.since(last.length) <= at
        {
            let start = last.at.since(last.length).min(at.since(length));
            last.at = last.at.max(at);
            last.length = last.at.since(start);
            return;
        }
        if self.delays.len() >= DELAYS_MAX {
            let shortest = self.delays.iter_mut().min_by_key(|delay| delay.length);
            match shortest {
                Some(shortest) if shortest.length < length => *shortest = Delay { at, length },
                _ => {}
            }
            return;
        }
        self.delays.push(Delay { at, length });
    }

    /// Returns the delays in no order.
    pub(crate) fn delays(&self) -> &[Delay] {
        &self.delays
    }

    /// Returns the longest delay.
    pub(crate) fn longest(&self) -> Picos {
        self.delays
            .iter()
            .map(|delay| delay.length)
            .max()
            .unwrap_or_default()
    }

    /// Returns the sum of the delays that overlap a span of time.
    pub(crate) fn total_in(&self, from: Picos, until: Picos) -> Picos {
        let overlaps = |delay: &&Delay| delay.at >= from && delay.at.since(delay.length) <= until;
        let lengths = self.delays.iter().filter(overlaps).map(|delay| delay.length);
        lengths.fold(Picos::ZERO, Picos::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_delays_are_kept_and_added_by_their_time() {
        let mut log = DelayLog::default();
        let tolerated = Picos(10);
        log.add(Picos(1_000), Picos(10), tolerated);
        assert_eq!(log.total_in(Picos::ZERO, Picos::NEVER), Picos::ZERO);
        log.add(Picos(1_000), Picos(100), tolerated);
        log.add(Picos(2_000), Picos(50), tolerated);
        assert_eq!(log.total_in(Picos(950), Picos(960)), Picos(100));
        assert_eq!(log.total_in(Picos(1_001), Picos(3_000)), Picos(50));
        assert_eq!(log.total_in(Picos(950), Picos(3_000)), Picos(150));
        assert_eq!(log.total_in(Picos(2_001), Picos(3_000)), Picos::ZERO);
        for number in 0..2 * DELAYS_MAX as u64 {
            log.add(Picos(10_000 + 100 * number), Picos(60), tolerated);
        }
        assert_eq!(log.delays().len(), DELAYS_MAX);
        assert_eq!(log.longest(), Picos(100));
    }

    #[test]
    fn the_delays_of_a_stall_are_one_delay() {
        let mut log = DelayLog::default();
        for (at, length) in [
            (1_000, 500),
            (1_010, 400),
            (1_020, 300),
            (1_300, 200),
            (2_000, 100),
        ] {
            log.add(Picos(at), Picos(length), Picos(10));
        }
        let expected = [(1_020, 520), (1_300, 200), (2_000, 100)].map(|(at, length)| Delay {
            at: Picos(at),
            length: Picos(length),
        });
        assert_eq!(log.delays(), expected);
    }
}
