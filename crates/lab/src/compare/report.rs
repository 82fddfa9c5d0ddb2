//! The report of a comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::sweep::{Parameter, RunFigures};

/// Name and version of the format. The number changes if a field is removed or changes its meaning.
pub const COMPARE_SCHEMA: &str = "xoff.compare/1";

/// The report of a comparison. In virtual time, the report does not depend on the machine or on the order in
/// which runs end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// The value of [`COMPARE_SCHEMA`].
    pub schema: String,
    /// Version of xoff.
    pub xoff_version: String,
    /// Name of the lab.
    pub lab: String,
    /// CRC-32 of the text of the lab file in hexadecimal digits.
    pub lab_crc32: String,
    /// `virtual` for runs in virtual time, `real` for runs in real time.
    pub time: String,
    /// Model time limit of each run (`--until`), in nanoseconds. `None`: no limit.
    pub until_ns: Option<u64>,
    /// The compared field with its values.
    pub compared: Parameter,
    /// The fields of `--set` with their values.
    pub parameters: Vec<Parameter>,
    /// The seeds in the order of the command line.
    pub seeds: Vec<u64>,
    /// Warnings about settings that limit the comparison.
    pub warnings: Vec<String>,
    /// The rows of the table. Each combination of `--set` values and job has one row for each scheme and one
    /// row for the lab with a single switch.
    pub rows: Vec<ComparisonRow>,
    /// One entry for each run, in the order of the run numbers.
    pub runs: Vec<ComparisonRun>,
}

/// The figures of one scheme and one job over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The load-balancing scheme or the compared value. `None`: the lab on one switch.
    pub scheme: Option<String>,
    /// Set only for a lab with a single switch. If each compared value has its own single-switch lab, this is
    /// the value of this lab. `None` otherwise.
    pub one_switch_for: Option<String>,
    /// The value of each parameter.
    pub values: Vec<String>,
    /// Name of the job. `None` in a lab without jobs.
    pub job: Option<String>,
    /// Number of runs.
    pub runs: u64,
    /// Number of runs with failures.
    pub failed: u64,
    /// All figures by name. `None`: no run has the figure.
    pub figures: BTreeMap<String, Option<MedianAndRange>>,
}

/// Median and range of a figure over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedianAndRange {
    /// The median. For an even number of values, the median is the lower of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// The figures of one run of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRun {
    /// The load-balancing scheme or the compared value. `None`: the lab on one switch.
    pub scheme: Option<String>,
    /// Set only for a lab with a single switch. If each compared value has its own single-switch lab, this is
    /// the value of this lab. `None` otherwise.
    pub one_switch_for: Option<String>,
    /// Whether the run is tainted.
    pub tainted: bool,
    /// The figures of the run. Its `values` are the values of the parameters.
    #[serde(flatten)]
    pub figures: RunFigures,
}

impl ComparisonRow {
    /// Returns the name in tables and plots.
    pub fn variant_name(&self) -> String {
        variant_name(self.scheme.as_deref(), self.one_switch_for.as_deref())
    }
}

impl ComparisonRun {
    /// Returns the name in tables and plots.
    pub fn variant_name(&self) -> String {
        variant_name(self.scheme.as_deref(), self.one_switch_for.as_deref())
    }
}

fn variant_name(scheme: Option<&str>, one_switch_for: Option<&str>) -> String {
    match (scheme, one_switch_for) {
        (Some(scheme), _) => scheme.to_owned(),
        (None, None) => "one switch".to_owned(),
        (None, Some(value)) => format!("one switch, {value}"),
    }
}

impl CompareReport {
    /// Formats the report as JSON.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a comparison has string keys and finite numbers");
        text.push('\n');
        text
    }
}
