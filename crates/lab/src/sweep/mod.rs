//! Sweeps: one lab, many seeds and values of its fields, as independent runs in virtual time.
//!
//! Runs are numbered: combinations of values in the order in which they were written, the last field changing fastest, and for
//! each all seeds. A shard has every n-th of them, so that shards take alike long. Results are put in that order, whichever ends
//! first, and hold nothing of the machine: a sweep in parts, merged, is byte for byte the sweep in one.

mod column;
mod edit;
mod merge;
mod pool;
mod report;
mod run;
mod seeds;
mod setting;
mod table;

pub use merge::{MergeArgs, merge};
pub use report::{JobFigures, Parameter, RunFigures, SWEEP_SCHEMA, Shard, SweepReport};
pub use run::{RUNS_MAX, SweepArgs, run};
pub use seeds::Seeds;
pub use setting::{Chosen, Setting};

pub(super) use column::{Column, quoted, spread, spread_text};
pub use pool::{Pooled, run_all};
pub(super) use report::rounded;
pub(super) use run::{combinations, named, progress_bar};
pub use setting::load_with;
pub(super) use setting::{changed, plan as plan_of, put, read as read_lab};
