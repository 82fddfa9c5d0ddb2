//! The report of oracle runs as JSON and as text tables.

use std::fmt::Write as _;

use serde::Serialize;

use super::compare::{
    EthernetComparison, FlowComparison, PAUSE_COUNT_BOUND, PAUSE_SHARE_BOUND, PauseComparison,
    ScenarioComparison,
};
use xoff_telemetry::failure::Exit;
use xoff_telemetry::{count_noun, group_thousands, simple_table};

/// Name and version of the report's JSON format.
pub const SCHEMA: &str = "xoff.oracle/1";

/// The comparisons of all scenario folders that a command names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OracleReport {
    /// Name and version of the format: [`SCHEMA`].
    pub schema: &'static str,
    /// Version of xoff that created the report.
    pub xoff_version: &'static str,
    /// Seed of all random decisions.
    pub seed: u64,
    /// True if all folders are within their bounds.
    pub holds: bool,
    /// One comparison for each folder, in the order of the command line.
    pub folders: Vec<ScenarioComparison>,
}

impl OracleReport {
    /// Creates a report. `seed` is the seed of all random decisions.
    pub fn new(folders: Vec<ScenarioComparison>, seed: u64) -> OracleReport {
        OracleReport {
            schema: SCHEMA,
            xoff_version: env!("CARGO_PKG_VERSION"),
            seed,
            holds: folders.iter().all(ScenarioComparison::is_within_bounds),
            folders,
        }
    }

    /// Returns [`Exit::CheckFailed`] (1) if a folder is beyond its bounds, otherwise [`Exit::Inconclusive`] (5) if a
    /// folder has no flow and therefore proves nothing, otherwise [`Exit::Ok`] (0).
    pub fn exit(&self) -> Exit {
        let has_empty_folder = self.folders.iter().any(|folder| folder.flows.is_empty());
        match (self.holds, has_empty_folder) {
            (false, _) => Exit::CheckFailed,
            (true, true) => Exit::Inconclusive,
            (true, false) => Exit::Ok,
        }
    }

    /// Returns the report as text tables for a terminal.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for folder in &self.folders {
            let _ = writeln!(text, "{}", folder.folder);
            text.push_str(&flow_table(&folder.flows));
            text.push('\n');
            text.push_str(&pause_table(folder));
            text.push('\n');
            if !folder.ethernet.is_empty() {
                text.push_str("With Ethernet's real lengths\n");
                text.push_str(&ethernet_table(&folder.ethernet));
                text.push('\n');
            }
            text.push_str(&render_verdict(folder));
            text.push('\n');
        }
        text
    }
}

fn format_micros(ns: u64) -> String {
    format!("{}.{:03}", group_thousands(ns / 1_000), ns % 1_000)
}

fn format_or_dash<T>(value: Option<T>, format_value: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format_value)
}

fn format_percent(share: f64) -> String {
    format!("{:+.3} %", share * 100.0)
}

fn flow_table(flows: &[FlowComparison]) -> String {
    let header = [
        "Flow",
        "Bytes",
        "Reference us",
        "xoff us",
        "Difference us",
        "Difference",
        "Slowdown",
        "xoff slowdown",
        "",
    ];
    let row = |flow: &FlowComparison| {
        let format_signed = |ns: u64| {
            let reference_ns = flow.reference_ns?;
            let sign = if ns < reference_ns { "-" } else { "+" };
            Some(format!("{sign}{}", format_micros(ns.abs_diff(reference_ns))))
        };
        vec![
            format!("{} -> {}", flow.src, flow.dst),
            group_thousands(flow.bytes),
            format_or_dash(flow.reference_ns, format_micros),
            format_or_dash(flow.xoff_ns, format_micros),
            flow.xoff_ns
                .and_then(format_signed)
                .unwrap_or_else(|| "-".to_owned()),
            format_or_dash(flow.difference, format_percent),
            format_or_dash(flow.reference_slowdown, |s| format!("{s:.2}")),
            format_or_dash(flow.xoff_slowdown, |s| format!("{s:.2}")),
            if flow.holds { "" } else { "beyond the bound" }.to_owned(),
        ]
    };
    simple_table(&header, 1, flows.iter().map(row).collect())
}

fn pause_table(folder: &ScenarioComparison) -> String {
    let header = [
        "Paused",
        "Reference",
        "xoff",
        "Difference",
        "First, reference us",
        "First, xoff us",
    ];
    let row = |row: &PauseComparison| {
        let kind = if row.is_switch { "switch" } else { "host" };
        vec![
            format!("{kind} {} interface {}", row.node, row.interface),
            group_thousands(row.reference),
            group_thousands(row.xoff),
            format_difference(row.reference, row.xoff),
            format_or_dash(row.reference_first_ns, format_micros),
            format_or_dash(row.xoff_first_ns, format_micros),
        ]
    };
    let (reference, xoff) = (folder.reference_pauses, folder.xoff_pauses);
    let mut rows: Vec<Vec<String>> = folder.pauses.iter().map(row).collect();
    let sums = [
        group_thousands(reference),
        group_thousands(xoff),
        format_difference(reference, xoff),
    ];
    let mut all = vec!["all".to_owned()];
    all.extend(sums);
    all.extend([String::new(), String::new()]);
    rows.push(all);
    simple_table(&header, 1, rows)
}

fn format_difference(reference: u64, xoff: u64) -> String {
    let difference = xoff as f64 - reference as f64;
    match reference {
        0 => format!("{difference:+}"),
        _ => format!("{:+.1} %", difference / reference as f64 * 100.0),
    }
}

fn ethernet_table(flows: &[EthernetComparison]) -> String {
    let header = ["Flow", "Longer by", "Predicted us", "xoff us", "Difference"];
    let row = |flow: &EthernetComparison| {
        vec![
            format!("{} -> {}", flow.src, flow.dst),
            format!("{:.2} %", (flow.predicted_factor - 1.0) * 100.0),
            format_micros(flow.predicted_ns),
            format_or_dash(flow.xoff_ns, format_micros),
            format_or_dash(flow.difference, format_percent),
        ]
    };
    simple_table(&header, 1, flows.iter().map(row).collect())
}

fn render_verdict(folder: &ScenarioComparison) -> String {
    let compared = folder.flows.iter().any(|flow| flow.reference_ns.is_some());
    let mut text = match (folder.completions_hold, folder.largest_difference()) {
        _ if !compared => {
            let ended = folder.flows.iter().filter(|flow| flow.xoff_ns.is_some()).count();
            format!(
                "{ended} of {} ended; there are no completion times to compare with\n",
                count_noun(folder.flows.len() as u64, "flow")
            )
        }
        (holds, Some(largest)) => format!(
            "{}: completion times differ by up to {:.3} %, allowed is {} %{}\n",
            if holds { "ok" } else { "FAILED" },
            largest * 100.0,
            folder.completion_bound * 100.0,
            match (folder.dcqcn, folder.median_difference) {
                (true, Some(median)) => format!(" (DCQCN is active; the median is {:.3} %)", median * 100.0),
                _ => String::new(),
            },
        ),
        (_, None) => {
            let flows = folder
                .flows
                .iter()
                .filter(|flow| flow.reference_ns.is_some() && flow.xoff_ns.is_none())
                .count();
            format!("FAILED: {} did not end\n", count_noun(flows as u64, "flow"))
        }
    };
    let _ = writeln!(
        text,
        "{}: {} to paused, the reference has {}; allowed is {} % or {}",
        if folder.pauses_hold { "ok" } else { "FAILED" },
        count_noun(folder.xoff_pauses, "transition"),
        group_thousands(folder.reference_pauses),
        PAUSE_SHARE_BOUND * 100.0,
        PAUSE_COUNT_BOUND,
    );
    for note in &folder.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if folder.dropped_frames > 0 {
        let _ = writeln!(
            text,
            "note: switches dropped {}; the model's hosts recover from losses in their own way",
            count_noun(folder.dropped_frames, "frame")
        );
    }
    text
}
