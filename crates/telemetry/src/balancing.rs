//! Load balancing of a switch in JSON: its groups, what each member carries, which flows moved and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_dataplane::balance::{FlowTableUse, MoveReason, ReorderingView};
use xoff_dataplane::route::{Fib, FibEntry};
use xoff_dataplane::{GroupId, Picos};

use super::reordering::ReorderingReport;
use xoff_units::{jain_index, max_mean_ratio};

/// Most prefixes that are named of a group.
const PREFIXES_NAMED: usize = 16;

/// Load balancing of a switch at one moment, as its driver copies it out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalancingSnapshot {
    /// Routes, from which the prefixes of groups follow.
    pub fib: Arc<Fib>,
    /// Groups of next hops in the order of their numbers, then LAGs.
    pub groups: Vec<GroupSnapshot>,
    /// The latest flows placed or moved, oldest first.
    pub moves: Vec<MoveSnapshot>,
    /// What arrived out of order; `None`: nobody counts.
    pub reordering: Option<ReorderingView>,
}

/// A group at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSnapshot {
    /// Its number, if it is one of next hops.
    pub next_hops: Option<GroupId>,
    /// The name of the LAG, if it is one.
    pub lag: Option<String>,
    /// Name of its scheme.
    pub scheme: String,
    /// Number of the site that its routes lead to; 0: nothing was said.
    pub site: u16,
    /// Its members.
    pub members: Vec<MemberReport>,
    /// Flows placed or moved, by reason.
    pub moves: [u64; MoveReason::ALL.len()],
    /// Its table of flows, if it has one.
    pub table: Option<FlowTableUse>,
}

/// A flow that was placed or moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveSnapshot {
    /// When.
    pub at: Picos,
    /// In which group: its place among [`BalancingSnapshot::groups`]; `None`: it is no longer there.
    pub group: Option<usize>,
    /// The flow's hash.
    pub flow: u32,
    /// The member it was on.
    pub from: Option<u16>,
    /// The member it is on.
    pub to: u16,
    /// Why.
    pub reason: MoveReason,
}

/// Load balancing of a switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LoadBalancingReport {
    /// Groups of equal-cost next hops, then LAGs.
    pub groups: Vec<GroupReport>,
    /// The latest flows that were placed or moved, oldest first (`XOFF_LB|global moves_kept`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveReport>,
    /// What arrived out of order; left out where nobody counts (`XOFF_LB|global reordering_flows`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingReport>,
}

/// A group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct GroupReport {
    /// The LAG's name, or the first prefix that leads via the group.
    pub name: String,
    /// Its scheme.
    pub scheme: String,
    /// The site its routes lead to (`XOFF_LB_SITE`); null: nothing was said.
    pub site: Option<u16>,
    /// How many routes lead via the group; 0 of a LAG.
    pub routes: usize,
    /// The first of their prefixes.
    pub prefixes: Vec<String>,
    /// Its members.
    pub members: Vec<MemberReport>,
    /// Flows that were placed or moved, by reason; those without any are left out.
    pub moves: BTreeMap<String, u64>,
    /// Its table of flows; null: its scheme has none.
    pub table: Option<TableReport>,
    /// Over the members that are usable: the largest load of a link over the mean one, a load being what the link has sent, relative
    /// to its speed. Null while nothing was sent.
    pub max_mean_ratio: Option<f64>,
    /// Jain's index of the same loads: 1 if all are equal, 1/n if one link has everything.
    pub jain_index: Option<f64>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct MemberReport {
    /// Its ports: one, those of a LAG, or none where it is in a VLAN.
    pub ports: Vec<String>,
    /// The address of the next hop; null of members of a LAG.
    pub next_hop: Option<String>,
    /// It carries traffic.
    pub usable: bool,
    /// Its share relative to the others.
    pub weight: u16,
    /// It is used when primary members are worse.
    pub alternate: bool,
    /// Sum of the speeds of its ports, in Mb/s.
    pub speed_mbps: u64,
    /// Quality band of its link now, 7 (best) to 0; null where nothing measures.
    pub band: Option<u8>,
    /// What the band follows from: 0 (idle) to 1000.
    pub load: Option<u16>,
    /// Packets of the group that took it; null where packets are hashed, and nobody counts.
    pub packets: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
    /// Queue pairs that carry data and have their place there; left out where the scheme places none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Bytes that its ports have sent, of all groups.
    pub tx_bytes: u64,
}

/// How full a table of flows is.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct TableReport {
    /// Flows known.
    pub flows: u32,
    /// Most flows that can be known.
    pub flows_max: u32,
    /// Packets of flows that found no place and were hashed.
    pub overflow_packets: u64,
}

/// A flow that was placed or moved.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct MoveReport {
    /// When, in nanoseconds of model time.
    pub at_ns: u64,
    /// Name of the group; empty: it is no longer there.
    pub group: String,
    /// Hash of the flow, in hexadecimal digits.
    pub flow: String,
    /// `new`, `idle`, `quality`, `link-down`, `link-up`, `announced` or `promoted`.
    pub reason: String,
    /// The port it was on; null: it was on none.
    pub from: Option<String>,
    /// The port it is on.
    pub to: String,
}

impl MemberReport {
    /// What it is called in a line.
    pub fn name(&self) -> String {
        match (self.ports.is_empty(), &self.next_hop) {
            (false, _) => self.ports.join(","),
            (true, Some(next_hop)) => next_hop.clone(),
            (true, None) => String::new(),
        }
    }

    /// What it sent, relative to its speed.
    fn relative_load(&self) -> f64 {
        self.tx_bytes as f64 / self.speed_mbps.max(1) as f64
    }
}

impl LoadBalancingReport {
    /// The JSON form; `None` where there is nothing to choose, and nobody counts what is out of order.
    pub fn new(snapshot: &BalancingSnapshot) -> Option<LoadBalancingReport> {
        if snapshot.groups.is_empty() && snapshot.reordering.is_none() {
            return None;
        }
        let mut prefixes: BTreeMap<GroupId, (usize, Vec<String>)> = BTreeMap::new();
        for (route, entry) in snapshot.fib.routes() {
            if let FibEntry::Group(group) = entry {
                let (routes, named) = prefixes.entry(group).or_default();
                *routes += 1;
                if named.len() < PREFIXES_NAMED {
                    named.push(route.prefix.to_string());
                }
            }
        }
        let groups: Vec<GroupReport> = snapshot
            .groups
            .iter()
            .map(|group| {
                let of_group = group.next_hops.and_then(|id| prefixes.remove(&id));
                GroupReport::new(group, of_group.unwrap_or_default())
            })
            .collect();
        let moves = snapshot
            .moves
            .iter()
            .map(|moved| MoveReport::new(moved, &groups))
            .collect();
        Some(LoadBalancingReport {
            groups,
            moves,
            reordering: snapshot.reordering.as_ref().map(ReorderingReport::new),
        })
    }
}

impl GroupReport {
    fn new(group: &GroupSnapshot, (routes, prefixes): (usize, Vec<String>)) -> GroupReport {
        let usable = group.members.iter().filter(|member| member.usable);
        let loads: Vec<f64> = usable.map(MemberReport::relative_load).collect();
        let counted = MoveReason::ALL
            .iter()
            .zip(group.moves)
            .filter(|(_, count)| *count > 0);
        GroupReport {
            name: group
                .lag
                .clone()
                .or_else(|| prefixes.first().cloned())
                .unwrap_or_default(),
            scheme: group.scheme.clone(),
            site: Some(group.site).filter(|site| *site > 0),
            routes,
            prefixes,
            members: group.members.clone(),
            moves: counted
                .map(|(reason, count)| (reason.name().to_owned(), count))
                .collect(),
            table: group.table.map(|table| TableReport {
                flows: table.flows,
                flows_max: table.flows_max,
                overflow_packets: table.overflow_packets,
            }),
            max_mean_ratio: max_mean_ratio(&loads),
            jain_index: jain_index(&loads),
        }
    }

    /// Packets that its members took, where they are counted.
    pub fn packets(&self) -> Option<u64> {
        self.members.iter().map(|member| member.packets).sum()
    }
}

impl MoveReport {
    fn new(moved: &MoveSnapshot, groups: &[GroupReport]) -> MoveReport {
        let group = moved.group.and_then(|at| groups.get(at));
        let member = |index: u16| {
            let member = group.and_then(|group| group.members.get(usize::from(index)));
            member.map_or_else(|| format!("member {index}"), MemberReport::name)
        };
        MoveReport {
            at_ns: moved.at.as_nanos(),
            group: group.map(|group| group.name.clone()).unwrap_or_default(),
            flow: format!("{:08x}", moved.flow),
            reason: moved.reason.name().to_owned(),
            from: moved.from.map(member),
            to: member(moved.to),
        }
    }
}
