//! Options for the output of bench results, and the functions that print and save the results.

use std::path::PathBuf;

use crate::cli::choice::choice_parser;
use clap::Args;

use super::super::output;
use xoff_lab::plot::create_folder;
use xoff_measure::result::{BenchResult, ResultFormat};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::write_result_file;

/// Options for the results of a bench.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultArguments {
    /// Output format
    #[arg(long, value_parser = choice_parser::<ResultFormat>(), value_name = "FORM", default_value = "table")]
    pub format: ResultFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Also save the result as JSON for `xoff bench compare`
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Also draw the medians and their intervals as SVG
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Folder in which times are also saved for critcmp, in the format of criterion, such as target/criterion
    #[arg(long, value_name = "DIR")]
    pub criterion: Option<PathBuf>,
    /// Name of the baseline in the folder of --criterion
    #[arg(long, value_name = "NAME", default_value = "new", requires = "criterion", value_parser = parse_baseline_name)]
    pub baseline: String,
}

impl ResultArguments {
    /// Checks that all files of the options can be written. Call this before the measurement. Creates the
    /// folders of `--plots` and `--criterion`.
    pub(super) fn check(&self) -> Result<(), Failure> {
        for (option, folder) in [("--plots", &self.plots), ("--criterion", &self.criterion)] {
            if let Some(folder) = folder {
                create_folder(option, folder)?;
            }
        }
        match &self.save {
            Some(path) => output::check_report_path("--save", path),
            None => Ok(()),
        }
    }

    /// Prints and saves a result. Returns exit code 0, or 5 if the machine disturbed the measurement (a
    /// tainted result).
    ///
    /// If one output fails, the remaining outputs are still written, so that the measurement is not lost.
    pub(super) fn print_and_save(&self, result: &BenchResult) -> Result<Exit, Failure> {
        let format = if self.json {
            ResultFormat::Json
        } else {
            self.format
        };
        output::print(&result.to_text(format));
        let outputs = [
            self.save_json(result),
            self.plots
                .as_ref()
                .map_or(Ok(()), |folder| result.write_plot(folder)),
            self.save_for_criterion(result),
        ];
        outputs.into_iter().collect::<Result<(), Failure>>()?;
        Ok(result.exit())
    }

    fn save_json(&self, result: &BenchResult) -> Result<(), Failure> {
        match &self.save {
            Some(path) => write_result_file("--save", path, &result.to_text(ResultFormat::Json)),
            None => Ok(()),
        }
    }

    fn save_for_criterion(&self, result: &BenchResult) -> Result<(), Failure> {
        if let Some(folder) = &self.criterion {
            let omitted = result.write_criterion(folder, &self.baseline)?;
            if !omitted.is_empty() {
                let names = omitted.join(", ");
                output::print_note(&format!(
                    "the files for criterion have times only, without {names}"
                ));
            }
        }
        Ok(())
    }
}

/// Parses the name of a baseline. The name must be a valid name of a folder.
fn parse_baseline_name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('.') || text.contains('/') {
        true => Err("write a name without '/' that does not start with a dot".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Refuses a list with equal entries: the results of these entries would have the same name. `name` returns
/// the text of an entry.
pub(super) fn check_no_duplicates<T: PartialEq>(
    option: &str,
    entries: &[T],
    name: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let mut indexed = entries.iter().enumerate();
    match indexed.find(|(index, entry)| entries[..*index].contains(entry)) {
        None => Ok(()),
        Some((_, repeated)) => Err(Failure::usage(format!("{} is named twice", name(repeated)))
            .at(option)
            .because("the figures of both would have the same name")
            .fix("name it once")),
    }
}
