//! Results of the two sides, and the checks that they can be compared.

use std::sync::atomic::AtomicBool;

use super::compared_side::{ComparedSide, run_side};
use super::figure_pairs::{FigureNames, match_figures};
use super::statistics::ShiftEstimate;
use crate::result::{BenchFigure, BenchResult};
use xoff_telemetry::failure::Failure;

/// Returns one result of a side: the saved result, or the result of a new run.
pub(super) fn measure_side(side: &ComparedSide, stop: &AtomicBool) -> Result<BenchResult, Failure> {
    match side {
        ComparedSide::Run { name, command } => run_side(name, command, stop),
        ComparedSide::Saved { result, .. } => Ok((**result).clone()),
    }
}

/// Returns the names of the figures that can be compared.
///
/// # Errors
/// The results are of different benchmarks, or have no figure in common.
pub(super) fn check_comparable(
    a: &BenchResult,
    b: &BenchResult,
    sides: [&ComparedSide; 2],
) -> Result<FigureNames, Failure> {
    let location = format!("{} and {}", sides[0].name(), sides[1].name());
    if a.bench != b.bench {
        return Err(Failure::usage(format!(
            "the results are of different benchmarks: {} and {}",
            a.bench, b.bench
        ))
        .at(location)
        .fix("compare two results of the same benchmark"));
    }
    let names = match_figures(a, b);
    if names.in_both.is_empty() {
        return Err(Failure::usage("the two results have no figure in common")
            .at(location)
            .fix("compare results of the same workloads, frame lengths and units"));
    }
    Ok(names)
}

/// Returns the shift of an exact figure, for which every run gives the same value. The confidence interval
/// has no width.
///
/// If two instruction counts differ by less than 0.05 %, the difference is regarded as 0. Such a
/// difference comes from the start address of the stack, which depends on the program names and the
/// environment variables.
pub(super) fn exact_shift(difference: f64, figure: &BenchFigure) -> ShiftEstimate {
    const STACK_EFFECT_LOG: f64 = 5e-4;
    let difference = match figure.unit == "instructions" && difference.abs() < STACK_EFFECT_LOG {
        true => 0.0,
        false => difference,
    };
    ShiftEstimate {
        estimate: difference,
        low: difference,
        high: difference,
        p: if difference == 0.0 { 1.0 } else { 0.0 },
    }
}

/// Returns the failure for a figure with values that have no ratio.
pub(super) fn no_ratio_failure(figure_name: &str) -> Failure {
    Failure::configuration(format!("the values of the figure {figure_name} have no ratio"))
        .because("a value is negative or not finite")
}

/// Returns a taint if one result names the machine of its measurement and the other does not.
pub(super) fn missing_machine_taint(a: &BenchResult, b: &BenchResult) -> Option<String> {
    let (with, without) = match (&a.environment, &b.environment) {
        (Some(_), None) => ("A", "B"),
        (None, Some(_)) => ("B", "A"),
        _ => return None,
    };
    Some(format!(
        "{with} was measured on a machine, but {without} does not name its machine"
    ))
}
