//! Comparison of parallel and serial execution of a fabric. Parts of a fabric advance independently within
//! the delay of a link. Observers, reads between two runs and changes must see the same results as in one
//! total order.

use std::collections::BTreeMap;
use std::path::Path;

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent};
use xoff_fabric::{FrameView, LinkEnd, Observer, SimulationEnd};
use xoff_host::Host;
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};

/// The events of each node, as text.
#[derive(Default)]
struct EventRecorder {
    needs_order: bool,
    events_by_node: BTreeMap<String, Vec<String>>,
    latest_time: Picos,
    /// True if an event was earlier than the event before it.
    is_out_of_order: bool,
    latest_host_time: Picos,
    /// True if an event of a host was earlier than the host event before it.
    hosts_are_out_of_order: bool,
}

impl EventRecorder {
    fn record_event(&mut self, time: Picos, at: LinkEnd, what: String) {
        self.is_out_of_order |= time < self.latest_time;
        self.latest_time = time;
        if matches!(at, LinkEnd::Host(_)) {
            self.hosts_are_out_of_order |= time < self.latest_host_time;
            self.latest_host_time = time;
        }
        let part = match at {
            LinkEnd::Switch { switch, .. } => format!("switch {switch}"),
            LinkEnd::Host(host) => format!("host {host}"),
        };
        self.events_by_node.entry(part).or_default().push(what);
    }
}

impl Observer for EventRecorder {
    fn needs_total_order(&self) -> bool {
        self.needs_order
    }
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        self.record_event(at, from, format!("{at:?} to {until:?} {from:?} {frame:?}"));
    }
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        self.record_event(at, to, format!("{at:?} {to:?} {frame:?}"));
    }
    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        let end = LinkEnd::Switch { switch, port: port.0 };
        self.record_event(at, end, format!("{at:?} {end:?} {verdict:?}"));
    }
    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        self.record_event(at, port, format!("{at:?} {port:?} marked"));
    }
    fn host_updated(&mut self, at: Picos, host: u32, _: &Host) {
        self.record_event(at, LinkEnd::Host(host), format!("{at:?} served {host}"));
    }
    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        let end = LinkEnd::Switch { switch, port: 0 };
        self.record_event(event.at, end, format!("{event:?}"));
    }
}

/// Runs a lab in steps of uneven length and reads the states after each step. A link fails and recovers, and
/// a peer sends unsolicited pauses.
fn run_in_steps(text: &str, recorder: &mut EventRecorder) -> Vec<String> {
    let plan = parse_lab(text, "test.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.start(recorder).unwrap_or_else(|failure| panic!("{failure}"));
    let mut states = Vec::new();
    let start = lab.simulation.fabric.now();
    for step in 0..20_u64 {
        let until = start + Picos(step * step * 1_000_037);
        let outcome = lab.run(until, false, recorder);
        let fabric = &mut lab.simulation.fabric;
        states.push(format!(
            "{outcome:?} at {:?}, {:?} next, {} hops, {} events, {} pending, {} moves, {} queued, {} on wires, {} under way",
            fabric.now(),
            fabric.next_event(),
            fabric.frame_hops(),
            fabric.events(),
            fabric.events_pending(),
            fabric.frames_moved(),
            fabric.frames_queued(),
            fabric.frames_on_links(),
            fabric.frames_in_flight(),
        ));
        for switch in 0..fabric.switch_count() {
            fabric.switch(switch).assert_consistent();
            // Each step reads all counters of one switch.
            if step as usize % fabric.switch_count() == switch {
                states.push(format!("{:?}", fabric.snapshot(switch)));
            }
        }
        match step {
            7 => fabric.set_link(1, false, recorder),
            9 => fabric.set_link(1, true, recorder),
            11 => {
                let pause = [
                    &[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 8, 1, 1, 0, 8][..],
                    &[0, 0, 0, 0, 0, 0, 1, 0][..],
                    &[0; 34][..],
                ];
                assert!(fabric.inject(LinkEnd::Host(0), &pause.concat(), recorder));
            }
            _ => {}
        }
    }
    states.push(lab.report().to_json());
    states
}

const FABRIC_LAB: &str = "
name: order
topology:
  fabric:
    leaf-spine: {leaves: 3, spines: 2, hosts: 2, speed: 100g, uplink_speed: 100g, delay: DELAY, config: {preset: roce-lossless}}
transports:
  default: {mtu: 1024, congestion: dcqcn}
workload:
";

/// Queue pairs whose algorithms use completions, an incast that pauses senders, and open-loop
/// flows with drops.
const WORKLOADS: [&str; 3] = [
    "
  jobs:
    - {name: reduce, kind: ring-allreduce, hosts: all, bytes: [16K, 64K], iterations: 1}
    - {name: each, kind: alltoall, hosts: all, bytes: 32K}
",
    "
  jobs:
    - {name: incast, kind: flows, flows: [{from: h1, to: h6, bytes: 600K}, {from: h2, to: h6, bytes: 600K}, {from: h3, to: h6, bytes: 600K}, {from: h6, to: h1, bytes: 300K}]}
",
    "
  duration: 60us
  drain: 1ms
  flows:
    - {name: lossless, from: [h1, h2, h3, h4], to: h6, lossless: true}
    - {name: lossy, from: [h2, h5], to: h6, rate: 60%}
",
];

#[test]
fn parallel_parts_give_the_results_of_the_total_order() {
    // Below 100 ns all parts advance together. 40 us exceed the longest window.
    let delays = [("10ns", 1), ("100ns", 2), ("1us", 3), ("40us", 2)];
    for (delay, workloads) in delays {
        for workload in &WORKLOADS[..workloads] {
            let text = FABRIC_LAB.replace("DELAY", delay) + workload;
            let mut ordered = EventRecorder {
                needs_order: true,
                ..EventRecorder::default()
            };
            let mut apart = EventRecorder::default();
            let states = run_in_steps(&text, &mut ordered);
            let others = run_in_steps(&text, &mut apart);
            assert_eq!(
                (ordered.is_out_of_order, apart.is_out_of_order),
                (false, delay != "10ns"),
                "{text}"
            );
            for (state, other) in states.iter().zip(&others) {
                assert_eq!(other, state, "{text}");
            }
            // Hosts advance independently while no message completes.
            if workload.contains("incast") {
                assert_eq!(apart.hosts_are_out_of_order, delay != "10ns", "{text}");
            }
            assert_eq!(ordered.events_by_node.len(), 11, "five switches and six hosts");
            for (part, recorder) in &ordered.events_by_node {
                let other = &apart.events_by_node[part];
                let first = recorder.iter().zip(other).position(|(one, other)| one != other);
                assert_eq!((first, recorder.len()), (None, other.len()), "{part}\n{text}");
            }
        }
    }
}

/// Hosts run separately although messages complete in most windows. All hosts form one partition only near the end
/// of an iteration.
#[test]
fn hosts_run_separately_while_messages_complete() {
    for job in [
        "kind: ring-allreduce, bytes: 1M",
        "kind: alltoall, bytes: 1M",
        "kind: alltoall, bytes: 1M, qps: 2, iterations: 3",
        "kind: permutation, bytes: 256K, iterations: 3",
        "kind: incast, to: h1, from: [h2, h3, h4, h5, h6], bytes: 400K",
    ] {
        let hosts = if job.contains("incast") {
            ""
        } else {
            "hosts: all, "
        };
        let text = format!(
            "{}  jobs: [{{name: job, {hosts}{job}}}]\n",
            FABRIC_LAB.replace("DELAY", "1us").replace("dcqcn", "none")
        );
        let plan = parse_lab(&text, "test.xoff.yml", Path::new(""), TimeMode::Virtual)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let mut lab =
            VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
        lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(
            lab.run(Picos::from_millis(100), true, &mut ()),
            SimulationEnd::Finished,
            "{job}"
        );
        let (windows, joint_windows) = lab.simulation.fabric.windows();
        assert!(
            windows > 50 && joint_windows * 5 < windows,
            "{job}: {joint_windows} of {windows}"
        );
    }
}
