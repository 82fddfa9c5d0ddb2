//! The report of load balancing: groups, the load of their members, and flow moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_dataplane::balance::{FlowTableUse, MoveReason, ReorderingView};
use xoff_dataplane::route::{Fib, FibEntry};
use xoff_dataplane::{GroupId, Picos};

use super::reordering::ReorderingReport;
use xoff_units::{jain_index, max_mean_ratio};

/// Largest number of prefixes in the report of a group.
const REPORTED_PREFIXES_MAX: usize = 16;

/// A copy of the load balancing state of a switch at one model time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalancingSnapshot {
    /// The routes. The prefixes of a group derive from them.
    pub fib: Arc<Fib>,
    /// Groups of next hops in the order of their format_counts_by_class, followed by LAGs.
    pub groups: Vec<GroupSnapshot>,
    /// The latest flow moves, oldest first. The placement of a new flow is also listed as a flow move.
    pub moves: Vec<FlowMoveSnapshot>,
    /// Packets received out of order. `None` if the switch does not count them.
    pub reordering: Option<ReorderingView>,
}

/// A copy of the state of one load balancing group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSnapshot {
    /// Number of the group of next hops. `None` for a LAG.
    pub next_hops: Option<GroupId>,
    /// Name of the LAG. `None` for a group of next hops.
    pub lag: Option<String>,
    /// Name of the load-balancing scheme.
    pub scheme: String,
    /// Number of the site of the routes. The value 0 means no configured site.
    pub site: u16,
    /// The members of the group.
    pub members: Vec<MemberReport>,
    /// Number of flow moves by reason.
    pub moves: [u64; MoveReason::ALL.len()],
    /// The flow table. `None` if the scheme has none.
    pub table: Option<FlowTableUse>,
}

/// A flow move. The flow was placed at a member for the first time, or moved to another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMoveSnapshot {
    /// Model time of the flow move.
    pub at: Picos,
    /// Index of the group in [`BalancingSnapshot::groups`]. `None` if the group no longer exists.
    pub group: Option<usize>,
    /// Hash of the flow.
    pub flow: u32,
    /// The previous member. `None` for a new flow.
    pub from: Option<u16>,
    /// The new member.
    pub to: u16,
    /// The reason of the flow move.
    pub reason: MoveReason,
}

/// Load balancing of a switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LoadBalancingReport {
    /// Groups of equal-cost next hops, followed by LAGs.
    pub groups: Vec<GroupReport>,
    /// The latest flow moves, oldest first (`XOFF_LB|global moves_kept`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<FlowMoveReport>,
    /// Number of packets received out of order (`XOFF_LB|global reordering_flows`). The field is omitted if
    /// the switch does not count these packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingReport>,
}

/// The report of one load balancing group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct GroupReport {
    /// Name of the LAG, or the first prefix whose route uses the group.
    pub name: String,
    /// Name of the load-balancing scheme.
    pub scheme: String,
    /// Site of the routes (`XOFF_LB_SITE`). Null without a configured site.
    pub site: Option<u16>,
    /// Number of routes that use the group. The value is 0 for a LAG.
    pub routes: usize,
    /// The first prefixes of these routes.
    pub prefixes: Vec<String>,
    /// The members of the group.
    pub members: Vec<MemberReport>,
    /// Number of flow moves by reason. Reasons without a flow move are omitted.
    pub moves: BTreeMap<String, u64>,
    /// The flow table. Null if the scheme has none.
    pub table: Option<FlowTableReport>,
    /// Largest load of a usable member divided by the mean load. The load of a member is its number of sent
    /// bytes divided by its speed. The value is null if nothing was sent.
    pub max_mean_ratio: Option<f64>,
    /// Jain's fairness index of the loads of the usable members. The value is 1 if all loads are equal. If
    /// one of n members has all the load, the value is 1/n.
    pub jain_index: Option<f64>,
}

/// The report of one member of a group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct MemberReport {
    /// Ports of the member. The list has one port, or all ports of a LAG. The list is empty for a next hop in
    /// a VLAN.
    pub ports: Vec<String>,
    /// IP address of the next hop. Null for a member of a LAG.
    pub next_hop: Option<String>,
    /// Whether the member can carry traffic.
    pub usable: bool,
    /// Weight of the member relative to the other members.
    pub weight: u16,
    /// Whether the member is used only when primary members are worse.
    pub alternate: bool,
    /// Sum of the speeds of its ports, in Mb/s.
    pub speed_mbps: u64,
    /// Current quality band of the link, from 7 (best) to 0. The value is null if the quality
    /// is not measured.
    pub band: Option<u8>,
    /// Load from which the quality band derives, 0 (idle) to 1000.
    pub load: Option<u16>,
    /// Number of packets of the group that used the member. The value is null if the scheme does
    /// not count packets.
    pub packets: Option<u64>,
    /// Bytes of these packets.
    pub bytes: Option<u64>,
    /// Number of active queue pairs that are placed at the member. The field is omitted if the scheme does
    /// not place queue pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Bytes that the ports of the member have sent for all groups.
    pub tx_bytes: u64,
}

/// Use of a flow table.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct FlowTableReport {
    /// Number of flows in the table.
    pub flows: u32,
    /// Largest number of flows.
    pub flows_max: u32,
    /// Number of packets whose flows did not fit into the flow table. The hash selects the member
    /// for these packets.
    pub overflow_packets: u64,
}

/// The report of one flow move.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct FlowMoveReport {
    /// Model time in nanoseconds.
    pub at_ns: u64,
    /// Name of the group. Empty if the group no longer exists.
    pub group: String,
    /// Hash of the flow in hexadecimal digits.
    pub flow: String,
    /// Reason: `new`, `idle`, `quality`, `link-down`, `link-up`, `announced` or `promoted`.
    pub reason: String,
    /// Port of the previous member. Null for a new flow.
    pub from: Option<String>,
    /// Port of the new member.
    pub to: String,
}

impl MemberReport {
    /// Returns the name of the member in messages. The name is the list of its ports, or the address of its
    /// next hop.
    pub fn name(&self) -> String {
        match (self.ports.is_empty(), &self.next_hop) {
            (false, _) => self.ports.join(","),
            (true, Some(next_hop)) => next_hop.clone(),
            (true, None) => String::new(),
        }
    }

    /// Returns the number of bytes sent divided by the speed.
    fn relative_load(&self) -> f64 {
        self.tx_bytes as f64 / self.speed_mbps.max(1) as f64
    }
}

impl LoadBalancingReport {
    /// Converts a snapshot to the JSON form. Returns `None` if the switch has no group and does not count
    /// packets out of order.
    pub fn new(snapshot: &BalancingSnapshot) -> Option<LoadBalancingReport> {
        if snapshot.groups.is_empty() && snapshot.reordering.is_none() {
            return None;
        }
        let mut prefixes: BTreeMap<GroupId, (usize, Vec<String>)> = BTreeMap::new();
        for (route, entry) in snapshot.fib.routes() {
            if let FibEntry::Group(group) = entry {
                let (routes, named) = prefixes.entry(group).or_default();
                *routes += 1;
                if named.len() < REPORTED_PREFIXES_MAX {
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
            .map(|moved| FlowMoveReport::new(moved, &groups))
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
            table: group.table.map(|table| FlowTableReport {
                flows: table.flows,
                flows_max: table.flows_max,
                overflow_packets: table.overflow_packets,
            }),
            max_mean_ratio: max_mean_ratio(&loads),
            jain_index: jain_index(&loads),
        }
    }

    /// Returns the number of packets that used the members of the group. Returns `None` if the packets are
    /// not counted.
    pub fn packets(&self) -> Option<u64> {
        self.members.iter().map(|member| member.packets).sum()
    }
}

impl FlowMoveReport {
    fn new(moved: &FlowMoveSnapshot, groups: &[GroupReport]) -> FlowMoveReport {
        let group = moved.group.and_then(|at| groups.get(at));
        let member = |index: u16| {
            let member = group.and_then(|group| group.members.get(usize::from(index)));
            member.map_or_else(|| format!("member {index}"), MemberReport::name)
        };
        FlowMoveReport {
            at_ns: moved.at.as_nanos(),
            group: group.map(|group| group.name.clone()).unwrap_or_default(),
            flow: format!("{:08x}", moved.flow),
            reason: moved.reason.name().to_owned(),
            from: moved.from.map(member),
            to: member(moved.to),
        }
    }
}
