//! Comparison of runs with different orders of work. The parts of a fabric advance independently within the delay of a
//! link, on one or several threads. Observers, reads between two runs and changes must see the same as in one order.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use xoff_dataplane::{ForwardingResult, Picos, PortId, SwitchEvent};
use xoff_fabric::{
    CompletionHandler, CompletionScope, FabricHosts, Fault, FaultAction, FrameSelector, FrameView,
    HostEventCounts, JobHosts, LinkEnd, Observer, SimulationEnd,
};
use xoff_lab::plan::TimeMode;
use xoff_lab::{LabOptions, VirtualLab, parse_lab};
use xoff_rdma::Completion;

/// All events in the order in which the fabric reported them, as text.
#[derive(Default)]
struct EventRecorder {
    events: Vec<String>,
}

impl Observer for EventRecorder {
    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        self.events
            .push(format!("{at:?} departs until {until:?} {from:?} {frame:?}"));
    }
    fn frame_arrived(&mut self, at: Picos, to: LinkEnd, frame: FrameView<'_>) {
        self.events.push(format!("{at:?} arrives {to:?} {frame:?}"));
    }
    fn admission_decided(&mut self, at: Picos, switch: u32, port: PortId, verdict: &ForwardingResult) {
        self.events.push(format!("{at:?} {switch} {port:?} {verdict:?}"));
    }
    fn frame_marked(&mut self, at: Picos, port: LinkEnd) {
        self.events.push(format!("{at:?} {port:?} marked"));
    }
    fn fault_applied(&mut self, at: Picos, from: LinkEnd, frame: FrameView<'_>, lost: bool) {
        self.events
            .push(format!("{at:?} fault {from:?} {frame:?} lost {lost}"));
    }
    fn host_counters_changed(&mut self, at: Picos, host: u32, counts: HostEventCounts) {
        self.events.push(format!("{at:?} host {host} {counts:?}"));
    }
    fn request_completed(&mut self, host: usize, completion: &Completion) {
        self.events.push(format!("host {host} {completion:?}"));
    }
    fn switch_event(&mut self, switch: u32, event: &SwitchEvent) {
        self.events.push(format!("switch {switch} {event:?}"));
    }
}

/// How a run processes its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// All events in one order.
    One,
    /// Windows of partitions, on this number of threads.
    Windows(usize),
}

/// A lab that is ready to start.
fn new_lab(text: &str, order: Order) -> VirtualLab {
    let plan = parse_lab(text, "test.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"));
    let threads = match order {
        Order::One => 1,
        Order::Windows(threads) => threads,
    };
    let options = LabOptions {
        threads,
        ..LabOptions::default()
    };
    let mut lab = VirtualLab::new(plan, options).unwrap_or_else(|failure| panic!("{failure}"));
    if order == Order::One {
        lab.simulation.fabric.process_in_one_order();
    }
    lab
}

/// Returns the report of a lab without the description of the machine and of the threads.
fn report_without_environment(lab: &VirtualLab) -> String {
    let mut report = lab.report();
    report.environment = Default::default();
    report.to_json()
}

/// Runs a lab in steps of uneven length and reads the states after each step. A link loses frames, another link fails
/// and recovers, and a peer sends unsolicited pauses.
fn run_in_steps(text: &str, order: Order, observer: &mut dyn Observer) -> (VirtualLab, Vec<String>) {
    let mut lab = new_lab(text, order);
    lab.start(observer).unwrap_or_else(|failure| panic!("{failure}"));
    let mut states = Vec::new();
    let start = lab.simulation.fabric.now();
    for step in 0..20_u64 {
        let until = start + Picos(step * step * 1_000_037);
        let outcome = lab.run(until, false, observer);
        let fabric = &mut lab.simulation.fabric;
        states.push(format!(
            "{outcome:?} at {:?}, {:?} next, {} hops, {} events, {} pending, {} moves, {} queued, {} on links, \
             {} in flight, at most {}, {} lost",
            fabric.now(),
            fabric.next_event(),
            fabric.frame_hops(),
            fabric.events(),
            fabric.events_pending(),
            fabric.frames_moved(),
            fabric.frames_queued(),
            fabric.frames_on_links(),
            fabric.frames_in_flight(),
            fabric.frames_in_flight_max(),
            (0..4).map(|link| fabric.lost_frames(link)).sum::<u64>(),
        ));
        states.push(lab.simulation.jobs.workload().pending_description(|_| "a host"));
        for switch in 0..fabric.switch_count() {
            fabric.switch(switch).assert_consistent();
            // Each step reads all counters of one switch.
            if step as usize % fabric.switch_count() == switch {
                states.push(format!("{:?}", fabric.snapshot(switch)));
            }
        }
        change_fabric(&mut lab, step, observer);
    }
    states.push(report_without_environment(&lab));
    (lab, states)
}

/// Changes the fabric after a step.
fn change_fabric(lab: &mut VirtualLab, step: u64, observer: &mut dyn Observer) {
    let fabric = &mut lab.simulation.fabric;
    let fault = |action, probability: f64| Fault {
        action,
        selector: FrameSelector::Probability((probability * f64::from(u32::MAX)) as u64),
        frames_max: 20,
        spares_up_to_len: 0,
    };
    match step {
        3 => {
            let uplink = LinkEnd::Switch { switch: 0, port: 2 };
            assert!(fabric.add_fault(uplink, fault(FaultAction::Drop, 0.02)));
            assert!(fabric.add_fault(LinkEnd::Host(1), fault(FaultAction::Corrupt, 0.02)));
        }
        7 => fabric.set_link(1, false, observer),
        9 => fabric.set_link(1, true, observer),
        11 => {
            let pause = [
                &[1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 8, 1, 1, 0, 8][..],
                &[0, 0, 0, 0, 0, 0, 1, 0][..],
                &[0; 34][..],
            ];
            assert!(fabric.inject(LinkEnd::Host(0), &pause.concat(), observer));
        }
        _ => {}
    }
}

/// Asserts that two lists are equal, and names the first difference.
fn assert_equal(what: &str, one: &[String], other: &[String]) {
    let different = one.iter().zip(other).find(|(one, other)| one != other);
    if let Some((one, other)) = different {
        panic!("{what}:\n{one}\n{other}");
    }
    assert_eq!(one.len(), other.len(), "{what}");
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

/// Events, states and reports are the same in one order and in windows, on any number of threads.
#[test]
fn orders_and_threads_give_the_same_events() {
    // Below 100 ns all events are processed in one order. 40 us exceed the longest window.
    let delays = [("10ns", 1), ("100ns", 2), ("1us", 3), ("40us", 2)];
    for (delay, workloads) in delays {
        for workload in &WORKLOADS[..workloads] {
            let text = FABRIC_LAB.replace("DELAY", delay) + workload;
            let mut expected = EventRecorder::default();
            let (_, states) = run_in_steps(&text, Order::One, &mut expected);
            assert!(expected.events.len() > 10_000, "{text}");
            for threads in if delay == "1us" {
                vec![1, 2, 3, 8]
            } else {
                vec![1, 3]
            } {
                let what = format!("{threads} threads\n{text}");
                let mut recorder = EventRecorder::default();
                let (lab, with_observer) = run_in_steps(&text, Order::Windows(threads), &mut recorder);
                assert_equal(&what, &expected.events, &recorder.events);
                assert_equal(&what, &states, &with_observer);
                assert_threads_have_worked(&lab, if delay == "10ns" { 1 } else { threads.min(5) });
                // Without an observer, hosts run separately in more windows.
                let (lab, without) = run_in_steps(&text, Order::Windows(threads), &mut ());
                assert_equal(&what, &states, &without);
                // A lab without queue pairs has no completions.
                let (windows, joint_windows) = lab.simulation.fabric.windows();
                assert_eq!(windows > 20, delay != "10ns", "{what}");
                assert!(workload.contains("jobs") || joint_windows == 0, "{what}");
            }
        }
    }
}

/// Asserts that a fabric has a number of threads, and that each of them has processed events.
fn assert_threads_have_worked(lab: &VirtualLab, threads: usize) {
    let events = lab.simulation.fabric.events_of_threads();
    assert_eq!(events.len(), threads);
    assert!(events.iter().all(|events| *events > 100), "{events:?}");
}

/// Hosts run separately although messages complete in most windows. All hosts are processed in one order only near the
/// end of an iteration.
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
        let mut reports = BTreeSet::new();
        for threads in [1, 2, 3] {
            let mut lab = new_lab(&text, Order::Windows(threads));
            lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(
                lab.run(Picos::from_millis(100), true, &mut ()),
                SimulationEnd::Finished,
                "{job}"
            );
            let (windows, joint_windows) = lab.simulation.fabric.windows();
            assert!(
                windows > 50 && joint_windows * 4 < windows,
                "{job}: {joint_windows} of {windows}"
            );
            reports.insert(report_without_environment(&lab));
        }
        assert_eq!(reports.len(), 1, "{job}");
    }
}

/// Returns a random lab: a fabric of random size, random jobs and flows.
fn random_lab(draw: &mut impl FnMut(u64) -> u64) -> String {
    let mut choose = |choices: &[&'static str]| choices[draw(choices.len() as u64) as usize];
    let hosts = ["2", "2", "3", "4"];
    let (leaves, spines) = (choose(&["2", "3", "5"]), choose(&["1", "2", "4"]));
    let (hosts, delay) = (choose(&hosts), choose(&["120ns", "500ns", "1us", "3us"]));
    let (speed, uplink) = (choose(&["25g", "100g", "400g"]), choose(&["100g", "400g"]));
    let balancing = choose(&["ecmp", "flowlet", "per-packet"]);
    let congestion = choose(&["dcqcn", "none"]);
    let size = choose(&["4K", "40K", "150K"]);
    let job = choose(&[
        "kind: ring-allreduce, hosts: all",
        "kind: alltoall, hosts: all",
        "kind: permutation, hosts: all, iterations: 2",
        "kind: incast, to: h1, from: [h2, h3, h4]",
        "kind: allgather, hosts: all, iterations: 2",
        "kind: permutation, hosts: all, verb: read",
        "kind: tree-allreduce, hosts: all",
    ]);
    let flows = choose(&[
        "",
        "  duration: 30us\n  drain: 1ms\n  flows: [{name: f, from: h2, to: h4, rate: 40%}]\n",
        "  duration: 30us\n  drain: 1ms\n  flows: [{name: f, from: [h1, h2], to: h4, lossless: true}]\n",
    ]);
    format!(
        "
name: random
topology:
  defaults: {{load_balancing: {balancing}}}
  fabric:
    leaf-spine: {{leaves: {leaves}, spines: {spines}, hosts: {hosts}, speed: {speed}, uplink_speed: {uplink}, delay: {delay}, config: {{preset: roce-lossless}}}}
transports:
  default: {{mtu: 1024, congestion: {congestion}}}
workload:
{flows}  jobs:
    - {{name: job, bytes: {size}, {job}}}
"
    )
}

/// Random labs give the same events with one thread and with several. `XOFF_RANDOM_LABS` is the number of labs.
#[test]
fn random_labs_do_not_depend_on_the_number_of_threads() {
    let count = std::env::var("XOFF_RANDOM_LABS").map_or(3, |text| text.parse().expect("a number"));
    for seed in 0..count {
        let mut draw = xoff_testing::random_generator(seed);
        let text = random_lab(&mut draw);
        let mut expected = EventRecorder::default();
        let (_, states) = run_in_steps(&text, Order::Windows(1), &mut expected);
        for threads in [2, 3, 8] {
            let what = format!("seed {seed}, {threads} threads\n{text}");
            let mut recorder = EventRecorder::default();
            let (lab, others) = run_in_steps(&text, Order::Windows(threads), &mut recorder);
            assert_equal(&what, &expected.events, &recorder.events);
            assert_equal(&what, &states, &others);
            // A spine without traffic can be alone in its thread.
            let events = lab.simulation.fabric.events_of_threads();
            assert!(events.len() == 1 || events.iter().filter(|events| **events > 0).count() > 1);
            let (_, without) = run_in_steps(&text, Order::Windows(threads), &mut ());
            assert_equal(&what, &states, &without);
        }
    }
}

/// A run with a limit of events ends after the same window with any number of threads. Steps of a run, which end after
/// other windows, change nothing.
#[test]
fn limits_of_events_do_not_depend_on_threads() {
    let text = FABRIC_LAB.replace("DELAY", "1us") + &WORKLOADS[0].replace("32K", "1M");
    for events_max in [3_000, 30_000, 60_000, u64::MAX] {
        let mut results = BTreeSet::new();
        for threads in [1, 2, 3, 8] {
            let mut lab = new_lab(&text, Order::Windows(threads));
            lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
            lab.simulation.fabric.set_events_max(events_max);
            let end = loop {
                let fabric = &mut lab.simulation.fabric;
                fabric.set_step_end(fabric.events() + 1_000 * threads as u64);
                match lab.run(Picos::from_millis(100), true, &mut ()) {
                    SimulationEnd::EventLimit if lab.simulation.fabric.events() < events_max => {}
                    end => break end,
                }
            };
            let fabric = &lab.simulation.fabric;
            let state = (fabric.now(), fabric.events(), fabric.frames_in_flight_max());
            assert!(fabric.events() > events_max.min(70_000), "{state:?}");
            assert_eq!(
                end == SimulationEnd::EventLimit,
                events_max < u64::MAX,
                "{state:?}"
            );
            results.insert(format!("{end:?} {state:?} {}", report_without_environment(&lab)));
        }
        assert_eq!(results.len(), 1, "{events_max}");
    }
}

/// Panics when a host completes a request.
struct PanickingHandler {
    host: usize,
}

impl CompletionHandler for PanickingHandler {
    fn scope(&self) -> CompletionScope {
        CompletionScope::CompletingHost
    }

    fn no_step_ends(&mut self, _: usize, _: &mut dyn FnMut(usize, u64) -> Option<bool>) -> bool {
        true
    }

    fn handle_local_completions(&mut self, hosts: &mut FabricHosts<'_>) {
        hosts.take_completions(|host, _| assert_ne!(host, self.host, "the host of the test"));
    }

    fn handle_completions(&mut self, hosts: &mut FabricHosts<'_>) -> ControlFlow<()> {
        self.handle_local_completions(hosts);
        ControlFlow::Continue(())
    }
}

/// A panic in any thread of a run ends the run, while the other threads wait for the thread.
#[test]
fn a_panic_in_a_thread_ends_the_run() {
    let text = FABRIC_LAB.replace("DELAY", "1us") + WORKLOADS[0];
    // The first host is in the shard of the calling thread.
    for host in [0, 5] {
        let mut lab = new_lab(&text, Order::Windows(3));
        lab.start(&mut ()).unwrap_or_else(|failure| panic!("{failure}"));
        let fabric = &mut lab.simulation.fabric;
        assert_eq!(fabric.thread_count(), 3);
        let run = || fabric.run_with(Picos::from_millis(100), &mut PanickingHandler { host }, &mut ());
        assert!(std::panic::catch_unwind(AssertUnwindSafe(run)).is_err(), "{host}");
    }
}
