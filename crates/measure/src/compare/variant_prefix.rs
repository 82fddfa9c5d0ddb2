//! Prefixes of figure names that only name the variant of a side, such as the load-balancing scheme of
//! `xoff bench ai --lb ecmp`.
//!
//! Results of two variants have figures such as `ecmp/allreduce/jct_ns` and `flowlet/allreduce/jct_ns`. The
//! comparison of the variants compares both figures under the name `allreduce/jct_ns`.

use super::figure_pairs::match_figures;
use crate::result::BenchResult;

/// The benchmark whose figures name a variant.
const BENCH_AI: &str = "ai";

/// The prefixes that are left out of the names of the figures of sides A and B, without the slash. `None` keeps
/// the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VariantPrefixes([Option<String>; 2]);

impl VariantPrefixes {
    /// Finds the prefixes of two results. No prefix is left out if the results have a common figure anyway, or if they
    /// have none without prefixes either. Only the figures of `bench ai` name a variant.
    pub(super) fn find(a: &BenchResult, b: &BenchResult) -> VariantPrefixes {
        if a.bench != BENCH_AI || b.bench != BENCH_AI {
            return VariantPrefixes::default();
        }
        let (of_a, of_b) = (common_prefix(a), common_prefix(b));
        let candidates = [
            [None, None],
            [None, of_b.clone()],
            [of_a.clone(), None],
            [of_a, of_b],
        ];
        let has_common_figures = |prefixes: &[Option<String>; 2]| {
            let prefixes = VariantPrefixes(prefixes.clone());
            let mut results = [a.clone(), b.clone()];
            let [a, b] = &mut results;
            prefixes.remove_from(a, b);
            !match_figures(a, b).in_both.is_empty()
        };
        VariantPrefixes(
            candidates
                .into_iter()
                .find(has_common_figures)
                .unwrap_or_default(),
        )
    }

    /// Removes the prefixes from the names of the figures of both sides.
    pub(super) fn remove_from(&self, a: &mut BenchResult, b: &mut BenchResult) {
        self.remove_from_side(0, a);
        self.remove_from_side(1, b);
    }

    /// Removes the prefix of side A (0) or B (1) from the names of its figures.
    pub(super) fn remove_from_side(&self, side: usize, result: &mut BenchResult) {
        let Some(prefix) = &self.0[side] else { return };
        for figure in &mut result.figures {
            let rest = figure.name.strip_prefix(prefix.as_str());
            if let Some(rest) = rest.and_then(|rest| rest.strip_prefix('/')) {
                figure.name = rest.to_owned();
            }
        }
    }

    /// Describes which figures are compared. `None` if the names are complete.
    pub(super) fn describe(&self) -> Option<String> {
        let [a, b] = &self.0;
        if a.is_none() && b.is_none() {
            return None;
        }
        let figures = |side: &str, prefix: &Option<String>| match prefix {
            Some(prefix) => format!("the figures {prefix}/... of {side}"),
            None => format!("the figures of {side}"),
        };
        Some(format!("compares {} with {}", figures("A", a), figures("B", b)))
    }
}

/// Returns the part before the first slash if it is the same in the names of all figures.
fn common_prefix(result: &BenchResult) -> Option<String> {
    let mut prefixes = result.figures.iter().map(|figure| figure.name.split_once('/'));
    let (first, _) = prefixes.next()??;
    prefixes
        .all(|parts| parts.is_some_and(|(prefix, _)| prefix == first))
        .then(|| first.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{BenchFigure, ImprovementDirection};

    fn result(names: &[&str]) -> BenchResult {
        let mut result = BenchResult::new("ai", "x", 1);
        let figure = |name: &&str| BenchFigure::new(*name, "ns", ImprovementDirection::Smaller, vec![1.0]);
        result.figures = names.iter().map(figure).collect();
        result
    }

    #[test]
    fn figures_of_two_variants_are_compared_under_one_name() {
        let ecmp = ["ecmp/all/jct", "ecmp/all/busbw"];
        for (a, b, common, note) in [
            (
                &ecmp[..],
                &["flowlet/all/jct", "flowlet/all/busbw"][..],
                "all/jct all/busbw",
                Some("compares the figures ecmp/... of A with the figures flowlet/... of B"),
            ),
            (
                &["all/jct"],
                &ecmp,
                "all/jct",
                Some("compares the figures of A with the figures ecmp/... of B"),
            ),
            (&ecmp, &["ecmp/all/jct", "flowlet/all/jct"], "ecmp/all/jct", None),
            (&ecmp, &["flowlet/other/jct"], "", None),
        ] {
            let (mut a, mut b) = (result(a), result(b));
            let prefixes = VariantPrefixes::find(&a, &b);
            prefixes.remove_from(&mut a, &mut b);
            assert_eq!(match_figures(&a, &b).in_both.join(" "), common);
            assert_eq!(prefixes.describe().as_deref(), note);
        }
    }
}
