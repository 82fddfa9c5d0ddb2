//! The results of a script.

use serde::Serialize;

/// The result of one condition of a script.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckResult {
    /// The name of the step, if the step has one.
    pub name: Option<String>,
    /// The text of the condition.
    pub condition: String,
    /// The position of the condition in the lab file, `FILE:LINE`.
    pub source: String,
    /// The model time of the result in nanoseconds, counted from the start of the workload.
    pub model_time_ns: u64,
    /// Whether the condition held.
    pub passed: bool,
    /// The reason of a failure that is not just a false condition. For example, a value is missing.
    pub reason: Option<String>,
    /// The names in a failed condition and their values. Values of counters are in the unit of the name, and
    /// times of events are in picoseconds. `None` means a missing value.
    pub values: Vec<(String, Option<f64>)>,
}

/// The results of the script of a lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabCheckResult {
    /// The path of the lab file.
    pub file: String,
    /// The name of the lab.
    pub lab: String,
    /// The seed of all random decisions.
    pub seed: u64,
    /// The duration of the script in nanoseconds of model time.
    pub model_time_ns: u64,
    /// Settings of the lab file and of the switch configurations that have no effect.
    pub notes: Vec<String>,
    /// Probable mistakes, such as congestion control that gets no signal.
    pub warnings: Vec<String>,
    /// The results of the conditions, in the order of evaluation.
    pub checks: Vec<CheckResult>,
    /// The reason why the script stopped before its last step, if it did.
    pub aborted: Option<String>,
}

impl LabCheckResult {
    /// Returns whether all steps ran and all conditions held.
    pub fn has_passed(&self) -> bool {
        self.aborted.is_none() && self.checks.iter().all(|check| check.passed)
    }

    /// Returns the number of conditions that did not hold.
    pub fn failed_checks(&self) -> usize {
        self.checks.iter().filter(|check| !check.passed).count()
    }
}

impl CheckResult {
    /// Returns the name of the step, if there is one, and the condition.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}: {}", self.condition),
            None => self.condition.clone(),
        }
    }
}
