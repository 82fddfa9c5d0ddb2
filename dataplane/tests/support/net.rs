//! Runs several switches and the cables between them, step by step.

use std::collections::BTreeSet;
use std::sync::Arc;

use xoff_dataplane::config::{
    AdvertiseConfig, InterfaceAttachment, InterfaceConfig, SchemeConfig, StaticNeighbour, SwitchConfig,
};
use xoff_dataplane::route::{DISTANCE_STATIC, Fib, Rib, Route, RouteSource, RouteTag, RouteTarget};
use xoff_dataplane::{InterfaceId, LinkTiming, Picos};

use super::config::{bridge_config, equal_cost_target};
use super::packets::{frame_with_packet, refresh_checksum, udp_ipv4_packet};
use super::{Harness, SentFrame};

/// Delay of a cable, and the time for which the switches run independently.
const DELAY: Picos = Picos::from_nanos(500);

/// One end of a cable: switch and port.
pub type SwitchPort = (usize, u16);

/// Several switches that are connected by cables.
pub struct TestNetwork {
    pub switches: Vec<Harness>,
    cables: Vec<(SwitchPort, SwitchPort)>,
    /// Cables that lose all link quality messages.
    pub cables_losing_messages: BTreeSet<usize>,
    /// Frames that left by ports without a cable.
    pub frames_out: Vec<(SwitchPort, SentFrame)>,
    /// Sent link quality messages with the ports that sent them.
    pub quality_messages: Vec<(SwitchPort, SentFrame)>,
    now: Picos,
}

/// A leaf-spine fabric. The leaves come first, each with a host at port 0. Port 1 + *s* of a leaf leads to
/// spine *s*, and port *l* of a spine leads to leaf *l*. Leaf *l* has the network 10.0.*l*.0/24 and site *l*
/// + 1.
#[derive(Clone)]
pub struct LeafSpineFabric {
    pub leaves: usize,
    pub spines: usize,
    pub mbps: u32,
    /// Scheme of the leaves' groups. `None`: static hashing.
    pub scheme: Option<SchemeConfig>,
    pub advertises_loads: bool,
    pub interval: Picos,
}

impl LeafSpineFabric {
    pub fn new(leaves: usize, spines: usize) -> LeafSpineFabric {
        LeafSpineFabric {
            leaves,
            spines,
            mbps: 100_000,
            scheme: None,
            advertises_loads: true,
            interval: Picos::from_micros(20),
        }
    }

    pub fn spine_index(&self, spine: usize) -> usize {
        self.leaves + spine
    }

    /// Returns the configuration of each switch.
    pub fn configs(&self) -> Vec<SwitchConfig> {
        let leaf = |leaf: usize| {
            let mut config = self.base_config(leaf, 1 + self.spines);
            add_interface(&mut config, 0, leaf, &format!("10.0.{leaf}.1/24"));
            add_static_neighbour(&mut config, 0, &format!("10.0.{leaf}.9"), host_mac(leaf));
            for spine in 0..self.spines {
                let (own, peer) = (link_address(leaf, spine, 0), link_address(leaf, spine, 1));
                add_interface(&mut config, 1 + spine, leaf, &format!("{own}/31"));
                add_static_neighbour(&mut config, 1 + spine, &peer, switch_mac(self.spine_index(spine)));
            }
            let hops: Vec<(u16, String)> = (0..self.spines)
                .map(|spine| (1 + spine as u16, link_address(leaf, spine, 1)))
                .collect();
            let hops: Vec<_> = hops.iter().map(|(port, hop)| (*port, hop.as_str())).collect();
            let others = (0..self.leaves).filter(|other| *other != leaf);
            set_leaf_routes(&mut config, others.map(|other| (other, equal_cost_target(&hops))));
            config.balancing.schemes = self.scheme.clone().into_iter().collect();
            config.balancing.default_scheme = self.scheme.as_ref().map(|_| 0);
            config.balancing.moves_kept = 1_024;
            self.set_advertisements(&mut config, 1..=self.spines);
            config
        };
        let spine = |spine: usize| {
            let switch = self.spine_index(spine);
            let mut config = self.base_config(switch, self.leaves);
            for leaf in 0..self.leaves {
                let (own, peer) = (link_address(leaf, spine, 1), link_address(leaf, spine, 0));
                add_interface(&mut config, leaf, switch, &format!("{own}/31"));
                add_static_neighbour(&mut config, leaf, &peer, switch_mac(leaf));
            }
            let to = |leaf: usize| {
                (
                    leaf,
                    equal_cost_target(&[(leaf as u16, link_address(leaf, spine, 0).as_str())]),
                )
            };
            set_leaf_routes(&mut config, (0..self.leaves).map(to));
            self.set_advertisements(&mut config, 0..=self.leaves - 1);
            config
        };
        (0..self.leaves)
            .map(leaf)
            .chain((0..self.spines).map(spine))
            .collect()
    }

    pub fn cables(&self) -> Vec<(SwitchPort, SwitchPort)> {
        let spines = |leaf: usize| {
            (0..self.spines)
                .map(move |spine| ((leaf, 1 + spine as u16), (self.spine_index(spine), leaf as u16)))
        };
        (0..self.leaves).flat_map(spines).collect()
    }

    pub fn build_network(&self) -> TestNetwork {
        TestNetwork::new(&self.configs(), self.cables())
    }

    fn base_config(&self, index: usize, ports: usize) -> SwitchConfig {
        let mut config = bridge_config(ports);
        config.name = format!("switch{index}");
        config.bridging = xoff_dataplane::config::BridgingConfig::Vlans(Vec::new());
        config.routing.hash_seed = index as u64;
        for port in &mut config.ports {
            port.link = LinkTiming::ethernet(self.mbps);
        }
        config
    }

    fn set_advertisements(&self, config: &mut SwitchConfig, ports: std::ops::RangeInclusive<usize>) {
        config.balancing.advertise = Some(AdvertiseConfig {
            interval: self.interval,
            ports: ports.map(|port| port as u16).collect(),
            loads: self.advertises_loads,
        });
    }
}

/// Returns a UDP frame from the host of one leaf to the host of another leaf, with this source port.
pub fn flow_frame(from: usize, to: usize, source_port: u16, payload: usize) -> Vec<u8> {
    let mut packet = udp_ipv4_packet(&format!("10.0.{from}.9"), &format!("10.0.{to}.9"), 64, payload);
    packet[20..22].copy_from_slice(&source_port.to_be_bytes());
    refresh_checksum(&mut packet);
    frame_with_packet(switch_mac(from), host_mac(from), 0x0800, &packet)
}

/// Returns the router address of a switch.
pub fn switch_mac(switch: usize) -> [u8; 6] {
    [2, 0xaa, 0, 0, 1, switch as u8]
}

pub fn host_mac(leaf: usize) -> [u8; 6] {
    [2, 0xbb, 0, 0, 0, leaf as u8]
}

fn link_address(leaf: usize, spine: usize, end: usize) -> String {
    format!("172.16.{leaf}.{}", 2 * spine + end)
}

pub fn add_interface(config: &mut SwitchConfig, port: usize, switch: usize, address: &str) {
    config.routing.interfaces.push(InterfaceConfig {
        name: format!("Ethernet{port}"),
        attachment: InterfaceAttachment::Port(port as u16),
        mac: switch_mac(switch),
        mtu: 9_100,
        addresses: vec![address.parse().expect("an address")],
    });
}

pub fn add_static_neighbour(config: &mut SwitchConfig, interface: usize, address: &str, mac: [u8; 6]) {
    config.routing.neighbours.push(StaticNeighbour {
        interface: InterfaceId(interface as u16),
        address: address.parse().expect("an address"),
        mac,
    });
}

/// Sets the routes to the leaves, tagged with their sites.
pub fn set_leaf_routes(config: &mut SwitchConfig, to: impl Iterator<Item = (usize, RouteTarget)>) {
    let mut rib = Rib::new();
    for (n, interface) in config.routing.interfaces.iter().enumerate() {
        rib.set_interface(InterfaceId(n as u16), interface);
    }
    for (leaf, target) in to {
        let route = Route {
            prefix: format!("10.0.{leaf}.0/24").parse().expect("a prefix"),
            target,
            tag: RouteTag {
                site: leaf as u16 + 1,
                scheme: None,
            },
        };
        rib.set_route(RouteSource::Static, DISTANCE_STATIC, route);
    }
    config.routing.fib = Arc::new(rib.next_generation(&Fib::default()).expect("routes"));
}

impl TestNetwork {
    pub fn new(configs: &[SwitchConfig], cables: Vec<(SwitchPort, SwitchPort)>) -> TestNetwork {
        TestNetwork {
            switches: configs.iter().map(Harness::new).collect(),
            cables,
            cables_losing_messages: BTreeSet::new(),
            frames_out: Vec::new(),
            quality_messages: Vec::new(),
            now: Picos::ZERO,
        }
    }

    pub fn now(&self) -> Picos {
        self.now
    }

    pub fn run_for(&mut self, span: Picos) {
        let until = self.now + span;
        while self.now < until {
            self.step(until);
        }
    }

    /// Runs until no event is left. Panics after `at_most`.
    pub fn run_until_idle(&mut self, at_most: Picos) {
        let end = self.now + at_most;
        while self.switches.iter().any(|switch| !switch.is_idle()) {
            assert!(self.now < end, "still busy at {:?}", self.now);
            self.step(end);
        }
    }

    /// Sets the link state at both ends of a cable.
    pub fn set_cable_state(&mut self, cable: usize, up: bool) {
        let (a, b) = self.cables[cable];
        for (switch, port) in [a, b] {
            self.switches[switch].set_link(port, up);
        }
        self.deliver_frames();
    }

    fn step(&mut self, until: Picos) {
        self.now = until.min(self.now + DELAY);
        for switch in &mut self.switches {
            switch.run_until(self.now);
        }
        self.deliver_frames();
    }

    /// Passes the frames that left one end of a cable to the other end.
    fn deliver_frames(&mut self) {
        for index in 0..self.switches.len() {
            for port in 0..self.switches[index].switch().port_count() as u16 {
                for sent in self.switches[index].take_sent(port) {
                    self.forward_over_cable((index, port), sent);
                }
            }
        }
    }

    fn forward_over_cable(&mut self, from: SwitchPort, sent: SentFrame) {
        let told = xoff_wire::LinkQuality::is_link_quality(&sent.bytes);
        if told {
            self.quality_messages.push((from, sent.clone()));
        }
        let cable = |ends: &(SwitchPort, SwitchPort)| ends.0 == from || ends.1 == from;
        let Some(cable) = self.cables.iter().position(cable) else {
            self.frames_out.push((from, sent));
            return;
        };
        if told && self.cables_losing_messages.contains(&cable) {
            return;
        }
        let (a, b) = self.cables[cable];
        let (to, port) = if a == from { b } else { a };
        let at = sent.end + DELAY;
        self.switches[to].receive_at(at, port, sent.bytes);
    }
}
