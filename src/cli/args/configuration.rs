//! Options that say how configuration files are read.

use clap::Args;

use crate::config::Resolve;

/// Options of all commands that read a switch's configuration from files: `config check`, `switch run` and `replay`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration input")]
pub struct ConfigurationInput {
    /// Read this ASIC's part of a file that configures several, such as asic0; on a VOQ chassis, the ASIC whose queues count
    #[arg(long, value_name = "NAME")]
    pub asic: Option<String>,
}

impl ConfigurationInput {
    /// `how`, with what these options say.
    pub(in crate::cli) fn applied_to(&self, how: Resolve) -> Resolve {
        Resolve {
            asic: self.asic.clone(),
            ..how
        }
    }
}
