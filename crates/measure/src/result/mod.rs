//! The result of a bench: figures, the machine on which the bench ran, and taints. A figure is one
//! measured quantity with all its samples, such as the median latency. A taint is a fact that can have
//! changed a figure.
//!
//! All benches use this format. The code that writes, plots and compares results does not depend on the names
//! of figures. A new measurement only calls [`BenchFigure::new`], and all output formats and `xoff bench
//! compare` support the new figure.

mod criterion;
mod figure;
mod machine_meter;
mod plot;
mod result_format;

pub use figure::{BenchFigure, ImprovementDirection, MedianInterval};
pub use machine_meter::{GOVERNOR_TAINT_PREFIX, MachineMeter, TaintLimits};
pub use result_format::ResultFormat;

use serde::{Deserialize, Serialize};

use xoff_telemetry::Environment;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::verdict::Traffic;

/// Name and version of the JSON format. The version increases when a field is removed or changes its meaning.
pub const RESULT_SCHEMA: &str = "xoff-bench/1";

/// The result of a bench, as it is saved and compared (`--json`, `--save`).
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct BenchResult {
    /// Name and version of the JSON format: [`RESULT_SCHEMA`].
    pub schema: String,
    /// Name of the bench, such as `ndr`, `latency` or `ai`.
    pub bench: String,
    /// The measured configuration, device or program, such as the path of a file.
    pub subject: String,
    /// Seed of the random decisions in the bench.
    pub seed: u64,
    /// The machine on which the bench ran. `None` for a bench in virtual time, because its results do not
    /// depend on the machine.
    pub environment: Option<Environment>,
    /// Taints: facts that can have changed a figure (a measured quantity), such as busy programs outside the
    /// bench. Empty for a valid result. If a result has taints, `xoff bench compare` does not decide which
    /// side is better.
    pub tainted: Vec<String>,
    /// Notes about the run, such as "a frame size was left out". Unlike a taint, a note does not concern the
    /// correctness of the results.
    pub notes: Vec<String>,
    /// Figures in the order of measurement.
    pub figures: Vec<BenchFigure>,
}

impl BenchResult {
    /// Creates a result without environment, taints, notes and figures.
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

    /// Returns the figure (measured quantity) with this name. Returns `None` if the result has no
    /// such figure.
    pub fn figure(&self, name: &str) -> Option<&BenchFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Returns the number of samples of all figures. A bench without samples has measured no traffic.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            offered_frames: Some(
                self.figures
                    .iter()
                    .map(|figure| figure.samples.len() as u64)
                    .sum(),
            ),
            arrived_frames: None,
            notes: vec!["the bench has no samples".to_owned()],
        }
    }

    /// Returns [`Exit::Ok`] (0), or [`Exit::Inconclusive`] (5) if the result is tainted or has no samples.
    pub fn exit(&self) -> Exit {
        self.traffic().verdict(!self.tainted.is_empty(), false).exit()
    }
}
