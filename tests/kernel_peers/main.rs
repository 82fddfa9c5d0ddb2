//! Tests of kernel network stacks on both sides of running switches: pings, TCP and UDP over IPv4 and IPv6,
//! bridged and routed, over access ports and trunks, with MTUs of 1500 and 9000 bytes.

mod host;
mod layout;
mod matrix;
mod router;
#[path = "../support/mod.rs"]
mod support;
mod switch;
mod traffic;

use std::process::ExitCode;

fn main() -> ExitCode {
    support::run_serially(&[&matrix::TESTS[..], &router::TESTS[..]].concat())
}
