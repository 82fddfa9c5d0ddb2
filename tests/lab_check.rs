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

/// Writes a lab file to a folder and returns its path.
fn write_lab(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// A lab of two plain hosts, which needs real time.
const PLAIN_LAB: &str = "name: plain\ntopology:\n  nodes:\n    sw1: {kind: switch}\n    h1: {kind: plain, exec: [\"true\"]}\n    \
     h2: {kind: plain}\n  links:\n    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n";

/// Validation needs no namespaces and no root, and has the same result with and without `--virtual`.
#[test]
fn a_lab_without_conditions_is_validated() {
    let folder = tempfile::tempdir().expect("a folder");
    let fabric = "name: fabric\ntopology:\n  fabric:\n    star: {hosts: 2, speed: 100g, config: {preset: roce-lossless}}\n";
    let job = "workload:\n  jobs:\n    - {name: a, kind: permutation, hosts: all, bytes: 1M}\n";
    let labs = [
        write_lab(folder.path(), "fabric.xoff.yml", fabric),
        write_lab(folder.path(), "job.xoff.yml", &format!("{fabric}{job}")),
        write_lab(folder.path(), "plain.xoff.yml", PLAIN_LAB),
        write_lab(
            folder.path(),
            "steps.xoff.yml",
            &format!("{fabric}script:\n  - wait: 1ms\n"),
        ),
    ];
    let files: Vec<&str> = labs.iter().map(String::as_str).collect();
    for more in [&[][..], &["--virtual"]] {
        let output = run_xoff(&[&files[..], more].concat());
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
        for number in 1..=files.len() {
            let line = format!("\nok {number} - the lab file is valid\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.ends_with("\n1..4\n"), "{text}");
        assert!(
            stderr(&output).contains("the script was not run"),
            "{}",
            stderr(&output)
        );
    }
    for (format, part) in [
        ("junit", "name=\"the lab file is valid\""),
        ("json", "\"condition\": \"the lab file is valid\""),
        ("table", "1 test: 1 passed, 0 failed; 1 of 1 check held"),
    ] {
        let output = run_xoff(&[files[0], "--format", format]);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_labs_of_the_repository_are_valid() {
    let folders = ["testbeds", "testbeds/fabrics"];
    let labs: Vec<String> = folders.iter().flat_map(|folder| lab_files(folder)).collect();
    assert!(labs.len() >= 8, "{labs:?}");
    let files: Vec<&str> = labs.iter().map(String::as_str).collect();
    let output = run_xoff(&[&files[..], &["--virtual"]].concat());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

#[test]
fn an_invalid_lab_is_reported_with_all_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "{PORT: {Ethernet0: {mtu: 1}}, QUEUE: {\"Ethernet0|3\": {wred_profile: none}}}";
    // Errors of fields, of the workload and of an inline configuration.
    let wrong = PLAIN_LAB.replace("{kind: switch}", &format!("{{kind: switch, config: {config}}}"))
        + "workload:\n  duration: soon\n  flows:\n    - {name: f, from: h1, to: h9}\n";
    let wrong = write_lab(folder.path(), "wrong.xoff.yml", &wrong);
    // An error of a configuration alone.
    let mtu = PLAIN_LAB.replace(
        "{kind: switch}",
        "{kind: switch, config: {PORT: {Ethernet0: {mtu: 1}}}}",
    );
    let mtu = write_lab(folder.path(), "mtu.xoff.yml", &mtu);
    for more in [&[][..], &["--virtual"]] {
        let output = run_xoff(&[&[wrong.as_str()], more].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{text}{}", stdout(&output));
        for part in [
            "wrong.xoff.yml:4:",
            "configuration of sw1: PORT|Ethernet0 mtu \"1\"",
            "wred_profile",
            "soon",
            "h9",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("kind plain"), "the lab needs real time: {text}");
        let output = run_xoff(&[&[wrong.as_str(), mtu.as_str()], more].concat());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{text}{}", stdout(&output));
        for part in [
            "2 lab files are invalid",
            "wrong.xoff.yml",
            "mtu.xoff.yml",
            "switch sw1",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(output.stdout.is_empty(), "{}", stdout(&output));
    }
}

/// A lab with a plain host and a job whose transport needs virtual time can run in no mode.
#[test]
fn a_lab_that_fits_no_mode_is_invalid() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "name: both\ntopology:\n  nodes:\n    sw1: {kind: switch, config: {preset: roce-lossless}}\n    h1: {kind: plain}\n    \
         h2: {kind: model}\n    h3: {kind: model}\n  links:\n    - endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]\n    \
         - endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"]\n    - endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"]\n\
         transports:\n  default: {congestion: hpcc}\nworkload:\n  jobs:\n    - {name: a, kind: permutation, hosts: [h2, h3], bytes: 1M}\n";
    let path = write_lab(folder.path(), "both.xoff.yml", text);
    let output = run_xoff(&[&path]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{text}{}", stdout(&output));
    for part in ["h1 is of kind plain", "this needs virtual time"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_report_needs_a_script() {
    let lab = ScriptLab::new("");
    let output = lab.run_check(&["--report", "report.json"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--report"), "{}", stderr(&output));
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
