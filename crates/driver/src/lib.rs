//! The event loop around one switch.
#![forbid(unsafe_code)]

mod balancing_report;
pub mod cpu;
pub mod engine;
pub mod journal;
pub mod snapshot;
pub mod virtual_time;
mod watchdog_report;
