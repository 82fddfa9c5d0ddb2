//! Worker threads that run switches in real time. The threads move frames between ports and switches, and
//! compute model time from wall time.
//!
//! A switch worker is the thread that owns the state of a switch. With one worker thread, the switch worker
//! also owns the ports. With more worker threads, I/O workers own the ports, and exchange bursts of frame
//! handles with the switch worker over rings. Several switches of a process can share a thread
//! (`switch_thread.rs`). The results of a switch depend only on model time. Wall time only decides when
//! events are processed ([`xoff_driver::engine`]).

pub mod clock;
mod command;
mod command_execution;
mod device_watcher;
mod event_printer;
mod idle;
pub mod pin;
mod port_io;
mod port_notes;
mod port_set;
mod received_entry;
mod recent_snapshot;
mod running_switch;
mod start;
mod switch_thread;
mod switch_worker;
mod taint_ledger;

pub use device_watcher::AttachedPort;
pub use event_printer::EVENT_LOG_TARGET;
pub use idle::IdleMode;
pub(crate) use idle::sleep_on;
pub use pin::CorePinning;
pub use received_entry::{RING_ENTRIES, ReceivedEntry};
pub use running_switch::{RunningSwitch, StoppedSwitch};
pub use start::{StartError, SwitchSetup, WorkerOptions, start_switch, start_switches};
pub use taint_ledger::TaintLog;

use std::time::Duration;

/// Wall time between two checks of link states, losses, frame slots and clocks.
const WATCH_INTERVAL_NS: u64 = 50_000_000;
/// Longest sleep of a worker thread that owns a port without a wake-up descriptor.
const POLLED_SLEEP_MAX: Duration = Duration::from_micros(100);
