//! Load balancing as part of a switch's state: groups with a scheme as they count, hashed ones as the routes have them.

use std::sync::Arc;

use xoff_dataplane::balance::{GroupKey, GroupView, MoveReason};
use xoff_dataplane::config::{InterfaceAttachment, SwitchConfig};
use xoff_dataplane::route::NextHop;
use xoff_dataplane::{GroupId, Picos, PortId, Switch};

use xoff_telemetry::{BalancingSnapshot, FlowMoveSnapshot, GroupSnapshot, MemberReport};

/// The scheme of groups for which nothing names another.
const PLAIN: &str = "ecmp";

pub(super) fn balancing(switch: &Switch, config: &SwitchConfig, now: Picos) -> BalancingSnapshot {
    let reader = Reader { switch, config };
    let views = switch.balanced_groups(now);
    let mut groups = Vec::new();
    let mut whose = Vec::new();
    for index in 0..switch.fib().groups().len() as u32 {
        let id = GroupId(index);
        let view = views.iter().find(|view| view.group == GroupKey::NextHops(id));
        whose.push(GroupKey::NextHops(id));
        groups.push(match view {
            Some(view) => reader.at_work(view),
            None => reader.hashed(id),
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
        whose.push(id);
        groups.push(match view {
            Some(view) => reader.at_work(view),
            None => reader.hashed_lag(index, &lag.members),
        });
    }
    let moves = switch.flow_moves().map(|moved| FlowMoveSnapshot {
        at: moved.at,
        group: whose.iter().position(|whose| *whose == moved.group),
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

struct Reader<'a> {
    switch: &'a Switch,
    config: &'a SwitchConfig,
}

impl Reader<'_> {
    /// A group that counts.
    fn at_work(&self, view: &GroupView<'_>) -> GroupSnapshot {
        let scheme = self.config.balancing.schemes.get(usize::from(view.scheme));
        let (next_hops, lag, addresses) = match view.group {
            GroupKey::NextHops(id) => (Some(id), None, self.hops(id)),
            GroupKey::Lag(lag) => (None, self.lag_name(usize::from(lag)), Vec::new()),
        };
        let members = view.members.iter().enumerate().map(|(index, of)| {
            let hop = addresses.get(index).map(|(hop, _)| *hop);
            MemberReport {
                usable: of.usable,
                alternate: of.member.alternate,
                band: Some(of.quality.band),
                load: Some(of.quality.load),
                packets: Some(of.packets),
                bytes: Some(of.bytes),
                flows: of.flows,
                ..self.member(&of.member.ports, hop, of.member.weight)
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

    /// A group of next hops that the router hashes by itself.
    fn hashed(&self, id: GroupId) -> GroupSnapshot {
        let tag = self.switch.fib().groups()[id.index()].tag;
        let members = self.hops(id).into_iter().map(|(hop, weight)| MemberReport {
            usable: self.switch.is_interface_up(hop.interface),
            ..self.member(&self.ports_of(hop), Some(hop), weight)
        });
        let named = tag.scheme.or(self.config.balancing.default_scheme);
        GroupSnapshot {
            next_hops: Some(id),
            site: tag.site,
            ..self.plain(members.collect(), named)
        }
    }

    fn hashed_lag(&self, index: usize, ports: &[u16]) -> GroupSnapshot {
        let members = ports.iter().map(|port| MemberReport {
            usable: self.switch.is_up(PortId(*port)),
            ..self.member(&[PortId(*port)], None, 1)
        });
        let own = self.config.balancing.lags.get(index).copied().flatten();
        GroupSnapshot {
            lag: self.lag_name(index),
            ..self.plain(members.collect(), own.or(self.config.balancing.default_scheme))
        }
    }

    fn plain(&self, members: Vec<MemberReport>, scheme: Option<u16>) -> GroupSnapshot {
        let scheme = scheme.and_then(|index| self.config.balancing.schemes.get(usize::from(index)));
        GroupSnapshot {
            next_hops: None,
            lag: None,
            scheme: scheme.map_or(PLAIN, |scheme| &scheme.name).to_owned(),
            site: 0,
            members,
            moves: [0; MoveReason::ALL.len()],
            table: None,
        }
    }

    fn lag_name(&self, lag: usize) -> Option<String> {
        self.config.lags.get(lag).map(|lag| lag.name.clone())
    }

    /// The next hops of a group with their weights, in its order.
    fn hops(&self, id: GroupId) -> Vec<(NextHop, u16)> {
        let fib = self.switch.fib();
        let members = fib
            .groups()
            .get(id.index())
            .map_or(&[][..], |group| &group.members);
        let hop = |&(hop, weight): &(xoff_dataplane::NextHopId, u16)| (fib.next_hops()[hop.index()], weight);
        members.iter().map(hop).collect()
    }

    fn ports_of(&self, hop: NextHop) -> Vec<PortId> {
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

    /// What is known of every member.
    fn member(&self, ports: &[PortId], hop: Option<NextHop>, weight: u16) -> MemberReport {
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
