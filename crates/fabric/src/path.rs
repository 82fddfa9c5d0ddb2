//! Shortest paths between hosts, and their round-trip times in an idle fabric.

use std::collections::VecDeque;

use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::Opcode;

use super::packet_lengths::PacketLengths;
use super::plan::{FabricPlan, LinkEnd};

/// Properties of one shortest path between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricPath {
    /// Number of links of the path, including the links of both hosts.
    pub hops: u32,
    /// Speed and framing of the slowest link.
    pub bottleneck: LinkTiming,
    /// Time that one byte needs on all other links together, in picoseconds.
    byte_ps: u64,
    /// Sum of all link delays and switch latencies.
    fixed: Picos,
}

impl FabricPath {
    /// Returns the time from the first bit of a frame at the sender to the last bit of the frame at
    /// the receiver.
    fn frame_time(&self, frame_len: u32) -> Picos {
        let mac_len = self.bottleneck.mac_len(frame_len);
        let preamble = self
            .bottleneck
            .overhead_bytes
            .saturating_sub(self.bottleneck.gap_bytes);
        let bytes = mac_len + preamble;
        let others = Picos(self.byte_ps * u64::from(bytes));
        self.bottleneck
            .duration(bytes)
            .saturating_add(others)
            .saturating_add(self.fixed)
    }

    /// Returns the sum of two times on this path: the time of a full data packet and the time of an
    /// acknowledgement. `mtu` is the payload of the data packet in bytes. The path of the acknowledgement is
    /// assumed to be equal.
    pub fn round_trip(&self, mtu: u32, lengths: PacketLengths) -> Picos {
        self.frame_time(lengths.frame_len(Opcode::RcWriteMiddle, mtu))
            .saturating_add(self.frame_time(lengths.frame_len(Opcode::RcAcknowledge, 0)))
    }
}

/// Shortest paths of a fabric. The length of a path is the number of its links.
#[derive(Clone, Debug)]
pub struct Paths {
    switches: usize,
    /// Links of each node: neighbour, timing and delay. Nodes are the switches followed by the hosts.
    links: Vec<Vec<(u32, LinkTiming, Picos)>>,
    /// Pipeline latency of each switch.
    latency: Vec<Picos>,
    /// Number of the connected component of each node. Hosts do not forward packets. Two switches with a
    /// common host, but without any other connection, are therefore in different components.
    components: Vec<u32>,
}

impl Paths {
    /// Collects the links of a plan, in which paths are searched.
    pub fn new(plan: &FabricPlan) -> Paths {
        let switches = plan.switches.len();
        let mut links = vec![Vec::new(); switches + plan.hosts.len()];
        let node = |end: LinkEnd| match end {
            LinkEnd::Switch { switch, .. } => switch as usize,
            LinkEnd::Host(host) => switches + host as usize,
        };
        let timing = |end: LinkEnd| match end {
            LinkEnd::Switch { switch, port } => plan
                .switches
                .get(switch as usize)
                .and_then(|s| s.ports.get(usize::from(port)))
                .map(|p| p.link),
            LinkEnd::Host(host) => plan.hosts.get(host as usize).map(|h| h.nic.link),
        };
        for link in &plan.links {
            for (from, to) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
                if let Some(timing) = timing(from) {
                    links[node(from)].push((node(to) as u32, timing, link.delay));
                }
            }
        }
        Paths {
            switches,
            components: connected_components(&links, switches),
            links,
            latency: plan
                .switches
                .iter()
                .map(|switch| switch.pipeline_latency)
                .collect(),
        }
    }

    /// Returns whether a path of links connects two hosts, given by their index in the plan. Routes and VLANs
    /// are not considered.
    pub fn are_connected(&self, from: usize, to: usize) -> bool {
        let component = |host: usize| self.components.get(self.switches + host);
        component(from).is_some() && component(from) == component(to)
    }

    /// Returns a shortest path between two hosts, given by their index in the plan. Returns `None` if no path
    /// exists or if both indices are equal.
    pub fn path_between(&self, from: usize, to: usize) -> Option<FabricPath> {
        let (start, goal) = (self.switches + from, self.switches + to);
        let mut reached: Vec<Option<(u32, LinkTiming, Picos)>> = vec![None; self.links.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if node == goal {
                break;
            }
            for &(next, timing, delay) in &self.links[node] {
                let next = next as usize;
                // Hosts do not forward.
                if next != start && reached[next].is_none() && (next < self.switches || next == goal) {
                    reached[next] = Some((node as u32, timing, delay));
                    queue.push_back(next);
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = goal;
        let mut fixed = Picos::ZERO;
        while at != start {
            let (before, timing, delay) = reached.get(at).copied().flatten()?;
            hops.push(timing);
            fixed = fixed.saturating_add(delay);
            at = before as usize;
            if at < self.switches {
                fixed = fixed.saturating_add(self.latency[at]);
            }
        }
        let slowest = hops
            .iter()
            .position(|hop| hop.speed_mbps == hops.iter().map(|h| h.speed_mbps).min().unwrap_or(0))?;
        let bottleneck = hops.swap_remove(slowest);
        Some(FabricPath {
            hops: hops.len() as u32 + 1,
            bottleneck,
            byte_ps: hops
                .iter()
                .map(|hop| 8_000_000 / u64::from(hop.speed_mbps.max(1)))
                .sum(),
            fixed,
        })
    }
}

/// Numbers the connected components of a topology. The result is ordered by node.
fn connected_components(links: &[Vec<(u32, LinkTiming, Picos)>], switches: usize) -> Vec<u32> {
    let mut components: Vec<u32> = (0..links.len() as u32).collect();
    for host in switches..links.len() {
        let peers = links[host].iter().map(|(peer, ..)| *peer);
        let hosts = peers.filter(|peer| *peer as usize >= switches);
        components[host] = hosts.fold(host as u32, u32::min);
    }
    let mut reached = vec![false; switches];
    for first in 0..switches {
        if std::mem::replace(&mut reached[first], true) {
            continue;
        }
        let mut queue = vec![first];
        while let Some(switch) = queue.pop() {
            components[switch] = first as u32;
            for (next, ..) in &links[switch] {
                let next = *next as usize;
                if next >= switches {
                    components[next] = first as u32;
                } else if !std::mem::replace(&mut reached[next], true) {
                    queue.push(next);
                }
            }
        }
    }
    components
}
