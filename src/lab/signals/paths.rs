//! The switches that a flow passes, and whether one of their queues may mark it.

use std::collections::{BTreeSet, VecDeque};

use xoff_dataplane::config::{NO_PROFILE, PoolSide, SwitchConfig, Trust, Wred};

use super::super::plan::{ConfigLayer, LabPlan};
use super::super::routes::MADE;
use crate::fabric::{End, FabricPlan};

/// A link of a switch: the port, and what is at its other end.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    port: u16,
    end: End,
}

/// The switches of a plan and their links.
pub(super) struct Topology<'a> {
    plan: &'a FabricPlan,
    /// By switch.
    neighbours: Vec<Vec<Neighbour>>,
    /// By host: the switch that it is connected to.
    access: Vec<Option<u32>>,
}

/// What flows to one destination pass on their shortest paths. By source host.
#[derive(Clone, Debug)]
pub(super) struct Marking {
    /// Switches on the path.
    hops: Vec<u32>,
    /// Whether a queue on one of the paths may mark.
    marks: Vec<bool>,
}

impl Marking {
    pub(super) fn hops(&self, src: u32) -> u32 {
        self.hops.get(src as usize).copied().unwrap_or_default()
    }

    pub(super) fn on_path(&self, src: u32) -> bool {
        self.marks.get(src as usize).copied().unwrap_or_default()
    }
}

impl Topology<'_> {
    pub(super) fn new(plan: &FabricPlan) -> Topology<'_> {
        let mut neighbours = vec![Vec::new(); plan.switches.len()];
        let mut access = vec![None; plan.hosts.len()];
        for link in &plan.links {
            let [a, b] = link.ends;
            for (from, to) in [(a, b), (b, a)] {
                match (from, to) {
                    (End::Switch { switch, port }, end) => {
                        neighbours[switch as usize].push(Neighbour { port, end });
                    }
                    (End::Host(host), End::Switch { switch, .. }) => access[host as usize] = Some(switch),
                    (End::Host(_), End::Host(_)) => {}
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
        let is_made =
            |layer: &ConfigLayer| matches!(layer, ConfigLayer::Text { source, .. } if source == MADE);
        let made = plan
            .switches
            .iter()
            .any(|switch| switch.config.iter().any(is_made));
        let routed = |switch: &SwitchConfig| !switch.routing.fib.next_hops().is_empty();
        made || !self.plan.switches.iter().any(routed)
    }

    /// Whether some queue of the lab may mark packets with this DSCP.
    pub(super) fn marks_anywhere(&self, dscp: u8) -> bool {
        self.plan.switches.iter().any(|switch| {
            let classes = traffic_classes(switch, dscp);
            (0..switch.ports.len()).any(|port| may_mark(switch, port as u16, &classes))
        })
    }

    /// The shortest paths of packets with this DSCP to a host.
    pub(super) fn marking(&self, dst: u32, dscp: u8) -> Marking {
        let mut hops: Vec<u32> = vec![0; self.plan.switches.len()];
        let mut marks = vec![false; self.plan.switches.len()];
        let mut queue = VecDeque::new();
        if let Some(last) = self.access.get(dst as usize).copied().flatten() {
            hops[last as usize] = 1;
            queue.push_back(last);
        }
        // Switches come in the order of their distance, so that those nearer to the host are known.
        while let Some(switch) = queue.pop_front() {
            let at = switch as usize;
            let config = &self.plan.switches[at];
            let classes = traffic_classes(config, dscp);
            for neighbour in &self.neighbours[at] {
                let next = match neighbour.end {
                    End::Host(host) if host == dst => Some(false),
                    End::Host(_) => None,
                    End::Switch { switch, .. } => {
                        let beyond = switch as usize;
                        if hops[beyond] == 0 {
                            hops[beyond] = hops[at] + 1;
                            queue.push_back(switch);
                        }
                        (hops[beyond] + 1 == hops[at]).then(|| marks[beyond])
                    }
                };
                if let Some(marked_later) = next {
                    marks[at] |= marked_later || may_mark(config, neighbour.port, &classes);
                }
            }
        }
        let of_hosts =
            |host: &Option<u32>| host.map_or((0, false), |at| (hops[at as usize], marks[at as usize]));
        let (hops, marks) = self.access.iter().map(of_hosts).unzip();
        Marking { hops, marks }
    }
}

/// Traffic classes that packets with this DSCP may have in a switch, by the maps of the ports where they arrive.
fn traffic_classes(switch: &SwitchConfig, dscp: u8) -> BTreeSet<u8> {
    let mut classes = BTreeSet::new();
    for port in &switch.ports {
        match port.classify.trust {
            Trust::Dscp => {
                classes.insert(port.classify.dscp_to_tc[usize::from(dscp & 63)]);
            }
            // Untagged packets have class 0, others that of their tag.
            Trust::Pcp => {
                classes.insert(0);
                classes.extend(port.classify.dot1p_to_tc);
            }
        }
    }
    classes
}

/// Whether the queue of one of these classes at a port marks, before the buffer is full.
fn may_mark(switch: &SwitchConfig, port: u16, classes: &BTreeSet<u8>) -> bool {
    let Some(port) = switch.ports.get(usize::from(port)) else {
        return false;
    };
    let marks = |wred: &Wred| {
        let from_bytes = if wred.max_probability > 0 {
            wred.min_bytes
        } else {
            wred.max_bytes
        };
        wred.ecn && from_bytes < buffer_bytes(switch)
    };
    classes.iter().any(|class| {
        port.queues[port.classify.queue(*class % 16)]
            .wred
            .as_ref()
            .is_some_and(marks)
    })
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
