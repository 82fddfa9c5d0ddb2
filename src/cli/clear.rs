//! `xoff clear`: clears counters and watermarks of a running switch, like SONiC's `sonic-clear`.

use clap::Subcommand;

use super::TargetArguments;
use super::show::{ClearWatermarkCommand, connect};
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff clear`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearCommand {
    /// The PFC watchdog
    #[command(subcommand)]
    Pfcwd(ClearPfcWatchdogCommand),
    /// Priority flow control
    #[command(subcommand)]
    Pfc(ClearPfcCommand),
    /// Clear watermarks
    #[command(flatten)]
    Watermarks(ClearWatermarkCommand),
}

/// `xoff clear pfcwd`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearPfcWatchdogCommand {
    /// Clear the counters of `show pfcwd stats`. A storm in progress continues and still counts
    Stats(TargetArguments),
}

/// `xoff clear pfc`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearPfcCommand {
    /// Clear the counters of `show pfc counters`; all other counters continue
    Counters(TargetArguments),
}

/// Runs `xoff clear`.
pub(super) fn run(command: &ClearCommand) -> Result<Exit, Failure> {
    match command {
        ClearCommand::Pfcwd(ClearPfcWatchdogCommand::Stats(target)) => connect(target)?.clear_watchdog()?,
        ClearCommand::Watermarks(command) => return super::show::clear_watermarks(command),
        ClearCommand::Pfc(ClearPfcCommand::Counters(target)) => connect(target)?.clear_pfc()?,
    }
    Ok(Exit::Ok)
}
