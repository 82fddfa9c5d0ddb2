//! LLDP and DCBX of a running switch with independent implementations: lldpd, the LLDP layer of scapy, and tshark.
//!
//! Each test has its own network namespace. A test is skipped if its programs are not installed.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};

use libtest_mimic::{Completion, Failed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{CompletionTest, KernelFeatures, check, check_equal, run_serially, wait_for};
use xoff_ports::net::{LinkChange, add_veth, set_link};

const TESTS: &[CompletionTest] = &[
    (
        "lldpd_and_the_switch_read_each_other",
        KernelFeatures::Netns,
        lldpd_and_the_switch_read_each_other,
    ),
    (
        "the_switch_reads_or_rejects_tlvs_of_scapy",
        KernelFeatures::Netns,
        the_switch_reads_or_rejects_tlvs_of_scapy,
    ),
];

/// A willing switch port. The port sends a frame every 5 s.
const CONFIG: &str = r#"{
    "DEVICE_METADATA": {"localhost": {"hostname": "tor0", "mac": "02:00:00:00:10:00"}},
    "PORT": {"Ethernet0": {"alias": "etp1", "description": "to the peer"}},
    "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.1.0.1/32": {}},
    "LLDP": {"GLOBAL": {"hello_time": "5", "multiplier": "2"}},
    "XOFF_DCBX": {"Ethernet0": {"pfc_willing": "true", "ets_willing": "true", "applications": "udp:4791:3"}}}"#;

fn main() -> ExitCode {
    run_serially(TESTS)
}

/// A process that is stopped at the end of the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // An error for an ended process is ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A switch with one port on a veth pair. The far end is `h0`. All frames are recorded.
struct RunningSwitch {
    folder: tempfile::TempDir,
    process: Process,
}

impl RunningSwitch {
    fn start() -> Result<RunningSwitch, Failed> {
        let folder = tempfile::tempdir()?;
        add_veth("v0", "h0", None, 1500)?;
        let up = LinkChange {
            up: Some(true),
            ..LinkChange::default()
        };
        set_link("h0", &up)?;
        fs::write(folder.path().join("config.json"), CONFIG)?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_xoff"))
            .current_dir(folder.path())
            .args([
                "switch",
                "run",
                "--config",
                "config.json",
                "--api",
                "api",
                "--pcap",
                "all.pcapng",
            ])
            .args(["--port", "Ethernet0=v0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let stdout = child.stdout.as_mut().ok_or("no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let process = Process(child);
        check(line.starts_with("ready"), || format!("not ready: {line:?}"))?;
        Ok(RunningSwitch { folder, process })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn show(&self, words: &[&str]) -> Result<String, Failed> {
        let output = Command::new(env!("CARGO_BIN_EXE_xoff"))
            .current_dir(self.folder.path())
            .arg("show")
            .args(words)
            .args(["--api", "api"])
            .output()?;
        check(output.status.success(), || format!("{words:?}: {output:?}"))?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the LLDP state of the port.
    fn lldp(&self) -> Result<Value, Failed> {
        let report: Value = serde_json::from_str(&self.show(&["lldp", "neighbors", "--json"])?)?;
        Ok(report["ports"][0].clone())
    }

    fn wait_for_neighbour(&self, name: &str) -> Result<Value, Failed> {
        wait_for(name, || {
            let port = self.lldp()?;
            let neighbours = port["neighbours"].as_array().cloned().unwrap_or_default();
            Ok(neighbours
                .into_iter()
                .find(|neighbour| neighbour["system_name"] == name))
        })
    }

    /// Returns the priorities with PFC in operation, by the control API.
    fn pfc_enabled(&self) -> Result<Vec<bool>, Failed> {
        let counters: Value = serde_json::from_str(&self.show(&["counters", "--json"])?)?;
        Ok(serde_json::from_value(
            counters["switch"]["ports"][0]["pfc_enabled"].clone(),
        )?)
    }

    /// Stops the switch. Then tshark decodes all LLDP frames of the recording and finds no malformed field.
    fn stop_and_decode(mut self) -> Result<(), Failed> {
        kill(Pid::from_raw(self.process.0.id() as i32), Signal::SIGINT)?;
        self.process.0.wait()?;
        let decode = |filter: &str, fields: &[&str]| -> Result<String, Failed> {
            let mut tshark = Command::new("tshark");
            tshark.arg("-r").arg(self.path("all.pcapng")).args(["-Y", filter]);
            if !fields.is_empty() {
                tshark.args(["-T", "fields"]);
            }
            for field in fields {
                tshark.args(["-e", field]);
            }
            let output = tshark.output()?;
            check(output.status.success(), || format!("{output:?}"))?;
            Ok(String::from_utf8(output.stdout)?)
        };
        let own = "lldp && eth.src == 02:00:00:00:10:01";
        let malformed = decode(&format!("{own} && (_ws.malformed || _ws.expert)"), &[])?;
        check_equal(malformed.as_str(), "", "malformed fields")?;
        let fields = [
            "lldp.tlv.system.name",
            "lldp.port.id",
            "lldp.time_to_live",
            "lldp.dcbx.ieee.app.prio",
            "lldp.dcbx.ieee.pfc.numtcs",
        ];
        let text = decode(own, &fields)?;
        let first = text.lines().next().ok_or("the switch sent no frame")?.to_owned();
        check_equal(
            first.as_str(),
            "tor0\tetp1\t11\t3\t8",
            "the first frame in tshark",
        )
    }
}

/// Returns the reason why a program cannot be used. `None`: it can.
fn missing_program(command: &str, arguments: &[&str]) -> Option<String> {
    let tried = Command::new(command)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match tried {
        Ok(status) if status.success() => None,
        _ => Some(format!("{command} {} does not work", arguments.join(" "))),
    }
}

/// Runs `lldpcli` with the socket of a running lldpd.
fn lldpcli(socket: &Path, words: &[&str]) -> Result<Output, Failed> {
    Ok(Command::new("lldpcli")
        .arg("-u")
        .arg(socket)
        .args(words)
        .output()?)
}

/// lldpd and the switch exchange frames. DCBX TLVs of lldpd are custom TLVs.
fn lldpd_and_the_switch_read_each_other() -> Result<Completion, Failed> {
    let missing = [("lldpd", &["-v"][..]), ("lldpcli", &["-v"]), ("tshark", &["-v"])];
    if let Some(reason) = missing
        .iter()
        .find_map(|(name, words)| missing_program(name, words))
    {
        return Ok(Completion::ignored_with(reason));
    }
    let switch = RunningSwitch::start()?;
    let socket = switch.path("lldpd.socket");
    let _lldpd = Process(
        Command::new("lldpd")
            .args(["-d", "-I", "h0", "-S", "description of lldpd", "-u"])
            .arg(&socket)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?,
    );
    wait_for("lldpd", || {
        Ok(lldpcli(&socket, &["show", "configuration"])?
            .status
            .success()
            .then_some(()))
    })?;
    let configure = |words: &str| -> Result<(), Failed> {
        let words: Vec<&str> = words.split(' ').collect();
        let output = lldpcli(&socket, &words)?;
        check(output.status.success(), || format!("{output:?}"))
    };
    configure("configure system hostname peer0")?;
    // PFC of priority 3, not willing, and an application priority.
    configure("configure lldp custom-tlv add oui 00,80,c2 subtype 11 oui-info 08,08")?;
    configure("configure lldp custom-tlv add oui 00,80,c2 subtype 12 oui-info 00,63,12,b7")?;
    configure("update")?;
    wait_for("PFC of lldpd", || Ok(switch.pfc_enabled()?[3].then_some(())))?;
    let neighbour = switch.wait_for_neighbour("peer0")?;
    check_equal(
        &neighbour["system_description"],
        &"description of lldpd".into(),
        "description",
    )?;
    check_equal(
        &neighbour["dcbx"]["pfc_enabled"],
        &serde_json::json!([3]),
        "PFC of lldpd",
    )?;
    let applications = serde_json::json!(["UDP or DCCP port 4791: priority 3"]);
    check_equal(
        &neighbour["dcbx"]["applications"],
        &applications,
        "applications of lldpd",
    )?;
    check_equal(&neighbour["rejected"], &serde_json::json!([]), "rejected TLVs")?;
    let table = switch.show(&["lldp", "table"])?;
    check(
        table.contains("peer0") && table.ends_with("Total entries displayed:  1\n"),
        || table.clone(),
    )?;

    let seen = wait_for("the switch in lldpd", || {
        let output = lldpcli(&socket, &["-f", "json0", "show", "neighbors", "details"])?;
        let seen = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(seen.contains("tor0").then_some(seen))
    })?;
    for text in [
        "02:00:00:00:10:00",
        "etp1",
        "to the peer",
        "10.1.0.1",
        "Bridge",
        "00,80,C2",
    ] {
        check(seen.contains(text), || format!("no {text} in {seen}"))?;
    }
    switch.stop_and_decode()?;
    Ok(Completion::Completed)
}

/// The program that sends frames with scapy: valid DCBX TLVs, a PFC TLV that is too long, two PFC TLVs, ETS shares of
/// 90 percent, and a frame without a port ID.
const SCAPY: &str = r#"
import sys
from scapy.all import Ether, sendp
from scapy.contrib.lldp import *
mac = "02:00:00:00:00:02"
def tlv(subtype, data):
    return LLDPDUGenericOrganisationSpecific(org_code=0x0080c2, subtype=subtype, data=data)
def tables(first, second):
    return bytes([0, 0x00, 0x01, 0, 0, first, second, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0])
cases = {
    "valid": [tlv(11, b"\x08\x10"), tlv(9, tables(60, 40)), tlv(10, tables(70, 30))],
    "long": [tlv(11, b"\x08\x08\x00")],
    "twice": [tlv(11, b"\x08\x08"), tlv(11, b"\x08\x10")],
    "shares": [tlv(9, tables(50, 40)), tlv(11, b"\x08\x08")],
}
for name in sys.argv[1:]:
    frame = Ether(dst="01:80:c2:00:00:0e", src=mac)
    frame /= LLDPDUChassisID(subtype=4, id=mac)
    if name != "incomplete":
        frame /= LLDPDUPortID(subtype=7, id=b"scapy")
    frame /= LLDPDUTimeToLive(ttl=60) / LLDPDUSystemName(system_name=name.encode())
    for one in cases.get(name, []):
        frame /= one
    frame /= LLDPDUEndOfLLDPDU()
    sendp(frame, iface="h0", verbose=False)
"#;

fn the_switch_reads_or_rejects_tlvs_of_scapy() -> Result<Completion, Failed> {
    let scapy = ["-c", "import scapy.contrib.lldp"];
    if let Some(reason) = missing_program("python3", &scapy).or_else(|| missing_program("tshark", &["-v"])) {
        return Ok(Completion::ignored_with(reason));
    }
    let switch = RunningSwitch::start()?;
    let send = |name: &str| -> Result<(), Failed> {
        let output = Command::new("python3").args(["-c", SCAPY, name]).output()?;
        check(output.status.success(), || format!("{output:?}"))
    };
    send("valid")?;
    let neighbour = switch.wait_for_neighbour("valid")?;
    check_equal(
        &neighbour["dcbx"]["pfc_enabled"],
        &serde_json::json!([4]),
        "PFC of scapy",
    )?;
    check_equal(
        &neighbour["dcbx"]["ets"]["bandwidth_percent"][0],
        &60.into(),
        "ETS of scapy",
    )?;
    let dcbx = switch.lldp()?["dcbx"].clone();
    check_equal(&dcbx["pfc_enabled"], &serde_json::json!([4]), "PFC in operation")?;
    check_equal(
        &dcbx["ets"]["bandwidth_percent"][0],
        &70.into(),
        "ETS in operation",
    )?;
    check_equal(
        switch.pfc_enabled()?,
        (0..8).map(|n| n == 4).collect(),
        "PFC of the data plane",
    )?;

    for (name, problem) in [
        ("long", "PFC configuration: length in bytes is 7, expected 6"),
        ("twice", "PFC configuration: number of TLVs is 2, expected 1"),
        (
            "shares",
            "ETS configuration: sum of the bandwidth of the ETS classes is 90, expected 100 percent",
        ),
    ] {
        send(name)?;
        let neighbour = switch.wait_for_neighbour(name)?;
        let rejected = neighbour["rejected"][0].as_str().unwrap_or_default();
        check(rejected.starts_with(problem), || format!("{name}: {neighbour}"))?;
        let expected = usize::from(name == "shares");
        let enabled = switch
            .pfc_enabled()?
            .into_iter()
            .filter(|enabled| *enabled)
            .count();
        check_equal(enabled, expected, name)?;
    }
    send("incomplete")?;
    wait_for("the discarded frame", || {
        let port = switch.lldp()?;
        let is_named = port["last_problem"]
            .as_str()
            .is_some_and(|problem| problem.starts_with("port ID"));
        Ok((port["frames_discarded"] == 1 && is_named).then_some(()))
    })?;
    switch.stop_and_decode()?;
    Ok(Completion::Completed)
}
