//! `xoff bench compare`: tests whether side B of a comparison is worse than side A.
//!
//! If both sides can be run, they are measured in turns:
//!
//! - Each sample is a separate process, because the memory layout of a process changes its speed.
//! - A pair has one sample of each side, in random order. For each figure (measured quantity), a pair gives
//!   one value: the logarithm of the ratio of B to A.
//! - If a benchmark has a constant cost, pairs from times when the machine was disturbed are left out.
//! - [`statistics`] estimates the shift between the two sides from these values.
//! - [`verdict`] decides whether the shift is significant, and whether more pairs are necessary.

mod arguments;
mod compared_side;
mod figure_pairs;
mod ranks;
mod report;
mod saved;
mod settings;
mod side_results;
pub mod statistics;
mod turns;
mod undisturbed_pairs;
mod variant_prefix;
pub mod verdict;

use std::sync::atomic::AtomicBool;

use xoff_telemetry::failure::Failure;

pub use arguments::{parse_gate_percent, remove_json_options};
pub use compared_side::{ComparedSide, ComparisonSideArguments};
pub use report::{COMPARISON_SCHEMA, ComparedFigure, Comparison};
pub use settings::ComparisonSettings;

/// Compares side B with side A. If both sides can be run, they are measured in turns. `report_progress`
/// receives lines of text about the progress.
///
/// # Errors
/// A side fails, the sides are results of different benchmarks, the sides have no common figure, a value is
/// negative or not finite, or `stop` becomes true.
pub fn compare_sides(
    [a, b]: [&ComparedSide; 2],
    settings: &ComparisonSettings,
    stop: &AtomicBool,
    mut report_progress: impl FnMut(&str),
) -> Result<Comparison, Failure> {
    match (a, b) {
        (ComparedSide::Run { .. }, ComparedSide::Run { .. }) => {
            turns::compare_in_turns([a, b], settings, stop, &mut report_progress)
        }
        _ => saved::compare_with_saved([a, b], settings, stop, &mut report_progress),
    }
}
