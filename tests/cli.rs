//! The command line as a user meets it: what it accepts, what it refuses, in which words and with which exit code.
//! Nothing here touches a network device.

use std::path::Path;
use std::process::{Command, Output};

fn xoff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

#[derive(Debug)]
struct Told {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn told(arguments: &[&str]) -> Told {
    let output = xoff(arguments);
    Told {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Refused with this code, and with each of these words on standard error, without a panic.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let told = told(arguments);
    assert_eq!(told.code, Some(code), "{arguments:?}: {told:?}");
    for word in words {
        assert!(
            told.stderr.contains(word),
            "{arguments:?}: no {word:?} in {told:?}"
        );
    }
    assert!(!told.stderr.contains("panicked"), "{told:?}");
    assert_eq!(told.stdout, "", "{arguments:?}: data on standard output");
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file in a folder of ours");
    path.to_str().expect("text").to_owned()
}

#[test]
fn help_teaches_with_examples_and_exit_codes() {
    let help = told(&["--help"]);
    assert_eq!(help.code, Some(0));
    for word in [
        "Examples:",
        "xoff lab run testbeds/incast.xoff.yml",
        "Exit codes:",
        "5 inconclusive",
    ] {
        assert!(help.stdout.contains(word), "{word}: {}", help.stdout);
    }
    for words in [
        &["switch", "run"][..],
        &["lab", "run"],
        &["host", "run"],
        &["config", "apply"],
        &["show", "counters"],
    ] {
        let help = told(&[words, &["--help"]].concat());
        assert_eq!(help.code, Some(0));
        assert!(
            help.stdout.contains("xoff "),
            "{words:?} shows no example: {}",
            help.stdout
        );
    }
}

#[test]
fn the_version_is_printed() {
    let version = told(&["--version"]);
    assert_eq!(
        (version.code, version.stdout),
        (Some(0), format!("xoff {}\n", env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn a_wrong_command_line_is_exit_2() {
    refused(&[], 2, &["Usage:"]);
    refused(&["fly"], 2, &["unrecognized subcommand"]);
    refused(&["show", "counters"], 2, &["--api", "--lab"]);
    refused(
        &["show", "counters", "--api", "a", "--lab", "b"],
        2,
        &["cannot be used with"],
    );
    refused(&["switch", "run", "--config", "x"], 2, &["--port"]);
    refused(&["host", "run", "--dev", "x"], 2, &["--send", "--receive"]);
    refused(&["lab", "run"], 2, &["<FILE>"]);
}

#[test]
fn a_wrong_port_is_exit_2_and_says_how_to_write_it() {
    let run = |port: &str, words: &[&str]| {
        refused(&["switch", "run", "--config", "x", "--port", port], 2, words);
    };
    run("Ethernet0", &["no '='", "Ethernet0=veth0"]);
    run("swp1=veth0", &["ports are named Ethernet0"]);
    run("Ethernet0=", &["1 to 15 bytes"]);
    run(
        "Ethernet0=veth0,backend=dpdk",
        &["auto, packet, tap, pnet and xdp"],
    );
}

#[test]
fn a_port_or_a_device_given_twice_is_exit_2() {
    let ports = |a, b| ["switch", "run", "--config", "x", "--port", a, "--port", b];
    refused(
        &ports("Ethernet0=a", "Ethernet0=b"),
        2,
        &["error: port Ethernet0 is given twice", "\n  where: ", "\n  fix: "],
    );
    refused(
        &ports("Ethernet0=a", "Ethernet4=a"),
        2,
        &[
            "error: two ports on one device, a",
            "--port Ethernet0=a and --port Ethernet4=a",
            "\n  fix: ",
        ],
    );
}

#[test]
fn numbers_out_of_range_are_exit_2() {
    for option in [
        ["--workers", "0"],
        ["--workers", "65"],
        ["--dilate", "0"],
        ["--dilate", "10001"],
        ["--dilate", "fast"],
        ["--pin", "0,0"],
        ["--pin", "x"],
        ["--idle", "never"],
        ["--seed", "x"],
    ] {
        let arguments = [
            &["switch", "run", "--config", "x", "--port", "Ethernet0=a"][..],
            &option,
        ]
        .concat();
        refused(&arguments, 2, &[option[0]]);
    }
    refused(
        &["host", "run", "--dev", "x", "--send", "10.0.0.2,class=9"],
        2,
        &["class is '9'", "0 to 7"],
    );
    refused(
        &["host", "run", "--dev", "x", "--receive", "--duration", "20"],
        2,
        &["20s"],
    );
}

#[test]
fn an_impossible_place_for_the_report_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let there = folder.path().to_str().expect("text");
    let missing = format!("{there}/no/report.json");
    for report in [there, &missing] {
        let arguments = [
            "switch",
            "run",
            "--config",
            "x",
            "--port",
            "Ethernet0=a",
            "--report",
            report,
        ];
        refused(
            &arguments,
            2,
            &["the report cannot be written there", "--report", "fix:"],
        );
        refused(&["lab", "run", "x", "--report", report], 2, &["--report"]);
    }
}

#[test]
fn an_unreadable_or_invalid_configuration_is_exit_4() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |config: &str, words: &[&str]| {
        refused(
            &[
                "switch",
                "run",
                "--config",
                config,
                "--port",
                "Ethernet0=xoff-none",
            ],
            4,
            words,
        );
    };
    run("/no/such/file", &["cannot be read", "/no/such/file", "fix:"]);
    run(&file(folder.path(), "garbage", "\u{1}{{{"), &["not JSON"]);
    run(&file(folder.path(), "list", "[1, 2]"), &["object"]);
    run(&file(folder.path(), "table", r#"{"PROT": {}}"#), &["PROT"]);
    let wrong = r#"{"PORT": {"Ethernet0": {"speed": "fast", "mtu": "1"}}}"#;
    run(
        &file(folder.path(), "values", wrong),
        &["Ethernet0", "speed", "\"fast\"", "mtu"],
    );
}

#[test]
fn a_configuration_to_apply_is_read_before_a_switch_is_looked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let garbage = file(folder.path(), "garbage", "no");
    refused(
        &["config", "apply", &garbage, "--api", "/no/such/socket"],
        4,
        &["not JSON", &garbage],
    );
    let good = file(folder.path(), "good", "{}");
    refused(
        &["config", "apply", &good, "--api", "/no/such/socket"],
        3,
        &["no running switch answers"],
    );
}

#[test]
fn a_device_that_does_not_exist_is_exit_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = file(folder.path(), "config", "{}");
    let arguments = [
        "switch",
        "run",
        "--config",
        &config,
        "--port",
        "Ethernet0=xoff-none",
    ];
    refused(&arguments, 3, &["Ethernet0", "xoff-none", "ip link"]);
    refused(
        &["host", "run", "--dev", "xoff-none", "--receive"],
        3,
        &["xoff-none"],
    );
}

#[test]
fn a_socket_where_nobody_answers_is_exit_3_and_says_how_to_start_one() {
    for command in [&["show", "counters"][..], &["config", "get"]] {
        let api = [command, &["--api", "/no/such/socket"]].concat();
        refused(
            &api,
            3,
            &["no running switch answers", "/no/such/socket", "xoff switch run"],
        );
        let lab = [command, &["--lab", "no-such-lab"]].concat();
        refused(&lab, 3, &["no-such-lab", "xoff lab up"]);
    }
}

#[test]
fn a_lab_file_that_is_wrong_is_exit_4() {
    let folder = tempfile::tempdir().expect("a folder");
    refused(
        &["lab", "run", "/no/such/lab.xoff.yml"],
        4,
        &["/no/such/lab.xoff.yml"],
    );
    let file = file(
        folder.path(),
        "bad.xoff.yml",
        "name: x\ntopology: {nodes: {a: {kind: toaster}}}\n",
    );
    refused(&["lab", "run", &file], 4, &["toaster"]);
    refused(
        &["lab", "down", "no-such-lab"],
        3,
        &["no-such-lab", "xoff lab ls"],
    );
}

#[test]
fn doctor_and_ls_speak_json() {
    let doctor = told(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    assert_eq!(json["schema"], "xoff.doctor/1");
    let can = json["can_run_labs"].as_bool().expect("a verdict");
    assert_eq!(doctor.code, Some(if can { 0 } else { 3 }));
    for check in json["checks"].as_array().expect("checks") {
        let good = check["status"] == "ok";
        assert_eq!(good, check["fix"].is_null(), "what is not ok has a fix: {check}");
    }
    let labs = told(&["lab", "ls", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&labs.stdout).expect("JSON");
    assert!(json["labs"].is_array(), "{json}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["lab", "ls", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (output.status.code(), output.stderr.len()),
        (Some(0), 0),
        "{output:?}"
    );
}

#[test]
fn config_check_reports_every_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = file(
        folder.path(),
        "good.json",
        r#"{"PORT": {"Ethernet0": {"fec": "rs"}}}"#,
    );
    let members: Vec<String> = (0..30)
        .map(|n| format!(r#""Vlan7|Ethernet{n}": {{"tagging_mode": "tagged"}}"#))
        .collect();
    let bad = file(
        folder.path(),
        "bad.json",
        &format!(
            r#"{{"VLAN": {{"Vlan7": {{}}}}, "VLAN_MEMBER": {{{}}}}}"#,
            members.join(",")
        ),
    );

    let text = told(&["config", "check", &good]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(
        text.stdout.contains("good.json: valid; 1 port, 1 note\n"),
        "{text:?}"
    );
    assert!(text.stdout.contains("  note: no effect: PORT fec"), "{text:?}");

    let text = told(&["config", "check", &good, &bad, "/nonexistent.json"]);
    assert_eq!(text.code, Some(4));
    assert!(
        text.stdout.contains("bad.json: not valid; 30 errors\n"),
        "{text:?}"
    );
    assert_eq!(text.stdout.matches("there is no port").count(), 20);
    assert!(
        text.stdout
            .contains("  error: and 10 more errors; JSON output has all\n")
    );
    assert!(text.stdout.contains("/nonexistent.json: not valid; 1 error\n"));

    let json = told(&["config", "check", &good, &bad, "--format", "json"]);
    assert_eq!(json.code, Some(4));
    let value: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(value["valid"], false);
    assert_eq!(value["files"][0]["valid"], true);
    assert_eq!(value["files"][1]["errors"].as_array().map(Vec::len), Some(30));
    assert_eq!(value["files"][1]["errors"][7]["key"], "Vlan7|Ethernet7");

    let ports: Vec<String> = (0..30).map(|n| format!("--port=Ethernet{n}")).collect();
    let mut with_ports = vec!["config", "check", &bad];
    with_ports.extend(ports.iter().map(String::as_str));
    assert_eq!(told(&with_ports).code, Some(0));
}

#[test]
fn json_output_of_a_command_has_all_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports: Vec<String> = (0..30)
        .map(|n| format!(r#""Ethernet{n}": {{"mtu": "{n}"}}"#))
        .collect();
    let bad = file(
        folder.path(),
        "bad.json",
        &format!(r#"{{"PORT": {{{}}}}}"#, ports.join(",")),
    );
    // The header of a pcap file. The configuration is refused before frames matter.
    let header = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];
    let capture = folder.path().join("empty.pcap");
    std::fs::write(&capture, header).expect("a file");
    let out = folder.path().join("out.pcapng");
    let arguments = [
        "replay",
        capture.to_str().expect("text"),
        "--config",
        &bad,
        "--out",
        out.to_str().expect("text"),
    ];
    let text = told(&arguments);
    assert_eq!((text.code, text.stdout.as_str()), (Some(4), ""), "{text:?}");
    assert_eq!(text.stderr.matches("Ethernet").count(), 20);
    let json = told(&[&arguments[..], &["--json"]].concat());
    assert_eq!(json.code, Some(4));
    let value: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(value["errors"].as_array().map(Vec::len), Some(30));
}
