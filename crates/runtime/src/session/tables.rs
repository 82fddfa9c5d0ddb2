//! What a switch knows and what is configured, put into words: MAC addresses, neighbours, routes, interfaces.

use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::config::{BridgingConfig, InterfaceAttachment, InterfaceConfig, SwitchConfig};
use xoff_dataplane::route::{NeighbourEntry, NeighbourState, RouteTarget};
use xoff_dataplane::{InterfaceId, LogicalPort, Picos, PortId, Switch};

use super::generation::Generation;
use crate::control::{
    Family, Interfaces, LagMember, LagStatus, MacEntry, Neighbour, PortStatus, RouteEntry, RouteHop,
    RouterInterface,
};
use xoff_config::natural_order;

/// What is up.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    pub(super) ports: Vec<bool>,
    pub(super) lags: Vec<bool>,
    pub(super) interfaces: Vec<bool>,
}

impl Links {
    pub(super) fn of(switch: &Switch, lags: usize, interfaces: usize) -> Links {
        Links {
            ports: (0..switch.port_count())
                .map(|port| switch.is_up(PortId(port as u16)))
                .collect(),
            lags: (0..lags).map(|lag| switch.is_lag_up(lag)).collect(),
            interfaces: (0..interfaces)
                .map(|interface| switch.is_interface_up(InterfaceId(interface as u16)))
                .collect(),
        }
    }

    fn interface(&self, id: InterfaceId) -> bool {
        self.interfaces.get(id.index()).copied().unwrap_or(false)
    }
}

fn mac(address: [u8; 6]) -> String {
    let [a, b, c, d, e, f] = address;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// The name of a port or LAG.
fn logical(config: &SwitchConfig, port: LogicalPort) -> String {
    let lag = port.index().checked_sub(config.ports.len());
    let name = match lag {
        None => config.ports.get(port.index()).map(|port| &port.name),
        Some(lag) => config.lags.get(lag).map(|lag| &lag.name),
    };
    name.cloned().unwrap_or_default()
}

pub(super) fn mac_table(
    config: &SwitchConfig,
    entries: Vec<(u16, [u8; 6], LogicalPort, Picos)>,
) -> Vec<MacEntry> {
    let entry = |(vlan, address, port, age): (u16, [u8; 6], LogicalPort, Picos)| MacEntry {
        vlan,
        mac: mac(address),
        port: logical(config, port),
        kind: "dynamic".to_owned(),
        age_ns: age.as_nanos(),
    };
    entries.into_iter().map(entry).collect()
}

pub(super) fn neighbours(config: &SwitchConfig, entries: Vec<NeighbourEntry>) -> Vec<Neighbour> {
    let neighbour = |entry: NeighbourEntry| {
        let interface = config.routing.interfaces.get(entry.interface.index())?;
        let state = match entry.state {
            NeighbourState::Unknown => "unknown",
            NeighbourState::Incomplete => "incomplete",
            NeighbourState::Reachable => "reachable",
            NeighbourState::Probe => "probe",
            NeighbourState::Static => "static",
        };
        Some(Neighbour {
            address: entry.address,
            mac: entry.mac.map(mac),
            interface: interface.name.clone(),
            vlan: match interface.attachment {
                InterfaceAttachment::Vlan(id) => Some(id),
                _ => None,
            },
            port: entry.port.map(|port| logical(config, port)),
            state: state.to_owned(),
            age_ns: entry.age.as_nanos(),
            held_frames: entry.held,
        })
    };
    entries.into_iter().filter_map(neighbour).collect()
}

/// The routes packets follow, and the static ones behind them, by prefix and distance.
pub(super) fn routes(current: &Generation, links: &Links, family: Family) -> Vec<RouteEntry> {
    let routing = &current.config.routing;
    let is_static = |prefix: IpNet, target: &RouteTarget| {
        let of_prefix = static_routes(current, prefix).first()?;
        (of_prefix.target == *target).then_some(of_prefix.distance)
    };
    let mut entries = Vec::new();
    for (route, _) in routing
        .fib
        .routes()
        .filter(|(route, _)| family.has(route.prefix.addr()))
    {
        // What is on the link is preferred to a static route, and never the same to the same prefix.
        let derived = follows_from_interface(&routing.interfaces, route.prefix);
        let (protocol, distance) = match (&route.target, is_static(route.prefix, &route.target)) {
            (RouteTarget::Local, _) => ("local", 0),
            (_, Some(distance)) if !derived => ("static", distance),
            _ => ("connected", 0),
        };
        entries.push(entry(
            current,
            links,
            route.prefix,
            &route.target,
            (protocol, distance),
            true,
        ));
    }
    for route in current
        .static_routes
        .iter()
        .filter(|route| family.has(route.prefix.addr()))
    {
        let used = |entry: &RouteEntry| {
            entry.protocol == "static"
                && entry.distance == route.distance
                && entry.prefix == route.prefix.to_string()
        };
        let first = static_routes(current, route.prefix).first() == Some(route);
        if !first || follows_from_interface(&routing.interfaces, route.prefix) {
            debug_assert!(!entries.iter().any(used));
            let from = ("static", route.distance);
            entries.push(entry(current, links, route.prefix, &route.target, from, false));
        }
    }
    entries.sort_by_cached_key(|entry| {
        (
            entry.prefix.parse::<IpNet>().ok(),
            !entry.selected,
            entry.distance,
        )
    });
    entries
}

/// The static routes to a prefix, nearest first.
fn static_routes(current: &Generation, prefix: IpNet) -> &[xoff_config::StaticRoute] {
    let all = &current.static_routes;
    let from = all.partition_point(|route| route.prefix < prefix);
    let to = from + all[from..].partition_point(|route| route.prefix == prefix);
    &all[from..to]
}

/// Whether the addresses of interfaces offer a route to this prefix.
fn follows_from_interface(interfaces: &[InterfaceConfig], prefix: IpNet) -> bool {
    let single = prefix.prefix_len() == prefix.max_prefix_len();
    let mut networks = interfaces.iter().flat_map(|interface| &interface.addresses);
    networks.any(|network| {
        let edge = single && (prefix.addr() == network.network() || prefix.addr() == network.broadcast());
        network.trunc() == prefix || edge || (single && network.addr() == prefix.addr())
    })
}

fn entry(
    current: &Generation,
    links: &Links,
    prefix: IpNet,
    target: &RouteTarget,
    (protocol, distance): (&str, u8),
    selected: bool,
) -> RouteEntry {
    let interfaces = &current.config.routing.interfaces;
    let hop = |id: InterfaceId, address: Option<IpAddr>, weight: u16| RouteHop {
        address,
        interface: interfaces
            .get(id.index())
            .map_or_else(String::new, |interface| interface.name.clone()),
        weight,
        active: links.interface(id),
    };
    let own = || {
        let owns =
            |interface: &InterfaceConfig| interface.addresses.iter().any(|net| net.addr() == prefix.addr());
        interfaces
            .iter()
            .position(owns)
            .map(|index| InterfaceId(index as u16))
    };
    RouteEntry {
        prefix: prefix.to_string(),
        protocol: protocol.to_owned(),
        distance,
        selected,
        blackhole: *target == RouteTarget::Blackhole,
        next_hops: match target {
            RouteTarget::Local => own().map(|id| hop(id, None, 1)).into_iter().collect(),
            RouteTarget::Connected(id) => vec![hop(*id, None, 1)],
            RouteTarget::Via(paths) => paths
                .iter()
                .map(|path| hop(path.next_hop.interface, Some(path.next_hop.address), path.weight))
                .collect(),
            RouteTarget::Blackhole => Vec::new(),
        },
        age_s: current
            .installed_at(prefix)
            .map_or(0, |since| since.elapsed().as_secs()),
    }
}

pub(super) fn interfaces(current: &Generation, links: &Links) -> Interfaces {
    let config = &current.config;
    let bridged = |index: usize| match &config.bridging {
        BridgingConfig::Transparent => false,
        BridgingConfig::Vlans(vlans) => vlans.iter().any(|vlan| {
            vlan.members
                .iter()
                .any(|member| usize::from(member.port) == index)
        }),
    };
    let vlan = |index: usize| if bridged(index) { "trunk" } else { "routed" }.to_owned();
    let up = |of: &[bool], index: usize| of.get(index).copied().unwrap_or(false);
    let port = |(index, port): (usize, &xoff_dataplane::config::PortConfig)| {
        let lag = config
            .lags
            .iter()
            .find(|lag| lag.members.contains(&(index as u16)));
        PortStatus {
            name: port.name.clone(),
            lanes: current.db.get("PORT", &port.name, "lanes"),
            alias: current.db.get("PORT", &port.name, "alias"),
            speed_mbps: port.link.speed_mbps,
            mtu: port.mtu,
            vlan: lag.map_or_else(|| vlan(index), |lag| lag.name.clone()),
            admin_up: port.admin_up,
            oper_up: up(&links.ports, index),
            pfc_asym: port.pfc.asymmetric,
        }
    };
    let lag = |(index, lag): (usize, &xoff_dataplane::config::LagConfig)| {
        let members = || {
            lag.members
                .iter()
                .map(|member| &config.ports[usize::from(*member)])
        };
        let member = |member: &u16| LagMember {
            name: config.ports[usize::from(*member)].name.clone(),
            up: up(&links.ports, usize::from(*member)),
        };
        LagStatus {
            name: lag.name.clone(),
            speed_mbps: members().map(|port| port.link.speed_mbps).sum(),
            mtu: members().map(|port| port.mtu).min(),
            vlan: vlan(config.ports.len() + index),
            admin_up: lag.admin_up,
            oper_up: up(&links.lags, index),
            members: lag.members.iter().map(member).collect(),
        }
    };
    let router = |(index, interface): (usize, &InterfaceConfig)| RouterInterface {
        name: interface.name.clone(),
        mac: mac(interface.mac),
        mtu: interface.mtu,
        addresses: interface.addresses.iter().map(ToString::to_string).collect(),
        admin_up: match interface.attachment {
            InterfaceAttachment::Port(port) => config.ports[usize::from(port)].admin_up,
            InterfaceAttachment::Lag(lag) => config.lags[usize::from(lag)].admin_up,
            InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback => true,
        },
        oper_up: up(&links.interfaces, index),
    };
    let mut router_interfaces: Vec<RouterInterface> =
        config.routing.interfaces.iter().enumerate().map(router).collect();
    router_interfaces.sort_by(|a, b| natural_order(&a.name, &b.name));
    Interfaces {
        ports: config.ports.iter().enumerate().map(port).collect(),
        lags: config.lags.iter().enumerate().map(lag).collect(),
        router_interfaces,
    }
}

#[cfg(test)]
mod tests;
