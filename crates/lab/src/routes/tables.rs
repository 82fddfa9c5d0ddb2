//! Writes addresses, neighbours and routes as SONiC tables: `INTERFACE`, `NEIGH` and `STATIC_ROUTE`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::Ipv4Net;
use serde_json::{Map, Value, json};

use super::computation::compute_routes;
use super::{HostNetworks, RouteOverridePlan, RouterNode, SwitchGraph};
use crate::plan::{ComputedLayer, ConfigLayer, HostPlan, SwitchPlan};
use crate::units;
use xoff_wire::DisplayMac;

/// Largest MTU of a port in the `PORT` table, in bytes.
const MTU_MAX: u32 = 9216;

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
    let sites = sites_of_networks(networks);
    for ((index, router), mut routes) in graph.routers.iter().enumerate().zip(routes) {
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
        });
        // Load-balancing schemes that use link quality messages need these tables. Other schemes ignore them.
        if let (false, Some(tables)) = (router.switch_links.is_empty(), layer.as_object_mut()) {
            let ports = json!({ "global": { "advertise_ports": switch_facing_ports(router) } });
            tables.insert("XOFF_LB".to_owned(), ports);
            routes.sites = Arc::clone(&sites);
        }
        let layer = ComputedLayer {
            tables: layer.to_string(),
            routes: Arc::new(routes),
        };
        switches[index]
            .config
            .insert(0, ConfigLayer::Computed(Arc::new(layer)));
    }
}

/// Returns the site of each network, sorted by network. The site of a network is the index of its switch plus 1.
fn sites_of_networks(networks: &[HostNetworks]) -> Arc<[(Ipv4Net, u16)]> {
    let of_switch = |(switch, networks): (usize, &HostNetworks)| {
        let site = (switch + 1) as u16;
        let networks = networks.advertised.clone();
        networks.into_iter().map(move |network| (network, site))
    };
    let mut sites: Vec<_> = networks.iter().enumerate().flat_map(of_switch).collect();
    sites.sort_unstable();
    sites.into()
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
            ConfigLayer::Preset { .. } | ConfigLayer::Computed(_) => None,
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
