//! Tests of the command line: accepted and refused arguments, messages and exit codes. No test uses
//! a network device.

mod conform;
mod json_output;
mod lockstep;
mod pytest;
mod rtl;

use std::path::Path;
use std::process::{Command, Output};

fn run_xoff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

#[derive(Debug)]
struct CommandResult {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run_command(arguments: &[&str]) -> CommandResult {
    let output = run_xoff(arguments);
    CommandResult {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Asserts that the command is refused with this exit code, without a panic, and that standard error contains
/// each of these texts.
fn assert_refused(arguments: &[&str], code: i32, words: &[&str]) {
    let told = run_command(arguments);
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

fn write_file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file in a folder of ours");
    path.to_str().expect("text").to_owned()
}

#[test]
fn help_contains_examples_and_exit_codes() {
    let help = run_command(&["--help"]);
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
        let help = run_command(&[words, &["--help"]].concat());
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
    let version = run_command(&["--version"]);
    assert_eq!(version.code, Some(0));
    // A build from a checkout adds the commit: `xoff 0.1.0 (abcdef123456)`.
    let expected = format!("xoff {}", env!("CARGO_PKG_VERSION"));
    let rest = version
        .stdout
        .strip_prefix(&expected)
        .expect("the name and the version");
    let commit = rest
        .trim_end()
        .strip_prefix(" (")
        .and_then(|rest| rest.strip_suffix(')'));
    assert!(
        rest == "\n" || commit.is_some_and(|commit| commit.chars().all(|c| c.is_ascii_hexdigit())),
        "{rest:?}"
    );
}

#[test]
fn an_invalid_command_line_exits_with_2() {
    assert_refused(&[], 2, &["Usage:"]);
    assert_refused(&["fly"], 2, &["unrecognized subcommand"]);
    assert_refused(&["show", "counters"], 2, &["--api", "--lab"]);
    assert_refused(
        &["show", "counters", "--api", "a", "--lab", "b"],
        2,
        &["cannot be used with"],
    );
    assert_refused(&["switch", "run", "--config", "x"], 2, &["--port"]);
    assert_refused(&["host", "run", "--dev", "x"], 2, &["--send", "--receive"]);
    assert_refused(&["lab", "run"], 2, &["<FILE>"]);
}

#[test]
fn a_missing_configuration_proposes_all_presets() {
    let base = ["switch", "run", "--port", "Ethernet0=lo"];
    let mut words = vec!["--config <FILE>", "--preset <"];
    words.extend(xoff_config::PRESETS.iter().map(|(name, _)| *name));
    assert_refused(&base, 2, &words);
    // An unknown preset lists the presets too.
    let unknown = [&base[..], &["--preset", "roce"]].concat();
    assert_refused(&unknown, 2, &words[2..]);
}

#[test]
fn an_invalid_port_exits_with_2_and_shows_the_syntax() {
    let run = |port: &str, words: &[&str]| {
        assert_refused(&["switch", "run", "--config", "x", "--port", port], 2, words);
    };
    run("Ethernet0", &["'=' is missing", "Ethernet0=veth0"]);
    run("swp1=veth0", &["ports are named Ethernet0"]);
    run("Ethernet0=", &["1 to 15 bytes"]);
    run(
        "Ethernet0=veth0,backend=dpdk",
        &["auto, packet, tap, pnet and xdp"],
    );
}

#[test]
fn a_repeated_port_or_device_exits_with_2() {
    let ports = |a, b| ["switch", "run", "--config", "x", "--port", a, "--port", b];
    assert_refused(
        &ports("Ethernet0=a", "Ethernet0=b"),
        2,
        &["error: port Ethernet0 is given twice", "\n  where: ", "\n  fix: "],
    );
    assert_refused(
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
fn numbers_out_of_range_exit_with_2() {
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
        assert_refused(&arguments, 2, &[option[0]]);
    }
    assert_refused(
        &["host", "run", "--dev", "x", "--send", "10.0.0.2,class=9"],
        2,
        &["class is '9'", "0 to 7"],
    );
    assert_refused(
        &["host", "run", "--dev", "x", "--receive", "--duration", "20"],
        2,
        &["20s"],
    );
}

#[test]
fn an_unwritable_report_path_is_refused_before_the_run() {
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
        assert_refused(&arguments, 2, &["the file cannot be written", "--report", "fix:"]);
        assert_refused(&["lab", "run", "x", "--report", report], 2, &["--report"]);
    }
}

#[test]
fn an_unreadable_or_invalid_configuration_exits_with_4() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |config: &str, words: &[&str]| {
        assert_refused(
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
    run(&write_file(folder.path(), "garbage", "\u{1}{{{"), &["not JSON"]);
    run(&write_file(folder.path(), "list", "[1, 2]"), &["object"]);
    run(&write_file(folder.path(), "table", r#"{"PROT": {}}"#), &["PROT"]);
    let wrong = r#"{"PORT": {"Ethernet0": {"speed": "fast", "mtu": "1"}}}"#;
    run(
        &write_file(folder.path(), "values", wrong),
        &["Ethernet0", "speed", "\"fast\"", "mtu"],
    );
}

#[test]
fn apply_reads_the_configuration_before_it_connects() {
    let folder = tempfile::tempdir().expect("a folder");
    let garbage = write_file(folder.path(), "garbage", "no");
    assert_refused(
        &["config", "apply", &garbage, "--api", "/no/such/socket"],
        4,
        &["not JSON", &garbage],
    );
    let good = write_file(folder.path(), "good", "{}");
    assert_refused(
        &["config", "apply", &good, "--api", "/no/such/socket"],
        3,
        &["no running switch answers"],
    );
}

#[test]
fn a_missing_device_exits_with_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = write_file(folder.path(), "config", "{}");
    let arguments = [
        "switch",
        "run",
        "--config",
        &config,
        "--port",
        "Ethernet0=xoff-none",
    ];
    assert_refused(&arguments, 3, &["Ethernet0", "xoff-none", "ip link"]);
    assert_refused(
        &["host", "run", "--dev", "xoff-none", "--receive"],
        3,
        &["xoff-none"],
    );
}

#[test]
fn a_control_socket_without_a_switch_exits_with_3_and_a_hint() {
    for command in [&["show", "counters"][..], &["config", "get"]] {
        let api = [command, &["--api", "/no/such/socket"]].concat();
        assert_refused(
            &api,
            3,
            &["no running switch answers", "/no/such/socket", "xoff switch run"],
        );
        let lab = [command, &["--lab", "no-such-lab"]].concat();
        assert_refused(&lab, 2, &["no-such-lab", "xoff lab up"]);
    }
}

#[test]
fn an_invalid_lab_file_exits_with_4() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_refused(
        &["lab", "run", "/no/such/lab.xoff.yml"],
        4,
        &["/no/such/lab.xoff.yml"],
    );
    let file = write_file(
        folder.path(),
        "bad.xoff.yml",
        "name: x\ntopology: {nodes: {a: {kind: toaster}}}\n",
    );
    assert_refused(&["lab", "run", &file], 4, &["toaster"]);
    assert_refused(
        &["lab", "down", "no-such-lab"],
        2,
        &["no-such-lab", "xoff lab ls"],
    );
}

#[test]
fn doctor_and_ls_print_json() {
    let doctor = run_command(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    assert_eq!(json["schema"], "xoff.doctor/1");
    let checks = json["checks"].as_array().expect("checks");
    let names: std::collections::BTreeSet<&str> =
        checks.iter().filter_map(|check| check["name"].as_str()).collect();
    assert_eq!(names.len(), checks.len(), "each check is reported once: {json}");
    let can = json["can_run_labs"].as_bool().expect("a verdict");
    assert_eq!(doctor.code, Some(if can { 0 } else { 3 }));
    for check in json["checks"].as_array().expect("checks") {
        let good = check["status"] == "ok";
        assert_eq!(good, check["fix"].is_null(), "what is not ok has a fix: {check}");
    }
    let labs = run_command(&["lab", "ls", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&labs.stdout).expect("JSON");
    assert!(json["labs"].is_array(), "{json}");
}

#[test]
fn a_closed_output_pipe_is_no_error() {
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
    let good = write_file(
        folder.path(),
        "good.json",
        r#"{"PORT": {"Ethernet0": {"fec": "rs"}}}"#,
    );
    let members: Vec<String> = (0..30)
        .map(|n| format!(r#""Vlan7|Ethernet{n}": {{"tagging_mode": "tagged"}}"#))
        .collect();
    let bad = write_file(
        folder.path(),
        "bad.json",
        &format!(
            r#"{{"VLAN": {{"Vlan7": {{}}}}, "VLAN_MEMBER": {{{}}}}}"#,
            members.join(",")
        ),
    );

    let text = run_command(&["config", "check", &good]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(
        text.stdout.contains("good.json: valid; 1 port, 1 note\n"),
        "{text:?}"
    );
    assert!(text.stdout.contains("  note: no effect: PORT fec"), "{text:?}");

    let mtus: Vec<String> = (0..30)
        .map(|n| format!(r#""Ethernet{n}": {{"mtu": "x{n}"}}"#))
        .collect();
    let many = write_file(
        folder.path(),
        "many.json",
        &format!(r#"{{"PORT": {{{}}}}}"#, mtus.join(",")),
    );
    let text = run_command(&["config", "check", &good, &bad, &many, "/nonexistent.json"]);
    assert_eq!(text.code, Some(4));
    for name in ["bad.json", "many.json"] {
        let summary = format!("{name}: not valid; 30 errors\n");
        assert!(text.stdout.contains(&summary), "{text:?}");
    }
    // Missing ports share one line. Other errors have a line each, up to 20 lines.
    assert_eq!(text.stdout.matches("there are no ports").count(), 1, "{text:?}");
    assert_eq!(
        text.stdout.matches("expected a whole number").count(),
        20,
        "{text:?}"
    );
    assert!(
        text.stdout
            .contains("  error: and 10 more errors; JSON output has all\n")
    );
    assert!(text.stdout.contains("/nonexistent.json: not valid; 1 error\n"));

    let json = run_command(&["config", "check", &good, &bad, "--format", "json"]);
    assert_eq!(json.code, Some(4));
    let value: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(value["valid"], false);
    assert_eq!(value["files"][0]["valid"], true);
    assert_eq!(value["files"][1]["errors"].as_array().map(Vec::len), Some(30));
    assert_eq!(value["files"][1]["errors"][7]["key"], "Vlan7|Ethernet7");

    let ports: Vec<String> = (0..30).map(|n| format!("--port=Ethernet{n}")).collect();
    let mut with_ports = vec!["config", "check", &bad];
    with_ports.extend(ports.iter().map(String::as_str));
    assert_eq!(run_command(&with_ports).code, Some(0));
}

#[test]
fn unfinished_messages_have_the_names_of_the_lab() {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbeds/fabrics/permutation.xoff.yml");
    let lab = lab.to_str().expect("text");
    let result = run_command(&["lab", "run", lab, "--virtual", "--until", "100us"]);
    assert_eq!(result.code, Some(1), "{result:?}");
    let messages: Vec<&str> = result
        .stdout
        .lines()
        .filter(|line| line.contains(" bytes, posted "))
        .collect();
    assert!(!messages.is_empty(), "{result:?}");
    for message in messages {
        let names = message.trim().split(':').next().unwrap_or_default();
        let are_hosts = names.split(" to ").all(|name| {
            let number = name
                .strip_prefix('h')
                .and_then(|number| number.parse::<u32>().ok());
            number.is_some_and(|number| (1..=16).contains(&number))
        });
        assert!(are_hosts, "{message}");
    }
}

#[test]
fn the_version_has_a_number_and_a_commit() {
    let version = run_command(&["--version"]);
    let words: Vec<&str> = version.stdout.split_whitespace().collect();
    assert_eq!(&words[..2], ["xoff", env!("CARGO_PKG_VERSION")]);
    if let Some(commit) = words.get(2) {
        assert_eq!(commit.len(), 14, "{commit}");
    }
}

#[test]
fn completions_and_manual_pages_are_printed_and_written() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run_command(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{shell}");
        assert!(script.stdout.contains("tune-buffers"), "{shell}");
    }
    let page = run_command(&["man"]);
    assert!(page.stdout.contains(".TH xoff 1"), "{}", page.stdout);
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let result = run_command(&["man", "--dir", pages.to_str().expect("text")]);
    assert_eq!((result.code, result.stdout.as_str()), (Some(0), ""), "{result:?}");
    for page in ["xoff.1", "xoff-lab-run.1", "xoff-show-interfaces-status.1"] {
        assert!(pages.join(page).is_file(), "{page}");
    }
    assert_refused(&["completions", "ksh"], 2, &["ksh"]);
}
