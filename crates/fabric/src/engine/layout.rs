//! Division of a fabric into shards. Each thread of a run processes one shard.

use crate::plan::{FabricPlan, LinkEnd};

/// Position of a switch, host or link direction: its shard and its index in the lists of the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeIndex {
    pub(super) shard: u32,
    pub(super) local: u32,
}

/// Positions of all nodes of a fabric.
///
/// A host is in the shard of its switch, so only frames between switches change the shard.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) shard_count: usize,
    /// Positions by the index of the switch in the plan.
    pub(super) switches: Vec<NodeIndex>,
    /// Positions by the index of the host in the plan.
    pub(super) hosts: Vec<NodeIndex>,
    /// Positions by the number of the link direction. The shard is the one of the sending end.
    pub(super) directions: Vec<NodeIndex>,
    /// For each shard: the number of its switches that are linked only to nodes of the same shard. They come first.
    pub(super) inner_switches: Vec<u32>,
}

impl Layout {
    /// Divides a fabric into at most `shards_max` shards with at least one switch each. `shards_max` is 1 or more.
    /// The positions of link directions are added later.
    pub(super) fn new(plan: &FabricPlan, shards_max: usize) -> Layout {
        let shard_count = shards_max.min(plan.switches.len()).max(1);
        let shards_of_switches = assign_switches(plan, shard_count);
        let mut shards_of_hosts = vec![0; plan.hosts.len()];
        for link in &plan.links {
            if let [LinkEnd::Host(host), LinkEnd::Switch { switch, .. }]
            | [LinkEnd::Switch { switch, .. }, LinkEnd::Host(host)] = link.ends
                && let (Some(shard), Some(of_switch)) = (
                    shards_of_hosts.get_mut(host as usize),
                    shards_of_switches.get(switch as usize),
                )
            {
                *shard = *of_switch;
            }
        }
        let mut is_inner = vec![true; plan.switches.len()];
        for link in &plan.links {
            if let [
                LinkEnd::Switch { switch: one, .. },
                LinkEnd::Switch { switch: other, .. },
            ] = link.ends
                && shards_of_switches.get(one as usize) != shards_of_switches.get(other as usize)
            {
                for switch in [one, other] {
                    if let Some(is_inner) = is_inner.get_mut(switch as usize) {
                        *is_inner = false;
                    }
                }
            }
        }
        let mut next = vec![0; shard_count];
        let mut switches = vec![NodeIndex::default(); plan.switches.len()];
        assign_positions(&mut switches, &shards_of_switches, &mut next, |switch| {
            is_inner[switch]
        });
        let inner_switches = next.clone();
        assign_positions(&mut switches, &shards_of_switches, &mut next, |switch| {
            !is_inner[switch]
        });
        let mut hosts = vec![NodeIndex::default(); plan.hosts.len()];
        assign_positions(&mut hosts, &shards_of_hosts, &mut vec![0; shard_count], |_| true);
        Layout {
            shard_count,
            switches,
            hosts,
            directions: Vec::with_capacity(2 * plan.links.len()),
            inner_switches,
        }
    }

    /// Returns the position of the node at a link end. Returns `None` if the node does not exist.
    pub(super) fn node(&self, end: LinkEnd) -> Option<NodeIndex> {
        match end {
            LinkEnd::Switch { switch, .. } => self.switches.get(switch as usize).copied(),
            LinkEnd::Host(host) => self.hosts.get(host as usize).copied(),
        }
    }
}

/// Sets the positions of the nodes for which `is_included` is true. `shards` contains the shard of each node, and
/// `next` the next free index of each shard.
fn assign_positions(
    positions: &mut [NodeIndex],
    shards: &[u32],
    next: &mut [u32],
    is_included: impl Fn(usize) -> bool,
) {
    for (node, position) in positions.iter_mut().enumerate() {
        if is_included(node) {
            let shard = shards[node];
            let local = &mut next[shard as usize];
            *position = NodeIndex { shard, local: *local };
            *local += 1;
        }
    }
}

/// Returns the shard of each switch. Neighbours in the plan are usually neighbours in the fabric, so each shard gets a
/// range of the switches of each tier, with about the same number of links.
fn assign_switches(plan: &FabricPlan, shard_count: usize) -> Vec<u32> {
    let (tiers, weights) = tiers_and_weights(plan);
    let mut shards = vec![0; plan.switches.len()];
    let mut loads = vec![0_u64; shard_count];
    for tier in 0..=tiers.iter().copied().max().unwrap_or(0) {
        let members = (0..shards.len()).filter(|switch| tiers[*switch] == tier);
        let members: Vec<(usize, u64)> = members.map(|switch| (switch, weights[switch])).collect();
        if members.len() < shard_count {
            for (switch, weight) in members {
                let least = (0..shard_count).min_by_key(|shard| loads[*shard]).unwrap_or(0);
                shards[switch] = least as u32;
                loads[least] += weight;
            }
            continue;
        }
        let total: u64 = members.iter().map(|(_, weight)| weight).sum();
        let (mut shard, mut load) = (0, 0);
        for (index, (switch, weight)) in members.iter().enumerate() {
            let is_full = (load + weight / 2) * shard_count as u64 >= total;
            let must_leave = members.len() - index < shard_count - shard;
            if load > 0 && shard + 1 < shard_count && (is_full || must_leave) {
                (shard, load) = (shard + 1, 0);
            }
            shards[*switch] = shard as u32;
            loads[shard] += weight;
            load += weight;
        }
    }
    shards
}

/// Returns the tier and the weight of each switch. The tier is the number of links between the switch and the nearest
/// switch with hosts. The weight is about the work for the links of the switch.
fn tiers_and_weights(plan: &FabricPlan) -> (Vec<usize>, Vec<u64>) {
    let mut weights = vec![0; plan.switches.len()];
    let mut neighbours = vec![Vec::new(); plan.switches.len()];
    let mut has_hosts = vec![false; plan.switches.len()];
    for link in &plan.links {
        for (end, other) in [(link.ends[0], link.ends[1]), (link.ends[1], link.ends[0])] {
            let LinkEnd::Switch { switch, .. } = end else {
                continue;
            };
            let switch = switch as usize;
            if switch >= weights.len() {
                continue;
            }
            match other {
                LinkEnd::Switch { switch: other, .. } => neighbours[switch].push(other as usize),
                LinkEnd::Host(_) => has_hosts[switch] = true,
            }
            // A host and its link take more work than a link to a switch.
            weights[switch] += if matches!(other, LinkEnd::Host(_)) { 3 } else { 1 };
        }
    }
    let mut tiers = vec![usize::MAX; weights.len()];
    let mut reached: Vec<usize> = (0..tiers.len()).filter(|switch| has_hosts[*switch]).collect();
    let mut tier = 0;
    while !reached.is_empty() {
        reached.iter().for_each(|switch| tiers[*switch] = tier);
        tier += 1;
        let next = reached.iter().flat_map(|switch| &neighbours[*switch]).copied();
        let mut next: Vec<usize> = next
            .filter(|switch| tiers.get(*switch) == Some(&usize::MAX))
            .collect();
        next.sort_unstable();
        next.dedup();
        reached = next;
    }
    // Switches that no host can reach form the last tier.
    for tier_of_switch in &mut tiers {
        *tier_of_switch = (*tier_of_switch).min(tier);
    }
    for weight in &mut weights {
        *weight = (*weight).max(1);
    }
    (tiers, weights)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::LinkPlan;
    use xoff_dataplane::config::SwitchConfig;
    use xoff_host::HostConfig;
    use xoff_units::{LinkTiming, Picos};

    /// Returns a fabric of leaves with hosts and of spines.
    fn leaf_spine(leaves: usize, spines: usize, hosts_per_leaf: usize) -> FabricPlan {
        let config = std::sync::Arc::new(SwitchConfig::new("s", [2, 0, 0, 0, 1, 1], Vec::new()));
        let host = |_| HostConfig::new("h", [2, 0, 0, 0, 0, 1], LinkTiming::ethernet(100_000));
        let mut links = Vec::new();
        let mut connect = |ends| {
            links.push(LinkPlan {
                name: String::new(),
                ends,
                delay: Picos::from_micros(1),
            });
        };
        for leaf in 0..leaves as u32 {
            for host in 0..hosts_per_leaf as u32 {
                connect([
                    LinkEnd::Host(leaf * hosts_per_leaf as u32 + host),
                    LinkEnd::Switch {
                        switch: leaf,
                        port: host as u16,
                    },
                ]);
            }
            for spine in 0..spines as u32 {
                connect([
                    LinkEnd::Switch {
                        switch: leaf,
                        port: 100,
                    },
                    LinkEnd::Switch {
                        switch: leaves as u32 + spine,
                        port: leaf as u16,
                    },
                ]);
            }
        }
        FabricPlan {
            switches: vec![config; leaves + spines],
            hosts: (0..leaves * hosts_per_leaf).map(host).collect(),
            links,
        }
    }

    #[test]
    fn each_shard_has_switches_and_hosts_are_with_their_switch() {
        for (leaves, spines, shards_max, expected) in [
            (4, 2, 2, 2),
            (3, 2, 8, 5),
            (16, 16, 3, 3),
            (5, 1, 4, 4),
            (1, 0, 4, 1),
            (7, 7, 1, 1),
        ] {
            let plan = leaf_spine(leaves, spines, 2);
            let layout = Layout::new(&plan, shards_max);
            assert_eq!(layout.shard_count, expected);
            for shard in 0..expected as u32 {
                let of_shard = layout.switches.iter().filter(|switch| switch.shard == shard);
                let locals: Vec<u32> = of_shard.map(|switch| switch.local).collect();
                assert!(!locals.is_empty(), "{leaves} {spines} {shards_max}: {shard}");
                let numbers: BTreeSet<u32> = locals.iter().copied().collect();
                assert_eq!(numbers, (0..locals.len() as u32).collect());
            }
            for (host, position) in layout.hosts.iter().enumerate() {
                assert_eq!(position.shard, layout.switches[host / 2].shard);
            }
        }
    }

    /// Two pods of two leaves with a spine each, and a core switch. With two shards, each pod is in a shard, and only
    /// the links of the core are between shards.
    #[test]
    fn switches_that_are_linked_to_their_own_shard_come_first() {
        let mut plan = leaf_spine(4, 3, 2);
        let is_in_pod = |link: &LinkPlan| match link.ends {
            [
                LinkEnd::Switch { switch: leaf, .. },
                LinkEnd::Switch { switch: spine, .. },
            ] => spine == 4 + leaf / 2,
            _ => true,
        };
        plan.links.retain(is_in_pod);
        for spine in [4, 5] {
            let ends =
                [(spine, 50), (6, spine as u16)].map(|(switch, port)| LinkEnd::Switch { switch, port });
            plan.links.push(LinkPlan {
                name: String::new(),
                ends,
                delay: Picos::from_micros(1),
            });
        }
        let layout = Layout::new(&plan, 2);
        let shards = layout.switches.iter().map(|switch| switch.shard);
        assert_eq!(shards.collect::<Vec<u32>>(), [0, 0, 1, 1, 0, 1, 0]);
        // The spine of pod 0 and the core are in one shard, and the spine of pod 1 in the other one.
        assert_eq!(layout.inner_switches, [3, 2]);
        let core = layout.switches[6];
        assert_eq!((core.shard, core.local), (0, 3));
    }

    #[test]
    fn shards_have_about_the_same_number_of_links() {
        let layout = Layout::new(&leaf_spine(16, 16, 8), 4);
        for shard in 0..4 {
            let of_shard = |range: std::ops::Range<usize>| {
                let switches = layout.switches[range].iter();
                switches.filter(|switch| switch.shard == shard).count()
            };
            assert_eq!((of_shard(0..16), of_shard(16..32)), (4, 4));
        }
    }
}
