//! How many frames are under way, and the most there were at once: also where some parts of a fabric are ahead of others.

use xoff_dataplane::Picos;

/// Pieces of a window, when it is asked whether there may have been more frames than ever.
const PIECES: usize = 64;

/// A count of frames, and its peak in the order of events.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay {
    now: usize,
    peak: usize,
    /// The key of the event that is handled, where changes are written down.
    moment: Option<u128>,
    /// The changes of a window: the key of the event of each, and whether there was one more frame or one less. In the order in which they were
    /// handled, so those of one event in theirs.
    changes: Vec<(u128, bool)>,
}

impl UnderWay {
    /// How many there are. Between two windows.
    pub(super) fn now(&self) -> usize {
        self.now
    }

    /// The most there were. Between two windows.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    /// Changes from now on are those of an event with this key, and counted by [`UnderWay::settle`].
    #[inline]
    pub(super) fn at(&mut self, key: u128) {
        self.moment = Some(key);
    }

    /// One more.
    #[inline]
    pub(super) fn add(&mut self) {
        match self.moment {
            Some(key) => self.changes.push((key, true)),
            None => {
                self.now += 1;
                self.peak = self.peak.max(self.now);
            }
        }
    }

    /// One less.
    #[inline]
    pub(super) fn remove(&mut self) {
        match self.moment {
            Some(key) => self.changes.push((key, false)),
            None => self.now -= 1,
        }
    }

    /// A window is over that began at `begin` and was no longer than `span`: counts its changes, as if they had been told in the order of
    /// their events. They are only put into that order where there may have been more frames than ever.
    pub(super) fn settle(&mut self, begin: Picos, span: Picos) {
        self.moment = None;
        if self.most_by_pieces(begin, span) > self.peak {
            self.changes.sort_by_key(|(key, _)| *key);
            let mut now = self.now;
            for (_, more) in &self.changes {
                now = if *more { now + 1 } else { now - 1 };
                self.peak = self.peak.max(now);
            }
        }
        let more = self.changes.iter().filter(|(_, more)| *more).count();
        self.now = self.now + 2 * more - self.changes.len();
        self.changes.clear();
    }

    /// No fewer than there were at any time of the window: as if in each short piece of it all came before any went.
    fn most_by_pieces(&self, begin: Picos, span: Picos) -> usize {
        let bits = u64::BITS - span.0.leading_zeros();
        let shift = bits.saturating_sub(PIECES.ilog2());
        let mut pieces = [(0, 0); PIECES];
        for (key, more) in &self.changes {
            let at = (key >> 64) as u64;
            let (came, went) = &mut pieces[(at.saturating_sub(begin.0) >> shift) as usize % PIECES];
            *if *more { came } else { went } += 1;
        }
        let mut most = self.now;
        let mut now = self.now;
        for (came, went) in pieces {
            most = most.max(now + came);
            // What went came before.
            now = (now + came).saturating_sub(went);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of two parts, of which the second is handled after all of the first, beside the same changes in order.
    #[test]
    fn the_peak_is_that_of_the_order_of_events() {
        let mut state = 1_u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut apart, mut together) = (UnderWay::default(), UnderWay::default());
        let mut begin = 0;
        for round in 0..400 {
            let span = 1 + draw(2_000_000);
            let mut changes = Vec::new();
            // Each part takes out what it has put in, and comes back to where it was in the end.
            for part in 0..2_u128 {
                let mut at = begin;
                let mut held = 0;
                for _ in 0..draw(60) {
                    at += draw(1 + (begin + span - 1 - at) / 8);
                    let more = held == 0 || draw(2) == 0;
                    held += if more { 1 } else { -1 };
                    changes.push((u128::from(at) << 64 | part, more));
                }
                for _ in 0..held {
                    changes.push((u128::from(begin + span - 1) << 64 | part, false));
                }
            }
            for (key, more) in &changes {
                apart.at(*key);
                if *more {
                    apart.add()
                } else {
                    apart.remove()
                };
            }
            apart.settle(Picos(begin), Picos(span));
            changes.sort_by_key(|(key, _)| *key);
            for (_, more) in changes {
                if more {
                    together.add()
                } else {
                    together.remove()
                };
            }
            assert_eq!(
                (apart.now(), apart.peak()),
                (together.now(), together.peak()),
                "{round}"
            );
            begin += span;
        }
        assert!(apart.peak() > 5, "{}", apart.peak());
    }
}
