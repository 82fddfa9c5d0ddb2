//! Tests of `--pcap`: recordings of the ports of a running switch, in files that other programs can read.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{NamedTest, check, check_equal, run_in_namespaces, wait_for};
use xoff_capture::{CapturedFrame, Direction, Reader};
use xoff_ports::net::add_veth;

const TESTS: &[NamedTest] = &[
    (
        "recordings_contain_all_frames_of_the_ports",
        recordings_contain_all_frames_of_the_ports,
    ),
    (
        "a_killed_run_leaves_a_readable_recording",
        a_killed_run_leaves_a_readable_recording,
    ),
    (
        "a_lab_records_the_ports_of_its_switch",
        a_lab_records_the_ports_of_its_switch,
    ),
];

/// Number of frames that the sender sends.
const FRAME_COUNT: usize = 300;

fn main() -> ExitCode {
    run_in_namespaces(TESTS)
}

fn xoff_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
}

/// A recording switch between `h0` and `h1`.
struct RecordingSwitch {
    folder: tempfile::TempDir,
    child: Child,
}

impl RecordingSwitch {
    fn start(recordings: &[&str]) -> Result<RecordingSwitch, Failed> {
        let folder = tempfile::tempdir()?;
        add_veth("v0", "h0", None, 1500)?;
        add_veth("v1", "h1", None, 1500)?;
        fs::write(folder.path().join("config.json"), "{}")?;
        let mut child = xoff_command()
            .current_dir(folder.path())
            .args([
                "switch",
                "run",
                "--config",
                "config.json",
                "--report",
                "report.json",
            ])
            .args(["--port", "Ethernet0=v0", "--port", "Ethernet4=v1"])
            .args(recordings)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().ok_or("no standard output")?).read_line(&mut line)?;
        let recording = RecordingSwitch { folder, child };
        check(line.starts_with("ready"), || format!("not ready: {line:?}"))?;
        Ok(recording)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sends RoCEv2 from `h0` to `h1`. The receiver answers ARP only.
    fn send_roce_frames(&self) -> Result<(), Failed> {
        let mut receiver = xoff_command()
            .args(["host", "run", "--dev", "h1", "--ip", "10.0.0.2", "--receive"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(receiver.stdout.as_mut().ok_or("no standard output")?).read_line(&mut line)?;
        let flow = format!("10.0.0.2,rate=10%,frames={FRAME_COUNT}");
        let sender = xoff_command()
            .args(["host", "run", "--dev", "h0", "--ip", "10.0.0.1", "--send", &flow])
            .output();
        // Stop the receiver before any check, so that it never outlives the test.
        kill(Pid::from_raw(receiver.id() as i32), Signal::SIGTERM)?;
        receiver.wait()?;
        check(matches!(sender?.status.code(), Some(0 | 5)), || {
            "the sender failed".to_owned()
        })
    }

    fn stop(&mut self) -> Result<Value, Failed> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT)?;
        self.child.wait()?;
        Ok(serde_json::from_slice(&fs::read(self.path("report.json"))?)?)
    }
}

impl Drop for RecordingSwitch {
    fn drop(&mut self) {
        // A failed check leaves the process running. An error for an ended process is ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the interface names and the frames. A file without its end is read up to that point.
fn read_recording(file: &Path) -> Result<(Vec<String>, Vec<CapturedFrame>), Failed> {
    let mut reader = Reader::new(BufReader::new(fs::File::open(file)?))?;
    let mut records = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break,
            Err(error) if error.ends_capture() => break,
            Err(error) => return Err(error.into()),
        }
    }
    let names = reader
        .interfaces()
        .iter()
        .map(|is| is.name.clone().unwrap_or_default());
    Ok((names.collect(), records))
}

fn recordings_contain_all_frames_of_the_ports() -> Result<(), Failed> {
    let begun_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64;
    let mut switch = RecordingSwitch::start(&["--pcap", "all.pcapng", "--pcap", "Ethernet0=one.pcapng"])?;
    switch.send_roce_frames()?;
    let report = switch.stop()?;
    let ended_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64;
    let (names, all) = read_recording(&switch.path("all.pcapng"))?;
    check_equal(
        names,
        vec!["Ethernet0".to_owned(), "Ethernet4".to_owned()],
        "interfaces",
    )?;
    for (index, port) in report["switches"][0]["ports"]
        .as_array()
        .ok_or("no ports")?
        .iter()
        .enumerate()
    {
        check_equal(port["pcap_missed"].as_u64(), Some(0), "frames missed")?;
        for (direction, counters) in [
            (Direction::Inbound, ["rx_packets", "pfc_rx_frames"]),
            (Direction::Outbound, ["tx_packets", "pfc_tx_frames"]),
        ] {
            let seen = all
                .iter()
                .filter(|r| r.interface == index && r.direction == direction)
                .count() as u64;
            let counted: u64 = counters.iter().filter_map(|name| port[name].as_u64()).sum();
            check_equal(seen, counted, &format!("{direction:?} on {}", port["name"]))?;
        }
    }
    check(
        all.iter()
            .all(|r| r.at_ns.is_some_and(|at| (begun_ns..ended_ns).contains(&at))),
        || "a stamp that is not of the test".to_owned(),
    )?;
    let passed = |interface, direction| -> Vec<&[u8]> {
        let here = all
            .iter()
            .filter(move |r| r.interface == interface && r.direction == direction);
        // Only RoCEv2 is compared, because the kernel sends its own frames on its ends of the cables at any
        // time.
        let roce = here.filter(|r| r.data.get(36..38) == Some(&[0x12, 0xb7]));
        roce.map(|r| &r.data[..]).collect()
    };
    let (came, left) = (passed(0, Direction::Inbound), passed(1, Direction::Outbound));
    check(
        came.len() >= FRAME_COUNT || report["verdict"] == "tainted",
        || format!("{} frames came", came.len()),
    )?;
    check_equal(left, came, "what left of what came")?;
    let (_, one) = read_recording(&switch.path("one.pcapng"))?;
    let of_one: Vec<_> = one.iter().map(|r| (r.at_ns, r.direction, &r.data)).collect();
    let of_all = all
        .iter()
        .filter(|r| r.interface == 0)
        .map(|r| (r.at_ns, r.direction, &r.data));
    check_equal(of_one, of_all.collect(), "the recording of one port")?;
    // Replay the recorded input through a switch in virtual time.
    let output = xoff_command()
        .current_dir(switch.folder.path())
        .args(["replay", "all.pcapng", "--out", "again.pcapng", "--json"])
        .output()?;
    check_equal(output.status.code(), Some(0), "the replay's exit code")?;
    let again: Value = serde_json::from_slice(&output.stdout)?;
    let inbound = all.iter().filter(|r| r.direction == Direction::Inbound).count() as u64;
    check_equal(
        again["frames"]["offered"].as_u64(),
        Some(inbound),
        "frames replayed",
    )
}

fn a_killed_run_leaves_a_readable_recording() -> Result<(), Failed> {
    let mut switch = RecordingSwitch::start(&["--pcap", "all.pcapng", "--pcap-snaplen", "64"])?;
    switch.send_roce_frames()?;
    let file = switch.path("all.pcapng");
    let enough = |records: &[CapturedFrame]| records.iter().filter(|r| r.len > 1_000).count() >= FRAME_COUNT;
    wait_for("the recording follows", || {
        Ok(enough(&read_recording(&file)?.1).then_some(()))
    })?;
    kill(Pid::from_raw(switch.child.id() as i32), Signal::SIGKILL)?;
    switch.child.wait()?;
    let (_, records) = read_recording(&file)?;
    check(enough(&records), || format!("{} frames", records.len()))?;
    check(records.iter().all(|r| r.data.len() <= 64), || {
        "more than the snap length".to_owned()
    })
}

fn a_lab_records_the_ports_of_its_switch() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let lab = "name: pcap-test\ntopology:\n  nodes:\n    sw1: {kind: switch}\n    h1: {kind: model}\n    h2: {kind: model}\n  \
               links:\n    - {endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"]}\n    - {endpoints: [\"h2:eth0\", \
               \"sw1:Ethernet4\"]}\nworkload:\n  duration: 500ms\n  flows:\n    - {name: f, from: h1, to: h2, rate: 10m}\n";
    fs::write(folder.path().join("x.xoff.yml"), lab)?;
    let output = xoff_command()
        .current_dir(folder.path())
        .args(["lab", "run", "x.xoff.yml", "--pcap", "sw1:Ethernet4=to-h2.pcapng"])
        .output()?;
    check(matches!(output.status.code(), Some(0 | 5)), || {
        format!("{output:?}")
    })?;
    let (names, records) = read_recording(&folder.path().join("to-h2.pcapng"))?;
    check_equal(names, vec!["Ethernet4".to_owned()], "interfaces")?;
    let long = records
        .iter()
        .filter(|r| r.direction == Direction::Outbound && r.len > 1_000)
        .count();
    check(long > 100, || format!("{long} frames of the flow"))
}
