//! Tests of labs of several switches and of jobs with real frames: received data, used paths and the end
//! of a run.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, ExitCode, Output, Stdio};

use libtest_mimic::{Completion, Failed};
use support::curl::{curl_examples, curl_refusal};
use support::{CompletionTest, KernelFeatures, check, check_equal, run_serially};
use xoff_lab::LinkReport;
use xoff_lab::report::Report;
use xoff_telemetry::Verdict;

const TESTS: &[CompletionTest] = &[
    (
        "flows_and_jobs_cross_a_fabric_as_in_virtual_time",
        KernelFeatures::Netns,
        flows_and_jobs_cross_a_fabric,
    ),
    (
        "links_have_their_delay_and_set_changes_values",
        KernelFeatures::Netns,
        links_have_their_delay,
    ),
    (
        "unfinished_jobs_are_reported_by_name",
        KernelFeatures::Netns,
        unfinished_jobs_are_reported,
    ),
    (
        "a_lab_of_several_switches_is_recorded_and_queried",
        KernelFeatures::Netns,
        a_lab_is_recorded_and_queried,
    ),
];

fn main() -> ExitCode {
    run_serially(TESTS)
}

/// Two leaves, two spines and two hosts on each leaf. The ring crosses the spines at every step.
const RING_LAB: &str = "name: fabric-test
topology:
  fabric:
    leaf-spine: {leaves: 2, spines: 2, hosts: 2, speed: 50m, config: {preset: roce-lossless}}
transports:
  default: {mtu: 4096, ack_every: 8, timeout: 20}
workload:
  duration: 200ms
  drain: 2s
  flows:
    - {name: beside, from: h1, to: h3, rate: 5%, lossless: true}
  jobs:
    - {name: ring, kind: ring-allreduce, hosts: [h1, h3, h2, h4], bytes: 256K}
    - {name: pairs, kind: permutation, hosts: all, bytes: 64K, start: 1ms}
";

/// A folder that contains a lab file.
struct LabFolder(tempfile::TempDir);

impl LabFolder {
    fn new(text: &str) -> Result<LabFolder, Failed> {
        let lab = LabFolder(tempfile::tempdir()?);
        fs::write(lab.0.path().join("lab.xoff.yml"), text)?;
        Ok(lab)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the lab. Returns its report and output.
    fn run_lab(&self, arguments: &[&str]) -> Result<(Report, Output), Failed> {
        let all = [
            &["lab", "run", "lab.xoff.yml", "--report", "report.json"],
            arguments,
        ]
        .concat();
        let output = self.command(&all).output()?;
        let text = fs::read_to_string(self.0.path().join("report.json"));
        let text = text.map_err(|error| format!("no report ({error}):\n{}", output_text(&output)))?;
        Ok((serde_json::from_str(&text)?, output))
    }
}

fn output_text(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{}\n{out}{err}", output.status)
}

/// Returns the endpoints of the links between switches that carried data.
fn used_links(links: &[LinkReport]) -> BTreeSet<(String, String)> {
    let used = links
        .iter()
        .filter(|link| link.between_switches && link.tx_bytes > 10_000);
    used.map(|link| (link.from.clone(), link.to.clone())).collect()
}

fn flows_and_jobs_cross_a_fabric() -> Result<Completion, Failed> {
    let lab = LabFolder::new(RING_LAB)?;
    let (real, output) = lab.run_lab(&["--seed", "3"])?;
    let (model, _) = lab.run_lab(&["--seed", "3", "--virtual"])?;
    let names = |report: &Report| -> Vec<String> { report.switches.iter().map(|s| s.name.clone()).collect() };
    check_equal(names(&real), names(&model), "the switches")?;
    let [jobs, expected] = [&real, &model].map(|report| report.jobs.clone().unwrap_or_default().jobs);
    check_equal(jobs.len(), 2, "jobs")?;
    for (job, expected) in jobs.iter().zip(&expected) {
        check(job.finished, || {
            format!("{} is not done:\n{}", job.name, output_text(&output))
        })?;
        check_equal(job.roofline_ns, expected.roofline_ns, "the roofline")?;
        check(job.jct_ns >= Some(job.roofline_ns), || {
            format!("{} took {:?}, less than it can", job.name, job.jct_ns)
        })?;
    }
    let ring = jobs[0].collective.as_ref().ok_or("the ring is a collective")?;
    check(ring.sizes[0].bus_bandwidth_gbytes_per_s > 0.0, || {
        "there is no bus bandwidth".to_owned()
    })?;
    let [real_time, virtual_time] = [
        real.real_time.as_ref().map(|of| &of.links),
        model.virtual_time.as_ref().map(|of| &of.links),
    ];
    let (real_links, model_links) = (
        real_time.ok_or("no links of real time")?,
        virtual_time.ok_or("no links of virtual time")?,
    );
    check_equal(
        used_links(real_links),
        used_links(model_links),
        "the ways that the hash chose",
    )?;
    let flow = &real.flows[0];
    check(flow.sent_frames > 10, || {
        format!("{} frames sent", flow.sent_frames)
    })?;
    if real.verdict == Verdict::Tainted {
        return Ok(Completion::ignored_with(
            "the machine stalled: the run is tainted and proves no more",
        ));
    }
    check_equal(output.status.code(), Some(0), &output_text(&output))?;
    check_equal(flow.lost_frames + real.totals.dropped_frames, 0, "frames lost")?;
    check_equal(real.totals.out_of_order_packets, 0, "packets out of order")?;
    // The number of frames of the open-loop flow depends on the begin and end of a run in real time.
    let of_jobs = |report: &Report| report.totals.data_packets - report.totals.sent_frames;
    check_equal(of_jobs(&real), of_jobs(&model), "the jobs' packets with data")?;
    Ok(Completion::Completed)
}

fn links_have_their_delay() -> Result<Completion, Failed> {
    let text = "name: delay-test
topology:
  nodes:
    a: {kind: switch}
    b: {kind: switch}
    h1: {kind: model}
    h2: {kind: model}
  links:
    - {endpoints: [\"h1:eth0\", \"a:Ethernet0\"], delay: 5ms}
    - {endpoints: [\"a:Ethernet4\", \"b:Ethernet4\"], delay: 20ms}
    - {endpoints: [\"b:Ethernet0\", \"h2:eth0\"], delay: 5ms}
transports:
  default: {timeout: 20}
workload:
  jobs:
    - {name: one, kind: flows, flows: [{from: h1, to: h2, bytes: 1000}]}
";
    let lab = LabFolder::new(text)?;
    for (trunk_ms, arguments) in [(20, &[][..]), (60, &["--set", "topology.links.1.delay=60ms"])] {
        let (report, output) = lab.run_lab(arguments)?;
        let job = &report.jobs.as_ref().ok_or("no jobs")?.jobs[0];
        let flows = job.flows.as_ref().ok_or("no flows")?;
        let there = flows
            .completion_ns
            .as_ref()
            .ok_or_else(|| output_text(&output))?
            .max;
        let least = f64::from(10 + trunk_ms) * 1e6;
        // A busy machine may add the remaining time.
        check((least..least + 500e6).contains(&there), || {
            format!("one way took {there} ns, and its links {least} ns")
        })?;
    }
    Ok(Completion::Completed)
}

fn unfinished_jobs_are_reported() -> Result<Completion, Failed> {
    let lab = LabFolder::new(&RING_LAB.replace("bytes: 256K", "bytes: 1G"))?;
    let (report, output) = lab.run_lab(&["--until", "300ms"])?;
    let code = output.status.code();
    check(matches!(code, Some(1 | 5)), || output_text(&output))?;
    let failures = report.failures.join("\n");
    check(
        failures.contains("the time limit was reached; not done: ") && failures.contains("ring"),
        || failures.clone(),
    )?;
    let jobs = report.jobs.ok_or("no jobs")?.jobs;
    check(!jobs[0].finished && jobs[1].finished, || {
        "the large one is not done, the small one is".to_owned()
    })?;
    Ok(Completion::Completed)
}

/// One server answers for all switches of the running lab `fabric-asked`.
fn control_switches_of_lab(lab: &LabFolder) -> Result<(), Failed> {
    let run = |words: &[&str], code: i32| -> Result<String, Failed> {
        let output = lab
            .command(&[words, &["--lab", "fabric-asked"]].concat())
            .output()?;
        let text = output_text(&output);
        check_equal(output.status.code(), Some(code), &format!("{words:?}: {text}"))?;
        Ok(match code {
            0 => String::from_utf8_lossy(&output.stdout).into_owned(),
            _ => text,
        })
    };
    for words in [
        &["show", "counters"][..],
        &["clear", "pfc", "counters"],
        &["config", "get"],
    ] {
        let refused = run(words, 2)?;
        let has_names = ["leaf1", "leaf2", "spine1", "spine2"]
            .iter()
            .all(|name| refused.contains(name));
        check(has_names && refused.contains("--switch"), || refused.clone())?;
        run(&[words, &["--switch", "spine2"]].concat(), 0)?;
        run(&[words, &["--switch", "spine9"]].concat(), 2)?;
    }
    run(
        &[
            "config",
            "interface",
            "shutdown",
            "Ethernet0",
            "--switch",
            "spine2",
        ],
        0,
    )?;
    let shown = run(&["show", "counters", "--json", "--switch", "spine2"], 0)?;
    let counters: serde_json::Value = serde_json::from_str(&shown)?;
    check_equal(
        counters["switch"]["ports"][0]["up"].as_bool(),
        Some(false),
        "the port was shut down",
    )?;
    let shown = run(&["show", "counters", "--json", "--switch", "spine1"], 0)?;
    let counters: serde_json::Value = serde_json::from_str(&shown)?;
    check_equal(
        counters["switch"]["ports"][0]["up"].as_bool(),
        Some(true),
        "another switch is unchanged",
    )?;
    run(
        &[
            "config",
            "interface",
            "startup",
            "Ethernet0",
            "--switch",
            "spine2",
        ],
        0,
    )?;
    if curl_refusal().is_none() {
        let socket = format!("xoff.lab.{}.fabric-asked", nix::unistd::geteuid());
        for example in curl_examples() {
            if example.command.contains("--abstract-unix-socket") {
                example.run(lab.0.path(), ("xoff.lab.1000.routed", &socket))?;
            }
        }
    }
    Ok(())
}

fn a_lab_is_recorded_and_queried() -> Result<Completion, Failed> {
    let lab = LabFolder::new(&RING_LAB.replace("fabric-test", "fabric-asked"))?;
    let up = lab
        .command(&["lab", "up", "lab.xoff.yml", "--pcap", "spine1=spine1.pcapng"])
        .output()?;
    check(up.status.success(), || output_text(&up))?;
    let shown = lab
        .command(&[
            "show",
            "interfaces",
            "status",
            "--lab",
            "fabric-asked",
            "--switch",
            "leaf1",
        ])
        .output()?;
    let controlled = control_switches_of_lab(&lab);
    let down = lab.command(&["lab", "down", "fabric-asked"]).output()?;
    check(down.status.success(), || output_text(&down))?;
    controlled?;
    // The leaf has ports to two hosts and two spines.
    let table = output_text(&shown);
    check(
        shown.status.success() && table.contains("Ethernet12") && !table.contains("Ethernet16"),
        || table.clone(),
    )?;
    let recording = fs::metadata(lab.0.path().join("spine1.pcapng"))?;
    check(recording.len() > 0, || "the recording is empty".to_owned())?;
    let wrong = lab
        .command(&["lab", "run", "lab.xoff.yml", "--pcap", "all.pcapng"])
        .output()?;
    check_equal(wrong.status.code(), Some(2), &output_text(&wrong))?;
    Ok(Completion::Completed)
}
