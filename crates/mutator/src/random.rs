//! Random numbers of a mutant. The same seed gives the same numbers on every machine.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Creates the stream of one mutant of a run.
    pub fn new(seed: u64, mutant: u64) -> Random {
        // The factor separates the streams of mutants with neighbouring numbers.
        let mixed = seed ^ mutant.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// Returns a number from 0 to `count` - 1. Returns 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        match count {
            0 => 0,
            count => (self.0.next_u64() % count as u64) as usize,
        }
    }

    /// Returns true in one of `n` cases on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns a random element. `None` if the slice is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Returns two positions in order, from 0 to `len`.
    pub fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let (a, b) = (self.below(len + 1), self.below(len + 1));
        a.min(b)..a.max(b)
    }

    /// Returns a short range from 0 to `len`, with at most `longest` positions.
    pub fn short_range(&mut self, len: usize, longest: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        start..(start + self.below(longest) + 1).min(len)
    }

    /// Returns a random byte.
    pub fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}
