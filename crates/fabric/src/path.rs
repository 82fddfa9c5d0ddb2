//! What a fabric's paths cost when nobody else is there.

use std::collections::VecDeque;

use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::Opcode;

use super::lengths::PacketLengths;
use super::plan::{End, FabricPlan};

/// A shortest path between two hosts: what it adds up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricPath {
    /// Links on it.
    pub hops: u32,
    /// The slowest of them.
    pub bottleneck: LinkTiming,
    /// Time of one octet on all other links together, in picoseconds, and delays of all and latencies of switches.
    octet_ps: u64,
    fixed: Picos,
}

impl FabricPath {
    /// From the first bit of a frame at the sender to its last bit at the receiver.
    fn one_frame(&self, frame_len: u32) -> Picos {
        let mac_len = self.bottleneck.mac_len(frame_len);
        let preamble = self
            .bottleneck
            .overhead_bytes
            .saturating_sub(self.bottleneck.gap_bytes);
        let octets = mac_len + preamble;
        let others = Picos(self.octet_ps * u64::from(octets));
        self.bottleneck
            .duration(octets)
            .saturating_add(others)
            .saturating_add(self.fixed)
    }

    /// A full packet there and its acknowledgement back.
    pub fn round_trip(&self, mtu: u32, lengths: PacketLengths) -> Picos {
        self.one_frame(lengths.frame_len(Opcode::RcWriteMiddle, mtu))
            .saturating_add(self.one_frame(lengths.frame_len(Opcode::RcAcknowledge, 0)))
    }
}

/// The shortest paths of a fabric, by number of links.
#[derive(Clone, Debug)]
pub struct Paths {
    switches: usize,
    /// By node (switches, then hosts): neighbour, timing and delay of the link to it, latency behind it.
    links: Vec<Vec<(u32, LinkTiming, Picos)>>,
    latency: Vec<Picos>,
    /// By node: the part of the topology that it is in. Hosts forward nothing, so two switches that only a host joins are in
    /// different parts.
    parts: Vec<u32>,
}

impl Paths {
    /// Those of a plan.
    pub fn new(plan: &FabricPlan) -> Paths {
        let switches = plan.switches.len();
        let mut links = vec![Vec::new(); switches + plan.hosts.len()];
        let node = |end: End| match end {
            End::Switch { switch, .. } => switch as usize,
            End::Host(host) => switches + host as usize,
        };
        let timing = |end: End| match end {
            End::Switch { switch, port } => plan
                .switches
                .get(switch as usize)
                .and_then(|s| s.ports.get(usize::from(port)))
                .map(|p| p.link),
            End::Host(host) => plan.hosts.get(host as usize).map(|h| h.nic.link),
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
            parts: parts(&links, switches),
            links,
            latency: plan
                .switches
                .iter()
                .map(|switch| switch.pipeline_latency)
                .collect(),
        }
    }

    /// Whether a path of links leads from one host to another.
    pub fn are_joined(&self, from: usize, to: usize) -> bool {
        let part = |host: usize| self.parts.get(self.switches + host);
        part(from).is_some() && part(from) == part(to)
    }

    /// A shortest path between two hosts; `None` if there is none.
    pub fn between(&self, from: usize, to: usize) -> Option<FabricPath> {
        let (start, goal) = (self.switches + from, self.switches + to);
        let mut reached: Vec<Option<(u32, LinkTiming, Picos)>> = vec![None; self.links.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if node == goal {
                break;
            }
            for &(next, timing, delay) in &self.links[node] {
                let next = next as usize;
                // Hosts forward nothing.
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
            octet_ps: hops
                .iter()
                .map(|hop| 8_000_000 / u64::from(hop.speed_mbps.max(1)))
                .sum(),
            fixed,
        })
    }
}

/// Numbers the parts of a topology that no links join; by node.
fn parts(links: &[Vec<(u32, LinkTiming, Picos)>], switches: usize) -> Vec<u32> {
    let mut parts: Vec<u32> = (0..links.len() as u32).collect();
    for host in switches..links.len() {
        let peers = links[host].iter().map(|(peer, ..)| *peer);
        let hosts = peers.filter(|peer| *peer as usize >= switches);
        parts[host] = hosts.fold(host as u32, u32::min);
    }
    let mut reached = vec![false; switches];
    for first in 0..switches {
        if std::mem::replace(&mut reached[first], true) {
            continue;
        }
        let mut queue = vec![first];
        while let Some(switch) = queue.pop() {
            parts[switch] = first as u32;
            for (next, ..) in &links[switch] {
                let next = *next as usize;
                if next >= switches {
                    parts[next] = first as u32;
                } else if !std::mem::replace(&mut reached[next], true) {
                    queue.push(next);
                }
            }
        }
    }
    parts
}
