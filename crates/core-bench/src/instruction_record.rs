//! The recorded instruction counts of the repository. A check against the record shows whether a
//! change costs instructions.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use xoff_measure::result::BenchResult;
use xoff_telemetry::failure::Failure;
use xoff_telemetry::write_result_file;

/// Percentage by which a count may exceed the recorded count.
pub const GROWTH_MAX_PERCENT: f64 = 3.0;
/// Schema name and version of the record file.
const SCHEMA: &str = "xoff-instructions/1";

/// Recorded instruction counts. Each build (such as `x86_64` or `x86_64-dev`) has one count for each figure
/// (measured quantity, such as `ecmp/instructions`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstructionRecord {
    schema: String,
    /// Instructions per frame, by name of the build and name of the figure.
    counts: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Returns the name of the build of this program: the architecture, and `-dev` for a build
/// with debug assertions.
///
/// The counts of a dev build change only if the executed code changes. In a release build, a change of
/// unrelated code can also change the counts by up to 4 %, because unrelated code influences inlining.
fn build_name() -> String {
    let suffix = if cfg!(debug_assertions) { "-dev" } else { "" };
    format!("{}{suffix}", std::env::consts::ARCH)
}

impl InstructionRecord {
    /// Creates a record without counts.
    pub fn new() -> InstructionRecord {
        InstructionRecord {
            schema: SCHEMA.to_owned(),
            counts: BTreeMap::new(),
        }
    }

    /// Reads a record file.
    ///
    /// # Errors
    /// The file is unreadable, invalid or has another schema.
    pub fn read(path: &Path) -> Result<InstructionRecord, Failure> {
        let location = format!("--record {}", path.display());
        let invalid = |why: String| {
            Failure::configuration("the record of instructions cannot be read")
                .at(&location)
                .because(why)
                .fix("remove the file and write a new record with --write")
        };
        let text = std::fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
        let record: InstructionRecord =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        match record.schema == SCHEMA {
            true => Ok(record),
            false => Err(invalid(format!(
                "its schema is \"{}\", not \"{SCHEMA}\"",
                record.schema
            ))),
        }
    }

    /// Replaces the recorded instruction counts of this build by the medians in `counted`, rounded to one
    /// decimal. The counts of all remaining builds stay unchanged. Figures (measured quantities) that are not
    /// in `counted` also keep their counts.
    pub fn update(&mut self, counted: &BenchResult) {
        let counts = self.counts.entry(build_name()).or_default();
        for figure in &counted.figures {
            let rounded = (figure.spread().median * 10.0).round() / 10.0;
            counts.insert(figure.name.clone(), rounded);
        }
    }

    /// Writes the record to a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).expect("the record is valid JSON");
        write_result_file("--record", path, &(text + "\n"))
    }

    /// Compares counts with the recorded counts of this build. Returns a list of errors and a list
    /// of improvements.
    ///
    /// These cases are errors:
    ///
    /// - A count exceeds the recorded count by more than [`GROWTH_MAX_PERCENT`].
    /// - The record does not contain the count.
    /// - `is_complete` is true, and a recorded figure has no count.
    ///
    /// A count that is more than [`GROWTH_MAX_PERCENT`] below the recorded count is an improvement.
    pub fn check(&self, counted: &BenchResult, is_complete: bool) -> (Vec<String>, Vec<String>) {
        let none = BTreeMap::new();
        let recorded = self.counts.get(&build_name()).unwrap_or(&none);
        let (mut errors, mut reduced) = (Vec::new(), Vec::new());
        for figure in &counted.figures {
            let count = figure.spread().median;
            let Some(&recorded_count) = recorded.get(&figure.name) else {
                errors.push(format!("{}: {count:.1}, not in the record", figure.name));
                continue;
            };
            let growth = (count / recorded_count - 1.0) * 100.0;
            let line = format!(
                "{}: {count:.1}, recorded {recorded_count:.1} ({growth:+.1} %)",
                figure.name
            );
            // A recorded count of 0 gives an infinite growth or NaN, which is an error.
            if growth.is_nan() || growth > GROWTH_MAX_PERCENT {
                errors.push(line);
            } else if growth < -GROWTH_MAX_PERCENT {
                reduced.push(line);
            }
        }
        let missing = recorded
            .keys()
            .filter(|name| is_complete && counted.figure(name).is_none());
        errors.extend(missing.map(|name| format!("{name}: recorded, but no such workload exists")));
        (errors, reduced)
    }
}

impl Default for InstructionRecord {
    fn default() -> InstructionRecord {
        InstructionRecord::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_measure::result::{BenchFigure, ImprovementDirection};

    fn count_result(values: &[(&str, f64)]) -> BenchResult {
        let mut result = BenchResult::new("core", "x", 1);
        let figure = |&(name, value): &(&str, f64)| {
            BenchFigure::new(name, "instructions", ImprovementDirection::Smaller, vec![value])
        };
        result.figures = values.iter().map(figure).collect();
        result
    }

    #[test]
    fn growth_above_three_percent_is_an_error_and_equal_reduction_is_reported() {
        let mut record = InstructionRecord::new();
        record.update(&count_result(&[("a", 1_000.0), ("b", 1_000.0), ("c", 1_000.0)]));
        let now = count_result(&[("a", 1_029.0), ("b", 1_031.0), ("c", 960.0)]);
        let (errors, reduced) = record.check(&now, true);
        assert_eq!(errors, ["b: 1031.0, recorded 1000.0 (+3.1 %)"]);
        assert_eq!(reduced, ["c: 960.0, recorded 1000.0 (-4.0 %)"]);
    }

    #[test]
    fn a_figure_that_only_the_record_or_only_the_result_has_is_an_error() {
        let mut record = InstructionRecord::new();
        record.update(&count_result(&[("a", 1.0), ("gone", 1.0)]));
        let now = count_result(&[("a", 1.0), ("new", 1.0)]);
        let (errors, _) = record.check(&now, true);
        assert_eq!(errors.len(), 2, "{errors:?}");
        let (errors, _) = record.check(&now, false);
        assert_eq!(errors, ["new: 1.0, not in the record"]);
    }

    #[test]
    fn a_record_is_equal_after_writing_and_reading_and_another_schema_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("instructions.json");
        let mut record = InstructionRecord::new();
        record.update(&count_result(&[("a", 12.345)]));
        record.write(&path).unwrap();
        assert_eq!(InstructionRecord::read(&path).unwrap(), record);
        std::fs::write(&path, r#"{"schema": "other/1", "counts": {}}"#).unwrap();
        let failure = InstructionRecord::read(&path).unwrap_err();
        assert!(failure.to_string().contains("other/1"), "{failure}");
    }
}
