//! PFC conformance checks of network interface cards (NICs).
//!
//! A check sends frames to a device under test, observes the frames that the device sends, and decides by a criterion
//! of IEEE 802.1Q or 802.3. The instrument performs no input or output and reads no clock, so the same checks run in
//! virtual time with exact times, and in real time on a network port.
//!
//! - [`CHECKS`]: the 43 checks, with stimulus, observation, criterion and clause.
//! - [`DeviceUnderTest`]: the interface of a device. [`ModelDevice`] is a model host of xoff, and [`MutantDevice`] is
//!   one that is wrong in exactly one behaviour.
//! - [`run_checks`]: runs checks and returns a report. [`report`] has its output formats.
//! - [`run_checks_on_port`]: the same on a network port in real time. [`PortAccess`] has the port, the clock and the
//!   far host, and [`ServedDevice`] is the model device at the other end.
//! - [`run_checks_in_lockstep`]: the same in virtual time on a device in another program, such as a simulator.
//!   [`serve_lockstep_device`] is the model device in another program.
//! - [`NicFile`]: expected deviations of a NIC.
//! - [`run_matrix`]: proves that each check detects its mutants, and that no other check does.
//!
//! A check is an `async fn` over an instrument handle. A small executor polls it in model time.
//!
//! # Example
//!
//! Run one check against the model device at 10 Gb/s:
//!
//! ```
//! use xoff_conform::{CheckOutcome, RunOptions, find_check, run_checks};
//! use xoff_units::LinkTiming;
//!
//! let options = RunOptions {
//!     checks: vec![find_check("A5").expect("a check")],
//!     ..RunOptions::new(LinkTiming::ethernet(10_000))
//! };
//! let report = run_checks(&options)?;
//! assert_eq!(report.checks[0].outcome, CheckOutcome::Pass);
//! # Ok::<(), xoff_host::HostConfigError>(())
//! ```
#![forbid(unsafe_code)]

mod attempts;
mod check;
mod checks;
mod delay_log;
mod device;
mod device_port;
mod executor;
mod far_host;
mod instrument;
mod link_frame;
mod lockstep_device;
mod lockstep_frame;
mod lockstep_link;
mod lockstep_request;
mod lockstep_session;
mod matrix;
mod medium;
mod model;
mod nic_file;
mod observation;
mod outcome;
mod port_access;
mod port_session;
mod preflight;
mod real_time_link;
pub mod report;
mod served_device;
mod session;
mod step;
mod stimulus_port;
mod test_link;
#[cfg(test)]
mod tests;
mod timing;
mod trace;
mod traffic;

pub use check::{Check, CheckFuture, CheckGroup};
pub use checks::{CHECKS, find_check};
pub use device::{ClassTrust, Counters, DeviceUnderTest, Operation, Settings, Unsupported};
pub use far_host::{FarHostReply, FarHostRequest, SettingsMessage};
pub use instrument::{CheckScale, Instrument};
pub use link_frame::{Defect, LinkFrame};
pub use lockstep_device::serve_lockstep_device;
pub use lockstep_session::{run_checks_in_lockstep, run_matrix_in_lockstep};
pub use matrix::{Matrix, MatrixRow, MatrixScope, run_matrix};
pub use model::{ModelDevice, Mutant, MutantDevice, all_mutants};
pub use nic_file::{ExpectedDeviation, NicFile, suggest_check};
pub use outcome::{CheckOutcome, CheckReport, OutcomeCounts, RunReport};
pub use port_access::{ArrivedFrame, PortAccess};
pub use port_session::{PortRunError, run_checks_on_port, run_matrix_on_port};
pub use preflight::{Passage, PreflightReport};
pub use served_device::ServedDevice;
pub use session::{RunOptions, run_checks, run_checks_on};
pub use step::{Step, Stop, TimeMeasurement};
pub use timing::TimingClass;
pub use trace::{Trace, TracedFrame};
