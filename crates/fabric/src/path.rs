//! Shortest paths between hosts, and their round-trip times in an idle fabric.

use std::collections::VecDeque;
use std::sync::OnceLock;

use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::Opcode;

use super::packet_lengths::PacketLengths;
use super::plan::{FabricPlan, LinkEnd};

/// Marks a node that a search has not reached, and its start.
const NO_PARENT: u32 = u32::MAX;

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
    /// Neighbouring switches of each switch, in the order of `links`.
    switch_neighbours: Vec<Box<[u32]>>,
    /// The result of [`Paths::search_tree`] for each switch whose hosts have needed it. All hosts of a switch share it.
    trees: Vec<OnceLock<Box<[u32]>>>,
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
        let latency = plan.switches.iter().map(|switch| switch.pipeline_latency);
        Paths::of_links(switches, links, latency.collect())
    }

    /// Creates the paths of nodes with these links. The first `switches` nodes are switches, with the latencies
    /// `latency`.
    fn of_links(switches: usize, links: Vec<Vec<(u32, LinkTiming, Picos)>>, latency: Vec<Picos>) -> Paths {
        let neighbours = |links: &Vec<(u32, LinkTiming, Picos)>| -> Box<[u32]> {
            let neighbours = links.iter().map(|(next, ..)| *next);
            neighbours.filter(|next| (*next as usize) < switches).collect()
        };
        Paths {
            switches,
            components: connected_components(&links, switches),
            switch_neighbours: links[..switches].iter().map(neighbours).collect(),
            trees: vec![OnceLock::new(); switches],
            links,
            latency,
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
        if start == goal {
            return None;
        }
        let (Some(first), Some(last)) = (self.only_switch_of(start), self.only_switch_of(goal)) else {
            return self.search_path(start, goal);
        };
        let parents = self.trees[first].get_or_init(|| self.search_tree(first));
        let mut steps = vec![(goal, last)];
        add_steps(parents, first, last, &mut steps)?;
        steps.push((first, start));
        self.path_of_steps(&steps)
    }

    /// Searches a shortest path between two hosts, given by their nodes.
    fn search_path(&self, start: usize, goal: usize) -> Option<FabricPath> {
        let mut steps = Vec::new();
        add_steps(&self.search(start, goal), start, goal, &mut steps)?;
        self.path_of_steps(&steps)
    }

    /// Returns the switch of a host with one link. Returns `None` if the host has several links, or a link to a host.
    fn only_switch_of(&self, host: usize) -> Option<usize> {
        match self.links.get(host)?.as_slice() {
            [(switch, ..)] => Some(*switch as usize).filter(|switch| *switch < self.switches),
            _ => None,
        }
    }

    /// Returns the node before each switch on a shortest path from the switch `root`, or [`NO_PARENT`].
    fn search_tree(&self, root: usize) -> Box<[u32]> {
        let mut parents = vec![NO_PARENT; self.switches];
        let mut queue = VecDeque::from([root]);
        while let Some(node) = queue.pop_front() {
            for &next in &self.switch_neighbours[node] {
                let next = next as usize;
                if next != root && parents[next] == NO_PARENT {
                    parents[next] = node as u32;
                    queue.push_back(next);
                }
            }
        }
        parents.into()
    }

    /// Returns the node before each node on a shortest path from the host `start` to the host `goal`, or [`NO_PARENT`].
    fn search(&self, start: usize, goal: usize) -> Vec<u32> {
        let mut parents = vec![NO_PARENT; self.links.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if node == goal {
                break;
            }
            for &(next, ..) in &self.links[node] {
                let next = next as usize;
                // Hosts do not forward.
                if next != start && parents[next] == NO_PARENT && (next < self.switches || next == goal) {
                    parents[next] = node as u32;
                    queue.push_back(next);
                }
            }
        }
        parents
    }

    /// Returns the properties of a path. Each step is a node and the node before it, and the last step comes first.
    fn path_of_steps(&self, steps: &[(usize, usize)]) -> Option<FabricPath> {
        let mut hops = Vec::with_capacity(steps.len());
        let mut fixed = Picos::ZERO;
        for &(at, before) in steps {
            let link = self.links[before].iter().find(|(next, ..)| *next as usize == at);
            let (_, timing, delay) = link?;
            hops.push(*timing);
            fixed = fixed.saturating_add(*delay);
            if before < self.switches {
                fixed = fixed.saturating_add(self.latency[before]);
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

/// Adds the steps from `from` to `to` to `steps`: each node and the node before it, and the last step comes first.
/// Returns `None` if the search that resulted in `parents` has not reached `to`.
fn add_steps(parents: &[u32], from: usize, to: usize, steps: &mut Vec<(usize, usize)>) -> Option<()> {
    let mut at = to;
    while at != from {
        let parent = Some(parents[at]).filter(|parent| *parent != NO_PARENT)? as usize;
        steps.push((at, parent));
        at = parent;
    }
    Some(())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the paths of a graph. Nodes are the switches followed by the hosts, and each link has a speed in Mb/s.
    fn paths_of(switches: usize, nodes: usize, edges: &[(usize, usize, u32)]) -> Paths {
        let mut links = vec![Vec::new(); nodes];
        for (index, &(one, other, speed_mbps)) in edges.iter().enumerate() {
            let delay = Picos::from_nanos(index as u64 + 1);
            let timing = LinkTiming::ethernet(speed_mbps);
            links[one].push((other as u32, timing, delay));
            links[other].push((one as u32, timing, delay));
        }
        let latency = (0..switches).map(|switch| Picos::from_nanos(1_000 * switch as u64));
        Paths::of_links(switches, links, latency.collect())
    }

    #[test]
    fn shared_trees_give_the_paths_of_separate_searches() {
        let mut state = 3_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut found = 0;
        for _ in 0..300 {
            let (switches, hosts) = (1 + random(6), 2 + random(5));
            let mut edges = Vec::new();
            // Most hosts have one link.
            for host in switches..switches + hosts {
                edges.push((random(switches), host, 100_000));
            }
            for _ in 0..random(10) {
                edges.push((
                    random(switches),
                    random(switches),
                    100_000 * (1 + random(4) as u32),
                ));
            }
            if random(3) == 0 {
                edges.push((switches, random(switches + hosts), 400_000));
            }
            let paths = paths_of(switches, switches + hosts, &edges);
            for from in 0..hosts {
                for to in (0..hosts).filter(|to| *to != from) {
                    let path = paths.path_between(from, to);
                    found += usize::from(path.is_some());
                    assert_eq!(
                        path,
                        paths.search_path(switches + from, switches + to),
                        "{edges:?}"
                    );
                }
            }
        }
        assert!(found > 1_000, "{found}");
    }
}
