//! Instructions a frame as the repository records them, so that a change that costs some is made knowingly.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use xoff_measure::result::BenchResult;
use xoff_telemetry::failure::Failure;
use xoff_telemetry::write_result_file;

/// By how much a count may grow without the record being changed.
pub const GROWTH_MAX_PERCENT: f64 = 3.0;
const SCHEMA: &str = "xoff-instructions/1";

/// Counts by build (`x86_64`, `x86_64-dev`) and figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstructionRecord {
    schema: String,
    /// Build to figure to instructions.
    counts: BTreeMap<String, BTreeMap<String, f64>>,
}

/// What counts hang on beside the source: the architecture, and whether this is a build with debug assertions and little optimisation
/// (`dev`). Of that one counts move only with the code that is run; in a release build they move by up to 4 % with whatever else is in the program, since that
/// decides what is inlined where.
fn build() -> String {
    let suffix = if cfg!(debug_assertions) { "-dev" } else { "" };
    format!("{}{suffix}", std::env::consts::ARCH)
}

impl InstructionRecord {
    /// One without counts.
    pub fn new() -> InstructionRecord {
        InstructionRecord {
            schema: SCHEMA.to_owned(),
            counts: BTreeMap::new(),
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<InstructionRecord, Failure> {
        let place = format!("--record {}", path.display());
        let refused = |why: String| {
            Failure::configuration("the record of instructions cannot be read")
                .at(&place)
                .because(why)
                .fix("move it away and record anew: --write")
        };
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        let record: InstructionRecord =
            serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        match record.schema == SCHEMA {
            true => Ok(record),
            false => Err(refused(format!(
                "its schema is \"{}\", not \"{SCHEMA}\"",
                record.schema
            ))),
        }
    }

    /// Takes over what was counted of this build, to a tenth of an instruction; the rest stays as it was.
    pub fn update(&mut self, counted: &BenchResult) {
        let counts = self.counts.entry(build()).or_default();
        for figure in &counted.figures {
            let rounded = (figure.spread().median * 10.0).round() / 10.0;
            counts.insert(figure.name.clone(), rounded);
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).expect("numbers under names");
        write_result_file("--record", path, &(text + "\n"))
    }

    /// What is wrong beside the record: counts that grew, that are not recorded, that are recorded and were not counted although
    /// `complete`. Beside that, what shrank by as much, in the second list: no mistake, but then the gain is not kept.
    pub fn check(&self, counted: &BenchResult, complete: bool) -> (Vec<String>, Vec<String>) {
        let none = BTreeMap::new();
        let recorded = self.counts.get(&build()).unwrap_or(&none);
        let (mut wrong, mut shrunk) = (Vec::new(), Vec::new());
        for figure in &counted.figures {
            let now = figure.spread().median;
            let Some(&then) = recorded.get(&figure.name) else {
                wrong.push(format!("{}: {now:.1}, and nothing is recorded", figure.name));
                continue;
            };
            let growth = (now / then - 1.0) * 100.0;
            let line = format!(
                "{}: {now:.1}, recorded are {then:.1} ({growth:+.1} %)",
                figure.name
            );
            // A record of 0 makes it infinite or no number: that is no "within" either.
            if growth.is_nan() || growth > GROWTH_MAX_PERCENT {
                wrong.push(line);
            } else if growth < -GROWTH_MAX_PERCENT {
                shrunk.push(line);
            }
        }
        let missing = recorded
            .keys()
            .filter(|name| complete && counted.figure(name).is_none());
        wrong.extend(missing.map(|name| format!("{name}: recorded, and there is no such workload")));
        (wrong, shrunk)
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
    use xoff_measure::result::{BenchFigure, BetterWhen};

    fn counted(values: &[(&str, f64)]) -> BenchResult {
        let mut result = BenchResult::new("core", "x", 1);
        let figure = |&(name, value): &(&str, f64)| {
            BenchFigure::new(name, "instructions", BetterWhen::Smaller, vec![value])
        };
        result.figures = values.iter().map(figure).collect();
        result
    }

    #[test]
    fn growth_beyond_three_percent_is_wrong_and_as_much_less_is_told() {
        let mut record = InstructionRecord::new();
        record.update(&counted(&[("a", 1_000.0), ("b", 1_000.0), ("c", 1_000.0)]));
        let now = counted(&[("a", 1_029.0), ("b", 1_031.0), ("c", 960.0)]);
        let (wrong, shrunk) = record.check(&now, true);
        assert_eq!(wrong, ["b: 1031.0, recorded are 1000.0 (+3.1 %)"]);
        assert_eq!(shrunk, ["c: 960.0, recorded are 1000.0 (-4.0 %)"]);
    }

    #[test]
    fn what_is_on_one_side_only_is_wrong() {
        let mut record = InstructionRecord::new();
        record.update(&counted(&[("a", 1.0), ("gone", 1.0)]));
        let now = counted(&[("a", 1.0), ("new", 1.0)]);
        let (wrong, _) = record.check(&now, true);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        let (wrong, _) = record.check(&now, false);
        assert_eq!(wrong, ["new: 1.0, and nothing is recorded"]);
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_another_schema_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("instructions.json");
        let mut record = InstructionRecord::new();
        record.update(&counted(&[("a", 12.345)]));
        record.write(&path).unwrap();
        assert_eq!(InstructionRecord::read(&path).unwrap(), record);
        std::fs::write(&path, r#"{"schema": "other/1", "counts": {}}"#).unwrap();
        let failure = InstructionRecord::read(&path).unwrap_err();
        assert!(failure.to_string().contains("other/1"), "{failure}");
    }
}
