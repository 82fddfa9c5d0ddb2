//! Descriptions of checks as text.

use std::fmt::Write;

use xoff_telemetry::simple_table;

use crate::check::Check;
use crate::model::all_mutants;

/// Formats a table of checks.
pub fn list_checks(checks: &[&Check]) -> String {
    let rows = checks
        .iter()
        .map(|check| {
            vec![
                check.id.to_owned(),
                check.title.to_owned(),
                check.criterion.to_owned(),
            ]
        })
        .collect();
    simple_table(&["Check", "Behaviour", "Criterion"], 3, rows)
}

/// Formats the complete description of a check.
pub fn explain_check(check: &Check) -> String {
    let mut text = format!("{}: {}\n\n", check.id, check.title);
    let mut fields = vec![
        ("stimulus", check.stimulus.to_owned()),
        ("observation", check.observation.to_owned()),
        ("criterion", check.criterion.to_owned()),
        ("clause", check.clause.to_owned()),
    ];
    if !check.forms.is_empty() {
        fields.push(("forms", check.forms.join(", ")));
    }
    if !check.prerequisites.is_empty() {
        fields.push(("needs", check.prerequisites.join(", ")));
    }
    let mutants: Vec<String> = all_mutants()
        .filter(|mutant| mutant.check == check.id)
        .map(|mutant| format!("{} ({})", mutant.name, mutant.defect))
        .collect();
    if !mutants.is_empty() {
        fields.push(("mutants", mutants.join(", ")));
    }
    for (name, value) in fields {
        let _ = writeln!(text, "{name:12} {value}");
    }
    text
}
