//! WRED and ECN on the instantaneous queue length.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::Wred;

/// The random part of marking: one stream per port (xoshiro256++), so that ports do not disturb each other.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    random: Xoshiro256PlusPlus,
}

impl Marker {
    pub(crate) fn new(seed: u64, port: u16) -> Marker {
        // The golden ratio spreads neighbouring ports over the seed space; seed_from_u64 mixes further.
        let stream = seed ^ (u64::from(port) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Marker {
            random: Xoshiro256PlusPlus::seed_from_u64(stream),
        }
    }

    /// Whether a frame that sees `queued_bytes` is to be marked or dropped. Draws only between the thresholds.
    pub(crate) fn hit(&mut self, wred: &Wred, queued_bytes: u64) -> bool {
        match probability(wred, queued_bytes) {
            0 => false,
            p if p >= 1 << 32 => true,
            p => u64::from(self.random.next_u32()) < p,
        }
    }
}

/// Probability in units of 2^-32: zero up to the minimum, linear up to the maximum, one beyond.
fn probability(wred: &Wred, queued_bytes: u64) -> u64 {
    if queued_bytes <= wred.min_bytes {
        return 0;
    }
    if queued_bytes > wred.max_bytes {
        return 1 << 32;
    }
    let depth = u128::from(queued_bytes - wred.min_bytes);
    let span = u128::from(wred.max_bytes - wred.min_bytes);
    (u128::from(wred.max_probability) * depth / span) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRED: Wred = Wred {
        min_bytes: 1_000,
        max_bytes: 2_000,
        max_probability: 1 << 31,
        ecn: true,
        drop: false,
    };

    #[test]
    fn probability_is_zero_linear_one() {
        assert_eq!(probability(&WRED, 1_000), 0);
        assert_eq!(probability(&WRED, 1_500), 1 << 30);
        assert_eq!(probability(&WRED, 2_000), 1 << 31);
        assert_eq!(probability(&WRED, 2_001), 1 << 32);
    }

    #[test]
    fn equal_thresholds_are_a_step() {
        let step = Wred {
            max_bytes: 1_000,
            ..WRED
        };
        assert_eq!(probability(&step, 1_000), 0);
        assert_eq!(probability(&step, 1_001), 1 << 32);
    }

    #[test]
    fn draws_follow_the_probability() {
        let mut marker = Marker::new(7, 0);
        let hits = (0..100_000).filter(|_| marker.hit(&WRED, 1_500)).count();
        // 25 %; three standard deviations are 411.
        assert!((24_589..=25_411).contains(&hits), "{hits}");
    }
}
