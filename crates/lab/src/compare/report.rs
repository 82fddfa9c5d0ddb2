//! The result of a comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::sweep::{Parameter, RunFigures};

/// Name and version of the form. The number changes when a field changes its meaning or goes.
pub const COMPARE_SCHEMA: &str = "xoff.compare/1";

/// A comparison. Nothing in it depends on the machine or on who ended first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// [`COMPARE_SCHEMA`].
    pub schema: String,
    /// Version of xoff.
    pub xoff_version: String,
    /// Name of the lab.
    pub lab: String,
    /// CRC-32 of the lab file's text, in hexadecimal digits.
    pub lab_crc32: String,
    /// `virtual`, or `real` where the wall clock counted.
    pub time: String,
    /// Model time after which each run ended, if that was asked for.
    pub until_ns: Option<u64>,
    /// The field whose values are compared, and these.
    pub compared: Parameter,
    /// Other fields that took several values.
    pub parameters: Vec<Parameter>,
    /// The seeds, in their order.
    pub seeds: Vec<u64>,
    /// What a reader has to know.
    pub warnings: Vec<String>,
    /// One entry for each scheme, combination of values and job, and for the one switch; in the order of the table.
    pub rows: Vec<ComparedRow>,
    /// One entry for each run, by its number.
    pub runs: Vec<ComparedRun>,
}

/// A scheme over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRow {
    /// The scheme; `None`: the one switch.
    pub scheme: Option<String>,
    /// Of a one switch that was run for one of the compared values alone: that value.
    pub one_switch_for: Option<String>,
    /// The value of each parameter.
    pub values: Vec<String>,
    /// The job; `None` in a lab without jobs.
    pub job: Option<String>,
    /// Runs.
    pub runs: u64,
    /// Those of them that did not keep what the lab promises, or did not come to their end.
    pub failed: u64,
    /// Every figure, by name; `None`: no run has it.
    pub figures: BTreeMap<String, Option<Spread>>,
}

/// A figure over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median: one of the values, of an even number the lower of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// The scheme; `None`: the one switch.
    pub scheme: Option<String>,
    /// Of a one switch that was run for one of the compared values alone: that value.
    pub one_switch_for: Option<String>,
    /// Something outside the model can have changed it.
    pub tainted: bool,
    /// What is kept of it; `values` are those of the parameters.
    #[serde(flatten)]
    pub figures: RunFigures,
}

impl ComparedRow {
    /// What it is called in tables and plots.
    pub fn name(&self) -> String {
        name(self.scheme.as_deref(), self.one_switch_for.as_deref())
    }
}

impl ComparedRun {
    /// What it is called in tables and plots.
    pub fn name(&self) -> String {
        name(self.scheme.as_deref(), self.one_switch_for.as_deref())
    }
}

fn name(scheme: Option<&str>, one_switch_for: Option<&str>) -> String {
    match (scheme, one_switch_for) {
        (Some(scheme), _) => scheme.to_owned(),
        (None, None) => "one switch".to_owned(),
        (None, Some(value)) => format!("one switch, {value}"),
    }
}

impl CompareReport {
    /// The JSON text, for a file.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a comparison has string keys and finite numbers");
        text.push('\n');
        text
    }
}
