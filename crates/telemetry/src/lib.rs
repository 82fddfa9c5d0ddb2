//! Counters, events and reports of switches. The crate also contains the exit codes and error messages
//! of commands.
//!
//! A driver reads the counters of a switch into a [`SwitchReport`]. A [`SwitchSnapshot`] contains such a
//! report and the events of the switch. Reports of runs and replies of the control API contain the switch
//! report as JSON. [`EventReport`] is the JSON form of an event. [`failure::Failure`] is the error message of
//! a command. The page `docs/report.md` describes every field of a report.
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
pub mod flow;
mod input_file;
mod lldp;
mod memory;
mod number;
mod reordering;
mod result_file;
mod result_target;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod snapshot;
mod switch;
mod table;
pub mod verdict;
mod watchdog;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use balancing::{
    BalancingSnapshot, FlowMoveReport, FlowMoveSnapshot, FlowTableReport, GroupReport, GroupSnapshot,
    LoadBalancingReport, MemberReport,
};
pub use environment::{
    ControlApiReport, CpuStealMeter, CpuStealTicks, Environment, RunThreads, allowed_cpus,
};
pub use event::{EventReport, action_name, describe_lldp_event, event_name, port_oid, queue_oid};
pub use flow::{FlowEnd, FlowReport, LatencyReport};
pub use input_file::{
    InputFile, InputLimit, read_input, read_input_text, read_owned_input_text, reopenable_path,
    was_input_wait_interrupted,
};
pub use lldp::{
    DcbxNeighbourReport, DcbxReport, EtsReport, LldpCapabilityReport, LldpNeighbourReport, LldpPortReport,
    LldpReport,
};
pub use memory::{MemoryLimit, MemoryNeed};
pub use number::{
    count_noun, format_bit_rate, format_gbytes_per_second, format_nanos, format_percent, group_thousands,
};
pub use reordering::{ReorderedStream, ReorderingReport};
pub use result_file::{
    ResultFile, StreamFile, check_result_file, check_result_folder, failed_write, open_stream_file,
    unwritable_file, write_report_file, write_result_file, write_result_with,
};
pub use snapshot::SwitchSnapshot;
pub use switch::{
    PoolReport, PortReport, PriorityGroupReport, QueueReport, StreamReport, SwitchReport, TxTimes,
    describe_drop, set_common_tx_span,
};
pub use table::{drops_table, format_counts_by_class, simple_table};
pub use verdict::Verdict;
pub use watchdog::{PauseHistoryReport, StormReport, WatchdogPort, WatchdogQueue, WatchdogReport};

/// A reason for which the results of a run prove nothing. Something outside the model, such as the kernel or
/// the machine, can have changed the results. Examples are a frame that the kernel lost, a stall that was too
/// long, a lack of free frame slots, an unfinished checksum, and a step of the clock.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct Taint {
    /// Time of the first occurrence, in nanoseconds of model time.
    pub since_ns: u64,
    /// Description of the cause in English, with its location and size.
    pub cause: String,
}
