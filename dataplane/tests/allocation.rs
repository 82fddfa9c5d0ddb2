//! Checks with a counting allocator that frames cause no allocation after start-up.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use xoff_dataplane::config::{PortWatchdog, SwitchConfig, WatchdogAction};
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{DropReason, FrameStore, Picos, PortId, ReceivedFrame, Switch};
use xoff_driver::{Step, TimeOrderedQueue, VirtualSwitch};
use xoff_wire::link_quality::{self, PathLoad, SiteEntry};
use xoff_wire::parse::parse;
use xoff_wire::{Ecn, MacControl, Pfc};

#[path = "support/mod.rs"]
mod support;

use support::config;
use support::frames::{insert_vlan_tag, station_mac, udp_frame};
use support::net::{self, LeafSpineFabric};
use support::packets::{arp_packet, frame_to_router, frame_with_packet, udp_ipv4_packet, udp_ipv6_packet};

thread_local! {
    /// Allocations of this thread. The threads of the test harness are not counted.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct CountingAllocator;

// SAFETY: every call is forwarded unchanged to the system allocator, which meets the contract of the trait.
// The counter is a thread-local number without allocation and destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller guarantees a valid `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `pointer` was allocated here, hence by `System`, with `layout`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const PORTS: u16 = 4;
const EVENT_CAPACITY: usize = 256;

/// A switch whose driver has room for every event from the start.
struct SwitchRun {
    driver: VirtualSwitch<VecStore>,
    /// Events that the switch has reported.
    events: usize,
}

impl SwitchRun {
    fn new(config: &SwitchConfig) -> SwitchRun {
        let queue = TimeOrderedQueue::with_capacity(EVENT_CAPACITY);
        let mut driver = VirtualSwitch::with_queue(config, VecStore::new(8_192), queue);
        driver.store_punted_frames();
        // Allocate all slots now, because the store allocates on first use.
        let store = driver.store_mut();
        let slots: Vec<_> = std::iter::from_fn(|| store.allocate(60)).collect();
        slots.into_iter().for_each(|slot| store.release(slot));
        driver.set_links_up();
        SwitchRun { driver, events: 0 }
    }

    fn switch(&self) -> &Switch {
        self.driver.switch()
    }

    fn now(&self) -> Picos {
        self.driver.now()
    }

    fn receive(&mut self, port: u16, bytes: &[u8]) {
        let Some(frame) = self.driver.store_mut().insert(bytes) else {
            return;
        };
        let arrival = ReceivedFrame {
            frame,
            frame_len: bytes.len() as u32,
            parsed: parse(bytes),
            received_at: self.now(),
        };
        self.driver.receive(PortId(port), &arrival);
        self.drain();
    }

    fn set_blocked(&mut self, port: u16, on: bool) {
        let port = PortId(port);
        self.driver
            .change(|switch, now, store, outputs| switch.set_tx_enabled(now, port, !on, store, outputs));
        self.drain();
    }

    /// Advances the time and handles deadlines in order.
    fn run_for(&mut self, span: Picos) {
        let until = self.now() + span;
        while self.driver.step(until) == Step::Deadline {
            self.drain();
        }
        self.driver.advance_to(until);
    }

    fn drain(&mut self) {
        self.driver.release_departures();
        self.driver.take_punts(|punt, store| store.release(punt.frame));
        self.events += self.driver.take_events().count();
    }
}

/// Sends frames that cause floods, marks, drops of many kinds, PFC in both directions, learning
/// and station moves.
fn send_traffic_round(run: &mut SwitchRun, frames: &[(u16, Vec<u8>)], pause: &[u8]) {
    run.set_blocked(1, true);
    for (port, frame) in frames {
        run.receive(*port, frame);
    }
    for _ in 0..2_200 {
        run.receive(0, &frames[0].1);
    }
    run.receive(2, pause);
    run.run_for(Picos::from_millis(20));
    run.set_blocked(1, false);
    run.run_for(Picos::from_millis(40));
}

#[test]
fn frames_cause_no_allocation_after_start_up() {
    let mut config = config::bridge_config(usize::from(PORTS));
    config.fdb_entries_max = 16;
    config.fdb_ageing = Picos::from_millis(100);
    for port in &mut config.ports {
        for queue in &mut port.queues {
            queue.wred = Some(config::wred_marking_above(10_000));
        }
    }
    let mut run = SwitchRun::new(&config);
    let mut frames: Vec<(u16, Vec<u8>)> = Vec::new();
    frames.push((0, udp_frame(0, 1, 3, Ecn::Ect0, 200)));
    frames.push((1, udp_frame(1, 0, 3, Ecn::Ect0, 200)));
    for n in 0..200 {
        // More stations than the table holds. Every third frame is flooded.
        let (from, to) = (n as u8 % 40, if n % 3 == 0 { 0xfe } else { 1 });
        frames.push((
            n % PORTS,
            udp_frame(from, to, n as u8 % 8, Ecn::Ect1, 60 + usize::from(n)),
        ));
    }
    frames.push((0, insert_vlan_tag(&frames[0].1, 0x8100, 5)));
    frames.push((0, frames[0].1[..13].to_vec()));
    frames.push((0, udp_frame(7, 7, 0, Ecn::NotEct, 60)));
    let pfc = MacControl::Pfc(Pfc {
        enable: 0xff,
        quanta: [100; 8],
    });
    let pause = pfc.to_frame(station_mac(9));

    let before = ALLOCATIONS.get();
    for _ in 0..5 {
        send_traffic_round(&mut run, &frames, &pause);
    }
    let allocated = ALLOCATIONS.get() - before;

    let counters = run.switch().port_counters(run.now(), PortId(0));
    assert!(counters.pfc_tx[3] > 5 && counters.pgs[3].dropped_packets > 5);
    assert!(run.switch().port_counters(run.now(), PortId(1)).ecn_marked > 5);
    assert_eq!(run.driver.store().in_use(), run.switch().queued_frames());
    assert_eq!(
        allocated,
        0,
        "allocations in {} frames",
        5 * (frames.len() + 2_200)
    );
}

/// The storms occur under every action, with frames that wait, arrive and are received.
#[test]
fn watchdog_storms_cause_no_allocation_after_start_up() {
    let mut config = config::bridge_config(usize::from(PORTS));
    config.watchdog.poll = Picos::from_millis(1);
    let actions = [
        WatchdogAction::Drop,
        WatchdogAction::Forward,
        WatchdogAction::Alert,
    ];
    for (port, action) in config.ports.iter_mut().zip(actions) {
        port.watchdog = Some(PortWatchdog {
            queues: 0xff,
            action,
            detection: Picos::from_millis(2),
            restoration: Some(Picos::from_millis(2)),
            history: true,
        });
    }
    let mut run = SwitchRun::new(&config);
    let pfc = |quanta| MacControl::Pfc(Pfc { enable: 0xff, quanta }).to_frame(station_mac(9));
    let (stop, go) = (pfc([0xffff; 8]), pfc([0; 8]));
    let run_round = |run: &mut SwitchRun| {
        for port in 0..3 {
            run.receive(port, &stop);
        }
        for _ in 0..5 {
            for (from, to) in [(0, 1), (1, 2), (2, 0), (3, 0), (3, 1), (3, 2)] {
                run.receive(from, &udp_frame(from as u8, to, 3, Ecn::NotEct, 200));
            }
            run.run_for(Picos::from_millis(1));
        }
        for port in 0..3 {
            run.receive(port, &go);
        }
        run.run_for(Picos::from_millis(5));
    };
    let frames_of_the_tests_own = {
        let before = ALLOCATIONS.get();
        let _ = udp_frame(0, 1, 3, Ecn::NotEct, 200);
        (ALLOCATIONS.get() - before) * 30
    };
    run_round(&mut run); // addresses are learnt
    let before = ALLOCATIONS.get();
    (0..5).for_each(|_| run_round(&mut run));
    let allocated = ALLOCATIONS.get() - before - 5 * frames_of_the_tests_own;
    assert!(run.events >= 5 * 2 * 3, "{}", run.events);
    for reason in [DropReason::WatchdogEgress, DropReason::WatchdogIngress] {
        assert!(run.switch().dropped_frames_for(reason) > 5, "{reason:?}");
    }
    assert_eq!(run.driver.store().in_use(), run.switch().queued_frames());
    assert_eq!(allocated, 0);
}

/// The run has routes, refusals, resolved and failed neighbours, waiting packets and ICMP errors.
#[test]
fn routed_packets_cause_no_allocation_after_start_up() {
    let mut config = config::router_config(usize::from(PORTS));
    config.routing.neighbours_max = 32;
    let hops = [(1, "10.0.1.9"), (2, "10.0.2.9")];
    config::set_static_routes(
        &mut config,
        &[("198.51.100.0/24", config::equal_cost_target(&hops))],
    );
    let mut run = SwitchRun::new(&config);
    run.driver.switch_mut().set_cpu_attached(true);
    let mut frames: Vec<(u16, Vec<u8>)> = Vec::new();
    for port in 1..3 {
        let (own, router) = (format!("10.0.{port}.9"), format!("10.0.{port}.1"));
        let request = arp_packet(1, (station_mac(port as u8), &own), ([0; 6], &router));
        frames.push((
            port,
            frame_with_packet([0xff; 6], station_mac(port as u8), 0x0806, &request),
        ));
    }
    for n in 0..200_u16 {
        let far = format!("198.51.100.{n}");
        let near = format!("10.0.1.{}", 2 + n % 50); // most of them never answer
        let near6 = format!("2001:db8:2::{n}");
        let ttl = 1 + (n % 3) as u8;
        frames.push((
            0,
            frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", &far, ttl, 100)),
        ));
        frames.push((
            0,
            frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", &near, 64, 100)),
        ));
        frames.push((
            0,
            frame_to_router(0, 0x86dd, &udp_ipv6_packet("2001:db8::9", &near6, 64, 100)),
        ));
        frames.push((
            0,
            frame_to_router(0, 0x0800, &udp_ipv4_packet("10.0.0.9", "203.0.113.1", 64, 100)),
        ));
    }
    let run_round = |run: &mut SwitchRun| {
        frames.iter().for_each(|(port, bytes)| run.receive(*port, bytes));
        run.run_for(Picos::from_millis(5_000));
    };
    let before = ALLOCATIONS.get();
    (0..5).for_each(|_| run_round(&mut run));
    let allocated = ALLOCATIONS.get() - before;
    let counters = run.switch().port_counters(run.now(), PortId(0));
    let dropped = |reason: DropReason| counters.drops[reason as usize].iter().sum::<u64>();
    assert!(dropped(DropReason::UnresolvedNextHop) > 100 && dropped(DropReason::Ttl) > 100);
    assert!(run.switch().port_counters(run.now(), PortId(1)).tx_packets > 100);
    assert_eq!(allocated, 0, "allocations in {} frames", 5 * frames.len());
}

/// The switches exchange load advertisements while traffic flows.
#[test]
fn link_quality_messages_cause_no_allocation_after_start_up() {
    let shape = LeafSpineFabric::new(usize::from(PORTS), 1);
    let spine = shape.spine_index(0);
    let mut run = SwitchRun::new(&shape.configs()[spine]);
    let mut frame = net::flow_frame(0, 1, 7, 1_000);
    frame[..6].copy_from_slice(&net::switch_mac(spine));
    let load = |load| SiteEntry {
        site: 2,
        load: Some(PathLoad {
            load,
            utilisation: load,
        }),
        capacity_mbps: 100_000,
    };
    let mut heard = vec![0; link_quality::frame_len(1)];
    let mut run_round = |run: &mut SwitchRun, from: u32| {
        for sequence in from..from + 500 {
            let entry = load(sequence as u16 % 1_000);
            link_quality::emit(&mut heard, station_mac(1), sequence, 100, [entry]);
            run.receive(1, &heard);
            run.receive(0, &frame);
            run.run_for(Picos::from_nanos(200));
        }
    };
    // Let the store's slots grow to the size of messages.
    run_round(&mut run, 0);
    let before = ALLOCATIONS.get();
    run_round(&mut run, 1_000);
    let allocated = ALLOCATIONS.get() - before;
    let (teller, hearer) = [0, 1]
        .map(|port| run.switch().port_counters(run.now(), PortId(port)))
        .into();
    assert!(teller.link_quality_tx > 5 && hearer.link_quality_rx == 1_000);
    assert!(hearer.tx_packets > 900);
    assert_eq!(allocated, 0);
}
