//! Random numbers that are the same on every machine. The methods use only integers and comparisons. The
//! result of the logarithm function can differ between platforms, so the methods do not use this function.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers that depends only on its seed.
#[derive(Clone, Debug)]
pub(super) struct RandomStream {
    random: Xoshiro256PlusPlus,
}

impl RandomStream {
    /// Creates random stream number `stream` of a seed. Each job and each source of random arrivals uses a
    /// different stream.
    pub(super) fn new(seed: u64, stream: u64) -> RandomStream {
        // The golden ratio spreads neighbouring streams over the seed space. `seed_from_u64` mixes the result
        // further.
        let seed = seed ^ (stream + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        RandomStream {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Returns a random integer below `bound`. `bound` is at least 1.
    pub(super) fn integer_below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a random number from 0 up to but not including 1.
    pub(super) fn unit_interval(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random number with an exponential distribution. `mean` is the mean of the distribution. The
    /// method of von Neumann needs only comparisons: it draws uniform numbers as long as they decrease. If
    /// the first number is `u`, the length of this decreasing run is odd with probability `exp(-u)`.
    pub(super) fn exponential(&mut self, mean: u64) -> u64 {
        for whole in 0_u64.. {
            let first = self.random.next_u64();
            let (mut last, mut odd) = (first, true);
            loop {
                let next = self.random.next_u64();
                if next >= last {
                    break;
                }
                (last, odd) = (next, !odd);
            }
            if odd {
                let fraction = ((u128::from(mean) * u128::from(first)) >> 64) as u64;
                return mean.saturating_mul(whole).saturating_add(fraction);
            }
        }
        u64::MAX
    }

    /// Returns a random permutation of `0..count` in which no number stays at its position (a derangement).
    /// All such permutations are equally likely. If `count` is 1, the single number 0 stays at its position.
    pub(super) fn derangement(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        // A random shuffle moves every number with a probability of about 1/e, so few attempts are necessary.
        loop {
            for last in (1..count).rev() {
                order.swap(last, self.integer_below(last as u64 + 1) as usize);
            }
            if count == 1 || order.iter().enumerate().all(|(place, &at)| place != at as usize) {
                return order;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_has_its_mean_deviation_and_tail() {
        let mut draws = RandomStream::new(3, 0);
        let (count, mean) = (200_000, 1_000_000_u64);
        let all: Vec<f64> = (0..count)
            .map(|_| draws.exponential(mean) as f64 / mean as f64)
            .collect();
        let average = all.iter().sum::<f64>() / count as f64;
        let variance = all.iter().map(|x| (x - average) * (x - average)).sum::<f64>() / count as f64;
        let tail = all.iter().filter(|x| **x > 3.0).count() as f64 / count as f64;
        assert!((average - 1.0).abs() < 0.01, "{average}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
        assert!((tail - 0.049_787).abs() < 0.002, "{tail}");
    }

    #[test]
    fn derangements_are_uniform() {
        let mut draws = RandomStream::new(1, 9);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..9_000 {
            *seen.entry(draws.derangement(4)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 9, "four things have nine derangements");
        assert!(
            seen.values().all(|count| (850..1_150).contains(count)),
            "{seen:?}"
        );
        assert_eq!(draws.derangement(2), [1, 0]);
    }

    #[test]
    fn same_seed_gives_the_same_numbers() {
        let draw = |seed, stream| {
            let mut draws = RandomStream::new(seed, stream);
            [draws.integer_below(1 << 40), draws.exponential(1 << 40)]
        };
        assert_eq!(draw(5, 1), draw(5, 1));
        assert_ne!(draw(5, 1), draw(5, 2));
        assert_ne!(draw(5, 1), draw(6, 1));
    }
}
