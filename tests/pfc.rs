//! Tests of `xoff pfc` on a veth pair in its own namespace.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitCode, Output, Stdio};

use libtest_mimic::Failed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::{NamedTest, check, check_equal, run_in_namespaces};
use xoff_ports::net::{LinkChange, add_veth, delete_link, read_link, set_link};
use xoff_wire::DisplayMac;

const TESTS: &[NamedTest] = &[
    (
        "sent_frames_are_decoded_at_the_far_end",
        sent_frames_are_decoded_at_the_far_end,
    ),
    (
        "a_storm_pauses_a_class_and_resumes_it_at_the_end",
        a_storm_pauses_a_class_and_resumes_it_at_the_end,
    ),
    (
        "an_interrupted_storm_resumes_its_class",
        an_interrupted_storm_resumes_its_class,
    ),
    (
        "an_interrupted_watch_ends_with_a_summary",
        an_interrupted_watch_ends_with_a_summary,
    ),
    (
        "a_watch_that_sees_too_few_frames_is_inconclusive",
        a_watch_that_sees_too_few_frames_is_inconclusive,
    ),
    (
        "a_removed_device_ends_a_watch_with_a_summary_and_an_error",
        a_removed_device_ends_a_watch_with_a_summary_and_an_error,
    ),
    (
        "devices_that_cannot_be_used_are_refused",
        devices_that_cannot_be_used_are_refused,
    ),
];

fn main() -> ExitCode {
    run_in_namespaces(TESTS)
}

fn xoff_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
}

fn run_xoff(line: &str) -> Result<Output, Failed> {
    Ok(xoff_command().args(line.split(' ')).output()?)
}

/// Runs a command that must succeed, and returns its JSON.
fn run_json(line: &str) -> Result<Value, Failed> {
    let output = run_xoff(line)?;
    check_equal(output.status.code(), Some(0), line)?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A running `xoff pfc watch` with JSON output.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    /// Starts the command on the device `b` and waits until it is ready. The speed of 10 Mb/s makes pauses long:
    /// 65535 quanta take 3.36 s.
    fn start(options: &[&str]) -> Result<Watch, Failed> {
        let mut child = xoff_command()
            .args(["pfc", "watch", "--dev", "b", "--speed", "10m", "--format", "json"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let lines = BufReader::new(stdout);
        let mut watch = Watch { child, lines };
        let ready = watch.next_line()?.ok_or("no line")?;
        check_equal(&ready["event"], &json!("ready"), "the first line")?;
        check_equal(&ready["speed_mbps"], &json!(10), "the speed")?;
        Ok(watch)
    }

    fn next_line(&mut self) -> Result<Option<Value>, Failed> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }

    fn interrupt(&self) -> Result<(), Failed> {
        let id = i32::try_from(self.child.id())?;
        Ok(kill(Pid::from_raw(id), Signal::SIGINT)?)
    }

    /// Returns the frames and the summary, after the command has ended with this exit code.
    fn finish(mut self, exit_code: i32) -> Result<(Vec<Value>, Value), Failed> {
        let mut lines = Vec::new();
        while let Some(line) = self.next_line()? {
            lines.push(line);
        }
        check_equal(self.child.wait()?.code(), Some(exit_code), "the exit code")?;
        let summary = lines.pop().ok_or("no summary")?;
        check_equal(&summary["event"], &json!("summary"), "the last line")?;
        lines.retain(|line| line["event"] == "frame");
        Ok((lines, summary))
    }
}

fn sent_frames_are_decoded_at_the_far_end() -> Result<(), Failed> {
    add_veth("a", "b", None, 1_500)?;
    let mac = DisplayMac(read_link("a")?.mac).to_string();
    let watch = Watch::start(&["--count", "3", "--duration", "20s"])?;
    let sent = run_json("pfc send --dev a --class 3,4 --quanta 3=65535,4=10 --json")?;
    check_equal(&sent["sent_frames"], &json!(1), "sent frames")?;
    run_json("pfc send --dev a --class 3 --quanta 0 --format json")?;
    let odd = "pfc send --dev a --class 3 --destination 01:80:c2:00:00:02 --vlan 5 --length 70 --padding 0xee --json";
    let odd = run_json(odd)?;
    check_equal(
        odd["frame"].as_str().map(str::len),
        Some(140),
        "digits of the frame",
    )?;

    let (frames, summary) = watch.finish(0)?;
    check_equal(frames.len(), 3, "frames")?;
    let expected = [
        json!({"kind": "pfc", "enable": 0x18, "quanta": [0, 0, 0, 65_535, 10, 0, 0, 0], "deviations": []}),
        json!({"kind": "pfc", "enable": 8, "quanta": [0, 0, 0, 0, 0, 0, 0, 0], "deviations": []}),
        json!({"kind": "ignored", "enable": 8, "quanta": null, "deviations": [
            "destination 01:80:c2:00:00:02, expected 01:80:c2:00:00:01",
            "VLAN tag with PCP 0, VID 5",
            "number of padding bytes that are not zero is 32",
            "length 70 bytes without FCS, expected 60",
        ]}),
    ];
    for (frame, expected) in frames.iter().zip(&expected) {
        check_equal(&frame["source"], &json!(mac), "the source")?;
        for field in ["kind", "enable", "quanta", "deviations"] {
            check_equal(&frame[field], &expected[field], field)?;
        }
    }
    let first = &frames[0]["changes"];
    check_equal(&first[0]["change"], &json!("paused"), "class 3")?;
    check_equal(
        &first[0]["duration_ns"],
        &json!(3_355_392_000_u64),
        "the pause of class 3",
    )?;
    check_equal(&first[1]["class"], &json!(4), "the second class")?;
    // Class 4 was paused for 512 us.
    check_equal(
        &summary["classes"][4]["expired"],
        &json!(1),
        "expired pauses of class 4",
    )?;
    check_equal(
        &summary["classes"][4]["paused_ns"],
        &json!(512_000),
        "the pause of class 4",
    )?;
    check_equal(&summary["classes"][3]["xon_frames"], &json!(1), "XON of class 3")?;
    check_equal(&summary["ignored_frames"], &json!(1), "ignored frames")
}

fn a_storm_pauses_a_class_and_resumes_it_at_the_end() -> Result<(), Failed> {
    add_veth("a", "b", None, 1_500)?;
    let watch = Watch::start(&[])?;
    let storm = run_json("pfc storm --dev a --class 6 --rate 100 --duration 300ms --json")?;
    check_equal(&storm["sent_frames"], &json!(30), "30 frames in 300 ms")?;
    check_equal(&storm["resumed"], &json!(true), "the frame at the end")?;
    watch.interrupt()?;
    let (frames, summary) = watch.finish(0)?;
    check_equal(frames.len(), 31, "frames")?;
    let class = &summary["classes"][6];
    check_equal(&class["xoff_frames"], &json!(30), "XOFF")?;
    check_equal(&class["xon_frames"], &json!(1), "XON")?;
    check_equal(
        &frames[1]["changes"][0]["change"],
        &json!("refreshed"),
        "the second frame",
    )?;
    check_equal(
        &frames[30]["changes"][0]["change"],
        &json!("resumed"),
        "the last frame",
    )
}

fn an_interrupted_storm_resumes_its_class() -> Result<(), Failed> {
    add_veth("a", "b", None, 1_500)?;
    let mut watch = Watch::start(&[])?;
    let storm = xoff_command()
        .args([
            "pfc",
            "storm",
            "--dev",
            "a",
            "--pause",
            "--rate",
            "20",
            "--duration",
            "60s",
        ])
        .stdout(Stdio::piped())
        .spawn()?;
    // The storm runs as soon as its first frame arrives.
    let first = watch.next_line()?.ok_or("no frame")?;
    check_equal(&first["kind"], &json!("pause"), "the first frame")?;
    kill(Pid::from_raw(i32::try_from(storm.id())?), Signal::SIGINT)?;
    let output = storm.wait_with_output()?;
    check_equal(output.status.code(), Some(130), "the exit code of the storm")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    check(
        text.contains("PAUSE quanta 65535") && text.contains("resumes"),
        || text.clone(),
    )?;
    watch.interrupt()?;
    let (frames, summary) = watch.finish(0)?;
    let last = frames.last().ok_or("no further frame")?;
    check_equal(&last["quanta"], &json!(0), "the last frame resumes")?;
    check_equal(&summary["pause"]["xon_frames"], &json!(1), "XON")
}

fn an_interrupted_watch_ends_with_a_summary() -> Result<(), Failed> {
    add_veth("a", "b", None, 1_500)?;
    let watch = Watch::start(&[])?;
    watch.interrupt()?;
    let (frames, summary) = watch.finish(0)?;
    check_equal(frames.len(), 0, "frames")?;
    check_equal(&summary["frames"], &json!(0), "the summary")?;
    // With a limit, the interruption is premature.
    let watch = Watch::start(&["--duration", "60s"])?;
    watch.interrupt()?;
    watch.finish(130).map(drop)
}

fn a_watch_that_sees_too_few_frames_is_inconclusive() -> Result<(), Failed> {
    add_veth("a", "b", None, 1_500)?;
    let watch = Watch::start(&["--count", "1", "--duration", "50ms"])?;
    watch.finish(5).map(drop)
}

fn a_removed_device_ends_a_watch_with_a_summary_and_an_error() -> Result<(), Failed> {
    add_veth("a", "b", None, 1_500)?;
    let watch = Watch::start(&[])?;
    run_json("pfc send --dev a --pause --json")?;
    delete_link("a")?;
    let (frames, summary) = watch.finish(3)?;
    check_equal((frames.len(), &summary["frames"]), (1, &json!(1)), "frames")
}

fn devices_that_cannot_be_used_are_refused() -> Result<(), Failed> {
    add_veth("a", "b", None, 1_500)?;
    let down = LinkChange {
        up: Some(false),
        ..LinkChange::default()
    };
    set_link("b", &down)?;
    for (device, what, fix) in [
        ("none", "there is no network device none", "ip link"),
        ("b", "the device b is down", "ip link set dev b up"),
        ("a", "the link of a is down", "far end"),
    ] {
        for command in ["send --class 3", "storm --class 3", "watch"] {
            let output = run_xoff(&format!("pfc {command} --dev {device}"))?;
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            check_equal(output.status.code(), Some(3), &errors)?;
            check(errors.contains(what) && errors.contains(fix), || errors.clone())?;
        }
    }
    let output = run_xoff("pfc send --dev a --class 3 --length 9000")?;
    check_equal(output.status.code(), Some(3), "a link that is down")
}
