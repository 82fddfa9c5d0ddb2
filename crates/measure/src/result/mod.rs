//! The result of a bench: figures with their samples, the machine they depend on, and taints.
//!
//! All benches share this format. The code that writes, plots and compares results uses only the
//! names of the figures. A new measurement calls [`BenchFigure::new`] and gets tables, JSON, CSV,
//! other formats and `xoff bench compare`.

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
    /// The machine. Null for a bench in virtual time, which does not depend on a machine.
    pub environment: Option<Environment>,
    /// Facts that can have changed a figure. A tainted figure must not decide a comparison.
    pub tainted: Vec<String>,
    /// Notes that concern no figure, such as a peer that is not installed or a size that was left
    /// out.
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
