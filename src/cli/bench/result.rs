//! Where results of benches go: the options that all of them have, and what is done with them.

use std::path::PathBuf;

use crate::cli::choice::choice;
use clap::Args;

use super::super::output;
use xoff_lab::plot::create_folder;
use xoff_measure::result::{BenchResult, ResultFormat};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::write_result_file;

/// Options of every bench that has figures.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultArguments {
    /// How the result is printed
    #[arg(long, value_parser = choice::<ResultFormat>(), value_name = "FORM", default_value = "table")]
    pub format: ResultFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Also save the result as JSON; `xoff bench compare` reads it
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Also draw it: medians with their intervals, as SVG
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Also store its times as criterion does, below this folder (`target/criterion`); critcmp reads it
    #[arg(long, value_name = "DIR")]
    pub criterion: Option<PathBuf>,
    /// Name of that baseline
    #[arg(long, value_name = "NAME", default_value = "new", requires = "criterion", value_parser = baseline)]
    pub baseline: String,
}

impl ResultArguments {
    /// Refuses what cannot be written before anything is measured.
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

    /// Prints and saves a result. Its exit code: 0, or 5 if it is tainted.
    ///
    /// It is printed first, and what cannot be written keeps nothing else from being written: what was measured is not to be lost
    /// because a disk is full.
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

/// A folder's name.
fn baseline(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('.') || text.contains('/') {
        true => Err("a name that a folder can have".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Refuses what a list names twice: its figures would have one name.
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
