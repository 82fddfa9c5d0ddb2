//! This crate contains the counters, events and reports of switches. It also contains the exit codes and
//! error messages of commands.
//!
//! A driver reads the counters of a switch into a [`SwitchReport`]. A [`SwitchSnapshot`] is such a report with
//! the latest events of the switch. Reports of runs and replies of the control socket contain the report as
//! JSON. [`EventReport`] is the JSON form of an event. [`failure::Failure`] is the error message of a command.
//! The page `docs/report.md` describes every field of a report.
//!
//! # Examples
//!
//! Write the report of a switch without ports as JSON:
//!
//! ```
//! use xoff_telemetry::SwitchReport;
//!
//! let report = SwitchReport {
//!     name: "tor0".to_owned(),
//!     model_time_ns: 1_000,
//!     cell_bytes: 256,
//!     ..SwitchReport::default()
//! };
//! let json = serde_json::to_value(&report)?;
//! assert_eq!(json["name"], "tor0");
//! assert_eq!(json["cell_bytes"], 256);
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

mod balancing;
#[cfg(test)]
mod counters_table;
mod environment;
mod event;
pub mod failure;
mod file;
pub mod flow;
mod number;
mod reordering;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod snapshot;
mod switch;
mod table;
mod watchdog;

use serde::{Deserialize, Serialize};

pub use balancing::{
    BalancingSnapshot, FlowMoveReport, FlowMoveSnapshot, FlowTableReport, GroupReport, GroupSnapshot,
    LoadBalancingReport, MemberReport,
};
pub use environment::{Environment, StealMeter, StealTicks, allowed_cpus};
pub use event::{EventReport, action_name, event_name, port_oid, queue_oid};
pub use file::{write_report_file, write_result_file};
pub use flow::{FlowReport, LatencyReport};
pub use number::{format_bit_rate, format_gbytes_per_second, format_nanos, format_percent, group_thousands};
pub use reordering::{ReorderedStream, ReorderingReport};
pub use snapshot::SwitchSnapshot;
pub use switch::{PoolReport, PortReport, PriorityGroupReport, QueueReport, SwitchReport, describe_drop};
pub use table::{drops_table, format_counts_by_class, simple_table};
pub use watchdog::{PauseHistoryReport, StormReport, WatchdogPort, WatchdogQueue, WatchdogReport};

/// The verdict of a run: whether its results are valid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing outside the model can have changed the results.
    Clean,
    /// The run has at least one taint.
    Tainted,
}

/// A taint: something outside the model that can change the result of a run. Examples are a frame that the
/// kernel lost, a stall longer than the reaction budget, an exhausted arena, an unfinished checksum and a
/// clock step.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Taint {
    /// Time of the first occurrence, in nanoseconds of model time.
    pub since_ns: u64,
    /// Description of the cause with its location and size.
    pub cause: String,
}
