//! Drivers of one switch. A driver calls `xoff_dataplane::Switch` and forwards the outputs of the switch.
//!
//! A switch has no clock. A driver passes frames and expired deadlines to the switch, together with the model
//! time. After each call, the driver takes the results: transmissions, new deadlines, frames for the CPU
//! port, and events. This crate has two drivers for a single switch:
//!
//! - [`VirtualSwitch`] is for virtual time. Replays, the threshold probe, the tester and benchmarks use it.
//!   The caller can add its own events to the event queue.
//! - [`engine::Engine`] is for real time. A worker thread calls the engine in each iteration with the current
//!   model time. The engine also delays frames that arrive faster than their link, and limits bursts after a
//!   late wake-up.
//!
//! Both drivers use the CPU port ([`CpuPort`]), the journal of events ([`journal`]) and the snapshot of a
//! switch ([`snapshot`]). The engine and `xoff replay` also use [`IngressPacer`]. A fabric of several
//! switches has its own event loop in the crate `xoff_fabric`.
//!
//! # Example
//!
//! Run a switch for one millisecond of model time:
//!
//! ```
//! use xoff_dataplane::config::SwitchConfig;
//! use xoff_dataplane::store::VecStore;
//! use xoff_driver::{Step, VirtualSwitch};
//! use xoff_units::Picos;
//!
//! # fn example(config: &SwitchConfig) {
//! let mut switch: VirtualSwitch<VecStore> = VirtualSwitch::new(config, VecStore::new(1_024));
//! switch.set_links_up();
//! // One millisecond passes: the switch handles its deadlines.
//! while switch.step(Picos::from_millis(1)) == Step::Deadline {
//!     switch.release_departures();
//! }
//! # }
//! ```
#![forbid(unsafe_code)]

mod balancing_report;
pub mod cpu;
mod cpu_port;
pub mod engine;
mod event_queue;
mod ingress_pacer;
pub mod journal;
mod lldp_report;
pub mod snapshot;
mod virtual_switch;
mod watchdog_report;

pub use cpu_port::CpuPort;
pub use event_queue::{Event, EventQueue, TimeOrderedQueue};
pub use ingress_pacer::{IN_FLIGHT_FRAMES_MAX, IngressPacer};
pub use lldp_report::with_lldp_report;
pub use virtual_switch::{Step, VirtualSwitch};
