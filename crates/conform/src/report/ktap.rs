//! The report of a run as KTAP, the format of the kernel's selftests.

use std::fmt::Write;

use crate::outcome::{CheckOutcome, CheckReport, RunReport};
use crate::report::run_table::describe_run;

/// Formats a report as KTAP version 1. An inconclusive check is a skip with its reason, because KTAP has no such
/// result.
pub fn format_ktap(report: &RunReport) -> String {
    let mut text = format!("KTAP version 1\n# {}\n", describe_run(report));
    if report.preflight.has_failed() {
        let _ = writeln!(
            text,
            "1..0 # SKIP MAC control frames do not pass: {}",
            report.preflight.detail
        );
        return text;
    }
    let _ = writeln!(text, "1..{}", report.checks.len());
    for (at, check) in report.checks.iter().enumerate() {
        write_check(&mut text, at + 1, check);
    }
    if report.is_interrupted {
        text.push_str("Bail out! interrupted\n");
    }
    if let Some(reason) = &report.failure {
        let _ = writeln!(text, "Bail out! {}", reason.replace('\n', " "));
    }
    let counts = &report.counts;
    let _ = writeln!(
        text,
        "# Totals: pass:{} fail:{} xfail:{} xpass:{} skip:{} error:0",
        counts.pass + counts.info,
        counts.fail,
        counts.xfail,
        counts.xpass,
        counts.skip + counts.inconclusive
    );
    text
}

fn write_check(text: &mut String, number: usize, report: &CheckReport) {
    let name = format!("{} {}", report.check.id, report.check.title);
    let detail = report.describe().replace(['#', '\n'], " ");
    let _ = match report.outcome {
        CheckOutcome::Pass => writeln!(text, "ok {number} {name}"),
        CheckOutcome::Info => writeln!(text, "# {detail}\nok {number} {name}"),
        CheckOutcome::Fail => writeln!(text, "# {detail}\nnot ok {number} {name}"),
        CheckOutcome::Skip => writeln!(text, "ok {number} {name} # SKIP {detail}"),
        CheckOutcome::Inconclusive => writeln!(text, "ok {number} {name} # SKIP inconclusive: {detail}"),
        CheckOutcome::Xfail => writeln!(text, "ok {number} {name} # XFAIL {detail}"),
        CheckOutcome::Xpass => writeln!(text, "not ok {number} {name} # XPASS {detail}"),
    };
}
