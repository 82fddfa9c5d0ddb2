//! Tests of SONiC's ARS tables.

use std::net::IpAddr;

use xoff_dataplane::config::{
    BalancingConfig, MemberSelection, NextHopBalancing, PortBalancing, SchemeConfig, SchemeKind, SwitchConfig,
};
use xoff_units::Picos;

use super::{load_config, load_errors, load_text, load_warnings};
use crate::parse;

const PORTS: &[&str] = &["Ethernet0", "Ethernet4", "Ethernet8"];

/// A router with three ports, a network on each port, a route through all ports, and additional tables.
fn router_config(tables: &str) -> String {
    format!(
        r#"{{"INTERFACE": {{"Ethernet0": {{}}, "Ethernet0|10.1.0.0/31": {{}}, "Ethernet4": {{}}, "Ethernet4|10.1.0.2/31": {{}},
                           "Ethernet8": {{}}, "Ethernet8|10.1.0.4/31": {{}}}},
            "STATIC_ROUTE": {{"10.2.0.0/24": {{"nexthop": "10.1.0.1,10.1.0.3,10.1.0.5"}}}},
            {tables}}}"#
    )
}

fn resolve_balancing(tables: &str) -> BalancingConfig {
    load_config(&router_config(tables), PORTS).balancing
}

fn flowlet_scheme(name: &str, idle_us: u64, entries: u32) -> SchemeConfig {
    SchemeConfig {
        flowset_entries: entries,
        ..SchemeConfig::new(
            name,
            SchemeKind::Flowlet {
                idle: Picos::from_micros(idle_us),
                pick: MemberSelection::Quality,
                rebalance: None,
            },
        )
    }
}

fn port_schemes(config: &SwitchConfig) -> Vec<Option<u16>> {
    config.balancing.ports.iter().map(|port| port.scheme).collect()
}

/// The example of SONiC's ARS design, with the ARS object that the design omits.
#[test]
fn example_of_the_sonic_design_resolves() {
    let balancing = resolve_balancing(
        r#""ARS_PROFILE": {"prof": {"algorithm": "ewma", "ars_nhg_path_selector_mode": "interface", "default_ars_object": "obj",
             "sampling_interval": "32"}},
           "ARS_OBJECT": {"obj": {"assign_mode": "per_flowlet_quality", "flowlet_idle_time": "64", "max_flows": "512"}},
           "ARS_INTERFACES": {"Ethernet0": {"scaling_factor": "0"}, "Ethernet4": {"scaling_factor": "40"}}"#,
    );
    assert_eq!(balancing.schemes, [flowlet_scheme("obj", 64, 512)]);
    assert_eq!(
        (balancing.default_scheme, balancing.lags.as_slice()),
        (None, &[][..])
    );
    let port = |scheme, scale_mbps| PortBalancing {
        scheme,
        scale_mbps,
        ..PortBalancing::default()
    };
    assert_eq!(
        balancing.ports,
        [port(Some(0), 0), port(Some(0), 400_000), port(None, 0)]
    );
    assert_eq!(balancing.load.interval, Picos::from_micros(32));
}

#[test]
fn ars_fields_have_the_defaults_of_the_yang_model() {
    let balancing = resolve_balancing(
        r#""ARS_PROFILE": {"p": {"default_ars_object": "o"}}, "ARS_OBJECT": {"o": {}}, "ARS_INTERFACES": {"Ethernet0": {}}"#,
    );
    assert_eq!(balancing.schemes, [flowlet_scheme("o", 256, 512)]);
    assert_eq!(balancing.schemes[0].primary_threshold, 16);
    assert_eq!(balancing.schemes[0].alternate_cost, 0);
}

#[test]
fn interface_selects_its_own_ars_object() {
    let config = load_config(
        &router_config(
            r#""ARS_PROFILE": {"p": {"default_ars_object": "a"}},
               "ARS_OBJECT": {"a": {}, "b": {"assign_mode": "per_packet_quality"}},
               "ARS_INTERFACES": {"Ethernet0": {}, "Ethernet4": {"ars_obj_name": "b"}}"#,
        ),
        PORTS,
    );
    assert_eq!(port_schemes(&config), [Some(0), Some(1), None]);
    assert_eq!(
        config.balancing.schemes[1].kind,
        SchemeKind::PerPacket {
            pick: MemberSelection::Quality
        }
    );
}

#[test]
fn global_mode_uses_all_groups_or_groups_with_enabled_ports() {
    let profile = r#""ARS_PROFILE": {"p": {"ars_nhg_path_selector_mode": "global", "default_ars_object": "o"}}, "ARS_OBJECT": {"o": {}}"#;
    let all = resolve_balancing(profile);
    assert_eq!((all.default_scheme, all.schemes.len()), (Some(0), 1));
    let some = load_config(
        &router_config(&format!(r#"{profile}, "ARS_INTERFACES": {{"Ethernet4": {{}}}}"#)),
        PORTS,
    );
    assert_eq!(
        (some.balancing.default_scheme, port_schemes(&some)),
        (None, vec![None, Some(0), None])
    );
}

#[test]
fn nexthop_mode_uses_the_listed_next_hops() {
    let balancing = resolve_balancing(
        r#""ARS_PROFILE": {"p": {"ars_nhg_path_selector_mode": "nexthop", "default_ars_object": "o"}}, "ARS_OBJECT": {"o": {}},
           "ARS_NEXTHOPS": {"default|10.1.0.1": {}, "default|10.1.0.3": {"ars_obj_name": "o", "role": "alternative_path"}}"#,
    );
    let hop = |address: &str, alternate| NextHopBalancing {
        address: address.parse::<IpAddr>().unwrap(),
        scheme: Some(0),
        alternate,
    };
    assert_eq!(
        balancing.next_hops,
        [hop("10.1.0.1", false), hop("10.1.0.3", true)]
    );
    assert_eq!(balancing.default_scheme, None);
}

#[test]
fn lags_use_ars_lag_path_selector_mode() {
    let lag = |mode: &str, more: &str| {
        let text = format!(
            r#"{{"PORTCHANNEL": {{"PortChannel1": {{"admin_status": "up"}}}},
                 "PORTCHANNEL_MEMBER": {{"PortChannel1|Ethernet0": {{}}, "PortChannel1|Ethernet4": {{}}}},
                 "ARS_PROFILE": {{"p": {{"ars_lag_path_selector_mode": "{mode}", "default_ars_object": "o"}}}}, "ARS_OBJECT": {{"o": {{}}}}{more}}}"#
        );
        let balancing = load_config(&text, PORTS).balancing;
        let scheme = balancing.lags.first().copied().flatten();
        (
            scheme.map(|index| balancing.schemes[usize::from(index)].name.clone()),
            balancing.ports,
        )
    };
    assert_eq!(lag("global", "").0.as_deref(), Some("o"));
    assert_eq!(lag("interface", "").0.as_deref(), Some("ecmp"));
    // The schemes of the member ports apply. Members without ARS carry no packets.
    let (scheme, ports) = lag(
        "interface",
        r#", "ARS_INTERFACES": {"Ethernet0": {}}, "ARS_PORTCHANNELS": {"PortChannel1": {"alternative_path_members": ["Ethernet4"]}}"#,
    );
    assert_eq!(scheme, None);
    assert_eq!(
        ports.iter().map(|port| port.scheme.is_some()).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert_eq!(
        ports.iter().map(|port| port.alternate_in_lag).collect::<Vec<_>>(),
        [false, true, false]
    );
}

#[test]
fn disabled_address_family_is_hashed() {
    let config = load_config(
        &router_config(
            r#""ARS_PROFILE": {"p": {"ars_nhg_path_selector_mode": "global", "default_ars_object": "o", "ipv4_enable": "false"}},
               "ARS_OBJECT": {"o": {}}"#,
        ),
        PORTS,
    );
    let mut routes = config.routing.fib.routes();
    let (route, _) = routes
        .find(|(route, _)| route.prefix.to_string() == "10.2.0.0/24")
        .unwrap();
    let scheme = &config.balancing.schemes[usize::from(route.tag.scheme.unwrap())];
    assert_eq!((scheme.name.as_str(), &scheme.kind), ("ecmp", &SchemeKind::Hash));
}

/// Limits concern a port with scaling factor 1, which has a speed of 10 Gb/s.
#[test]
fn load_limits_are_converted_from_mbps_to_permille() {
    let load = resolve_balancing(
        r#""ARS_PROFILE": {"p": {"default_ars_object": "o", "past_load_min_value": "1000", "past_load_max_value": "9000",
             "past_load_weight": "3", "future_load_min_value": "5", "future_load_max_value": "6", "future_load_weight": "0"}},
           "ARS_OBJECT": {"o": {}}"#,
    )
    .load;
    let default = BalancingConfig::default().load;
    assert_eq!(
        (load.past.weight, load.past.min_permille, load.past.max_permille),
        (3, 100, 900)
    );
    assert_eq!(
        (
            load.future.weight,
            load.future.min_permille,
            load.future.max_permille
        ),
        (0, 0, 1)
    );
    assert_eq!(load.current, default.current);
}

#[test]
fn xoff_tables_take_precedence_over_ars_tables() {
    let balancing = resolve_balancing(
        r#""ARS_PROFILE": {"p": {"ars_nhg_path_selector_mode": "global", "default_ars_object": "o", "sampling_interval": "50"}},
           "ARS_OBJECT": {"o": {}}, "XOFF_LB": {"global": {"scheme": "drill"}}, "XOFF_LB_LOAD": {"global": {"sampling_interval": "20"}}"#,
    );
    let default = balancing
        .default_scheme
        .map(|index| balancing.schemes[usize::from(index)].name.as_str());
    assert_eq!(default, Some("drill"));
    assert_eq!(balancing.load.interval, Picos::from_micros(20));
}

#[test]
fn acl_rules_exempt_packets_from_ars() {
    for rule in [
        r#""PACKET_ACTION": "DISABLE_ARS_FORWARDING""#,
        r#""PACKET_ACTION": "FORWARD", "DISABLE_ARS_FORWARDING": "true""#,
    ] {
        let balancing = resolve_balancing(&format!(
            r#""ACL_TABLE": {{"T": {{"type": "L3", "stage": "ingress", "ports": ["Ethernet0"]}}}},
               "ACL_RULE": {{"T|A": {{"PRIORITY": "5", "DSCP": "10", {rule}}}, "T|B": {{"PRIORITY": "9", "DSCP": "11", "PACKET_ACTION": "FORWARD"}}}}"#
        ));
        let [table] = balancing.exempt.as_slice() else {
            panic!("one table for {rule}")
        };
        assert_eq!(table.ports, [0]);
        let rules: Vec<_> = table.rules.iter().map(|rule| (rule.dscp, rule.exempts)).collect();
        assert_eq!(rules, [(Some(11), false), (Some(10), true)], "{rule}");
    }
    let config = load_config(
        &router_config(
            r#""ACL_TABLE": {"T": {"type": "L3", "ports": ["Ethernet0"]}}, "ACL_RULE": {"T|A": {"PRIORITY": "5", "PACKET_ACTION": "DISABLE_TRIM"}}"#,
        ),
        PORTS,
    );
    assert!(config.balancing.exempt.is_empty(), "that is another exemption");
}

#[test]
fn invalid_ars_entries_are_refused() {
    const OBJECT: &str = r#""ARS_OBJECT": {"o": {}}"#;
    for (tables, line) in [
        (
            r#""ARS_OBJECT": {"o": {"flowlet_idle_time": "0"}}"#.to_owned(),
            r#"ARS_OBJECT|o flowlet_idle_time "0": expected a whole number of us from 2 to 2047"#,
        ),
        (
            r#""ARS_OBJECT": {"o": {"flowlet_idle_time": "2048"}}"#.to_owned(),
            r#"ARS_OBJECT|o flowlet_idle_time "2048": expected a whole number of us from 2 to 2047"#,
        ),
        (
            r#""ARS_OBJECT": {"o": {"assign_mode": "per_packet"}}"#.to_owned(),
            r#"ARS_OBJECT|o assign_mode "per_packet": expected per_flowlet_quality or per_packet_quality"#,
        ),
        (
            format!(r#""ARS_PROFILE": {{"p": {{"default_ars_object": "x"}}}}, {OBJECT}"#),
            r#"ARS_PROFILE|p default_ars_object "x": ARS_OBJECT has no entry x; add x to ARS_OBJECT"#,
        ),
        (
            format!(r#""ARS_PROFILE": {{"p": {{}}, "q": {{}}}}, {OBJECT}"#),
            "ARS_PROFILE|q: there is a profile p already, and only one profile is possible; remove one of the two",
        ),
        (
            format!(r#""ARS_PROFILE": {{"p": {{}}}}, {OBJECT}, "ARS_INTERFACES": {{"Ethernet0": {{}}}}"#),
            "ARS_INTERFACES|Ethernet0 ars_obj_name: the field is missing: it selects how flows are assigned; name an entry \
             of ARS_OBJECT here, or in ARS_PROFILE default_ars_object",
        ),
        (
            format!(
                r#""ARS_PROFILE": {{"p": {{"default_ars_object": "o", "past_load_weight": "0", "future_load_weight": "0"}}}}, {OBJECT}"#
            ),
            "ARS_PROFILE|p: the sum of the weights is 0, so all links would have the same quality; set past_load_weight \
             or future_load_weight to at least 1",
        ),
        (
            format!(
                r#""ARS_PROFILE": {{"p": {{"default_ars_object": "o", "past_load_min_value": "9"}}}}, {OBJECT}"#
            ),
            "ARS_PROFILE|p past_load_min_value: 9 is not below past_load_max_value 0; use a smaller value",
        ),
        (
            format!(
                r#""ARS_PROFILE": {{"p": {{"default_ars_object": "o"}}}}, {OBJECT}, "ARS_NEXTHOPS": {{"Vrf1|10.1.0.1": {{}}}}"#
            ),
            "ARS_NEXTHOPS|Vrf1|10.1.0.1: VRFs are not implemented, expected default|10.1.0.1",
        ),
        (
            format!(
                r#""ARS_PROFILE": {{"p": {{"default_ars_object": "o"}}}}, {OBJECT}, "ARS_INTERFACES": {{"Ethernet5": {{}}}}"#
            ),
            "ARS_INTERFACES|Ethernet5: there is no port Ethernet5; add it to PORT, or name it on the command line (--port)",
        ),
    ] {
        assert_eq!(load_errors(&router_config(&tables), PORTS), [line], "{tables}");
    }
}

#[test]
fn ars_fields_without_effect_are_noted() {
    assert_eq!(
        load_warnings(
            &router_config(
                r#""ARS_PROFILE": {"p": {"ars_nhg_path_selector_mode": "nexthop", "default_ars_object": "o", "max_flows": "9"}},
                   "ARS_OBJECT": {"o": {"max_flows": "300"}},
                   "ARS_INTERFACES": {"Ethernet0": {"ars_obj_name": "o"}}, "ARS_NEXTHOPS": {"default|10.1.0.1": {}}"#
            ),
            PORTS
        ),
        [
            "no effect: ARS_PROFILE max_flows \"9\" (each group has its own flow table (ARS_OBJECT max_flows))",
            "ARS_INTERFACES|Ethernet0: ars_obj_name \"o\" has no effect: ars_nhg_path_selector_mode is nexthop",
            "ARS_OBJECT|o: max_flows 300: the flow table of each group has 512 entries",
        ]
    );
    assert_eq!(
        load_warnings(
            &router_config(r#""ARS_OBJECT": {"o": {}}, "ARS_INTERFACES": {"Ethernet0": {}}"#),
            PORTS
        ),
        [
            "ARS_INTERFACES|Ethernet0: no effect: there is no ARS_PROFILE",
            "ARS_OBJECT|o: no effect: there is no ARS_PROFILE",
        ]
    );
}

#[test]
fn ars_tables_are_written_as_read() {
    let text = router_config(
        r#""ARS_PROFILE": {"p": {"default_ars_object": "o"}}, "ARS_OBJECT": {"o": {"max_flows": "1024"}},
           "XOFF_LB": {"global": {"scheme": "mine", "advertise_ports": "Ethernet0,Ethernet4"}},
           "XOFF_LB_SCHEME": {"mine": {"scheme": "conga"}}, "XOFF_LB_SITE": {"10.2.0.0/24": {"site": "2"}}"#,
    );
    let loaded = load_text(&text, PORTS).unwrap_or_else(|problems| panic!("{problems}"));
    let again = parse(&loaded.db.to_json(), "again").unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(loaded.db, again);
}
