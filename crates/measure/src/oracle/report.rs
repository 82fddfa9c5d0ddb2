//! The result of oracle runs: JSON, and tables.

use std::fmt::Write as _;

use serde::Serialize;

use super::compare::{
    Comparison, EthernetComparison, FlowComparison, PAUSES_BOUND, PAUSES_BOUND_COUNT, PauseComparison,
};
use xoff_telemetry::failure::Exit;
use xoff_telemetry::{group_thousands, simple_table};

/// Name and version of the report's form.
pub const SCHEMA: &str = "xoff.oracle/1";

/// All folders of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OracleReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of xoff.
    pub xoff_version: &'static str,
    /// Seed of every random decision.
    pub seed: u64,
    /// Whether every folder is within its bounds.
    pub holds: bool,
    /// The folders in the order of the command line.
    pub folders: Vec<Comparison>,
}

impl OracleReport {
    /// A report of comparisons.
    pub fn new(folders: Vec<Comparison>, seed: u64) -> OracleReport {
        OracleReport {
            schema: SCHEMA,
            xoff_version: env!("CARGO_PKG_VERSION"),
            seed,
            holds: folders.iter().all(Comparison::holds),
            folders,
        }
    }

    /// 0 if all is within bounds, else 1.
    pub fn exit(&self) -> Exit {
        match self.holds {
            true => Exit::Ok,
            false => Exit::CheckFailed,
        }
    }

    /// The tables.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for folder in &self.folders {
            let _ = writeln!(text, "{}", folder.folder);
            text.push_str(&flows(&folder.flows));
            text.push('\n');
            text.push_str(&pauses(folder));
            text.push('\n');
            if !folder.ethernet.is_empty() {
                text.push_str("With Ethernet's real lengths\n");
                text.push_str(&ethernet(&folder.ethernet));
                text.push('\n');
            }
            text.push_str(&verdict(folder));
            text.push('\n');
        }
        text
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", group_thousands(ns / 1_000), ns % 1_000)
}

fn or_dash<T>(value: Option<T>, form: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), form)
}

fn percent(share: f64) -> String {
    format!("{:+.3} %", share * 100.0)
}

fn flows(flows: &[FlowComparison]) -> String {
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
        let apart = |ns: u64| {
            let reference_ns = flow.reference_ns?;
            let sign = if ns < reference_ns { "-" } else { "+" };
            Some(format!("{sign}{}", micros(ns.abs_diff(reference_ns))))
        };
        vec![
            format!("{} -> {}", flow.src, flow.dst),
            group_thousands(flow.bytes),
            or_dash(flow.reference_ns, micros),
            or_dash(flow.xoff_ns, micros),
            flow.xoff_ns.and_then(apart).unwrap_or_else(|| "-".to_owned()),
            or_dash(flow.difference, percent),
            or_dash(flow.reference_slowdown, |s| format!("{s:.2}")),
            or_dash(flow.xoff_slowdown, |s| format!("{s:.2}")),
            if flow.holds { "" } else { "beyond the bound" }.to_owned(),
        ]
    };
    simple_table(&header, 1, flows.iter().map(row).collect())
}

fn pauses(folder: &Comparison) -> String {
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
            difference(row.reference, row.xoff),
            or_dash(row.reference_first_ns, micros),
            or_dash(row.xoff_first_ns, micros),
        ]
    };
    let (reference, xoff) = (folder.reference_pauses, folder.xoff_pauses);
    let mut rows: Vec<Vec<String>> = folder.pauses.iter().map(row).collect();
    let sums = [
        group_thousands(reference),
        group_thousands(xoff),
        difference(reference, xoff),
    ];
    let mut all = vec!["all".to_owned()];
    all.extend(sums);
    all.extend([String::new(), String::new()]);
    rows.push(all);
    simple_table(&header, 1, rows)
}

fn difference(reference: u64, xoff: u64) -> String {
    let apart = xoff as f64 - reference as f64;
    match reference {
        0 => format!("{apart:+}"),
        _ => format!("{:+.1} %", apart / reference as f64 * 100.0),
    }
}

fn ethernet(flows: &[EthernetComparison]) -> String {
    let header = ["Flow", "Longer by", "Predicted us", "xoff us", "Difference"];
    let row = |flow: &EthernetComparison| {
        vec![
            format!("{} -> {}", flow.src, flow.dst),
            format!("{:.2} %", (flow.predicted_factor - 1.0) * 100.0),
            micros(flow.predicted_ns),
            or_dash(flow.xoff_ns, micros),
            or_dash(flow.difference, percent),
        ]
    };
    simple_table(&header, 1, flows.iter().map(row).collect())
}

fn verdict(folder: &Comparison) -> String {
    let compared = folder.flows.iter().any(|flow| flow.reference_ns.is_some());
    let mut text = match (folder.completions_hold, folder.largest_difference()) {
        _ if !compared => {
            let ended = folder.flows.iter().filter(|flow| flow.xoff_ns.is_some()).count();
            format!(
                "{ended} of {} flows ended; there are no completion times to compare with\n",
                folder.flows.len()
            )
        }
        (holds, Some(largest)) => format!(
            "{}: completion times differ by up to {:.3} %, allowed is {} %{}\n",
            if holds { "ok" } else { "FAILED" },
            largest * 100.0,
            folder.completion_bound * 100.0,
            match (folder.dcqcn, folder.median_difference) {
                (true, Some(median)) => format!(" (DCQCN has a part; the median is {:.3} %)", median * 100.0),
                _ => String::new(),
            },
        ),
        (_, None) => {
            let flows = folder
                .flows
                .iter()
                .filter(|flow| flow.reference_ns.is_some() && flow.xoff_ns.is_none())
                .count();
            format!("FAILED: {flows} flows did not end\n")
        }
    };
    let _ = writeln!(
        text,
        "{}: {} transitions to paused, the reference has {}; allowed is {} % or {}",
        if folder.pauses_hold { "ok" } else { "FAILED" },
        group_thousands(folder.xoff_pauses),
        group_thousands(folder.reference_pauses),
        PAUSES_BOUND * 100.0,
        PAUSES_BOUND_COUNT,
    );
    for note in &folder.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if folder.dropped_frames > 0 {
        let _ = writeln!(
            text,
            "note: switches dropped {} frames; the model's hosts recover from losses in their own way",
            group_thousands(folder.dropped_frames)
        );
    }
    text
}
