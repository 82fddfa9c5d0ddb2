//! Drivers of one switch. A driver calls `xoff_dataplane::Switch` and forwards its outputs.
//!
//! A switch has no clock. A driver passes frames and expired deadlines to the switch, together with the model
//! time. After each call, the driver takes the results: transmissions, new deadlines, frames for the CPU
//! port, and events. This crate has two drivers for a single switch:
//!
//! - [`VirtualSwitch`] for virtual time: replay, threshold probe, tester, core benches and tests. The caller
//!   adds its own events to the queue and handles these events.
//! - [`engine::Engine`] for real time: a worker thread calls the engine in each iteration with the current
//!   model time. The engine also paces arrivals and limits the departures that catch up after a late wake-up.
//!
//! Both drivers share the CPU port ([`CpuPort`]), the pacing of arrivals ([`IngressPacer`]), the journal of
//! events and the snapshot of a switch's state. A fabric of switches has its own event loop in `xoff_fabric`.
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
pub mod snapshot;
mod virtual_switch;
mod watchdog_report;

pub use cpu_port::CpuPort;
pub use event_queue::{Event, EventQueue, TimeOrderedQueue};
pub use ingress_pacer::{IN_FLIGHT_FRAMES_MAX, IngressPacer};
pub use virtual_switch::{Step, VirtualSwitch};
