//! Runs xoff in real time. The crate contains the worker threads that own switches, ports and model hosts,
//! and the session of a running switch.
#![forbid(unsafe_code)]

pub mod control;
pub mod hosts;
pub mod session;
pub mod workers;
