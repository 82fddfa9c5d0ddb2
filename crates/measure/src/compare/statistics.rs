//! Rank tests for noisy samples. The noise can have any distribution. The only assumption is that the noise
//! affects both sides alike.
//!
//! Source: Hollander, Wolfe, Chicken, *Nonparametric Statistical Methods*, chapters 3.1 to 3.3 (pairs) and
//! 4.1 to 4.3 (two samples). The distribution of signed ranks is exact, even with ties. The distribution for
//! two samples is exact up to 16 384 pairs of values. For more pairs, the normal approximation is used.

use super::ranks::{PairwiseDifferences, RankSumDistribution, cut_per_tail};

/// The estimated shift between two samples, with its confidence interval and p-value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShiftEstimate {
    /// The Hodges-Lehmann estimate of the shift. The estimate is positive if the second sample is larger, and
    /// 0 if a sample is empty.
    pub estimate: f64,
    /// Lower bound of the confidence interval of the shift. Negative infinity if there are too few samples
    /// for the confidence level.
    pub low: f64,
    /// Upper bound of the confidence interval of the shift. Positive infinity if there are too few samples
    /// for the confidence level.
    pub high: f64,
    /// Two-sided p-value of the hypothesis that there is no shift, 0 to 1.
    pub p: f64,
}

/// Returns the smallest number of pairs for which [`signed_rank_test`] gives a finite confidence interval.
pub fn pairs_min(alpha: f64) -> usize {
    // The most extreme of 2^n equally likely sign patterns must be less likely than half of alpha.
    (1..)
        .find(|pairs| cut_per_tail(&rank_sum_distribution(*pairs), alpha) > 0)
        .map_or(1, |pairs| pairs as usize)
}

/// Returns the smallest number of samples of each side for which [`rank_sum_test`] gives a finite confidence
/// interval, if both sides have this number of samples.
pub fn samples_per_side_min(alpha: f64) -> usize {
    (1..)
        .find(|samples| RankSumDistribution::new(*samples, *samples).cut_per_tail(alpha) > 0)
        .unwrap_or(1)
}

/// Performs Wilcoxon's signed-rank test on the differences of pairs. The confidence interval misses the true
/// shift with a probability of at most `alpha`, which is above 0 and below 1.
pub fn signed_rank_test(differences: &[f64], alpha: f64) -> ShiftEstimate {
    let mut walsh = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (n, a) in differences.iter().enumerate() {
        walsh.extend(differences[n..].iter().map(|b| (a + b) / 2.0));
    }
    let distribution = rank_sum_distribution(differences.len() as u64);
    let (low, high) = interval_bounds(&mut walsh, &distribution, alpha);
    ShiftEstimate {
        estimate: median_of_sorted(&walsh),
        low,
        high,
        p: signed_rank_p_value(differences),
    }
}

/// Performs the Mann-Whitney test on two samples and estimates the shift from `a` to `b`. The confidence
/// interval misses the true shift with a probability of at most `alpha`, which is above 0 and below 1.
///
/// The function does not build a list of all differences. For large samples, it needs about as much time and
/// memory as sorting them.
pub fn rank_sum_test(a: &[f64], b: &[f64], alpha: f64) -> ShiftEstimate {
    let differences = PairwiseDifferences::new(a, b);
    let distribution = RankSumDistribution::new(a.len(), b.len());
    let (pairs, larger) = (differences.count(), differences.twice_count_above_zero());
    // Rounding towards the middle keeps p large enough: with ties, the true distribution is narrower than
    // this one.
    let extreme = larger.min(2 * pairs - larger).div_ceil(2);
    let (low, high) = match distribution.cut_per_tail(alpha) {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        cut => (
            differences.nth_smallest(cut - 1),
            differences.nth_smallest(pairs - cut),
        ),
    };
    ShiftEstimate {
        estimate: differences.median(),
        low,
        high,
        p: (2.0 * distribution.probability_at_most(extreme)).min(1.0),
    }
}

/// Returns the two-sided p-value of Wilcoxon's signed-rank test. Differences of 0 are left out.
fn signed_rank_p_value(differences: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Tied differences have their mean rank, which can be a half. Doubled ranks are always whole numbers.
    let mut doubled_ranks = vec![0; sorted.len()];
    let mut from = 0;
    while from < sorted.len() {
        let tied = sorted[from..]
            .iter()
            .take_while(|d| d.abs() == sorted[from].abs())
            .count();
        doubled_ranks[from..from + tied].fill((2 * from + tied + 1) as u64);
        from += tied;
    }
    let positive: u64 = sorted
        .iter()
        .zip(&doubled_ranks)
        .filter(|(d, _)| **d > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    let total: u64 = doubled_ranks.iter().sum();
    two_sided_p_value(&doubled_ranks, positive.min(total - positive))
}

/// Returns the probability that a sum of randomly signed ranks is at least as extreme as `smaller_sum`, on
/// either side.
fn two_sided_p_value(doubled_ranks: &[u64], smaller_sum: u64) -> f64 {
    let distribution = subset_sum_distribution(doubled_ranks);
    let tail: f64 = distribution[..=smaller_sum as usize].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Returns the probability of each sum of a random subset of `numbers`. The subset contains each number with
/// probability 1/2.
fn subset_sum_distribution(numbers: &[u64]) -> Vec<f64> {
    let total: u64 = numbers.iter().sum();
    let mut probability = vec![0.0; total as usize + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for &number in numbers {
        let number = number as usize;
        reached += number;
        for sum in (0..=reached).rev() {
            let without = probability[sum];
            let with = if sum >= number {
                probability[sum - number]
            } else {
                0.0
            };
            probability[sum] = (without + with) / 2.0;
        }
    }
    probability
}

/// Returns the probability of each sum of positive ranks if each sign is random. The ranks are 1 to
/// `rank_max`, without ties.
fn rank_sum_distribution(rank_max: u64) -> Vec<f64> {
    let ranks: Vec<u64> = (1..=rank_max).collect();
    subset_sum_distribution(&ranks)
}

/// Sorts the values and returns the two bounds of the confidence interval for `alpha`. The bounds are
/// infinite if there are too few values.
fn interval_bounds(values: &mut [f64], distribution: &[f64], alpha: f64) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    match cut_per_tail(distribution, alpha) {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        cut => (values[cut - 1], values[values.len() - cut]),
    }
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count => (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    #[allow(
        clippy::approx_constant,
        reason = "a measured value that happens to be near pi"
    )]
    fn the_signed_rank_test_gives_the_values_of_the_textbook() {
        // Hollander and Wolfe, table 3.1 (depression scale factor IV): n = 9, T+ = 5, one-sided p = 0.0195 =
        // 10 / 512.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(x, y)| y - x).collect();
        let shift = signed_rank_test(&differences, 0.04);
        assert_close(shift.p, 2.0 * 10.0 / 512.0);
        // The estimate of the book and its interval for 96.1 %.
        assert!((shift.estimate + 0.46).abs() < 1e-3, "{shift:?}");
        assert!(
            (shift.low + 0.786).abs() < 1e-3 && (shift.high + 0.010).abs() < 1e-3,
            "{shift:?}"
        );
    }

    #[test]
    fn the_p_value_is_smallest_if_all_differences_have_one_sign() {
        let differences: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_close(signed_rank_test(&differences, 0.05).p, 2.0 / 1_024.0);
        let (a, b): (Vec<f64>, Vec<f64>) =
            ((0..5).map(f64::from).collect(), (10..15).map(f64::from).collect());
        assert_close(rank_sum_test(&a, &b, 0.05).p, 2.0 / 252.0);
        assert_eq!(rank_sum_test(&a, &b, 0.05).estimate, 10.0);
    }

    #[test]
    fn equal_values_have_no_shift() {
        let shift = signed_rank_test(&[0.0; 20], 0.01);
        assert_eq!(
            (shift.estimate, shift.low, shift.high, shift.p),
            (0.0, 0.0, 0.0, 1.0)
        );
        let shift = rank_sum_test(&[3.0; 8], &[3.0; 8], 0.01);
        assert_eq!((shift.estimate, shift.p), (0.0, 1.0));
    }

    #[test]
    fn ties_have_their_exact_distribution() {
        // |d| = 1, 1, 2: doubled ranks 3, 3, 6; sums 0 3 3 6 6 9 9 12: P(sum <= 3) = 3 / 8.
        assert_close(signed_rank_p_value(&[-1.0, 1.0, 2.0]), 6.0 / 8.0);
    }

    #[test]
    fn the_smallest_numbers_of_samples_give_an_interval() {
        for alpha in [0.05, 0.001, 0.000_1] {
            let values = |count: usize| (1..=count).map(|n| n as f64).collect::<Vec<f64>>();
            let pairs = pairs_min(alpha);
            assert!(signed_rank_test(&values(pairs), alpha).low.is_finite());
            assert!(!signed_rank_test(&values(pairs - 1), alpha).low.is_finite());
            let samples = samples_per_side_min(alpha);
            assert!(
                rank_sum_test(&values(samples), &values(samples), alpha)
                    .low
                    .is_finite()
            );
            assert!(
                !rank_sum_test(&values(samples - 1), &values(samples - 1), alpha)
                    .low
                    .is_finite()
            );
        }
        // 2 / 2^6 = 0.03125.
        assert_eq!(pairs_min(0.05), 6);
        // 2 / (8 over 4) = 0.029.
        assert_eq!(samples_per_side_min(0.05), 4);
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        assert_eq!(signed_rank_test(&[1.0, 2.0], 0.01).low, f64::NEG_INFINITY);
        assert_eq!(rank_sum_test(&[1.0], &[2.0], 0.01).high, f64::INFINITY);
    }

    #[test]
    fn the_rank_sum_test_of_20_000_values_builds_no_list_of_all_pairs() {
        // 400 million pairs. The second sample is shifted by 0.01, and both samples have a width of 1.
        let values = |from: f64| {
            (0..20_000)
                .map(|n| from + f64::from(n) / 20_000.0)
                .collect::<Vec<f64>>()
        };
        let begun = std::time::Instant::now();
        let shift = rank_sum_test(&values(0.0), &values(0.01), 0.001);
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        assert!((shift.estimate - 0.01).abs() < 1e-4, "{shift:?}");
        assert!(
            shift.low > -0.001 && shift.high < 0.021 && shift.low < 0.01 && shift.high > 0.01,
            "{shift:?}"
        );
        // B is larger in 50.995 % of the pairs. The standard deviation is 0.289 %, so z = 3.45.
        assert!(shift.p > 0.000_2 && shift.p < 0.002, "{shift:?}");
    }

    #[test]
    fn probabilities_sum_to_one() {
        assert_close(subset_sum_distribution(&[1, 2, 3, 4, 5, 6]).iter().sum(), 1.0);
    }
}
