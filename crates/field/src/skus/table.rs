//! The table of a sweep, as Markdown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value;

use super::{Case, CaseResult};

/// Cases of one group with the same kind of error.
struct Kind<'a> {
    cases: usize,
    example: &'a str,
    line: &'a str,
}

/// The counts by group, and every kind of error with an example.
pub(super) fn markdown(index: &Value, cases: &[Case]) -> String {
    let mut text = format!(
        "# SKUs of sonic-buildimage\n\nCommit {} of {}. Written by `cargo run -p field -- skus GITDIR --markdown FILE`.\n\n\
         | group | by path | loaded | refused | not rendered | by real folder | loaded in every path |\n|---|---|---|---|---|---|---|\n",
        index["commit"].as_str().unwrap_or("?"),
        index["date"].as_str().unwrap_or("?"),
    );
    let groups: BTreeSet<&str> = cases.iter().map(|case| case.group.as_str()).collect();
    for group in groups {
        let of_group: Vec<&Case> = cases.iter().filter(|case| case.group == group).collect();
        let _ = writeln!(text, "{}", counts(group, &of_group));
    }
    text.push_str("\n| group | cases | first error | example |\n|---|---|---|---|\n");
    for ((group, _), kind) in kinds(cases) {
        let line = kind.line.replace('|', "\\|");
        let _ = writeln!(text, "| {group} | {} | {line} | {} |", kind.cases, kind.example);
    }
    text
}

fn counts(group: &str, cases: &[&Case]) -> String {
    let count = |is: fn(&CaseResult) -> bool| cases.iter().filter(|case| is(&case.result)).count();
    let loaded = |result: &CaseResult| matches!(result, CaseResult::Loaded);
    let mut real: BTreeMap<&str, bool> = BTreeMap::new();
    for case in cases.iter().filter(|case| !case.real.is_empty()) {
        *real.entry(&case.real).or_insert(true) &= loaded(&case.result);
    }
    format!(
        "| {group} | {} | {} | {} | {} | {} | {} |",
        cases.len(),
        count(|result| matches!(result, CaseResult::Loaded)),
        count(|result| matches!(result, CaseResult::Refused(_))),
        count(|result| matches!(result, CaseResult::NotRendered(_))),
        real.len(),
        real.values().filter(|loaded| **loaded).count(),
    )
}

/// The cases that did not load, by group and by their first error without numbers.
fn kinds(cases: &[Case]) -> BTreeMap<(&str, String), Kind<'_>> {
    let mut kinds = BTreeMap::new();
    for case in cases {
        let line = match &case.result {
            CaseResult::Loaded => continue,
            CaseResult::Refused(lines) => lines.first().map_or("no reason was given", String::as_str),
            CaseResult::NotRendered(why) => why,
        };
        let key = (case.group.as_str(), without_numbers(line));
        let kind = kinds.entry(key).or_insert(Kind {
            cases: 0,
            example: &case.path,
            line,
        });
        kind.cases += 1;
    }
    kinds
}

/// A line with every run of digits as `N`: errors that differ in numbers alone are of one kind.
fn without_numbers(line: &str) -> String {
    let mut kind = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('N') => {}
            true => kind.push('N'),
            false => kind.push(c),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(path: &str, real: &str, result: CaseResult) -> Case {
        Case {
            path: path.to_owned(),
            real: real.to_owned(),
            group: "traditional".to_owned(),
            result,
        }
    }

    #[test]
    fn counts_are_by_path_and_by_real_folder() {
        let refused = |line: &str| CaseResult::Refused(vec![line.to_owned(), "follows".to_owned()]);
        let cases = [
            case("a", "x", CaseResult::Loaded),
            case("b", "x", CaseResult::Loaded),
            case("c", "y", CaseResult::Loaded),
            case("d", "y", refused("QUEUE|Ethernet0|8: 8 is wrong")),
            case("e", "z", refused("QUEUE|Ethernet12|9: 9 is wrong")),
            case("f", "w", CaseResult::NotRendered("no JSON".to_owned())),
        ];
        let text = markdown(&json!({"commit": "abc", "date": "2026-01-01"}), &cases);
        assert!(text.contains("Commit abc of 2026-01-01."), "{text}");
        assert!(text.contains("| traditional | 6 | 3 | 2 | 1 | 4 | 1 |"), "{text}");
        assert!(
            text.contains("| traditional | 2 | QUEUE\\|Ethernet0\\|8: 8 is wrong | d |"),
            "{text}"
        );
        assert!(text.contains("| traditional | 1 | no JSON | f |"), "{text}");
    }
}
