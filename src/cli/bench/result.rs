//! Where results of benches go: the options that all of them have, and what is done with them.

use std::path::PathBuf;

use clap::Args;

use super::super::output;
use crate::bench::result::{BenchResult, Form};
use crate::failure::{Exit, Failure};
use crate::plot::make_folder;
use crate::report::write_text;

/// Options of every bench that has figures.
#[derive(Clone, Debug, Args)]
pub struct ResultArguments {
    /// How the result is printed
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Table)]
    pub format: Form,
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
        for folder in [&self.plots, &self.criterion].into_iter().flatten() {
            make_folder(folder)?;
        }
        match &self.save {
            Some(path) => output::check_report_path(path),
            None => Ok(()),
        }
    }

    /// Prints and saves a result. Its exit code: 0, or 5 if it is tainted.
    pub(super) fn give(&self, result: &BenchResult) -> Result<Exit, Failure> {
        if let Some(path) = &self.save {
            write_text("--save", path, &result.to_form(Form::Json))?;
        }
        if let Some(folder) = &self.plots {
            result.write_plot(folder)?;
        }
        if let Some(folder) = &self.criterion {
            let left_out = result.write_criterion(folder, &self.baseline)?;
            if !left_out.is_empty() {
                let names = left_out.join(", ");
                output::note(&format!("criterion knows times alone; left out: {names}"));
            }
        }
        let form = if self.json { Form::Json } else { self.format };
        output::print(&result.to_form(form))?;
        Ok(result.exit())
    }
}

/// A folder's name.
fn baseline(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('.') || text.contains('/') {
        true => Err("a name that a folder can have".to_owned()),
        false => Ok(text.to_owned()),
    }
}
