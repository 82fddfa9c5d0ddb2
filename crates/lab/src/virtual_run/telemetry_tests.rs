//! Tests the number of bytes that HPCC telemetry adds to packets, and the use of telemetry on a long path.

use std::path::Path;

use super::super::plan::TimeMode;
use super::super::resolve::parse_lab;
use super::super::{LabOptions, VirtualLab};
use crate::report::Report;
use xoff_units::Picos;

fn run_lab(text: &str) -> Report {
    let plan = parse_lab(text, "x.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.run(Picos::from_millis(100), true, &mut ());
    let report = lab.report();
    assert!(lab.simulation.jobs.is_finished(), "{:?}", report.failures);
    report
}

/// Returns the frame lengths of a data packet and of an acknowledgement, with FCS. Both hosts are connected
/// to the same switch.
fn frame_bytes(transport: &str) -> [u64; 2] {
    let report = run_lab(&format!(
        "name: x\ntopology:\n  fabric:\n    star: {{hosts: 2, speed: 25g, delay: 1us, config: {{preset: roce-lossless}}}}\n\
         transports:\n  default: {{mtu: 1000, {transport}}}\nworkload:\n  jobs:\n    \
         - {{name: f, kind: flows, flows: [{{from: h1, to: h2, bytes: 100000}}]}}\n"
    ));
    let links = &report.virtual_time.expect("virtual time").links;
    ["h1", "h2"].map(|from| {
        let link = links
            .iter()
            .find(|link| link.from == from)
            .expect("a link of each host");
        assert_eq!(link.tx_packets, 100);
        // Only the first data packet has a RETH.
        (link.tx_bytes - if from == "h1" { 16 } else { 0 }) / link.tx_packets
    })
}

#[test]
fn telemetry_adds_bytes_to_data_packets_and_acknowledgements() {
    assert_eq!(frame_bytes("congestion: none"), [1_062, 66]);
    assert_eq!(frame_bytes("congestion: hpcc"), [1_062 + 42, 66 + 42]);
    let short = "congestion: {name: hpcc, telemetry_hops: 1}";
    assert_eq!(frame_bytes(short), [1_062 + 10, 66 + 10]);
}

/// Runs a lab with eight switches in a line. Returns the utilisation of the slow link between the seventh and
/// the eighth switch.
fn utilisation_of_seventh_link(telemetry_hops: u8) -> f64 {
    let (mut nodes, mut links) = (String::new(), String::new());
    for switch in 1..=8 {
        nodes += &format!(
            "    s{switch}: {{kind: switch, config: [{{preset: roce-lossless}}, {{WRED_PROFILE: {{roce_ecn: {{ecn: ecn_none}}}}}}]}}\n"
        );
        if switch > 1 {
            let speed = if switch == 8 { "40g" } else { "100g" };
            links += &format!(
                "    - {{endpoints: [\"s{}:Ethernet4\", \"s{switch}:Ethernet0\"], speed: {speed}, delay: 1us}}\n",
                switch - 1
            );
        }
    }
    let report = run_lab(&format!(
        "name: x\ntopology:\n  nodes:\n    a: {{kind: model}}\n    b: {{kind: model}}\n    z: {{kind: model}}\n{nodes}  links:\n{links}    \
         - {{endpoints: [\"a:eth0\", \"s1:Ethernet0\"], speed: 100g, delay: 1us}}\n    \
         - {{endpoints: [\"b:eth0\", \"s1:Ethernet8\"], speed: 100g, delay: 1us}}\n    \
         - {{endpoints: [\"z:eth0\", \"s8:Ethernet4\"], speed: 100g, delay: 1us}}\n  routes: auto\ntransports:\n  \
         default: {{mtu: 1000, congestion: {{name: hpcc, telemetry_hops: {telemetry_hops}}}}}\nworkload:\n  jobs:\n    \
         - {{name: f, kind: flows, flows: [{{from: [a, b], to: z, bytes: 10MB}}]}}\n"
    ));
    let links = report.virtual_time.expect("virtual time").links;
    links
        .iter()
        .find(|link| link.from == "s7:Ethernet4")
        .expect("the slow link")
        .utilisation
        .expect("the link was used")
}

#[test]
fn hpcc_reacts_to_the_busiest_link_of_a_long_path() {
    assert!(utilisation_of_seventh_link(5) > 0.98);
    let controlled = utilisation_of_seventh_link(8);
    assert!((0.94..0.97).contains(&controlled), "{controlled}");
}

/// The frames of `flows` go to no queue pair, but they belong to a flow.
#[test]
fn frames_of_flows_are_no_packets_for_unknown_queue_pairs() {
    let text = "name: x\ntopology:\n  fabric:\n    star: {hosts: 2, speed: 10g}\n\
                workload:\n  duration: 20us\n  flows:\n    - {name: f, from: h1, to: h2}\n";
    let plan = parse_lab(text, "x.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.run(Picos::from_micros(20), false, &mut ());
    let report = lab.report();
    assert!(report.totals.received_frames > 5, "{:?}", report.totals);
    for host in &report.virtual_time.expect("virtual time").hosts {
        assert_eq!(
            host.counters.get("rx_unknown_qp").copied().unwrap_or(0),
            0,
            "{}",
            host.name
        );
    }
}
