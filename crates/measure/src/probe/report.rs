//! The report of a probe, as JSON and as a table.

use serde::Serialize;

use super::device::EgressHoldMethod;
use super::expected_thresholds::ExpectedThresholds;
use super::measured_thresholds::MeasuredThresholds;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::{count_noun, group_thousands, simple_table};

/// Name and version of the report's JSON format.
pub const PROBE_SCHEMA: &str = "xoff.probe/1";

/// The report of `xoff bench probe`. docs/probe.md describes the fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeReport {
    /// Name and version of the format: [`PROBE_SCHEMA`].
    pub schema: &'static str,
    /// Version of xoff that created the report.
    pub xoff_version: &'static str,
    /// Name of the probed switch.
    pub switch: String,
    /// Name of the ingress port of the frames.
    pub ingress: String,
    /// Names of the egress ports of the frames, one or two.
    pub egresses: Vec<String>,
    /// Size of a buffer cell, in bytes.
    pub cell_bytes: u32,
    /// Length of a frame in bytes, with FCS.
    pub frame_bytes: u32,
    /// Size of a frame, in cells.
    pub frame_cells: u32,
    /// Largest permitted difference between a threshold and the configuration, in cells.
    pub tolerance_cells: u32,
    /// True if all compared thresholds are within the tolerance.
    pub holds: bool,
    /// Results of the probed traffic classes.
    pub classes: Vec<ClassThresholds>,
}

/// The measured and expected thresholds of a traffic class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassThresholds {
    /// Traffic class, 0 to 7.
    pub class: u8,
    /// Method that held the frames, `pause` or `block`.
    pub hold: &'static str,
    /// Largest number of leaked frames in one filling of the buffer. Leaked frames leave a port although the
    /// port is held. The thresholds do not count leaked frames.
    pub leaked_frames: u32,
    /// Number of times that the buffer was filled.
    pub fillings: u32,
    /// Measured thresholds, in the order `xoff`, `xon`, `headroom`, `drop`.
    pub thresholds: Vec<ThresholdResult>,
}

/// A measured threshold, and the expected value if there is one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThresholdResult {
    /// `xoff`, `xon`, `headroom` or `drop`. A class without pauses has only `drop`. `xon` needs two
    /// egress ports.
    pub name: &'static str,
    /// Threshold in frames. `None` means that the event did not occur.
    pub frames: Option<u32>,
    /// Threshold in cells: `frames` times the cells of a frame.
    pub cells: Option<u64>,
    /// Threshold in bytes: `frames` times the frame length with FCS.
    pub bytes: Option<u64>,
    /// Expected threshold in cells, computed from the configuration. `None` means that the event of
    /// the threshold (XOFF, XON or a drop) should not occur, or that there is no expectation
    /// (`compared` is false).
    pub expected_cells: Option<u64>,
    /// True if the threshold was compared with a configuration.
    pub compared: bool,
    /// True if the threshold is within the tolerance, or if it was not compared.
    pub holds: bool,
}

impl ClassThresholds {
    /// Builds the result of a class from the measured thresholds. With `expected`, compares them with the
    /// expected thresholds. `has_two_egresses` is true if XON was measured.
    pub fn new(
        class: u8,
        measured: &MeasuredThresholds,
        expected: Option<ExpectedThresholds>,
        (frame_bytes, frame_cells): (u32, u32),
        tolerance_cells: u32,
        has_two_egresses: bool,
    ) -> ClassThresholds {
        let cells = |frames: u32| u64::from(frames) * u64::from(frame_cells);
        let threshold = |name, frames: Option<u32>, said: Option<Option<u32>>| {
            let (found, wanted) = (frames.map(cells), said.flatten().map(cells));
            let near = match (found, wanted) {
                (Some(a), Some(b)) => a.abs_diff(b) <= u64::from(tolerance_cells),
                (None, None) => true,
                _ => false,
            };
            ThresholdResult {
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
            if has_two_egresses {
                thresholds.push(threshold("xon", measured.xon, expected.map(|e| e.xon)));
            }
            thresholds.push(threshold(
                "headroom",
                measured.headroom(),
                expected.map(|e| e.headroom()),
            ));
        }
        thresholds.push(threshold("drop", measured.drop, expected.map(|e| e.drop)));
        ClassThresholds {
            class,
            hold: match measured.hold {
                Some(EgressHoldMethod::Block) => "block",
                _ => "pause",
            },
            leaked_frames: measured.leaked,
            fillings: measured.fillings,
            thresholds,
        }
    }
}

impl ProbeReport {
    /// Returns [`Exit::Ok`] (0) if all compared thresholds are within the tolerance, otherwise
    /// [`Exit::CheckFailed`] (1).
    pub fn exit(&self) -> Exit {
        match self.holds {
            true => Exit::Ok,
            false => Exit::CheckFailed,
        }
    }

    /// Returns the report as a text table for a terminal.
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
            count_noun(u64::from(self.frame_cells), "cell"),
            self.cell_bytes,
            simple_table(&header, 4, rows)
        )
    }
}
