//! Options that say how configuration files are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use xoff_config::{PgProfileLookup, ResolveOptions};
use xoff_telemetry::failure::Failure;

/// Options of all commands that read a switch's configuration from files: `config check`, `switch run` and `replay`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration input")]
pub(crate) struct ConfigurationInput {
    /// Read this ASIC's part of a file that configures several, such as asic0; on a VOQ chassis, the ASIC whose queues count
    #[arg(long, value_name = "NAME")]
    pub asic: Option<String>,
    /// Create lossless buffer profiles from this file, as SONiC's buffermgrd does in the traditional buffer model
    ///
    /// The SKU's pg_profile_lookup.ini. Its columns are speed, cable, size, xon, xoff, threshold and, optionally,
    /// xon_offset. Entries of the configuration are kept.
    #[arg(long, value_name = "FILE")]
    pub pg_profiles: Option<PathBuf>,
}

impl ConfigurationInput {
    /// `how`, with what these options say.
    ///
    /// # Errors
    /// The lookup file cannot be read or has a wrong row.
    pub(in crate::cli) fn applied_to(&self, how: ResolveOptions) -> Result<ResolveOptions, Failure> {
        let profiles = self.pg_profiles.as_deref().map(read_pg_profiles).transpose()?;
        Ok(ResolveOptions {
            asic: self.asic.clone(),
            pg_profiles: profiles.map(Arc::new),
            ..how
        })
    }
}

/// Reads the files of `--config`, as layers of `(source, text)`.
pub(in crate::cli) fn read_layers(paths: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let read = |path: &PathBuf| {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::configuration("the configuration cannot be read")
                .at(format!("--config {place}"))
                .because(error)
                .fix("give a readable file; {} in it is a working switch")
        })?;
        Ok((place, text))
    };
    paths.iter().map(read).collect()
}

/// Layers as the configuration's functions take them.
pub(in crate::cli) fn borrow_layers(layers: &[(String, String)]) -> Vec<(&str, &str)> {
    let layers = layers.iter();
    layers
        .map(|(source, text)| (source.as_str(), text.as_str()))
        .collect()
}

/// Reads a lookup file of lossless profiles.
fn read_pg_profiles(path: &Path) -> Result<PgProfileLookup, Failure> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::configuration("the lookup file cannot be read")
            .at(format!("--pg-profiles {place}"))
            .because(error)
            .fix("name a pg_profile_lookup.ini, such as that of the SKU in sonic-buildimage")
    })?;
    PgProfileLookup::parse(&text, &place).map_err(|problems| {
        Failure::configuration("the lookup file is invalid")
            .at(&place)
            .because(problems)
    })
}
