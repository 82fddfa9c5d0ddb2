//! `xoff switch run` on veth pairs in a namespace of its own: from `ready` to the report.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{Named, check, run_in_namespaces, same, wait_for};
use xoff_ports::net::add_veth;

const TESTS: &[Named] = &[
    (
        "runs_answers_and_ends_with_a_report",
        runs_answers_and_ends_with_a_report,
    ),
    (
        "a_new_configuration_is_taken_whole_or_not_at_all",
        a_new_configuration_is_taken_whole_or_not_at_all,
    ),
    (
        "a_live_control_socket_is_not_taken",
        a_live_control_socket_is_not_taken,
    ),
    (
        "hosts_on_both_sides_exchange_frames",
        hosts_on_both_sides_exchange_frames,
    ),
    (
        "a_routers_tables_are_shown_and_follow_its_configuration",
        a_routers_tables_are_shown_and_follow_its_configuration,
    ),
];

fn main() -> ExitCode {
    run_in_namespaces(TESTS)
}

/// A switch with two ports, each with a veth; its far ends are `h0` and `h1`.
struct Switch {
    folder: tempfile::TempDir,
    child: Child,
}

impl Switch {
    fn start() -> Result<Switch, Failed> {
        Switch::start_with("{}")
    }

    fn start_with(config: &str) -> Result<Switch, Failed> {
        let folder = tempfile::tempdir()?;
        add_veth("v0", "h0", None, 1500)?;
        add_veth("v1", "h1", None, 1500)?;
        fs::write(folder.path().join("config.json"), config)?;
        let mut child = xoff()
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
        let switch = Switch { folder, child };
        check(line.starts_with("ready"), || format!("not ready: {line:?}"))?;
        Ok(switch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command that speaks to this switch.
    fn ask(&self, words: &[&str]) -> Result<Output, Failed> {
        Ok(xoff()
            .current_dir(self.folder.path())
            .args(words)
            .args(["--api", "api"])
            .output()?)
    }

    fn ask_json(&self, words: &[&str]) -> Result<Value, Failed> {
        let output = self.ask(words)?;
        same(output.status.code(), Some(0), "exit code")?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Interrupts it; its exit code and report.
    fn end(mut self) -> Result<(Option<i32>, Value), Failed> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT)?;
        let code = self.child.wait()?.code();
        check(!self.path("api").exists(), || {
            "the control socket is still there".to_owned()
        })?;
        Ok((
            code,
            serde_json::from_slice(&fs::read(self.path("report.json"))?)?,
        ))
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // After a failed check; a process that has ended already is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn xoff() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
}

/// What a run that nothing disturbed exits with, or one that something did.
fn code_of(report: &Value) -> Option<i32> {
    Some(if report["verdict"] == "clean" { 0 } else { 5 })
}

fn runs_answers_and_ends_with_a_report() -> Result<(), Failed> {
    let switch = Switch::start()?;
    let counters = switch.ask_json(&["show", "counters", "--json"])?;
    same(counters["schema"].as_str(), Some("xoff.counters/1"), "schema")?;
    let ports = &counters["switch"]["ports"];
    same(ports[0]["device"].as_str(), Some("v0"), "device")?;
    same(ports[1]["up"].as_bool(), Some(true), "link")?;
    let table = switch.ask(&["show", "counters", "--clear-watermarks"])?;
    let text = String::from_utf8(table.stdout)?;
    check(
        text.contains("Port Rx    PFC0") && text.contains("Ethernet4"),
        || text.clone(),
    )?;
    let (code, report) = switch.end()?;
    same(report["schema"].as_str(), Some("xoff.report/1"), "schema")?;
    same(code, code_of(&report), "exit code")
}

fn a_new_configuration_is_taken_whole_or_not_at_all() -> Result<(), Failed> {
    let switch = Switch::start()?;
    let good = r#"{"PORT": {"Ethernet0": {"speed": "10000"}, "Ethernet4": {}}}"#;
    fs::write(switch.path("good.json"), good)?;
    fs::write(switch.path("bad.json"), good.replace("10000", "fast"))?;

    let bad = switch.ask(&["config", "apply", "bad.json"])?;
    same(
        bad.status.code(),
        Some(4),
        "exit code of an invalid configuration",
    )?;
    let words = String::from_utf8(bad.stderr)?;
    check(words.contains("bad.json") && words.contains("speed"), || {
        words.clone()
    })?;

    let dry = switch.ask(&["config", "apply", "good.json", "--dry-run"])?;
    let words = String::from_utf8(dry.stdout)?;
    check(words.contains("10000") && words.contains("none made"), || {
        words.clone()
    })?;
    same(
        switch.ask_json(&["config", "get"])?["PORT"]["Ethernet0"]["speed"].as_str(),
        None,
        "speed so far",
    )?;

    same(
        switch.ask(&["config", "apply", "good.json"])?.status.code(),
        Some(0),
        "exit code",
    )?;
    let config = switch.ask_json(&["config", "get"])?;
    same(
        config["PORT"]["Ethernet0"]["speed"].as_str(),
        Some("10000"),
        "speed in force",
    )?;
    let counters = switch.ask_json(&["show", "counters", "--json"])?;
    same(
        counters["switch"]["ports"][0]["speed_mbps"].as_u64(),
        Some(10_000),
        "speed of the port",
    )?;
    switch.end().map(|_| ())
}

fn a_live_control_socket_is_not_taken() -> Result<(), Failed> {
    let switch = Switch::start()?;
    add_veth("v2", "h2", None, 1500)?;
    let other = switch.ask(&[
        "switch",
        "run",
        "--config",
        "config.json",
        "--port",
        "Ethernet0=v2",
    ])?;
    same(other.status.code(), Some(3), "exit code")?;
    let words = String::from_utf8(other.stderr)?;
    check(words.contains("another process answers"), || words.clone())?;
    switch.ask_json(&["config", "get"])?;
    switch.end().map(|_| ())
}

fn hosts_on_both_sides_exchange_frames() -> Result<(), Failed> {
    let switch = Switch::start()?;
    let mut receiver = xoff()
        .current_dir(switch.folder.path())
        .args([
            "host",
            "run",
            "--dev",
            "h1",
            "--ip",
            "10.0.0.2",
            "--receive",
            "--report",
            "received.json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(receiver.stdout.as_mut().ok_or("no standard output")?).read_line(&mut line)?;
    let sender = xoff()
        .args([
            "host",
            "run",
            "--dev",
            "h0",
            "--ip",
            "10.0.0.1",
            "--send",
            "10.0.0.2,rate=10%,frames=200",
        ])
        .output();
    // The receiver is ended before anything is checked, so that it never outlives the test.
    kill(Pid::from_raw(receiver.id() as i32), Signal::SIGTERM)?;
    let code = receiver.wait()?.code();
    check(line.starts_with("ready"), || {
        format!("the receiver was not ready: {line:?}")
    })?;
    let sender = sender?;
    check(matches!(sender.status.code(), Some(0 | 5)), || {
        format!("{sender:?}")
    })?;
    let report: Value = serde_json::from_slice(&fs::read(switch.path("received.json"))?)?;
    same(code, code_of(&report), "the receiver's exit code")?;
    if report["verdict"] == "clean" {
        let flow = &report["flows"][0];
        same(flow["received_frames"].as_u64(), Some(200), "received")?;
        same(flow["icrc_errors"].as_u64(), Some(0), "damaged")?;
    }
    let sent = wait_for("the switch counts what it forwarded", || {
        let counters = switch.ask_json(&["show", "counters", "--json"])?;
        let port = &counters["switch"]["ports"][1];
        Ok(port["tx_packets"].as_u64().filter(|&count| count > 0))
    })?;
    check(sent > 0, || "nothing was forwarded".to_owned())?;
    switch.end().map(|_| ())
}

const ROUTER: &str = r#"{
    "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}, "Ethernet4": {}, "Ethernet4|10.0.0.2/31": {},
                  "Ethernet4|2001:db8::1/64": {}},
    "NEIGH": {"Ethernet0|10.0.0.1": {"neigh": "02:00:00:00:00:01"}, "Ethernet4|2001:db8::2": {"neigh": "02:00:00:00:00:02"}},
    "STATIC_ROUTE": {"0.0.0.0/0": {"nexthop": "10.0.0.1,10.0.0.3"}}}"#;

fn a_routers_tables_are_shown_and_follow_its_configuration() -> Result<(), Failed> {
    let switch = Switch::start_with(ROUTER)?;
    let shown = |words: &[&str]| -> Result<String, Failed> {
        let output = switch.ask(words)?;
        same(output.status.code(), Some(0), "exit code")?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let has = |text: &str, line: &str| check(text.contains(line), || format!("no {line:?} in:\n{text}"));
    wait_for("both interfaces up", || {
        let up = shown(&["show", "ip", "interfaces"])?.matches("up/up").count();
        Ok((up == 2).then_some(()))
    })?;
    has(
        &shown(&["show", "ip", "interfaces"])?,
        "Ethernet4              10.0.0.2/31          up/up",
    )?;
    has(&shown(&["show", "ipv6", "interfaces"])?, "2001:db8::1/64")?;
    has(
        &shown(&["show", "arp"])?,
        "10.0.0.1   02:00:00:00:00:01  Ethernet0  -\nTotal number of entries 1",
    )?;
    has(&shown(&["show", "ndp"])?, "PERMANENT")?;
    has(&shown(&["show", "mac"])?, "Total number of entries 0")?;
    let routes = shown(&["show", "ip", "route"])?;
    has(
        &routes,
        "\nS>* 0.0.0.0/0 [1/0] via 10.0.0.1, Ethernet0, weight 1, 00:00:",
    )?;
    has(
        &routes,
        "\n  *                 via 10.0.0.3, Ethernet4, weight 1, 00:00:",
    )?;
    has(
        &routes,
        "\nC>* 10.0.0.2/31 is directly connected, Ethernet4, weight 1, 00:00:",
    )?;
    has(
        &shown(&["show", "interfaces", "status"])?,
        "Ethernet0      N/A       1G   1500    N/A      N/A  routed      up       up",
    )?;
    has(&shown(&["show", "interfaces", "portchannel"])?, "Team Dev")?;
    let counters = switch.ask_json(&["show", "interfaces", "counters", "--json"])?;
    same(counters[1]["state"].as_str(), Some("U"), "state")?;

    fs::write(switch.path("less.json"), ROUTER.replace(",10.0.0.3", ""))?;
    same(
        switch.ask(&["config", "apply", "less.json"])?.status.code(),
        Some(0),
        "exit code",
    )?;
    let routes = switch.ask_json(&["show", "ip", "route", "--json"])?;
    same(routes[0]["prefix"].as_str(), Some("0.0.0.0/0"), "prefix")?;
    same(
        routes[0]["next_hops"].as_array().map(Vec::len),
        Some(1),
        "next hops",
    )?;

    fs::write(switch.path("bad.json"), ROUTER.replace("10.0.0.3", "10.0.5.3"))?;
    let refused = switch.ask(&["config", "apply", "bad.json"])?;
    same(refused.status.code(), Some(4), "exit code")?;
    has(
        &String::from_utf8(refused.stderr)?,
        "STATIC_ROUTE|0.0.0.0/0 nexthop \"10.0.5.3\": off-link",
    )?;
    switch.end().map(|_| ())
}
