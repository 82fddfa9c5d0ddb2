//! The result of a bench: the figures with their samples, the machine on which the bench ran, and taints. A
//! taint is a fact that can have changed a figure.
//!
//! All benches share this format. The code that writes, plots and compares results works with any figure
//! names. A new measurement only calls [`BenchFigure::new`]. All output formats and `xoff bench compare` then
//! work without further code.

mod criterion;
mod figure;
mod machine_meter;
mod plot;
mod result_format;

pub use figure::{BenchFigure, BetterWhen, MedianInterval};
pub use machine_meter::{GOVERNOR_TAINT_PREFIX, MachineMeter, TaintLimits};
pub use result_format::ResultFormat;

use serde::{Deserialize, Serialize};

use xoff_telemetry::Environment;
use xoff_telemetry::failure::Exit;

/// Version of the JSON format. It increases when a field is removed or changes its meaning.
pub const RESULT_SCHEMA: &str = "xoff-bench/1";

/// The result of a bench.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct BenchResult {
    /// Schema of the result, [`RESULT_SCHEMA`].
    pub schema: String,
    /// Name of the bench, such as `ndr`, `latency` or `ai`.
    pub bench: String,
    /// The measured configuration, device or program.
    pub subject: String,
    /// Seed of random decisions.
    pub seed: u64,
    /// The machine on which the bench ran. Null for a bench in virtual time, because its results do not
    /// depend on the machine.
    pub environment: Option<Environment>,
    /// Facts that can have changed a figure. A tainted figure must not decide a comparison.
    pub tainted: Vec<String>,
    /// Notes about the run that change no figure. Examples are a program for comparison that is not
    /// installed, and a frame size that was left out.
    pub notes: Vec<String>,
    /// Figures in the order of measurement.
    pub figures: Vec<BenchFigure>,
}

impl BenchResult {
    /// Creates a result without figures.
    pub fn new(bench: &str, subject: &str, seed: u64) -> BenchResult {
        BenchResult {
            schema: RESULT_SCHEMA.to_owned(),
            bench: bench.to_owned(),
            subject: subject.to_owned(),
            seed,
            environment: None,
            tainted: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// Returns the figure with this name.
    pub fn figure(&self, name: &str) -> Option<&BenchFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the exit code: 0, or 5 for a tainted result.
    pub fn exit(&self) -> Exit {
        if self.tainted.is_empty() {
            Exit::Ok
        } else {
            Exit::Inconclusive
        }
    }
}
