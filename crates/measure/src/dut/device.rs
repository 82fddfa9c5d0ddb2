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
    /// Speed and framing overhead of the link.
    pub link: LinkTiming,
    /// Longest frame that the tester may send at this port, in bytes, with FCS and with the VLAN tag if its
    /// frames have one. In virtual time, this is the limit of the device. In real time, the length is the MTU
    /// of the tester's interface plus 18 bytes.
    pub frame_bytes_max: u32,
}

/// A device under test (DUT) between the ports of a tester.
pub trait Dut {
    /// Returns the ports of the tester. Port indices of streams and results refer to this list.
    fn ports(&self) -> &[TesterPort];

    /// Returns whether the tester sends a lossless traffic class and honours pauses. If so, the benches
    /// evaluate paused time in addition to lost frames.
    fn is_lossless(&self) -> bool;

    /// Restarts the device with empty address tables. Returns false, without any effect, if the tester cannot
    /// restart the device.
    ///
    /// # Errors
    /// The device does not start again.
    fn restart(&mut self) -> Result<bool, Failure>;

    /// Checks that the tester can send the streams of a trial.
    ///
    /// # Errors
    /// A stream uses an invalid port, a rate is above the line rate of its port, or this tester does not
    /// support the streams. [`VirtualDut`](super::VirtualDut) also refuses frames that a port does not
    /// accept, and trials of more than 2 * 10^9 frames.
    fn check(&self, trial: &Trial) -> Result<(), Failure>;

    /// Sends the streams of a trial, waits until the frames in flight have arrived, and returns the
    /// measured results.
    ///
    /// # Errors
    /// The errors of [`Dut::check`]. Also fails if the device does not become empty, if the user interrupts
    /// the trial, or if the tester cannot send.
    fn run(&mut self, trial: &Trial) -> Result<TrialResult, Failure>;
}
