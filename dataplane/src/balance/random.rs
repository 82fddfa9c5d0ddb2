//! Random numbers for load balancing.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A random number generator (xoshiro256++). Each load balancing group has its own generator, so groups do
/// not influence each other.
#[derive(Clone, Debug)]
pub struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// Creates the generator number `stream` of a switch with the seed `seed`. Equal arguments give
    /// equal numbers.
    pub fn new(seed: u64, stream: u64) -> RandomStream {
        // The golden ratio spreads adjacent streams over the seed space, and seed_from_u64 mixes
        // the bits further.
        let seed = seed ^ (stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6c6f_6164;
        RandomStream(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a random number from 0 to `bound - 1`. The bound must be at least 1. The probabilities of two
    /// numbers differ by at most 2^-32.
    #[inline]
    pub fn next_below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}
