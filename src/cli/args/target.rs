//! The options that select a running switch.

use std::path::PathBuf;

use clap::Args;

/// The running switch that a command connects to.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct TargetArguments {
    /// Control socket of the switch, from `xoff switch run --api PATH`
    #[arg(long, value_name = "PATH")]
    pub api: Option<PathBuf>,
    /// Name of a running lab, as listed by `xoff lab ls`
    #[arg(long, value_name = "NAME")]
    pub lab: Option<String>,
}
