//! Tests by ranks: nothing is assumed about the shape of noise, only that it does not prefer a side.
//!
//! Hollander, Wolfe, Chicken, *Nonparametric Statistical Methods*, chapters 3.1 to 3.3 (pairs) and 4.1 to 4.3 (two samples).
//! Distributions are exact for every count, ties included.

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

/// The test of Mann and Whitney on two samples: the shift from `a` to `b`.
pub fn unpaired(a: &[f64], b: &[f64], alpha: f64) -> Shift {
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    let distribution = rank_sums(a.len(), b.len());
    // Twice the number of pairs in which b is the larger, a tie being half of one.
    let larger: usize = differences
        .iter()
        .map(|d| if *d > 0.0 { 2 } else { usize::from(*d == 0.0) })
        .sum();
    let pairs = differences.len();
    let (low, high) = bounds(&mut differences, &distribution, alpha);
    // Rounded towards the middle: with ties the exact distribution is narrower than this one, so p is not too small.
    let extreme = larger.min(2 * pairs - larger).div_ceil(2);
    Shift {
        estimate: median(&differences),
        low,
        high,
        p: two_sided(&distribution, extreme),
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

/// Probability of each number of pairs in which the second sample is the larger one.
fn rank_sums(first: usize, second: usize) -> Vec<f64> {
    // f(i, j)[u]: as the largest of all is in the second sample with j / (i + j), and then larger than i.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; second + 1];
    for i in 1..=first {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for j in 1..=second {
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

fn two_sided(distribution: &[f64], extreme: usize) -> f64 {
    let tail: f64 = distribution.iter().take(extreme + 1).sum();
    (2.0 * tail).min(1.0)
}

/// The values left when as many are cut off at each end as the distribution allows for `alpha`. Sorts them.
fn bounds(values: &mut [f64], distribution: &[f64], alpha: f64) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let mut tail = 0.0;
    let mut cut = 0;
    for p in distribution {
        tail += p;
        if tail > alpha / 2.0 {
            break;
        }
        cut += 1;
    }
    match cut {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        _ => (values[cut - 1], values[values.len() - cut]),
    }
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
    fn probabilities_sum_to_one() {
        close(rank_sums(7, 5).iter().sum(), 1.0);
        close(every_sum(&[1, 2, 3, 4, 5, 6]).iter().sum(), 1.0);
    }
}
