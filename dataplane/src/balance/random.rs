//! The random part of load balancing.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers (xoshiro256++): one for each group, so that groups do not disturb each other.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream with a number of a switch with a seed.
    pub fn new(seed: u64, stream: u64) -> Random {
        // The golden ratio spreads neighbouring streams over the seed space; seed_from_u64 mixes further.
        let seed = seed ^ (stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6c6f_6164;
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The next 32 bits.
    #[inline]
    pub fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// The next 64 bits.
    #[inline]
    pub fn long_bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is at least 1. Its chances differ by less than `bound` in 2^32.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.bits()) * u64::from(bound)) >> 32) as u32
    }
}
