use std::net::Ipv4Addr;
use std::path::Path;

use ipnet::Ipv4Net;
use serde_json::Value;
use xoff_units::Picos;

use super::super::config::switch_setup;
use super::super::parse;
use super::super::plan::{ConfigLayer, FarEnd, LabPlan, TimeMode};

fn plan(topology: &str) -> LabPlan {
    let text = format!("name: t\ntopology:\n{topology}");
    parse(&text, "t.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// The tables that were made for a switch.
fn tables(plan: &LabPlan, switch: usize) -> Value {
    match plan.switches[switch].config.first() {
        Some(ConfigLayer::Text { source, text }) if source == "routes: auto" => {
            serde_json::from_str(text).expect("JSON")
        }
        other => panic!("no routes: {other:?}"),
    }
}

/// Everything that decides where packets go, as plain text of addresses.
struct Network {
    tables: Vec<Value>,
    plan: LabPlan,
}

impl Network {
    fn new(plan: LabPlan) -> Network {
        let tables = (0..plan.switches.len())
            .map(|switch| tables(&plan, switch))
            .collect();
        Network { tables, plan }
    }

    /// The port of a switch in whose network an address is, and the node at the other end.
    fn behind(&self, switch: usize, address: Ipv4Addr) -> Option<FarEnd> {
        let interfaces = self.tables[switch]["INTERFACE"].as_object()?;
        let port = interfaces.keys().find_map(|key| {
            let (port, network) = key.split_once('|')?;
            let network: Ipv4Net = network.parse().ok()?;
            (network.contains(&address) && network.addr() != address).then(|| port.to_owned())
        })?;
        self.plan.links.iter().find_map(|link| {
            let far = match &link.far {
                FarEnd::Switch { switch: other, port } if *other == switch => {
                    let _ = port;
                    FarEnd::Switch {
                        switch: link.switch,
                        port: link.port.clone(),
                    }
                }
                far => far.clone(),
            };
            (link.port_at(switch) == Some(&port)).then_some(far)
        })
    }

    fn next_hops(&self, switch: usize, address: Ipv4Addr) -> Vec<Ipv4Addr> {
        let routes = self.tables[switch]["STATIC_ROUTE"].as_object().expect("a table");
        let longest = routes
            .iter()
            .filter_map(|(prefix, fields)| Some((prefix.parse::<Ipv4Net>().ok()?, fields)))
            .filter(|(prefix, _)| prefix.contains(&address))
            .max_by_key(|(prefix, _)| prefix.prefix_len());
        let list = longest
            .and_then(|(_, fields)| fields["nexthop"].as_str())
            .unwrap_or("");
        list.split(',')
            .filter_map(|address| address.parse().ok())
            .collect()
    }

    /// The lengths of all paths from a switch to a host, hop by hop through the tables; `None` if one is lost.
    fn paths(&self, switch: usize, host: usize, hops: u32, lengths: &mut Vec<u32>) -> Option<()> {
        assert!(hops < 16, "a loop");
        let address = self.plan.hosts[host].ipv4;
        if let Some(FarEnd::Host(found)) = self.behind(switch, address) {
            assert_eq!(found, host);
            lengths.push(hops);
            return Some(());
        }
        let next_hops = self.next_hops(switch, address);
        if next_hops.is_empty() {
            return None;
        }
        for next in next_hops {
            let Some(FarEnd::Switch { switch, .. }) = self.behind(switch, next) else {
                panic!("{next} is no neighbour")
            };
            self.paths(switch, host, hops + 1, lengths)?;
        }
        Some(())
    }
}

#[test]
fn a_fat_tree_has_all_shortest_paths_and_its_switches_take_them() {
    let network = Network::new(plan(
        "  fabric: {fat-tree: {k: 8, speed: 100g, config: {preset: roce-lossless}}}\n",
    ));
    let edge1 = network
        .plan
        .switches
        .iter()
        .position(|switch| switch.name == "pod1-edge1")
        .expect("an edge");
    for (host, count, length) in [
        (0, 1, 0),
        (3, 1, 0),
        (4, 4, 2),
        (15, 4, 2),
        (16, 16, 4),
        (127, 16, 4),
    ] {
        let mut lengths = Vec::new();
        network.paths(edge1, host, 0, &mut lengths).expect("a way");
        assert_eq!(lengths, vec![length; count], "to h{}", host + 1);
    }
    let routes = network.tables[edge1]["STATIC_ROUTE"]
        .as_object()
        .expect("a table");
    assert_eq!(routes.len(), 31, "one for each other edge switch");
    for switch in 0..network.plan.switches.len() {
        let setup =
            switch_setup(&network.plan, switch, 1, Picos::ZERO).unwrap_or_else(|failure| panic!("{failure}"));
        let resolved = &setup.loaded.resolved;
        assert!(
            resolved.warnings.is_empty(),
            "{:?}: {}",
            resolved.warnings,
            network.plan.switches[switch].name
        );
        assert_eq!(resolved.config.routing.neighbours.len(), 8);
    }
}

#[test]
fn rings_and_parallel_links_are_routed() {
    let ring = "  nodes: {a: {kind: switch}, b: {kind: switch}, c: {kind: switch}, d: {kind: switch}, h1: {kind: model}, h2: {kind: model}}
  links:
    - endpoints: [h1:eth0, a:Ethernet0]
    - endpoints: [h2:eth0, c:Ethernet0]
    - endpoints: [a:Ethernet4, b:Ethernet4]
    - endpoints: [b:Ethernet8, c:Ethernet8]
    - endpoints: [b:Ethernet12, c:Ethernet12]
    - endpoints: [c:Ethernet4, d:Ethernet4]
    - endpoints: [d:Ethernet8, a:Ethernet8]
";
    let network = Network::new(plan(&format!("{ring}  routes: auto\n")));
    let mut lengths = Vec::new();
    network.paths(0, 1, 0, &mut lengths).expect("a way");
    assert_eq!(lengths, [2, 2, 2], "twice by the two links from b, once by d");
    let host = &network.plan.hosts[1];
    let mac = tables(&network.plan, 2)["DEVICE_METADATA"]["localhost"]["mac"].clone();
    assert_eq!(mac, "02:58:4f:53:00:02");
    assert_eq!(
        (host.gateway_mac, host.gateways.len()),
        (Some([2, 0x58, 0x4f, 0x53, 0, 2]), 1)
    );
    // The default without a template: nothing is made.
    assert!(plan(ring).switches.iter().all(|switch| switch.config.is_empty()));
}

/// A loop on purpose: a sends what is for h2 to d, and d sends it back.
#[test]
fn an_override_replaces_what_is_shortest() {
    let text = "  fabric: {leaf-spine: {leaves: 2, spines: 2, hosts: 1}}
  routes:
    - {switch: leaf1, to: h2, via: spine2}
    - {switch: spine2, to: h2, via: [Ethernet0]}
    - {switch: spine1, to: 10.0.1.0/24, via: []}
";
    let network = Network::new(plan(text));
    let h2 = network.plan.hosts[1].ipv4;
    let ways = |name: &str| {
        let switch = network
            .plan
            .switches
            .iter()
            .position(|switch| switch.name == name)
            .expect("a switch");
        let to = |address| match network.behind(switch, address) {
            Some(FarEnd::Switch { switch, .. }) => network.plan.switches[switch].name.clone(),
            other => panic!("{other:?}"),
        };
        network
            .next_hops(switch, h2)
            .into_iter()
            .map(to)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (ways("leaf1"), ways("spine2")),
        (vec!["spine2".to_owned()], vec!["leaf1".to_owned()])
    );
    assert_eq!(ways("spine1"), Vec::<String>::new());
    let spine1 = 2;
    assert_eq!(
        network.tables[spine1]["STATIC_ROUTE"]["10.0.1.0/24"]["blackhole"],
        "true"
    );
    for switch in 0..4 {
        switch_setup(&network.plan, switch, 1, Picos::ZERO).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// What the file says of a switch's hardware address is what its neighbours are told.
#[test]
fn the_files_own_addresses_are_known_to_the_neighbours() {
    let own = "{DEVICE_METADATA: {localhost: {mac: \"02:00:00:00:aa:00\"}}, INTERFACE: {Ethernet0: {mac_addr: \"02:00:00:00:bb:00\"}}}";
    let text = format!(
        "  fabric: {{leaf-spine: {{leaves: 1, spines: 1, hosts: 1}}}}\n  nodes:\n    leaf1: {{config: {own}}}\n"
    );
    let plan = plan(&text);
    assert_eq!(plan.hosts[0].gateway_mac, Some([2, 0, 0, 0, 0xbb, 0]));
    let neighbours = &tables(&plan, 1)["NEIGH"];
    assert_eq!(neighbours["Ethernet0|172.16.0.0"]["neigh"], "02:00:00:00:aa:00");
    switch_setup(&plan, 0, 1, Picos::ZERO).unwrap_or_else(|failure| panic!("{failure}"));
}
