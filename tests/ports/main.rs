//! Tests of ports with the running kernel, in network namespaces: every backend delivers the frames
//! unchanged, device settings that would damage frames are refused or changed, and lost frames are counted.
//!
//! The tests have no standard harness, because a machine without namespaces is reported as skipped.

mod delivery;
mod device_checks;
mod far_end;
mod losses;
mod queueing;
#[path = "../support/mod.rs"]
mod support;
mod testbed;
mod traffic;
mod xdp;

use std::process::ExitCode;

fn main() -> ExitCode {
    let tests = [
        delivery::TESTS,
        device_checks::TESTS,
        losses::TESTS,
        queueing::TESTS,
        xdp::TESTS,
        traffic::TESTS,
    ]
    .concat();
    support::run_tests(&tests)
}
