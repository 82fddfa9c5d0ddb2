//! Benches in virtual time as they are typed: what they print and write, and their exit codes.

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

const SWITCH: &str = "testbeds/incast.config_db.json";

/// Its buffers hold no frame of 9000 bytes.
const SILENT: &str = r#"{"PORT": {"Ethernet0": {"speed": "100000", "mtu": "9216"}, "Ethernet4": {"speed": "100000", "mtu": "9216"}},
    "BUFFER_POOL": {"in": {"type": "ingress", "mode": "dynamic", "size": "4096"},
        "out": {"type": "egress", "mode": "static", "size": "4096"}},
    "BUFFER_PROFILE": {"pg": {"pool": "in", "size": "0", "dynamic_th": "0"},
        "queue": {"pool": "out", "size": "0", "static_th": "4096"}},
    "BUFFER_PG": {"Ethernet0|0": {"profile": "pg"}, "Ethernet4|0": {"profile": "pg"}},
    "BUFFER_QUEUE": {"Ethernet0|0": {"profile": "queue"}, "Ethernet4|0": {"profile": "queue"}}}"#;

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
        (&["tune-buffers", "--preset", "dice"], 2, "roce-lossless"),
        (&["tune-buffers", "--preset", "roce-lossy"], 4, "lossless"),
        (&["tune-buffers", "not-there.json"], 4, "cannot be read"),
        (&["ai", "--fabric", "ring:4"], 2, "is not a fabric"),
        (&["ai", "--lb", "dice"], 4, "dice"),
        (&["ai", "not-there.xoff.yml"], 4, "not-there"),
        (&["ai", "--bytes", "1K,1024"], 2, "1024 is named twice"),
        (&["ai", "--lb", "ecmp,ecmp"], 2, "ecmp is named twice"),
        (&["ai", "--draft", "not/there.md"], 2, "--draft not/there.md"),
        (
            &["tune-buffers", "--write", "not/there.json"],
            2,
            "--write not/there.json",
        ),
        (
            &["tune-buffers", "--pattern", "incast:8,incast:8"],
            2,
            "incast:8 is named twice",
        ),
        (&["ndr"], 2, "--ports DEV,DEV"),
        (&["ndr", "--ports", "a0,a0"], 2, "a0 is named twice"),
        (&["ndr", "/dev/zero"], 4, "longer than 64 MiB"),
        (
            &["ndr", SWITCH, "--save", "not/there.json"],
            2,
            "--save not/there.json",
        ),
        (
            &["ndr", SWITCH, "--save", "/proc/there.json"],
            2,
            "--save /proc/there.json",
        ),
        (
            &["ndr", SWITCH, "--criterion", "/proc/there"],
            2,
            "where: --criterion",
        ),
        (&["ndr", SWITCH, "--switch", "sw1"], 2, "--switch sw1"),
        (&["ndr", SWITCH, "--speed", "1000"], 2, "--speed"),
        (&["ndr", SWITCH, "--sizes", "64,64"], 2, "64 is named twice"),
        (
            &["ndr", SWITCH, "--sizes", "64", "--trial-duration", "1ns"],
            2,
            "--trial-duration",
        ),
        (
            &["ndr", SWITCH, "--sizes", "64", "--load-max", "1e-30"],
            2,
            "--load-max",
        ),
        (&["ndr", SWITCH, "--trial-duration", "9000h"], 2, "5000h"),
        (&["latency", SWITCH, "--loads", "10,10.0"], 2, "10 is named twice"),
        (&["rfc2544", SWITCH, "loss,loss"], 2, "loss is named twice"),
        (&["rfc2544", SWITCH, "loss,reset"], 2, "reset is not measured"),
        (&["rfc2544", "--ports", "a0,b0"], 2, "<FILE>"),
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

#[test]
fn a_result_that_cannot_be_saved_is_printed_first() {
    let arguments = ["ndr", SWITCH, "--sizes", "1518", "--json", "--save", "/dev/full"];
    let output = bench(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", error(&output));
    assert!(error(&output).contains("--save /dev/full"), "{}", error(&output));
    assert_eq!(sample(&result(&output), "1518/ndr/share"), 100.0);
}

#[test]
fn a_long_cable_is_no_loss() {
    let output = bench(&["ndr", SWITCH, "--sizes", "64", "--cable-delay", "5ms", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    assert_eq!(sample(&result(&output), "64/ndr/share"), 100.0);
}

#[test]
fn a_switch_that_forwards_nothing_has_no_rate() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("config_db.json");
    std::fs::write(&path, SILENT).expect("a file");
    for bench_name in ["ndr", "latency"] {
        let output = bench(&[bench_name, path.to_str().expect("a path"), "--sizes", "9000"]);
        assert_eq!(output.status.code(), Some(5), "{}", error(&output));
        assert!(
            error(&output).contains("no frame came out at any load"),
            "{}",
            error(&output)
        );
    }
}

#[test]
fn suites_offer_what_a_switch_in_virtual_time_takes() {
    let help = |name: &str| String::from_utf8_lossy(&bench(&[name, "--help"]).stdout).into_owned();
    assert!(help("ndr").contains("--dscp"));
    for name in ["rfc2544", "rfc2889", "rfc8239"] {
        let help = help(name);
        assert!(help.contains("--class") && !help.contains("--dscp") && !help.contains("--speed"));
        assert!(!help.contains("--ports are network devices"), "{help}");
    }
}
