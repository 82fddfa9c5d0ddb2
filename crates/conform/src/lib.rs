//! PFC conformance checks of network interface cards (NICs).
//!
//! A check sends frames to a device under test, observes the frames that the device sends, and decides by a criterion
//! of IEEE 802.1Q or 802.3. The instrument performs no input or output and reads no clock, so the same checks run in
//! virtual time with exact times.
//!
//! - [`CHECKS`]: the 43 checks, with stimulus, observation, criterion and clause.
//! - [`DeviceUnderTest`]: the interface of a device. [`ModelDevice`] is a model host of xoff, and [`MutantDevice`] is
//!   one that is wrong in exactly one behaviour.
//! - [`run_checks`]: runs checks and returns a report. [`report`] has its output formats.
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

mod check;
mod checks;
mod device;
mod executor;
mod instrument;
mod link_frame;
mod matrix;
mod model;
mod nic_file;
mod observation;
mod outcome;
mod preflight;
pub mod report;
mod session;
mod step;
mod stimulus_port;
mod test_link;
#[cfg(test)]
mod tests;
mod traffic;

pub use check::{Check, CheckFuture, CheckGroup};
pub use checks::{CHECKS, find_check};
pub use device::{ClassTrust, Counters, DeviceUnderTest, Operation, Settings, Unsupported};
pub use instrument::{CheckScale, Instrument};
pub use link_frame::{Defect, LinkFrame};
pub use matrix::{Matrix, MatrixRow, MatrixScope, run_matrix};
pub use model::{ModelDevice, Mutant, MutantDevice, all_mutants};
pub use nic_file::{ExpectedDeviation, NicFile, suggest_check};
pub use outcome::{CheckOutcome, CheckReport, OutcomeCounts, RunReport};
pub use preflight::PreflightReport;
pub use session::{RunOptions, run_checks, run_checks_on};
pub use step::{Step, Stop};
