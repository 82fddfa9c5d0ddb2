//! `xoff doctor`: checks what this machine can do, and prints the command that fixes each problem.

mod machine;
mod probe;

use std::fmt::Write as _;

use serde::Serialize;

pub(super) use probe::run as probe;

use super::{DoctorArguments, output};
use xoff_telemetry::failure::{Exit, Failure};

/// Name and version of the JSON form.
const SCHEMA: &str = "xoff.doctor/1";

/// The result of one check.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Check {
    /// Name of the check.
    name: &'static str,
    status: Status,
    /// The finding as text.
    found: String,
    /// The command or step that fixes the problem. `None` if there is no problem.
    fix: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// No problem.
    Ok,
    /// A possible improvement, or a missing feature that the incast lab does not need.
    Warning,
    /// A problem that prevents the incast lab.
    Failed,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check {
            name,
            status: Status::Ok,
            found: found.into(),
            fix: None,
        }
    }

    fn warning(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check {
            name,
            status: Status::Warning,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    fn failed(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check {
            name,
            status: Status::Failed,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct DoctorReport {
    schema: &'static str,
    /// Whether `xoff lab run testbeds/incast.xoff.yml` can run here.
    can_run_labs: bool,
    checks: Vec<Check>,
}

/// Runs `xoff doctor`.
pub(super) fn run(options: &DoctorArguments) -> Result<Exit, Failure> {
    let checks = run_checks();
    let can_run_labs = checks.iter().all(|check| check.status != Status::Failed);
    let diagnosis = DoctorReport {
        schema: SCHEMA,
        can_run_labs,
        checks,
    };
    if options.json {
        output::print_json(&diagnosis);
    } else {
        output::print(&describe_diagnosis(&diagnosis));
    }
    Ok(if can_run_labs { Exit::Ok } else { Exit::Environment })
}

/// Runs all checks.
fn run_checks() -> Vec<Check> {
    let mut checks = probe::check_namespaces_and_links();
    checks.extend(machine::check_machine());
    checks
}

/// Returns the result as text.
fn describe_diagnosis(diagnosis: &DoctorReport) -> String {
    let width = diagnosis
        .checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for check in &diagnosis.checks {
        let mark = match check.status {
            Status::Ok => "ok  ",
            Status::Warning => "warn",
            Status::Failed => "FAIL",
        };
        let _ = writeln!(text, "{mark}  {:width$}  {}", check.name, check.found);
        if let Some(fix) = &check.fix {
            let _ = writeln!(text, "      {:width$}  fix: {fix}", "");
        }
    }
    text.push_str(if diagnosis.can_run_labs {
        "\nThis machine can run labs. Try: xoff lab run testbeds/incast.xoff.yml\n"
    } else {
        "\nThis machine cannot run labs yet: see FAIL above.\n"
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_printed_with_its_fix_and_a_negative_summary() {
        let checks = vec![
            Check::ok("cores", "2"),
            Check::failed("namespaces", "refused", "run as root"),
        ];
        let text = describe_diagnosis(&DoctorReport {
            schema: SCHEMA,
            can_run_labs: false,
            checks,
        });
        assert_eq!(
            text,
            "ok    cores       2\nFAIL  namespaces  refused\n                  fix: run as root\n\n\
             This machine cannot run labs yet: see FAIL above.\n"
        );
    }
}
