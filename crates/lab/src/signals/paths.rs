//! Finds the shortest paths of flows, and whether queues on these paths may mark packets with CE.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use xoff_dataplane::config::{NO_PROFILE, PoolSide, PortConfig, SwitchConfig, TrustMode, WredProfile};
use xoff_dataplane::ids::TRAFFIC_CLASSES;

use super::super::plan::{ConfigLayer, LabPlan};
use xoff_fabric::{FabricPlan, LinkEnd};

/// A port of a switch with a link.
#[derive(Clone, Copy, Debug)]
struct SwitchPort {
    switch: u32,
    port: u16,
}

/// A link from a switch to a neighbouring switch.
#[derive(Clone, Copy, Debug)]
struct SwitchLink {
    port: u16,
    neighbour: u32,
}

/// The links between the switches and hosts of a fabric.
pub(super) struct FabricTopology<'a> {
    plan: &'a FabricPlan,
    /// The links of each switch to other switches.
    switch_links: Vec<Vec<SwitchLink>>,
    /// The switch port at the other end of each host's link.
    access_ports: Vec<Option<SwitchPort>>,
    /// The connected component of each switch: the lowest index of a switch in this component.
    components: Vec<u32>,
}

/// For each switch and port, whether the port may mark packets with one DSCP.
pub(super) struct EcnMarkingPorts(Vec<Vec<bool>>);

impl EcnMarkingPorts {
    /// Returns whether any port of the lab may mark packets.
    pub(super) fn has_any_ecn_marking_port(&self) -> bool {
        self.0.iter().flatten().any(|may_mark| *may_mark)
    }

    fn may_mark(&self, switch: usize, port: u16) -> bool {
        self.0[switch].get(usize::from(port)).copied().unwrap_or_default()
    }
}

/// The shortest paths from each switch to one access switch.
#[derive(Clone, Debug)]
pub(super) struct ShortestPaths {
    /// The number of switches on the path from each switch, including itself. The value 0 means that no
    /// path exists.
    hops: Vec<u32>,
    /// Whether a queue before the access switch on one of the shortest paths may mark packets.
    may_mark: Vec<bool>,
}

impl FabricTopology<'_> {
    pub(super) fn new(plan: &FabricPlan) -> FabricTopology<'_> {
        let mut switch_links = vec![Vec::new(); plan.switches.len()];
        let mut access_ports = vec![None; plan.hosts.len()];
        for link in &plan.links {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                match (from, to) {
                    (
                        LinkEnd::Switch { switch, port },
                        LinkEnd::Switch {
                            switch: neighbour, ..
                        },
                    ) => {
                        switch_links[switch as usize].push(SwitchLink { port, neighbour });
                    }
                    (LinkEnd::Host(host), LinkEnd::Switch { switch, port }) => {
                        access_ports[host as usize] = Some(SwitchPort { switch, port });
                    }
                    (LinkEnd::Switch { .. } | LinkEnd::Host(_), LinkEnd::Host(_)) => {}
                }
            }
        }
        FabricTopology {
            plan,
            components: connected_components(&switch_links),
            switch_links,
            access_ports,
        }
    }

    /// Returns whether all flows take shortest paths.
    ///
    /// Computed routes always follow shortest paths. A lab without routes is bridged and has no loops, so
    /// each path is the only path and therefore the shortest.
    pub(super) fn takes_shortest_paths(&self, plan: &LabPlan) -> bool {
        let has_computed_routes = plan
            .switches
            .iter()
            .any(|switch| switch.config.iter().any(ConfigLayer::is_computed));
        let has_routes = |switch: &Arc<SwitchConfig>| !switch.routing.fib.next_hops().is_empty();
        has_computed_routes || !self.plan.switches.iter().any(has_routes)
    }

    /// Returns the ports that may mark packets with a DSCP.
    pub(super) fn marking_ports(&self, dscp: u8) -> EcnMarkingPorts {
        let marking_ports_of = |switch: &Arc<SwitchConfig>| {
            let classes = traffic_classes(switch, dscp);
            let buffer_bytes = ingress_buffer_bytes(switch);
            let port_may_mark = |port: &PortConfig| may_port_mark_ecn(port, &classes, buffer_bytes);
            switch.ports.iter().map(port_may_mark).collect()
        };
        EcnMarkingPorts(self.plan.switches.iter().map(marking_ports_of).collect())
    }

    /// Returns the shortest paths to an access switch.
    pub(super) fn shortest_paths_to(&self, access_switch: usize, ports: &EcnMarkingPorts) -> ShortestPaths {
        let mut hops: Vec<u32> = vec![0; self.plan.switches.len()];
        let mut may_mark = vec![false; self.plan.switches.len()];
        hops[access_switch] = 1;
        let mut queue = VecDeque::from([access_switch]);
        // The queue is sorted by distance, so the entries of all switches nearer to the destination are complete.
        while let Some(current) = queue.pop_front() {
            for link in &self.switch_links[current] {
                let next = link.neighbour as usize;
                if hops[next] == 0 {
                    hops[next] = hops[current] + 1;
                    queue.push_back(next);
                }
                if hops[next] < hops[current] {
                    may_mark[current] |= may_mark[next] || ports.may_mark(current, link.port);
                }
            }
        }
        ShortestPaths { hops, may_mark }
    }

    /// Returns the number of switches on the shortest paths from a host.
    pub(super) fn hop_count(&self, paths: &ShortestPaths, src: u32) -> u32 {
        self.access_switch(src).map_or(0, |switch| paths.hops[switch])
    }

    /// Returns whether packets from a host may be marked on a shortest path, before the access switch of the
    /// destination.
    pub(super) fn may_be_marked(&self, paths: &ShortestPaths, src: u32) -> bool {
        self.access_switch(src)
            .is_some_and(|switch| paths.may_mark[switch])
    }

    /// Returns whether a path exists between the switches of two hosts.
    pub(super) fn is_connected(&self, src: u32, dst: u32) -> bool {
        let component = |host| Some(self.components[self.access_switch(host)?]);
        component(src).is_some_and(|own| component(dst) == Some(own))
    }

    /// Returns whether the port to a host may mark packets.
    pub(super) fn may_last_port_mark(&self, dst: u32, ports: &EcnMarkingPorts) -> bool {
        self.access_port(dst)
            .is_some_and(|last| ports.may_mark(last.switch as usize, last.port))
    }

    /// Returns the switch of a host. Returns `None` if the host has no link to a switch.
    pub(super) fn access_switch(&self, host: u32) -> Option<usize> {
        Some(self.access_port(host)?.switch as usize)
    }

    fn access_port(&self, host: u32) -> Option<SwitchPort> {
        self.access_ports.get(host as usize).copied().flatten()
    }
}

/// Returns the connected component of each switch, as the lowest index of a switch in this component.
fn connected_components(switch_links: &[Vec<SwitchLink>]) -> Vec<u32> {
    const UNKNOWN: u32 = u32::MAX;
    let mut components = vec![UNKNOWN; switch_links.len()];
    for start in 0..switch_links.len() {
        if components[start] != UNKNOWN {
            continue;
        }
        components[start] = start as u32;
        let mut open = vec![start];
        while let Some(switch) = open.pop() {
            for link in &switch_links[switch] {
                let next = link.neighbour as usize;
                if components[next] == UNKNOWN {
                    components[next] = start as u32;
                    open.push(next);
                }
            }
        }
    }
    components
}

/// Returns the traffic classes that packets with a DSCP can have in a switch, according to the maps of all
/// ingress ports.
fn traffic_classes(switch: &SwitchConfig, dscp: u8) -> BTreeSet<u8> {
    let mut classes = BTreeSet::new();
    for port in &switch.ports {
        match port.classify.trust {
            TrustMode::Dscp => {
                classes.insert(port.classify.dscp_to_tc[usize::from(dscp & 63)]);
            }
            // An untagged packet has class 0. The class of a tagged packet depends on its tag.
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

/// Returns whether a port may mark packets of one of the classes. The result is true only if the egress queue
/// has a marking threshold and the threshold is smaller than the buffer of the switch.
fn may_port_mark_ecn(port: &PortConfig, classes: &BTreeSet<u8>, buffer_bytes: u64) -> bool {
    let marks = |wred: &WredProfile| {
        let threshold_bytes = match wred.max_probability {
            0 => wred.max_bytes,
            _ => wred.min_bytes,
        };
        wred.ecn && threshold_bytes < buffer_bytes
    };
    let queues = classes
        .iter()
        .map(|class| &port.queues[port.classify.queue(*class)]);
    queues.filter_map(|queue| queue.wred.as_ref()).any(marks)
}

/// Returns the buffer size of a switch in bytes: the sum over all ingress pools and priority groups.
fn ingress_buffer_bytes(switch: &SwitchConfig) -> u64 {
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
