use super::*;
use xoff_config::{ResolveOptions, load};

const ROUTED: &str = include_str!("../../../../../testbeds/routed/config_db.json");

fn load_generation(text: &str) -> ConfigGeneration {
    let loaded =
        load(&[("test", text)], &ResolveOptions::default()).unwrap_or_else(|problems| panic!("{problems}"));
    ConfigGeneration::initial(loaded.db, loaded.resolved.config, loaded.resolved.static_routes)
}

/// Returns link states in which only Ethernet4 is down.
fn link_states(current: &ConfigGeneration) -> LinkStates {
    let config = &current.config;
    let interface = |interface: &InterfaceConfig| interface.name != "Ethernet4";
    LinkStates {
        ports: config.ports.iter().map(|port| port.name != "Ethernet4").collect(),
        lags: vec![true; config.lags.len()],
        interfaces: config.routing.interfaces.iter().map(interface).collect(),
    }
}

/// Returns one line for each route: protocol, selection mark, prefix, distance and next hops.
fn route_lines(current: &ConfigGeneration, family: AddressFamily) -> Vec<String> {
    let hop = |hop: &RouteHop| {
        let address = hop
            .address
            .map_or_else(|| "link".to_owned(), |address| address.to_string());
        let down = if hop.active { "" } else { " down" };
        format!("{address} {} x{}{down}", hop.interface, hop.weight)
    };
    let line = |route: RouteEntry| {
        let mark = if route.selected { ">" } else { " " };
        let next_hops: Vec<String> = route.next_hops.iter().map(hop).collect();
        let next_hops = if route.blackhole {
            "drop".to_owned()
        } else {
            next_hops.join(", ")
        };
        format!(
            "{}{mark} {} [{}] {next_hops}",
            route.protocol, route.prefix, route.distance
        )
    };
    list_routes(current, &link_states(current), family)
        .into_iter()
        .map(line)
        .collect()
}

#[test]
fn connected_local_and_static_routes_are_listed_by_prefix() {
    let current = load_generation(ROUTED);
    assert_eq!(
        route_lines(&current, AddressFamily::Ipv4),
        [
            "static> 0.0.0.0/0 [1] 10.0.0.1 Ethernet0 x1, 10.0.0.3 Ethernet4 x1 down",
            "connected> 10.0.0.0/31 [0] link Ethernet0 x1",
            "local> 10.0.0.0/32 [0] link Ethernet0 x1",
            "connected> 10.0.0.2/31 [0] link Ethernet4 x1 down",
            "local> 10.0.0.2/32 [0] link Ethernet4 x1 down",
            "local> 10.1.0.1/32 [0] link Loopback0 x1",
            "static> 10.2.0.0/16 [1] 10.0.0.1 Ethernet0 x2, 10.0.0.3 Ethernet4 x1 down",
            "connected> 192.168.100.0/24 [0] link Vlan100 x1",
            "connected> 192.168.100.0/32 [0] drop",
            "local> 192.168.100.1/32 [0] link Vlan100 x1",
            "connected> 192.168.100.255/32 [0] drop",
            "static> 198.18.0.0/15 [1] drop",
        ]
    );
    assert_eq!(
        route_lines(&current, AddressFamily::Ipv6)
            .last()
            .map(String::as_str),
        Some("local> 2001:db8:ffff::1/128 [0] link Loopback0 x1")
    );
}

#[test]
fn static_routes_that_are_not_in_use_are_listed_without_selection() {
    let current = load_generation(
        r#"{"PORT": {"Ethernet0": {"admin_status": "up"}}, "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.1/24": {}},
            "STATIC_ROUTE": {"10.0.0.0/24": {"nexthop": "10.0.0.2"},
                             "10.9.0.0/16": {"nexthop": "10.0.0.2,10.0.0.3", "distance": "200,20"}}}"#,
    );
    let found: Vec<String> = route_lines(&current, AddressFamily::Ipv4)
        .into_iter()
        .filter(|line| line.contains("/24 ") || line.contains("/16 "))
        .collect();
    assert_eq!(
        found,
        [
            "connected> 10.0.0.0/24 [0] link Ethernet0 x1",
            "static  10.0.0.0/24 [1] 10.0.0.2 Ethernet0 x1",
            "static> 10.9.0.0/16 [20] 10.0.0.3 Ethernet0 x1",
            "static  10.9.0.0/16 [200] 10.0.0.2 Ethernet0 x1",
        ]
    );
}

#[test]
fn routes_with_the_same_target_keep_their_age() {
    let first = load_generation(ROUTED);
    let prefix = |text: &str| text.parse().expect("a prefix");
    let since = first.installed_at(prefix("0.0.0.0/0"));
    std::thread::sleep(std::time::Duration::from_millis(2));
    let changed = ROUTED.replace("2,1", "2,2");
    let loaded = load(&[("test", &changed)], &ResolveOptions::default()).expect("valid");
    let next = first.next_generation(loaded.db, loaded.resolved.config, loaded.resolved.static_routes);
    assert_eq!(next.installed_at(prefix("0.0.0.0/0")), since);
    assert!(
        next.installed_at(prefix("10.2.0.0/16")) > since,
        "the weights of the route have changed"
    );
    assert_eq!(next.installed_at(prefix("172.16.0.0/12")), None);
}

#[test]
fn interface_tables_have_vlan_mode_speed_and_state() {
    let current = load_generation(
        r#"{"PORT": {"Ethernet0": {"admin_status": "up", "lanes": "1,2", "alias": "p0"}, "Ethernet4": {"admin_status": "up"},
                     "Ethernet8": {}},
            "PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "static": "true"}},
            "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet4": {}, "PortChannel1|Ethernet8": {}},
            "VLAN": {"Vlan10": {}}, "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "untagged"}},
            "VLAN_INTERFACE": {"Vlan10": {}, "Vlan10|10.0.0.1/24": {}},
            "PORTCHANNEL_INTERFACE": {"PortChannel1": {}, "PortChannel1|10.1.0.1/24": {}}}"#,
    );
    let all = list_interfaces(&current, &link_states(&current));
    let ports: Vec<(&str, bool, bool)> = all
        .ports
        .iter()
        .map(|port| (port.vlan.as_str(), port.admin_up, port.oper_up))
        .collect();
    assert_eq!(
        ports,
        [
            ("trunk", true, true),
            ("PortChannel1", true, false),
            ("PortChannel1", false, true)
        ]
    );
    assert_eq!((all.lags[0].speed_mbps, all.lags[0].mtu), (2_000, Some(1_500)));
    assert_eq!(
        all.lags[0]
            .members
            .iter()
            .map(|member| member.up)
            .collect::<Vec<_>>(),
        [false, true]
    );
    let names: Vec<&str> = all
        .router_interfaces
        .iter()
        .map(|interface| interface.name.as_str())
        .collect();
    assert_eq!(names, ["PortChannel1", "Vlan10"]);
}

#[test]
fn mac_entries_and_neighbours_have_names_of_ports_and_interfaces() {
    let current = load_generation(ROUTED);
    let config = &current.config;
    let macs = list_mac_entries(
        config,
        vec![(100, [2, 0, 0, 0, 0, 0xab], LogicalPort(2), Picos::from_millis(1))],
    );
    assert_eq!(
        (macs[0].mac.as_str(), macs[0].port.as_str(), macs[0].age_ns),
        ("02:00:00:00:00:ab", "Ethernet8", 1_000_000)
    );
    let vlan = current
        .interface_names()
        .iter()
        .position(|name| name == "Vlan100")
        .expect("Vlan100");
    let entry = NeighbourEntry {
        interface: InterfaceId(vlan as u16),
        address: [192, 168, 100, 2].into(),
        mac: Some([2, 0, 0, 0, 0, 1]),
        state: NeighbourState::Static,
        port: Some(LogicalPort(3)),
        age: Picos::ZERO,
        held: 0,
    };
    let found = list_neighbours(config, vec![entry]);
    assert_eq!(
        (
            found[0].interface.as_str(),
            found[0].vlan,
            found[0].port.as_deref(),
            found[0].state.as_str()
        ),
        ("Vlan100", Some(100), Some("Ethernet12"), "static")
    );
}

#[test]
fn ports_of_a_switch_without_vlans_and_interfaces_are_bridged() {
    let modes = |text: &str| -> Vec<String> {
        let current = load_generation(text);
        let interfaces = list_interfaces(&current, &link_states(&current));
        let ports = interfaces.ports.into_iter().map(|port| port.vlan);
        ports
            .chain(interfaces.lags.into_iter().map(|lag| lag.vlan))
            .collect()
    };
    let ports = r#""PORT": {"Ethernet0": {}, "Ethernet4": {}}"#;
    assert_eq!(modes(&format!("{{{ports}}}")), ["bridged", "bridged"]);
    let lag = r#""PORTCHANNEL": {"PortChannel1": {"admin_status": "up"}}, "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet4": {}}"#;
    assert_eq!(
        modes(&format!("{{{ports}, {lag}}}")),
        ["bridged", "PortChannel1", "bridged"]
    );
    let vlan = r#""VLAN": {"Vlan10": {}}, "VLAN_MEMBER": {"Vlan10|Ethernet4": {"tagging_mode": "tagged"}}, "INTERFACE": {"Ethernet0": {}}"#;
    assert_eq!(modes(&format!("{{{ports}, {vlan}}}")), ["routed", "trunk"]);
}
