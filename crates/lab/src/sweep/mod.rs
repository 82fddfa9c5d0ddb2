//! Runs sweeps. A sweep consists of independent runs of one lab in virtual time, with several seeds and
//! several values of lab fields.
//!
//! Runs are numbered from 0. The seed changes fastest, then the last field of the command line, and the first
//! field changes slowest. For example, `--set a=1,2 --seeds 5,6` has the runs (1, 5), (1, 6), (2, 5) and (2,
//! 6). If a sweep is divided into n shards, each shard has every n-th run, so that all shards take about the
//! same time. Results do not depend on the machine. The merged report of all shards therefore has the same
//! bytes as the report of one undivided sweep.

mod command;
mod figure_column;
mod merge;
mod pool;
mod report;
mod seeds;
mod table;

pub use command::{RUNS_MAX, SweepArgs, run_sweep};
pub use merge::{MergeArgs, merge_sweep};
pub use report::{JobFigures, Parameter, RunFigures, SWEEP_SCHEMA, Shard, SweepReport};
pub use seeds::Seeds;

pub(super) use command::{create_progress_bar, setting_combinations, with_run_options};
pub(super) use figure_column::{FigureColumn, csv_field, format_median_and_range, min_median_max};
pub use pool::{PoolResult, run_in_parallel};
pub(super) use report::round_to_six_decimals;
