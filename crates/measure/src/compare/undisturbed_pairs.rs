//! Selects the pairs that were measured while the machine was undisturbed. Only benchmarks with a constant
//! cost use this selection.
//!
//! On a shared machine, other programs on the same core can make a process about 50 % slower. Such a
//! disturbance lasts from tenths of a second to minutes. A pair with a disturbance tells nothing about the
//! two sides and would widen the confidence interval. Therefore, a pair is selected only if each side was
//! about as fast as in its own fastest samples. Each side has its own limit, so a pair is also selected if B
//! is always slower than A.
//!
//! A program that is sometimes slow by itself must not be mistaken for a disturbed machine. Other programs
//! disturb both sides equally often. If one side was slow significantly more often than the other side, all
//! pairs are selected.

/// Limit of a slow sample, as a logarithm. A sample is slow if it exceeds the fastest tenth of its side by
/// more than 15 %. Memory layout changes the speed by a few percent. Another program on the same core changes
/// the speed by about 50 %.
const SLOW_LOG: f64 = 0.14;

/// Significance level for disturbances. By chance, one side can have more slow samples than the other. If the
/// probability of such a difference is below this level, the difference counts as real, and not as chance.
const UNEQUAL_ALPHA: f64 = 0.05;

/// Selects the undisturbed pairs. Element *i* of the result is true if pair *i* is selected. `log_a` and
/// `log_b` are the logarithms of the costs of both sides, in the order of the pairs.
pub(super) fn select_undisturbed_pairs(log_a: &[f64], log_b: &[f64]) -> Vec<bool> {
    let (slow_a, slow_b) = (find_slow_samples(log_a), find_slow_samples(log_b));
    let count_alone = |one: &[bool], other: &[bool]| {
        one.iter()
            .zip(other)
            .filter(|(one, other)| **one && !**other)
            .count()
    };
    let (only_a, only_b) = (count_alone(&slow_a, &slow_b), count_alone(&slow_b, &slow_a));
    if sign_test_p_value(only_a, only_b) < UNEQUAL_ALPHA {
        return vec![true; log_a.len()];
    }
    let selected: Vec<bool> = slow_a.iter().zip(slow_b).map(|(a, b)| !*a && !b).collect();
    match selected.contains(&true) {
        true => selected,
        // If all of a few pairs were disturbed, all of them are used.
        false => vec![true; log_a.len()],
    }
}

/// Returns which samples of one side are slow: element *i* is true if sample *i* is slow.
fn find_slow_samples(log_costs: &[f64]) -> Vec<bool> {
    let mut sorted = log_costs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let fast = sorted.get(log_costs.len() / 10).copied().unwrap_or(0.0);
    log_costs.iter().map(|cost| *cost > fast + SLOW_LOG).collect()
}

/// Returns the two-sided p-value of a sign test. This is the probability that tosses of a fair coin are at
/// least as uneven as `heads` to `tails`.
fn sign_test_p_value(heads: usize, tails: usize) -> f64 {
    let tosses = heads + tails;
    let mut probability = 0.5_f64.powi(tosses as i32);
    let mut tail = 0.0;
    for n in 0..=heads.min(tails) {
        tail += probability;
        probability *= (tosses - n) as f64 / (n + 1) as f64;
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_compared_with_its_own_fastest_samples() {
        let a = [0.0, 0.01, 0.5, 0.02, 0.13];
        let b = [1.0, 1.45, 1.02, 1.01, 1.1];
        assert_eq!(select_undisturbed_pairs(&a, &b), [true, false, false, true, true]);
    }

    #[test]
    fn all_pairs_of_an_undisturbed_machine_are_selected() {
        let quiet: Vec<f64> = (0..64).map(|n| f64::from(n % 8) * 0.01).collect();
        assert!(
            select_undisturbed_pairs(&quiet, &quiet)
                .iter()
                .all(|selected| *selected)
        );
        assert!(select_undisturbed_pairs(&[], &[]).is_empty());
    }

    #[test]
    fn all_pairs_are_selected_if_only_one_side_is_often_slow() {
        let constant = [0.0; 16];
        let often_slow: Vec<f64> = (0..16).map(|n| f64::from(n % 2) * 0.5).collect();
        assert!(
            select_undisturbed_pairs(&constant, &often_slow)
                .iter()
                .all(|selected| *selected)
        );
    }

    #[test]
    fn at_least_one_pair_is_selected() {
        assert_eq!(select_undisturbed_pairs(&[0.0, 0.5], &[0.5, 0.0]), [true, true]);
        assert_eq!(select_undisturbed_pairs(&[1.0], &[2.0]), [true]);
    }

    #[test]
    fn the_sign_test_gives_binomial_probabilities() {
        assert_eq!(sign_test_p_value(0, 0), 1.0);
        assert!((sign_test_p_value(1, 9) - 22.0 / 1_024.0).abs() < 1e-12);
        assert!((sign_test_p_value(5, 5) - 1.0).abs() < 1e-12);
    }
}
