//! WRED drops and ECN marks, decided by the present queue length.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::config::WredProfile;

/// Makes the random decisions of WRED. Each port has its own random generator (xoshiro256++).
#[derive(Clone, Debug)]
pub struct WredMarker {
    random: Xoshiro256PlusPlus,
}

impl WredMarker {
    /// Creates the random generator of port `port` in a switch with this seed.
    pub fn new(seed: u64, port: u16) -> WredMarker {
        // The golden ratio spreads neighbouring ports over the seed space. seed_from_u64 mixes further.
        let stream = seed ^ (u64::from(port) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        WredMarker {
            random: Xoshiro256PlusPlus::seed_from_u64(stream),
        }
    }

    /// Decides whether a frame is marked or dropped when `queued_bytes` bytes wait. The probability is zero
    /// up to the minimum threshold. Between the minimum and the maximum threshold, the probability rises
    /// linearly to `max_probability`. Above the maximum threshold, the probability is one. A random number is
    /// drawn only between the two thresholds.
    #[inline(always)]
    pub fn decide_mark_or_drop(&mut self, wred: &WredProfile, queued_bytes: u64) -> bool {
        if queued_bytes <= wred.min_bytes {
            return false;
        }
        queued_bytes > wred.max_bytes || is_below_probability(wred, queued_bytes, self.random.next_u32())
    }
}

/// Returns true if `draw` is below `max_probability * depth / span`, in units of 2^-32. The function
/// multiplies both sides by `span`. A 128-bit division would cost more than all remaining steps of a
/// departure together.
#[inline]
fn is_below_probability(wred: &WredProfile, queued_bytes: u64, draw: u32) -> bool {
    let depth = u128::from(queued_bytes - wred.min_bytes);
    let span = u128::from(wred.max_bytes - wred.min_bytes);
    (u128::from(draw) + 1) * span <= u128::from(wred.max_probability) * depth
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRED: WredProfile = WredProfile {
        min_bytes: 1_000,
        max_bytes: 2_000,
        max_probability: 1 << 31,
        ecn: true,
        drop: false,
    };

    #[test]
    fn the_marking_probability_is_zero_then_linear_then_one() {
        let mut marker = WredMarker::new(7, 0);
        assert!((0..1_000).all(|_| !marker.decide_mark_or_drop(&WRED, 1_000)));
        assert!((0..1_000).all(|_| marker.decide_mark_or_drop(&WRED, 2_001)));
        for (queued, probability) in [(1_500, 1 << 30), (2_000, 1_u32 << 31), (1_001, (1 << 31) / 1_000)] {
            assert!(is_below_probability(&WRED, queued, probability - 1), "{queued}");
            assert!(!is_below_probability(&WRED, queued, probability), "{queued}");
        }
    }

    #[test]
    fn equal_thresholds_mark_all_frames_above_them() {
        let step = WredProfile {
            max_bytes: 1_000,
            ..WRED
        };
        let mut marker = WredMarker::new(7, 0);
        assert!(!marker.decide_mark_or_drop(&step, 1_000));
        assert!(marker.decide_mark_or_drop(&step, 1_001));
    }

    #[test]
    fn draws_follow_the_probability() {
        let mut marker = WredMarker::new(7, 0);
        let hits = (0..100_000)
            .filter(|_| marker.decide_mark_or_drop(&WRED, 1_500))
            .count();
        // 25 %. Three standard deviations are 411.
        assert!((24_589..=25_411).contains(&hits), "{hits}");
    }
}
