//! Writes addresses, neighbours and routes as SONiC tables: `INTERFACE`, `NEIGH` and `STATIC_ROUTE`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Map, Value, json};

use super::{HostNetworks, RouteOverridePlan, RouterNode, SwitchGraph};
use crate::plan::{ConfigLayer, HostPlan, SwitchPlan};
use crate::units;
use xoff_wire::DisplayMac;

/// Largest MTU of a port in the `PORT` table, in bytes.
const MTU_MAX: u32 = 9216;

/// Source name of the layer with the computed routes, in messages.
pub(crate) const COMPUTED_ROUTES: &str = "routes: auto";

/// The routes of one switch: the next hops of each prefix, sorted by prefix.
type RouteTable = BTreeMap<Ipv4Net, Vec<Ipv4Addr>>;

/// Adds a configuration layer with addresses, neighbours and routes to each switch. Sets the gateway MAC
/// address of each host.
pub(super) fn add_layers(
    graph: &SwitchGraph,
    switches: &mut [SwitchPlan],
    hosts: &mut [HostPlan],
    networks: &[HostNetworks],
    overrides: &[RouteOverridePlan],
) {
    let configured: Vec<ConfiguredMacs> = switches.iter().map(ConfiguredMacs::of_switch).collect();
    let macs: Vec<[u8; 6]> = configured
        .iter()
        .enumerate()
        .map(|(index, configured)| configured.base_mac(index))
        .collect();
    let routes = compute_routes(graph, networks, overrides);
    let sites = site_table(networks);
    for (index, router) in graph.routers.iter().enumerate() {
        for host_port in &router.host_ports {
            hosts[host_port.host].gateway_mac =
                Some(configured[index].interface_mac(&host_port.port, macs[index]));
        }
        let neighbours = neighbour_table(router, hosts, |switch, peer| {
            let link = graph.routers[switch]
                .switch_links
                .iter()
                .find(|link| link.own_address == peer);
            link.map_or(macs[switch], |link| {
                configured[switch].interface_mac(&link.port, macs[switch])
            })
        });
        let mut layer = json!({
            "DEVICE_METADATA": { "localhost": { "mac": DisplayMac(macs[index]).to_string() } },
            "PORT": port_table(router),
            "INTERFACE": interface_table(router, &networks[index]),
            "NEIGH": neighbours,
            "STATIC_ROUTE": static_route_table(&routes[index]),
        });
        // Load-balancing schemes that use link quality messages need these tables. Other schemes ignore them.
        if let (false, Some(tables)) = (router.switch_links.is_empty(), layer.as_object_mut()) {
            let ports = json!({ "global": { "advertise_ports": switch_facing_ports(router) } });
            tables.insert("XOFF_LB".to_owned(), ports);
            tables.insert("XOFF_LB_SITE".to_owned(), Value::Object(sites.clone()));
        }
        let layer = ConfigLayer::Text {
            source: COMPUTED_ROUTES.to_owned(),
            text: layer.to_string(),
        };
        switches[index].config.insert(0, layer);
    }
}

/// Computes the routes of all switches.
///
/// For each switch with hosts, a breadth-first search finds the next hops of all other switches towards
/// this switch.
fn compute_routes(
    graph: &SwitchGraph,
    networks: &[HostNetworks],
    overrides: &[RouteOverridePlan],
) -> Vec<RouteTable> {
    let mut routes = vec![RouteTable::new(); graph.routers.len()];
    for (destination, networks) in networks.iter().enumerate() {
        if networks.advertised.is_empty() {
            continue;
        }
        let hops = graph.hops_to(destination);
        for (switch, routes) in routes.iter_mut().enumerate() {
            let next_hops = graph.next_hops_towards(switch, &hops);
            if !next_hops.is_empty() {
                let to_all = networks
                    .advertised
                    .iter()
                    .map(|network| (*network, next_hops.clone()));
                routes.extend(to_all);
            }
        }
    }
    for route in overrides {
        routes[route.switch].insert(route.prefix, route.next_hops.clone());
    }
    routes
}

/// Returns the `STATIC_ROUTE` table of one switch.
fn static_route_table(routes: &RouteTable) -> Map<String, Value> {
    let entry = |(prefix, next_hops): (&Ipv4Net, &Vec<Ipv4Addr>)| {
        let list: Vec<String> = next_hops.iter().map(Ipv4Addr::to_string).collect();
        let fields = match list.is_empty() {
            true => json!({ "blackhole": "true" }),
            false => json!({ "nexthop": list.join(",") }),
        };
        (prefix.to_string(), fields)
    };
    routes.iter().map(entry).collect()
}

/// Returns the `XOFF_LB_SITE` table, which assigns a site to each network. The site of a network is the index
/// of its switch plus 1.
fn site_table(networks: &[HostNetworks]) -> Map<String, Value> {
    let mut table = Map::new();
    for (switch, networks) in networks.iter().enumerate() {
        for network in &networks.advertised {
            let site = (switch + 1).to_string();
            table.insert(network.to_string(), json!({ "site": site }));
        }
    }
    table
}

/// Returns the ports with links to other switches, separated by commas.
fn switch_facing_ports(router: &RouterNode) -> String {
    let ports: Vec<&str> = router
        .switch_links
        .iter()
        .map(|link| link.port.as_str())
        .collect();
    ports.join(",")
}

/// Returns the `PORT` table of one switch, with the MTU of each port.
fn port_table(router: &RouterNode) -> Map<String, Value> {
    let mtu = |(port, mtu): &(String, u32)| (port.clone(), json!({ "mtu": (*mtu).min(MTU_MAX).to_string() }));
    router.mtus.iter().map(mtu).collect()
}

/// Returns the `INTERFACE` table of one switch.
fn interface_table(router: &RouterNode, networks: &HostNetworks) -> Map<String, Value> {
    let mut table = Map::new();
    let mut add = |port: &str, address: Ipv4Addr, prefix: u8| {
        table.insert(port.to_owned(), json!({}));
        table.insert(format!("{port}|{address}/{prefix}"), json!({}));
    };
    for (host_port, (gateway, prefix)) in router.host_ports.iter().zip(&networks.gateways) {
        add(&host_port.port, *gateway, *prefix);
    }
    for link in &router.switch_links {
        add(&link.port, link.own_address, 31);
    }
    table
}

/// Returns the `NEIGH` table of one switch. `mac_of` returns the MAC address of a neighbouring switch: its
/// arguments are the index of this switch and its address on the link.
fn neighbour_table(
    router: &RouterNode,
    hosts: &[HostPlan],
    mac_of: impl Fn(usize, Ipv4Addr) -> [u8; 6],
) -> Map<String, Value> {
    let mut table = Map::new();
    let mut add = |port: &str, address: Ipv4Addr, mac: [u8; 6]| {
        table.insert(
            format!("{port}|{address}"),
            json!({ "neigh": DisplayMac(mac).to_string(), "family": "IPv4" }),
        );
    };
    for host_port in &router.host_ports {
        let host = &hosts[host_port.host];
        add(&host_port.port, host.ipv4, host.mac);
    }
    for link in &router.switch_links {
        add(
            &link.port,
            link.peer_address,
            mac_of(link.peer_switch, link.peer_address),
        );
    }
    table
}

/// The configuration layers of a switch in which MAC addresses are looked up.
///
/// These layers override the layer with the computed routes. If they contain a MAC address, the switch uses
/// this address.
struct ConfiguredMacs {
    layers: Vec<Value>,
}

impl ConfiguredMacs {
    fn of_switch(switch: &SwitchPlan) -> ConfiguredMacs {
        let parsed = |layer: &ConfigLayer| match layer {
            // Invalid JSON is reported later, when the configuration is loaded.
            ConfigLayer::Text { text, .. } => serde_json::from_str(text).ok(),
            ConfigLayer::Preset { .. } => None,
        };
        ConfiguredMacs {
            layers: switch.config.iter().filter_map(parsed).collect(),
        }
    }

    /// Returns the MAC address in a field. If several layers contain the field, the highest layer applies.
    /// Returns `None` if no layer contains a valid address.
    fn find_mac(&self, table: &str, key: &str, field: &str) -> Option<[u8; 6]> {
        let value = self
            .layers
            .iter()
            .rev()
            .find_map(|layer| layer.get(table)?.get(key)?.get(field)?.as_str());
        value.and_then(units::parse_mac)
    }

    /// Returns the MAC address of a switch.
    ///
    /// The default is a locally administered address with the letters "XOS" and the index of the switch.
    fn base_mac(&self, index: usize) -> [u8; 6] {
        let [high, low] = (index as u16).to_be_bytes();
        let default = [0x02, 0x58, 0x4f, 0x53, high, low];
        self.find_mac("DEVICE_METADATA", "localhost", "mac")
            .unwrap_or(default)
    }

    /// Returns the MAC address of an interface. Returns `base` if no layer contains an address for
    /// the interface.
    fn interface_mac(&self, port: &str, base: [u8; 6]) -> [u8; 6] {
        self.find_mac("INTERFACE", port, "mac_addr").unwrap_or(base)
    }
}
