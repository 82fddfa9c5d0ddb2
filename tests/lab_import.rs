//! Tests of `xoff lab import --ns3`: the imported lab runs and ends at the same time as the ns-3 model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn run_xoff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(arguments)
        .output()
        .expect("xoff starts")
}

fn oracle_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/oracles")
        .join(name)
}

/// Returns the completion times of the model in nanoseconds, by sender and receiver.
fn model_completion_times(folder: &Path) -> BTreeMap<(u64, u64), f64> {
    let text = std::fs::read_to_string(folder.join("fct.csv")).expect("the model's results");
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<u64> = line
            .split(',')
            .map(|field| field.parse().expect("a number"))
            .collect();
        ((fields[0], fields[1]), fields[4] as f64)
    });
    rows.collect()
}

/// Ratio of the times of Ethernet frames to those of the model: 1082 bytes take 86.56 ns, and the model
/// truncates 83.84 ns for 1048 bytes to 83 ns.
const FRAME_TIME_RATIO: f64 = 86.56 / 83.0;

#[test]
fn imported_labs_end_at_the_time_of_the_model() {
    for (name, bound) in [
        ("incast8_pfc", 0.005),
        ("victim_pfc", 0.005),
        // The first marked packet decides which sender slows down.
        ("incast8_dcqcn_step", 0.05),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let lab = folder.path().join("lab.xoff.yml");
        let report = folder.path().join("report.json");
        let [lab, report] = [&lab, &report].map(|path| path.to_str().expect("UTF-8"));
        let oracle = oracle_folder(name);
        let imported = run_xoff(&[
            "lab",
            "import",
            "--ns3",
            oracle.to_str().expect("UTF-8"),
            "--output",
            lab,
        ]);
        assert!(imported.status.success(), "{imported:?}");
        assert!(imported.stdout.is_empty());
        let run = run_xoff(&["lab", "run", lab, "--virtual", "--report", report]);
        assert!(run.status.success(), "{run:?}");
        let text = std::fs::read_to_string(report).expect("the report");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let reference = model_completion_times(&oracle);
        let flows = report["jobs"]["flows"].as_array().expect("flows");
        assert_eq!(flows.len(), reference.len());
        for flow in flows {
            let pair = (
                flow["src"].as_u64().expect("src"),
                flow["dst"].as_u64().expect("dst"),
            );
            let expected_ns = reference[&pair] * FRAME_TIME_RATIO;
            let completion_ns = flow["sender_completion_ns"].as_u64().expect("done") as f64;
            let difference = completion_ns / expected_ns - 1.0;
            assert!(difference.abs() < bound, "{name} {pair:?}: {difference}");
        }
        let checked = run_xoff(&["lab", "check", lab, "--virtual"]);
        assert!(checked.status.success(), "{checked:?}");
    }
}

#[test]
fn the_lab_is_printed_to_stdout_and_notes_to_stderr() {
    let folder = oracle_folder("incast8_pfc");
    let output = run_xoff(&["lab", "import", "--ns3", folder.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0));
    let (lab, notes) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(lab.contains("name: incast8_pfc\n"), "{lab}");
    assert!(
        notes.starts_with("note: KMIN_MAP: no queue can reach the lower thresholds"),
        "{notes}"
    );
}

#[test]
fn import_errors_have_exit_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    for (arguments, code) in [
        (vec!["lab", "import"], 2),
        (vec!["lab", "import", "--ns3", path], 4),
        (vec!["lab", "import", "--ns3", "/nowhere/config.txt"], 4),
        (
            vec![
                "lab",
                "import",
                "--ns3",
                path,
                "--output",
                "/nowhere/lab.xoff.yml",
            ],
            2,
        ),
    ] {
        let output = run_xoff(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}
