//! Runs xoff in real time: real frames pass through network devices. The crate contains the worker threads
//! that own switches, ports and model hosts. It also contains the session of a running switch, which answers
//! the requests of the control API (`xoff-control`).
#![forbid(unsafe_code)]

pub mod hosts;
mod port_failure;
pub mod session;
pub mod workers;

pub use port_failure::port_failure;
