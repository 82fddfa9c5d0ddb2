//! A device under test (DUT) between the ports of a tester. The tester offers streams of frames and measures
//! what the device forwards.
//!
//! The benches use a device through the trait [`Dut`]. [`VirtualDut`] runs xoff's data plane in virtual time,
//! so its results are exact and repeatable. [`RealDut`] measures a device between network interfaces of this
//! machine.

mod config_queries;
mod frames;
mod real;
mod receiver;
mod sender;
mod traffic;
mod trial_result;
mod virtual_dut;

pub use config_queries::lossless_classes;
pub use frames::reachable_classes;
pub(crate) use frames::{FrameHeader, isolated_switch_config, learning_frame, station_mac};
pub use real::RealDut;
pub use traffic::{Destination, FrameSize, Pattern, Stream, Trial};
pub use trial_result::{Backlog, Latencies, LostFrame, PortResult, StreamResult, TrialResult};
pub use virtual_dut::{VirtualDut, VirtualDutOptions};

use xoff_units::LinkTiming;

use xoff_telemetry::failure::Failure;

/// A device under test in virtual time or in real time.
#[derive(Debug)]
pub enum AnyDut {
    /// A switch in virtual time.
    Virtual(Box<VirtualDut>),
    /// A device between network interfaces, in real time.
    Real(RealDut),
}

impl Dut for AnyDut {
    fn ports(&self) -> &[TesterPort] {
        match self {
            AnyDut::Virtual(dut) => dut.ports(),
            AnyDut::Real(dut) => dut.ports(),
        }
    }

    fn is_lossless(&self) -> bool {
        match self {
            AnyDut::Virtual(dut) => dut.is_lossless(),
            AnyDut::Real(dut) => dut.is_lossless(),
        }
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        match self {
            AnyDut::Virtual(dut) => dut.restart(),
            AnyDut::Real(dut) => dut.restart(),
        }
    }

    fn check(&self, trial: &Trial) -> Result<(), Failure> {
        match self {
            AnyDut::Virtual(dut) => dut.check(trial),
            AnyDut::Real(dut) => dut.check(trial),
        }
    }

    fn run(&mut self, trial: &Trial) -> Result<TrialResult, Failure> {
        match self {
            AnyDut::Virtual(dut) => dut.run(trial),
            AnyDut::Real(dut) => dut.run(trial),
        }
    }
}

/// A port of the tester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TesterPort {
    /// Name of the device's port at the other end of the link. In real time, the tester's own network
    /// interface.
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

    /// Returns whether the offered traffic class is lossless: its senders honour pauses. The benches then
    /// count paused time as they count loss for other classes.
    fn is_lossless(&self) -> bool;

    /// Restarts the device with empty address tables. Returns false if the device cannot be restarted.
    ///
    /// # Errors
    /// The device does not start again.
    fn restart(&mut self) -> Result<bool, Failure>;

    /// Checks that the tester can send the streams of a trial.
    ///
    /// # Errors
    /// A rate above a port's line rate, frames longer than a port accepts, or streams that this tester cannot
    /// send.
    fn check(&self, trial: &Trial) -> Result<(), Failure>;

    /// Sends the streams of a trial, waits until the device is empty, and returns the measured results.
    ///
    /// # Errors
    /// The errors of [`Dut::check`], a trial that does not end, an interrupt, or a tester that cannot send.
    fn run(&mut self, trial: &Trial) -> Result<TrialResult, Failure>;
}

#[cfg(test)]
pub(crate) mod tests;
