//! Tests of a running switch: its worker threads, devices, control socket, and incast labs.

mod backends;
mod checksum_sender;
mod control;
mod device_settings;
mod devices;
#[path = "../ports/far_end.rs"]
mod far_end;
#[path = "../support/frame_fuzz.rs"]
mod frame_fuzz;
mod frames;
mod incast;
mod pinning;
mod port_trials;
mod short_trials;
mod sonic;
#[path = "../support/mod.rs"]
mod support;
mod switch_process;
mod watchdog;
mod worker_counts;

use std::process::ExitCode;

fn main() -> ExitCode {
    let groups = [
        worker_counts::TESTS,
        backends::TESTS,
        pinning::TESTS,
        devices::TESTS,
        device_settings::TESTS,
        short_trials::TESTS,
        control::TESTS,
        incast::TESTS,
        watchdog::TESTS,
        sonic::TESTS,
    ];
    support::run_serially(&groups.concat())
}
