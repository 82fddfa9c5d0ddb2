//! Benchmarks and comparisons: standard benchmarks of switches, oracle runs, PFC threshold probes, replays of
//! captures, placement of queue pairs, and the processor cost of a frame.

pub mod ai;
mod child;
mod choice;
pub mod compare;
pub mod dut;
pub mod frame_cost;
pub mod latency;
pub mod ndr;
pub mod oracle;
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
