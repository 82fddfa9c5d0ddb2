//! Comparisons of virtual time with closed forms: shares of a link, and the delay of an empty path.

use std::path::Path;

use serde_json::Value;
use xoff_fabric::{FrameView, LinkEnd, Observer};
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_units::Picos;

fn virtual_lab(text: &str) -> VirtualLab {
    let plan = parse_lab(text, "test.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs the flows of a lab for a time. Returns the goodput of each flow in the order of the report.
fn run_and_get_goodputs(text: &str, time: Picos) -> Vec<f64> {
    let mut lab = virtual_lab(text);
    lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.run(time, false, &mut ());
    let report: Value = serde_json::from_str(&lab.report().to_json()).expect("a report is JSON");
    let flows = report["flows"].as_array().expect("flows");
    flows
        .iter()
        .map(|flow| flow["goodput_bps"].as_f64().expect("goodput"))
        .collect()
}

fn assert_shares(found: &[f64], expected: &[f64], tolerance: f64) {
    let (sum, total): (f64, f64) = (found.iter().sum(), expected.iter().sum());
    for (flow, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (found, expected) = (found / sum, expected / total);
        assert!(
            (found / expected - 1.0).abs() <= tolerance,
            "flow {flow} has a share of {found:.5}, expected is {expected:.5}"
        );
    }
}

/// DWRR divides an overloaded link by weights, at any offered load.
#[test]
fn dwrr_shares_equal_the_weights() {
    for weights in [[1, 1, 1], [1, 2, 5], [10, 30, 60]] {
        let schedulers: Vec<String> = (0..3)
            .map(|n| format!("w{n}: {{type: DWRR, weight: {}}}", weights[n]))
            .collect();
        let queues: Vec<String> = (0..3)
            .map(|n| format!("\"Ethernet12|{n}\": {{scheduler: w{n}}}"))
            .collect();
        let maps: Vec<String> = (0..64).map(|dscp| format!("\"{dscp}\": {}", dscp / 8)).collect();
        let ports: Vec<String> = (0..4)
            .map(|n| format!("Ethernet{}: {{dscp_to_tc_map: classes}}", 4 * n))
            .collect();
        let text = format!(
            "
name: dwrr
topology:
  nodes:
    sw1: {{kind: switch, config: [{{preset: roce-lossless}}, {{SCHEDULER: {{{}}}, QUEUE: {{{}}}, DSCP_TO_TC_MAP: {{classes: {{{}}}}}, PORT_QOS_MAP: {{{}}}}}]}}
    h1: {{kind: model}}
    h2: {{kind: model}}
    h3: {{kind: model}}
    h4: {{kind: model}}
  links:
    - {{endpoints: [\"h1:eth0\", \"sw1:Ethernet0\"], speed: 100g, delay: 1us}}
    - {{endpoints: [\"h2:eth0\", \"sw1:Ethernet4\"], speed: 100g, delay: 1us}}
    - {{endpoints: [\"h3:eth0\", \"sw1:Ethernet8\"], speed: 100g, delay: 1us}}
    - {{endpoints: [\"h4:eth0\", \"sw1:Ethernet12\"], speed: 100g, delay: 1us}}
workload:
  duration: 10ms
  flows:
    - {{name: a, from: h1, to: h4, dscp: 0}}
    - {{name: b, from: h2, to: h4, dscp: 8}}
    - {{name: c, from: h3, to: h4, dscp: 16}}
",
            schedulers.join(", "),
            queues.join(", "),
            maps.join(", "),
            ports.join(", ")
        );
        let shares = run_and_get_goodputs(&text, Picos::from_millis(4));
        assert_shares(&shares, &weights.map(f64::from), 0.005);
    }
}

/// Lossless senders to one link get max-min fair shares: a sender that asks for less than its share gets its
/// demand, and the others divide the rest.
#[test]
fn incast_shares_are_max_min_fair() {
    let incast = |rates: [&str; 4]| {
        let flows: Vec<String> = (1..=4)
            .zip(rates)
            .map(|(n, rate)| {
                format!("    - {{name: f{n}, from: h{n}, to: h5, rate: {rate}, dscp: 26, lossless: true}}\n")
            })
            .collect();
        format!(
            "
name: incast
topology:
  fabric:
    star: {{hosts: 5, speed: 100g, delay: 1us, config: {{preset: roce-lossless}}}}
workload:
  duration: 20ms
  flows:
{}",
            flows.concat()
        )
    };
    let shares = run_and_get_goodputs(&incast(["100%", "100%", "100%", "100%"]), Picos::from_millis(10));
    assert_shares(&shares, &[1.0, 1.0, 1.0, 1.0], 0.01);
    // Two senders offer a tenth and a fifth of the link. Each of the other two gets 35 %.
    let shares = run_and_get_goodputs(&incast(["10%", "20%", "100%", "100%"]), Picos::from_millis(10));
    assert_shares(&shares, &[10.0, 20.0, 35.0, 35.0], 0.02);
}

/// The times at which the only data frame leaves its sender and arrives at its receiver.
#[derive(Default)]
struct FrameTimes {
    left: Option<Picos>,
    arrived: Option<Picos>,
    len: u64,
}

impl Observer for FrameTimes {
    fn frame_departed(&mut self, at: Picos, _: Picos, from: LinkEnd, frame: FrameView<'_>) {
        if matches!(from, LinkEnd::Host(_)) && frame.frame_len > 200 {
            self.left = Some(at);
            self.len = u64::from(frame.frame_len);
        }
    }
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        if matches!(to, LinkEnd::Host(_)) && frame.frame_len > 200 {
            self.arrived = Some(at);
        }
    }
}

/// An empty path takes the store-and-forward delay, to the picosecond. Each link adds its delay and the time
/// of preamble, frame and FCS at its speed.
#[test]
fn the_delay_of_an_empty_path_is_the_sum_of_its_links() {
    // A byte lasts 80, 20, 80 and 80 ps on the links from host to leaf, leaf to spine, spine to leaf and leaf
    // to host.
    for (speed, uplink, octet_ps, uplink_octet_ps) in [
        ("100g", "400g", 80, 20),
        ("25g", "100g", 320, 80),
        ("400g", "800g", 20, 10),
        ("1g", "10g", 8_000, 800),
    ] {
        let text = format!(
            "
name: path
topology:
  fabric:
    leaf-spine: {{leaves: 2, spines: 1, hosts: 1, speed: {speed}, uplink_speed: {uplink}, delay: 1us, config: {{preset: roce-lossless}}}}
workload:
  jobs:
    - {{name: one, kind: flows, flows: [{{from: h1, to: h2, bytes: 1024}}]}}
"
        );
        let mut lab = virtual_lab(&text);
        let mut journey = FrameTimes::default();
        lab.start(&mut journey)
            .unwrap_or_else(|failure| panic!("{failure}"));
        lab.run(Picos::from_millis(10), true, &mut journey);
        let (left, arrived) = (
            journey.left.expect("it left"),
            journey.arrived.expect("it arrived"),
        );
        let octets = 8 + journey.len + 4;
        let expected = octets * 2 * (octet_ps + uplink_octet_ps) + 4 * 1_000_000;
        assert_eq!(
            arrived.since(left),
            Picos(expected),
            "{speed} and {uplink}, {} octets",
            journey.len
        );
    }
}
