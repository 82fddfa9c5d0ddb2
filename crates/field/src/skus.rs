//! Not written yet.

use std::process::ExitCode;

/// Options of the sweep.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the sweep.
pub(crate) fn run(_arguments: &Arguments) -> Result<ExitCode, String> {
    let program = crate::program::build()?;
    Err(format!("this sweep of {} is not written yet", program.display()))
}
