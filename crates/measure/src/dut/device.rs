//! The interface of a device under test.

use xoff_telemetry::failure::Failure;
use xoff_units::LinkTiming;

use super::traffic::Trial;
use super::trial_result::TrialResult;

/// A port of the tester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TesterPort {
    /// Name of the port of the device under test. In real time, the tester does not know this name and uses
    /// the name of its own network interface.
    pub name: String,
    /// Speed and framing of the link.
    pub link: LinkTiming,
    /// Longest frame that the device accepts at this port, with FCS.
    pub frame_bytes_max: u32,
}

/// A device under test.
pub trait Dut {
    /// The tester's ports.
    fn ports(&self) -> &[TesterPort];

    /// Returns whether the offered traffic class is lossless and its senders honour pauses. For such a class,
    /// the benches evaluate paused time instead of lost frames.
    fn is_lossless(&self) -> bool;

    /// Restarts the device with empty address tables. Returns false if the device cannot be restarted.
    ///
    /// # Errors
    /// The device does not start again.
    fn restart(&mut self) -> Result<bool, Failure>;

    /// Checks that the tester can send the streams of a trial.
    ///
    /// # Errors
    /// A rate is above the line rate of a port, a frame is longer than a port accepts, or this tester cannot
    /// send the streams.
    fn check(&self, trial: &Trial) -> Result<(), Failure>;

    /// Sends the streams of a trial, waits until the device is empty, and returns the measured results.
    ///
    /// # Errors
    /// See [`Dut::check`]. Also fails if a trial does not end, if it is interrupted, or if the
    /// tester cannot send.
    fn run(&mut self, trial: &Trial) -> Result<TrialResult, Failure>;
}
