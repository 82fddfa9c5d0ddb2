//! xoff: what surrounds the switch of `xoff-dataplane`: ports, drivers, hosts, labs, command line.
#![deny(unsafe_code)]

pub mod bench;
pub mod capture;
pub mod cli;
pub mod config;
pub mod control;
pub mod cpu;
pub mod driver;
pub mod fabric;
pub mod failure;
pub mod host;
pub mod lab;
mod model_time;
#[allow(unsafe_code)] // ethtool's ioctls
pub mod net;
pub mod ns3;
pub mod plot;
#[allow(unsafe_code)] // rings, sockets and the slots that threads share
pub mod ports;
pub mod rdma;
pub mod replay;
pub mod report;
pub mod session;
#[cfg(test)]
mod test_support;
pub mod workload;
