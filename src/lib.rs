//! xoff: what surrounds the switch of `xoff-dataplane`: ports, drivers, hosts, labs, command line.

pub mod net;
pub mod ports;
