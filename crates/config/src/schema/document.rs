//! Compares `docs/configuration-fields.md` with the schema of tables and fields.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{FieldEffect, TableFields, TableSchema, all_tables};
use xoff_testing::{assert_tests_exist, read_document};

const DOCUMENT: &str = "docs/configuration-fields.md";

/// Returns the text for an effect in the column "effect" of the document.
fn describe_effect(effect: FieldEffect) -> String {
    match effect {
        FieldEffect::Full => "takes effect".to_owned(),
        FieldEffect::Label => "describes only".to_owned(),
        FieldEffect::None(why) => format!("none: {why}"),
        FieldEffect::Fixed(value, why) => format!("none but as `{value}`: {why}"),
    }
}

/// Returns the rows of a table without their last cell: entry, field, values and effect.
fn expected_rows(table: &TableSchema) -> Vec<String> {
    let entry = format!("`{}|{}`", table.name, table.key_form()).replace('|', "\\|");
    let row = |field: &str, values: &str, effect: &str| {
        format!(
            "| {entry} | {field} | {} | {effect} |",
            values.replace('|', "\\|")
        )
    };
    match &table.fields {
        TableFields::Named([]) => vec![row("", "an entry without fields", "takes effect")],
        TableFields::Named(fields) => fields
            .iter()
            .map(|field| {
                let required = if field.required { ", required" } else { "" };
                row(
                    &format!("`{}`{required}", field.name),
                    &field.kind.describe(),
                    &describe_effect(field.effect),
                )
            })
            .collect(),
        TableFields::Map { from, to, used_max } => vec![row(
            &format!("{} 0 to {}", from.0, from.1),
            &format!("{} 0 to {}", to.0, to.1),
            &format!("takes effect up to {used_max}"),
        )],
        TableFields::ByPort(kind) => vec![row("a port", &kind.describe(), "takes effect")],
    }
}

/// Returns the first four cells of a row.
fn remove_test_column(row: &str) -> String {
    let cells: Vec<&str> = row.split(" | ").collect();
    format!("{} |", cells[..cells.len() - 1].join(" | "))
}

#[test]
fn document_lists_every_field_with_its_effect() {
    let text = read_document(DOCUMENT);
    let documented: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = all_tables().flat_map(expected_rows).collect();
    let found: Vec<String> = documented.iter().map(|row| remove_test_column(row)).collect();
    let distinct: BTreeSet<&String> = found.iter().collect();
    let mut differences = String::new();
    for row in expected.iter().filter(|row| !distinct.contains(row)) {
        let _ = writeln!(differences, "missing: {row}");
    }
    for row in found.iter().filter(|row| !expected.contains(row)) {
        let _ = writeln!(differences, "not in the code: {row}");
    }
    assert!(differences.is_empty(), "{DOCUMENT}:\n{differences}");
    assert_eq!(found.len(), expected.len(), "a row occurs twice");
}

#[test]
fn tests_named_in_the_document_exist() {
    let text = read_document(DOCUMENT);
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let named = rows.filter_map(|row| {
        let test = row.rsplit(" | ").next()?.strip_suffix(" |")?;
        Some((row, test.strip_prefix('`')?.strip_suffix('`')?))
    });
    let named: Vec<(&str, &str)> = named.collect();
    assert!(!named.is_empty(), "no row names a test");
    assert_tests_exist(named);
}
