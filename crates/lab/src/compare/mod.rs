//! Implements the command `xoff lab compare`, which runs a lab with several load-balancing schemes. The
//! command compares the figures (measured quantities, such as the job completion time). The reference is a
//! lab with the same hosts at one non-blocking switch.
//!
//! A comparison is a list of lab variants. Each combination of `--set` values has one variant for each
//! scheme, and one variant with a single switch. Each variant runs once for each seed, in virtual time or in
//! real time ([`run_mode::ComparisonRunMode`]). Each row of the result table has the figures of one variant
//! and job. The runs of the first variant come first, in the order of the seeds. Results in virtual time do
//! not depend on the machine.

mod command;
mod figures;
mod one_switch;
mod plots;
mod report;
mod run_mode;
mod table;
mod variants;
mod warnings;

pub use command::{CompareArgs, run_compare};
pub use figures::{NamedRunMeasurement, measurements_of_report};
pub use report::{COMPARE_SCHEMA, CompareReport, ComparisonRow, ComparisonRun, MedianAndRange};
pub use run_mode::ComparisonRunMode;
pub use variants::{ComparedField, LOAD_BALANCING};
