//! Tests of `xoff conform run --port` on veth pairs in their own namespaces.

mod support;

use std::fs;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{NamedTest, check, check_equal, run_in_namespaces, wait_for};
use xoff_ports::net::add_veth;

const TESTS: &[NamedTest] = &[
    ("the_model_device_passes_checks", the_model_device_passes_checks),
    (
        "a_failed_check_has_a_capture_and_a_picture",
        a_failed_check_has_a_capture_and_a_picture,
    ),
    (
        "a_linux_host_does_not_honour_pfc",
        a_linux_host_does_not_honour_pfc,
    ),
    (
        "a_device_that_is_not_connected_proves_nothing",
        a_device_that_is_not_connected_proves_nothing,
    ),
    (
        "a_bridge_that_swallows_mac_control_ends_the_run",
        a_bridge_that_swallows_mac_control_ends_the_run,
    ),
    (
        "a_far_host_that_cannot_be_reached_is_an_error",
        a_far_host_that_cannot_be_reached_is_an_error,
    ),
    (
        "a_run_without_a_far_host_names_the_commands",
        a_run_without_a_far_host_names_the_commands,
    ),
    (
        "a_port_without_a_link_is_an_error",
        a_port_without_a_link_is_an_error,
    ),
    (
        "a_silent_far_host_does_not_prevent_an_interruption",
        a_silent_far_host_does_not_prevent_an_interruption,
    ),
    (
        "an_interrupted_run_prints_the_checks_before",
        an_interrupted_run_prints_the_checks_before,
    ),
    (
        "the_variables_of_the_kernel_selftests_replace_options",
        the_variables_of_the_kernel_selftests_replace_options,
    ),
];

fn main() -> ExitCode {
    run_in_namespaces(TESTS)
}

/// Returns the command `xoff conform run` with words. The variables of selftests are not set.
fn conform_run(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command.args(["conform", "run"]).args(line.split(' '));
    for variable in ["NETIF", "REMOTE_TYPE", "REMOTE_ARGS", "REMOTE_V4", "REMOTE_V6"] {
        command.env_remove(variable);
    }
    command
}

/// Creates the connected devices `c0` and `c1`.
fn connect_devices() -> Result<(), Failed> {
    Ok(add_veth("c0", "c1", None, 1_500)?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the outcome of each check in a JSON report.
fn outcomes(output: &Output) -> Result<Vec<(String, String)>, Failed> {
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", text(&output.stderr)))?;
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    let field = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    Ok(checks
        .iter()
        .map(|check| (field(check, "id"), field(check, "outcome")))
        .collect())
}

/// Checks that each check has an outcome, or that the machine was too noisy.
fn check_outcomes(output: &Output, expected: &[(&str, &str)]) -> Result<(), Failed> {
    let found = outcomes(output)?;
    check_equal(found.len(), expected.len(), "number of checks")?;
    for ((id, outcome), (expected_id, expected_outcome)) in found.iter().zip(expected) {
        let is_right = outcome == expected_outcome || outcome == "inconclusive";
        check(id == expected_id && is_right, || {
            format!(
                "{id} is {outcome}, expected {expected_outcome}: {}",
                text(&output.stdout)
            )
        })?;
    }
    Ok(())
}

fn the_model_device_passes_checks() -> Result<(), Failed> {
    connect_devices()?;
    let output = conform_run("--port c0 --device model:c1 --json A1 A8 A17 B3 C5 C6").output()?;
    check_outcomes(
        &output,
        &[
            ("A1", "pass"),
            ("A8", "pass"),
            ("A17", "skip"),
            ("B3", "pass"),
            ("C5", "pass"),
            ("C6", "pass"),
        ],
    )?;
    check(matches!(output.status.code(), Some(0 | 5)), || {
        format!("{output:?}")
    })
}

fn a_failed_check_has_a_capture_and_a_picture() -> Result<(), Failed> {
    connect_devices()?;
    let folder = tempfile::tempdir()?;
    let captures = folder.path().join("captures");
    let page = folder.path().join("report.html");
    let line = format!(
        "--port c0 --device model:c1 --mutant zero-source --json --captures {} --html {} B3",
        captures.display(),
        page.display()
    );
    let output = conform_run(&line).output()?;
    check_outcomes(&output, &[("B3", "fail")])?;
    check(std::fs::read_to_string(&page)?.contains("<svg"), || {
        "no picture".to_owned()
    })?;
    if output.status.code() == Some(1) {
        let capture = std::fs::read(captures.join("B3.pcapng"))?;
        check(capture.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), || {
            "the capture is no pcapng file".to_owned()
        })?;
    }
    Ok(())
}

fn a_linux_host_does_not_honour_pfc() -> Result<(), Failed> {
    if Command::new("python3").arg("--version").output().is_err() {
        return Ok(());
    }
    connect_devices()?;
    let output = conform_run("--port c0 --device plain:c1 --json A5 B11").output()?;
    check_outcomes(&output, &[("A5", "fail"), ("B11", "pass")])?;
    check(text(&output.stdout).contains("Linux host, device c1"), || {
        "the name of the device is missing".to_owned()
    })
}

fn a_device_that_is_not_connected_proves_nothing() -> Result<(), Failed> {
    connect_devices()?;
    add_veth("d0", "d1", None, 1_500)?;
    let output = conform_run("--port c0 --device model:d1 A1").output()?;
    check_equal(output.status.code(), Some(5), &text(&output.stdout))?;
    check(text(&output.stdout).contains("The run proves nothing"), || {
        text(&output.stdout)
    })
}

fn a_bridge_that_swallows_mac_control_ends_the_run() -> Result<(), Failed> {
    add_veth("c0", "b0", None, 1_500)?;
    add_veth("c1", "b1", None, 1_500)?;
    for words in [
        "link add br0 type bridge",
        "link set br0 up",
        "link set b0 master br0",
        "link set b1 master br0",
    ] {
        let status = Command::new("ip").args(words.split(' ')).status()?;
        check(status.success(), || words.to_owned())?;
    }
    let output = conform_run("--port c0 --device model:c1 A1").output()?;
    check_equal(output.status.code(), Some(3), &text(&output.stdout))?;
    check(text(&output.stdout).contains("preflight failed"), || {
        text(&output.stdout)
    })?;
    let output = conform_run("--port b0 --device model:c1 A1").output()?;
    check_equal(output.status.code(), Some(3), "a port of a bridge")?;
    check(text(&output.stderr).contains("belongs to br0"), || {
        text(&output.stderr)
    })
}

fn a_far_host_that_cannot_be_reached_is_an_error() -> Result<(), Failed> {
    connect_devices()?;
    for (adapter, message) in [
        ("exec:false", "has ended"),
        ("netns:no-such-namespace", "has ended"),
        ("exec:echo", "wrong answer"),
    ] {
        let line = format!("--port c0 --device model:c1 --adapter {adapter} A1");
        let output = conform_run(&line).output()?;
        check_equal(output.status.code(), Some(3), adapter)?;
        check(text(&output.stderr).contains(message), || text(&output.stderr))?;
    }
    Ok(())
}

fn a_run_without_a_far_host_names_the_commands() -> Result<(), Failed> {
    connect_devices()?;
    let output = conform_run("--port c0 --json A1 B11").output()?;
    check_outcomes(&output, &[("A1", "skip"), ("B11", "pass")])?;
    check_equal(
        output.status.code(),
        Some(5),
        "nothing shows that there is a device",
    )?;
    check(text(&output.stderr).contains("--adapter ssh:"), || {
        text(&output.stderr)
    })
}

/// Waits until a process ends. The process is stopped after a time in which it ends on every machine.
fn wait_for_end(mut child: Child) -> Result<Output, Failed> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            return Err("the run does not end".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(child.wait_with_output()?)
}

fn a_port_without_a_link_is_an_error() -> Result<(), Failed> {
    connect_devices()?;
    for (device, message) in [("c1", "the link of c0 is down"), ("c0", "the device c0 is down")] {
        let status = Command::new("ip")
            .args(["link", "set", device, "down"])
            .status()?;
        check(status.success(), || device.to_owned())?;
        let output = conform_run("--port c0 --device model:c1 A1").output()?;
        check_equal(output.status.code(), Some(3), message)?;
        check(text(&output.stderr).contains(message), || text(&output.stderr))?;
        check_equal(text(&output.stdout), String::new(), "no check is reported")?;
    }
    Ok(())
}

/// The far host reads no requests, so its pipe is full after a few of them.
fn a_silent_far_host_does_not_prevent_an_interruption() -> Result<(), Failed> {
    connect_devices()?;
    let child = conform_run("--port c0 --device plain:c1 --adapter")
        .args(["exec:exec sleep 600 #", "A1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    wait_for_child_of(&child)?;
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT)?;
    let output = wait_for_end(child)?;
    check_equal(output.status.code(), Some(130), &text(&output.stderr))?;
    check(!text(&output.stdout).contains("PASS"), || text(&output.stdout))
}

/// Waits until a process has a child process.
fn wait_for_child_of(parent: &Child) -> Result<(), Failed> {
    let tasks = format!("/proc/{}/task", parent.id());
    wait_for("a child process", || {
        let mut children = String::new();
        for task in fs::read_dir(&tasks)?.flatten() {
            // A thread can have ended since.
            children += &fs::read_to_string(task.path().join("children")).unwrap_or_default();
        }
        Ok((!children.is_empty()).then_some(()))
    })
}

fn an_interrupted_run_prints_the_checks_before() -> Result<(), Failed> {
    connect_devices()?;
    let child = conform_run("--port c0 --device model:c1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    std::thread::sleep(Duration::from_millis(1_500));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT)?;
    let output = wait_for_end(child)?;
    check_equal(output.status.code(), Some(130), "exit code")?;
    check(text(&output.stdout).contains("interrupted after"), || {
        text(&output.stdout)
    })
}

fn the_variables_of_the_kernel_selftests_replace_options() -> Result<(), Failed> {
    connect_devices()?;
    let output = conform_run("A1")
        .env("NETIF", "c0")
        .env("REMOTE_V4", "192.0.2.1")
        .env("REMOTE_TYPE", "netns")
        .env("REMOTE_ARGS", "no-such-namespace")
        .output()?;
    check_equal(output.status.code(), Some(3), "exit code")?;
    check(
        text(&output.stderr).contains("netns exec no-such-namespace"),
        || text(&output.stderr),
    )?;
    let output = conform_run("A1")
        .env("NETIF", "c0")
        .env("REMOTE_TYPE", "telnet")
        .output()?;
    check_equal(output.status.code(), Some(2), "an adapter that does not exist")
}
