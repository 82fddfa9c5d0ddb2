//! A load for load-balancing schemes. Frames arrive at four ports and follow one route. This route has eight
//! equal-cost next hops, each at its own port.
//!
//! Most cases have 1000 queue pairs, and some have 100 000.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ipnet::Ipv4Net;
use xoff_dataplane::config::{
    BalancingConfig, BridgingConfig, MemberSelection, RebalanceRule, RoutingConfig, SchemeConfig, SchemeKind,
    StaticNeighbour, SwitchConfig,
};
use xoff_dataplane::route::{Fib, NextHop, Route, RoutePath, RouteTag, RouteTarget};
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, FrameHandle, FrameStore, InterfaceId, Picos, PortId, ReceivedFrame};
use xoff_driver::{Step, VirtualSwitch};
use xoff_wire::parse::parse;

use super::many_to_one_load::REWRITTEN_BYTES;
use crate::frames::build_rdma_write_of_queue_pair;
use crate::route_table::{ROUTER_MAC, router_interface};
use crate::switch_config::switch_config;
use xoff_measure::frame_cost::BURST_FRAMES;
use xoff_measure::frame_cost::{FrameLoad, run_bursts};

/// A load-balancing scheme to measure, and the number of queue pairs that send.
#[derive(Clone, Debug)]
pub struct BalancingCase {
    /// Name of the case, such as `flowlet, path load`.
    pub name: &'static str,
    /// The load-balancing scheme. `None` selects the static ECMP hash.
    pub scheme: Option<SchemeConfig>,
    /// Number of queue pairs that send, at least 1.
    pub queue_pairs: u32,
}

/// Number of queue pairs in most cases.
const QUEUE_PAIRS: u32 = 1_000;

/// Returns the cases to measure: the static ECMP hash and the built-in load-balancing schemes except global
/// load balancing, with 1000 queue pairs. Hash, flowlet, fixed and cluster are also measured with 100 000
/// queue pairs.
pub fn balancing_cases() -> Vec<BalancingCase> {
    let flowlet = |pick| SchemeKind::Flowlet {
        idle: Picos::from_micros(64),
        pick,
        rebalance: None,
    };
    let every = SchemeKind::Flowlet {
        idle: Picos::ZERO,
        pick: MemberSelection::Quality,
        rebalance: None,
    };
    let rebalanced = SchemeKind::Flowlet {
        idle: Picos::from_micros(64),
        pick: MemberSelection::Quality,
        rebalance: Some(RebalanceRule {
            quality_delta: 2,
            probability: 1 << 22,
        }),
    };
    let per_packet = |pick| SchemeKind::PerPacket { pick };
    let fixed = SchemeKind::Fixed {
        pick: MemberSelection::Quality,
    };
    let cluster = SchemeKind::Cluster {
        flows_max: 131_072,
        idle: Picos::from_millis(100),
    };
    let drill = SchemeKind::Drill {
        samples: 2,
        memory: 1,
    };
    let case = |name, kind, flowset_entries, queue_pairs| BalancingCase {
        name,
        scheme: Some(SchemeConfig {
            flowset_entries,
            ..SchemeConfig::new(name, kind)
        }),
        queue_pairs,
    };
    let hash = |name, queue_pairs| BalancingCase {
        name,
        scheme: None,
        queue_pairs,
    };
    vec![
        hash("hash", QUEUE_PAIRS),
        case("round robin", SchemeKind::RoundRobin, 256, QUEUE_PAIRS),
        case("random", per_packet(MemberSelection::Random), 256, QUEUE_PAIRS),
        case(
            "per packet",
            per_packet(MemberSelection::Quality),
            256,
            QUEUE_PAIRS,
        ),
        case(
            "per packet, path load",
            per_packet(MemberSelection::PathLoad),
            256,
            QUEUE_PAIRS,
        ),
        case("flowlet", flowlet(MemberSelection::Quality), 4_096, QUEUE_PAIRS),
        case(
            "flowlet, path load",
            flowlet(MemberSelection::PathLoad),
            4_096,
            QUEUE_PAIRS,
        ),
        case("flowlet, rebalancing", rebalanced, 4_096, QUEUE_PAIRS),
        case("flowlet, every packet", every, 4_096, QUEUE_PAIRS),
        case("letflow", flowlet(MemberSelection::Random), 4_096, QUEUE_PAIRS),
        case("fixed", fixed.clone(), 4_096, QUEUE_PAIRS),
        case("drill", drill, 256, QUEUE_PAIRS),
        case("cluster", cluster.clone(), 256, QUEUE_PAIRS),
        hash("hash, 100000 queue pairs", 100_000),
        case(
            "flowlet, 32768 entries, 100000 queue pairs",
            flowlet(MemberSelection::Quality),
            32_768,
            100_000,
        ),
        case("fixed, 32768 entries, 100000 queue pairs", fixed, 32_768, 100_000),
        case("cluster, 100000 queue pairs", cluster, 256, 100_000),
    ]
}

/// Number of sending ports.
const SENDERS: u16 = 4;
/// Number of next hops, which are the members of the load balancing group.
const MEMBERS: u16 = 8;
const PORTS: u16 = SENDERS + MEMBERS;
/// Number of frames in the egress queues of all next hops together when a burst arrives.
const QUEUED_FRAMES: usize = 256;
/// Time between two bursts of 32 frames of 1082 bytes. Four senders with 100 Gb/s need this time for a burst.
/// The links of the eight next hops could carry twice as many frames.
const BURST_INTERVAL: Picos = Picos::from_nanos(708);

/// A load whose frames pass a load balancing group. The queue pairs send in a fixed order. This order does
/// not depend on the order in which frames leave the switch.
#[derive(Debug)]
pub struct BalancedLoad {
    switch: VirtualSwitch<VecStore>,
    /// Frames that have left the switch and wait for their next arrival. Before a frame arrives again, the
    /// load writes the headers of a different queue pair into the frame.
    waiting: VecDeque<FrameHandle>,
    /// One frame of each queue pair.
    frames: Vec<Vec<u8>>,
    next_queue_pair: usize,
}

impl BalancedLoad {
    /// Creates a load with `queue_pairs` queue pairs, at least 1. If `scheme` is `None`, the switch uses the
    /// static ECMP hash. Before the function returns, 2000 bursts have passed the switch.
    pub fn new(scheme: Option<SchemeConfig>, queue_pairs: u32) -> BalancedLoad {
        let mut new = BalancedLoad {
            switch: VirtualSwitch::new(
                &balancing_config(scheme),
                VecStore::new(QUEUED_FRAMES + 4 * BURST_FRAMES),
            ),
            waiting: VecDeque::with_capacity(QUEUED_FRAMES + 4 * BURST_FRAMES),
            frames: (0..queue_pairs).map(build_frame).collect(),
            next_queue_pair: 0,
        };
        new.switch.store_punted_frames();
        new.switch.set_links_up();
        new.run_until(Picos::from_micros(100)); // The switch sends ARP requests for its next hops.
        let slots: Vec<_> = (0..QUEUED_FRAMES + BURST_FRAMES)
            .map(|n| {
                new.switch
                    .store_mut()
                    .insert(&new.frames[n % new.frames.len()])
                    .expect("a slot")
            })
            .collect();
        new.waiting.extend(slots);
        (0..2_000).for_each(|_| new.run_burst());
        new
    }

    /// Passes one burst of frames to the switch, and runs the switch until the time of the next burst.
    pub fn run_burst(&mut self) {
        for _ in 0..BURST_FRAMES {
            let Some(handle) = self.waiting.pop_front() else {
                break;
            };
            // Successive frames belong to different queue pairs. All queue pairs send equally often.
            self.next_queue_pair = (self.next_queue_pair + 389) % self.frames.len();
            let frame = &self.frames[self.next_queue_pair];
            self.switch.store_mut().prefix_mut(handle)[..HEADER_BYTES]
                .copy_from_slice(&frame[..HEADER_BYTES]);
            let bytes = self.switch.store().prefix(handle);
            let arrival = ReceivedFrame {
                frame: handle,
                frame_len: bytes.len() as u32,
                parsed: parse(bytes),
                received_at: self.switch.now(),
            };
            let port = PortId(self.next_queue_pair as u16 % SENDERS);
            let verdict = self.switch.receive(port, &arrival);
            debug_assert_eq!(verdict, ForwardingResult::Forwarded { copies: 1 });
            self.take_departures();
        }
        let until = self.switch.now().saturating_add(BURST_INTERVAL);
        self.run_until(until);
    }

    fn run_until(&mut self, until: Picos) {
        while self.switch.step(until) == Step::Deadline {
            self.take_departures();
        }
        self.switch.advance_to(until);
    }

    fn take_departures(&mut self) {
        let waiting = &mut self.waiting;
        self.switch
            .take_departures(|departure, _| waiting.push_back(departure.frame));
    }
}

impl FrameLoad for BalancedLoad {
    fn run(&mut self, frames: u64) -> u64 {
        run_bursts(frames, || self.run_burst())
    }

    fn check(&self) -> Result<(), String> {
        self.switch.switch().assert_consistent();
        let counters = |port| {
            self.switch
                .switch()
                .port_counters(self.switch.now(), PortId(port))
        };
        if let Some(port) = (0..PORTS).find(|&port| counters(port).dropped_frames() > 0) {
            return Err(format!("port {port} dropped frames"));
        }
        let sent = |port: u16| -> u64 { counters(port).queues.iter().map(|queue| queue.packets).sum() };
        match (SENDERS..PORTS).find(|&port| sent(port) == 0) {
            Some(port) => Err(format!("port {port} sent no frame")),
            None => Ok(()),
        }
    }
}

/// Number of bytes at the start of a frame that can change: headers that differ between queue pairs, and
/// headers that forwarding rewrites.
const HEADER_BYTES: usize = REWRITTEN_BYTES + 64;

fn build_frame(queue_pair: u32) -> Vec<u8> {
    let sender = queue_pair as u16 % SENDERS;
    let host = (queue_pair / 4 % 200) as u8;
    build_rdma_write_of_queue_pair(
        [2, 0, 0, 0, sender as u8, host],
        ROUTER_MAC,
        Ipv4Addr::new(10, 1, sender as u8, host),
        Ipv4Addr::new(11, 0, sender as u8, host),
        queue_pair,
    )
}

fn balancing_config(scheme: Option<SchemeConfig>) -> SwitchConfig {
    let hop = |n: u16| NextHop {
        interface: InterfaceId(n),
        address: IpAddr::V4(Ipv4Addr::new(10, 1, n as u8, 9)),
    };
    let members = SENDERS..PORTS;
    let paths = members.clone().map(|n| RoutePath {
        next_hop: hop(n),
        weight: 1,
    });
    let route = Route {
        prefix: Ipv4Net::new(Ipv4Addr::new(11, 0, 0, 0), 8)
            .expect("a prefix length")
            .into(),
        target: RouteTarget::Via(paths.collect()),
        tag: RouteTag::default(),
    };
    SwitchConfig {
        bridging: BridgingConfig::Vlans(Vec::new()),
        routing: RoutingConfig {
            interfaces: (0..PORTS).map(router_interface).collect(),
            fib: Arc::new(Fib::build([route]).expect("routes")),
            hash_seed: 1,
            neighbours: members
                .map(|n| StaticNeighbour {
                    interface: InterfaceId(n),
                    address: hop(n).address,
                    mac: [2, 0, 0, 0, n as u8, 9],
                })
                .collect(),
            ..RoutingConfig::default()
        },
        balancing: BalancingConfig {
            default_scheme: scheme.is_some().then_some(0),
            schemes: scheme.into_iter().collect(),
            ..BalancingConfig::default()
        },
        ..switch_config(PORTS)
    }
}
