//! The verdict about a figure (measured quantity), and the plan of the evaluations that lead to this verdict.
//!
//! The shift of a figure is the logarithm of the ratio by which B is worse than A: 0.03 means 3 % slower.
//! Each shift has a confidence interval. The confidence level of 99.9 % holds for all figures and all
//! evaluations together ([`SignificanceTestPlan::alpha_per_test`]). Therefore, more figures or evaluations do
//! not increase the risk of a false difference.
//!
//! The gate is the shift from which a comparison fails. With a gate, there are three groups of verdicts:
//!
//! - *worse*: the interval is above 0, and the estimate of the shift reaches the gate.
//! - *within the gate*: the whole interval is below the gate. If the interval is also above the negative
//!   gate, the figure is *equal*.
//! - *undecided*: all other cases. More pairs are measured, up to the largest number of pairs.

use serde::Serialize;

use super::statistics::ShiftEstimate;

/// Probability that at least one confidence interval, of all figures and evaluations, misses the true shift.
const ALPHA: f64 = 0.001;
/// Smallest number of pairs at the first evaluation, if there is more than one evaluation. From each
/// evaluation to the next, the number of pairs doubles.
pub const FIRST_EVALUATION_PAIRS_MIN: usize = 16;

/// The numbers of pairs at which a comparison is evaluated, and the number of compared figures.
#[derive(Clone, Debug, PartialEq)]
pub struct SignificanceTestPlan {
    /// Number of measured pairs at each evaluation, in ascending order. The last element is the largest
    /// number of pairs.
    pub evaluation_pairs: Vec<usize>,
    /// Number of compared figures, at least 1.
    pub figures: usize,
}

impl SignificanceTestPlan {
    /// Creates a plan for at most `pairs_max` pairs, where 0 counts as 1. With a gate, earlier evaluations
    /// can end the comparison before all pairs are measured. Without a gate, there is one evaluation after
    /// all pairs.
    pub fn new(pairs_max: usize, has_gate: bool, figures: usize) -> SignificanceTestPlan {
        let mut evaluation_pairs = vec![pairs_max.max(1)];
        while has_gate && evaluation_pairs[0] / 2 >= FIRST_EVALUATION_PAIRS_MIN {
            evaluation_pairs.insert(0, evaluation_pairs[0] / 2);
        }
        SignificanceTestPlan {
            evaluation_pairs,
            figures: figures.max(1),
        }
    }

    /// Returns the permitted probability that the confidence interval of one test misses the true shift
    /// (Bonferroni correction). A test is one evaluation of one figure.
    pub fn alpha_per_test(&self) -> f64 {
        ALPHA / self.test_count()
    }

    /// Returns the p-value of one test, corrected for all figures and evaluations, at most 1.
    pub fn adjust_p_value(&self, p: f64) -> f64 {
        (p * self.test_count()).min(1.0)
    }

    fn test_count(&self) -> f64 {
        (self.evaluation_pairs.len() * self.figures) as f64
    }
}

/// The result of a comparison for one figure, of B relative to A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is significantly worse. If there is a gate, the estimated shift also reaches the gate.
    Worse,
    /// B is significantly worse, but the whole confidence interval is below the gate.
    WorseWithinGate,
    /// B may be better or worse, but by less than the gate: the whole confidence interval is between minus
    /// the gate and the gate.
    Equal,
    /// B is not worse by the gate or more. B can also be better by more than the gate.
    NotWorse,
    /// B is significantly better: the whole confidence interval is below 0.
    Better,
    /// The comparison has no gate and shows no significant difference.
    NoDifference,
    /// The confidence interval contains the gate, or there are too few samples for an interval.
    Undecided,
}

impl Verdict {
    /// Returns the verdict about a shift. The shift and the gate are logarithms of the ratio by which B is
    /// worse than A. `log_gate` is above 0, or `None` for a comparison without a gate.
    pub fn of_shift(shift: &ShiftEstimate, log_gate: Option<f64>) -> Verdict {
        let (worse, better) = (shift.low > 0.0, shift.high < 0.0);
        let Some(log_gate) = log_gate else {
            return match (worse, better) {
                (true, _) => Verdict::Worse,
                (_, true) => Verdict::Better,
                _ if shift.low.is_finite() => Verdict::NoDifference,
                _ => Verdict::Undecided,
            };
        };
        if worse && shift.estimate >= log_gate {
            return Verdict::Worse;
        }
        if shift.high >= log_gate {
            return Verdict::Undecided;
        }
        match (worse, better) {
            (_, true) => Verdict::Better,
            (true, _) => Verdict::WorseWithinGate,
            _ if shift.low > -log_gate => Verdict::Equal,
            _ => Verdict::NotWorse,
        }
    }
}

#[cfg(test)]
#[path = "simulation.rs"]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_at_three_percent(low: f64, estimate: f64, high: f64) -> Verdict {
        let shift = ShiftEstimate {
            estimate,
            low,
            high,
            p: 0.5,
        };
        Verdict::of_shift(&shift, Some(0.03))
    }

    #[test]
    fn a_figure_is_equal_only_if_its_interval_is_inside_the_gate() {
        assert_eq!(verdict_at_three_percent(-0.02, 0.0, 0.02), Verdict::Equal);
        assert_eq!(verdict_at_three_percent(-0.02, 0.0, 0.031), Verdict::Undecided);
        assert_eq!(verdict_at_three_percent(-0.04, -0.01, 0.01), Verdict::NotWorse);
        assert_eq!(
            verdict_at_three_percent(f64::NEG_INFINITY, 0.0, f64::INFINITY),
            Verdict::Undecided
        );
    }

    #[test]
    fn worse_needs_a_significant_shift_that_reaches_the_gate() {
        assert_eq!(verdict_at_three_percent(0.001, 0.03, 0.06), Verdict::Worse);
        assert_eq!(
            verdict_at_three_percent(0.001, 0.02, 0.029),
            Verdict::WorseWithinGate
        );
        assert_eq!(verdict_at_three_percent(0.001, 0.029, 0.05), Verdict::Undecided);
        assert_eq!(verdict_at_three_percent(-0.001, 0.05, 0.1), Verdict::Undecided);
        assert_eq!(verdict_at_three_percent(-0.2, -0.1, -0.01), Verdict::Better);
    }

    #[test]
    fn the_pairs_double_from_one_evaluation_to_the_next_and_p_values_are_corrected() {
        assert_eq!(
            SignificanceTestPlan::new(64, true, 2).evaluation_pairs,
            [16, 32, 64]
        );
        assert_eq!(SignificanceTestPlan::new(64, false, 2).evaluation_pairs, [64]);
        assert_eq!(SignificanceTestPlan::new(5, true, 1).evaluation_pairs, [5]);
        assert!((SignificanceTestPlan::new(64, true, 2).adjust_p_value(0.01) - 0.06).abs() < 1e-12);
    }
}
