use std::net::Ipv4Addr;
use std::path::Path;

use ipnet::Ipv4Net;
use serde_json::Value;
use xoff_units::Picos;

use super::super::config::{resolve_all_switch_setups, resolve_switch_setup, switch_seed};
use super::super::parse_lab;
use super::super::plan::{ConfigLayer, FarEnd, LabPlan, TimeMode};

fn parse_topology(topology: &str) -> LabPlan {
    let text = format!("name: t\ntopology:\n{topology}");
    parse_lab(&text, "t.xoff.yml", Path::new(""), TimeMode::Virtual)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

/// Returns the tables of the layer with the computed routes of a switch.
fn route_tables(plan: &LabPlan, switch: usize) -> Value {
    match plan.switches[switch].config.first() {
        Some(ConfigLayer::Computed(layer)) => serde_json::from_str(&layer.to_text()).expect("JSON"),
        other => panic!("no routes: {other:?}"),
    }
}

/// Looks up next hops in the computed tables, one switch at a time.
struct ForwardingModel {
    tables: Vec<Value>,
    plan: LabPlan,
}

impl ForwardingModel {
    fn new(plan: LabPlan) -> ForwardingModel {
        let tables = (0..plan.switches.len())
            .map(|switch| route_tables(&plan, switch))
            .collect();
        ForwardingModel { tables, plan }
    }

    /// Returns the node behind the port of a switch whose network contains an address.
    fn far_end_towards(&self, switch: usize, address: Ipv4Addr) -> Option<FarEnd> {
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
            (link.port_at_switch(switch) == Some(&port)).then_some(far)
        })
    }

    /// Returns the next hops of the longest prefix that contains an address.
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

    /// Adds the length of each path from a switch to a host to `lengths`. Returns `None` if a switch on a
    /// path has no route.
    ///
    /// `hops` is the number of hops before `switch`.
    fn add_path_lengths(&self, switch: usize, host: usize, hops: u32, lengths: &mut Vec<u32>) -> Option<()> {
        assert!(hops < 16, "a loop");
        let address = self.plan.hosts[host].ipv4;
        if let Some(FarEnd::Host(found)) = self.far_end_towards(switch, address) {
            assert_eq!(found, host);
            lengths.push(hops);
            return Some(());
        }
        let next_hops = self.next_hops(switch, address);
        if next_hops.is_empty() {
            return None;
        }
        for next in next_hops {
            let Some(FarEnd::Switch { switch, .. }) = self.far_end_towards(switch, next) else {
                panic!("{next} is no neighbour")
            };
            self.add_path_lengths(switch, host, hops + 1, lengths)?;
        }
        Some(())
    }
}

#[test]
fn switches_of_a_fat_tree_use_all_shortest_paths() {
    let model = ForwardingModel::new(parse_topology(
        "  fabric: {fat-tree: {k: 8, speed: 100g, config: {preset: roce-lossless}}}\n",
    ));
    let edge1 = model
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
        model
            .add_path_lengths(edge1, host, 0, &mut lengths)
            .expect("a path");
        assert_eq!(lengths, vec![length; count], "to h{}", host + 1);
    }
    let routes = model.tables[edge1]["STATIC_ROUTE"].as_object().expect("a table");
    assert_eq!(routes.len(), 31, "one for each other edge switch");
    for switch in 0..model.plan.switches.len() {
        let setup = resolve_switch_setup(&model.plan, switch, 1, Picos::ZERO)
            .unwrap_or_else(|failure| panic!("{failure}"));
        let resolved = &setup.loaded.resolved;
        assert!(
            resolved.warnings.is_empty(),
            "{:?}: {}",
            resolved.warnings,
            model.plan.switches[switch].name
        );
        assert_eq!(resolved.config.routing.neighbours.len(), 8);
    }
}

#[test]
fn equal_cost_paths_include_parallel_links() {
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
    let model = ForwardingModel::new(parse_topology(&format!("{ring}  routes: auto\n")));
    let mut lengths = Vec::new();
    model.add_path_lengths(0, 1, 0, &mut lengths).expect("a path");
    assert_eq!(
        lengths,
        [2, 2, 2],
        "two paths over the two links from b, one path over d"
    );
    let host = &model.plan.hosts[1];
    let mac = route_tables(&model.plan, 2)["DEVICE_METADATA"]["localhost"]["mac"].clone();
    assert_eq!(mac, "02:58:4f:53:00:02");
    assert_eq!(
        (host.gateway_mac, host.gateways.len()),
        (Some([2, 0x58, 0x4f, 0x53, 0, 2]), 1)
    );
    // Without `routes`, routes are computed only if the bridges of the switches form a loop.
    let has_routes = |topology: &str| -> Vec<bool> {
        let plan = parse_topology(topology);
        plan.switches
            .iter()
            .map(|switch| !switch.config.is_empty())
            .collect()
    };
    assert_eq!(has_routes(ring), [true; 4]);
    let without_loops: Vec<&str> = ring
        .lines()
        .filter(|line| !line.contains("b:Ethernet12") && !line.contains("d:Ethernet8"))
        .collect();
    assert_eq!(has_routes(&format!("{}\n", without_loops.join("\n"))), [false; 4]);
}

/// The overrides create a forwarding loop for packets to h2. leaf1 sends such packets to spine2, and spine2
/// sends them back.
#[test]
fn route_override_replaces_the_shortest_path() {
    let text = "  fabric: {leaf-spine: {leaves: 2, spines: 2, hosts: 1}}
  routes:
    - {switch: leaf1, to: h2, via: spine2}
    - {switch: spine2, to: h2, via: [Ethernet0]}
    - {switch: spine1, to: 10.0.1.0/24, via: []}
";
    let model = ForwardingModel::new(parse_topology(text));
    let h2 = model.plan.hosts[1].ipv4;
    let next_switches = |name: &str| {
        let switch = model
            .plan
            .switches
            .iter()
            .position(|switch| switch.name == name)
            .expect("a switch");
        let to = |address| match model.far_end_towards(switch, address) {
            Some(FarEnd::Switch { switch, .. }) => model.plan.switches[switch].name.clone(),
            other => panic!("{other:?}"),
        };
        model
            .next_hops(switch, h2)
            .into_iter()
            .map(to)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (next_switches("leaf1"), next_switches("spine2")),
        (vec!["spine2".to_owned()], vec!["leaf1".to_owned()])
    );
    assert_eq!(next_switches("spine1"), Vec::<String>::new());
    let spine1 = 2;
    assert_eq!(
        model.tables[spine1]["STATIC_ROUTE"]["10.0.1.0/24"]["blackhole"],
        "true"
    );
    for switch in 0..4 {
        resolve_switch_setup(&model.plan, switch, 1, Picos::ZERO)
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// Neighbour entries of other switches contain the MAC addresses that the lab file configures.
#[test]
fn neighbour_entries_contain_configured_mac_addresses() {
    let own = "{DEVICE_METADATA: {localhost: {mac: \"02:00:00:00:aa:00\"}}, INTERFACE: {Ethernet0: {mac_addr: \"02:00:00:00:bb:00\"}}}";
    let text = format!(
        "  fabric: {{leaf-spine: {{leaves: 1, spines: 1, hosts: 1}}}}\n  nodes:\n    leaf1: {{config: {own}}}\n"
    );
    let plan = parse_topology(&text);
    assert_eq!(plan.hosts[0].gateway_mac, Some([2, 0, 0, 0, 0xbb, 0]));
    let neighbours = &route_tables(&plan, 1)["NEIGH"];
    assert_eq!(neighbours["Ethernet0|172.16.0.0"]["neigh"], "02:00:00:00:aa:00");
    resolve_switch_setup(&plan, 0, 1, Picos::ZERO).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Routes that are resolved without their tables give the same switches, also where another layer has routes, a
/// load-balancing scheme or an error.
#[test]
fn routes_have_the_same_meaning_with_and_without_their_tables() {
    let rail = "  fabric: {leaf-spine: {leaves: 3, spines: 2, hosts: 2, config: {preset: roce-lossless}}}\n";
    let node = |config: &str| format!("{rail}  nodes:\n    leaf1: {{config: {config}}}\n");
    let topologies = [
        rail.to_owned(),
        "  fabric: {fat-tree: {k: 4, config: {preset: roce-lossless}}}\n".to_owned(),
        format!("{rail}  defaults: {{load_balancing: global}}\n"),
        format!("{rail}  routes: [{{switch: leaf1, to: 10.0.2.0/24, via: spine2}}]\n"),
        node("{STATIC_ROUTE: {\"10.0.1.0/24\": {nexthop: \"172.16.0.1\"}}}"),
        node("{XOFF_LB_SITE: {\"10.0.1.0/24\": {site: \"77\"}}}"),
        node("{XOFF_SWITCH: {localhost: {hash_seed: \"7\"}}}"),
        node("{PORT: {Ethernet0: {mtu: \"4000\"}}}"),
        node("{DEVICE_METADATA: {localhost: {mac: \"02:00:00:00:aa:00\", hostname: other}}}"),
        node("{XOFF_LB: {global: {advertise_ports: Ethernet8}}}"),
        node("{SYSLOG_SERVER: {\"10.0.0.1\": {}}}"),
        format!(
            "{rail}  nodes:\n    leaf2: {{config: {{XOFF_SWITCH: {{localhost: {{seed: \"3\"}}}}}}}}\n    leaf3: {{config: {{XOFF_SWITCH: {{localhost: {{seed: \"3\"}}}}}}}}\n"
        ),
    ];
    for topology in topologies {
        let plan = parse_topology(&topology);
        let with_tables: LabPlan =
            serde_json::from_str(&serde_json::to_string(&plan).expect("JSON")).expect("a plan");
        for switch in 0..plan.switches.len() {
            let [short, long] = [&plan, &with_tables].map(|plan| {
                resolve_switch_setup(plan, switch, 1, Picos::ZERO)
                    .unwrap_or_else(|failure| panic!("{failure}\n{topology}"))
            });
            assert_eq!(
                short.loaded.resolved.config, long.loaded.resolved.config,
                "{topology}"
            );
            assert_eq!(short.loaded.resolved.warnings, long.loaded.resolved.warnings);
            assert_eq!(
                short.loaded.resolved.static_routes, long.loaded.resolved.static_routes,
                "{topology}"
            );
        }
        let similar = resolve_all_switch_setups(&plan, 5, Picos::ZERO).expect("valid switches");
        for (switch, similar) in similar.iter().enumerate() {
            let alone = resolve_switch_setup(&with_tables, switch, switch_seed(5, switch), Picos::ZERO)
                .unwrap_or_else(|failure| panic!("{failure}\n{topology}"));
            assert_eq!(
                similar.loaded.resolved.config, alone.loaded.resolved.config,
                "{topology}"
            );
            assert_eq!(similar.loaded.resolved.warnings, alone.loaded.resolved.warnings);
            assert_eq!(similar.speeds_mbps, alone.speeds_mbps);
        }
    }
}

/// An error in a configuration names its entry, even if the routes have no tables.
#[test]
fn an_error_beside_computed_routes_names_its_entry() {
    let text = "  fabric: {leaf-spine: {leaves: 2, spines: 1, hosts: 1}}\n  nodes:\n    leaf1: {config: {PORT: {Ethernet0: {admin_status: down}, Ethernet1: {mtu: \"9\"}}}}\n";
    let plan = parse_topology(text);
    let with_tables: LabPlan =
        serde_json::from_str(&serde_json::to_string(&plan).expect("JSON")).expect("a plan");
    let [short, long] = [&plan, &with_tables].map(|plan| {
        resolve_switch_setup(plan, 0, 1, Picos::ZERO)
            .expect_err("a wrong MTU")
            .to_string()
    });
    assert_eq!(short, long);
}
