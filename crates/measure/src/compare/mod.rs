//! `xoff bench compare`: tests whether one side of a comparison is slower than the other.
//!
//! If both sides can be run, they are measured in turns. Each sample is a separate process, because the
//! memory layout of a process changes its speed. A pair consists of one sample of each side, in random order.
//! Each pair gives one difference of logarithms for each figure. If a benchmark has a constant cost, the
//! pairs that were measured on a disturbed machine are left out. [`statistics`] estimates the shift between
//! the sides. [`verdict`] decides whether the shift is significant, and whether more pairs are necessary.

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
pub mod verdict;

use std::sync::atomic::AtomicBool;

use xoff_telemetry::failure::Failure;

pub use arguments::{parse_gate_percent, remove_json_options};
pub use compared_side::{ComparedSide, SideCommands};
pub use report::{COMPARISON_SCHEMA, ComparedFigure, Comparison};
pub use settings::ComparisonSettings;

/// Compares side B with side A. Sides that can be run are measured in turns.
///
/// # Errors
/// A side cannot be run, the sides are results of different benchmarks, the sides have no common figure, or
/// `stop` is set.
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
