//! Compares `docs/counters.md` with the SAI counters of reports.

use std::collections::BTreeSet;
use std::path::Path;

const TABLE: &str = include_str!("../../docs/counters.md");
const CODE: &str = include_str!("switch.rs");

/// Names of SAI counters in a text.
fn counters(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words
        .filter(|word| word.starts_with("SAI_") && word.contains("_STAT_") && !word.ends_with('_'))
        .collect()
}

/// The cells of each row of the table.
fn rows() -> Vec<Vec<&'static str>> {
    let rows = TABLE.lines().filter(|line| line.starts_with("| `SAI_"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// All Rust source below a folder.
fn source(folder: &Path, text: &mut String) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            source(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).expect("text"));
        }
    }
}

#[test]
fn the_table_has_each_sai_counter_of_a_report_once() {
    let rows = rows();
    let listed: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let distinct: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(distinct.len(), listed.len(), "a counter is listed twice");
    assert_eq!(
        distinct,
        counters(CODE),
        "docs/counters.md and src/report/switch.rs differ"
    );
}

#[test]
fn each_row_of_the_table_has_events_and_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    for folder in ["src", "tests", "dataplane/src", "dataplane/tests"] {
        source(&root.join(folder), &mut text);
    }
    for row in rows() {
        let [counter, events, test] = row[..] else {
            panic!("{row:?}");
        };
        assert!(!events.is_empty(), "{counter}");
        let function = format!("fn {}()", test.trim_matches('`'));
        assert!(text.contains(&function), "{counter}: there is no test {test}");
    }
}
