//! Tests of labs with checks, through the program: the examples of `docs/script.md` and the messages of
//! failed scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run_xoff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["lab", "check"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the lab files of a folder, sorted.
fn lab_files(folder: &str) -> Vec<String> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(place).expect("the folder is there");
    let mut names: Vec<String> = files
        .map(|file| file.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".xoff.yml"))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    names.sort();
    names
}

/// Returns the lab files of the documented examples.
fn example_labs() -> Vec<String> {
    lab_files("testbeds/checks")
}

/// A lab of two hosts with a script, in its own folder.
struct ScriptLab(tempfile::TempDir);

impl ScriptLab {
    fn new(script: &str) -> ScriptLab {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!(
            "name: small\ntopology:\n  fabric:\n    star: {{hosts: 2, speed: 100g, config: {{preset: roce-lossless}}}}\n{script}"
        );
        fs::write(folder.path().join("small.xoff.yml"), text).expect("written");
        ScriptLab(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("small.xoff.yml")
    }

    fn run_check(&self, more: &[&str]) -> Output {
        let path = self.path();
        let path = path.to_str().expect("a path in UTF-8");
        run_xoff(&[&[path], more].concat())
    }
}

#[test]
fn every_documented_example_passes() {
    let examples = example_labs();
    assert!(examples.len() >= 10, "{examples:?}");
    for file in &examples {
        let output = run_xoff(&[file, "--virtual"]);
        let text = stdout(&output);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{file}:\n{text}{}",
            stderr(&output)
        );
        let results = text.lines().filter(|line| line.starts_with("ok ")).count();
        assert!(results > 0, "{text}");
        assert!(text.starts_with("TAP version 14\n"), "{text}");
        assert!(text.ends_with(&format!("\n1..{results}\n")), "{text}");
    }
}

#[test]
fn published_results_are_reproduced() {
    let labs = lab_files("testbeds/published");
    assert!(labs.len() >= 6, "{labs:?}");
    let files: Vec<&str> = labs.iter().map(String::as_str).collect();
    let output = run_xoff(&[&files[..], &["--virtual"]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(
        text.lines().filter(|line| line.starts_with("ok ")).count() > 6 * 2,
        "{text}"
    );
}

#[test]
fn every_example_is_documented() {
    let docs =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/script.md")).expect("readable");
    for file in example_labs() {
        assert!(docs.contains(&file), "docs/script.md says nothing of {file}");
    }
}

#[test]
fn several_labs_give_one_reproducible_tap_stream() {
    let mut arguments: Vec<String> = example_labs().into_iter().take(3).collect();
    arguments.push("--virtual".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (first, second) = (run_xoff(&arguments), run_xoff(&arguments));
    assert_eq!(first.stdout, second.stdout);
    let text = stdout(&first);
    let numbers: Vec<usize> = text
        .lines()
        .filter_map(|line| line.strip_prefix("ok ")?.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "{text}");
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("# testbeds/"))
            .count(),
        3
    );
}

#[test]
fn failed_checks_are_reported_with_their_values() {
    let lab = ScriptLab::new(
        "script:\n  - send: {from: h1, to: h2, frames: 3, size: 98}\n  - wait: 10us\n  - name: too many\n    expect: flow.send1.received_frames == 4\n  - expect: sw1.dropped_packets == 0\n",
    );
    let output = lab.run_check(&["--virtual"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    for part in [
        "not ok 1 - too many: flow.send1.received_frames == 4\n",
        "small.xoff.yml:8\"\n",
        "  model_time_ns: 10000\n",
        "    \"flow.send1.received_frames\": 3\n",
        "ok 2 - sw1.dropped_packets == 0\n",
        "1..2\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let output = lab.run_check(&["--virtual", "--format", "junit"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("tests=\"2\" failures=\"1\""),
        "{}",
        stdout(&output)
    );
    let output = lab.run_check(&["--virtual", "--format", "json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["passed"], false);
    assert_eq!(value["labs"][0]["checks"][0]["values"][0][1], 3.0);
}

#[test]
fn a_wait_ends_when_its_condition_holds_or_at_its_timeout() {
    let lab = ScriptLab::new(
        "script:\n  - send: {from: h1, to: h2, frames: 100, size: 1082}\n  - wait: {until: flow.send1.received_frames == 100, at_most: 1ms}\n  - expect: now_us < 10us\n  - wait: {until: flow.send1.received_frames == 101, at_most: 50us}\n  - expect: 50us < now_us < 60us\n  - at: 20us\n    expect: deadlock == 0\n",
    );
    let output = lab.run_check(&["--virtual"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    let verdicts: Vec<bool> = text
        .lines()
        .filter(|line| line.starts_with("ok ") || line.starts_with("not ok "))
        .map(|line| line.starts_with("ok "))
        .collect();
    // The late step fails and counts as done.
    assert_eq!(verdicts, [true, true, false, true, false, true], "{text}");
    assert!(text.contains("the steps before it ended later"), "{text}");
}

#[test]
fn invalid_scripts_are_errors_of_the_lab_file() {
    for (script, parts) in [
        (
            "script:\n  - expect: sw1.Ethernet0.pg3.watermark == 0\n",
            ["watermark", "small.xoff.yml:6"],
        ),
        (
            "script:\n  - expect: sw2.rx_packets == 0\n",
            ["sw2", "small.xoff.yml:6"],
        ),
        (
            "script:\n  - expect: sw1.pool.no_such_pool.current_cells == 0\n",
            ["no_such_pool", "ingress_lossless_pool"],
        ),
        (
            "script:\n  - start: nothing\n  - expect: now_ns == 0ns\n",
            ["nothing", "small.xoff.yml:6"],
        ),
        ("script:\n  - wait: 1ms\n", ["has no condition", "small.xoff.yml"]),
        ("", ["no script", "small.xoff.yml"]),
        (
            "script:\n  - configure: {switch: sw1, config: {PORT: {Ethernet0: {speed: \"400000\"}}}}\n  - expect: now_ns == 0ns\n",
            ["speed", "small.xoff.yml:6"],
        ),
    ] {
        let output = ScriptLab::new(script).run_check(&["--virtual"]);
        let text = stderr(&output);
        assert_eq!(
            output.status.code(),
            Some(4),
            "{script}\n{text}{}",
            stdout(&output)
        );
        assert!(
            parts.iter().all(|part| text.contains(part)),
            "{parts:?} in\n{text}"
        );
        assert!(output.stdout.is_empty(), "{}", stdout(&output));
    }
}

#[test]
fn lab_check_without_virtual_time_names_the_missing_option() {
    let lab = ScriptLab::new(
        "script:\n  - block: {port: \"sw1:Ethernet0\"}\n  - expect: sw1.dropped_packets == 0\n",
    );
    let output = lab.run_check(&[]);
    assert_eq!(output.status.code(), Some(4));
    let text = stderr(&output);
    assert!(
        text.contains("this script needs --virtual: step 1 (block)"),
        "{text}"
    );
    assert!(text.contains("small.xoff.yml:6"), "{text}");
}

#[test]
fn a_report_needs_exactly_one_lab() {
    let lab = ScriptLab::new("script:\n  - wait: 1us\n  - expect: sw1.dropped_packets == 0\n");
    let report = lab.0.path().join("report.json");
    let report_path = report.to_str().expect("UTF-8");
    let output = lab.run_check(&["--virtual", "--report", report_path]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&report).expect("written")).expect("JSON");
    assert_eq!(value["virtual_time"]["model_time_ns"], 1_000);
    let examples = example_labs();
    let output = run_xoff(&[&examples[0], &examples[1], "--virtual", "--report", report_path]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
