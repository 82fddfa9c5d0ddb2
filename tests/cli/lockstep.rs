//! `xoff conform` in lock step: the model host, mutants, and MACs in Python and C.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{CommandResult, assert_refused, run_command};

/// A program that is killed at the end.
pub(super) struct Peer(Child);

impl Peer {
    pub(super) fn start(command: &mut Command) -> Peer {
        Peer(command.stdin(Stdio::null()).spawn().expect("the program starts"))
    }

    /// Waits for the end of the program. Returns whether it succeeded.
    pub(super) fn succeeds(&mut self) -> bool {
        self.0.wait().expect("the program ends").success()
    }

    /// The model device at a socket.
    fn model(socket: &str, options: &[&str]) -> Peer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
        command.args(["conform", "device", "--lockstep", socket]);
        Peer::start(command.args(options))
    }

    /// The MAC in Python.
    fn python(socket: &str, defect: &str) -> Peer {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/xoff-lockstep");
        let mut command = Command::new("python3");
        command.arg(folder.join("examples/toy_mac.py")).arg(socket);
        command.args(Some(defect).filter(|defect| !defect.is_empty()));
        command.env("PYTHONPATH", folder.join("src"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Peer::start(&mut command)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn socket_in(folder: &tempfile::TempDir) -> String {
    folder.path().join("mac.sock").to_str().expect("text").to_owned()
}

pub(super) fn run_in_lockstep(socket: &str, options: &[&str]) -> CommandResult {
    run_command(&[&["conform", "run", "--json", "--lockstep", socket], options].concat())
}

/// Returns the checks of a JSON report, each with its result, detail and time.
pub(super) fn checks(result: &CommandResult) -> Vec<[String; 4]> {
    let report: Value =
        serde_json::from_str(&result.stdout).unwrap_or_else(|_| panic!("no JSON: {result:?}"));
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    let fields = ["id", "outcome", "detail", "model_time_ns"];
    let field = |check: &Value, name: &str| match &check[name] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    checks
        .iter()
        .map(|check| fields.map(|name| field(check, name)))
        .collect()
}

pub(super) fn outcome<'a>(checks: &'a [[String; 4]], id: &str) -> &'a str {
    let check = checks.iter().find(|check| check[0] == id);
    check.map_or("missing", |check| check[1].as_str())
}

#[test]
fn the_model_host_in_lock_step_has_the_results_and_times_of_virtual_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = socket_in(&folder);
    let options = ["--scale", "0.05", "A", "B3", "B7", "B10", "C"];
    let _peer = Peer::model(&socket, &[]);
    let lockstep = run_in_lockstep(&socket, &options);
    let expected = run_command(&[&["conform", "run", "--json", "--virtual"], &options[..]].concat());
    assert_eq!((lockstep.code, expected.code), (Some(0), Some(0)), "{lockstep:?}");
    assert_eq!(checks(&lockstep), checks(&expected));
    assert_eq!(
        outcome(&checks(&lockstep), "A17"),
        "pass",
        "also with a wrong FCS"
    );
    assert!(!Path::new(&socket).exists(), "the socket remains");
}

#[test]
fn a_mutant_in_lock_step_fails_its_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = socket_in(&folder);
    let _peer = Peer::model(&socket, &["--shared-memory"]);
    let run = run_in_lockstep(&socket, &["A5", "A6", "--mutant", "adds-timers"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let checks = checks(&run);
    assert_eq!((outcome(&checks, "A5"), outcome(&checks, "A6")), ("pass", "fail"));
}

/// Asserts that pauses of 100, 1000, 30000 and 65535 quanta last exactly this time: 51.2 us for 100 quanta.
fn assert_exact_release(checks: &[[String; 4]]) {
    let a5 = checks.iter().find(|check| check[0] == "A5").expect("A5");
    let expected = [
        "T=100: 51.200 us (quanta: 100.0)",
        "T=1000: 512.000 us (quanta: 1000.0)",
        "T=30000: 15.360 ms (quanta: 30000.0)",
        "T=65535: 33.554 ms (quanta: 65535.0)",
    ];
    assert_eq!(a5[2], expected.join(", "));
}

#[test]
fn a_mac_in_python_passes_and_its_defects_fail() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `python3`");
        return;
    }
    for (defect, selected, expected) in [
        (
            "",
            &["A1", "A5", "A6", "A8", "A17", "B3", "C1"][..],
            &["pass", "pass", "pass", "pass", "pass", "pass", "skip"][..],
        ),
        ("ignores-fcs", &["A17"], &["fail"]),
        ("adds-times", &["A5", "A6"], &["pass", "fail"]),
        ("any-class", &["A8"], &["fail"]),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = socket_in(&folder);
        let _peer = Peer::python(&socket, defect);
        let run = run_in_lockstep(&socket, selected);
        let found = checks(&run);
        let outcomes: Vec<&str> = selected.iter().map(|id| outcome(&found, id)).collect();
        assert_eq!(outcomes, expected, "{defect}: {run:?}");
        if defect.is_empty() {
            assert_exact_release(&found);
        }
    }
}

#[test]
fn the_matrix_in_lock_step_runs_each_mutant_on_its_own_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = socket_in(&folder);
    let _peer = Peer::model(&socket, &[]);
    let matrix = run_command(&["conform", "matrix", "--lockstep", &socket, "A6", "A17", "B3"]);
    assert_eq!(matrix.code, Some(0), "{matrix:?}");
    for line in [
        "model host: A17 PASS",
        "adds-timers: A6 FAIL",
        "accepts-bad-fcs: A17 FAIL",
    ] {
        assert!(matrix.stderr.contains(line), "{line}: {matrix:?}");
    }
}

#[test]
fn a_mac_in_c_passes_and_its_defect_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.path().join("c_mac");
    let compiler = Command::new("cc")
        .args([
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-std=c99",
            "-D_POSIX_C_SOURCE=200809L",
            "-I",
        ])
        .arg(root.join("include"))
        .arg(root.join("examples/lockstep/c_mac.c"))
        .arg("-o")
        .arg(&program)
        .status();
    match compiler {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no C compiler `cc`");
            return;
        }
        status => assert!(status.expect("the compiler starts").success()),
    }
    for (arguments, expected) in [
        (&[][..], ["pass", "pass", "pass", "skip"]),
        (&["memory"], ["pass", "pass", "pass", "skip"]),
        (&["ignores-vector"], ["pass", "pass", "fail", "skip"]),
    ] {
        let socket = socket_in(&folder);
        let _peer = Peer::start(Command::new(&program).arg(&socket).args(arguments));
        let run = run_in_lockstep(&socket, &["--speed", "10g", "A4", "A5", "A8", "A13"]);
        let checks = checks(&run);
        assert_eq!(
            ["A4", "A5", "A8", "A13"].map(|id| outcome(&checks, id)),
            expected,
            "{run:?}"
        );
        // The check starts at the clock edge at which the request took effect.
        let a5 = checks.iter().find(|check| check[0] == "A5").expect("A5");
        assert!(a5[2].starts_with("T=135: 6912 ns (quanta: 135.0)"), "{a5:?}");
    }
}

/// Returns the bytes of a message without a payload.
fn message(kind: u8, code: u16, fields: [u64; 3]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, kind, 0];
    bytes.extend_from_slice(&code.to_le_bytes());
    fields
        .iter()
        .for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
    bytes
}

/// Runs checks on a peer that sends bytes after its HELLO and its answer to the first reset.
fn run_on_bytes(bytes: Vec<u8>, closes: bool) -> CommandResult {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = socket_in(&folder);
    let path = socket.clone();
    let peer = std::thread::spawn(move || {
        let mut stream = loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut started = message(6, 2, [0; 3]);
        started[0] = 6;
        started.extend_from_slice(&[2; 6]);
        let hello = message(1, 1, [0, 0, u64::from_le_bytes(*b"xofflock")]);
        // The peer answers the resets of the name and of the preflight.
        for part in [hello, started.clone(), started, bytes] {
            let _ = stream.write_all(&part);
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut answer = Vec::new();
        if !closes {
            let _ = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    });
    let run = run_command(&[
        "conform",
        "run",
        "A1",
        "--lockstep",
        &socket,
        "--lockstep-timeout",
        "0.5",
    ]);
    let answer = peer.join().expect("the peer does not panic");
    CommandResult {
        stderr: run.stderr + &answer,
        ..run
    }
}

#[test]
fn a_peer_that_breaks_the_rules_ends_the_run_with_the_reason() {
    let grant = |time: u64, count: u64| message(3, 0, [time, time, count]);
    // The run has sent one request. A grant that counts it cannot be taken back.
    let back = [grant(2_000, 1), grant(1_000, 1)].concat();
    for (bytes, closes, reason) in [
        (
            back,
            false,
            "goes back in time: a grant of 1000 ps follows a grant of 2000 ps",
        ),
        (
            grant(5, 9),
            false,
            "sends a grant that counts 9 received messages",
        ),
        (message(9, 0, [0; 3]), false, "no message has the kind 9"),
        (Vec::new(), true, "closed the connection without a BYE message"),
        (Vec::new(), false, "the peer sends nothing for 500ms"),
    ] {
        let run = run_on_bytes(bytes, closes);
        assert_eq!(run.code, Some(3), "{reason}: {run:?}");
        assert!(run.stderr.contains(reason), "{reason}: {run:?}");
        assert!(
            run.stderr.contains("where: --lockstep") && run.stderr.contains("fix: "),
            "{run:?}"
        );
        assert!(!run.stdout.contains("PASS"), "{run:?}");
    }
}

#[test]
fn a_socket_without_a_peer_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = socket_in(&folder);
    for command in ["run", "device", "matrix"] {
        assert_refused(
            &[
                "conform",
                command,
                "--lockstep",
                &socket,
                "--lockstep-timeout",
                "0.1",
            ],
            3,
            &[
                "no peer appears within 100ms",
                "where: --lockstep",
                "fix: start the peer",
            ],
        );
    }
    assert!(!Path::new(&socket).exists());
    assert_refused(
        &[
            "conform",
            "run",
            "--lockstep",
            "/nonexistent/s",
            "--lockstep-timeout",
            "1",
        ],
        3,
        &["cannot be created", "fix: give the path"],
    );
    assert_refused(
        &["conform", "run", "--lockstep", &socket, "--virtual"],
        2,
        &["cannot be used with"],
    );
}
