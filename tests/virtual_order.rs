//! Parts of a fabric that go on by themselves within the delay of a link, beside all of them in one order: nothing may come out
//! otherwise, for whoever hears of it, reads state between two runs, or changes something then.

use std::collections::BTreeMap;
use std::path::Path;

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent};
use xoff_fabric::{FrameView, LinkEnd, Observer};
use xoff_host::Host;
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};

/// What each node went through.
#[derive(Default)]
struct Heard {
    in_order: bool,
    parts: BTreeMap<String, Vec<String>>,
    latest: Picos,
    /// Something was heard that was earlier than what was heard before it.
    went_back: bool,
    latest_of_hosts: Picos,
    /// The same of hosts alone.
    hosts_went_back: bool,
}

impl Heard {
    fn note(&mut self, time: Picos, at: LinkEnd, what: String) {
        self.went_back |= time < self.latest;
        self.latest = time;
        if matches!(at, LinkEnd::Host(_)) {
            self.hosts_went_back |= time < self.latest_of_hosts;
            self.latest_of_hosts = time;
        }
        let part = match at {
            LinkEnd::Switch { switch, .. } => format!("switch {switch}"),
            LinkEnd::Host(host) => format!("host {host}"),
        };
        self.parts.entry(part).or_default().push(what);
    }
}

impl Observer for Heard {
    fn needs_total_order(&self) -> bool {
        self.in_order
    }
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        self.note(at, from, format!("{at:?} to {until:?} {from:?} {frame:?}"));
    }
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        self.note(at, to, format!("{at:?} {to:?} {frame:?}"));
    }
    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        let end = LinkEnd::Switch { switch, port: port.0 };
        self.note(at, end, format!("{at:?} {end:?} {verdict:?}"));
    }
    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        self.note(at, port, format!("{at:?} {port:?} marked"));
    }
    fn host_updated(&mut self, at: Picos, host: u32, _: &Host) {
        self.note(at, LinkEnd::Host(host), format!("{at:?} served {host}"));
    }
    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        let end = LinkEnd::Switch { switch, port: 0 };
        self.note(event.at, end, format!("{event:?}"));
    }
}

/// Runs a lab in steps of uneven length, and after each of them reads what can be read; a link goes down and comes back, and a peer
/// sends pauses that nobody asked for.
fn play(text: &str, heard: &mut Heard) -> Vec<String> {
    let plan = parse_lab(text, "test.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut lab = VirtualLab::new(plan, LabOptions::default()).unwrap_or_else(|failure| panic!("{failure}"));
    lab.start(heard).unwrap_or_else(|failure| panic!("{failure}"));
    let mut states = Vec::new();
    let start = lab.simulation.fabric.now();
    for step in 0..20_u64 {
        let until = start + Picos(step * step * 1_000_037);
        let outcome = lab.run(until, false, heard);
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
            // All that a switch counts, in turns.
            if step as usize % fabric.switch_count() == switch {
                states.push(format!("{:?}", fabric.snapshot(switch)));
            }
        }
        match step {
            7 => fabric.set_link(1, false, heard),
            9 => fabric.set_link(1, true, heard),
            11 => {
                let pause = [
                    &[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 8, 1, 1, 0, 8][..],
                    &[0, 0, 0, 0, 0, 0, 1, 0][..],
                    &[0; 34][..],
                ];
                assert!(fabric.inject(LinkEnd::Host(0), &pause.concat(), heard));
            }
            _ => {}
        }
    }
    states.push(lab.report().to_json());
    states
}

const FABRIC: &str = "
name: order
topology:
  fabric:
    leaf-spine: {leaves: 3, spines: 2, hosts: 2, speed: 100g, uplink_speed: 100g, delay: DELAY, config: {preset: roce-lossless}}
transports:
  default: {mtu: 1024, congestion: dcqcn}
workload:
";

/// Queue pairs, in turn ruled by completions; an incast that pauses senders; open-loop flows of which some is dropped.
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
fn parts_that_go_on_by_themselves_come_to_the_same() {
    // Below 100 ns all go together anyhow; 40 us are longer than a window may be.
    let delays = [("10ns", 1), ("100ns", 2), ("1us", 3), ("40us", 2)];
    for (delay, workloads) in delays {
        for workload in &WORKLOADS[..workloads] {
            let text = FABRIC.replace("DELAY", delay) + workload;
            let mut ordered = Heard {
                in_order: true,
                ..Heard::default()
            };
            let mut apart = Heard::default();
            let states = play(&text, &mut ordered);
            let others = play(&text, &mut apart);
            assert_eq!(
                (ordered.went_back, apart.went_back),
                (false, delay != "10ns"),
                "{text}"
            );
            for (state, other) in states.iter().zip(&others) {
                assert_eq!(other, state, "{text}");
            }
            // Hosts go on apart where no message comes to its end.
            if workload.contains("incast") {
                assert_eq!(apart.hosts_went_back, delay != "10ns", "{text}");
            }
            assert_eq!(ordered.parts.len(), 11, "five switches and six hosts");
            for (part, heard) in &ordered.parts {
                let other = &apart.parts[part];
                let first = heard.iter().zip(other).position(|(one, other)| one != other);
                assert_eq!((first, heard.len()), (None, other.len()), "{part}\n{text}");
            }
        }
    }
}
