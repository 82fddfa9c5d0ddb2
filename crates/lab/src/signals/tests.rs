use std::path::Path;

use super::super::plan::TimeMode;
use super::super::resolve::parse_lab;
use super::super::{LabOptions, VirtualLab};
use xoff_telemetry::failure::{Exit, Failure};

const STAR: &str = "star: {hosts: 3, speed: 100g, delay: 1us, config: {preset: roce-lossless}}";
const NO_ECN: &str = "star: {hosts: 3, speed: 100g, config: [{preset: roce-lossless}, {WRED_PROFILE: {roce_ecn: {ecn: ecn_none}}}]}";

/// Creates a lab with the given fabric, default transport and jobs. Returns the warnings about this lab.
fn lab_warnings(fabric: &str, transport: &str, jobs: &str) -> Result<Vec<String>, Failure> {
    let text = format!(
        "name: x\ntopology:\n  fabric:\n    {fabric}\ntransports:\n  default: {{{transport}}}\n  plain: {{mtu: 1024}}\n\
         workload:\n  jobs:\n{jobs}"
    );
    let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let lab = VirtualLab::new(plan, LabOptions::default())?;
    Ok(lab.warnings())
}

fn flows_job(name: &str, verb: &str) -> String {
    format!(
        "    - {{name: {name}, kind: flows, verb: {verb}, flows: [{{from: h2..h3, to: h1, bytes: 1K}}]}}\n"
    )
}

/// Returns the error message of a lab that must fail.
fn expect_failure(fabric: &str, transport: &str, jobs: &str) -> String {
    match lab_warnings(fabric, transport, jobs) {
        Ok(warnings) => panic!("{transport}, {jobs}: no failure, {warnings:?}"),
        Err(failure) => {
            assert_eq!(failure.exit, Exit::Configuration, "{failure}");
            failure.to_string()
        }
    }
}

fn expect_warnings(fabric: &str, transport: &str, jobs: &str) -> Vec<String> {
    lab_warnings(fabric, transport, jobs).unwrap_or_else(|failure| panic!("{transport}, {jobs}: {failure}"))
}

#[test]
fn congestion_control_with_signals_causes_no_warning() {
    for transport in [
        "congestion: none",
        "congestion: dcqcn",
        "congestion: dcqcn-nic",
        "congestion: {name: dcqcn-nic, preset: hpcc-ns3}",
        "congestion: dctcp",
        "congestion: timely",
        "congestion: hpcc",
        "congestion: swift",
        "congestion: dcqcn, feedback: ack-echo",
        "congestion: {name: none, window_bytes: 65536}",
        "window_packets: 8, ack_every: 4",
        "congestion: dcqcn, ack_every: 16",
    ] {
        for verb in ["write", "send"] {
            assert_eq!(
                expect_warnings(STAR, transport, &flows_job("a", verb)),
                [""; 0],
                "{transport}"
            );
        }
    }
    for transport in ["congestion: dcqcn", "congestion: dcqcn-nic", "congestion: none"] {
        assert_eq!(
            expect_warnings(STAR, transport, &flows_job("a", "read")),
            [""; 0],
            "{transport}"
        );
    }
    let unreliable = "congestion: dcqcn-nic, transport: uc";
    assert_eq!(
        expect_warnings(STAR, unreliable, &flows_job("a", "write")),
        [""; 0]
    );
}

#[test]
fn a_lab_fails_if_no_flow_gets_a_signal() {
    let (write, read) = (flows_job("a", "write"), flows_job("a", "read"));
    for control in [
        "hpcc",
        "dctcp",
        "timely",
        "swift",
        "{name: none, window_bytes: 65536}",
    ] {
        let message = expect_failure(STAR, &format!("congestion: {control}"), &read);
        assert!(
            message.contains("READ responses are not acknowledged"),
            "{message}"
        );
        let message = expect_failure(STAR, &format!("congestion: {control}, transport: uc"), &write);
        assert!(
            message.contains("UC and UD have no acknowledgements"),
            "{message}"
        );
        expect_failure(
            STAR,
            &format!("congestion: {control}, transport: ud"),
            &flows_job("a", "send"),
        );
    }
    for (transport, part) in [
        ("congestion: dcqcn-nic, feedback: none", "`feedback: cnp`"),
        ("congestion: dcqcn, feedback: none", "`feedback: cnp`"),
        ("congestion: dcqcn-nic, ecn: false", "`ecn: false`"),
        ("congestion: dctcp, ecn: false", "`ecn: false`"),
        ("congestion: dctcp, feedback: cnp", "`feedback: ack-echo`"),
        ("congestion: dcqcn, dscp: 0", "no queue of a switch marks DSCP 0"),
    ] {
        let message = expect_failure(STAR, transport, &write);
        assert!(message.contains(part), "{transport}: {message}");
    }
    for control in ["dcqcn", "dcqcn-nic", "dctcp"] {
        let message = expect_failure(NO_ECN, &format!("congestion: {control}"), &write);
        assert!(
            message.contains("no queue of a switch marks DSCP 26"),
            "{message}"
        );
    }
    assert_eq!(expect_warnings(NO_ECN, "congestion: swift", &write), [""; 0]);
    // Marks of READ responses are reported by CNPs only.
    let message = expect_failure(STAR, "congestion: {name: dcqcn-nic, preset: hpcc-ns3}", &read);
    assert!(message.contains("write `feedback: cnp`"), "{message}");
}

#[test]
fn a_threshold_above_the_buffer_size_does_not_mark() {
    let deep = "star: {hosts: 3, speed: 100g, config: [{preset: roce-lossless}, {WRED_PROFILE: {roce_ecn: {green_min_threshold: \"900000000\", \
                green_max_threshold: \"900000000\"}}}]}";
    let message = expect_failure(deep, "congestion: dctcp", &flows_job("a", "write"));
    assert!(
        message.contains("thresholds that the buffer can reach"),
        "{message}"
    );
}

#[test]
fn one_warning_is_given_if_some_flows_get_no_signal() {
    let jobs = flows_job("puts", "write") + &flows_job("gets", "read");
    let [warning] = expect_warnings(STAR, "congestion: timely", &jobs)
        .try_into()
        .expect("one warning");
    for part in [
        "timely",
        "transport default",
        "2 of 4 flows",
        "job gets, h2 to h1",
        "READ responses",
    ] {
        assert!(warning.contains(part), "no {part:?} in {warning}");
    }
    // Flows of a transport that needs no signal do not count.
    let other = flows_job("gets", "read")
        + "    - {name: b, kind: flows, transport: plain, flows: [{from: h2, to: h1, bytes: 1K}]}\n";
    expect_failure(STAR, "congestion: timely", &other);
}

#[test]
fn a_fabric_without_marking_queues_fails() {
    let fabric = "leaf-spine: {leaves: 2, spines: 2, hosts: 2, speed: 100g, delay: 500ns, config: [{preset: roce-lossless}, \
                  {WRED_PROFILE: {roce_ecn: {ecn: ecn_none}}}]}";
    let job = "    - {name: a, kind: permutation, hosts: all, bytes: 1K}\n";
    let message = expect_failure(fabric, "congestion: dcqcn", job);
    assert!(message.contains("no queue of a switch marks"), "{message}");
}

/// Returns the warnings about a lab with two switches. Only the first switch marks packets. Host `a` is
/// connected to the first switch, and hosts `b` and `z` are connected to the second switch.
fn half_marking_lab_warnings(flows: &str) -> Result<Vec<String>, Failure> {
    let text = format!(
        "name: x\ntopology:\n  nodes:\n    s1: {{kind: switch, config: {{preset: roce-lossless}}}}\n    \
         s2: {{kind: switch, config: [{{preset: roce-lossless}}, {{WRED_PROFILE: {{roce_ecn: {{ecn: ecn_none}}}}}}]}}\n    \
         a: {{kind: model}}\n    b: {{kind: model}}\n    z: {{kind: model}}\n  links:\n    \
         - {{endpoints: [\"a:eth0\", \"s1:Ethernet0\"]}}\n    - {{endpoints: [\"s1:Ethernet4\", \"s2:Ethernet0\"]}}\n    \
         - {{endpoints: [\"b:eth0\", \"s2:Ethernet4\"]}}\n    - {{endpoints: [\"z:eth0\", \"s2:Ethernet8\"]}}\n\
         transports: {{default: {{congestion: dcqcn}}}}\nworkload:\n  jobs:\n    - {{name: f, kind: flows, flows: {flows}}}\n"
    );
    let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    VirtualLab::new(plan, LabOptions::default()).map(|lab| lab.warnings())
}

#[test]
fn only_queues_that_a_flow_passes_can_mark_it() {
    let marked = half_marking_lab_warnings("[{from: a, to: z, bytes: 1K}]");
    assert_eq!(marked.expect("the first switch marks"), [""; 0]);
    // The path from the second switch ends at the first switch, whose port to the host marks packets.
    let marked = half_marking_lab_warnings("[{from: b, to: a, bytes: 1K}]");
    assert_eq!(marked.expect("the first switch marks"), [""; 0]);
    let some = half_marking_lab_warnings("[{from: [a, b], to: z, bytes: 1K}]").expect("one of two is marked");
    assert_eq!(some.len(), 1, "{some:?}");
    assert!(
        some[0].contains("no effect on 1 of 2 flows (job f, b to z)"),
        "{some:?}"
    );
    let failure = half_marking_lab_warnings("[{from: b, to: z, bytes: 1K}]").expect_err("no flow is marked");
    assert!(
        failure
            .to_string()
            .contains("no queue on their shortest paths marks DSCP 26"),
        "{failure}"
    );
}

#[test]
fn windows_of_unacknowledged_flows_cause_a_warning() {
    for (transport, verb) in [
        ("window_packets: 8", "read"),
        ("window_bytes: 8192, transport: uc", "write"),
        ("window_packets: 8, transport: ud", "send"),
    ] {
        let [warning] = expect_warnings(STAR, transport, &flows_job("a", verb))
            .try_into()
            .expect("one warning");
        assert!(
            warning.contains("the window of transport default has no effect on 2 flows"),
            "{warning}"
        );
    }
}

#[test]
fn acknowledgements_of_several_packets_cause_a_warning() {
    for control in [
        "dctcp",
        "timely",
        "hpcc",
        "swift",
        "{name: dcqcn-nic, preset: hpcc-ns3}",
    ] {
        let transport = format!("congestion: {control}, ack_every: 2");
        let [warning] = expect_warnings(STAR, &transport, &flows_job("a", "write"))
            .try_into()
            .expect("one warning");
        assert!(warning.contains("`ack_every` is 2"), "{warning}");
    }
}

/// Returns the warnings of a chain of switches with a host at each end.
fn switch_chain_warnings(switches: usize, telemetry_hops: usize) -> Vec<String> {
    let mut nodes = String::new();
    let mut links = String::new();
    for switch in 1..=switches {
        nodes += &format!("    s{switch}: {{kind: switch, config: {{preset: roce-lossless}}}}\n");
        if switch > 1 {
            links += &format!(
                "    - {{endpoints: [\"s{}:Ethernet4\", \"s{switch}:Ethernet0\"], speed: 100g}}\n",
                switch - 1
            );
        }
    }
    let text = format!(
        "name: x\ntopology:\n  nodes:\n    a: {{kind: model}}\n    z: {{kind: model}}\n{nodes}  links:\n{links}    \
         - {{endpoints: [\"a:eth0\", \"s1:Ethernet0\"], speed: 100g}}\n    - {{endpoints: [\"z:eth0\", \
         \"s{switches}:Ethernet4\"], speed: 100g}}\n  routes: auto\ntransports:\n  default: {{congestion: {{name: hpcc, \
         telemetry_hops: {telemetry_hops}}}}}\nworkload:\n  jobs:\n    - {{name: f, kind: flows, flows: [{{from: a, to: z, bytes: 1K}}]}}\n"
    );
    let plan = parse_lab(&text, "x.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.warnings()
}

#[test]
fn paths_longer_than_the_telemetry_cause_a_warning() {
    assert_eq!(switch_chain_warnings(5, 5), [""; 0]);
    assert_eq!(switch_chain_warnings(8, 8), [""; 0]);
    let [warning] = switch_chain_warnings(6, 5).try_into().expect("one warning");
    for part in ["of 5 hops", "passes 6 switches", "telemetry_hops: 6"] {
        assert!(warning.contains(part), "no {part:?} in {warning}");
    }
    let [warning] = switch_chain_warnings(17, 16).try_into().expect("one warning");
    assert!(warning.contains("may be 16 at most"), "{warning}");
}
