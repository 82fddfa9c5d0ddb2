//! Pairwise differences of two samples, and the distribution of their rank sums.
//!
//! The functions do not build a list of all pairs, because two samples of 20 000 values have 400
//! million pairs.

/// All differences `b - a` between a value `b` of the second sample and a value `a` of the first sample, in
/// sorted order.
pub(super) struct PairwiseDifferences {
    a: Vec<f64>,
    b: Vec<f64>,
}

impl PairwiseDifferences {
    pub(super) fn new(a: &[f64], b: &[f64]) -> PairwiseDifferences {
        let sorted = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        PairwiseDifferences {
            a: sorted(a),
            b: sorted(b),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.a.len() * self.b.len()
    }

    /// Returns the number of differences that are at most `limit`.
    fn count_at_most(&self, limit: f64) -> usize {
        // Both samples are sorted, so `from` never decreases from one value of `b` to the next.
        let mut from = 0;
        let mut count = 0;
        for b in &self.b {
            while self.a.get(from).is_some_and(|a| b - a > limit) {
                from += 1;
            }
            count += self.a.len() - from;
        }
        count
    }

    /// Returns twice the number of differences above 0, where a difference of 0 counts half.
    pub(super) fn twice_count_above_zero(&self) -> usize {
        let (smaller, not_larger) = (self.count_at_most(-f64::from_bits(1)), self.count_at_most(0.0));
        2 * (self.count() - not_larger) + (not_larger - smaller)
    }

    /// Returns the difference with the index `n`, from 0, in sorted order. Returns 0 if a sample is empty.
    ///
    /// The function finds the value by bisection between the smallest and the largest difference.
    pub(super) fn nth_smallest(&self, n: usize) -> f64 {
        let ends = (self.a.first(), self.a.last(), self.b.first(), self.b.last());
        let (Some(a_least), Some(a_most), Some(b_least), Some(b_most)) = ends else {
            return 0.0;
        };
        let (mut low, mut high) = (order_key(b_least - a_most), order_key(b_most - a_least));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.count_at_most(number_of_order_key(middle)) > n {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        // Adding 0.0 turns -0.0 into 0.0.
        number_of_order_key(low) + 0.0
    }

    pub(super) fn median(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => (self.nth_smallest((count - 1) / 2) + self.nth_smallest(count / 2)) / 2.0,
        }
    }
}

/// Returns how many values are left out at each end of the sorted values to get a confidence interval.
/// `distribution` has the probability of each rank sum. The interval misses the true value with a probability
/// of at most `alpha`. 0 means that there are too few values.
pub(super) fn cut_per_tail(distribution: &[f64], alpha: f64) -> usize {
    let mut tail = 0.0;
    let within = distribution.iter().take_while(|p| {
        tail += **p;
        tail <= alpha / 2.0
    });
    within.count()
}

const SIGN_BIT: u64 = 1 << 63;

/// Maps a number to an integer key. The keys have the same order as the numbers.
fn order_key(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits & SIGN_BIT == 0 {
        bits | SIGN_BIT
    } else {
        !bits
    }
}

/// Returns the number that has this [`order_key`].
fn number_of_order_key(key: u64) -> f64 {
    f64::from_bits(if key & SIGN_BIT == 0 {
        !key
    } else {
        key & !SIGN_BIT
    })
}

/// Largest number of pairs for which the exact distribution is computed, such as two samples of 128 values.
/// For larger samples, the computation would take seconds or more.
const EXACT_PAIRS_MAX: usize = 1 << 14;

/// The distribution of the Mann-Whitney count if there is no shift between two samples. The count is the
/// number of pairs in which the value of the second sample is larger.
pub(super) enum RankSumDistribution {
    /// Element *n* is the probability that the count is *n*.
    Exact(Vec<f64>),
    /// The normal approximation. The true distribution has thinner tails, so confidence intervals are never
    /// too short.
    Normal { mean: f64, deviation: f64 },
}

impl RankSumDistribution {
    pub(super) fn new(first_len: usize, second_len: usize) -> RankSumDistribution {
        let pairs = first_len * second_len;
        if pairs <= EXACT_PAIRS_MAX {
            return RankSumDistribution::Exact(exact_distribution(first_len, second_len));
        }
        let pairs = pairs as f64;
        RankSumDistribution::Normal {
            mean: pairs / 2.0,
            deviation: (pairs * (first_len + second_len + 1) as f64 / 12.0).sqrt(),
        }
    }

    /// Returns the probability that the count is at most `count`.
    pub(super) fn probability_at_most(&self, count: usize) -> f64 {
        match self {
            RankSumDistribution::Exact(probabilities) => probabilities.iter().take(count + 1).sum(),
            RankSumDistribution::Normal { mean, deviation } => {
                normal_upper_tail((mean - count as f64 - 0.5) / deviation)
            }
        }
    }

    /// Returns how many of the sorted differences are left out at each end to get a confidence interval.
    /// The interval misses the true shift with a probability of at most `alpha`. 0 means that there are too
    /// few values.
    pub(super) fn cut_per_tail(&self, alpha: f64) -> usize {
        match self {
            RankSumDistribution::Exact(probabilities) => cut_per_tail(probabilities, alpha),
            RankSumDistribution::Normal { mean, .. } => {
                let (mut least, mut most) = (0, *mean as usize);
                while least < most {
                    let middle = least + (most - least) / 2;
                    match self.probability_at_most(middle) <= alpha / 2.0 {
                        true => least = middle + 1,
                        false => most = middle,
                    }
                }
                least
            }
        }
    }
}

/// Returns the exact distribution of the Mann-Whitney count. Element *n* is the probability that the value of
/// the second sample is larger in *n* pairs.
fn exact_distribution(first_len: usize, second_len: usize) -> Vec<f64> {
    // The distribution is symmetric in the two lengths. The smaller length in the inner loop needs less
    // memory.
    let (outer_len, inner_len) = (first_len.max(second_len), first_len.min(second_len));
    // Row `j` has the distribution for samples of `i` and `j` values. The largest of all values is in the
    // second sample with the probability `j / (i + j)`. It is then larger than all `i` values of the
    // first sample.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; inner_len + 1];
    for i in 1..=outer_len {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=inner_len {
            let share = j as f64 / (i + j) as f64;
            let mut row = vec![0.0; i * j + 1];
            for (u, p) in next[j - 1].iter().enumerate() {
                row[u + i] += share * p;
            }
            for (u, p) in rows[j].iter().enumerate() {
                row[u] += (1.0 - share) * p;
            }
            next.push(row);
        }
        rows = next;
    }
    rows.pop().unwrap_or_else(|| vec![1.0])
}

/// Returns the probability that a standard normal variable is above `z`.
fn normal_upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_upper_tail(-z);
    }
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z > 3.0 {
        // Laplace's continued fraction, evaluated from its last term.
        let fraction = (1..=60).rev().fold(z, |below, n| z + f64::from(n) / below);
        return density / fraction;
    }
    // z + z^3 / 3 + z^5 / (3 * 5) + ...
    let (mut term, mut sum) = (z, z);
    for n in 1..=60 {
        term *= z * z / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Returns random multiples of `1 / steps` between -0.5 and 0.5. Few steps give many ties.
    fn random_values(count: usize, seed: u64, steps: f64) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let uniform =
            |random: &mut Xoshiro256PlusPlus| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..count)
            .map(|_| (uniform(&mut random) * steps).round() / steps - 0.5)
            .collect()
    }

    #[test]
    fn pairwise_differences_equal_a_sorted_list_of_all_differences() {
        for (first, second, steps) in [(1, 1, 8.0), (7, 12, 8.0), (31, 5, 1e9), (40, 40, 3.0)] {
            let (a, b) = (random_values(first, 1, steps), random_values(second, 2, steps));
            let mut list: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
            list.sort_by(f64::total_cmp);
            let differences = PairwiseDifferences::new(&a, &b);
            for (n, difference) in list.iter().enumerate() {
                assert_eq!(
                    differences.nth_smallest(n),
                    *difference,
                    "{n} of {first} x {second}"
                );
            }
            let twice = |d: &f64| if *d > 0.0 { 2 } else { usize::from(*d == 0.0) };
            assert_eq!(
                differences.twice_count_above_zero(),
                list.iter().map(twice).sum::<usize>()
            );
        }
    }

    #[test]
    fn normal_tail_probabilities_equal_published_tables() {
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931),
            (1.959_963_984_540, 0.025),
            (2.999_999, 0.001_349_902_5),
            (3.000_001, 0.001_349_893_6),
            (3.290_526_731_492, 0.000_5),
            (6.0, 9.865_876_450e-10),
        ] {
            let tail = normal_upper_tail(z);
            assert!((tail / p - 1.0).abs() < 1e-7, "{z}: {tail} {p}");
        }
        assert!((normal_upper_tail(-1.0) - 0.841_344_746_069).abs() < 1e-9);
    }

    #[test]
    fn the_normal_approximation_is_close_and_cuts_no_more_than_the_exact_distribution() {
        let exact = RankSumDistribution::Exact(exact_distribution(100, 100));
        let normal = RankSumDistribution::Normal {
            mean: 5_000.0,
            deviation: (10_000.0 * 201.0 / 12.0_f64).sqrt(),
        };
        for alpha in [0.05, 0.001, 0.000_01] {
            let (exact, normal) = (exact.cut_per_tail(alpha), normal.cut_per_tail(alpha));
            assert!(
                normal <= exact && 100 * (exact - normal) < exact,
                "{alpha}: {exact} {normal}"
            );
        }
        assert!(matches!(
            RankSumDistribution::new(128, 128),
            RankSumDistribution::Exact(_)
        ));
        assert!(matches!(
            RankSumDistribution::new(129, 128),
            RankSumDistribution::Normal { .. }
        ));
    }

    #[test]
    fn probabilities_sum_to_one() {
        for (first, second) in [(7, 5), (5, 7), (0, 3), (16_384, 1)] {
            let sum: f64 = exact_distribution(first, second).iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{first} {second} {sum}");
        }
    }
}
