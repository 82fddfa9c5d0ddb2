//! The arguments that several tables of `xoff show` have.

use clap::Args;

use super::super::TargetArguments;

/// Options of a table.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowTable {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The running switch.
    #[command(flatten)]
    pub target: TargetArguments,
}

/// Options of a table of ports.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShowPorts {
    /// Show only these ports
    #[arg(value_name = "PORT")]
    pub ports: Vec<String>,
    /// The switch and the output format.
    #[command(flatten)]
    pub table: ShowTable,
}
