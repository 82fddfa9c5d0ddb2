//! Tests of labs in virtual time through the program: printed and written output, equal bytes for equal
//! seeds, sweeps, and labs that cannot end.

mod lldp;
mod sweeps;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Four open-loop senders to one receiver at another leaf. PFC spreads back through the spines.
const FLOWS_LAB: &str = "
name: flows
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 2, hosts: 4, speed: 100g, delay: 1us, config: {preset: roce-lossless}}
workload:
  duration: 30us
  drain: 1ms
  flows:
    - {name: incast, from: [h1, h2, h3, h4], to: h8, lossless: true}
    - {name: lossy, from: [h5, h6], to: h8, rate: 60%}
";

const COLLECTIVE_LAB: &str = "
name: collective
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 2, hosts: 2, speed: 100g, delay: 1us, config: {preset: roce-lossless}}
transports:
  default: {mtu: 1024, congestion: none}
workload:
  jobs:
    - {name: reduce, kind: ring-allreduce, hosts: all, bytes: [64K, 256K], iterations: 2}
";

/// A workload with random arrivals. ECN marks slow the senders down.
const RANDOM_LAB: &str = "
name: random
topology:
  fabric:
    star: {hosts: 4, speed: 25g, delay: 1us, config: {preset: roce-lossless}}
transports:
  default: {mtu: 1024, congestion: dcqcn}
workload:
  jobs:
    - {name: arrivals, kind: poisson, from: [h1, h2, h3], to: h4, sizes: 64K, load: 60%, flows_max: 60}
";

/// A routing loop with more traffic than the hop limit removes from the loop.
const ROUTING_LOOP_LAB: &str = "
name: loop
topology:
  nodes:
    sw1: {kind: switch, config: {preset: roce-lossless}}
    sw2: {kind: switch, config: {preset: roce-lossless}}
    h1: {kind: model}
    h2: {kind: model}
  links:
    - {endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 100g}
    - {endpoints: [\"h2:eth0\", \"sw2:Ethernet0\"], speed: 100g}
    - {endpoints: [\"sw1:Ethernet4\", \"sw2:Ethernet4\"], speed: 100g, delay: 1us}
  routes:
    - {switch: sw2, to: h2, via: sw1}
workload:
  duration: 2ms
  drain: 100ms
  flows:
    - {name: circle, from: h1, to: h2, dscp: 26}
";

fn temporary_folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn write_file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file in a temporary folder");
    path
}

fn run_xoff(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("xoff can be started")
}

/// Runs `xoff lab run lab.yml --virtual` with more arguments and checks the exit code.
fn run_lab(folder: &Path, text: &str, arguments: &[&str], exit: i32) -> (String, String) {
    write_file(folder, "lab.yml", text);
    let mut all = vec!["lab", "run", "lab.yml", "--virtual"];
    all.extend(arguments);
    check_exit(&run_xoff(folder, &all), &all, exit)
}

fn check_exit(output: &Output, arguments: &[&str], exit: i32) -> (String, String) {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}\n{out}\n{err}");
    (out, err)
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

fn read_file(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

fn read_json(path: impl AsRef<Path>) -> serde_json::Value {
    serde_json::from_str(&read_file(path)).expect("JSON")
}

/// Returns a hash of `tests/virtual_labs/event_logs.hashes` by its name.
fn stored_hash(name: &str) -> &'static str {
    include_str!("event_logs.hashes")
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(kept, hash)| (kept == name).then_some(hash))
        .unwrap_or("missing")
}

#[test]
fn equal_seeds_give_equal_bytes_on_every_machine() {
    let mut wrong = Vec::new();
    for (name, text) in [
        ("flows", FLOWS_LAB),
        ("collective", COLLECTIVE_LAB),
        ("random", RANDOM_LAB),
    ] {
        let folder = temporary_folder();
        for (file, threads) in [("one.jsonl", "1"), ("two.jsonl", "2")] {
            let options = [
                "--seed",
                "7",
                "--events",
                file,
                "--events-frames",
                "--threads",
                threads,
            ];
            run_lab(folder.path(), text, &options, 0);
        }
        let (one, two) = (
            read_file(folder.path().join("one.jsonl")),
            read_file(folder.path().join("two.jsonl")),
        );
        assert!(one == two, "{name}: two runs differ");
        let first: serde_json::Value =
            serde_json::from_str(one.lines().next().unwrap_or_default()).expect("JSON");
        assert_eq!(
            first,
            serde_json::json!({"schema": "xoff.events/1", "lab": name, "seed": 7, "frames": true})
        );
        for line in one.lines().skip(1) {
            let event: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
            assert!(event["ps"].is_u64() && event["event"].is_string(), "{line}");
        }
        let hash = format!("{:08x} {}", crc32fast::hash(one.as_bytes()), one.lines().count());
        if hash != stored_hash(name) {
            wrong.push(format!("{name} {hash}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "event logs changed; if the model was meant to change, these are lines of tests/virtual_labs/event_logs.hashes:\n{}",
        wrong.join("\n")
    );
}

/// The number of threads changes no byte of the event log, the recording and the time series. In the report, it changes
/// only the description of the threads.
#[test]
fn threads_write_the_same_files() {
    const FILES: [&str; 5] = [
        "events.jsonl",
        "link.pcapng",
        "series/queues.csv",
        "series/pauses.csv",
        "series/rates.csv",
    ];
    for text in [FLOWS_LAB, COLLECTIVE_LAB] {
        let folder = temporary_folder();
        let mut expected = None;
        for threads in [1, 2, 3] {
            let count = threads.to_string();
            let mut options = vec![
                "--seed",
                "7",
                "--events",
                FILES[0],
                "--events-frames",
                "--threads",
                &count,
            ];
            options.extend([
                "--pcap",
                "h1:eth0--leaf1:Ethernet0=link.pcapng",
                "--report",
                "report.json",
            ]);
            options.extend(["--series", "series"]);
            run_lab(folder.path(), text, &options, 0);
            let files = FILES.map(|file| fs::read(folder.path().join(file)).expect("the file was written"));
            assert!(files.iter().all(|file| !file.is_empty()));
            let mut report = read_json(folder.path().join("report.json"));
            let environment = report
                .as_object_mut()
                .and_then(|report| report.remove("environment"));
            let of_threads = &environment.expect("an environment")["threads"];
            assert_eq!(of_threads["count"], threads);
            let events = of_threads["events"].as_array().expect("a list");
            assert!(events.len() == threads && events.iter().all(|events| events.as_u64() > Some(100)));
            let result = (files, report);
            assert!(
                expected.get_or_insert_with(|| result.clone()) == &result,
                "{threads} threads"
            );
        }
    }
}

#[test]
fn different_seeds_give_different_random_arrivals() {
    let folder = temporary_folder();
    let jct = |seed: &str| {
        run_lab(
            folder.path(),
            RANDOM_LAB,
            &["--seed", seed, "--report", "r.json"],
            0,
        );
        read_json(folder.path().join("r.json"))["jobs"]["jobs"][0]["jct_ns"].clone()
    };
    assert_ne!(jct("1"), jct("2"));
}

#[test]
fn tables_of_jobs_and_large_fabrics_are_short() {
    let folder = temporary_folder();
    let (out, _) = run_lab(folder.path(), COLLECTIVE_LAB, &[], 0);
    assert_contains(
        &out,
        &[
            "Job",
            "reduce",
            "RingAllReduce",
            "Busbw GB/s",
            "of model time",
            "verdict: clean",
        ],
    );
    assert!(
        !out.contains("ICRC errors"),
        "a table of flows without flows:\n{out}"
    );
    let large = COLLECTIVE_LAB.replace("leaves: 2, spines: 2, hosts: 2", "leaves: 8, spines: 8, hosts: 8");
    let (out, _) = run_lab(folder.path(), &large.replace("[64K, 256K]", "64K"), &[], 0);
    assert_contains(&out, &["of 192 ports without drops, pauses and ECN marks"]);
}

#[test]
fn collectives_are_printed_in_the_format_of_nccl_tests() {
    let folder = temporary_folder();
    let (out, _) = run_lab(
        folder.path(),
        COLLECTIVE_LAB,
        &["--format", "nccl", "--nccl-json", "n.json"],
        0,
    );
    assert_contains(
        &out,
        &[
            "# Collective test starting: all_reduce_perf",
            "on         h1",
            "Avg bus bandwidth",
        ],
    );
    let nccl = read_json(folder.path().join("n.json"));
    assert_eq!(nccl["results"].as_array().map(Vec::len), Some(2));
    assert_eq!(nccl["results"][1]["size"], 262_144);
    assert_eq!(nccl["config"]["devices"][3]["hostname"], "h4");
    let (out, _) = run_lab(folder.path(), COLLECTIVE_LAB, &["--format", "json"], 0);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["jobs"]["jobs"][0]["finished"], true);
    for option in [["--format", "nccl"], ["--nccl-json", "x.json"]] {
        let (_, err) = run_lab(folder.path(), RANDOM_LAB, &option, 2);
        assert_contains(
            &err,
            &[
                "error: the lab has no collective job",
                "where: random",
                "a job of kind ring-allreduce, tree-allreduce, allgather, reduce-scatter, alltoall",
            ],
        );
    }
    assert!(!folder.path().join("x.json").exists());
}

#[test]
fn a_routing_loop_is_reported_as_a_deadlock() {
    let folder = temporary_folder();
    let (out, _) = run_lab(folder.path(), ROUTING_LOOP_LAB, &["--report", "r.json"], 1);
    assert_contains(
        &out,
        &[
            "verdict: failed",
            "deadlock: these 2 ports pause each other in a cycle",
            "sw1:Ethernet4",
        ],
    );
    let report = read_json(folder.path().join("r.json"));
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(1));
}

#[test]
fn hosts_without_a_path_are_reported() {
    let folder = temporary_folder();
    let text = ROUTING_LOOP_LAB
        .replace(
            "    - {endpoints: [\"sw1:Ethernet4\", \"sw2:Ethernet4\"], speed: 100g, delay: 1us}\n",
            "",
        )
        .replace("  routes:\n    - {switch: sw2, to: h2, via: sw1}\n", "");
    let jobs = text.split("workload:").next().unwrap_or_default().to_owned()
        + "workload:\n  jobs:\n    - {name: f, kind: flows, flows: [{from: h1, to: h2, bytes: 1K}]}\n";
    assert_contains(&run_lab(folder.path(), &jobs, &[], 4).1, &["h1", "h2"]);
    assert_contains(&run_lab(folder.path(), &text, &[], 4).1, &["h1", "h2"]);
}

#[test]
fn a_run_ends_at_its_configured_time() {
    let folder = temporary_folder();
    let (out, _) = run_lab(folder.path(), COLLECTIVE_LAB, &["--events-max", "2000"], 1);
    assert_contains(
        &out,
        &[
            "verdict: failed",
            "stopped after 2,000 events",
            "not done: job `reduce`",
            "--events-max N",
        ],
    );
    let (out, _) = run_lab(folder.path(), COLLECTIVE_LAB, &["--until", "3us"], 1);
    assert_contains(&out, &["the time limit was reached; not done: job `reduce`"]);
    let (_, err) = run_lab(folder.path(), COLLECTIVE_LAB, &["--events-max", "0"], 2);
    assert_contains(&err, &["--events-max"]);
}

#[test]
fn times_beyond_64_bits_are_refused() {
    let folder = temporary_folder();
    for time in ["99999999s", "1e30s", "18446744073709551615ns", "-1s"] {
        let until = format!("--until={time}");
        assert_contains(&run_lab(folder.path(), FLOWS_LAB, &[&until], 2).1, &["--until"]);
    }
    let long = FLOWS_LAB.replace("duration: 30us", "duration: 99999999s");
    assert_contains(
        &run_lab(folder.path(), &long, &[], 4).1,
        &["lab.yml:7:", "99999999s"],
    );
    let late = FLOWS_LAB.replace("lossless: true}", "lossless: true, start: 99999999s}");
    assert_contains(
        &run_lab(folder.path(), &late, &[], 4).1,
        &["lab.yml:10:", "99999999s"],
    );
    // The largest permitted time. The run ends with its last event and not at this time.
    let end = COLLECTIVE_LAB.replace("iterations: 2}", "iterations: 2, compute_gap: 17000000s}");
    let (out, _) = run_lab(folder.path(), &end, &[], 1);
    assert_contains(&out, &["verdict: failed"]);
}

#[test]
fn a_deadlock_is_reported_and_the_watchdog_resolves_it() {
    let folder = temporary_folder();
    let bed = Path::new(env!("CARGO_MANIFEST_DIR")).join("testbeds/checks/deadlock-watchdog.xoff.yml");
    let text = read_file(bed);
    let (out, _) = run_lab(
        folder.path(),
        &text,
        &["--events", "e.jsonl", "--report", "r.json"],
        0,
    );
    assert_contains(
        &out,
        &[
            "these 3 ports paused each other in a cycle: s1:Ethernet4, s2:Ethernet4, s3:Ethernet4",
            "PFC storm at",
            "s2 Ethernet4:3",
            "XOFF_PFC_WD_TX",
            "verdict: clean",
        ],
    );
    let report = read_json(folder.path().join("r.json"));
    let deadlock = &report["virtual_time"]["deadlocks"][0];
    assert_eq!(deadlock["ports"].as_array().map(Vec::len), Some(3));
    let until_ns = deadlock["until_ns"].as_u64().expect("it is gone");
    for switch in report["switches"].as_array().expect("switches") {
        let watchdog = &switch["pfc_watchdog"];
        let [storm] = watchdog["storms"].as_array().expect("storms").as_slice() else {
            panic!("one storm at each switch: {watchdog}");
        };
        let time = |field: &str| storm[field].as_u64().expect("a time");
        assert!((100_000_000..200_000_000).contains(&time("paused_ns")), "{storm}");
        assert!(
            time("detected_ns") <= until_ns && until_ns < time("restored_ns"),
            "{storm}"
        );
        let port = switch["ports"]
            .as_array()
            .expect("ports")
            .iter()
            .find(|port| port["name"] == storm["port"]);
        let dropped = &port.expect("the port")["drops"]["XOFF_PFC_WD_TX"];
        assert_eq!(*dropped, storm["tx_dropped_packets"]);
        let queues = watchdog["queues"].as_array().expect("queues").iter();
        let detected: u64 = queues
            .filter_map(|queue| queue["PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED"].as_u64())
            .sum();
        assert_eq!(detected, 1);
    }
    let events = read_file(folder.path().join("e.jsonl"));
    let count = |event: &str| {
        events
            .lines()
            .filter(|line| line.contains(&format!("\"event\":\"{event}\"")))
            .count()
    };
    assert_eq!(
        (count("deadlock"), count("pfc-storm"), count("pfc-storm-restored")),
        (1, 3, 3)
    );
}
