//! Comparisons of two sides that are measured in turns, until the verdicts are decided.

use std::sync::atomic::AtomicBool;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::compared_side::ComparedSide;
use super::figure_pairs::{FigureNames, is_exact_in_both, log_ratio};
use super::report::{ComparedFigure, Comparison, SampleKind, join_first_names};
use super::settings::ComparisonSettings;
use super::side_results::{
    check_comparable, exact_shift, measure_side, missing_machine_taint, no_ratio_failure,
};
use super::statistics::signed_rank_test;
use super::undisturbed_pairs::select_undisturbed_pairs;
use super::variant_prefix::VariantPrefixes;
use super::verdict::{SignificanceTestPlan, Verdict};
use crate::result::{BenchResult, GOVERNOR_TAINT_PREFIX, MachineMeter, TaintLimits};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{CpuStealMeter, CpuStealTicks, Environment, count_noun};

/// The results of both sides. Results with the same index form a pair.
#[derive(Default)]
struct PairedResults {
    a: Vec<BenchResult>,
    b: Vec<BenchResult>,
    /// Processor time and stolen time during each pair.
    ticks: Vec<CpuStealTicks>,
}

/// The benchmark whose workloads have a constant cost, in nanoseconds per frame.
const CONSTANT_COST_BENCH: &str = "core";

/// The evaluation of the pairs that were measured so far.
struct PairEvaluation {
    figures: Vec<ComparedFigure>,
    /// Element *n* is true if pair *n* is selected for at least one figure.
    is_selected: Vec<bool>,
    notes: Vec<String>,
}

/// Compares two sides that can be run. They are measured in turns, until each figure has a verdict or the
/// largest number of pairs is reached.
pub(super) fn compare_in_turns(
    sides: [&ComparedSide; 2],
    settings: &ComparisonSettings,
    stop: &AtomicBool,
    report_progress: &mut impl FnMut(&str),
) -> Result<Comparison, Failure> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
    let meter = MachineMeter::start();
    let mut results = PairedResults::default();
    measure_pair(&mut results, sides, true, stop)?;
    let prefixes = VariantPrefixes::find(&results.a[0], &results.b[0]);
    prefixes.remove_from(&mut results.a[0], &mut results.b[0]);
    let FigureNames {
        in_both,
        missing_in_b,
        only_in_b,
    } = check_comparable(&results.a[0], &results.b[0], sides)?;
    let exact = in_both
        .iter()
        .all(|name| is_exact_in_both(&results.a[0], &results.b[0], name));
    let mut plan =
        SignificanceTestPlan::new(settings.pairs_max, settings.gate_percent.is_some(), in_both.len());
    if exact {
        plan.evaluation_pairs = vec![1];
    }
    let mut a_first = false;
    let mut evaluation = None;
    for (n, &pairs) in plan.evaluation_pairs.iter().enumerate() {
        while results.a.len() < pairs {
            // Of two successive pairs, one starts with A and the other one with B, in random order.
            a_first = if results.a.len() % 2 == 1 {
                !a_first
            } else {
                random.next_u64() >> 63 == 0
            };
            measure_pair(&mut results, sides, a_first, stop)?;
            if let (Some(a), Some(b)) = (results.a.last_mut(), results.b.last_mut()) {
                prefixes.remove_from(a, b);
            }
            report_progress(&format!(
                "pair {} of {} at most",
                results.a.len(),
                settings.pairs_max
            ));
        }
        let so_far = evaluate_pairs(&in_both, &results, &plan, settings)?;
        let undecided = so_far
            .figures
            .iter()
            .any(|figure| figure.verdict == Verdict::Undecided && !figure.diagnostic);
        evaluation = Some(so_far);
        if !undecided || n + 1 == plan.evaluation_pairs.len() {
            break;
        }
        report_progress("undecided so far");
    }
    let evaluation = evaluation.expect("a plan has at least one evaluation");
    let ticks = results.ticks.iter().zip(&evaluation.is_selected);
    let selected = ticks.filter_map(|(ticks, is_selected)| is_selected.then_some(*ticks));
    let steal = selected
        .fold(CpuStealTicks::default(), CpuStealTicks::plus)
        .percent();
    let (environment, tainted) = environment_and_taints(&meter, steal, exact, [&results.a, &results.b]);
    let mut comparison = Comparison::new(sides.map(ComparedSide::name), &results.a[0].bench, settings);
    comparison.pairs = Some(results.a.len());
    comparison.environment = Some(environment);
    comparison.tainted = tainted;
    if !exact {
        comparison
            .tainted
            .extend(missing_machine_taint(&results.a[0], &results.b[0]));
    }
    comparison.note_uncompared_figures(missing_in_b, &only_in_b);
    comparison.notes.extend(prefixes.describe());
    comparison.notes.extend(evaluation.notes);
    comparison.figures = evaluation.figures;
    Ok(comparison)
}

fn measure_pair(
    results: &mut PairedResults,
    [a, b]: [&ComparedSide; 2],
    a_first: bool,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let meter = CpuStealMeter::start();
    if a_first {
        results.a.push(measure_side(a, stop)?);
        results.b.push(measure_side(b, stop)?);
    } else {
        results.b.push(measure_side(b, stop)?);
        results.a.push(measure_side(a, stop)?);
    }
    results.ticks.push(meter.ticks_since_start());
    Ok(())
}

/// Tests the differences of each figure with all pairs so far, and returns the verdicts.
fn evaluate_pairs(
    figure_names: &[String],
    results: &PairedResults,
    plan: &SignificanceTestPlan,
    settings: &ComparisonSettings,
) -> Result<PairEvaluation, Failure> {
    let mut evaluation = PairEvaluation {
        figures: Vec::with_capacity(figure_names.len()),
        is_selected: vec![false; results.a.len()],
        notes: Vec::new(),
    };
    // Figures with the same number of pairs share a note.
    let mut slow_pairs: Vec<(String, Vec<&str>)> = Vec::new();
    for name in figure_names {
        let medians = |results: &[BenchResult]| -> Vec<f64> {
            let median = |result: &BenchResult| {
                result
                    .figure(name)
                    .map_or(f64::NAN, |figure| figure.spread().median)
            };
            results.iter().map(median).collect()
        };
        let (a, b) = (medians(&results.a), medians(&results.b));
        let figure = results.a[0].figure(name).expect("in both");
        let pairs = a.iter().zip(&b).map(|(a, b)| log_ratio(*a, *b, figure.better));
        let Some(differences) = pairs.collect::<Option<Vec<f64>>>() else {
            return Err(no_ratio_failure(name));
        };
        let exact = is_exact_in_both(&results.a[0], &results.b[0], name);
        let selection = match exact || results.a[0].bench != CONSTANT_COST_BENCH {
            true => vec![true; a.len()],
            false => {
                let logs = |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
                select_undisturbed_pairs(&logs(&a), &logs(&b))
            }
        };
        let selected_values = |values: &[f64]| -> Vec<f64> {
            let selected = values
                .iter()
                .zip(&selection)
                .filter(|(_, is_selected)| **is_selected);
            selected.map(|(value, _)| *value).collect()
        };
        let differences = selected_values(&differences);
        let shift = match exact {
            true => exact_shift(differences[0], figure),
            false => signed_rank_test(&differences, plan.alpha_per_test()),
        };
        if differences.len() < a.len() {
            let what = format!(
                "{} of {} count; in the others the machine was slow",
                differences.len(),
                count_noun(a.len() as u64, "pair")
            );
            match slow_pairs.iter_mut().find(|(known, _)| *known == what) {
                Some((_, names)) => names.push(name.as_str()),
                None => slow_pairs.push((what, vec![name.as_str()])),
            }
        }
        for (selected_for_any, is_selected) in evaluation.is_selected.iter_mut().zip(&selection) {
            *selected_for_any |= is_selected;
        }
        let samples = (&selected_values(&a)[..], &selected_values(&b)[..]);
        let figure = ComparedFigure::new(
            figure,
            samples,
            &shift,
            plan,
            settings.log_gate(),
            SampleKind::Pairs,
        );
        evaluation.figures.push(figure);
    }
    let notes = slow_pairs.into_iter();
    evaluation
        .notes
        .extend(notes.map(|(what, names)| format!("{}: {what}", join_first_names(names.into_iter()))));
    Ok(evaluation)
}

/// Returns the machine, and the taints of a comparison in turns.
///
/// A taint is a reason for which the comparison proves nothing. There are two kinds: a disturbance of the
/// machine during the selected pairs, and a taint that is reported by every run of a side. Exact figures have
/// no taints.
fn environment_and_taints(
    meter: &MachineMeter,
    steal_percent: Option<f64>,
    exact: bool,
    sides: [&[BenchResult]; 2],
) -> (Environment, Vec<String>) {
    let (environment, mut tainted) = meter.finish_with(&TaintLimits::default(), steal_percent);
    for (side, results) in ["A", "B"].iter().zip(sides) {
        let always = !results.is_empty() && results.iter().all(|result| !result.tainted.is_empty());
        if let Some(last) = results.last().filter(|_| always) {
            tainted.extend(
                last.tainted
                    .iter()
                    .map(|why| format!("{side}, in every run: {why}")),
            );
        }
    }
    // The governor affects both sides alike when they are measured in turns.
    tainted.retain(|why| !why.contains(GOVERNOR_TAINT_PREFIX));
    if exact {
        tainted.clear();
    }
    (environment, tainted)
}
