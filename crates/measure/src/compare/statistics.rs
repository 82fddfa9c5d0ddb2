//! Tests by ranks: nothing is assumed about the shape of noise, only that it does not prefer a side.
//!
//! Hollander, Wolfe, Chicken, *Nonparametric Statistical Methods*, chapters 3.1 to 3.3 (pairs) and 4.1 to 4.3 (two samples).
//! Distributions are exact, ties included; that of two samples up to 16 384 pairs of values, and the normal one above.

use super::ranks::{Differences, RankSums};

/// What a test says of a shift: positive is more of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The estimate of Hodges and Lehmann.
    pub estimate: f64,
    /// Bounds of its interval, at the level that was asked for; infinite where there are too few samples for that level.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// Two-sided p-value of no shift.
    pub p: f64,
}

/// The test of Wilcoxon of signed ranks on differences of pairs; `alpha` is what the interval may miss.
pub fn paired(differences: &[f64], alpha: f64) -> Shift {
    let mut walsh = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (n, a) in differences.iter().enumerate() {
        walsh.extend(differences[n..].iter().map(|b| (a + b) / 2.0));
    }
    let untied: Vec<u64> = (1..=differences.len() as u64).map(|rank| 2 * rank).collect();
    let (low, high) = bounds(&mut walsh, &sums(&untied), alpha);
    Shift {
        estimate: median(&walsh),
        low,
        high,
        p: signed_rank_p(differences),
    }
}

/// The test of Mann and Whitney on two samples: the shift from `a` to `b`. Its time and memory are those of sorting them.
pub fn unpaired(a: &[f64], b: &[f64], alpha: f64) -> Shift {
    let differences = Differences::new(a, b);
    let chances = RankSums::new(a.len(), b.len());
    let (pairs, larger) = (differences.count(), differences.twice_larger());
    // Rounded towards the middle: with ties the exact distribution is narrower than this one, so p is not too small.
    let extreme = larger.min(2 * pairs - larger).div_ceil(2);
    let (low, high) = match chances.cut(alpha) {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        cut => (differences.nth(cut - 1), differences.nth(pairs - cut)),
    };
    Shift {
        estimate: differences.median(),
        low,
        high,
        p: (2.0 * chances.at_most(extreme)).min(1.0),
    }
}

fn signed_rank_p(differences: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the rank, so that the mean of tied ranks is a whole number.
    let mut doubled = vec![0; sorted.len()];
    let mut from = 0;
    while from < sorted.len() {
        let tied = sorted[from..]
            .iter()
            .take_while(|d| d.abs() == sorted[from].abs())
            .count();
        doubled[from..from + tied].fill((2 * from + tied + 1) as u64);
        from += tied;
    }
    let positive: u64 = sorted
        .iter()
        .zip(&doubled)
        .filter(|(d, _)| **d > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    let total: u64 = doubled.iter().sum();
    two_sided_doubled(&doubled, positive.min(total - positive))
}

fn two_sided_doubled(doubled: &[u64], extreme: u64) -> f64 {
    let odd_or_even = every_sum(doubled);
    let tail: f64 = odd_or_even[..=extreme as usize].iter().sum();
    (2.0 * tail).min(1.0)
}

/// Probability of each sum when each of these numbers is in it with one half.
fn every_sum(numbers: &[u64]) -> Vec<f64> {
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

/// As [`every_sum`] of doubled ranks without ties, by the sum of the ranks themselves.
fn sums(doubled: &[u64]) -> Vec<f64> {
    let ranks: Vec<u64> = doubled.iter().map(|rank| rank / 2).collect();
    every_sum(&ranks)
}

/// The values left when as many are cut off at each end as the distribution allows for `alpha`. Sorts them.
fn bounds(values: &mut [f64], distribution: &[f64], alpha: f64) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    match cut(distribution, alpha) {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        cut => (values[cut - 1], values[values.len() - cut]),
    }
}

/// How many values are cut off at each end.
pub(super) fn cut(distribution: &[f64], alpha: f64) -> usize {
    let mut tail = 0.0;
    let within = distribution.iter().take_while(|p| {
        tail += **p;
        tail <= alpha / 2.0
    });
    within.count()
}

fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count => (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    #[allow(
        clippy::approx_constant,
        reason = "a measured value that happens to be near pi"
    )]
    fn signed_ranks_as_in_the_textbook() {
        // Hollander and Wolfe, table 3.1 (depression scale factor IV): T+ = 5 of n = 9; one-sided p = 0.0195 = 10 / 512.
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(x, y)| y - x).collect();
        let shift = paired(&differences, 0.04);
        close(shift.p, 2.0 * 10.0 / 512.0);
        // The book's estimate, and its interval of 96.1 %.
        assert!((shift.estimate + 0.46).abs() < 1e-3, "{shift:?}");
        assert!(
            (shift.low + 0.786).abs() < 1e-3 && (shift.high + 0.010).abs() < 1e-3,
            "{shift:?}"
        );
    }

    #[test]
    fn all_on_one_side_is_as_unlikely_as_it_can_be() {
        let differences: Vec<f64> = (1..=10).map(f64::from).collect();
        close(paired(&differences, 0.05).p, 2.0 / 1_024.0);
        let (a, b): (Vec<f64>, Vec<f64>) =
            ((0..5).map(f64::from).collect(), (10..15).map(f64::from).collect());
        close(unpaired(&a, &b, 0.05).p, 2.0 / 252.0);
        assert_eq!(unpaired(&a, &b, 0.05).estimate, 10.0);
    }

    #[test]
    fn equal_values_are_no_difference() {
        let shift = paired(&[0.0; 20], 0.01);
        assert_eq!(
            (shift.estimate, shift.low, shift.high, shift.p),
            (0.0, 0.0, 0.0, 1.0)
        );
        let shift = unpaired(&[3.0; 8], &[3.0; 8], 0.01);
        assert_eq!((shift.estimate, shift.p), (0.0, 1.0));
    }

    #[test]
    fn ties_have_their_exact_distribution() {
        // |d| = 1, 1, 2: doubled ranks 3, 3, 6; sums 0 3 3 6 6 9 9 12: P(sum <= 3) = 3 / 8.
        close(signed_rank_p(&[-1.0, 1.0, 2.0]), 6.0 / 8.0);
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        assert_eq!(paired(&[1.0, 2.0], 0.01).low, f64::NEG_INFINITY);
        assert_eq!(unpaired(&[1.0], &[2.0], 0.01).high, f64::INFINITY);
    }

    #[test]
    fn many_samples_take_no_list_of_all_pairs() {
        // 400 million pairs; the second is a hundredth above the first, and far wider than that.
        let values = |from: f64| {
            (0..20_000)
                .map(|n| from + f64::from(n) / 20_000.0)
                .collect::<Vec<f64>>()
        };
        let begun = std::time::Instant::now();
        let shift = unpaired(&values(0.0), &values(0.01), 0.001);
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
        // B is larger in 50.995 % of the pairs, with a deviation of 0.289 %: z = 3.45.
        assert!(shift.p > 0.000_2 && shift.p < 0.002, "{shift:?}");
    }

    #[test]
    fn probabilities_sum_to_one() {
        close(every_sum(&[1, 2, 3, 4, 5, 6]).iter().sum(), 1.0);
    }
}
