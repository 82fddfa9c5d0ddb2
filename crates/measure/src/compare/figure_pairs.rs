//! Figures (measured quantities) that two results have in common, and the ratios of their values.
//!
//! A figure is exact if every run gives the same value. Instruction counts and results in virtual
//! time are exact.

use crate::result::{BenchFigure, BenchResult, ImprovementDirection};

/// Largest ratio of two values that is used. A larger ratio, such as the infinite ratio of a positive value
/// to 0, is reduced to this limit.
const RATIO_MAX: f64 = 1e6;

/// Returns the logarithm of the ratio by which `b` is worse than `a`, such as 0.03 for 3 %. The logarithm is
/// positive if `b` is worse.
///
/// The function returns `None` if a value is negative or not finite.
pub(super) fn log_ratio(a: f64, b: f64, better: ImprovementDirection) -> Option<f64> {
    if !(a.is_finite() && b.is_finite() && a >= 0.0 && b >= 0.0) {
        return None;
    }
    let ratio = match (a == 0.0, b == 0.0) {
        (true, true) => 1.0,
        (true, false) => RATIO_MAX,
        (false, true) => 1.0 / RATIO_MAX,
        _ => (b / a).clamp(1.0 / RATIO_MAX, RATIO_MAX),
    };
    Some(match better {
        ImprovementDirection::Smaller => ratio.ln(),
        ImprovementDirection::Bigger => -ratio.ln(),
    })
}

/// Returns the logarithms of both samples as costs. If a larger value of the figure is better, the logarithms
/// are negated. A larger cost is therefore always worse.
///
/// A value of 0 counts as a millionth of the smallest positive value of both samples. The function returns
/// `None` if a value is negative or not finite.
pub(super) fn log_costs(a: &[f64], b: &[f64], better: ImprovementDirection) -> Option<[Vec<f64>; 2]> {
    let mut both = a.iter().chain(b);
    if !both.clone().all(|value| value.is_finite() && *value >= 0.0) {
        return None;
    }
    let positive = both.by_ref().copied().filter(|value| *value > 0.0);
    let least = positive.reduce(f64::min).unwrap_or(1.0);
    let log = |value: &f64| {
        let log = match *value == 0.0 {
            true => least.ln() - RATIO_MAX.ln(),
            false => value.ln(),
        };
        match better {
            ImprovementDirection::Smaller => log,
            ImprovementDirection::Bigger => -log,
        }
    };
    Some([a, b].map(|values| values.iter().map(log).collect()))
}

/// Returns whether the samples contain zeros and also other values. The shift between the samples may then
/// depend on [`RATIO_MAX`], so it cannot be expressed as a percentage.
pub(super) fn has_zeros_and_positive_values(a: &[f64], b: &[f64]) -> bool {
    let any = |is_zero: bool| a.iter().chain(b).any(|value| (*value == 0.0) == is_zero);
    any(true) && any(false)
}

/// Returns whether every run gives the same value of the figure. This is the case for instruction counts, and
/// for results in virtual time, which do not depend on a machine.
pub(super) fn is_exact(result: &BenchResult, figure: &BenchFigure) -> bool {
    figure.unit == "instructions" || result.environment.is_none()
}

/// Returns whether both results have an exact figure of this name.
pub(super) fn is_exact_in_both(a: &BenchResult, b: &BenchResult, name: &str) -> bool {
    [a, b]
        .iter()
        .all(|result| result.figure(name).is_some_and(|figure| is_exact(result, figure)))
}

/// Names of the figures in two results A and B. Each list has the order of the figures in its result.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FigureNames {
    /// Figures that both results have.
    pub(super) in_both: Vec<String>,
    /// Results of A that are missing in B, or that have another unit or direction in B. Diagnostics are left out.
    pub(super) missing_in_b: Vec<String>,
    /// Figures that only B has.
    pub(super) only_in_b: Vec<String>,
}

/// Finds the figures that two results have in common.
pub(super) fn match_figures(a: &BenchResult, b: &BenchResult) -> FigureNames {
    let mut names = FigureNames::default();
    for figure in &a.figures {
        let is_comparable = |other: &BenchFigure| other.unit == figure.unit && other.better == figure.better;
        let list = match b.figure(&figure.name).is_some_and(is_comparable) {
            true => &mut names.in_both,
            false if figure.diagnostic => continue,
            false => &mut names.missing_in_b,
        };
        list.push(figure.name.clone());
    }
    let new = b.figures.iter().filter(|figure| a.figure(&figure.name).is_none());
    names.only_in_b = new.map(|figure| figure.name.clone()).collect();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_ratio_is_positive_if_b_is_worse() {
        assert!(log_ratio(100.0, 103.0, ImprovementDirection::Smaller).unwrap() > 0.0);
        assert!(log_ratio(100.0, 103.0, ImprovementDirection::Bigger).unwrap() < 0.0);
        assert_eq!(log_ratio(0.0, 0.0, ImprovementDirection::Smaller), Some(0.0));
        assert!(log_ratio(0.0, 0.1, ImprovementDirection::Smaller).unwrap() > 10.0);
        assert_eq!(log_ratio(-1.0, 1.0, ImprovementDirection::Smaller), None);
    }

    #[test]
    fn figures_with_different_units_do_not_match() {
        let result = |figures: &[(&str, &str)]| {
            let mut result = BenchResult::new("core", "x", 1);
            let figure = |(name, unit): &(&str, &str)| {
                BenchFigure::new(*name, unit, ImprovementDirection::Smaller, vec![1.0])
            };
            result.figures = figures.iter().map(figure).collect();
            result
        };
        let names = match_figures(
            &result(&[("a", "ns"), ("b", "ns"), ("d", "ns")]),
            &result(&[("a", "ns"), ("b", "us"), ("c", "ns")]),
        );
        let lists = [names.in_both, names.missing_in_b, names.only_in_b].map(|list| list.join(" "));
        assert_eq!(lists, ["a", "b d", "c"]);
    }

    #[test]
    fn large_and_small_values_keep_their_ratio() {
        let [a, b] = log_costs(&[1e8, 1e-9], &[2e8, 2e-9], ImprovementDirection::Bigger).unwrap();
        for (a, b) in a.iter().zip(b) {
            assert!((b - a + 2_f64.ln()).abs() < 1e-12, "{a} {b}");
        }
        let [a, b] = log_costs(&[0.0, 5.0], &[5.0, 7.0], ImprovementDirection::Smaller).unwrap();
        assert!((b[0] - a[0] - RATIO_MAX.ln()).abs() < 1e-9, "{a:?} {b:?}");
        assert_eq!(log_costs(&[-1.0], &[1.0], ImprovementDirection::Smaller), None);
        assert_eq!(
            log_costs(&[0.0], &[0.0], ImprovementDirection::Smaller).map(|[a, b]| a == b),
            Some(true)
        );
    }
}
