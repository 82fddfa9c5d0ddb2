//! Output of bench results.

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
    /// Also store times in the format of criterion below this folder (`target/criterion`), for critcmp
    #[arg(long, value_name = "DIR")]
    pub criterion: Option<PathBuf>,
    /// Name of the baseline
    #[arg(long, value_name = "NAME", default_value = "new", requires = "criterion", value_parser = parse_baseline_name)]
    pub baseline: String,
}

impl ResultArguments {
    /// Checks before the measurement that all files can be written.
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

    /// Prints and saves a result. Returns exit code 0, or 5 for a tainted result.
    ///
    /// The result is printed first. If one file cannot be written, the other files are still written, so no
    /// measurement is lost.
    pub(super) fn give(&self, result: &BenchResult) -> Result<Exit, Failure> {
        let form = if self.json {
            ResultFormat::Json
        } else {
            self.format
        };
        let given = [
            output::print(&result.to_text(form)),
            self.save(result),
            self.plots
                .as_ref()
                .map_or(Ok(()), |folder| result.write_plot(folder)),
            self.criterion(result),
        ];
        given.into_iter().collect::<Result<(), Failure>>()?;
        Ok(result.exit())
    }

    fn save(&self, result: &BenchResult) -> Result<(), Failure> {
        match &self.save {
            Some(path) => write_result_file("--save", path, &result.to_text(ResultFormat::Json)),
            None => Ok(()),
        }
    }

    fn criterion(&self, result: &BenchResult) -> Result<(), Failure> {
        if let Some(folder) = &self.criterion {
            let left_out = result.write_criterion(folder, &self.baseline)?;
            if !left_out.is_empty() {
                let names = left_out.join(", ");
                output::note(&format!("criterion knows times alone; left out: {names}"));
            }
        }
        Ok(())
    }
}

/// Parses the name of a baseline, which is the name of a folder.
fn parse_baseline_name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('.') || text.contains('/') {
        true => Err("a name that a folder can have".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Refuses repeated entries of a list, because their figures would have the same name.
pub(super) fn once<T: PartialEq>(
    option: &str,
    named: &[T],
    name: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    let mut later = named.iter().enumerate();
    match later.find(|(at, this)| named[..*at].contains(this)) {
        None => Ok(()),
        Some((_, twice)) => Err(Failure::usage(format!("{} is named twice", name(twice)))
            .at(option)
            .because("each has its figures once")
            .fix("name it once")),
    }
}
