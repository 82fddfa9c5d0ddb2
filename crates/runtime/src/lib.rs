//! Runs xoff in real time: real frames pass through network devices. The crate contains the worker threads
//! that own switches, ports and model hosts. It also contains the session of a running switch, with its
//! control socket.
#![forbid(unsafe_code)]

pub mod control;
pub mod hosts;
pub mod session;
pub mod workers;
