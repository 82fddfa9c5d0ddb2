//! Runs sweeps: many independent runs of one lab in virtual time, with several seeds and several values of
//! lab fields.
//!
//! Runs are numbered from 0. The seed changes fastest, then the last `--set` field, and the first `--set`
//! field changes slowest. For example, `--set a=1,2 --seeds 5,6` has four runs with these pairs of `a` and
//! seed: (1, 5), (1, 6), (2, 5) and (2, 6). A sweep can be divided into n shards. Each shard has every n-th
//! run, so all shards take about the same time. Results do not depend on the machine. The merged report of
//! all shards is therefore identical to the report of the undivided sweep, byte for byte.

mod command;
mod figure_column;
mod merge;
mod pool;
mod progress;
mod report;
mod seeds;
mod table;

pub use command::{RUNS_MAX, SweepArgs, run_sweep};
pub use merge::{MergeArgs, merge_sweep};
pub use report::{JobMeasurements, RunMeasurements, SWEEP_SCHEMA, Shard, SweepReport, VariedField};
pub use seeds::Seeds;

pub(super) use command::{setting_combinations, with_run_options};
pub(super) use figure_column::{MeasurementColumn, csv_field, format_median_and_range};
pub use pool::{ParallelRunsResult, run_in_parallel};
pub(super) use progress::create_progress_bar;
pub(super) use report::round_to_six_decimals;
