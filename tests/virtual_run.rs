//! Progress, interruption and the end of `xoff lab run --virtual`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A ring that needs hours.
const LONG_LAB: &str = "name: long\n\
    topology: {fabric: {star: {hosts: 8, speed: 400g}}}\n\
    workload: {jobs: [{name: ring, kind: ring-allreduce, hosts: all, bytes: 1G, iterations: 100}]}\n";
const SHORT_LAB: &str = "name: short\n\
    topology: {fabric: {star: {hosts: 4, speed: 100g}}}\n\
    workload: {jobs: [{name: ring, kind: ring-allreduce, hosts: all, bytes: 1M}]}\n";

fn xoff() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
}

/// A run that ends with the test, also if the test fails.
struct LongRun(Child);

impl Drop for LongRun {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write_lab(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("lab.xoff.yml");
    fs::write(&file, text).expect("a temporary folder");
    file
}

fn run_lab(text: &str, arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = write_lab(folder.path(), text);
    xoff()
        .args(["lab", "run", "--virtual"])
        .arg(&file)
        .args(arguments)
        .output()
        .expect("xoff starts")
}

/// Each line of standard error is a JSON object. The first one comes before the fabric is built, and the last one
/// has the final state.
#[test]
fn progress_is_json_for_programs() {
    let output = run_lab(SHORT_LAB, &["--progress", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stderr = String::from_utf8(output.stderr).expect("text");
    let lines: Vec<Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(lines.len() >= 2, "{stderr}");
    for line in &lines {
        assert_eq!(line["schema"], "xoff.progress/1");
        assert_eq!(line["lab"], "lab.xoff.yml");
    }
    assert_eq!(lines[0]["phase"], "building");
    let last = &lines[lines.len() - 1];
    assert_eq!(last["phase"], "running");
    assert_eq!(last["percent"], 100.0);
    assert!(last["model_time_ns"].as_u64() > Some(100_000), "{last}");
    assert!(last["events"].as_u64() > Some(10_000), "{last}");
}

#[test]
fn no_progress_is_written_to_a_pipe_by_default() {
    for arguments in [&[][..], &["--progress", "none"]] {
        let output = run_lab(SHORT_LAB, arguments);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

/// A run that is interrupted writes its report. The report says that the run was interrupted.
#[test]
fn an_interrupted_run_reports_what_it_has() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = write_lab(folder.path(), LONG_LAB);
    let report = folder.path().join("report.json");
    let child = xoff()
        .args(["lab", "run", "--virtual", "--progress", "json", "--report"])
        .arg(&report)
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("xoff starts");
    let mut run = LongRun(child);
    let mut lines = BufReader::new(run.0.stderr.take().expect("a pipe")).lines();
    let is_running = |line: &Value| line["phase"] == "running" && line["events"].as_u64() > Some(0);
    let running = lines.by_ref().find_map(|line| {
        let line: Value = serde_json::from_str(&line.ok()?).ok()?;
        is_running(&line).then_some(line)
    });
    let running = running.expect("the run starts");
    assert!(running["percent"].as_f64() < Some(50.0), "{running}");
    assert!(running["remaining_s"].as_f64() > Some(0.0), "{running}");
    kill(Pid::from_raw(run.0.id() as i32), Signal::SIGINT).expect("the process exists");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let status = run.0.wait().expect("the process ends");
    assert_eq!(status.code(), Some(130), "{rest:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&report).expect("a report")).expect("JSON");
    let failures = report["failures"].to_string();
    assert!(failures.contains("interrupted at"), "{failures}");
    assert!(failures.contains("all figures end there"), "{failures}");
    assert_eq!(report["verdict"], "failed");
}

/// No event exists, and model time still reaches the end of the run.
#[test]
fn a_lab_without_traffic_ends_at_its_time() {
    let lab = "name: quiet\ntopology: {nodes: {sw1: {kind: switch, config: {preset: roce-lossless}}}}\n";
    let output = run_lab(lab, &["--until", "1ms"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout.contains("1.00 ms of model time"), "{stdout}");
}
