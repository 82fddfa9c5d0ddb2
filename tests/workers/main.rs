//! A running switch as a whole: its workers, its devices, its control socket, and the lab that it is for.

mod backends;
mod bench;
mod control;
mod devices;
mod equality;
#[path = "../ports/far.rs"]
mod far;
mod frames;
mod incast;
mod pinning;
mod raw;
mod sonic;
#[path = "../support/mod.rs"]
mod support;
mod watchdog;

use std::process::ExitCode;

fn main() -> ExitCode {
    let groups = [
        equality::TESTS,
        backends::TESTS,
        pinning::TESTS,
        devices::TESTS,
        control::TESTS,
        incast::TESTS,
        watchdog::TESTS,
        sonic::TESTS,
    ];
    support::run_one_by_one(&groups.concat())
}
