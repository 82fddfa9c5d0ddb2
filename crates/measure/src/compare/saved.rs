//! Comparisons with a saved result. The two sides are not measured in turns.

use std::sync::atomic::AtomicBool;

use super::compared_side::ComparedSide;
use super::figure_pairs::{FigureNames, is_exact, is_exact_in_both, log_costs, log_ratio};
use super::report::{ComparedFigure, Comparison, SampleKind};
use super::settings::ComparisonSettings;
use super::side_results::{
    check_comparable, exact_shift, measure_side, missing_machine_taint, no_ratio_failure,
};
use super::statistics::rank_sum_test;
use super::variant_prefix::VariantPrefixes;
use super::verdict::SignificanceTestPlan;
use crate::result::{BenchResult, GOVERNOR_TAINT_PREFIX, MachineMeter, TaintLimits};
use xoff_telemetry::Environment;
use xoff_telemetry::failure::Failure;

/// Compares two sides. At least one of them is a saved result.
pub(super) fn compare_with_saved(
    sides: [&ComparedSide; 2],
    settings: &ComparisonSettings,
    stop: &AtomicBool,
    report_progress: &mut impl FnMut(&str),
) -> Result<Comparison, Failure> {
    let meter = MachineMeter::start();
    let mut results = [measure_side(sides[0], stop)?, measure_side(sides[1], stop)?];
    let prefixes = VariantPrefixes::find(&results[0], &results[1]);
    let [a, b] = &mut results;
    prefixes.remove_from(a, b);
    // Errors are reported now, and not after all samples, which can take minutes.
    check_comparable(&results[0], &results[1], sides)?;
    for (index, (result, side)) in results.iter_mut().zip(sides).enumerate() {
        let measure = || {
            let mut next = measure_side(side, stop)?;
            prefixes.remove_from_side(index, &mut next);
            Ok(next)
        };
        let is_saved = matches!(side, ComparedSide::Saved { .. });
        if !is_saved {
            add_further_samples(result, measure, settings, report_progress)?;
        }
    }
    let mut comparison = compare_samples(&results, sides, settings, &meter)?;
    comparison.notes.extend(prefixes.describe());
    Ok(comparison)
}

/// Measures a side again with `measure`, up to `pairs_max` runs in total, and adds the samples to `result`. Exact
/// figures (each run gives the same value) need no further samples.
fn add_further_samples(
    result: &mut BenchResult,
    measure: impl Fn() -> Result<BenchResult, Failure>,
    settings: &ComparisonSettings,
    report_progress: &mut impl FnMut(&str),
) -> Result<(), Failure> {
    let exact = result.figures.iter().all(|figure| is_exact(result, figure));
    if exact {
        return Ok(());
    }
    for n in 1..settings.pairs_max {
        report_progress(&format!("sample {} of {}", n + 1, settings.pairs_max));
        let next = measure()?;
        for figure in &mut result.figures {
            let more = next
                .figure(&figure.name)
                .map_or(&[][..], |figure| &figure.samples);
            figure.samples.extend_from_slice(more);
        }
    }
    result.tainted.clear(); // The caller finds taints for the whole time.
    Ok(())
}

fn compare_samples(
    [a, b]: &[BenchResult; 2],
    sides: [&ComparedSide; 2],
    settings: &ComparisonSettings,
    meter: &MachineMeter,
) -> Result<Comparison, Failure> {
    let FigureNames {
        in_both,
        missing_in_b,
        only_in_b,
    } = check_comparable(a, b, sides)?;
    let plan = SignificanceTestPlan::new(1, false, in_both.len());
    let mut comparison = Comparison::new(sides.map(ComparedSide::name), &a.bench, settings);
    comparison.note_uncompared_figures(missing_in_b, &only_in_b);
    let mut noisy = false;
    for name in &in_both {
        let (of_a, of_b) = (a.figure(name).expect("in both"), b.figure(name).expect("in both"));
        let shift = if is_exact_in_both(a, b, name) {
            let (a, b) = (of_a.spread().median, of_b.spread().median);
            exact_shift(
                log_ratio(a, b, of_a.better).ok_or_else(|| no_ratio_failure(name))?,
                of_a,
            )
        } else {
            noisy = true;
            let logs = log_costs(&of_a.samples, &of_b.samples, of_a.better);
            let [log_a, log_b] = logs.ok_or_else(|| no_ratio_failure(name))?;
            rank_sum_test(&log_a, &log_b, plan.alpha_per_test())
        };
        comparison.figures.push(ComparedFigure::new(
            of_a,
            (&of_a.samples, &of_b.samples),
            &shift,
            &plan,
            settings.log_gate(),
            SampleKind::Separate,
        ));
    }
    let is_any_side_run = sides.iter().any(|side| matches!(side, ComparedSide::Run { .. }));
    if noisy {
        comparison
            .notes
            .push("not measured in turns: the difference includes changes of the machine".to_owned());
        comparison.tainted = find_taints(a, b);
        if is_any_side_run {
            let (_, tainted) = meter.finish(&TaintLimits::default());
            comparison.tainted.extend(
                tainted
                    .into_iter()
                    .filter(|why| !why.contains(GOVERNOR_TAINT_PREFIX)),
            );
        }
    }
    comparison.environment = b.environment.clone();
    Ok(comparison)
}

/// Returns the taints of both results, and the differences between their machines.
fn find_taints(a: &BenchResult, b: &BenchResult) -> Vec<String> {
    let mut tainted = Vec::new();
    for (side, result) in [("A", a), ("B", b)] {
        tainted.extend(result.tainted.iter().map(|why| format!("{side}: {why}")));
    }
    tainted.extend(missing_machine_taint(a, b));
    if let (Some(a), Some(b)) = (&a.environment, &b.environment) {
        tainted.extend(different_machines_taint(a, b));
    }
    tainted
}

/// Returns a taint if two machines differ in a property that changes measured values. The version of xoff
/// may differ.
fn different_machines_taint(a: &Environment, b: &Environment) -> Option<String> {
    let properties = |environment: &Environment| {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        [
            ("processor", known(&environment.cpu_model)),
            ("cores", environment.cores.to_string()),
            ("governor", known(&environment.governor)),
            ("kernel", known(&environment.kernel)),
            ("clock source", known(&environment.clocksource)),
        ]
    };
    let pairs = properties(a)
        .into_iter()
        .zip(properties(b))
        .filter(|(a, b)| a != b);
    let differing: Vec<String> = pairs
        .map(|((name, a), (_, b))| format!("{name} {a} and {b}"))
        .collect();
    (!differing.is_empty()).then(|| {
        format!(
            "the sides were measured on different machines: {}",
            differing.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_measured_on(environment: Option<Environment>) -> BenchResult {
        let mut result = BenchResult::new("core", "x", 1);
        result.environment = environment;
        result
    }

    #[test]
    fn a_difference_of_the_machines_that_changes_figures_is_a_taint() {
        let here = Environment {
            cores: 2,
            kernel: Some("6.1".to_owned()),
            ..Environment::default()
        };
        let taint_after = |change: fn(&mut Environment)| {
            let mut there = here.clone();
            change(&mut there);
            find_taints(
                &result_measured_on(Some(here.clone())),
                &result_measured_on(Some(there)),
            )
            .join("; ")
        };
        assert_eq!(taint_after(|there| there.xoff_version = "9".to_owned()), "");
        assert_eq!(taint_after(|there| there.steal_percent = Some(0.5)), "");
        for (taint, expected) in [
            (
                taint_after(|there| there.kernel = Some("6.2".to_owned())),
                "kernel 6.1 and 6.2",
            ),
            (taint_after(|there| there.cores = 64), "cores 2 and 64"),
            (
                taint_after(|there| there.clocksource = Some("hpet".to_owned())),
                "clock source unknown and hpet",
            ),
            (
                taint_after(|there| there.governor = Some("powersave".to_owned())),
                "governor",
            ),
            (
                taint_after(|there| there.cpu_model = Some("c".to_owned())),
                "processor",
            ),
        ] {
            assert!(
                taint.contains("different machines") && taint.contains(expected),
                "{expected}: {taint}"
            );
        }
    }

    #[test]
    fn a_result_without_a_machine_taints_the_comparison_with_a_result_that_names_one() {
        let (with, without) = (
            result_measured_on(Some(Environment::default())),
            result_measured_on(None),
        );
        assert!(find_taints(&with, &without)[0].contains("B does not name its machine"));
        assert!(find_taints(&without, &with)[0].contains("A does not name its machine"));
        assert!(find_taints(&without, &without).is_empty());
    }
}
