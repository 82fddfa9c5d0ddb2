//! `--accelerate`: skipped steps, their results, and labs that cannot be accelerated.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A ring of 1022 steps through one switch.
const LONG_RING: &str = "{name: ring, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 2M}";
const STAR_512: &str = "star: {hosts: 512, speed: 100g, delay: 500ns}";
const LEAF_SPINE: &str = "leaf-spine: {leaves: 4, spines: 4, hosts: 4, uplinks: 1, speed: 100g, delay: 500ns, config: {preset: roce-lossless}}";

fn lab_text(fabric: &str, congestion: &str, jobs: &[&str]) -> String {
    let jobs: String = jobs.iter().map(|job| format!("    - {job}\n")).collect();
    format!(
        "name: x\ntopology:\n  fabric:\n    {fabric}\ntransports:\n  default: {{mtu: 4096, congestion: {congestion}, \
         ack_every: 16}}\nworkload:\n  jobs:\n{jobs}"
    )
}

fn run(folder: &Path, command: &str, text: &str, arguments: &[&str]) -> Output {
    let file = folder.join("lab.xoff.yml");
    fs::write(&file, text).expect("a temporary folder");
    Command::new(env!("CARGO_BIN_EXE_xoff"))
        .args(["lab", command, "--virtual"])
        .arg(&file)
        .args(arguments)
        .output()
        .expect("xoff starts")
}

fn report(text: &str, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run(
        folder.path(),
        "run",
        text,
        &[arguments, &["--format", "json"]].concat(),
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Runs a lab exactly and with acceleration.
fn both(text: &str) -> [Value; 2] {
    [report(text, &[]), report(text, &["--accelerate"])]
}

fn count(report: &Value, pointer: &str) -> u64 {
    let value = report
        .pointer(pointer)
        .unwrap_or_else(|| panic!("{pointer} is missing"));
    value.as_u64().unwrap_or_else(|| panic!("{pointer} is {value}"))
}

/// Sums a counter of all switch ports.
fn sum(report: &Value, counter: &str) -> u64 {
    let switches = report["switches"].as_array().expect("switches");
    let ports = switches
        .iter()
        .flat_map(|switch| switch["ports"].as_array().expect("ports"));
    ports.map(|port| port[counter].as_u64().expect("a counter")).sum()
}

fn assert_close(exact: u64, estimate: u64, percent: f64, what: &str) {
    let difference = exact.abs_diff(estimate) as f64;
    let limit = exact as f64 * percent / 100.0;
    assert!(difference <= limit, "{what}: {estimate} instead of {exact}");
}

/// Checks that the results of all jobs agree within 1 %, and that no byte is missing.
fn assert_same_jobs([exact, estimate]: &[Value; 2]) {
    let jobs = exact["jobs"]["jobs"].as_array().expect("jobs");
    for (index, job) in jobs.iter().enumerate() {
        let of_job = format!("/jobs/jobs/{index}");
        for field in [
            "posted_messages",
            "received_messages",
            "posted_bytes",
            "received_bytes",
        ] {
            let pointer = format!("{of_job}/{field}");
            assert_eq!(count(exact, &pointer), count(estimate, &pointer), "{pointer}");
        }
        for field in ["jct_ns", "message_latency_ns/p99"] {
            let pointer = format!("{of_job}/{field}");
            if job.pointer(&format!("/{field}")).is_some_and(Value::is_u64) {
                assert_close(count(exact, &pointer), count(estimate, &pointer), 1.0, &pointer);
            }
        }
        let iterations = |report: &Value| {
            report["jobs"]["jobs"][index]["iterations"]
                .as_array()
                .map(Vec::len)
        };
        assert_eq!(iterations(exact), iterations(estimate));
    }
}

#[test]
fn a_ring_of_a_thousand_steps_needs_30_times_fewer_events() {
    let reports = both(&lab_text(STAR_512, "none", &[LONG_RING]));
    assert_same_jobs(&reports);
    let [exact, estimate] = &reports;
    let events = |report| count(report, "/virtual_time/events");
    assert!(
        events(exact) > 30 * events(estimate),
        "{} {}",
        events(exact),
        events(estimate)
    );
    assert_close(
        sum(exact, "tx_packets"),
        sum(estimate, "tx_packets"),
        1.0,
        "packets",
    );
    assert_close(sum(exact, "tx_bytes"), sum(estimate, "tx_bytes"), 1.0, "bytes");
    let job = &estimate["virtual_time"]["acceleration"]["jobs"][0];
    assert_eq!(job["unit"], "ring_step");
    assert_eq!(
        job["skipped_steps"].as_u64().unwrap() + job["simulated_steps"].as_u64().unwrap(),
        1_022
    );
    assert!(
        exact["virtual_time"].get("acceleration").is_none(),
        "an exact run has no estimate"
    );
}

/// Iterations with ECN marks and pauses, a ring with several slices, and jobs of different kinds.
#[test]
fn skipped_iterations_have_the_results_of_simulated_ones() {
    for (jobs, skipped_min) in [
        (
            &["{name: a, kind: alltoall, hosts: all, gpus_per_node: 1, bytes: 1M, iterations: 30}"][..],
            10,
        ),
        (
            &[
                "{name: i, kind: incast, from: [h1, h2, h5, h6], to: h13, bytes: 256K, iterations: 40, gap: 20us}",
            ],
            20,
        ),
        (
            &["{name: p, kind: permutation, hosts: all, bytes: 512K, iterations: 40}"],
            20,
        ),
        (
            &[
                "{name: r, kind: allgather, hosts: all, gpus_per_node: 1, bytes: 1000001, slice: 16K, iterations: 20, warmup: 2}",
            ],
            10,
        ),
        (
            &[
                "{name: r, kind: ring-allreduce, hosts: [h1, h5, h9, h13], gpus_per_node: 1, bytes: 1M, iterations: 60}",
                "{name: f, kind: flows, start: 3ms, flows: [{from: h2, to: h6, bytes: 1M}]}",
            ],
            30,
        ),
    ] {
        let reports = both(&lab_text(LEAF_SPINE, "none", jobs));
        assert_same_jobs(&reports);
        let [exact, estimate] = &reports;
        let skipped = count(estimate, "/virtual_time/acceleration/jobs/0/skipped_steps");
        assert!(skipped >= skipped_min, "{jobs:?}: {skipped} skipped");
        assert_close(
            sum(exact, "tx_packets"),
            sum(estimate, "tx_packets"),
            1.0,
            "packets",
        );
        let (marks, estimated_marks) = (sum(exact, "ecn_marked"), sum(estimate, "ecn_marked"));
        // The marks of so few steps are random: their number varies by its square root.
        assert!(
            marks.abs_diff(estimated_marks) <= (marks / 5).max(10),
            "{jobs:?}: {estimated_marks} marks instead of {marks}"
        );
    }
}

#[test]
fn the_number_of_threads_does_not_change_an_accelerated_run() {
    let text = lab_text(
        LEAF_SPINE,
        "dcqcn-nic",
        &[
            "{name: r, kind: ring-allreduce, hosts: all, gpus_per_node: 1, bytes: 1M, slice: 32K, iterations: 60}",
            "{name: f, kind: flows, start: 4ms, flows: [{from: h2, to: h6, bytes: 1M}]}",
        ],
    );
    let reports = ["1", "2", "3", "8"].map(|threads| {
        let mut report = report(&text, &["--accelerate", "--threads", threads, "--seed", "3"]);
        let environment = report.as_object_mut().expect("a report").remove("environment");
        assert!(environment.is_some());
        report
    });
    assert!(count(&reports[0], "/virtual_time/acceleration/skips") > 0);
    for report in &reports[1..] {
        assert_eq!(*report, reports[0]);
    }
}

#[test]
fn a_run_in_which_nothing_repeats_is_exact_and_says_so() {
    let flows =
        "{name: f, kind: flows, flows: [{from: h1, to: h6, bytes: 4M}, {from: h2, to: h9, bytes: 4M}]}";
    let text = lab_text(LEAF_SPINE, "none", &[flows]);
    let [exact, mut estimate] = both(&text).map(|mut report| {
        report.as_object_mut().expect("a report").remove("environment");
        report
    });
    let virtual_time = estimate["virtual_time"].as_object_mut().expect("an object");
    let acceleration = virtual_time.remove("acceleration").expect("a section");
    assert_eq!(acceleration["skips"], 0);
    assert_eq!(acceleration["jobs"][0]["unit"], Value::Null);
    assert_eq!(exact, estimate);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let table = run(folder.path(), "run", &text, &["--accelerate"]);
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(table.contains("f: nothing repeats"), "{table}");
}

/// A lab with open-loop flows is simulated completely, and the result says why.
#[test]
fn open_loop_flows_are_not_accelerated() {
    let job = "{name: p, kind: permutation, hosts: all, bytes: 64K, iterations: 20}";
    let text = lab_text("star: {hosts: 4, speed: 10g}", "none", &[job])
        + "  flows: [{name: f, from: h1, to: h2, rate: 1Gbps}]\n  duration: 1ms\n";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = run(folder.path(), "run", &text, &["--accelerate"]);
    let table = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{table}{:?}", output.stderr);
    assert!(table.contains("p: 0 of 20 iterations skipped"), "{table}");
    assert!(
        table.contains("not skipped 1 time: open-loop flows have no steps"),
        "{table}"
    );
}

/// Jobs whose bursts meet later, jobs of very different periods, and state that runs out after many equal steps. In all
/// of these labs, steps are equal for a long time and then change.
#[test]
fn steps_that_change_later_are_simulated() {
    let late_job =
        "{name: b, kind: alltoall, hosts: [h2, h6], gpus_per_node: 1, bytes: 4K, iterations: 3000}";
    for (transport, jobs) in [
        // The bursts of both jobs meet at h13 after a dozen iterations.
        (
            "none",
            &[
                "{name: a, kind: incast, from: [h1], to: h13, bytes: 2M, iterations: 60, gap: 500us}",
                "{name: b, kind: incast, from: [h5], to: h13, bytes: 2M, iterations: 60, gap: 520us, start: 250us}",
            ][..],
        ),
        // One period is a hundred times longer.
        (
            "none",
            &[
                "{name: a, kind: alltoall, hosts: [h1, h2, h5, h6], gpus_per_node: 1, bytes: 8M, iterations: 12, compute_gap: 500us}",
                late_job,
            ],
        ),
        // Receive entries run out.
        (
            "none, receives: 32",
            &["{name: r, kind: incast, verb: send, from: [h1, h2], to: h13, bytes: 64K, iterations: 100}"],
        ),
    ] {
        let reports = both(&lab_text(LEAF_SPINE, transport, jobs));
        assert_same_jobs(&reports);
        let [exact, estimate] = &reports;
        for counter in ["ecn_marked", "tx_packets"] {
            let (exact, estimate) = (sum(exact, counter), sum(estimate, counter));
            assert!(
                exact.abs_diff(estimate) <= (exact / 20).max(10),
                "{jobs:?}: {counter}: {estimate}, {exact}"
            );
        }
    }
}

/// A run ends at `--until`, and skipped time counts.
#[test]
fn a_skip_does_not_pass_the_end_of_the_run() {
    let job = "{name: p, kind: permutation, hosts: all, bytes: 512K, iterations: 10000}";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = lab_text(LEAF_SPINE, "none", &[job]);
    let output = run(
        folder.path(),
        "run",
        &text,
        &["--accelerate", "--until", "500ms", "--format", "json"],
    );
    assert_eq!(output.status.code(), Some(1), "the job is not finished");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(count(&report, "/virtual_time/model_time_ns"), 500_000_000);
    let skipped = count(&report, "/virtual_time/acceleration/skipped_time_ns");
    assert!((400_000_000..500_000_000).contains(&skipped), "{skipped}");
}

/// Files that need every frame, and scripts that observe frames.
#[test]
fn acceleration_is_refused_where_every_frame_is_observed() {
    let text = lab_text(STAR_512, "none", &[LONG_RING]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for option in ["--events", "--series", "--plots"] {
        let output = run(folder.path(), "run", &text, &["--accelerate", option, "x"]);
        assert_eq!(output.status.code(), Some(2), "{option}");
    }
    for (step, reason) in [
        (
            "{wait: {until: job.ring.done == 1, at_most: 10ms}}",
            "observes the whole run",
        ),
        ("{expect: first(h1.cnp) > 0ns}", "can occur in a skipped step"),
        (
            "{expect: h1.rx_control_frames == 0}",
            "is counted from each frame",
        ),
    ] {
        let script = format!("{text}script:\n  - {step}\n");
        let output = run(folder.path(), "check", &script, &["--accelerate"]);
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{step}: {stderr}");
        assert!(
            stderr.contains(reason) && stderr.contains("lab.xoff.yml:"),
            "{step}: {stderr}"
        );
    }
}

/// A link fails in the middle of a job. The steps before and after the failure are skipped separately.
#[test]
fn steps_before_and_after_a_link_failure_are_skipped() {
    let job =
        "{name: p, kind: ring-allreduce, hosts: [h1, h5], gpus_per_node: 1, bytes: 1M, iterations: 100}";
    let text = lab_text(LEAF_SPINE, "none", &[job])
        + "script:\n  - {at: 4ms, link: {on: \"leaf1:Ethernet16\", up: false}}\n  - {at: 4ms, link: {on: \
           \"leaf1:Ethernet20\", up: false}}\n  - {at: 60ms, expect: [job.p.done == 1, leaf1.tx_packets > 0]}\n";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let reports = [&[][..], &["--accelerate"]].map(|arguments: &[&str]| {
        let file = folder.path().join("report.json");
        let arguments = [arguments, &["--report", file.to_str().expect("a path")]].concat();
        let output = run(folder.path(), "check", &text, &arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice::<Value>(&fs::read(&file).expect("a report")).expect("JSON")
    });
    assert_same_jobs(&reports);
    let acceleration = &reports[1]["virtual_time"]["acceleration"];
    assert!(
        acceleration["jobs"][0]["skipped_steps"].as_u64().unwrap() >= 50,
        "{acceleration}"
    );
    assert!(acceleration["skips"].as_u64().unwrap() >= 2, "{acceleration}");
}
