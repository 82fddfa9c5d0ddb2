//! Tests of benches in virtual time through the program: printed output, written files and exit codes.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn run_bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .arg("bench")
        .args(arguments)
        .output()
        .expect("xoff runs")
}

const INCAST_CONFIG: &str = "testbeds/incast.config_db.json";

/// A switch whose buffers have no room for a frame of 9000 bytes.
const CONFIG_WITHOUT_BUFFERS: &str = r#"{"PORT": {"Ethernet0": {"speed": "100000", "mtu": "9216"}, "Ethernet4": {"speed": "100000", "mtu": "9216"}},
    "BUFFER_POOL": {"in": {"type": "ingress", "mode": "dynamic", "size": "4096"},
        "out": {"type": "egress", "mode": "static", "size": "4096"}},
    "BUFFER_PROFILE": {"pg": {"pool": "in", "size": "0", "dynamic_th": "0"},
        "queue": {"pool": "out", "size": "0", "static_th": "4096"}},
    "BUFFER_PG": {"Ethernet0|0": {"profile": "pg"}, "Ethernet4|0": {"profile": "pg"}},
    "BUFFER_QUEUE": {"Ethernet0|0": {"profile": "queue"}, "Ethernet4|0": {"profile": "queue"}}}"#;

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn parse_result(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr_text(output)))
}

fn first_sample(result: &Value, name: &str) -> f64 {
    let figures = result["figures"].as_array().expect("figures");
    let figure = figures.iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("no {name}"))["samples"][0]
        .as_f64()
        .expect("a number")
}

#[test]
fn tune_buffers_reads_the_configuration_layer_that_it_writes() {
    let folder = TempDir::new().expect("a folder");
    let layer = folder.path().join("small.json");
    let first = run_bench(&[
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
    assert_eq!(first.status.code(), Some(0), "{}", stderr_text(&first));
    let first = parse_result(&first);
    assert!(first_sample(&first, "group_headroom/saved_percent") > 33.4);
    let lab = folder.path().join("lab.xoff.yml");
    let text = "name: small\ntopology:\n  fabric:\n    star: {hosts: 4, speed: 100g, delay: 203ns, config: [{preset: roce-lossless}, small.json]}\n";
    std::fs::write(&lab, text).expect("a file");
    let again = run_bench(&[
        "tune-buffers",
        lab.to_str().expect("a path"),
        "--pattern",
        "standstill:2",
        "--seeds",
        "1",
        "--no-sweep",
        "--json",
    ]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr_text(&again));
    let again = parse_result(&again);
    assert_eq!(
        first_sample(&again, "group_headroom/given"),
        first_sample(&first, "group_headroom/found")
    );
    assert_eq!(
        first_sample(&again, "group_headroom/saved"),
        0.0,
        "the smallest was found at once"
    );
}

#[test]
fn a_cable_longer_than_configured_loses_frames() {
    let folder = TempDir::new().expect("a folder");
    let lab = folder.path().join("lab.xoff.yml");
    let text = "name: short\ntopology:\n  fabric:\n    star: {hosts: 3, speed: 100g, config: {preset: roce-lossless}}\n";
    std::fs::write(&lab, text).expect("a file");
    let output = run_bench(&[
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
    assert_eq!(output.status.code(), Some(1), "{}", stderr_text(&output));
    let notes = parse_result(&output)["notes"].to_string();
    assert!(notes.contains("headroom of the priority group"), "{notes}");
}

#[test]
fn invalid_arguments_are_reported_before_a_bench_runs() {
    for (arguments, code, words) in [
        (&["tune-buffers", "--pattern", "mesh:4"][..], 2, "is no pattern"),
        (
            &["tune-buffers", "--pattern", "incast:8", "--ports", "8"],
            2,
            "needs 9 ports",
        ),
        (&["tune-buffers", "--frame-size", "9216"], 2, "no RoCEv2 packet"),
        (
            &["tune-buffers", "--own-frame-size", "20"],
            2,
            "cannot send a frame of 20 bytes",
        ),
        (&["tune-buffers", "--preset", "dice"], 2, "roce-lossless"),
        (&["tune-buffers", "--preset", "roce-lossy"], 4, "lossless"),
        (&["tune-buffers", "not-there.json"], 4, "cannot be read"),
        (&["ai", "--fabric", "ring:4"], 2, "is not a fabric"),
        (&["ai", "--lb", "dice"], 2, "dice"),
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
        (&["ndr", "/dev/zero"], 4, "the limit of a configuration, 128 MiB"),
        (
            &["ndr", INCAST_CONFIG, "--save", "not/there.json"],
            2,
            "--save not/there.json",
        ),
        (
            &["ndr", INCAST_CONFIG, "--save", "/proc/there.json"],
            2,
            "--save /proc/there.json",
        ),
        (
            &["ndr", INCAST_CONFIG, "--criterion", "/proc/there"],
            2,
            "where: --criterion",
        ),
        (&["ndr", INCAST_CONFIG, "--switch", "sw1"], 2, "--switch sw1"),
        (&["ndr", INCAST_CONFIG, "--speed", "1000"], 2, "--speed"),
        (
            &["ndr", INCAST_CONFIG, "--sizes", "64,64"],
            2,
            "64 is named twice",
        ),
        (
            &["ndr", INCAST_CONFIG, "--sizes", "64", "--trial-duration", "1ns"],
            2,
            "--trial-duration",
        ),
        (
            &["ndr", INCAST_CONFIG, "--sizes", "64", "--load-max", "1e-30"],
            2,
            "--load-max",
        ),
        (&["ndr", INCAST_CONFIG, "--trial-duration", "9000h"], 2, "5000h"),
        (
            &["latency", INCAST_CONFIG, "--loads", "10,10.0"],
            2,
            "10 is named twice",
        ),
        (&["rfc2544", INCAST_CONFIG, "loss,loss"], 2, "loss is named twice"),
        (
            &["rfc2544", INCAST_CONFIG, "loss,reset"],
            2,
            "reset is not measured",
        ),
        (&["rfc2544", "--ports", "a0,b0"], 2, "<FILE>"),
    ] {
        let output = run_bench(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            stderr_text(&output)
        );
        assert!(
            stderr_text(&output).contains(words),
            "{arguments:?}: {}",
            stderr_text(&output)
        );
    }
}

#[test]
fn key_figures_have_a_sample_for_each_seed_and_a_report() {
    let folder = TempDir::new().expect("a folder");
    let draft = folder.path().join("report.md");
    let output = run_bench(&[
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
    assert_eq!(output.status.code(), Some(0), "{}", stderr_text(&output));
    let result = parse_result(&output);
    for name in ["ecmp/allreduce/jct_ratio", "round-robin/alltoall/mmr"] {
        assert!(first_sample(&result, name) >= 1.0, "{name}");
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
fn a_result_is_printed_before_saving_fails() {
    let arguments = [
        "ndr",
        INCAST_CONFIG,
        "--sizes",
        "1518",
        "--json",
        "--save",
        "/dev/full",
    ];
    let output = run_bench(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", stderr_text(&output));
    assert!(
        stderr_text(&output).contains("--save /dev/full"),
        "{}",
        stderr_text(&output)
    );
    assert_eq!(first_sample(&parse_result(&output), "1518/ndr/share"), 100.0);
}

#[test]
fn cable_delay_is_not_counted_as_loss() {
    let output = run_bench(&[
        "ndr",
        INCAST_CONFIG,
        "--sizes",
        "64",
        "--cable-delay",
        "5ms",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_text(&output));
    assert_eq!(first_sample(&parse_result(&output), "64/ndr/share"), 100.0);
}

#[test]
fn a_switch_that_forwards_no_frame_has_no_rate() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("config_db.json");
    std::fs::write(&path, CONFIG_WITHOUT_BUFFERS).expect("a file");
    for bench_name in ["ndr", "latency"] {
        let output = run_bench(&[bench_name, path.to_str().expect("a path"), "--sizes", "9000"]);
        assert_eq!(output.status.code(), Some(5), "{}", stderr_text(&output));
        assert!(
            stderr_text(&output).contains("no frame came out at any load"),
            "{}",
            stderr_text(&output)
        );
    }
}

#[test]
fn help_lists_the_options_of_suites_in_virtual_time() {
    let help = |name: &str| String::from_utf8_lossy(&run_bench(&[name, "--help"]).stdout).into_owned();
    assert!(help("ndr").contains("--dscp"));
    for name in ["rfc2544", "rfc2889", "rfc8239"] {
        let help = help(name);
        assert!(help.contains("--class") && !help.contains("--dscp") && !help.contains("--speed"));
        assert!(!help.contains("--ports are network devices"), "{help}");
    }
}
