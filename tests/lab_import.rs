//! `xoff lab import --ns3`: the lab that it writes runs, and ends when the model's run ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn xoff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(arguments)
        .output()
        .expect("xoff starts")
}

fn oracle(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/oracles")
        .join(name)
}

/// Completion times of the model, by sender and receiver, in nanoseconds.
fn reference(folder: &Path) -> BTreeMap<(u64, u64), f64> {
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

/// Ethernet's frames are longer than the model's: 1082 bytes for 1048, and 86.56 ns for the 83 ns that the model cuts 83.84 to.
const LONGER: f64 = 86.56 / 83.0;

#[test]
fn imported_labs_end_when_the_model_ends() {
    for (name, bound) in [
        ("incast8_pfc", 0.005),
        ("victim_pfc", 0.005),
        // Which packet is marked first decides who slows down.
        ("incast8_dcqcn_step", 0.05),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let lab = folder.path().join("lab.xoff.yml");
        let report = folder.path().join("report.json");
        let [lab, report] = [&lab, &report].map(|path| path.to_str().expect("UTF-8"));
        let oracle = oracle(name);
        let imported = xoff(&[
            "lab",
            "import",
            "--ns3",
            oracle.to_str().expect("UTF-8"),
            "--output",
            lab,
        ]);
        assert!(imported.status.success(), "{imported:?}");
        assert!(imported.stdout.is_empty());
        let run = xoff(&["lab", "run", lab, "--virtual", "--report", report]);
        assert!(run.status.success(), "{run:?}");
        let text = std::fs::read_to_string(report).expect("the report");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let reference = reference(&oracle);
        let flows = report["jobs"]["flows"].as_array().expect("flows");
        assert_eq!(flows.len(), reference.len());
        for flow in flows {
            let pair = (
                flow["src"].as_u64().expect("src"),
                flow["dst"].as_u64().expect("dst"),
            );
            let expected_ns = reference[&pair] * LONGER;
            let completion_ns = flow["sender_completion_ns"].as_u64().expect("done") as f64;
            let difference = completion_ns / expected_ns - 1.0;
            assert!(difference.abs() < bound, "{name} {pair:?}: {difference}");
        }
        let checked = xoff(&["lab", "check", lab, "--virtual"]);
        assert!(checked.status.success(), "{checked:?}");
    }
}

#[test]
fn the_lab_goes_to_standard_output_and_notes_to_standard_error() {
    let folder = oracle("incast8_pfc");
    let output = xoff(&["lab", "import", "--ns3", folder.to_str().expect("UTF-8")]);
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
fn mistakes_have_exit_codes() {
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
        let output = xoff(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
}
