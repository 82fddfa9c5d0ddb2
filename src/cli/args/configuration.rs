//! Options for reading configuration files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::super::size::parse_size_bytes;
use xoff_config::{PgProfileLookup, ResolveOptions};
use xoff_telemetry::failure::Failure;
use xoff_telemetry::{InputLimit, MemoryLimit, MemoryNeed, read_input_text};

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
    /// Memory that the configuration may need, such as 4G.
    #[command(flatten)]
    pub memory: MemoryArgument,
}

/// The option `--memory`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct MemoryArgument {
    /// Refuse an input that needs more memory than this by estimate, such as 4G [default: 80 % of the free
    /// memory]
    #[arg(long, value_name = "SIZE", help_heading = "Limits", value_parser = parse_size_bytes)]
    memory: Option<u64>,
}

impl MemoryArgument {
    /// Returns the limit. Without the option, the limit is a share of the free memory of this machine.
    pub(in crate::cli) fn limit(self) -> MemoryLimit {
        self.memory.map_or_else(MemoryLimit::of_machine, MemoryLimit::new)
    }
}

impl ConfigurationInput {
    /// Checks the memory that configuration files need by estimate, from the lengths of their texts.
    ///
    /// # Errors
    /// The estimate is larger than `--memory`.
    pub(in crate::cli) fn check_memory<'a>(
        &self,
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        let bytes: u64 = texts.into_iter().map(|text| text.len() as u64).sum();
        let mut need = MemoryNeed::default();
        need.add(
            "the tables of the configuration",
            xoff_config::estimate_memory(bytes),
            "use a smaller file, such as one with fewer routes",
        );
        self.memory.limit().check("the configuration", &need)
    }

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
///
/// # Errors
/// A file cannot be read, or the files need more memory than `input` allows.
pub(in crate::cli) fn read_layers(
    paths: &[PathBuf],
    input: &ConfigurationInput,
) -> Result<Vec<(String, String)>, Failure> {
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
    let layers: Vec<(String, String)> = paths.iter().map(read).collect::<Result<_, Failure>>()?;
    input.check_memory(layers.iter().map(|(_, text)| text.as_str()))?;
    Ok(layers)
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
