//! The result of a probe: JSON, and a table.

use serde::Serialize;

use super::device::Hold;
use super::expected::Expected;
use super::measure::Measured;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::{group_thousands, simple_table};

/// Name and version of the report's form.
pub const SCHEMA: &str = "xoff.probe/1";

/// All classes that were probed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of xoff.
    pub xoff_version: &'static str,
    /// The switch.
    pub switch: String,
    /// The port that frames came in on.
    pub ingress: String,
    /// The ports that they left by.
    pub egresses: Vec<String>,
    /// Bytes of a buffer cell.
    pub cell_bytes: u32,
    /// Bytes of a frame, FCS included.
    pub frame_bytes: u32,
    /// Cells of a frame.
    pub frame_cells: u32,
    /// Cells by which a threshold may differ from what the configuration says.
    pub tolerance_cells: u32,
    /// Whether every threshold that was compared is within the tolerance.
    pub holds: bool,
    /// The classes.
    pub classes: Vec<ClassResult>,
}

/// A traffic class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassResult {
    /// Its number.
    pub class: u8,
    /// How frames were held: `pause` or `block`.
    pub hold: &'static str,
    /// Frames that left although they were held; none of them counts below.
    pub leaked_frames: u32,
    /// How often the buffer was filled.
    pub fillings: u32,
    /// What was found.
    pub thresholds: Vec<Threshold>,
}

/// A threshold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// `xoff`, `xon`, `headroom`, `drop` of a class that is paused; `drop` of others.
    pub name: &'static str,
    /// Frames; null: it does not happen.
    pub frames: Option<u32>,
    /// The same in cells.
    pub cells: Option<u64>,
    /// The same in bytes of frames, FCS included.
    pub bytes: Option<u64>,
    /// What the configuration says, in cells; null: it does not happen.
    pub expected_cells: Option<u64>,
    /// Whether it was compared with a configuration.
    pub compared: bool,
    /// Whether it is as the configuration says, within the tolerance.
    pub holds: bool,
}

impl ClassResult {
    /// What was found of a class, beside what was expected. `two_egresses`: XON could be looked for.
    pub fn new(
        class: u8,
        measured: &Measured,
        expected: Option<Expected>,
        (frame_bytes, frame_cells): (u32, u32),
        tolerance_cells: u32,
        two_egresses: bool,
    ) -> ClassResult {
        let cells = |frames: u32| u64::from(frames) * u64::from(frame_cells);
        let threshold = |name, frames: Option<u32>, said: Option<Option<u32>>| {
            let (found, wanted) = (frames.map(cells), said.flatten().map(cells));
            let near = match (found, wanted) {
                (Some(a), Some(b)) => a.abs_diff(b) <= u64::from(tolerance_cells),
                (None, None) => true,
                _ => false,
            };
            Threshold {
                name,
                frames,
                cells: found,
                bytes: frames.map(|frames| u64::from(frames) * u64::from(frame_bytes)),
                expected_cells: wanted,
                compared: said.is_some(),
                holds: said.is_none() || near,
            }
        };
        let mut thresholds = Vec::new();
        let paused = measured.xoff.is_some() || expected.is_some_and(|expected| expected.xoff.is_some());
        if paused {
            thresholds.push(threshold("xoff", measured.xoff, expected.map(|e| e.xoff)));
            if two_egresses {
                thresholds.push(threshold("xon", measured.xon, expected.map(|e| e.xon)));
            }
            thresholds.push(threshold(
                "headroom",
                measured.headroom(),
                expected.map(|e| e.headroom()),
            ));
        }
        thresholds.push(threshold("drop", measured.drop, expected.map(|e| e.drop)));
        ClassResult {
            class,
            hold: match measured.hold {
                Some(Hold::Block) => "block",
                _ => "pause",
            },
            leaked_frames: measured.leaked,
            fillings: measured.fillings,
            thresholds,
        }
    }
}

impl ProbeReport {
    /// 0 if every threshold is as the configuration says, else 1.
    pub fn exit(&self) -> Exit {
        match self.holds {
            true => Exit::Ok,
            false => Exit::CheckFailed,
        }
    }

    /// The table.
    pub fn render(&self) -> String {
        let number = |value: Option<u64>| value.map_or_else(|| "never".to_owned(), group_thousands);
        let mut rows = Vec::new();
        for class in &self.classes {
            for threshold in &class.thresholds {
                rows.push(vec![
                    class.class.to_string(),
                    threshold.name.to_owned(),
                    class.hold.to_owned(),
                    match (threshold.compared, threshold.holds) {
                        (false, _) => "-".to_owned(),
                        (true, true) => "ok".to_owned(),
                        (true, false) => "DIFFERS".to_owned(),
                    },
                    number(threshold.frames.map(u64::from)),
                    number(threshold.bytes),
                    number(threshold.cells),
                    match threshold.compared {
                        true => number(threshold.expected_cells),
                        false => "-".to_owned(),
                    },
                ]);
            }
        }
        let header = [
            "Class",
            "Threshold",
            "Held by",
            "Verdict",
            "Frames",
            "Bytes",
            "Cells",
            "Configured cells",
        ];
        format!(
            "switch {}: {} to {}, frames of {} bytes, {} of {} bytes each\n{}",
            self.switch,
            self.ingress,
            self.egresses.join(", "),
            self.frame_bytes,
            match self.frame_cells {
                1 => "1 cell".to_owned(),
                cells => format!("{cells} cells"),
            },
            self.cell_bytes,
            simple_table(&header, 4, rows)
        )
    }
}
