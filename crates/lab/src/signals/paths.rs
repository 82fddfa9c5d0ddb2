//! The switches that a flow passes, and whether one of their queues may mark it.

use std::collections::{BTreeSet, VecDeque};

use xoff_dataplane::config::{NO_PROFILE, PoolSide, PortConfig, SwitchConfig, TrustMode, WredProfile};
use xoff_dataplane::ids::TRAFFIC_CLASSES;

use super::super::plan::{ConfigLayer, LabPlan};
use super::super::routes::COMPUTED_ROUTES;
use xoff_fabric::{FabricPlan, LinkEnd};

/// A link of a switch: the port, and what is at its other end.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    port: u16,
    end: LinkEnd,
}

/// The switches of a plan and their links.
pub(super) struct Topology<'a> {
    plan: &'a FabricPlan,
    /// By switch.
    neighbours: Vec<Vec<Neighbour>>,
    /// By host: the switch that it is connected to.
    access: Vec<Option<u32>>,
}

/// The ports that may mark packets with one DSCP, by switch and port.
pub(super) struct MarkingPorts(Vec<Vec<bool>>);

impl MarkingPorts {
    /// Whether there is one in the lab.
    pub(super) fn any(&self) -> bool {
        self.0.iter().flatten().any(|marks| *marks)
    }

    fn has(&self, switch: usize, port: u16) -> bool {
        self.0[switch].get(usize::from(port)).copied().unwrap_or_default()
    }
}

/// Shortest paths to one destination, by switch.
#[derive(Clone, Debug)]
pub(super) struct PathsTo {
    /// Switches on the path; 0: none leads there.
    hops: Vec<u32>,
    /// Whether a queue on one of the paths may mark.
    marks: Vec<bool>,
}

impl Topology<'_> {
    pub(super) fn new(plan: &FabricPlan) -> Topology<'_> {
        let mut neighbours = vec![Vec::new(); plan.switches.len()];
        let mut access = vec![None; plan.hosts.len()];
        for link in &plan.links {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                match (from, to) {
                    (LinkEnd::Switch { switch, port }, end) => {
                        neighbours[switch as usize].push(Neighbour { port, end });
                    }
                    (LinkEnd::Host(host), LinkEnd::Switch { switch, .. }) => {
                        access[host as usize] = Some(switch)
                    }
                    (LinkEnd::Host(_), LinkEnd::Host(_)) => {}
                }
            }
        }
        Topology {
            plan,
            neighbours,
            access,
        }
    }

    /// Whether flows take shortest paths: routes are made by xoff, or there are none, so that the topology has no loops.
    pub(super) fn takes_shortest_paths(&self, plan: &LabPlan) -> bool {
        let is_made = |layer: &ConfigLayer| matches!(layer, ConfigLayer::Text { source, .. } if source == COMPUTED_ROUTES);
        let made = plan
            .switches
            .iter()
            .any(|switch| switch.config.iter().any(is_made));
        let routed = |switch: &SwitchConfig| !switch.routing.fib.next_hops().is_empty();
        made || !self.plan.switches.iter().any(routed)
    }

    /// The ports that may mark packets with this DSCP.
    pub(super) fn marking_ports(&self, dscp: u8) -> MarkingPorts {
        let of_switch = |switch: &SwitchConfig| {
            let classes = traffic_classes(switch, dscp);
            let buffer_bytes = buffer_bytes(switch);
            let marks = |port: &PortConfig| may_mark(port, &classes, buffer_bytes);
            switch.ports.iter().map(marks).collect()
        };
        MarkingPorts(self.plan.switches.iter().map(of_switch).collect())
    }

    /// The shortest paths to a host.
    pub(super) fn paths_to(&self, dst: u32, ports: &MarkingPorts) -> PathsTo {
        let mut hops: Vec<u32> = vec![0; self.plan.switches.len()];
        let mut marks = vec![false; self.plan.switches.len()];
        let mut queue = VecDeque::new();
        if let Some(last) = self.access_switch(dst) {
            hops[last] = 1;
            queue.push_back(last);
        }
        // Switches come in the order of their distance, so that those nearer to the host are known.
        while let Some(at) = queue.pop_front() {
            for neighbour in &self.neighbours[at] {
                let marked_later = match neighbour.end {
                    LinkEnd::Host(host) if host == dst => false,
                    LinkEnd::Host(_) => continue,
                    LinkEnd::Switch { switch, .. } => {
                        let next = switch as usize;
                        if hops[next] == 0 {
                            hops[next] = hops[at] + 1;
                            queue.push_back(next);
                        }
                        if hops[next] >= hops[at] {
                            continue;
                        }
                        marks[next]
                    }
                };
                marks[at] |= marked_later || ports.has(at, neighbour.port);
            }
        }
        PathsTo { hops, marks }
    }

    /// Switches on the shortest paths from a host.
    pub(super) fn hops(&self, paths: &PathsTo, src: u32) -> u32 {
        self.access_switch(src).map_or(0, |switch| paths.hops[switch])
    }

    /// Whether packets from a host may be marked on a shortest path.
    pub(super) fn may_be_marked(&self, paths: &PathsTo, src: u32) -> bool {
        self.access_switch(src).is_some_and(|switch| paths.marks[switch])
    }

    fn access_switch(&self, host: u32) -> Option<usize> {
        let switch = self.access.get(host as usize).copied().flatten()?;
        Some(switch as usize)
    }
}

/// Traffic classes that packets with this DSCP may have in a switch, by the maps of the ports where they arrive.
fn traffic_classes(switch: &SwitchConfig, dscp: u8) -> BTreeSet<u8> {
    let mut classes = BTreeSet::new();
    for port in &switch.ports {
        match port.classify.trust {
            TrustMode::Dscp => {
                classes.insert(port.classify.dscp_to_tc[usize::from(dscp & 63)]);
            }
            // Untagged packets have class 0, others that of their tag.
            TrustMode::Pcp => {
                classes.insert(0);
                classes.extend(port.classify.dot1p_to_tc);
            }
        }
    }
    classes
        .into_iter()
        .map(|class| class % TRAFFIC_CLASSES as u8)
        .collect()
}

/// Whether the queue of one of these classes at a port marks, before the buffer of the switch is full.
fn may_mark(port: &PortConfig, classes: &BTreeSet<u8>, buffer_bytes: u64) -> bool {
    let marks = |wred: &WredProfile| {
        let from_bytes = match wred.max_probability {
            0 => wred.max_bytes,
            _ => wred.min_bytes,
        };
        wred.ecn && from_bytes < buffer_bytes
    };
    let queues = classes
        .iter()
        .map(|class| &port.queues[port.classify.queue(*class)]);
    queues.filter_map(|queue| queue.wred.as_ref()).any(marks)
}

/// Most bytes that the ingress side of a switch can hold.
fn buffer_bytes(switch: &SwitchConfig) -> u64 {
    let pools = switch.pools.iter().filter(|pool| pool.side == PoolSide::Ingress);
    let shared: u64 = pools
        .map(|pool| pool.size_bytes.saturating_add(pool.xoff_bytes))
        .sum();
    let groups = switch
        .ports
        .iter()
        .flat_map(|port| port.pgs)
        .filter(|profile| *profile != NO_PROFILE);
    let profiles = groups.filter_map(|profile| switch.profiles.get(usize::from(profile)));
    profiles.fold(shared, |sum, profile| {
        sum.saturating_add(profile.size_bytes)
            .saturating_add(profile.xoff_bytes)
    })
}
