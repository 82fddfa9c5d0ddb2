//! `xoff pfc`: sends and decodes MAC control frames on a network device.

mod args;
mod json;
mod send;
mod text;
mod values;
mod watch;

pub(super) use args::PfcCommand;
use xoff_telemetry::failure::{Exit, Failure};

/// Runs a command of `xoff pfc`.
pub(super) fn run(command: &PfcCommand) -> Result<Exit, Failure> {
    match command {
        PfcCommand::Send(arguments) => send::run_send(arguments),
        PfcCommand::Storm(arguments) => send::run_storm(arguments),
        PfcCommand::Watch(arguments) => watch::run(arguments),
    }
}
