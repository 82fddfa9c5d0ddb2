//! The report of a comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::sweep::{RunMeasurements, VariedField};
use xoff_telemetry::Taint;

/// Name and version of the report format. The version changes if a field is removed or changes its meaning.
pub const COMPARE_SCHEMA: &str = "xoff.compare/1";

/// The report of a comparison (`--json`). In virtual time, the report depends neither on the machine nor on
/// the order in which runs end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// The value of [`COMPARE_SCHEMA`].
    pub schema: String,
    /// Version of xoff.
    pub xoff_version: String,
    /// Name of the lab.
    pub lab: String,
    /// CRC-32 of the text of the lab file, as 8 hexadecimal digits.
    pub lab_crc32: String,
    /// `virtual` for runs in virtual time, `real` for runs in real time.
    pub time: String,
    /// Time limit of each run in nanoseconds of model time (`--until`). `None`: no limit, or a comparison in
    /// real time.
    pub until_ns: Option<u64>,
    /// Path and values of the compared field ([`ComparedField`](super::ComparedField)).
    pub compared: VariedField,
    /// The fields of `--set` with their values, in the order of the command line.
    pub parameters: Vec<VariedField>,
    /// The seeds in the order of the command line.
    pub seeds: Vec<u64>,
    /// Warnings about settings that limit the comparison, such as packets out of order with go-back-N. May
    /// be empty.
    pub warnings: Vec<String>,
    /// The rows of the table, one for each variant of the lab and each of its jobs. The variants are the
    /// schemes and the lab with a single switch, for each combination of `--set` values.
    pub rows: Vec<ComparisonRow>,
    /// One entry for each run, in the order of the run numbers. The seed changes fastest.
    pub runs: Vec<ComparisonRun>,
}

/// The figures (measured quantities) of one scheme and one job, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The load-balancing scheme, or the value of another compared field. `None`: the lab with a
    /// single switch.
    pub scheme: Option<String>,
    /// Only for a lab with a single switch: the compared value for which this lab is the reference. `None` if
    /// the lab is the reference for all values, and for a lab with several switches.
    pub one_switch_for: Option<String>,
    /// The value of each field of `--set`, in the order of [`CompareReport::parameters`].
    pub values: Vec<String>,
    /// Name of the job. `None` in a lab without jobs.
    pub job: Option<String>,
    /// Number of runs, one for each seed.
    pub runs: u64,
    /// Number of these runs that have failures.
    pub failed: u64,
    /// The figures by name, as in `docs/compare.md`. The value is `None` if no run has the figure.
    pub figures: BTreeMap<String, Option<MedianAndRange>>,
}

/// Median and range of a figure over all seeds, in the unit of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedianAndRange {
    /// The median, which is one of the values. For an even number of values, it is the lower of the two middle values,
    /// and for a bandwidth the upper one.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// The figures of one run of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRun {
    /// The load-balancing scheme, or the value of another compared field. `None`: the lab with a
    /// single switch.
    pub scheme: Option<String>,
    /// Only for a lab with a single switch: the compared value for which this lab is the reference. `None` if
    /// the lab is the reference for all values, and for a lab with several switches.
    pub one_switch_for: Option<String>,
    /// Whether the run is tainted: something outside the model could change its results. Always false in
    /// virtual time.
    pub tainted: bool,
    /// The causes for which the run proves nothing, in the order of time. Empty if the run is not tainted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// The figures of the run. [`RunMeasurements::values`] are the values of the fields of `--set`.
    #[serde(flatten)]
    pub figures: RunMeasurements,
}

impl ComparisonRow {
    /// Returns the name in tables and plots: the scheme or compared value, or `one switch`.
    pub fn variant_name(&self) -> String {
        variant_name(self.scheme.as_deref(), self.one_switch_for.as_deref())
    }
}

impl ComparisonRun {
    /// Returns the name in tables and plots: the scheme or compared value, or `one switch`.
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
    /// Formats the report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a comparison has string keys and finite numbers");
        text.push('\n');
        text
    }
}
