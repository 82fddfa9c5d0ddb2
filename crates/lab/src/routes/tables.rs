//! Routes as SONiC's tables: `INTERFACE`, `STATIC_ROUTE`, `NEIGH`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Map, Value, json};

use super::{Graph, Networks, Override, Router};
use crate::plan::{ConfigLayer, HostPlan, SwitchPlan};
use crate::units;

/// Largest MTU of a port in `PORT`, bytes.
const MTU_MAX: u32 = 9216;

/// What made the layer, as messages name it.
pub(crate) const MADE: &str = "routes: auto";

/// Routes of one switch, sorted by prefix: their next hops.
type Routes = BTreeMap<Ipv4Net, Vec<Ipv4Addr>>;

pub(super) fn write(
    graph: &Graph,
    switches: &mut [SwitchPlan],
    hosts: &mut [HostPlan],
    networks: &[Networks],
    overrides: &[Override],
) {
    let own: Vec<Said> = switches.iter().map(Said::by).collect();
    let macs: Vec<[u8; 6]> = own
        .iter()
        .enumerate()
        .map(|(index, said)| said.base_mac(index))
        .collect();
    let routes = routes(graph, networks, overrides);
    let sites = sites(networks);
    for (index, router) in graph.routers.iter().enumerate() {
        for access in &router.hosts {
            hosts[access.host].gateway_mac = Some(own[index].mac_of(&access.port, macs[index]));
        }
        let neighbours = neighbours(router, hosts, |switch, peer| {
            let edge = graph.routers[switch].edges.iter().find(|edge| edge.own == peer);
            edge.map_or(macs[switch], |edge| own[switch].mac_of(&edge.port, macs[switch]))
        });
        let mut layer = json!({
            "DEVICE_METADATA": { "localhost": { "mac": text(macs[index]) } },
            "PORT": ports(router),
            "INTERFACE": interfaces(router, &networks[index]),
            "NEIGH": neighbours,
            "STATIC_ROUTE": static_routes(&routes[index]),
        });
        // What schemes that look at other switches need; without them it does nothing.
        if let (false, Some(tables)) = (router.edges.is_empty(), layer.as_object_mut()) {
            let ports = json!({ "global": { "advertise_ports": towards_switches(router) } });
            tables.insert("XOFF_LB".to_owned(), ports);
            tables.insert("XOFF_LB_SITE".to_owned(), Value::Object(sites.clone()));
        }
        let layer = ConfigLayer::Text {
            source: MADE.to_owned(),
            text: layer.to_string(),
        };
        switches[index].config.insert(0, layer);
    }
}

/// All routes of all switches. One search for each switch with hosts finds everybody's next hops towards it.
fn routes(graph: &Graph, networks: &[Networks], overrides: &[Override]) -> Vec<Routes> {
    let mut routes = vec![Routes::new(); graph.routers.len()];
    for (destination, networks) in networks.iter().enumerate() {
        if networks.advertised.is_empty() {
            continue;
        }
        let hops = graph.hops_to(destination);
        for (switch, routes) in routes.iter_mut().enumerate() {
            let next_hops = graph.nearer(switch, &hops);
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

fn static_routes(routes: &Routes) -> Map<String, Value> {
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

/// Where every network is: the number of its switch, counted from 1.
fn sites(networks: &[Networks]) -> Map<String, Value> {
    let mut table = Map::new();
    for (switch, networks) in networks.iter().enumerate() {
        for network in &networks.advertised {
            let site = (switch + 1).to_string();
            table.insert(network.to_string(), json!({ "site": site }));
        }
    }
    table
}

fn towards_switches(router: &Router) -> String {
    let ports: Vec<&str> = router.edges.iter().map(|edge| edge.port.as_str()).collect();
    ports.join(",")
}

fn ports(router: &Router) -> Map<String, Value> {
    let mtu = |(port, mtu): &(String, u32)| (port.clone(), json!({ "mtu": (*mtu).min(MTU_MAX).to_string() }));
    router.mtus.iter().map(mtu).collect()
}

fn interfaces(router: &Router, networks: &Networks) -> Map<String, Value> {
    let mut table = Map::new();
    let mut add = |port: &str, address: Ipv4Addr, prefix: u8| {
        table.insert(port.to_owned(), json!({}));
        table.insert(format!("{port}|{address}/{prefix}"), json!({}));
    };
    for (access, (gateway, prefix)) in router.hosts.iter().zip(&networks.gateways) {
        add(&access.port, *gateway, *prefix);
    }
    for edge in &router.edges {
        add(&edge.port, edge.own, 31);
    }
    table
}

fn neighbours(
    router: &Router,
    hosts: &[HostPlan],
    mac_of: impl Fn(usize, Ipv4Addr) -> [u8; 6],
) -> Map<String, Value> {
    let mut table = Map::new();
    let mut add = |port: &str, address: Ipv4Addr, mac: [u8; 6]| {
        table.insert(
            format!("{port}|{address}"),
            json!({ "neigh": text(mac), "family": "IPv4" }),
        );
    };
    for access in &router.hosts {
        let host = &hosts[access.host];
        add(&access.port, host.ipv4, host.mac);
    }
    for edge in &router.edges {
        add(&edge.port, edge.peer, mac_of(edge.to, edge.peer));
    }
    table
}

/// What the file's own layers say of a switch's hardware addresses, since they lie above this one.
struct Said {
    layers: Vec<Value>,
}

impl Said {
    fn by(switch: &SwitchPlan) -> Said {
        let parsed = |layer: &ConfigLayer| match layer {
            // A layer that is no JSON is told when the switch is configured.
            ConfigLayer::Text { text, .. } => serde_json::from_str(text).ok(),
            ConfigLayer::Preset { .. } => None,
        };
        Said {
            layers: switch.config.iter().filter_map(parsed).collect(),
        }
    }

    /// The last layer that says it decides.
    fn mac(&self, table: &str, key: &str, field: &str) -> Option<[u8; 6]> {
        let said = self
            .layers
            .iter()
            .rev()
            .find_map(|layer| layer.get(table)?.get(key)?.get(field)?.as_str());
        said.and_then(units::mac)
    }

    /// What it says, or one that follows from the number of the switch: locally administered, "XOS" in the middle.
    fn base_mac(&self, index: usize) -> [u8; 6] {
        let [high, low] = (index as u16).to_be_bytes();
        let made = [0x02, 0x58, 0x4f, 0x53, high, low];
        self.mac("DEVICE_METADATA", "localhost", "mac").unwrap_or(made)
    }

    fn mac_of(&self, port: &str, base: [u8; 6]) -> [u8; 6] {
        self.mac("INTERFACE", port, "mac_addr").unwrap_or(base)
    }
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
