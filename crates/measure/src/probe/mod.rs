//! The threshold probe: finds what a switch's buffers allow from outside, as a tester with a few ports does.
//!
//! It sends numbered frames of one class, keeps them in the switch, lets them go, and looks at the PFC frames and the frames
//! that come out. [`Device`] is all that it knows of the switch; [`VirtualDevice`] is a data plane of ours in virtual time.
//! docs/probe.md says how each threshold is defined and found; [`expected`] computes them from a configuration, by the rules
//! alone and without the code that they check.

mod device;
mod expected;
mod measure;
mod report;
mod search;
mod virtual_device;

pub use super::dut::reachable_classes;
pub use device::{Device, Hold, Seen};
pub use expected::{Expected, expected};
pub use measure::{Measured, Options, measure};
pub use report::{ClassResult, ProbeReport, SCHEMA, Threshold};
pub use search::Search;
pub use virtual_device::VirtualDevice;

#[cfg(test)]
mod tests;
