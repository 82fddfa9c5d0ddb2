//! The report of load balancing: groups of next hops or LAG ports, the load of each member, and flow moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
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
    /// The routes. The report derives the prefixes of a group from these routes.
    pub fib: Arc<Fib>,
    /// Groups of next hops in the order of their numbers, followed by the LAGs with several members in the
    /// order of the configuration.
    pub groups: Vec<GroupSnapshot>,
    /// The latest flow moves, oldest first, at most `XOFF_LB|global moves_kept` entries. The first placement
    /// of a flow at a member is also listed as a flow move.
    pub moves: Vec<FlowMoveSnapshot>,
    /// Counters of packets that the switch received out of order. `None` if the switch does not count these
    /// packets (`XOFF_LB|global reordering_flows`).
    pub reordering: Option<ReorderingView>,
}

/// A copy of the state of one load balancing group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSnapshot {
    /// Number of the group in [`Fib::groups`]. `None` for a LAG.
    pub next_hops: Option<GroupId>,
    /// Name of the LAG. `None` for a group of next hops.
    pub lag: Option<String>,
    /// Name of the load-balancing scheme: a built-in scheme or an entry of `XOFF_LB_SCHEME`. The name is
    /// `ecmp`, a static hash, if neither the group nor the switch has a configured scheme.
    pub scheme: String,
    /// Number of the site of the routes (`XOFF_LB_SITE`): the leaf behind which the destinations are. The
    /// value 0 means no configured site.
    pub site: u16,
    /// The members in the order of the group: next hops, or ports of a LAG. Groups with the same members share the
    /// list if their scheme counts nothing.
    pub members: Arc<[MemberReport]>,
    /// Number of flow moves for each reason, indexed by the position of the reason in [`MoveReason::ALL`].
    pub moves: [u64; MoveReason::ALL.len()],
    /// The use of the flow table. `None` if the scheme has no flow table.
    pub table: Option<FlowTableUse>,
}

/// A flow move: a group member was selected for a new flow, or an existing flow moved from one member to
/// another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMoveSnapshot {
    /// Model time of the flow move.
    pub at: Picos,
    /// Index of the group in [`BalancingSnapshot::groups`]. `None` if the group no longer exists.
    pub group: Option<usize>,
    /// Hash of the flow key.
    pub flow: u32,
    /// Index of the previous member in [`GroupSnapshot::members`]. `None` for a new flow.
    pub from: Option<u16>,
    /// Index of the new member in [`GroupSnapshot::members`].
    pub to: u16,
    /// The reason of the flow move.
    pub reason: MoveReason,
}

/// The report of the load balancing of a switch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq)]
pub struct LoadBalancingReport {
    /// Groups of equal-cost next hops, followed by the LAGs with several members.
    pub groups: Vec<GroupReport>,
    /// The latest flow moves, oldest first. The list has at most `XOFF_LB|global moves_kept` entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<FlowMoveReport>,
    /// Counters of packets that the switch received out of order (`XOFF_LB|global reordering_flows`). The
    /// field is omitted if the switch does not count these packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordering: Option<ReorderingReport>,
}

/// The report of one load balancing group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq)]
pub struct GroupReport {
    /// Name of the LAG, or the first prefix whose route uses the group. Empty if no route uses the group.
    pub name: String,
    /// Name of the load-balancing scheme: a built-in scheme or an entry of `XOFF_LB_SCHEME`. The name is
    /// `ecmp`, a static hash, if neither the group nor the switch has a configured scheme.
    pub scheme: String,
    /// Number of the site of the routes (`XOFF_LB_SITE`): the leaf behind which the destinations are. The
    /// value is null without a configured site.
    pub site: Option<u16>,
    /// Number of routes that use the group. The value is 0 for a LAG.
    pub routes: usize,
    /// The prefixes of these routes, at most the first 16. Empty for a LAG.
    pub prefixes: Vec<String>,
    /// The members in the order of the group: next hops, or ports of a LAG.
    #[schema(value_type = Vec<MemberReport>)]
    pub members: Arc<[MemberReport]>,
    /// Number of flow moves by the name of the reason. Reasons without a flow move are omitted.
    pub moves: BTreeMap<String, u64>,
    /// The use of the flow table. The value is null if the scheme has no flow table.
    pub table: Option<FlowTableReport>,
    /// Largest load of a usable member divided by the mean load of the usable members. The load of a member
    /// is `tx_bytes` divided by `speed_mbps`. The value is null if the usable members have sent nothing.
    pub max_mean_ratio: Option<f64>,
    /// Jain's fairness index of the loads of the usable members. The value is 1 if all loads are equal. If
    /// one of n members has all the load, the value is 1/n. The value is null if the usable members have
    /// sent nothing.
    pub jain_index: Option<f64>,
}

/// The report of one member of a load balancing group: a next hop, or a port of a LAG.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq)]
pub struct MemberReport {
    /// Names of the ports of the member. The list has one port, or all ports of a LAG. The list is empty for
    /// a next hop in a VLAN.
    pub ports: Vec<String>,
    /// IP address of the next hop. The value is null for a port of a LAG.
    pub next_hop: Option<String>,
    /// Whether the member can carry traffic.
    pub usable: bool,
    /// Weight of the member relative to the other members, at least 1.
    pub weight: u16,
    /// Whether the member is an alternate path. Alternate members are used only when the primary members
    /// are worse.
    pub alternate: bool,
    /// Sum of the speeds of all `ports` in Mb/s. The value is 0 for a next hop in a VLAN.
    pub speed_mbps: u64,
    /// Quality class (band) of the link of the member, from 7 (best) to 0. The value is null for static
    /// hashing, which measures no quality.
    pub band: Option<u8>,
    /// Load from which the quality class (`band`) derives, 0 (idle) to 1000. The value is null for
    /// static hashing.
    pub load: Option<u16>,
    /// Number of packets for which the group selected the member. The value is null for static hashing, which
    /// counts no packets.
    pub packets: Option<u64>,
    /// Bytes of the packets in `packets`, with FCS and padding, or null like `packets`.
    pub bytes: Option<u64>,
    /// Number of queue pairs that the scheme has placed at the member and that have sent data. The field is
    /// omitted if the scheme does not place queue pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Bytes that the ports of the member have sent in total, with FCS and padding. The number includes
    /// traffic that no group selected, such as bridged frames.
    pub tx_bytes: u64,
}

/// Use of the flow table of a load balancing group.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct FlowTableReport {
    /// Number of flows in the table.
    pub flows: u32,
    /// Largest number of flows that fit into the table.
    pub flows_max: u32,
    /// Number of packets whose flows did not fit into the flow table. The hash selects the member
    /// for these packets.
    pub overflow_packets: u64,
}

/// The report of one flow move.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct FlowMoveReport {
    /// Model time of the flow move in nanoseconds.
    pub at_ns: u64,
    /// Name of the group ([`GroupReport::name`]). Empty if the group no longer exists.
    pub group: String,
    /// Hash of the flow key, as eight hexadecimal digits.
    pub flow: String,
    /// Name of the [`MoveReason`]: `new`, `idle`, `quality`, `link-down`, `link-up`, `announced`
    /// or `promoted`.
    pub reason: String,
    /// Name of the previous member ([`MemberReport::name`]), or `member` and its index if the group no longer
    /// exists. The value is null for a new flow.
    pub from: Option<String>,
    /// Name of the new member ([`MemberReport::name`]), or `member` and its index if the group no
    /// longer exists.
    pub to: String,
}

impl MemberReport {
    /// Returns the name of the member in messages: the names of its ports with commas between them, or the
    /// address of the next hop if no port is known. The name is empty if neither is known.
    pub fn name(&self) -> String {
        match (self.ports.is_empty(), &self.next_hop) {
            (false, _) => self.ports.join(","),
            (true, Some(next_hop)) => next_hop.clone(),
            (true, None) => String::new(),
        }
    }

    /// Returns the number of sent bytes divided by the speed in Mb/s.
    fn relative_load(&self) -> f64 {
        self.tx_bytes as f64 / self.speed_mbps.max(1) as f64
    }
}

impl LoadBalancingReport {
    /// Converts a snapshot to the JSON form. Returns `None` if the switch has no group and does not count
    /// packets that arrive out of order.
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
            members: Arc::clone(&group.members),
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

    /// Returns the number of packets that used the members of the group. Returns `None` if the scheme does
    /// not count packets.
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
