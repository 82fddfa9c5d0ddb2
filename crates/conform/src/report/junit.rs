//! The report of a run as JUnit XML, for build servers.

use std::fmt::Write;

use crate::outcome::{CheckOutcome, CheckReport, RunReport};

/// Formats a report as JUnit XML. Times are model time.
pub fn format_junit(report: &RunReport) -> String {
    let counts = &report.counts;
    let preflight = u32::from(report.preflight.has_failed());
    let total_ns: u64 = report.checks.iter().map(|check| check.model_time_ns).sum();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"xoff conform {}\" tests=\"{}\" \
         failures=\"{}\" errors=\"{preflight}\" skipped=\"{}\" time=\"{}\">\n",
        escape_xml(&report.device),
        report.checks.len() as u32 + preflight,
        counts.fail + counts.xpass,
        counts.skip + counts.inconclusive,
        format_seconds(total_ns)
    );
    if report.preflight.has_failed() {
        let reason = escape_xml(&report.preflight.detail);
        let _ = writeln!(
            text,
            "    <testcase classname=\"xoff.conform\" name=\"preflight\"><error message=\"{reason}\"/></testcase>"
        );
    }
    for check in &report.checks {
        write_test_case(&mut text, check);
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

fn write_test_case(text: &mut String, report: &CheckReport) {
    let detail = escape_xml(&report.describe());
    let element = match report.outcome {
        CheckOutcome::Fail => format!("<failure message=\"{detail}\"/>"),
        CheckOutcome::Xpass => format!("<failure message=\"unexpected pass: {detail}\"/>"),
        CheckOutcome::Skip => format!("<skipped message=\"{detail}\"/>"),
        CheckOutcome::Inconclusive => format!("<skipped message=\"inconclusive: {detail}\"/>"),
        CheckOutcome::Xfail => format!("<system-out>expected failure: {detail}</system-out>"),
        CheckOutcome::Pass | CheckOutcome::Info => format!("<system-out>{detail}</system-out>"),
    };
    let _ = writeln!(
        text,
        "    <testcase classname=\"xoff.conform\" name=\"{} {}\" time=\"{}\">{element}</testcase>",
        report.check.id,
        escape_xml(report.check.title),
        format_seconds(report.model_time_ns)
    );
}

fn format_seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Escapes a text for an XML attribute or element.
fn escape_xml(text: &str) -> String {
    let mut escaped = text.to_owned();
    for (letter, entity) in [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;")] {
        escaped = escaped.replace(letter, entity);
    }
    escaped
}
