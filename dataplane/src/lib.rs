//! The switch of xoff: a function of (state, frame, time).
//!
//! Nothing here reads a clock, opens a socket, starts a thread or is unsafe. A driver hands in frames and
//! expired deadlines with the current model time; frames to transmit, slots to free and new deadlines come
//! out. So the real-time program, the virtual-time simulator, tests, fuzzers and benches run the same code.
#![forbid(unsafe_code)]

pub mod balance;
mod bridge;
pub mod config;
pub mod counters;
pub mod drops;
mod egress;
pub mod frame;
pub mod ids;
mod lag;
pub mod mmu;
mod outputs;
pub mod pfc;
mod prefetch;
pub mod route;
pub mod stages;
pub mod store;
mod switch;
mod watchdog;

pub use drops::DropReason;
pub use egress::Line;
pub use frame::{Arrival, Handle, Store};
pub use ids::{GroupId, InterfaceId, LogicalPort, NextHopId, PgId, PortId, QueueId, TimerId};
pub use outputs::{
    Deadline, Drop, Outputs, Punt, PuntReason, SwitchEvent, SwitchEventKind, Transmit, Verdict,
};
pub use prefetch::prefetch;
pub use switch::{
    ApplyError, CONTROL_RECORD_BYTES, CONTROL_RECORDS_MAX, ControlRecord, FLOOD_PREFIX_BYTES,
    FlowAnnouncement, Switch,
};
pub use watchdog::{StormCounters, WatchdogStats, WatchdogStatus};
pub use xoff_units::{LinkTiming, Picos};
