//! Finds the shortest paths of flows, and whether queues on these paths may mark packets with CE.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use xoff_dataplane::config::{NO_PROFILE, PoolSide, PortConfig, SwitchConfig, TrustMode, WredProfile};
use xoff_dataplane::ids::TRAFFIC_CLASSES;

use super::super::plan::{ConfigLayer, LabPlan};
use xoff_fabric::{FabricPlan, LinkEnd};

/// A link of a switch.
#[derive(Clone, Copy, Debug)]
struct SwitchLink {
    port: u16,
    far_end: LinkEnd,
}

/// The links between the switches and hosts of a fabric.
pub(super) struct FabricTopology<'a> {
    plan: &'a FabricPlan,
    /// The links of each switch.
    switch_links: Vec<Vec<SwitchLink>>,
    /// The switch at the other end of each host's link.
    access_switches: Vec<Option<u32>>,
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

/// The shortest paths from each switch to one destination.
#[derive(Clone, Debug)]
pub(super) struct ShortestPaths {
    /// The number of switches on the path from each switch, including itself. The value 0 means that no
    /// path exists.
    hops: Vec<u32>,
    /// Whether a queue on one of the shortest paths may mark packets.
    may_mark: Vec<bool>,
}

impl FabricTopology<'_> {
    pub(super) fn new(plan: &FabricPlan) -> FabricTopology<'_> {
        let mut switch_links = vec![Vec::new(); plan.switches.len()];
        let mut access_switches = vec![None; plan.hosts.len()];
        for link in &plan.links {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                match (from, to) {
                    (LinkEnd::Switch { switch, port }, end) => {
                        switch_links[switch as usize].push(SwitchLink { port, far_end: end });
                    }
                    (LinkEnd::Host(host), LinkEnd::Switch { switch, .. }) => {
                        access_switches[host as usize] = Some(switch)
                    }
                    (LinkEnd::Host(_), LinkEnd::Host(_)) => {}
                }
            }
        }
        FabricTopology {
            plan,
            switch_links,
            access_switches,
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

    /// Returns the shortest paths to a host.
    pub(super) fn shortest_paths_to(&self, dst: u32, ports: &EcnMarkingPorts) -> ShortestPaths {
        let mut hops: Vec<u32> = vec![0; self.plan.switches.len()];
        let mut may_mark = vec![false; self.plan.switches.len()];
        let mut queue = VecDeque::new();
        if let Some(last) = self.access_switch(dst) {
            hops[last] = 1;
            queue.push_back(last);
        }
        // The queue is sorted by distance, so the entries of all switches nearer to the host are complete.
        while let Some(current) = queue.pop_front() {
            for link in &self.switch_links[current] {
                let marked_later = match link.far_end {
                    LinkEnd::Host(host) if host == dst => false,
                    LinkEnd::Host(_) => continue,
                    LinkEnd::Switch { switch, .. } => {
                        let next = switch as usize;
                        if hops[next] == 0 {
                            hops[next] = hops[current] + 1;
                            queue.push_back(next);
                        }
                        if hops[next] >= hops[current] {
                            continue;
                        }
                        may_mark[next]
                    }
                };
                may_mark[current] |= marked_later || ports.may_mark(current, link.port);
            }
        }
        ShortestPaths { hops, may_mark }
    }

    /// Returns the number of switches on the shortest paths from a host.
    pub(super) fn hop_count(&self, paths: &ShortestPaths, src: u32) -> u32 {
        self.access_switch(src).map_or(0, |switch| paths.hops[switch])
    }

    /// Returns whether packets from a host may be marked on a shortest path.
    pub(super) fn may_be_marked(&self, paths: &ShortestPaths, src: u32) -> bool {
        self.access_switch(src)
            .is_some_and(|switch| paths.may_mark[switch])
    }

    fn access_switch(&self, host: u32) -> Option<usize> {
        let switch = self.access_switches.get(host as usize).copied().flatten()?;
        Some(switch as usize)
    }
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
