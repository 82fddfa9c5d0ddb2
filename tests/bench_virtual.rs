//! `xoff bench tune-buffers` and `ai` as they are typed: what they print and write, and their exit codes.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .arg("bench")
        .args(arguments)
        .output()
        .expect("xoff runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn result(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", error(output)))
}

fn sample(result: &Value, name: &str) -> f64 {
    let figures = result["figures"].as_array().expect("figures");
    let figure = figures.iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("no {name}"))["samples"][0]
        .as_f64()
        .expect("a number")
}

#[test]
fn what_tune_buffers_writes_is_a_layer_that_tune_buffers_reads() {
    let folder = TempDir::new().expect("a folder");
    let layer = folder.path().join("small.json");
    let first = bench(&[
        "tune-buffers",
        "--ports",
        "4",
        "--pattern",
        "standstill:2",
        "--seeds",
        "1",
        "--no-sweep",
        "--json",
        "--write",
        layer.to_str().expect("a path"),
    ]);
    assert_eq!(first.status.code(), Some(0), "{}", error(&first));
    let first = result(&first);
    assert!(sample(&first, "group_headroom/saved_percent") > 33.4);
    let lab = folder.path().join("lab.xoff.yml");
    let text = "name: small\ntopology:\n  fabric:\n    star: {hosts: 4, speed: 100g, delay: 203ns, config: [{preset: roce-lossless}, small.json]}\n";
    std::fs::write(&lab, text).expect("a file");
    let again = bench(&[
        "tune-buffers",
        lab.to_str().expect("a path"),
        "--pattern",
        "standstill:2",
        "--seeds",
        "1",
        "--no-sweep",
        "--json",
    ]);
    assert_eq!(again.status.code(), Some(0), "{}", error(&again));
    let again = result(&again);
    assert_eq!(
        sample(&again, "group_headroom/given"),
        sample(&first, "group_headroom/found")
    );
    assert_eq!(
        sample(&again, "group_headroom/saved"),
        0.0,
        "the smallest was found at once"
    );
}

#[test]
fn a_longer_cable_than_the_configuration_was_made_for_loses_frames() {
    let folder = TempDir::new().expect("a folder");
    let lab = folder.path().join("lab.xoff.yml");
    let text = "name: short\ntopology:\n  fabric:\n    star: {hosts: 3, speed: 100g, config: {preset: roce-lossless}}\n";
    std::fs::write(&lab, text).expect("a file");
    let output = bench(&[
        "tune-buffers",
        lab.to_str().expect("a path"),
        "--pattern",
        "standstill:1",
        "--cable-m",
        "2000",
        "--seeds",
        "1",
        "--no-sweep",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", error(&output));
    let notes = result(&output)["notes"].to_string();
    assert!(notes.contains("headroom of the priority group"), "{notes}");
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    for (arguments, code, words) in [
        (&["tune-buffers", "--pattern", "mesh:4"][..], 2, "is no pattern"),
        (
            &["tune-buffers", "--pattern", "incast:8", "--ports", "8"],
            2,
            "takes 9 ports",
        ),
        (&["tune-buffers", "--frame-size", "9216"], 2, "no RoCEv2 packet"),
        (
            &["tune-buffers", "--own-frame-size", "20"],
            2,
            "no frame of 20 bytes",
        ),
        (&["tune-buffers", "--preset", "dice"], 4, "dice"),
        (&["tune-buffers", "--preset", "roce-lossy"], 4, "lossless"),
        (&["tune-buffers", "not-there.json"], 4, "cannot be read"),
        (&["ai", "--fabric", "ring:4"], 2, "is no fabric"),
        (&["ai", "--lb", "dice"], 4, "dice"),
        (&["ai", "not-there.xoff.yml"], 4, "not-there"),
    ] {
        let output = bench(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            error(&output)
        );
        assert!(
            error(&output).contains(words),
            "{arguments:?}: {}",
            error(&output)
        );
    }
}

#[test]
fn key_figures_have_a_sample_for_each_seed_and_a_report() {
    let folder = TempDir::new().expect("a folder");
    let draft = folder.path().join("report.md");
    let output = bench(&[
        "ai",
        "--fabric",
        "leaf-spine:2x2x2",
        "--bytes",
        "256K",
        "--seeds",
        "1..=3",
        "--lb",
        "ecmp,round-robin",
        "--json",
        "--draft",
        draft.to_str().expect("a path"),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    let result = result(&output);
    for name in ["ecmp/allreduce/jct_ratio", "round-robin/alltoall/mmr"] {
        assert!(sample(&result, name) >= 1.0, "{name}");
    }
    let figures = result["figures"].as_array().expect("figures");
    assert!(
        figures
            .iter()
            .all(|figure| figure["samples"].as_array().expect("samples").len() == 3)
    );
    let text = std::fs::read_to_string(&draft).expect("a report");
    assert!(
        text.contains("## Repeatability") && text.contains("`ecmp/allreduce/jct_ratio`"),
        "{text}"
    );
}
