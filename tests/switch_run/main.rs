//! Tests of `xoff switch run` on veth pairs in its own namespace, from `ready` to the report.

mod hosts;
#[path = "../support/mod.rs"]
mod support;
mod tables;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::Arc;

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{NamedTest, check, check_equal, run_in_namespaces, wait_for};
use xoff_measure::dut::{FrameSize, RealDut, TrafficPattern};
use xoff_ports::net::{add_veth, delete_link};
use xoff_units::Picos;

const TESTS: &[NamedTest] = &[
    (
        "a_switch_runs_answers_and_ends_with_a_report",
        a_switch_runs_answers_and_ends_with_a_report,
    ),
    (
        "a_new_configuration_is_applied_completely_or_not_at_all",
        a_new_configuration_is_applied_completely_or_not_at_all,
    ),
    (
        "a_field_that_is_set_to_its_computed_value_is_written",
        a_field_that_is_set_to_its_computed_value_is_written,
    ),
    (
        "a_control_socket_in_use_is_not_replaced",
        a_control_socket_in_use_is_not_replaced,
    ),
    (
        "a_host_that_awaits_frames_and_receives_none_is_not_clean",
        hosts::a_host_that_awaits_frames_and_receives_none_is_not_clean,
    ),
    (
        "a_host_whose_receivers_do_not_answer_fails",
        hosts::a_host_whose_receivers_do_not_answer_fails,
    ),
    (
        "a_port_that_the_user_shuts_down_causes_no_warning",
        a_port_that_the_user_shuts_down_causes_no_warning,
    ),
    (
        "empty_tables_say_what_is_empty_and_why",
        tables::empty_tables_say_what_is_empty_and_why,
    ),
    (
        "an_idle_switch_ends_with_zero_and_says_no_traffic",
        an_idle_switch_ends_with_zero_and_says_no_traffic,
    ),
    (
        "a_switch_that_drops_long_lossless_frames_fails",
        a_switch_that_drops_long_lossless_frames_fails,
    ),
    (
        "hosts_at_both_ports_exchange_frames",
        hosts::hosts_at_both_ports_exchange_frames,
    ),
    (
        "router_tables_are_shown_and_follow_the_configuration",
        tables::router_tables_are_shown_and_follow_the_configuration,
    ),
    (
        "a_bench_finds_at_once_that_no_device_connects_its_ports",
        a_bench_finds_at_once_that_no_device_connects_its_ports,
    ),
    (
        "json_output_of_a_switch_and_of_a_host_is_one_document",
        json_output_of_a_switch_and_of_a_host_is_one_document,
    ),
];

fn main() -> ExitCode {
    run_in_namespaces(TESTS)
}

/// A switch with two ports on veth pairs. The far ends are `h0` and `h1`.
struct RunningSwitch {
    folder: tempfile::TempDir,
    child: Child,
}

impl RunningSwitch {
    fn start() -> Result<RunningSwitch, Failed> {
        RunningSwitch::start_with("{}")
    }

    fn start_with(config: &str) -> Result<RunningSwitch, Failed> {
        let folder = tempfile::tempdir()?;
        add_veth("v0", "h0", None, 1500)?;
        add_veth("v1", "h1", None, 1500)?;
        fs::write(folder.path().join("config.json"), config)?;
        let mut child = xoff_command()
            .current_dir(folder.path())
            .args([
                "switch",
                "run",
                "--config",
                "config.json",
                "--api",
                "api",
                "--report",
                "report.json",
            ])
            .args(["--port", "Ethernet0=v0", "--port", "Ethernet4=v1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.as_mut().ok_or("no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let switch = RunningSwitch { folder, child };
        check(line.starts_with("ready"), || format!("not ready: {line:?}"))?;
        Ok(switch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command that connects to this switch.
    fn run_command(&self, words: &[&str]) -> Result<Output, Failed> {
        Ok(xoff_command()
            .current_dir(self.folder.path())
            .args(words)
            .args(["--api", "api"])
            .output()?)
    }

    fn run_json_command(&self, words: &[&str]) -> Result<Value, Failed> {
        let output = self.run_command(words)?;
        check_equal(output.status.code(), Some(0), "exit code")?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Interrupts the switch. Returns its exit code and what it printed after its start.
    fn interrupt(&mut self) -> Result<(Option<i32>, String), Failed> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT)?;
        let mut printed = String::new();
        let stdout = self.child.stdout.as_mut().ok_or("no standard output")?;
        stdout.read_to_string(&mut printed)?;
        Ok((self.child.wait()?.code(), printed))
    }

    /// Interrupts the switch. Returns its exit code and report.
    fn stop(mut self) -> Result<(Option<i32>, Value), Failed> {
        let (code, _) = self.interrupt()?;
        check(!self.path("api").exists(), || {
            "the control socket is still there".to_owned()
        })?;
        Ok((
            code,
            serde_json::from_slice(&fs::read(self.path("report.json"))?)?,
        ))
    }
}

impl Drop for RunningSwitch {
    fn drop(&mut self) {
        // A failed check leaves the process running. An error for an ended process is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn xoff_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
}

fn a_port_that_the_user_shuts_down_causes_no_warning() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    for action in ["shutdown", "startup", "shutdown"] {
        let output = switch.run_command(&["config", "interface", action, "Ethernet4"])?;
        check_equal(output.status.code(), Some(0), action)?;
        check_equal(String::from_utf8_lossy(&output.stderr).as_ref(), "", action)?;
    }
    // Changes of other fields do not repeat a warning about the port.
    fs::write(
        switch.path("down.json"),
        r#"{"PORT": {"Ethernet4": {"admin_status": "down", "speed": "2500"}}}"#,
    )?;
    let output = switch.run_command(&["config", "apply", "down.json"])?;
    check_equal(output.status.code(), Some(0), "config apply")?;
    check_equal(
        String::from_utf8_lossy(&output.stderr).as_ref(),
        "",
        "config apply",
    )
}

fn an_idle_switch_ends_with_zero_and_says_no_traffic() -> Result<(), Failed> {
    let mut switch = RunningSwitch::start()?;
    let (code, printed) = switch.interrupt()?;
    let is_tainted = printed.contains("verdict: tainted");
    check(
        is_tainted || (code == Some(0) && printed.contains("; no traffic")),
        || format!("{code:?}: {printed}"),
    )
}

/// Sends 20 frames of 1466 bytes with DSCP 26 into a port whose MTU is 1000. In `{}` no class is lossless.
fn a_switch_that_drops_long_lossless_frames_fails() -> Result<(), Failed> {
    const LOSSLESS: &str = r#"{
        "PORT": {"Ethernet0": {"mtu": "1000"}, "Ethernet4": {"mtu": "1000"}},
        "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "M", "tc_to_pg_map": "M", "pfc_enable": "3"}},
        "DSCP_TO_TC_MAP": {"M": {"26": "3"}}, "TC_TO_PRIORITY_GROUP_MAP": {"M": {"3": "3"}},
        "BUFFER_POOL": {"in": {"type": "ingress", "mode": "dynamic", "size": "10000000", "xoff": "5000000"}},
        "BUFFER_PROFILE": {"p": {"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "4000000", "xon": "18432"}},
        "BUFFER_PG": {"Ethernet0|3": {"profile": "p"}}}"#;
    const LOSSY: &str = r#"{"PORT": {"Ethernet0": {"mtu": "1000"}, "Ethernet4": {"mtu": "1000"}}}"#;
    for (config, code, words) in [
        (
            LOSSLESS,
            1,
            "20 frames of the lossless class 3 longer than the MTU",
        ),
        (LOSSY, 0, "verdict: clean"),
    ] {
        let mut switch = RunningSwitch::start_with(config)?;
        let flow = "10.0.0.2,mac=02:00:00:00:00:02,rate=10%,frames=20,frame=1466,dscp=26";
        let sender = xoff_command()
            .args(["host", "run", "--dev", "h0", "--ip", "10.0.0.1", "--send", flow])
            .output()?;
        check(matches!(sender.status.code(), Some(0 | 5)), || {
            format!("{sender:?}")
        })?;
        wait_for("the port counts the long frames", || {
            let counters = switch.run_json_command(&["show", "counters", "--json"])?;
            let drops = &counters["switch"]["ports"][0]["drops"];
            let count = |name: &str| drops[name].as_u64().unwrap_or(0);
            Ok((count("XOFF_OVERSIZED") + count("EXCEEDS_L2_MTU") >= 20).then_some(()))
        })?;
        let (ended, printed) = switch.interrupt()?;
        check(
            printed.contains("verdict: tainted") || ended == Some(code),
            || format!("{ended:?}: {printed}"),
        )?;
        check(
            printed.contains("verdict: tainted") || printed.contains(words),
            || printed.clone(),
        )?;
        check(
            printed.contains("longer than the MTU") || printed.contains("tainted"),
            || printed.clone(),
        )?;
        drop(switch);
        delete_link("v0")?;
        delete_link("v1")?;
    }
    Ok(())
}

/// Returns the expected exit code of a run: 5 for a tainted report, 0 otherwise.
fn expected_exit_code(report: &Value) -> Option<i32> {
    Some(if report["verdict"] == "clean" { 0 } else { 5 })
}

fn a_switch_runs_answers_and_ends_with_a_report() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    let counters = switch.run_json_command(&["show", "counters", "--json"])?;
    check_equal(counters["schema"].as_str(), Some("xoff.counters/1"), "schema")?;
    let ports = &counters["switch"]["ports"];
    check_equal(ports[0]["device"].as_str(), Some("v0"), "device")?;
    check_equal(ports[1]["up"].as_bool(), Some(true), "link")?;
    let table = switch.run_command(&["show", "counters", "--clear-watermarks"])?;
    let text = String::from_utf8(table.stdout)?;
    check(
        text.contains("Port Rx    PFC0") && text.contains("Ethernet4"),
        || text.clone(),
    )?;
    let (code, report) = switch.stop()?;
    check_equal(report["schema"].as_str(), Some("xoff.report/1"), "schema")?;
    check_equal(code, expected_exit_code(&report), "exit code")
}

fn a_new_configuration_is_applied_completely_or_not_at_all() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    let good = r#"{"PORT": {"Ethernet0": {"speed": "10000"}, "Ethernet4": {}}}"#;
    fs::write(switch.path("good.json"), good)?;
    fs::write(switch.path("bad.json"), good.replace("10000", "fast"))?;

    let bad = switch.run_command(&["config", "apply", "bad.json"])?;
    check_equal(
        bad.status.code(),
        Some(4),
        "exit code of an invalid configuration",
    )?;
    let words = String::from_utf8(bad.stderr)?;
    check(words.contains("bad.json") && words.contains("speed"), || {
        words.clone()
    })?;

    let dry = switch.run_command(&["config", "apply", "good.json", "--dry-run"])?;
    let words = String::from_utf8(dry.stdout)?;
    check(words.contains("10000") && words.contains("none made"), || {
        words.clone()
    })?;
    check_equal(
        switch.run_json_command(&["config", "get"])?["PORT"]["Ethernet0"]["speed"].as_str(),
        None,
        "speed so far",
    )?;

    check_equal(
        switch
            .run_command(&["config", "apply", "good.json"])?
            .status
            .code(),
        Some(0),
        "exit code",
    )?;
    let config = switch.run_json_command(&["config", "get"])?;
    check_equal(
        config["PORT"]["Ethernet0"]["speed"].as_str(),
        Some("10000"),
        "speed in force",
    )?;
    let counters = switch.run_json_command(&["show", "counters", "--json"])?;
    check_equal(
        counters["switch"]["ports"][0]["speed_mbps"].as_u64(),
        Some(10_000),
        "speed of the port",
    )?;
    switch.stop().map(|_| ())
}

fn a_field_that_is_set_to_its_computed_value_is_written() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    let mtu = |words: &[&str]| -> Result<Option<String>, Failed> {
        let config = switch.run_json_command(words)?;
        Ok(config["PORT"]["Ethernet0"]["mtu"].as_str().map(str::to_owned))
    };
    // The MTU of the device is the MTU of the port, and nobody has written it.
    check_equal(
        mtu(&["config", "get"])?.as_deref(),
        Some("1500"),
        "the computed MTU",
    )?;
    check_equal(
        mtu(&["config", "get", "--written"])?,
        None,
        "the written MTU before",
    )?;
    let output = switch.run_command(&["config", "set", "PORT|Ethernet0", "mtu=1500"])?;
    let text = String::from_utf8(output.stdout)?;
    check(
        text.contains("+PORT|Ethernet0 mtu \"1500\"\n1 change made"),
        || text.clone(),
    )?;
    check_equal(
        mtu(&["config", "get", "--written"])?.as_deref(),
        Some("1500"),
        "the written MTU after",
    )?;
    switch.stop().map(|_| ())
}

fn a_control_socket_in_use_is_not_replaced() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    add_veth("v2", "h2", None, 1500)?;
    let other = switch.run_command(&[
        "switch",
        "run",
        "--config",
        "config.json",
        "--port",
        "Ethernet0=v2",
    ])?;
    check_equal(other.status.code(), Some(3), "exit code")?;
    let words = String::from_utf8(other.stderr)?;
    check(words.contains("another process answers"), || words.clone())?;
    switch.run_json_command(&["config", "get"])?;
    switch.stop().map(|_| ())
}

fn a_bench_finds_at_once_that_no_device_connects_its_ports() -> Result<(), Failed> {
    let switch = RunningSwitch::start()?;
    let devices = ["h0", "h1"].map(str::to_owned);
    let mut dut = RealDut::open(&devices, 1_000, 26, Arc::default())?;
    let streams = TrafficPattern::Pairs.streams(2, FrameSize::Fixed(64), 1.0, Picos::from_millis(1));
    check_equal(
        dut.find_silent_streams(&streams)?,
        Vec::<String>::new(),
        "streams that the switch does not forward",
    )?;
    switch.stop()?;
    // The far ends are still up, but nothing is between them.
    let silent = ["h0 to h1", "h1 to h0"].map(str::to_owned).to_vec();
    check_equal(
        dut.find_silent_streams(&streams)?,
        silent,
        "streams without a path",
    )?;
    for bench in ["ndr", "latency"] {
        let output = xoff_command()
            .args(["bench", bench, "--ports", "h0,h1", "--sizes", "64", "--json"])
            .output()?;
        let text = String::from_utf8(output.stderr)?;
        check_equal(output.status.code(), Some(5), &text)?;
        let cause = "no frame arrives from h0 to h1, from h1 to h0";
        check(text.contains(cause), || format!("no {cause:?} in {text}"))?;
        let error: Value = serde_json::from_slice(&output.stdout)?;
        check_equal(error["error"].as_str(), Some(cause), bench)?;
    }
    Ok(())
}

fn json_output_of_a_switch_and_of_a_host_is_one_document() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    add_veth("v0", "h0", None, 1500)?;
    add_veth("v1", "h1", None, 1500)?;
    fs::write(folder.path().join("config.json"), "{}")?;
    let mut switch = xoff_command()
        .current_dir(folder.path())
        .args(["switch", "run", "--config", "config.json", "--json"])
        .args(["--port", "Ethernet0=v0", "--port", "Ethernet4=v1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let mut notes = BufReader::new(switch.stderr.take().ok_or("no standard error")?);
    while !line.starts_with("ready") {
        line.clear();
        check(notes.read_line(&mut line)? > 0, || {
            "the switch is not ready".to_owned()
        })?;
    }
    let host = xoff_command()
        .args([
            "host",
            "run",
            "--dev",
            "h0",
            "--receive",
            "--duration",
            "50ms",
            "--format",
            "json",
        ])
        .output()?;
    let report: Value = serde_json::from_slice(&host.stdout)?;
    check_equal(
        report["schema"].as_str(),
        Some("xoff.report/1"),
        "schema of the host",
    )?;
    kill(Pid::from_raw(switch.id() as i32), Signal::SIGTERM)?;
    let output = switch.wait_with_output()?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    check_equal(
        report["schema"].as_str(),
        Some("xoff.report/1"),
        "schema of the switch",
    )?;
    check_equal(output.status.code(), expected_exit_code(&report), "exit code")
}
