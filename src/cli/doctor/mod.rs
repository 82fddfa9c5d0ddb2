//! `xoff doctor`: what this machine can do, what stands in the way, and the command that fixes it.

mod machine;
mod probe;

use std::fmt::Write as _;

use serde::Serialize;

pub(super) use probe::run as probe;

use super::{DoctorArguments, output};
use xoff_telemetry::failure::{Exit, Failure};

/// Name and version of the JSON's form.
const SCHEMA: &str = "xoff.doctor/1";

/// One thing that was looked at.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Check {
    /// What was looked at.
    name: &'static str,
    status: Status,
    /// What was found.
    found: String,
    /// The command or step that improves it; nothing where there is nothing to improve.
    fix: Option<String>,
}

/// How good it is.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// As it should be.
    Ok,
    /// Works, but can be better, or something not needed for the incast lab is missing.
    Warning,
    /// Stands in the way of the incast lab.
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

/// All of it, as JSON has it.
#[derive(Debug, Serialize)]
struct Diagnosis {
    schema: &'static str,
    /// `xoff lab run testbeds/incast.xoff.yml` can run here.
    can_run_labs: bool,
    checks: Vec<Check>,
}

pub(super) fn run(options: &DoctorArguments) -> Result<Exit, Failure> {
    let mut checks = probe::checks();
    let can_run_labs = checks.iter().all(|check| check.status != Status::Failed);
    checks.extend(machine::checks());
    let diagnosis = Diagnosis {
        schema: SCHEMA,
        can_run_labs,
        checks,
    };
    if options.json {
        output::print_json(&diagnosis)?;
    } else {
        output::print(&describe(&diagnosis))?;
    }
    Ok(if can_run_labs { Exit::Ok } else { Exit::Environment })
}

fn describe(diagnosis: &Diagnosis) -> String {
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
    fn failures_come_with_their_fix_and_decide_the_last_line() {
        let checks = vec![
            Check::ok("cores", "2"),
            Check::failed("namespaces", "refused", "run as root"),
        ];
        let text = describe(&Diagnosis {
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
