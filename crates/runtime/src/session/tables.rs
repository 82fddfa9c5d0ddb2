//! Builds the tables that a switch reports: MAC addresses, neighbours, routes and interfaces.

use std::net::IpAddr;

use ipnet::IpNet;
use xoff_dataplane::config::{BridgingConfig, InterfaceAttachment, InterfaceConfig, SwitchConfig};
use xoff_dataplane::route::{NeighbourEntry, NeighbourState, RouteTarget};
use xoff_dataplane::{InterfaceId, LogicalPort, Picos, PortId, Switch};

use super::generation::ConfigGeneration;
use xoff_config::compare_naturally;
use xoff_control::{
    AddressFamily, Interfaces, LagMember, LagStatus, MacEntry, Neighbour, PortStatus, RouteEntry, RouteHop,
    RouterInterface,
};
use xoff_wire::DisplayMac;

/// The operational states of ports, LAGs and router interfaces, by their indices in the configuration. True
/// means up.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkStates {
    pub(super) ports: Vec<bool>,
    pub(super) lags: Vec<bool>,
    pub(super) interfaces: Vec<bool>,
}

impl LinkStates {
    /// Reads the states of all ports, of `lag_count` LAGs and of `interface_count` router interfaces.
    pub(super) fn of_switch(switch: &Switch, lag_count: usize, interface_count: usize) -> LinkStates {
        LinkStates {
            ports: (0..switch.port_count())
                .map(|port| switch.is_up(PortId(port as u16)))
                .collect(),
            lags: (0..lag_count).map(|lag| switch.is_lag_up(lag)).collect(),
            interfaces: (0..interface_count)
                .map(|interface| switch.is_interface_up(InterfaceId(interface as u16)))
                .collect(),
        }
    }

    fn is_interface_up(&self, id: InterfaceId) -> bool {
        self.interfaces.get(id.index()).copied().unwrap_or(false)
    }
}

/// Returns the name of a port or LAG. The result is empty if the configuration does not have this port
/// or LAG.
fn logical_port_name(config: &SwitchConfig, port: LogicalPort) -> String {
    let lag = port.index().checked_sub(config.ports.len());
    let name = match lag {
        None => config.ports.get(port.index()).map(|port| &port.name),
        Some(lag) => config.lags.get(lag).map(|lag| &lag.name),
    };
    name.cloned().unwrap_or_default()
}

/// Converts entries of the MAC table to the form of a response, with the names of ports and LAGs.
pub(super) fn list_mac_entries(
    config: &SwitchConfig,
    entries: Vec<(u16, [u8; 6], LogicalPort, Picos)>,
) -> Vec<MacEntry> {
    let named_entry = |(vlan, address, port, age): (u16, [u8; 6], LogicalPort, Picos)| MacEntry {
        vlan,
        mac: DisplayMac(address).to_string(),
        port: logical_port_name(config, port),
        kind: "dynamic".to_owned(),
        age_ns: age.as_nanos(),
    };
    entries.into_iter().map(named_entry).collect()
}

/// Converts neighbours to the form of a response, with the names of interfaces, ports and LAGs.
pub(super) fn list_neighbours(config: &SwitchConfig, entries: Vec<NeighbourEntry>) -> Vec<Neighbour> {
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
            mac: entry.mac.map(|mac| DisplayMac(mac).to_string()),
            interface: interface.name.clone(),
            vlan: match interface.attachment {
                InterfaceAttachment::Vlan(id) => Some(id),
                _ => None,
            },
            port: entry.port.map(|port| logical_port_name(config, port)),
            state: state.to_owned(),
            age_ns: entry.age.as_nanos(),
            held_frames: entry.held,
        })
    };
    entries.into_iter().filter_map(neighbour).collect()
}

/// Returns the routes of an address family. The routes are sorted by prefix. Among routes with the same
/// prefix, the route in use comes first. The result includes static routes that are not in use.
pub(super) fn list_routes(
    current: &ConfigGeneration,
    links: &LinkStates,
    family: AddressFamily,
) -> Vec<RouteEntry> {
    let routing = &current.config.routing;
    let static_distance = |prefix: IpNet, target: &RouteTarget| {
        let of_prefix = static_routes(current, prefix).first()?;
        (of_prefix.target == *target).then_some(of_prefix.distance)
    };
    let mut entries = Vec::new();
    for (route, _) in routing
        .fib
        .routes()
        .filter(|(route, _)| family.contains(route.prefix.addr()))
    {
        // A connected route is preferred to a static route to the same prefix, and their targets differ.
        let is_connected = is_route_of_interface(&routing.interfaces, route.prefix);
        let (protocol, distance) = match (&route.target, static_distance(route.prefix, &route.target)) {
            (RouteTarget::Local, _) => ("local", 0),
            (_, Some(distance)) if !is_connected => ("static", distance),
            _ => ("connected", 0),
        };
        entries.push(route_entry(
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
        .filter(|route| family.contains(route.prefix.addr()))
    {
        let is_used = |entry: &RouteEntry| {
            entry.protocol == "static"
                && entry.distance == route.distance
                && entry.prefix == route.prefix.to_string()
        };
        let first = static_routes(current, route.prefix).first() == Some(route);
        if !first || is_route_of_interface(&routing.interfaces, route.prefix) {
            debug_assert!(!entries.iter().any(is_used));
            let source = ("static", route.distance);
            entries.push(route_entry(
                current,
                links,
                route.prefix,
                &route.target,
                source,
                false,
            ));
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

/// Returns the static routes to a prefix, lowest distance first.
fn static_routes(current: &ConfigGeneration, prefix: IpNet) -> &[xoff_config::StaticRoute] {
    let all = &current.static_routes;
    let from = all.partition_point(|route| route.prefix < prefix);
    let to = from + all[from..].partition_point(|route| route.prefix == prefix);
    &all[from..to]
}

/// Returns whether the address of an interface implies a connected or local route to this prefix.
fn is_route_of_interface(interfaces: &[InterfaceConfig], prefix: IpNet) -> bool {
    let single = prefix.prefix_len() == prefix.max_prefix_len();
    let mut networks = interfaces.iter().flat_map(|interface| &interface.addresses);
    networks.any(|network| {
        let edge = single && (prefix.addr() == network.network() || prefix.addr() == network.broadcast());
        network.trunc() == prefix || edge || (single && network.addr() == prefix.addr())
    })
}

/// Returns a route in the form of a response, with its next hops and its age.
fn route_entry(
    current: &ConfigGeneration,
    links: &LinkStates,
    prefix: IpNet,
    target: &RouteTarget,
    (protocol, distance): (&str, u8),
    is_selected: bool,
) -> RouteEntry {
    let interfaces = &current.config.routing.interfaces;
    let hop = |id: InterfaceId, address: Option<IpAddr>, weight: u16| RouteHop {
        address,
        interface: interfaces
            .get(id.index())
            .map_or_else(String::new, |interface| interface.name.clone()),
        weight,
        active: links.is_interface_up(id),
    };
    let local_interface = || {
        let has_address =
            |interface: &InterfaceConfig| interface.addresses.iter().any(|net| net.addr() == prefix.addr());
        interfaces
            .iter()
            .position(has_address)
            .map(|index| InterfaceId(index as u16))
    };
    RouteEntry {
        prefix: prefix.to_string(),
        protocol: protocol.to_owned(),
        distance,
        selected: is_selected,
        blackhole: *target == RouteTarget::Blackhole,
        next_hops: match target {
            RouteTarget::Local => local_interface().map(|id| hop(id, None, 1)).into_iter().collect(),
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

/// Returns the ports, LAGs and router interfaces in the form of a response.
pub(super) fn list_interfaces(current: &ConfigGeneration, links: &LinkStates) -> Interfaces {
    let config = &current.config;
    let vlan_mode = |index: usize| {
        let mode = match &config.bridging {
            // Without VLANs and router interfaces, all ports form one bridge.
            BridgingConfig::Transparent => "bridged",
            BridgingConfig::Vlans(vlans) => {
                let mut members = vlans.iter().flat_map(|vlan| &vlan.members);
                match members.any(|member| usize::from(member.port) == index) {
                    true => "trunk",
                    false => "routed",
                }
            }
        };
        mode.to_owned()
    };
    let is_up = |states: &[bool], index: usize| states.get(index).copied().unwrap_or(false);
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
            vlan: lag.map_or_else(|| vlan_mode(index), |lag| lag.name.clone()),
            admin_up: port.admin_up,
            oper_up: is_up(&links.ports, index),
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
            up: is_up(&links.ports, usize::from(*member)),
        };
        LagStatus {
            name: lag.name.clone(),
            speed_mbps: members().map(|port| port.link.speed_mbps).sum(),
            mtu: members().map(|port| port.mtu).min(),
            vlan: vlan_mode(config.ports.len() + index),
            admin_up: lag.admin_up,
            oper_up: is_up(&links.lags, index),
            members: lag.members.iter().map(member).collect(),
        }
    };
    let router = |(index, interface): (usize, &InterfaceConfig)| RouterInterface {
        name: interface.name.clone(),
        mac: DisplayMac(interface.mac).to_string(),
        mtu: interface.mtu,
        addresses: interface.addresses.iter().map(ToString::to_string).collect(),
        admin_up: match interface.attachment {
            InterfaceAttachment::Port(port) => config.ports[usize::from(port)].admin_up,
            InterfaceAttachment::Lag(lag) => config.lags[usize::from(lag)].admin_up,
            InterfaceAttachment::Vlan(_) | InterfaceAttachment::Loopback => true,
        },
        oper_up: is_up(&links.interfaces, index),
    };
    let mut router_interfaces: Vec<RouterInterface> =
        config.routing.interfaces.iter().enumerate().map(router).collect();
    router_interfaces.sort_by(|a, b| compare_naturally(&a.name, &b.name));
    Interfaces {
        ports: config.ports.iter().enumerate().map(port).collect(),
        lags: config.lags.iter().enumerate().map(lag).collect(),
        router_interfaces,
    }
}

#[cfg(test)]
mod tests;
