//! What came of a script.

use serde::Serialize;

/// A condition that was held against the lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The step's name, if it has one.
    pub name: Option<String>,
    /// The condition, as it is written.
    pub condition: String,
    /// Where it stands, `FILE:LINE`.
    pub source: String,
    /// Model time since the start of the workload when it was decided, in nanoseconds.
    pub model_time_ns: u64,
    /// Whether it held.
    pub passed: bool,
    /// Why it did not, where that is not simply that it is not so.
    pub reason: Option<String>,
    /// The names in it and their values then, of one that did not hold: counters in the unit of their names, times of events in
    /// picoseconds, `None` for what there was not.
    pub values: Vec<(String, Option<f64>)>,
}

/// A lab whose script has run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The lab file.
    pub file: String,
    /// Name of the lab.
    pub lab: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Model time that the script took, in nanoseconds.
    pub model_time_ns: u64,
    /// What its lab file and the configurations of its switches set without effect.
    pub notes: Vec<String>,
    /// What will probably not do what was meant, such as congestion controls without their signals.
    pub warnings: Vec<String>,
    /// Its conditions, in the order in which they were decided.
    pub checks: Vec<Check>,
    /// Why the script did not come to its end, if it did not.
    pub aborted: Option<String>,
}

impl Checked {
    /// Whether the script came to its end and everything held.
    pub fn passed(&self) -> bool {
        self.aborted.is_none() && self.checks.iter().all(|check| check.passed)
    }

    /// How many conditions did not hold.
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.passed).count()
    }
}

impl Check {
    /// What it is called: the step's name and the condition.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{name}: {}", self.condition),
            None => self.condition.clone(),
        }
    }
}
