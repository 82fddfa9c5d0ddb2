//! Tests of jobs, host patterns and transports.

use super::*;
use crate::plan::TransportPlan;
use xoff_rdma::congestion::{Algorithm as Control, CongestionFeedback};
use xoff_rdma::{Recovery, Transport};
use xoff_units::Picos;
use xoff_workload::{Algorithm, Endpoints, JobKind, MessageSpread, Repeat, Verb};

const LAB: &str = r#"
name: jobs
topology:
  fabric:
    rail: {nodes: 2, gpus: 4, spines: 1, speed: 100g}
transports:
  dcqcn: {mtu: 4096, congestion: {name: dcqcn-nic, rate_ai_bps: 5e6}, qps: 4, spread: split, window_bytes: 64K, rate: 50g}
  irn: {transport: rc, congestion: dctcp, recovery: selective-repeat, out_of_order: 20us, dscp: 10, ack_dscp: 48, cnp_class: 7, timeout: 10, retry: 3, ecn: false}
workload:
  jobs:
    - {name: train, kind: ring-allreduce, hosts: all, bytes: [1M, 64M], iterations: 5, warmup: 1, compute_gap: 1ms, gpus_per_node: 4, slice: 512K, nvlink: 3.2t, transport: dcqcn, qps: 2}
    - {name: rail1, kind: alltoall, hosts: "*-g1", bytes: 4096, verb: send}
    - {name: storage, kind: flows, background: true, start: 10us, transport: irn, flows: [{from: n1-g1..n1-g3, to: n2-g4, bytes: 4k, every: 1us, count: 9}, {from: n1-g1, to: [n1-g2, n1-g3], bytes: 1, gap: 2us, count: 2}]}
    - {name: mix, kind: poisson, from: [all, "!n1-*"], to: n1-*, sizes: 64K, load: 40%, until: 1ms}
    - {name: in, kind: incast, from: n2-g4..n2-g2, to: n1-g1, bytes: 1M, verb: read, spread: split}
"#;

fn parse_virtual_lab(text: &str) -> Result<LabPlan, Problems> {
    parse_lab(text, "j.xoff.yml", Path::new("/nowhere"), TimeMode::Virtual)
}

fn valid_plan() -> LabPlan {
    parse_virtual_lab(LAB).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn transports_are_resolved_to_queue_pair_options() {
    let plan = valid_plan();
    let [default, dcqcn, irn] = plan.transports.as_slice() else {
        panic!("three transports")
    };
    assert_eq!(*default, TransportPlan::new("default"));
    assert_eq!(
        (dcqcn.qp.mtu, dcqcn.qp.window_bytes, dcqcn.qp.rate_bps_max),
        (4096, Some(65_536), Some(50_000_000_000))
    );
    assert_eq!(
        (dcqcn.congestion.algorithm, dcqcn.qps, dcqcn.spread),
        (Control::DcqcnNic, 4, MessageSpread::Split)
    );
    assert_eq!(
        dcqcn.qp.feedback,
        CongestionFeedback::Cnp {
            interval: Picos::from_micros(4)
        }
    );
    assert_eq!(
        (
            dcqcn.packet_framing().payload_bytes,
            dcqcn.packet_framing().wire_bytes
        ),
        (4096, 4096 + 82)
    );
    assert!(dcqcn.to_job_transport().is_ok());
    assert_eq!(
        (irn.qp.transport, irn.qp.recovery),
        (Transport::Rc, Recovery::SelectiveRepeat)
    );
    assert_eq!(
        (irn.qp.out_of_order, irn.qp.feedback),
        (Some(Picos::from_micros(20)), CongestionFeedback::AckEcho)
    );
    assert_eq!((irn.dscp, irn.ecn_capable), ([10, 48, 48], false));
    assert_eq!(
        (irn.qp.data_class, irn.qp.ack_class, irn.qp.cnp_class),
        (1, 6, 7),
        "classes follow from DSCPs"
    );
    assert_eq!((irn.qp.ack_timeout, irn.qp.retry_cnt), (10, 3));
}

#[test]
fn jobs_of_all_kinds_are_resolved() {
    let plan = valid_plan();
    let [train, rail1, storage, mix, incast] = plan.workload.jobs.jobs.as_slice() else {
        panic!("five jobs")
    };
    let JobKind::Collective(ring) = &train.kind else {
        panic!("{train:?}")
    };
    assert_eq!(
        (ring.algorithm, ring.ranks.as_slice()),
        (Algorithm::RingAllReduce, [0, 1, 2, 3, 4, 5, 6, 7].as_slice())
    );
    assert_eq!(
        (ring.bytes.as_slice(), ring.iterations, ring.warmup),
        ([1 << 20, 64 << 20].as_slice(), 5, 1)
    );
    assert_eq!((ring.compute_gap, ring.gpus_per_node), (Picos::from_millis(1), 4));
    assert_eq!(
        (ring.slice_bytes, ring.nvlink_bps),
        (Some(512 << 10), Some(3_200_000_000_000))
    );
    assert_eq!(
        (train.transport, train.qps_per_connection, train.spread),
        (1, 2, MessageSpread::Split)
    );
    let JobKind::Collective(rail) = &rail1.kind else {
        panic!("{rail1:?}")
    };
    assert_eq!(
        (rail.ranks.as_slice(), rail.bytes.as_slice(), rail1.verb),
        ([0, 4].as_slice(), [4096].as_slice(), Verb::Send)
    );
    assert_eq!(
        (rail1.transport, rail1.qps_per_connection),
        (0, 1),
        "the default transport"
    );
    let JobKind::Flows(flows) = &storage.kind else {
        panic!("{storage:?}")
    };
    let ends: Vec<_> = flows
        .iter()
        .map(|flow| (flow.src, flow.dst, flow.bytes))
        .collect();
    assert_eq!(
        ends,
        [(0, 7, 4096), (1, 7, 4096), (2, 7, 4096), (0, 1, 1), (0, 2, 1)]
    );
    assert_eq!(
        flows[0].repeat,
        Repeat::Every {
            interval: Picos::from_micros(1),
            count: 9
        }
    );
    assert_eq!(
        flows[4].repeat,
        Repeat::AfterCompletion {
            gap: Picos::from_micros(2),
            count: 2
        }
    );
    assert_eq!(
        (storage.background, storage.start),
        (true, Picos::from_micros(10))
    );
    let JobKind::Poisson(poisson) = &mix.kind else {
        panic!("{mix:?}")
    };
    let sets = Endpoints::Sets {
        sources: vec![4, 5, 6, 7],
        destinations: vec![0, 1, 2, 3],
    };
    assert_eq!(
        (&poisson.endpoints, poisson.load, poisson.until),
        (&sets, 0.4, Some(Picos::from_millis(1)))
    );
    let JobKind::Incast(many) = &incast.kind else {
        panic!("{incast:?}")
    };
    assert_eq!(
        (many.senders.as_slice(), many.receiver, incast.verb),
        ([7, 6, 5].as_slice(), 0, Verb::Read)
    );
    assert_eq!(plan.workload.duration_ns, 0, "jobs end by themselves");
    for (index, job) in plan.workload.jobs.jobs.iter().enumerate() {
        assert!(
            job.framing.wire_bytes == plan.transports[job.transport].packet_framing().wire_bytes,
            "{index}"
        );
    }
}

#[test]
fn size_distributions_and_flow_lists_are_read_from_files() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("sizes.txt"), "0 0\n1000 50\n100000 100\n").expect("a file");
    std::fs::write(
        folder.path().join("flows.csv"),
        "src,dst,bytes,start_ns\nh2,h1,1000,5\n",
    )
    .expect("a file");
    std::fs::write(folder.path().join("bad.csv"), "h2,h9,1000,5\n").expect("a file");
    let lab = |job: &str| {
        let text =
            format!("name: f\ntopology: {{fabric: {{star: {{hosts: 3}}}}}}\nworkload: {{jobs: [{job}]}}\n");
        parse_lab(&text, "f.xoff.yml", folder.path(), TimeMode::Virtual)
    };
    let plan = lab(
        "{name: a, kind: poisson, hosts: all, sizes: sizes.txt, load: 10%, flows_max: 7}, {name: b, kind: replay, file: flows.csv}",
    );
    let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    let JobKind::Poisson(poisson) = &plan.workload.jobs.jobs[0].kind else {
        panic!("poisson")
    };
    assert_eq!(
        (poisson.sizes.mean_bytes(), poisson.flows_max),
        (0.5 * 500.0 + 0.5 * 50_500.0, Some(7))
    );
    let JobKind::Replay(flows) = &plan.workload.jobs.jobs[1].kind else {
        panic!("replay")
    };
    assert_eq!(
        (flows.len(), flows[0].src, flows[0].dst, flows[0].start),
        (1, 1, 0, Picos::from_nanos(5))
    );
    let problems = lab("{name: b, kind: replay, file: bad.csv}")
        .expect_err("h9")
        .to_string();
    assert!(
        problems.contains("f.xoff.yml:3") && problems.contains("bad.csv, line 1, column 4"),
        "{problems}"
    );
}

#[test]
fn errors_of_jobs_name_the_line_and_the_fix() {
    let cases: [(&str, &str, &[&str]); 26] = [
        (
            "kind: alltoall",
            "kind: alltoal",
            &["j.xoff.yml:12", "no kind of job \"alltoal\"", "ring-allreduce"],
        ),
        (
            "hosts: \"*-g1\", bytes: 4096",
            "hosts: all",
            &["j.xoff.yml:12", "\"rail1\" of kind alltoall has no `bytes`"],
        ),
        (
            "verb: send",
            "slice: 4K",
            &["a job of kind alltoall has no `slice`", "rail_aligned"],
        ),
        ("verb: send", "verb: atomic", &["\"atomic\"", "send, write, read"]),
        (
            "\"*-g1\"",
            "\"*-g9\"",
            &["no model host matches \"*-g9\"", "n1-g1, n1-g2"],
        ),
        ("\"*-g1\"", "n1-g1..n1-g9", &["\"n1-g1..n1-g9\" is not a range"]),
        ("\"*-g1\"", "n1-g1..n1-x", &["\"n1-g1..n1-x\" is not a range"]),
        ("\"*-g1\"", "n3-g1", &["no host is called \"n3-g1\""]),
        ("\"*-g1\"", "[all, n1-g1]", &["n1-g1 is named twice"]),
        (
            "\"*-g1\"",
            "[\"!n1-g1\", all]",
            &["n1-g1 is not among the hosts before"],
        ),
        ("\"*-g1\"", "[n1-g1]", &["job `rail1`", "1 ranks"]),
        (
            "gpus_per_node: 4",
            "gpus_per_node: 3",
            &["job `train`", "8 ranks at 3 per node"],
        ),
        (
            "[1M, 64M]",
            "[1M, 64X]",
            &["j.xoff.yml:11", "\"64X\"", "64K or 64M"],
        ),
        (
            "transport: irn",
            "transport: irm",
            &[
                "j.xoff.yml:13",
                "no transport is called \"irm\"",
                "default, dcqcn, irn",
            ],
        ),
        (
            "to: [n1-g2, n1-g3]",
            "to: n1-g1",
            &["the flow goes from a host to itself"],
        ),
        ("every: 1us", "every: 1us, gap: 1us", &["both `every` and `gap`"]),
        (
            "from: [all, \"!n1-*\"], ",
            "",
            &["either `hosts`, or `from` and `to`"],
        ),
        ("load: 40%", "load: 40", &["j.xoff.yml:14", "\"40\"", "40%"]),
        (
            ", until: 1ms",
            "",
            &["job `mix`", "neither `until` nor `flows_max`"],
        ),
        (
            "sizes: 64K",
            "sizes: none.txt",
            &["/nowhere/none.txt", "relative"],
        ),
        (
            "to: n1-g1, bytes",
            "to: all, bytes",
            &["one receiver, this one has 8"],
        ),
        (
            "rate_ai_bps: 5e6",
            "rate_a: 5e6",
            &["j.xoff.yml:7", "rate_a", "docs/congestion-control.md"],
        ),
        (
            "dcqcn-nic",
            "dcqcn-nice",
            &["no congestion control is called \"dcqcn-nice\"", "dcqcn-nic"],
        ),
        (
            "recovery: selective-repeat",
            "recovery: maybe",
            &["j.xoff.yml:8", "\"maybe\"", "go-back-zero"],
        ),
        ("timeout: 10", "timeout: 32", &["32 is out of range", "0 to 31"]),
        (
            "speed: 100g}",
            "speed: 100g, mtu: 1500}",
            &["packets of transport dcqcn", "MTU of 1500", "4156"],
        ),
    ];
    for (from, to, expected) in cases {
        let text = LAB.replacen(from, to, 1);
        assert_ne!(text, LAB, "{from} is in the file");
        let problems = parse_virtual_lab(&text)
            .map_or_else(|problems| problems.to_string(), |_| panic!("{to} is taken"));
        for part in expected {
            assert!(problems.contains(part), "{to}: {part:?} is not in:\n{problems}");
        }
    }
}

#[test]
fn jobs_run_in_real_time_unless_they_need_telemetry() {
    let text = "name: f\ntopology: {fabric: {star: {hosts: 3}}}\nworkload: {jobs: [{name: a, kind: permutation, hosts: all, bytes: 1M}]}\n";
    let real_plan = |text: &str| parse_lab(text, "f.xoff.yml", Path::new(""), TimeMode::RealTime);
    let plan = real_plan(text).unwrap_or_else(|problems| panic!("{problems}"));
    let written = serde_json::to_string(&plan).expect("a plan can be written");
    let read: LabPlan = serde_json::from_str(&written).expect("and read");
    // Computed routes are serialised as their tables.
    let again = serde_json::to_string(&read).expect("a plan can be written");
    assert_eq!(again, written, "the serialized plan is complete");
    let telemetry = format!("{text}transports: {{default: {{congestion: hpcc}}}}\n");
    let problems = real_plan(&telemetry).expect_err("hpcc").to_string();
    assert!(
        problems.contains("f.xoff.yml:3:19: the packets of transport default collect")
            && problems.contains("this needs virtual time: `xoff lab run FILE --virtual`"),
        "{problems}"
    );
    let none = text.replace(
        "jobs: [{name: a, kind: permutation, hosts: all, bytes: 1M}]",
        "drain: 1ms",
    );
    let problems = parse_virtual_lab(&none).expect_err("no end").to_string();
    assert!(problems.contains("no `duration`"), "{problems}");
}

/// Two rails without a link between them. The hosts `n*-g1` and `n*-g2` are in different components.
const RAILS: &str = r#"
name: rails
topology:
  fabric:
    rail: {nodes: 4, gpus: 2, spines: 0, speed: 100g, config: {preset: roce-lossless}}
workload:
  jobs:
    - {name: j, JOB}
"#;

#[test]
fn a_job_needs_paths_only_between_hosts_that_it_connects() {
    let accepted = [
        "kind: ring-allreduce, hosts: all, gpus_per_node: 2, bytes: 1M",
        "kind: tree-allreduce, hosts: all, gpus_per_node: 2, bytes: 1M",
        "kind: allgather, hosts: all, gpus_per_node: 2, bytes: 1M",
        "kind: reduce-scatter, hosts: all, gpus_per_node: 2, bytes: 1M",
        "kind: alltoall, rail_aligned: true, hosts: all, gpus_per_node: 2, bytes: 1M",
        "kind: flows, flows: [{from: n1-g1, to: n2-g1, bytes: 1}, {from: n3-g2, to: n1-g2, bytes: 1}]",
        "kind: incast, from: [n1-g2, n2-g2], to: n3-g2, bytes: 1",
        // The pairs depend on the seed and are checked when the job is set up.
        "kind: permutation, hosts: all, bytes: 1",
        "kind: poisson, from: all, to: all, sizes: 1k, load: 10%, until: 1us",
    ];
    for job in accepted {
        let text = RAILS.replace("JOB", job);
        parse_virtual_lab(&text).unwrap_or_else(|problems| panic!("{job}: {problems}"));
    }
    let refused = [
        (
            "kind: alltoall, hosts: all, gpus_per_node: 2, bytes: 1M",
            "job \"j\": n1-g1 sends to n2-g2, but no path of links leads from n1-g1 to n2-g2; the same is true of 23 other",
        ),
        (
            "kind: ring-allreduce, hosts: all, bytes: 1M",
            "job \"j\": n1-g1 sends to n1-g2, but no path",
        ),
        (
            "kind: flows, flows: [{from: n1-g1, to: n2-g1, bytes: 1}, {from: n3-g2, to: n1-g1, bytes: 1}]",
            "job \"j\": n3-g2 sends to n1-g1, but no path of links leads from n3-g2 to n1-g1",
        ),
        (
            "kind: incast, from: [n1-g2, n2-g1], to: n3-g2, bytes: 1",
            "job \"j\": n2-g1 sends to n3-g2, but no path",
        ),
    ];
    for (job, expected) in refused {
        let text = RAILS.replace("JOB", job);
        let problems = parse_virtual_lab(&text).expect_err(job).to_string();
        assert!(problems.contains("j.xoff.yml:8:7: "), "{problems}");
        assert!(problems.contains(expected), "{expected:?} is not in:\n{problems}");
    }
}
