//! Ports against the running kernel, in network namespaces made for the purpose: every backend delivers what was
//! sent, octet for octet; what would harm frames is refused or repaired; what is lost is counted.
//!
//! Without the standard harness, because a machine that allows no namespaces is to be reported as skipped.

mod delivery;
mod far;
mod guards;
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
        guards::TESTS,
        losses::TESTS,
        queueing::TESTS,
        xdp::TESTS,
        traffic::TESTS,
    ]
    .concat();
    support::run(&tests)
}
