//! Copies the load balancing state of a switch for snapshots. The copy contains groups with a stateful scheme
//! and groups with static hashing.

use std::collections::BTreeMap;
use std::sync::Arc;

use xoff_dataplane::balance::{GroupKey, GroupView, MoveReason};
use xoff_dataplane::config::{InterfaceAttachment, SwitchConfig};
use xoff_dataplane::route::NextHop;
use xoff_dataplane::{GroupId, NextHopId, Picos, PortId, Switch};

use xoff_telemetry::{BalancingSnapshot, FlowMoveSnapshot, GroupSnapshot, MemberReport};

/// Name of the scheme of groups without a configured scheme: a static hash.
const DEFAULT_SCHEME: &str = "ecmp";

/// Copies the state of all load balancing groups at `now`. A LAG with a single member is not a group.
pub(super) fn balancing_snapshot(switch: &Switch, config: &SwitchConfig, now: Picos) -> BalancingSnapshot {
    let reader = GroupSnapshotReader { switch, config };
    // Groups of next hops come first, in the order of their numbers.
    let views = switch.balanced_groups(now);
    let mut next_views = views.iter().peekable();
    let mut groups = Vec::new();
    let mut group_keys = Vec::new();
    let mut shared = SharedMembers::new();
    for index in 0..switch.fib().groups().len() as u32 {
        let id = GroupId(index);
        let view = next_views.next_if(|view| view.group == GroupKey::NextHops(id));
        group_keys.push(GroupKey::NextHops(id));
        groups.push(match view {
            Some(view) => reader.stateful_group_snapshot(view),
            None => reader.hashed_next_hop_group_snapshot(id, &mut shared),
        });
    }
    for (index, lag) in config
        .lags
        .iter()
        .enumerate()
        .filter(|(_, lag)| lag.members.len() > 1)
    {
        let id = GroupKey::Lag(index as u16);
        let view = views.iter().find(|view| view.group == id);
        group_keys.push(id);
        groups.push(match view {
            Some(view) => reader.stateful_group_snapshot(view),
            None => reader.hashed_lag_snapshot(index, &lag.members),
        });
    }
    let moves = switch.flow_moves().map(|moved| FlowMoveSnapshot {
        at: moved.at,
        group: group_keys.iter().position(|key| *key == moved.group),
        flow: moved.flow,
        from: moved.from,
        to: moved.to,
        reason: moved.reason,
    });
    BalancingSnapshot {
        moves: moves.collect(),
        fib: Arc::clone(switch.fib()),
        groups,
        reordering: switch.reordering(),
    }
}

/// The members of groups with static hashing, by the address of the list in the forwarding table.
type SharedMembers = BTreeMap<*const (NextHopId, u16), Arc<[MemberReport]>>;

struct GroupSnapshotReader<'a> {
    switch: &'a Switch,
    config: &'a SwitchConfig,
}

impl GroupSnapshotReader<'_> {
    /// Copies a group with a stateful scheme, with its counters.
    fn stateful_group_snapshot(&self, view: &GroupView<'_>) -> GroupSnapshot {
        let scheme = self.config.balancing.schemes.get(usize::from(view.scheme));
        let (next_hops, lag, addresses) = match view.group {
            GroupKey::NextHops(id) => (Some(id), None, self.next_hops(id)),
            GroupKey::Lag(lag) => (None, self.lag_name(usize::from(lag)), Vec::new()),
        };
        let members = view.members.iter().enumerate().map(|(index, state)| {
            let hop = addresses.get(index).map(|(hop, _)| *hop);
            MemberReport {
                usable: state.usable,
                alternate: state.member.alternate,
                band: Some(state.quality.band),
                load: Some(state.quality.load),
                packets: Some(state.packets),
                bytes: Some(state.bytes),
                flows: state.flows,
                ..self.member_report(&state.member.ports, hop, state.member.weight)
            }
        });
        GroupSnapshot {
            next_hops,
            lag,
            scheme: scheme.map_or_else(String::new, |scheme| scheme.name.clone()),
            site: view.site,
            members: members.collect(),
            moves: view.moves,
            table: view.table,
        }
    }

    /// Copies a group of next hops with static hashing. Such a group has no counters.
    fn hashed_next_hop_group_snapshot(&self, id: GroupId, shared: &mut SharedMembers) -> GroupSnapshot {
        let group = &self.switch.fib().groups()[id.index()];
        let tag = group.tag;
        let read_members = || {
            let members = self.next_hops(id).into_iter().map(|(hop, weight)| MemberReport {
                usable: self.switch.is_interface_up(hop.interface),
                ..self.member_report(&self.ports_of_next_hop(hop), Some(hop), weight)
            });
            members.collect()
        };
        let members = shared.entry(group.members.as_ptr()).or_insert_with(read_members);
        let scheme = tag.scheme.or(self.config.balancing.default_scheme);
        GroupSnapshot {
            next_hops: Some(id),
            site: tag.site,
            ..self.group_without_counters(Arc::clone(members), scheme)
        }
    }

    /// Copies a LAG with static hashing. Such a group has no counters.
    fn hashed_lag_snapshot(&self, index: usize, ports: &[u16]) -> GroupSnapshot {
        let members = ports.iter().map(|port| MemberReport {
            usable: self.switch.is_up(PortId(*port)),
            ..self.member_report(&[PortId(*port)], None, 1)
        });
        let lag_scheme = self.config.balancing.lags.get(index).copied().flatten();
        GroupSnapshot {
            lag: self.lag_name(index),
            ..self.group_without_counters(
                members.collect(),
                lag_scheme.or(self.config.balancing.default_scheme),
            )
        }
    }

    fn group_without_counters(&self, members: Arc<[MemberReport]>, scheme: Option<u16>) -> GroupSnapshot {
        let scheme = scheme.and_then(|index| self.config.balancing.schemes.get(usize::from(index)));
        GroupSnapshot {
            next_hops: None,
            lag: None,
            scheme: scheme.map_or(DEFAULT_SCHEME, |scheme| &scheme.name).to_owned(),
            site: 0,
            members,
            moves: [0; MoveReason::ALL.len()],
            table: None,
        }
    }

    fn lag_name(&self, lag: usize) -> Option<String> {
        self.config.lags.get(lag).map(|lag| lag.name.clone())
    }

    /// Returns the next hops of a group with their weights, in the order of the group.
    fn next_hops(&self, id: GroupId) -> Vec<(NextHop, u16)> {
        let fib = self.switch.fib();
        let members = fib
            .groups()
            .get(id.index())
            .map_or(&[][..], |group| &group.members[..]);
        let hop = |&(hop, weight): &(xoff_dataplane::NextHopId, u16)| (fib.next_hops()[hop.index()], weight);
        members.iter().map(hop).collect()
    }

    fn ports_of_next_hop(&self, hop: NextHop) -> Vec<PortId> {
        let interface = self.config.routing.interfaces.get(hop.interface.index());
        match interface.map(|interface| interface.attachment) {
            Some(InterfaceAttachment::Port(port)) => vec![PortId(port)],
            Some(InterfaceAttachment::Lag(lag)) => {
                let lag = self.config.lags.get(usize::from(lag));
                let members = lag.map_or(&[][..], |lag| &lag.members);
                members.iter().map(|port| PortId(*port)).collect()
            }
            Some(InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback) | None => Vec::new(),
        }
    }

    /// Returns the report of a group member, with values for the fields that do not depend on the
    /// load-balancing scheme. The fields that depend on the scheme have default values.
    fn member_report(&self, ports: &[PortId], hop: Option<NextHop>, weight: u16) -> MemberReport {
        let configured = ports
            .iter()
            .filter_map(|port| self.config.ports.get(port.index()));
        MemberReport {
            ports: configured.clone().map(|port| port.name.clone()).collect(),
            next_hop: hop.map(|hop| hop.address.to_string()),
            weight,
            speed_mbps: configured.map(|port| u64::from(port.link.speed_mbps)).sum(),
            tx_bytes: ports
                .iter()
                .map(|port| self.switch.port_load(*port).tx_bytes)
                .sum(),
            ..MemberReport::default()
        }
    }
}
