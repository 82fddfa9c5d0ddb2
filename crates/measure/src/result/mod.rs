//! What comes of a bench, in one form for all of them: figures with their samples, the machine they hang on, and what taints them.
//!
//! A result is written, saved, plotted and compared by its figures' names alone, so whoever measures something new
//! ([`Figure::new`]) has tables, JSON, CSV, the formats of others and `xoff bench compare` with it.

mod criterion;
mod figure;
mod form;
mod meter;
mod plot;

pub use figure::{Better, Figure, Spread};
pub use form::Form;
pub use meter::{GOVERNOR, Limits, Meter};

use serde::{Deserialize, Serialize};

use xoff_telemetry::Environment;
use xoff_telemetry::failure::Exit;

/// Version of the JSON: counted up when a field changes its meaning or falls away.
pub const RESULT_SCHEMA: &str = "xoff-bench/1";

/// What a bench has found.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct BenchResult {
    /// [`RESULT_SCHEMA`].
    pub schema: String,
    /// The bench: `ndr`, `latency`, `ai`.
    pub bench: String,
    /// What was measured: a configuration, a device, a program.
    pub subject: String,
    /// Seed of random decisions.
    pub seed: u64,
    /// The machine; null for what ran in virtual time, which hangs on none.
    pub environment: Option<Environment>,
    /// Facts that can have changed a figure; none may be gated on then.
    pub tainted: Vec<String>,
    /// What a reader should know, and that changes no figure: a peer that is not installed, a size that was left out.
    pub notes: Vec<String>,
    /// The figures, in the order of measuring.
    pub figures: Vec<Figure>,
}

impl BenchResult {
    /// A result without figures.
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

    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// 0, or 5 if it is tainted.
    pub fn exit(&self) -> Exit {
        if self.tainted.is_empty() {
            Exit::Ok
        } else {
            Exit::Inconclusive
        }
    }
}
