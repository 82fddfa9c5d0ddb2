//! Arguments of the commands that print files for shells and manuals.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `xoff completions`
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `xoff man`
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArguments {
    /// Write a page for each command into this folder, such as xoff-lab-run.1 [default: print one page
    /// with all commands]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
