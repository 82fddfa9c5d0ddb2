//! Benchmarks of switches and labs. This crate contains:
//!
//! - the benchmarks of RFC 2544, RFC 2889 and RFC 8239 ([`rfc2544`], [`rfc2889`], [`rfc8239`]), and searches
//!   for the loss-free rate ([`ndr`]) and the latency ([`latency`]),
//! - PFC threshold probes ([`probe`]) and the tuning of buffers ([`tune`]),
//! - benchmarks of AI workloads ([`ai`]), placement of queue pairs ([`placement`]) and comparison with the
//!   HPCC model of ns-3 ([`oracle`]),
//! - replays of captures ([`replay`]) and the processor cost of a frame ([`frame_cost`]),
//! - MAC control frames of any form, and a live decoder of received ones ([`pfc`]),
//! - comparison of two results ([`compare`]).

pub mod ai;
mod child;
mod choice;
pub mod compare;
pub mod dut;
pub mod frame_cost;
pub mod latency;
pub mod ndr;
pub mod oracle;
pub mod pfc;
pub mod placement;
pub mod probe;
pub mod replay;
pub mod result;
pub mod rfc2544;
pub mod rfc2889;
pub mod rfc8239;
pub mod suite;
pub mod traffic;
pub mod tune;

pub use choice::NamedChoice;
