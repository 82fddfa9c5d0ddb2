//! Options for reading configuration files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use xoff_config::{PgProfileLookup, ResolveOptions};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{InputLimit, read_input_text};

/// Options of all commands that read the configuration of a switch from files: `config check`, `switch run`
/// and `replay`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Configuration input")]
pub(crate) struct ConfigurationInput {
    /// ASIC of a multi-ASIC device, such as asic0. The configuration of this ASIC is read from the file. On a
    /// VOQ chassis, this ASIC owns the queues
    #[arg(long, value_name = "NAME")]
    pub asic: Option<String>,
    /// Create lossless buffer profiles from this file, like SONiC's buffermgrd in the traditional
    /// buffer model
    ///
    /// The file is the pg_profile_lookup.ini of the SKU. Its columns are speed, cable, size, xon, xoff,
    /// threshold and, optionally, xon_offset. Profiles of the configuration are kept.
    #[arg(long, value_name = "FILE")]
    pub pg_profiles: Option<PathBuf>,
}

impl ConfigurationInput {
    /// Returns `options` with the ASIC and the lookup file of these arguments.
    ///
    /// # Errors
    /// The lookup file cannot be read or has an invalid row.
    pub(in crate::cli) fn apply_to(&self, options: ResolveOptions) -> Result<ResolveOptions, Failure> {
        let profiles = self.pg_profiles.as_deref().map(read_pg_profiles).transpose()?;
        Ok(ResolveOptions {
            asic: self.asic.clone(),
            pg_profiles: profiles.map(Arc::new),
            ..options
        })
    }
}

/// Reads the files of `--config` as layers. A layer is the path and the text of a file.
pub(in crate::cli) fn read_layers(paths: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let read = |path: &PathBuf| {
        let place = path.display().to_string();
        let text = read_input_text(path, InputLimit::CONFIGURATION).map_err(|error| {
            Failure::configuration("the configuration cannot be read")
                .at(format!("--config {place}"))
                .because(error)
                .fix("give a readable file; {} is a valid configuration")
        })?;
        Ok((place, text))
    };
    paths.iter().map(read).collect()
}

/// Returns the layers as borrowed strings.
pub(in crate::cli) fn borrow_layers(layers: &[(String, String)]) -> Vec<(&str, &str)> {
    let layers = layers.iter();
    layers
        .map(|(source, text)| (source.as_str(), text.as_str()))
        .collect()
}

/// Reads a lookup file of lossless profiles (`pg_profile_lookup.ini`).
fn read_pg_profiles(path: &Path) -> Result<PgProfileLookup, Failure> {
    let place = path.display().to_string();
    let text = read_input_text(path, InputLimit::LOOKUP_FILE).map_err(|error| {
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
