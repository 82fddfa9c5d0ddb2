//! Pairs of figures, and figures without noise: counts of instructions, and what runs in virtual time.

use crate::result::{BenchFigure, BenchResult, BetterWhen};

/// Nothing against something is a ratio without end: as much as a million times is as clear, and can be reckoned with.
const MOST: f64 = 1e6;

/// Logarithm of how many times worse `b` is than `a`, positive where it is; `None` for what is no amount (negative, not finite).
pub(super) fn log_ratio(a: f64, b: f64, better: BetterWhen) -> Option<f64> {
    if !(a.is_finite() && b.is_finite() && a >= 0.0 && b >= 0.0) {
        return None;
    }
    let ratio = match (a == 0.0, b == 0.0) {
        (true, true) => 1.0,
        (true, false) => MOST,
        (false, true) => 1.0 / MOST,
        _ => (b / a).clamp(1.0 / MOST, MOST),
    };
    Some(match better {
        BetterWhen::Smaller => ratio.ln(),
        BetterWhen::Bigger => -ratio.ln(),
    })
}

/// Logarithms of both, more where they are worse; `None` if one is no amount. Nothing is a millionth of the least that there is.
pub(super) fn logs(a: &[f64], b: &[f64], better: BetterWhen) -> Option<[Vec<f64>; 2]> {
    let mut both = a.iter().chain(b);
    if !both.clone().all(|value| value.is_finite() && *value >= 0.0) {
        return None;
    }
    let some = both.by_ref().copied().filter(|value| *value > 0.0);
    let least = some.reduce(f64::min).unwrap_or(1.0);
    let log = |value: &f64| {
        let log = match *value == 0.0 {
            true => least.ln() - MOST.ln(),
            false => value.ln(),
        };
        match better {
            BetterWhen::Smaller => log,
            BetterWhen::Bigger => -log,
        }
    };
    Some([a, b].map(|values| values.iter().map(log).collect()))
}

/// Whether there is nothing in one place and something in another: then the shift may hang on [`MOST`], and be no percentage.
pub(super) fn has_no_ratio(a: &[f64], b: &[f64]) -> bool {
    let any = |wanted: bool| a.iter().chain(b).any(|value| (*value == 0.0) == wanted);
    any(true) && any(false)
}

/// Whether every run of it gives the same: instructions, and results that hang on no machine.
pub(super) fn is_exact(result: &BenchResult, figure: &BenchFigure) -> bool {
    figure.unit == "instructions" || result.environment.is_none()
}

/// Whether every run of either side gives the same figure of this name.
pub(super) fn both_exact(a: &BenchResult, b: &BenchResult, name: &str) -> bool {
    [a, b]
        .iter()
        .all(|result| result.figure(name).is_some_and(|figure| is_exact(result, figure)))
}

/// Names of figures, each in the order of its result.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Names {
    /// Both have them.
    pub(super) both: Vec<String>,
    /// Of A alone, or in another unit or direction in B.
    pub(super) lost: Vec<String>,
    /// Of B alone.
    pub(super) new: Vec<String>,
}

/// Which figures can be compared.
pub(super) fn names(a: &BenchResult, b: &BenchResult) -> Names {
    let mut names = Names::default();
    for figure in &a.figures {
        let alike = |other: &BenchFigure| other.unit == figure.unit && other.better == figure.better;
        let list = match b.figure(&figure.name).is_some_and(alike) {
            true => &mut names.both,
            false => &mut names.lost,
        };
        list.push(figure.name.clone());
    }
    let new = b.figures.iter().filter(|figure| a.figure(&figure.name).is_none());
    names.new = new.map(|figure| figure.name.clone()).collect();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_is_positive_whichever_way_a_figure_improves() {
        assert!(log_ratio(100.0, 103.0, BetterWhen::Smaller).unwrap() > 0.0);
        assert!(log_ratio(100.0, 103.0, BetterWhen::Bigger).unwrap() < 0.0);
        assert_eq!(log_ratio(0.0, 0.0, BetterWhen::Smaller), Some(0.0));
        assert!(log_ratio(0.0, 0.1, BetterWhen::Smaller).unwrap() > 10.0);
        assert_eq!(log_ratio(-1.0, 1.0, BetterWhen::Smaller), None);
    }

    #[test]
    fn figures_of_another_unit_are_not_the_same() {
        let result = |figures: &[(&str, &str)]| {
            let mut result = BenchResult::new("core", "x", 1);
            let figure =
                |(name, unit): &(&str, &str)| BenchFigure::new(*name, unit, BetterWhen::Smaller, vec![1.0]);
            result.figures = figures.iter().map(figure).collect();
            result
        };
        let names = names(
            &result(&[("a", "ns"), ("b", "ns"), ("d", "ns")]),
            &result(&[("a", "ns"), ("b", "us"), ("c", "ns")]),
        );
        let lists = [names.both, names.lost, names.new].map(|list| list.join(" "));
        assert_eq!(lists, ["a", "b d", "c"]);
    }

    #[test]
    fn large_and_small_values_keep_their_ratio() {
        let [a, b] = logs(&[1e8, 1e-9], &[2e8, 2e-9], BetterWhen::Bigger).unwrap();
        for (a, b) in a.iter().zip(b) {
            assert!((b - a + 2_f64.ln()).abs() < 1e-12, "{a} {b}");
        }
        let [a, b] = logs(&[0.0, 5.0], &[5.0, 7.0], BetterWhen::Smaller).unwrap();
        assert!((b[0] - a[0] - MOST.ln()).abs() < 1e-9, "{a:?} {b:?}");
        assert_eq!(logs(&[-1.0], &[1.0], BetterWhen::Smaller), None);
        assert_eq!(
            logs(&[0.0], &[0.0], BetterWhen::Smaller).map(|[a, b]| a == b),
            Some(true)
        );
    }
}
