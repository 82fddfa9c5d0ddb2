//! xoff: what surrounds the switch of `xoff-dataplane`: ports, drivers, hosts, labs, command line.

pub mod cli;
pub mod config;
pub mod control;
pub mod driver;
pub mod failure;
pub mod host;
pub mod lab;
pub mod net;
pub mod ports;
pub mod report;
pub mod session;
