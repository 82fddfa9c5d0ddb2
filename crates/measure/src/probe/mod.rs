//! The threshold probe. It measures the buffer thresholds of a switch from outside, with the ports of
//! a tester.
//!
//! The probe sends numbered frames of one traffic class, holds them in the switch and releases them. The
//! probe observes two things: the PFC frames of the switch, and the numbers of the frames that leave the
//! switch. [`ProbeDevice`] is the interface between the probe and a switch. [`VirtualProbeDevice`] is an xoff
//! switch in virtual time.
//!
//! docs/probe.md defines each threshold and its measurement. [`expected_thresholds()`] computes the
//! thresholds from a configuration. For an independent check, it does not use the code of the switch.

mod device;
mod expected_thresholds;
mod measured_thresholds;
mod report;
mod threshold_search;
mod virtual_device;

pub use super::dut::reachable_classes;
pub use device::{DeviceOutput, EgressHoldMethod, ProbeDevice};
pub use expected_thresholds::{ExpectedThresholds, expected_thresholds};
pub use measured_thresholds::{MeasuredThresholds, ProbeOptions, measure_thresholds};
pub use report::{ClassThresholds, PROBE_SCHEMA, ProbeReport, ThresholdResult};
pub use threshold_search::ThresholdSearch;
pub use virtual_device::VirtualProbeDevice;

#[cfg(test)]
mod tests;
