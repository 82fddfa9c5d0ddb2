//! Counters, events and reports of switches as data, and how a command ends.
//!
//! Field by field: `docs/report.md`.
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
    BalancingSnapshot, GroupReport, GroupSnapshot, LoadBalancingReport, MemberReport, MoveReport,
    MoveSnapshot, TableReport,
};
pub use environment::{Environment, StealMeter, StealTicks, allowed_cpus};
pub use event::{EventReport, action_name, event_name, port_oid, queue_oid};
pub use file::{write_file, write_text};
pub use flow::{FlowReport, LatencyReport};
pub use number::{gbytes, grouped, nanos, percent, rate};
pub use reordering::{ReorderedStream, ReorderingReport};
pub use snapshot::{PoolSnapshot, PortSnapshot, SwitchSnapshot};
pub use switch::{PoolReport, PortReport, PriorityGroupReport, QueueReport, SwitchReport, describe_drop};
pub use table::{drops_table, numbers, simple_table};
pub use watchdog::{PauseHistoryReport, StormReport, WatchdogPort, WatchdogQueue, WatchdogReport};

/// Whether a run's figures may be believed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing outside the model can have changed the result.
    Clean,
    /// Something did or could have: see the taints.
    Tainted,
}

/// A fact that can have changed the result: a frame lost outside the model, a stall beyond the reaction budget,
/// the arena run out, an unfinished checksum, a clock step.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Taint {
    /// When it was first seen, in nanoseconds of model time.
    pub since_ns: u64,
    /// What happened, where, and how large it was.
    pub cause: String,
}
