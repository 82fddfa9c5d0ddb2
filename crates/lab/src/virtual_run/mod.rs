//! Labs in virtual time. Events advance model time, and no clock is read.
//!
//! A [`VirtualLab`] is a fabric with the jobs and open-loop flows of a lab, ready to run. [`run_virtual`]
//! implements the command `xoff lab run --virtual`.

mod arguments;
mod command;
mod link_traffic;
mod links;
mod output;
mod progress;
mod report_builder;
mod shortest_path_ends;
#[cfg(test)]
mod shortest_path_tests;
#[cfg(test)]
mod telemetry_tests;
mod virtual_lab;
mod workload_run;

pub use arguments::{EVENTS_MAX_DEFAULT, VirtualRunArgs};
pub use command::run_virtual;
pub(super) use command::{FinishedRun, describe_frame_memory_limit, run_to_end};
pub(super) use link_traffic::LinkTraffic;
pub(super) use links::link_reports;
pub use output::OutputFormat;
pub(super) use output::write_result_text;
pub use progress::ProgressFormat;
pub(super) use virtual_lab::fabric_plan_of;
pub use virtual_lab::{VirtualLab, switch_configuration, switch_configurations};
