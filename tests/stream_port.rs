//! Stream ports of `xoff switch run` and `xoff conform run`, with clients that speak the protocol of QEMU's `-netdev
//! stream`. The tests need no privileges.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use xoff_config::build_preset;
use xoff_control::ControlAddress;
use xoff_units::Picos;
use xoff_wire::mac_control::{MacControl, Pfc};

/// The lossless priority of the preset, and its DSCP.
const PRIORITY: usize = 3;
const DSCP: u8 = 26;
const FRAME_BYTES: usize = 1_000;
const SPEED_MBPS: u32 = 1_000;
/// Longest wait for a step of a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running switch with two stream ports.
struct StreamSwitch {
    folder: tempfile::TempDir,
    child: Child,
}

impl StreamSwitch {
    /// Starts a switch with this number of worker threads. With more than one, other threads own the ports.
    fn start(workers: &str) -> StreamSwitch {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = [
            ("Ethernet0".to_owned(), SPEED_MBPS),
            ("Ethernet4".to_owned(), SPEED_MBPS),
        ];
        let preset = build_preset("roce-lossless", &ports, Picos::from_millis(20)).expect("a preset");
        let mut config = preset.to_value();
        for (port, _) in &ports {
            config["PORT"][port]["mtu"] = json!("1500");
        }
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_xoff"))
            .current_dir(folder.path())
            .args([
                "switch",
                "run",
                "--config",
                "config.json",
                "--report",
                "report.json",
                "--api",
                "api",
                "--workers",
                workers,
            ])
            .args([
                "--port",
                "Ethernet0=stream:a.sock",
                "--port",
                "Ethernet4=stream:b.sock",
            ])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join("stderr")).expect("a file"))
            .spawn()
            .expect("xoff starts");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert!(
            line.starts_with("ready:"),
            "{line}{}",
            read(folder.path(), "stderr")
        );
        StreamSwitch { folder, child }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn connect(&self, socket: &str) -> Client {
        let stream = UnixStream::connect(self.path(socket)).expect("the port listens");
        stream.set_nonblocking(true).expect("a socket");
        Client {
            stream,
            received: Vec::new(),
            unsent: Vec::new(),
        }
    }

    /// Waits until the switch has this link state of the first port, and the second port is up.
    fn wait_for_link(&self, is_up: bool) {
        let api = ControlAddress::Path(self.path("api"));
        let mut control = xoff_control::Client::connect(&api).expect("the switch answers");
        wait_until("the state of the link", || {
            let ports = control.counters().expect("the switch answers").switch.ports;
            ports[0].up == is_up && ports[1].up
        });
    }

    /// Stops the switch. Returns its exit code, its report and its messages.
    fn stop(mut self) -> (Option<i32>, Value, String) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM).expect("it runs");
        let status = self.child.wait().expect("a child");
        for socket in ["a.sock", "b.sock"] {
            assert!(!self.path(socket).exists(), "{socket} remains");
        }
        let report = serde_json::from_str(&read(self.folder.path(), "report.json")).expect("a report");
        (status.code(), report, read(self.folder.path(), "stderr"))
    }
}

impl Drop for StreamSwitch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// A client that never waits for the switch.
struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
}

impl Client {
    /// Sends as much of a frame as the socket accepts. Returns false if bytes of an earlier frame still wait.
    fn send(&mut self, frame: &[u8]) -> bool {
        if !self.flush() {
            return false;
        }
        self.unsent.extend((frame.len() as u32).to_be_bytes());
        self.unsent.extend(frame);
        self.flush();
        true
    }

    /// Returns whether all bytes are sent.
    fn flush(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                    return false;
                }
            }
        }
        true
    }

    /// Returns the frames that have arrived completely.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut bytes = [0; 1 << 16];
        while let Ok(count) = self.stream.read(&mut bytes) {
            assert!(count > 0, "the switch has closed the connection");
            self.received.extend(&bytes[..count]);
        }
        let mut frames = Vec::new();
        let mut rest = &self.received[..];
        while let Some((length, after)) = rest.split_first_chunk::<4>()
            && let Some((frame, after)) = after.split_at_checked(u32::from_be_bytes(*length) as usize)
        {
            frames.push(frame.to_vec());
            rest = after;
        }
        self.received = rest.to_vec();
        frames
    }

    /// Returns whether the switch closes the connection within the wait.
    fn is_closed(&mut self) -> bool {
        wait_until("the end of the connection", || {
            matches!(self.stream.read(&mut [0; 4096]), Ok(0))
        });
        true
    }
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a UDP frame of the lossless class from station `from` to station `to`, with a number in its payload.
fn frame(from: u8, to: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    let total = (FRAME_BYTES - 14) as u16;
    frame.extend([0x45, DSCP << 2]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([0x12, 0xb7, 0x12, 0xb7]);
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(number.to_be_bytes());
    frame.resize(FRAME_BYTES, 0);
    frame
}

fn number_of(frame: &[u8]) -> u32 {
    frame[42..46]
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn pause(quanta: u16) -> Vec<u8> {
    let mut pfc = Pfc {
        enable: 1 << PRIORITY,
        ..Pfc::default()
    };
    pfc.quanta[PRIORITY] = quanta;
    MacControl::Pfc(pfc).to_frame([2; 6]).to_vec()
}

/// Sends a frame in each direction, so that the switch knows both stations. Both links are up.
fn exchange_frames(a: &mut Client, b: &mut Client) {
    let (from_a, from_b) = (frame(1, 2, 7), frame(2, 1, 8));
    assert!(a.send(&from_a));
    wait_until("a frame", || b.receive() == [&from_a[..]]);
    assert!(b.send(&from_b));
    wait_until("a frame", || a.receive() == [&from_b[..]]);
}

/// A stall of the machine taints a run, which then ends with code 5. All counters still agree.
fn assert_not_failed(code: Option<i32>, report: &Value, messages: &str) {
    assert!(matches!(code, Some(0 | 5)), "{code:?}: {report:#}\n{messages}");
}

#[test]
fn an_overloaded_lossless_class_loses_nothing_and_its_sender_waits() {
    ["1", "3"].into_iter().for_each(overload_lossless_class);
}

fn overload_lossless_class(workers: &str) {
    const FRAMES: u32 = 30_000;
    let switch = StreamSwitch::start(workers);
    let (mut a, mut b) = (switch.connect("a.sock"), switch.connect("b.sock"));
    switch.wait_for_link(true);
    exchange_frames(&mut a, &mut b);
    let (mut sent, mut received, mut waits) = (0, Vec::new(), 0);
    let end = Instant::now() + PATIENCE;
    let mut next_pause = Instant::now();
    let mut is_paused = false;
    while received.len() < FRAMES as usize {
        assert!(
            Instant::now() < end,
            "only {} of {sent} frames arrived",
            received.len()
        );
        while sent < FRAMES {
            if !a.send(&frame(1, 2, sent)) {
                waits += 1;
                break;
            }
            sent += 1;
        }
        a.flush();
        // The receiver pauses the class for 30 ms out of 40 ms. The last pause ends.
        if next_pause <= Instant::now() {
            is_paused = !is_paused && sent < FRAMES;
            b.send(&pause(if is_paused { u16::MAX } else { 0 }));
            next_pause = Instant::now() + Duration::from_millis(if is_paused { 30 } else { 10 });
        }
        received.extend(b.receive().iter().map(|frame| number_of(frame)));
        std::thread::sleep(Duration::from_micros(200));
    }
    assert!(
        received.iter().copied().eq(0..FRAMES),
        "frames are missing or out of order"
    );
    assert!(waits > 0, "the sender never waited");
    let (code, report, messages) = switch.stop();
    assert_not_failed(code, &report, &messages);
    let port = |index: usize| &report["switches"][0]["ports"][index];
    // One frame more was exchanged before.
    assert_eq!(port(0)["rx_packets"], FRAMES + 1, "{report:#}");
    assert_eq!(port(1)["tx_packets"], FRAMES + 1, "{report:#}");
    for index in [0, 1] {
        assert_eq!(port(index)["drops"], json!({}), "{report:#}");
        assert_eq!(port(index)["host_lost"], 0);
        assert_eq!(port(index)["stream"]["connections"], 1);
    }
    // The switch paused the sender by stopping its stream.
    let stream = &port(0)["stream"];
    assert!(stream["stops"].as_u64() > Some(0), "{stream}");
    assert!(stream["stopped_ns"].as_u64() > Some(0), "{stream}");
    assert!(port(0)["xoff_transitions"][PRIORITY].as_u64() > Some(0));
    assert_eq!(port(1)["stream"]["stops"], 0);
}

#[test]
fn a_peer_that_dies_or_breaks_the_protocol_is_reported_and_can_come_back() {
    let switch = StreamSwitch::start("1");
    let mut b = switch.connect("b.sock");
    for ending in [&[0, 0, 0, 0][..], &[0, 1, 0x10, 1], &[0, 0, 0, 60, 1, 2, 3]] {
        let mut a = switch.connect("a.sock");
        switch.wait_for_link(true);
        exchange_frames(&mut a, &mut b);
        let mut second = switch.connect("a.sock");
        assert!(second.is_closed());
        a.unsent.extend(ending);
        assert!(a.flush());
        // The last ending is an incomplete frame of a peer that dies.
        assert!(ending.len() > 4 || a.is_closed());
        drop(a);
        switch.wait_for_link(false);
    }
    let mut a = switch.connect("a.sock");
    switch.wait_for_link(true);
    exchange_frames(&mut a, &mut b);
    let (code, report, messages) = switch.stop();
    assert_eq!(code, Some(5), "a wrong length taints the run: {report:#}");
    let stream = &report["switches"][0]["ports"][0]["stream"];
    assert_eq!(stream["connections"], 4);
    assert_eq!(stream["refused_connections"], 3);
    assert_eq!(stream["wrong_lengths"], 2);
    assert_eq!(stream["truncated_frames"], 1);
    for expected in [
        "frame length 0;",
        "inside a frame, after 7 bytes",
        "refused a second connection",
    ] {
        assert!(messages.contains(expected), "{expected:?} is not in:\n{messages}");
    }
}

#[test]
fn conformance_checks_run_on_a_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("c.sock");
    let instrument = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["conform", "run", "A1", "--port"])
        .arg(format!("stream:{}", socket.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("xoff starts");
    let mut stream = None;
    wait_until("the stream of the instrument", || {
        stream = UnixStream::connect(&socket).ok();
        stream.is_some()
    });
    let mut received = Vec::new();
    // The stream ends with the instrument.
    stream
        .expect("connected")
        .read_to_end(&mut received)
        .expect("frames");
    let output = instrument.wait_with_output().expect("it ends");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    // This device has no program that could show what it does, so the run proves nothing.
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("-netdev stream,id=n0,server=off"), "{text}");
    let is_control = |at: usize| received.get(at + 16..at + 18) == Some(&[0x88, 0x08]);
    assert!(
        (0..received.len()).any(is_control),
        "the device gets the MAC control frames of the instrument"
    );
    assert!(!socket.exists());
}
