//! Comparison of the table in `docs/counters.md` with the SAI counters of reports.

use std::collections::BTreeSet;

use xoff_testing::assert_tests_exist;

const COUNTERS_PAGE: &str = include_str!("../../../docs/counters.md");
const SWITCH_SOURCE: &str = include_str!("switch.rs");

/// Returns the names of the SAI counters in a text.
fn sai_counters_in(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words
        .filter(|word| word.starts_with("SAI_") && word.contains("_STAT_") && !word.ends_with('_'))
        .collect()
}

/// Returns the cells of each row of the table.
fn table_rows() -> Vec<Vec<&'static str>> {
    let rows = COUNTERS_PAGE.lines().filter(|line| line.starts_with("| `SAI_"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn the_table_has_each_sai_counter_of_a_report_once() {
    let rows = table_rows();
    let listed: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let distinct: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(distinct.len(), listed.len(), "a counter is listed twice");
    assert_eq!(
        distinct,
        sai_counters_in(SWITCH_SOURCE),
        "docs/counters.md and crates/telemetry/src/switch.rs differ"
    );
}

#[test]
fn each_row_of_the_table_has_events_and_a_test_that_exists() {
    let rows = table_rows();
    let named = rows.iter().map(|row| {
        let [counter, events, test] = row[..] else {
            panic!("{row:?}");
        };
        assert!(!events.is_empty(), "{counter}");
        (counter, test.trim_matches('`'))
    });
    assert_tests_exist(named);
}
