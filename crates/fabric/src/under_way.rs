//! How many frames are under way, and the most there were at once: the same whatever order the parts of a fabric are handled in.
//!
//! Time is cut into pieces, and of a piece it is only kept how many frames came and how many went. As if in each piece all came before any
//! went, so that the peak is too high by what goes within the nanoseconds of a piece, at most.

use xoff_units::Picos;

/// Pieces that are not settled yet: more than a window has.
const PIECES: usize = 512;

/// A count of frames, and its peak.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    /// A piece is 2^this picoseconds.
    piece_bits: u32,
    /// Frames at the beginning of the first piece that is not settled.
    settled: usize,
    /// The most there were up to then.
    peak: usize,
    /// Number of that piece.
    first: u64,
    /// When what happens now happens.
    now: Picos,
    /// Frames that came and went in each piece, at its number modulo [`PIECES`].
    came: Box<[u32; PIECES]>,
    went: Box<[u32; PIECES]>,
}

impl Default for UnderWay {
    fn default() -> UnderWay {
        UnderWay::new(Picos(PIECES as u64))
    }
}

impl UnderWay {
    /// None. `window`: so far ahead of what was settled changes may lie.
    pub(super) fn new(window: Picos) -> UnderWay {
        UnderWay {
            // A window may begin and end within a piece.
            piece_bits: (2 * window.0 / PIECES as u64).max(1).ilog2(),
            settled: 0,
            peak: 0,
            first: 0,
            now: Picos::ZERO,
            came: Box::new([0; PIECES]),
            went: Box::new([0; PIECES]),
        }
    }

    /// How many there are.
    pub(super) fn now(&self) -> usize {
        let sum = |counts: &[u32; PIECES]| counts.iter().map(|count| *count as usize).sum::<usize>();
        self.settled + sum(&self.came) - sum(&self.went)
    }

    /// The most there were.
    pub(super) fn peak(&self) -> usize {
        let mut ahead = self.clone();
        ahead.settle_pieces(self.first + PIECES as u64);
        ahead.peak
    }

    /// What happens from now on happens at `at`, which is no earlier than what was settled, nor more than a window later.
    #[inline]
    pub(super) fn at(&mut self, at: Picos) {
        debug_assert!((at.0 >> self.piece_bits).wrapping_sub(self.first) < PIECES as u64);
        self.now = at;
    }

    /// The place of the piece in which it happens.
    #[inline]
    fn current(&self) -> usize {
        (self.now.0 >> self.piece_bits) as usize % PIECES
    }

    /// One more.
    #[inline]
    pub(super) fn add(&mut self) {
        self.came[self.current()] += 1;
    }

    /// One less.
    #[inline]
    pub(super) fn remove(&mut self) {
        self.went[self.current()] += 1;
    }

    /// Nothing will be earlier than `until`.
    #[inline]
    pub(super) fn settle(&mut self, until: Picos) {
        let piece = until.0 >> self.piece_bits;
        if piece > self.first {
            self.settle_pieces(piece);
        }
    }

    /// Settles all pieces before one.
    fn settle_pieces(&mut self, end: u64) {
        for piece in self.first..end.min(self.first + PIECES as u64) {
            let place = piece as usize % PIECES;
            let most = self.settled + self.came[place] as usize;
            self.peak = self.peak.max(most);
            self.settled = most - self.went[place] as usize;
            (self.came[place], self.went[place]) = (0, 0);
        }
        self.first = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    /// Changes of windows in any order, beside the same in the order of time.
    #[test]
    fn the_order_within_a_window_is_nothing_to_it() {
        let mut draw = random_generator(1);
        let longest = 1_048_576;
        let (mut apart, mut together) = (UnderWay::new(Picos(longest)), UnderWay::new(Picos(longest)));
        let (mut begin, mut exact, mut most) = (0, 0, 0);
        for round in 0..2_000 {
            let span = 1 + draw(longest);
            let mut times: Vec<u64> = (0..draw(60)).map(|_| begin + draw(span)).collect();
            times.sort_unstable();
            let mut changes: Vec<(u64, bool)> = Vec::new();
            let mut held = exact;
            for at in times {
                let more = held == 0 || draw(2) == 0;
                held = if more { held + 1 } else { held - 1 };
                changes.push((at, more));
            }
            apart.settle(Picos(begin));
            for (at, more) in changes.iter().rev() {
                apart.at(Picos(*at));
                if *more {
                    apart.add()
                } else {
                    apart.remove()
                };
            }
            apart.settle(Picos(begin + span));
            for (at, more) in changes {
                together.settle(Picos(at));
                together.at(Picos(at));
                if more {
                    together.add()
                } else {
                    together.remove()
                };
                exact = if more { exact + 1 } else { exact - 1 };
                most = most.max(exact);
            }
            assert_eq!(
                (apart.now(), apart.peak()),
                (together.now(), together.peak()),
                "{round}"
            );
            assert_eq!(apart.now() as i64, exact, "{round}");
            // Time may pass without anything.
            begin += span + if draw(4) == 0 { draw(1 << 30) } else { 0 };
        }
        let peak = apart.peak() as i64;
        assert!((most..most + 5).contains(&peak), "{peak}, exactly {most}");
    }
}
