//! Tests of labs in virtual time through the program: printed and written output, equal bytes for equal
//! seeds, sweeps, and labs that cannot end.

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

/// Returns a hash of `tests/virtual_labs.hashes` by its name.
fn stored_hash(name: &str) -> &'static str {
    include_str!("virtual_labs.hashes")
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
        "event logs changed; if the model was meant to change, these are lines of tests/virtual_labs.hashes:\n{}",
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
fn set_replaces_a_value_of_the_lab_file() {
    let folder = temporary_folder();
    run_lab(
        folder.path(),
        COLLECTIVE_LAB,
        &["--set", "workload.jobs.reduce.bytes.1=1M", "--report", "r.json"],
        0,
    );
    let report = read_json(folder.path().join("r.json"));
    assert_eq!(
        report["jobs"]["jobs"][0]["collective"]["sizes"][1]["bytes"],
        1 << 20
    );
    let (_, err) = run_lab(
        folder.path(),
        COLLECTIVE_LAB,
        &["--set", "transports.default.congestoin=none"],
        2,
    );
    assert_contains(
        &err,
        &[
            "no value at \"transports.default.congestoin\"",
            "where: --set transports.default.congestoin=none, lab.yml:7",
            "fix: did you mean transports.default.congestion?",
        ],
    );
    let (_, err) = run_lab(
        folder.path(),
        COLLECTIVE_LAB,
        &["--set", "transports.default.congestion=fast"],
        4,
    );
    assert_contains(
        &err,
        &[
            "lab.yml:7:",
            "fast",
            "where: --set transports.default.congestion=fast",
        ],
    );
}

#[test]
fn parts_of_a_sweep_merge_to_the_complete_sweep() {
    let folder = temporary_folder();
    let sweep = [
        "--seeds",
        "1..=3,9",
        "--set",
        "transports.default.congestion=dcqcn,none",
    ];
    let run = |more: &[&str]| {
        let all: Vec<&str> = sweep.iter().chain(more).copied().collect();
        run_lab(folder.path(), RANDOM_LAB, &all, 0).0
    };
    let table = run(&["--jobs", "1", "--report", "whole.json", "--csv", "whole.csv"]);
    assert_contains(
        &table,
        &[
            "lab random: 8 runs",
            "transports.default.congestion",
            "dcqcn",
            "none",
            "p99 slowdown",
        ],
    );
    let again = ["--jobs", "3", "--report", "again.json", "--progress", "json"];
    let all: Vec<&str> = sweep.iter().chain(&again).copied().collect();
    let (repeated, progress) = run_lab(folder.path(), RANDOM_LAB, &all, 0);
    assert_eq!(repeated, table);
    let last = progress.lines().rfind(|line| line.contains("xoff.progress/1"));
    let last: serde_json::Value = serde_json::from_str(last.expect("a line of progress")).expect("JSON");
    assert_eq!(
        (&last["finished_runs"], &last["runs"], &last["percent"]),
        (&8.into(), &8.into(), &100.0.into())
    );
    for part in ["1/3", "2/3", "3/3"] {
        let report = format!("part{}.json", &part[..1]);
        let text = run(&["--shard", part, "--report", &report]);
        assert_contains(&text, &[&format!("part {} of 3 (8 runs in total)", &part[..1])]);
    }
    let merge = |parts: &[&str], exit| {
        let mut all = vec!["lab", "merge", "--report", "merged.json", "--csv", "merged.csv"];
        all.extend(parts);
        check_exit(&run_xoff(folder.path(), &all), &all, exit)
    };
    assert_eq!(merge(&["part3.json", "part1.json", "part2.json"], 0).0, table);
    let file = |name: &str| read_file(folder.path().join(name));
    for (name, like) in [
        ("again.json", "whole.json"),
        ("merged.json", "whole.json"),
        ("merged.csv", "whole.csv"),
    ] {
        assert!(file(name) == file(like), "{name} and {like} differ");
    }
    assert_eq!(file("whole.csv").lines().count(), 3);
    assert_contains(
        &merge(&["part1.json", "part3.json"], 2).1,
        &["parts are missing: 2/3"],
    );
    assert_contains(&merge(&["part1.json", "part1.json"], 4).1, &["two of the files"]);
    assert_contains(
        &merge(&["lab.yml"], 4).1,
        &["not a part of a sweep", "where: lab.yml"],
    );
}

#[test]
fn invalid_sweep_options_are_refused() {
    let folder = temporary_folder();
    for (arguments, words) in [
        (&["--seeds", "5..=1"][..], &["the range 5..=1 is empty"][..]),
        (&["--seeds", "3..3"], &["the range 3..3 is empty"]),
        (&["--seeds", "1,1"], &["twice"]),
        (&["--seeds", "1..=2", "--events", "e"], &["cannot be used with"]),
        (
            &["--set", "name=a,b", "--events", "e"],
            &["this is a sweep", "--events"],
        ),
        (
            &["--seeds", "1,2", "--format", "nccl"],
            &["this is a sweep", "--format nccl"],
        ),
        (&["--seeds", "1,2", "--shard", "1/2"], &["--report"]),
        (
            &["--seeds", "1,2", "--shard", "3/2", "--report", "r"],
            &["'3/2' is not a part"],
        ),
        (&["--set", "name"], &["no '='"]),
        (
            &["--set", "name=a", "--set", "name=b", "--seeds", "1,2"],
            &["\"name\" is set twice"],
        ),
    ] {
        let (_, err) = run_lab(folder.path(), RANDOM_LAB, arguments, 2);
        assert_contains(&err, words);
    }
}

#[test]
fn an_interrupt_ends_a_sweep() {
    let folder = temporary_folder();
    write_file(folder.path(), "lab.yml", RANDOM_LAB);
    let mut child = Command::new(env!("CARGO_BIN_EXE_xoff"))
        .current_dir(folder.path())
        .args([
            "lab",
            "run",
            "lab.yml",
            "--virtual",
            "--seeds",
            "1..=100000",
            "--report",
            "r.json",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("xoff can be started");
    let deadline = Instant::now() + Duration::from_secs(30);
    let catches = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 0b10 != 0)
    };
    while !catches(child.id()) {
        assert!(Instant::now() < deadline, "it never watches for interrupts");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("a signal can be sent");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert!(!folder.path().join("r.json").exists());
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

/// Returns a lab in which two hosts overload a third one. The NICs have PFC on priority 3. `hosts` is the field `dcbx`
/// of all hosts, and `ports` the table of the switch with the PFC configuration of a port.
fn dcbx_lab(hosts: &str, ports: &str) -> String {
    let (mut nodes, mut links, mut tables, mut flows) =
        (String::new(), String::new(), String::new(), String::new());
    for host in 1..=3 {
        let port = format!("Ethernet{}", 4 * host);
        nodes += &format!("    h{host}: {{kind: model, nic: {{dcbx: {hosts}, pfc: [3]}}}}\n");
        links +=
            &format!("    - {{endpoints: [\"h{host}:eth0\", \"sw1:{port}\"], speed: 100g, delay: 500ns}}\n");
        tables += &format!("{port}: {{pfc_enable: {ports}}}, ");
        if host < 3 {
            flows += &format!("    - {{name: f{host}, from: h{host}, to: h3, dscp: 26, rate: 90%}}\n");
        }
    }
    let dcbx =
        ["Ethernet4", "Ethernet8", "Ethernet12"].map(|port| format!("{port}: {{pfc_willing: \"true\"}}"));
    format!(
        "name: dcbx\ntopology:\n  nodes:\n    sw1:\n      kind: switch\n      config:\n        - {{preset: roce-lossless}}\n        \
         - {{PORT_QOS_MAP: {{{tables}}}, LLDP: {{GLOBAL: {{enabled: \"true\"}}}}, XOFF_DCBX: {{{}}}}}\n{nodes}  links:\n{links}\
         workload:\n  duration: 2ms\n  drain: 2ms\n  flows:\n{flows}",
        dcbx.join(", ")
    )
}

#[test]
fn negotiated_pfc_prevents_losses_and_a_mismatch_is_a_warning() {
    let folder = temporary_folder();
    let options = ["--report", "report.json", "--events", "events.jsonl"];
    // No port has `pfc_enable`, and the NICs configure PFC.
    run_lab(folder.path(), &dcbx_lab("not-willing", "null"), &options, 0);
    let report = read_json(folder.path().join("report.json"));
    let ports = report["switches"][0]["ports"].as_array().expect("ports");
    assert!(
        ports.iter().any(|port| port["pfc_tx"][3].as_u64() > Some(0)),
        "{ports:?}"
    );
    assert!(
        ports.iter().all(|port| port["pfc_enabled"][3] == true),
        "{ports:?}"
    );
    assert_eq!(
        report["totals"]["sent_frames"],
        report["totals"]["received_frames"]
    );
    let neighbours = &report["switches"][0]["lldp"]["ports"][0]["neighbours"];
    assert_eq!(neighbours[0]["system_name"], "h1");
    assert!(
        read_file(folder.path().join("events.jsonl"))
            .contains("\"event\":\"dcbx-pfc\",\"at\":\"sw1:Ethernet4\"")
    );

    // The switch has PFC on priority 4, and no end is willing. No class is lossless at both ends, so drops are no
    // failure.
    run_lab(folder.path(), &dcbx_lab("not-willing", "\"4\""), &options, 0);
    let report = read_json(folder.path().join("report.json"));
    let warning = report["warnings"][0].as_str().unwrap_or_default();
    assert!(
        warning
            .starts_with("sw1 Ethernet4: DCBX: PFC: this port has PFC on priority 4, the peer on priority 3"),
        "{report}"
    );

    // Willing hosts use the configuration of the switch.
    run_lab(folder.path(), &dcbx_lab("willing", "\"3\""), &options, 0);
    let report = read_json(folder.path().join("report.json"));
    let mismatches = &report["switches"][0]["lldp"]["ports"][0]["dcbx"]["mismatches"];
    assert!(!mismatches.to_string().contains("PFC"), "{mismatches}");
}
