//! Where results of benches go: the options that all of them have, and what is done with them.

use std::path::PathBuf;

use clap::Args;

use super::super::output;
use crate::bench::result::{BenchResult, Form};
use crate::failure::{Exit, Failure};
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
}

impl ResultArguments {
    /// Refuses what cannot be written before anything is measured.
    pub(super) fn check(&self) -> Result<(), Failure> {
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
        let form = if self.json { Form::Json } else { self.format };
        output::print(&result.to_form(form))?;
        Ok(result.exit())
    }
}
