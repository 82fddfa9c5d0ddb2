//! Pairs of figures, and figures without noise: counts of instructions, and what runs in virtual time.

use crate::bench::result::{BenchResult, Better, Figure};

/// Logarithm of how many times worse `b` is than `a`, positive where it is; `None` for what is no amount (negative, not finite).
pub(super) fn log_ratio(a: f64, b: f64, better: Better) -> Option<f64> {
    // Nothing against something is a ratio without end: as much as a million times is as clear, and can be reckoned with.
    const MOST: f64 = 1e6;
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
        Better::Smaller => ratio.ln(),
        Better::Bigger => -ratio.ln(),
    })
}

/// Whether every run of it gives the same: instructions, and results that hang on no machine.
pub(super) fn is_exact(result: &BenchResult, figure: &Figure) -> bool {
    figure.unit == "instructions" || result.environment.is_none()
}

/// Names of figures that both have, in the order of `a`; and of those that one of them has.
pub(super) fn common(a: &BenchResult, b: &BenchResult) -> (Vec<String>, Vec<String>) {
    let alike = |one: &Figure, other: &BenchResult| {
        let same = |other: &Figure| other.unit == one.unit && other.better == one.better;
        other.figure(&one.name).is_some_and(same)
    };
    let names = |of: &BenchResult, other: &BenchResult, wanted: bool| -> Vec<String> {
        let figures = of.figures.iter().filter(|figure| alike(figure, other) == wanted);
        figures.map(|figure| figure.name.clone()).collect()
    };
    let mut apart = names(a, b, false);
    apart.extend(
        names(b, a, false)
            .into_iter()
            .filter(|name| a.figure(name).is_none()),
    );
    (names(a, b, true), apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_is_positive_whichever_way_a_figure_improves() {
        assert!(log_ratio(100.0, 103.0, Better::Smaller).unwrap() > 0.0);
        assert!(log_ratio(100.0, 103.0, Better::Bigger).unwrap() < 0.0);
        assert_eq!(log_ratio(0.0, 0.0, Better::Smaller), Some(0.0));
        assert!(log_ratio(0.0, 0.1, Better::Smaller).unwrap() > 10.0);
        assert_eq!(log_ratio(-1.0, 1.0, Better::Smaller), None);
    }

    #[test]
    fn figures_of_another_unit_are_not_the_same() {
        let result = |figures: &[(&str, &str)]| {
            let mut result = BenchResult::new("core", "x", 1);
            let figure = |(name, unit): &(&str, &str)| Figure::new(*name, unit, Better::Smaller, vec![1.0]);
            result.figures = figures.iter().map(figure).collect();
            result
        };
        let (both, apart) = common(
            &result(&[("a", "ns"), ("b", "ns")]),
            &result(&[("a", "ns"), ("b", "us"), ("c", "ns")]),
        );
        assert_eq!(
            (both, apart),
            (vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()])
        );
    }
}
