//! Pairs in which the machine was as fast as it can be, for loads that take the same every time.
//!
//! On a machine that is shared, neighbours come and go for tenths of seconds to minutes, and all takes half as long
//! again meanwhile. A pair in which one came or went says nothing of the two programs, and widens the interval of those that do. So a pair
//! counts where each side took about as long as that side does at its fastest: each has its own measure, so that B counts however much
//! slower it is.
//!
//! A program that is slow now and then by itself must not be taken for a machine that is. Neighbours meet both sides alike; so where
//! one side alone was slow much oftener than the other alone, all pairs count.

/// A pair counts where neither side is above its own fastest tenth by more than this, as a logarithm: 15 %. What memory and branches do
/// to a process is a few percent, what a neighbour on the same core does is half.
const SLOW: f64 = 0.14;

/// One side was slow oftener than the other where chance makes it so with less than this.
const ALIKE: f64 = 0.05;

/// Whether each pair counts, by the logarithms of the costs of both sides.
pub(super) fn counted(a: &[f64], b: &[f64]) -> Vec<bool> {
    let (slow_a, slow_b) = (slow(a), slow(b));
    let alone = |one: &[bool], other: &[bool]| {
        one.iter()
            .zip(other)
            .filter(|(one, other)| **one && !**other)
            .count()
    };
    let (only_a, only_b) = (alone(&slow_a, &slow_b), alone(&slow_b, &slow_a));
    if heads_or_tails(only_a, only_b) < ALIKE {
        return vec![true; a.len()];
    }
    let counts: Vec<bool> = slow_a.iter().zip(slow_b).map(|(a, b)| !*a && !b).collect();
    match counts.contains(&true) {
        true => counts,
        // Of a few pairs each may have had a neighbour on one side: what is left to judge by is all of them.
        false => vec![true; a.len()],
    }
}

fn slow(costs: &[f64]) -> Vec<bool> {
    let mut sorted = costs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let fast = sorted.get(costs.len() / 10).copied().unwrap_or(0.0);
    costs.iter().map(|cost| *cost > fast + SLOW).collect()
}

/// Two-sided probability that a fair coin falls as unevenly as this.
fn heads_or_tails(heads: usize, tails: usize) -> f64 {
    let tosses = heads + tails;
    let mut ways = 0.5_f64.powi(tosses as i32);
    let mut tail = 0.0;
    for n in 0..=heads.min(tails) {
        tail += ways;
        ways *= (tosses - n) as f64 / (n + 1) as f64;
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_count_by_what_each_side_takes_at_its_fastest() {
        let a = [0.0, 0.01, 0.5, 0.02, 0.13];
        let b = [1.0, 1.45, 1.02, 1.01, 1.1];
        assert_eq!(counted(&a, &b), [true, false, false, true, true]);
    }

    #[test]
    fn on_a_quiet_machine_every_pair_counts() {
        let quiet: Vec<f64> = (0..64).map(|n| f64::from(n % 8) * 0.01).collect();
        assert!(counted(&quiet, &quiet).iter().all(|counts| *counts));
        assert!(counted(&[], &[]).is_empty());
    }

    #[test]
    fn a_program_that_is_slow_now_and_then_by_itself_is_not_excused() {
        let always = [0.0; 16];
        let at_times: Vec<f64> = (0..16).map(|n| f64::from(n % 2) * 0.5).collect();
        assert!(counted(&always, &at_times).iter().all(|counts| *counts));
    }

    #[test]
    fn something_is_left_however_few_pairs_there_are() {
        assert_eq!(counted(&[0.0, 0.5], &[0.5, 0.0]), [true, true]);
        assert_eq!(counted(&[1.0], &[2.0]), [true]);
    }

    #[test]
    fn a_fair_coin() {
        assert_eq!(heads_or_tails(0, 0), 1.0);
        assert!((heads_or_tails(1, 9) - 22.0 / 1_024.0).abs() < 1e-12);
        assert!((heads_or_tails(5, 5) - 1.0).abs() < 1e-12);
    }
}
