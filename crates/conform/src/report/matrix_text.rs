//! A matrix as a table, as a page of the documentation, and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use xoff_telemetry::{count_noun, simple_table};

use crate::checks::CHECKS;
use crate::matrix::{Matrix, MatrixRow, MatrixScope};
use crate::outcome::CheckOutcome;

/// Name and version of the JSON format.
const SCHEMA: &str = "xoff.conform-matrix/1";

/// Returns the result of the own check of a mutant, or the number of passed checks of the model device.
fn own_result(row: &MatrixRow) -> String {
    let Some(mutant) = row.mutant else {
        let passed =
            |report: &&crate::CheckReport| matches!(report.outcome, CheckOutcome::Pass | CheckOutcome::Info);
        let passed = row.reports.iter().filter(passed).count();
        return format!("{passed} of {} pass", row.reports.len());
    };
    let own = row.reports.iter().find(|report| report.check.id == mutant.check);
    match own.map(|report| report.outcome) {
        Some(CheckOutcome::Fail) => "detected".to_owned(),
        Some(outcome) => format!("not detected: {}", outcome.name()),
        None => "no such check".to_owned(),
    }
}

/// Returns the checks that also fail on a mutant. They declare its behaviour as their prerequisite.
fn describe_others(row: &MatrixRow, scope: MatrixScope) -> String {
    match (scope, row.other_failures().as_slice()) {
        (MatrixScope::OwnChecks, _) => "not run".to_owned(),
        (MatrixScope::Full, []) => "-".to_owned(),
        (MatrixScope::Full, others) => others.join(", "),
    }
}

/// Formats a matrix as a table for people.
pub fn format_matrix(matrix: &Matrix) -> String {
    let rows = matrix.rows.iter().map(|row| {
        let check = row.mutant.map_or("all", |mutant| mutant.check);
        vec![
            row.name().to_owned(),
            check.to_owned(),
            own_result(row),
            describe_others(row, matrix.scope),
        ]
    });
    let mut text = simple_table(&["Device", "Check", "Result", "Also fails"], 4, rows.collect());
    let problems = matrix.problems();
    match problems.as_slice() {
        [] => text.push_str("\nEach check passes on the model host and fails on its mutants.\n"),
        problems => {
            let _ = writeln!(text, "\n{}:", count_noun(problems.len() as u64, "problem"));
            problems
                .iter()
                .for_each(|problem| text.push_str(&format!("- {problem}\n")));
        }
    }
    text
}

/// Returns a matrix as JSON.
pub fn matrix_json(matrix: &Matrix) -> Value {
    let rows = matrix.rows.iter().map(|row| {
        json!({
            "device": row.name(),
            "check": row.mutant.map(|mutant| mutant.check),
            "defect": row.mutant.map(|mutant| mutant.defect),
            "results": row.reports.iter().map(|report| {
                json!({"check": report.check.id, "outcome": report.outcome, "detail": report.detail})
            }).collect::<Vec<Value>>(),
        })
    });
    json!({
        "schema": SCHEMA,
        "speed_mbps": matrix.speed_mbps,
        "is_complete": matrix.scope == MatrixScope::Full,
        "problems": matrix.problems(),
        "rows": rows.collect::<Vec<Value>>(),
    })
}

/// Formats a matrix as the page docs/conform-matrix.md.
pub fn format_matrix_markdown(matrix: &Matrix) -> String {
    let mut text = "# Checks and mutants\n\n\
        `xoff conform matrix --format markdown` writes this page, and a test compares it. Each check passes on the\n\
        model host and fails on its mutants. A mutant is a model host that is wrong in one behaviour. Another check\n\
        may fail on a mutant only if it declares this behaviour as its prerequisite.\n\n\
        ## Mutants\n\n| mutant | the device | check | result | also fails |\n|---|---|---|---|---|\n"
        .to_owned();
    for row in &matrix.rows {
        let Some(mutant) = row.mutant else { continue };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            mutant.name,
            mutant.defect,
            mutant.check,
            own_result(row),
            describe_others(row, matrix.scope)
        );
    }
    text.push_str("\n## Checks\n\n| check | behaviour | model host | prerequisites |\n|---|---|---|---|\n");
    let model = matrix.rows.iter().find(|row| row.mutant.is_none());
    for check in CHECKS {
        let report = model.and_then(|row| row.reports.iter().find(|report| report.check.id == check.id));
        let prerequisites = match check.prerequisites {
            [] => "-".to_owned(),
            ids => ids.join(", "),
        };
        let result = report.map_or("-", |report| report.outcome.name());
        let _ = writeln!(
            text,
            "| {} | {} | {result} | {prerequisites} |",
            check.id, check.title
        );
    }
    text
}
