//! A device under test between the ports of a tester: streams are offered for a time, and what came of them is seen from outside.
//!
//! [`Dut`] is all that the benches know of a device. [`VirtualDut`] is a data plane of ours in virtual time, exact and the same
//! in every run.

mod facts;
mod frames;
mod outcome;
mod real;
mod sink;
mod source;
mod traffic;
mod virtual_dut;

pub use facts::lossless_classes;
pub use frames::classes;
pub(crate) use frames::{Header, alone, hello, station};
pub use outcome::{Backlog, Latencies, Loss, Outcome, PortOutcome, StreamOutcome};
pub use real::RealDevice;
pub use traffic::{Destination, FrameSize, Pattern, Stream, Trial};
pub use virtual_dut::{VirtualDut, VirtualOptions};

use xoff_units::LinkTiming;

use xoff_telemetry::failure::Failure;

/// Either kind of device.
#[derive(Debug)]
pub enum AnyDut {
    /// In virtual time.
    Virtual(Box<VirtualDut>),
    /// In real time.
    Real(RealDevice),
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

    fn run(&mut self, trial: &Trial) -> Result<Outcome, Failure> {
        match self {
            AnyDut::Virtual(dut) => dut.run(trial),
            AnyDut::Real(dut) => dut.run(trial),
        }
    }
}

/// A port of the tester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TesterPort {
    /// The device's port that it faces, or its own device.
    pub name: String,
    /// Speed and framing of the link.
    pub link: LinkTiming,
    /// Longest frame that it takes, with FCS.
    pub frame_bytes_max: u32,
}

/// A device under test.
pub trait Dut {
    /// The tester's ports.
    fn ports(&self) -> &[TesterPort];

    /// Whether the class that is offered is never to be lost: its senders obey pauses, and throttling is measured in place of loss.
    fn is_lossless(&self) -> bool;

    /// Forgets all that it has learnt, as after a restart; false if this device cannot.
    ///
    /// # Errors
    /// It does not come up again.
    fn restart(&mut self) -> Result<bool, Failure>;

    /// Refuses a trial that cannot be offered.
    ///
    /// # Errors
    /// A rate no port can carry, frames that no port takes, streams that this tester does not send.
    fn check(&self, trial: &Trial) -> Result<(), Failure>;

    /// Offers streams, waits until the device is empty, and says what came of them.
    ///
    /// # Errors
    /// As [`Dut::check`]; a trial that does not end, an interrupt, what keeps the tester from sending.
    fn run(&mut self, trial: &Trial) -> Result<Outcome, Failure>;
}

#[cfg(test)]
pub(crate) mod tests;
