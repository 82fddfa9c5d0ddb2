//! `xoff clear`: counters of a running switch begin anew, as with SONiC's `sonic-clear`.

use clap::Subcommand;

use super::TargetArguments;
use super::show::{ClearWatermarks, connect};
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff clear`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearCommand {
    /// The PFC watchdog
    #[command(subcommand)]
    Pfcwd(ClearPfcwd),
    /// Priority flow control
    #[command(subcommand)]
    Pfc(ClearPfc),
    /// Watermarks
    #[command(flatten)]
    Watermarks(ClearWatermarks),
}

/// `xoff clear pfcwd`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearPfcwd {
    /// What `show pfcwd stats` shows; a storm that is on goes on and stays counted
    Stats(TargetArguments),
}

/// `xoff clear pfc`
#[derive(Debug, Subcommand)]
pub(crate) enum ClearPfc {
    /// What `show pfc counters` shows; all other counters go on
    Counters(TargetArguments),
}

pub(super) fn run(command: &ClearCommand) -> Result<Exit, Failure> {
    match command {
        ClearCommand::Pfcwd(ClearPfcwd::Stats(target)) => connect(target)?.clear_watchdog()?,
        ClearCommand::Watermarks(command) => return super::show::clear(command),
        ClearCommand::Pfc(ClearPfc::Counters(target)) => connect(target)?.clear_pfc()?,
    }
    Ok(Exit::Ok)
}
