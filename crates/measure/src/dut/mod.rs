//! A device under test (DUT), such as a switch, between the ports of a tester. The tester sends streams of
//! frames and measures the frames that the device forwards.
//!
//! The benches use a device through the trait [`Dut`]. [`VirtualDut`] runs xoff's data plane in virtual time,
//! so its results are exact and repeatable. [`RealDut`] measures, in real time, a device that is connected to
//! network interfaces of this machine.

mod config_queries;
mod device;
mod frames;
mod real_dut;
mod receiver;
mod sender;
mod traffic;
mod trial_result;
mod virtual_dut;

pub use config_queries::lossless_classes;
pub use device::{Dut, TesterPort};
pub use frames::reachable_classes;
pub(crate) use frames::{FrameHeader, isolated_switch_config, learning_frame, station_mac};
pub use real_dut::RealDut;
pub use traffic::{FrameSize, StreamDestination, TrafficPattern, TrafficStream, Trial};
pub use trial_result::{Backlog, LatencyHistogram, LostFrame, PortResult, StreamResult, TrialResult};
pub use virtual_dut::{VirtualDut, VirtualDutOptions};

use xoff_telemetry::failure::Failure;

/// A device under test in virtual time or in real time.
#[derive(Debug)]
pub enum AnyDut {
    /// A switch with xoff's data plane, in virtual time.
    Virtual(Box<VirtualDut>),
    /// A device that is connected to network interfaces of this machine, in real time.
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

#[cfg(test)]
pub(crate) mod tests;
