//! The arguments that several tables of `xoff show` have.

use clap::Args;

use super::super::TargetArguments;

/// Options of a table.
#[derive(Clone, Debug, Args)]
pub(crate) struct TableArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The running switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Options of a table of ports.
#[derive(Clone, Debug, Args)]
pub(crate) struct PortTableArguments {
    /// Show only these ports
    #[arg(value_name = "PORT")]
    pub ports: Vec<String>,
    /// The switch and the output format.
    #[command(flatten)]
    pub table: TableArguments,
}
