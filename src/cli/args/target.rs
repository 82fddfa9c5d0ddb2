//! The options that select a running switch.

use std::path::PathBuf;

use clap::Args;

/// The running switch that a command connects to.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArguments {
    /// The address of the server.
    #[command(flatten)]
    pub address: TargetAddress,
    /// Name of the switch, if the lab has several switches
    #[arg(long, value_name = "NAME")]
    pub switch: Option<String>,
}

/// The address of the control API of running switches.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetAddress {
    /// Control socket of the switch, from `xoff switch run --api PATH`
    #[arg(long, value_name = "PATH")]
    pub api: Option<PathBuf>,
    /// Name of a running lab, as listed by `xoff lab ls`
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
}
