//! Output formats of check results: TAP, JUnit XML, JSON and a table.

use std::fmt::Write;

use serde::Serialize;

use super::verdict::{CheckResult, LabCheckResult};
use xoff_telemetry::count_noun;

/// The name and version of the JSON format.
const SCHEMA: &str = "xoff.lab-check/1";

/// Formats results as TAP version 14 (testanything.org). Each condition has one line. After a failed
/// condition, a YAML block contains its values.
pub(super) fn format_test_anything_protocol(labs: &[LabCheckResult]) -> String {
    let mut text = "TAP version 14\n".to_owned();
    let mut number = 0;
    for lab in labs {
        let _ = writeln!(text, "# {}: lab {}, seed {}", lab.file, lab.lab, lab.seed);
        for check in &lab.checks {
            number += 1;
            write_test_anything_line(&mut text, number, check);
        }
        if let Some(reason) = &lab.aborted {
            number += 1;
            let _ = writeln!(
                text,
                "not ok {number} - {}: the script completes",
                escape_test_anything_description(&lab.lab)
            );
            let _ = writeln!(text, "  ---\n  reason: {}\n  ...", quote_json(reason));
        }
    }
    let _ = writeln!(text, "1..{number}");
    text
}

fn write_test_anything_line(text: &mut String, number: usize, check: &CheckResult) {
    let verdict = if check.passed { "ok" } else { "not ok" };
    let _ = writeln!(
        text,
        "{verdict} {number} - {}",
        escape_test_anything_description(&check.title())
    );
    if check.passed {
        return;
    }
    let _ = writeln!(text, "  ---");
    let _ = writeln!(text, "  source: {}", quote_json(&check.source));
    let _ = writeln!(text, "  model_time_ns: {}", check.model_time_ns);
    if let Some(reason) = &check.reason {
        let _ = writeln!(text, "  reason: {}", quote_json(reason));
    }
    if !check.values.is_empty() {
        let _ = writeln!(text, "  values:");
        for (name, value) in &check.values {
            let _ = writeln!(text, "    {}: {}", quote_json(name), format_value(name, *value));
        }
    }
    let _ = writeln!(text, "  ...");
}

/// Escapes a TAP description, in which `#` begins a directive.
fn escape_test_anything_description(text: &str) -> String {
    text.replace('\\', "\\\\").replace('#', "\\#").replace('\n', " ")
}

/// Returns a text as a JSON string, which is also a YAML string.
fn quote_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Formats a value for a failed condition. The value of a counter is printed as a number, and the time of an
/// event in nanoseconds.
fn format_value(name: &str, value: Option<f64>) -> String {
    let is_event = name.starts_with("first(") || name.starts_with("last(");
    match value {
        None if is_event => "never".to_owned(),
        None => "null".to_owned(),
        Some(picos) if is_event => format!("{} ns", format_number(picos / 1e3)),
        Some(value) => format_number(value),
    }
}

fn format_number(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => format!("{value:.0}"),
        false => format!("{value}"),
    }
}

/// Formats results as JUnit XML for build servers. Times are model time.
pub(super) fn format_junit(labs: &[LabCheckResult]) -> String {
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
    for lab in labs {
        let aborted = usize::from(lab.aborted.is_some());
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" file=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{aborted}\" time=\"{}\">",
            escape_xml(&lab.lab),
            escape_xml(&lab.file),
            lab.checks.len() + aborted,
            lab.failed_checks(),
            seconds(lab.model_time_ns)
        );
        for check in &lab.checks {
            let _ = write!(
                text,
                "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
                escape_xml(&lab.lab),
                escape_xml(&check.title()),
                seconds(check.model_time_ns)
            );
            match check.passed {
                true => text.push_str("/>\n"),
                false => {
                    let _ = writeln!(
                        text,
                        ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                        escape_xml(&check.condition),
                        escape_xml(&describe_failure(check))
                    );
                }
            }
        }
        if let Some(reason) = &lab.aborted {
            let _ = writeln!(
                text,
                "    <testcase classname=\"{}\" name=\"the script completes\">\n      <error message=\"{}\"/>\n    </testcase>",
                escape_xml(&lab.lab),
                escape_xml(reason)
            );
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn describe_failure(check: &CheckResult) -> String {
    let mut text = format!(
        "{} at {}",
        check.source,
        xoff_telemetry::format_nanos(check.model_time_ns)
    );
    if let Some(reason) = &check.reason {
        let _ = write!(text, "\n{reason}");
    }
    for (name, value) in &check.values {
        let _ = write!(text, "\n{name} is {}", format_value(name, *value));
    }
    text
}

fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Formats results as a table with one row for each lab. After the table, failed conditions are listed.
pub(super) fn format_table(labs: &[LabCheckResult]) -> String {
    let mut rows = Vec::with_capacity(labs.len());
    let mut failures = String::new();
    let (mut check_count, mut held_count) = (0, 0);
    for lab in labs {
        let passed = lab.checks.len() - lab.failed_checks();
        check_count += lab.checks.len();
        held_count += passed;
        rows.push(vec![
            lab_file_stem(&lab.file),
            if lab.has_passed() { "pass" } else { "FAIL" }.to_owned(),
            format!("{passed}/{}", lab.checks.len()),
            xoff_telemetry::format_nanos(lab.model_time_ns),
        ]);
        for check in lab.checks.iter().filter(|check| !check.passed) {
            let _ = writeln!(
                failures,
                "\n{}\n  {}",
                check.title(),
                describe_failure(check).replace('\n', "\n  ")
            );
        }
        if let Some(reason) = &lab.aborted {
            let _ = writeln!(
                failures,
                "\n{}: the script does not complete\n  {reason}",
                lab.file
            );
        }
    }
    let mut text = xoff_telemetry::simple_table(&["Test", "Result", "Checks", "Model time"], 2, rows);
    let failed = labs.iter().filter(|lab| !lab.has_passed()).count();
    let _ = writeln!(
        text,
        "\n{}: {} passed, {failed} failed; {held_count} of {} held",
        count_noun(labs.len() as u64, "test"),
        labs.len() - failed,
        count_noun(check_count as u64, "check")
    );
    text.push_str(&failures);
    text
}

/// Returns the name of a lab file without its folder and its suffix.
fn lab_file_stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".xoff.yml").unwrap_or(name).to_owned()
}

/// The JSON document of `--format json`.
#[derive(Serialize)]
struct CheckDocument<'a> {
    schema: &'static str,
    passed: bool,
    labs: &'a [LabCheckResult],
}

/// Formats results as one JSON object.
pub(super) fn format_json(labs: &[LabCheckResult]) -> String {
    let document = CheckDocument {
        schema: SCHEMA,
        passed: labs.iter().all(LabCheckResult::has_passed),
        labs,
    };
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_result() -> LabCheckResult {
        let check_result = |condition: &str, passed: bool| CheckResult {
            name: None,
            condition: condition.to_owned(),
            source: "x.xoff.yml:7".to_owned(),
            model_time_ns: 1_500,
            passed,
            reason: None,
            values: match passed {
                true => Vec::new(),
                false => vec![
                    ("sw1.rx_packets".to_owned(), Some(3.0)),
                    ("first(ce)".to_owned(), None),
                    ("last(xoff)".to_owned(), Some(2_500.0)),
                ],
            },
        };
        LabCheckResult {
            file: "x.xoff.yml".to_owned(),
            lab: "x".to_owned(),
            seed: 3,
            model_time_ns: 2_000,
            notes: Vec::new(),
            warnings: Vec::new(),
            checks: vec![
                check_result("a < 1 # no", true),
                check_result("sw1.rx_packets > 3", false),
            ],
            aborted: None,
        }
    }

    #[test]
    fn tap_describes_failed_checks() {
        let expected = r#"TAP version 14
# x.xoff.yml: lab x, seed 3
ok 1 - a < 1 \# no
not ok 2 - sw1.rx_packets > 3
  ---
  source: "x.xoff.yml:7"
  model_time_ns: 1500
  values:
    "sw1.rx_packets": 3
    "first(ce)": never
    "last(xoff)": 2.5 ns
  ...
1..2
"#;
        assert_eq!(format_test_anything_protocol(&[sample_result()]), expected);
        let aborted = LabCheckResult {
            aborted: Some("stuck".to_owned()),
            ..sample_result()
        };
        let text = format_test_anything_protocol(&[sample_result(), aborted]);
        assert!(text.contains("not ok 5 - x: the script completes"), "{text}");
        assert!(text.ends_with("1..5\n"), "{text}");
    }

    #[test]
    fn junit_contains_the_failure() {
        let text = format_junit(&[sample_result()]);
        for part in [
            r#"tests="2" failures="1" errors="0" time="0.000002000""#,
            r#"name="a &lt; 1 # no" time="0.000001500"/>"#,
            r#"<failure message="sw1.rx_packets &gt; 3">x.xoff.yml:7 at"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn table_has_a_row_for_each_lab_and_lists_failures() {
        let good = LabCheckResult {
            file: "tests/sonic/testGood.xoff.yml".to_owned(),
            checks: sample_result().checks[..1].to_vec(),
            ..sample_result()
        };
        let text = format_table(&[good, sample_result()]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("Test") && lines[0].trim_end().ends_with("Model time"),
            "{text}"
        );
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>()[..3],
            ["testGood", "pass", "1/1"]
        );
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>()[..3],
            ["x", "FAIL", "1/2"]
        );
        for part in [
            "2 tests: 1 passed, 1 failed; 2 of 3 checks held",
            "sw1.rx_packets > 3\n  x.xoff.yml:7 at",
            "first(ce) is never",
        ] {
            assert!(text.contains(part), "{part:?}:\n{text}");
        }
    }

    #[test]
    fn json_contains_the_result_of_all_checks() {
        let value: serde_json::Value = serde_json::from_str(&format_json(&[sample_result()])).unwrap();
        assert_eq!(
            (value["schema"].as_str(), value["passed"].as_bool()),
            (Some(SCHEMA), Some(false))
        );
        assert_eq!(value["labs"][0]["checks"][1]["model_time_ns"], 1_500);
    }
}
