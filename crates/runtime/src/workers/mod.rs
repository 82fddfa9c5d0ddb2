//! The real-time driver: pinned workers that move frames between ports and the switch, and the model's time over the wall's.
//!
//! One worker owns the switch. With `workers` = 1 it owns the ports too; with more, the others are I/O workers that
//! own ports and pass bursts of handles over rings. Several switches of one process share threads, see `crew.rs`. Model time rules, wall time only gates: see [`xoff_driver::engine`].

mod arrived;
pub mod clock;
mod command;
mod crew;
mod idle;
mod io;
mod keeper;
mod ledger;
pub mod pin;
mod portset;
mod running;
mod start;
mod teller;
mod worker;

pub use arrived::{Arrived, RING};
pub use idle::Idle;
pub(crate) use idle::sleep_on;
pub use keeper::AttachedPort;
pub use ledger::Ledger;
pub use pin::Pin;
pub use running::{Finished, Running};
pub use start::{Options, Start, StartError, start, start_all};

use std::time::Duration;

/// Links, losses and clocks are looked at this often.
const WATCH_NS: u64 = 50_000_000;
/// Sleep of a worker that has a port nothing wakes it for.
const POLLED_SLEEP: Duration = Duration::from_micros(100);
