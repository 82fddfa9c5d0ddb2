//! A lab in virtual time: the same file, the same switches and hosts, and a clock that only events advance.
//!
//! [`VirtualLab`] is a lab that has been set up: a fabric, its jobs and its open-loop flows, ready to be run, watched and
//! reported. [`run`] is the command.

mod build;
mod command;
mod links;
mod output;
mod report;
#[cfg(test)]
mod telemetry_tests;

pub(super) use build::fabric_of;
pub use build::{VirtualLab, switch_configuration, switch_configurations};
pub use command::{EVENTS_MAX_DEFAULT, VirtualRunArgs, run};
pub(super) use command::{Played, play};
pub use links::{BalanceReport, LinkReport};
pub(super) use links::{Carried, link_reports};
pub use output::Format;
pub(super) use output::print;
pub use report::{DeadlockReport, HostReport, ReorderedReport, VirtualReport};
