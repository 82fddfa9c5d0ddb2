//! The results of a script.

use serde::Serialize;

/// The result of one condition of a script.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckResult {
    /// The name of the step. `None` if the step has no name.
    pub name: Option<String>,
    /// The text of the condition, such as `sw1.dropped_packets == 0`. For `wait`, the time limit is added.
    pub condition: String,
    /// Where the lab file defines the step, as `FILE:LINE`.
    pub source: String,
    /// The model time at which the result was known, in nanoseconds since the start of the workload.
    pub model_time_ns: u64,
    /// Whether the condition was true. For `wait`, whether it became true in time.
    pub passed: bool,
    /// The reason for a failure other than a false condition, such as a missing value. `None` otherwise.
    pub reason: Option<String>,
    /// The names in a failed condition and their values. Values of counters are in the unit of the name, and
    /// times of events are in picoseconds. `None` means a missing value, or an event that has not happened.
    /// Empty if the condition was true.
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
    /// Notes about settings without effect, in the lab file and in the switch configurations. May be empty.
    pub notes: Vec<String>,
    /// Warnings about probable mistakes, such as a congestion control that gets no signal. May be empty.
    pub warnings: Vec<String>,
    /// The results of the conditions, in the order of evaluation. Skipped steps have no results.
    pub checks: Vec<CheckResult>,
    /// The reason for which the script stopped before its last step. `None` if all steps ran.
    pub aborted: Option<String>,
}

impl LabCheckResult {
    /// Creates the result of a lab whose script did not start, because the user interrupted the command.
    pub(super) fn interrupted_before_start(file: &str, lab: &str, seed: u64) -> LabCheckResult {
        LabCheckResult {
            file: file.to_owned(),
            lab: lab.to_owned(),
            seed,
            model_time_ns: 0,
            notes: Vec::new(),
            warnings: Vec::new(),
            checks: Vec::new(),
            aborted: Some("interrupted before the start of the script".to_owned()),
        }
    }

    /// Returns whether all steps ran and all conditions were true.
    pub fn has_passed(&self) -> bool {
        self.aborted.is_none() && self.checks.iter().all(|check| check.passed)
    }

    /// Returns the number of conditions that were false or undecided.
    pub fn failed_checks(&self) -> usize {
        self.checks.iter().filter(|check| !check.passed).count()
    }
}

impl CheckResult {
    /// Returns the title of the check: `NAME: CONDITION`, or only the condition if the step has no name.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}: {}", self.condition),
            None => self.condition.clone(),
        }
    }
}
