//! The report of a run.

pub mod flow;

pub use flow::{FlowReport, LatencyReport};
