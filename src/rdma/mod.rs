//! RDMA transport: queue pairs, their recovery from loss, congestion control. Sans-IO, like the switch.
//!
//! Packets here are what a header says ([`Packet`]), not bytes: the host that owns an endpoint puts them on a wire, whole
//! with their ICRC in real time, as headers alone in virtual time.

pub mod congestion;
mod packet;
mod telemetry;

pub use packet::{Header, Packet};
pub use telemetry::{HOPS_MAX, HopTelemetry, Telemetry};
