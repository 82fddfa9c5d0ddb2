//! The failure of a command whose port cannot be opened.

use xoff_ports::PortError;
use xoff_telemetry::failure::Failure;

/// Returns the failure of a command whose port cannot be opened.
pub fn port_failure(error: &PortError) -> Failure {
    let failure = Failure::environment(error.cause());
    match error.fix() {
        Some(fix) => failure.fix(fix),
        None => failure,
    }
}
