//! The report of a run as a table.

use std::fmt::Write;

use xoff_telemetry::simple_table;
use xoff_units::count_noun;

use crate::outcome::{CheckReport, OutcomeCounts, RunReport};
use crate::timing::TimingClass;

/// Formats the report of a run for people.
pub fn format_run(report: &RunReport) -> String {
    let mut text = format!("{}\n\n", describe_run(report));
    if report.preflight.has_failed() {
        let _ = writeln!(
            text,
            "preflight failed: MAC control frames do not pass ({})\nNo check ran. Connect the device directly: bridges \
             and most NICs consume MAC control frames.",
            report.preflight.detail
        );
        return text;
    }
    if report.is_interrupted {
        let count = count_noun(report.checks.len() as u64, "check");
        let _ = writeln!(text, "interrupted after {count}\n");
    }
    if let Some(reason) = &report.failure {
        let _ = writeln!(text, "the run ended early: {reason}\n");
    }
    let rows = report.checks.iter().map(table_row).collect();
    text.push_str(&simple_table(
        &["Check", "Result", "Behaviour", "Detail"],
        4,
        rows,
    ));
    let _ = writeln!(text, "\n{}", describe_counts(&report.counts));
    if report.timing != TimingClass::Exact && report.preflight.is_unknown() {
        let _ = writeln!(
            text,
            "The run proves nothing: the device gave no sign that MAC control frames pass ({}).",
            report.preflight.detail
        );
    }
    text
}

fn table_row(report: &CheckReport) -> Vec<String> {
    let cells = [report.check.id, report.outcome.name(), report.check.title];
    cells
        .into_iter()
        .map(str::to_owned)
        .chain([report.describe()])
        .collect()
}

/// Describes the device and the parameters of a run in one line.
pub(super) fn describe_run(report: &RunReport) -> String {
    let mut text = format!(
        "device: {}, {} Mb/s, timing {}",
        report.device,
        report.speed_mbps,
        report.timing.name()
    );
    if report.scale.factor < 1.0 {
        let _ = write!(text, ", counts and durations scaled by {}", report.scale.factor);
    }
    if report.scale.is_long {
        text.push_str(", long forms");
    }
    if let Some(nic) = &report.nic {
        let _ = write!(text, ", expected deviations of {nic}");
    }
    text
}

/// Describes the number of checks with each result in one line.
pub(super) fn describe_counts(counts: &OutcomeCounts) -> String {
    let named = [
        ("pass", counts.pass),
        ("fail", counts.fail),
        ("xfail", counts.xfail),
        ("xpass", counts.xpass),
        ("skip", counts.skip),
        ("inconclusive", counts.inconclusive),
        ("info", counts.info),
    ];
    let present = named.into_iter().filter(|(_, count)| *count > 0);
    let texts: Vec<String> = present.map(|(name, count)| format!("{count} {name}")).collect();
    texts.join(", ")
}
