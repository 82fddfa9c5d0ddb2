//! Sweeps: independent runs of one lab in virtual time with several seeds and several values of fields.
//!
//! Runs are numbered from 0. The combinations of values come in the order of the command line, and the last
//! field changes fastest. Each combination has one run for each seed. A shard of n has every n-th run, so
//! that all shards take about the same time. Results are in the order of the runs and contain no property of
//! the machine. The merged report of all shards therefore has the same bytes as the report of the sweep in
//! one command.

mod command;
mod figure_column;
mod merge;
mod pool;
mod report;
mod seeds;
mod setting;
mod table;
mod yaml_edit;

pub use command::{RUNS_MAX, SweepArgs, run_sweep};
pub use merge::{MergeArgs, merge_sweep};
pub use report::{JobFigures, Parameter, RunFigures, SWEEP_SCHEMA, Shard, SweepReport};
pub use seeds::Seeds;
pub use setting::{FieldSetting, FieldValue};

pub(super) use command::{create_progress_bar, setting_combinations, with_run_options};
pub(super) use figure_column::{FigureColumn, csv_field, format_median_and_range, min_median_max};
pub use pool::{PoolResult, run_in_parallel};
pub(super) use report::round_to_six_decimals;
pub use setting::load_with_values;
pub(super) use setting::{apply_values, parse_changed_lab, read_lab_file, set_value};
