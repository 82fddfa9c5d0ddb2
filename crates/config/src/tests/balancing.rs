//! Tests of the tables `XOFF_LB...` for load balancing.

use xoff_dataplane::config::{
    AdvertiseConfig, HashFields, MemberSelection, RebalanceRule, SchemeConfig, SchemeKind, SwitchConfig,
};
use xoff_dataplane::route::RouteTag;
use xoff_units::Picos;

use super::{load_config, load_errors, load_warnings};
use crate::balancing::{BUILT_IN_SCHEMES, built_in_scheme};

/// A router with several ports, a network on each port, a route through two ports, and additional tables.
fn router_config(tables: &str) -> String {
    format!(
        r#"{{"INTERFACE": {{"Ethernet0": {{}}, "Ethernet0|10.1.0.0/31": {{}}, "Ethernet4": {{}}, "Ethernet4|10.1.0.2/31": {{}}}},
            "STATIC_ROUTE": {{"10.2.0.0/24": {{"nexthop": "10.1.0.1,10.1.0.3"}}, "10.2.1.0/24": {{"nexthop": "10.1.0.1,10.1.0.3"}}}},
            {tables}}}"#
    )
}

const PORTS: &[&str] = &["Ethernet0", "Ethernet4"];

#[track_caller]
fn scheme_names(config: &SwitchConfig) -> Vec<&str> {
    config
        .balancing
        .schemes
        .iter()
        .map(|scheme| scheme.name.as_str())
        .collect()
}

fn route_tags(config: &SwitchConfig) -> Vec<RouteTag> {
    let routes = config
        .routing
        .fib
        .routes()
        .filter(|(route, _)| route.prefix.to_string().starts_with("10.2."));
    routes.map(|(route, _)| route.tag).collect()
}

fn resolve_scheme(fields: &str) -> SchemeConfig {
    let text = router_config(&format!(
        r#""XOFF_LB": {{"global": {{"scheme": "mine"}}}}, "XOFF_LB_SCHEME": {{"mine": {fields}}}"#
    ));
    let config = load_config(&text, PORTS);
    assert_eq!(config.balancing.default_scheme, Some(0), "{fields}");
    config.balancing.schemes[0].clone()
}

#[test]
fn default_configuration_has_no_schemes() {
    for tables in [
        r#""XOFF_LB": {}"#,
        r#""XOFF_LB": {"global": {"scheme": "ecmp"}}"#,
        r#""XOFF_LB_SITE": {"10.2.0.0/24": {"site": "7"}}"#,
    ] {
        let config = load_config(&router_config(tables), PORTS);
        assert!(config.balancing.schemes.is_empty(), "{tables}");
        assert_eq!(
            (config.balancing.default_scheme, config.balancing.moves_kept),
            (None, 0),
            "{tables}"
        );
        // Sites without a scheme do not split groups.
        assert_eq!(route_tags(&config), [RouteTag::default(); 2], "{tables}");
    }
}

#[test]
fn built_in_schemes_need_no_entry() {
    for known in BUILT_IN_SCHEMES.iter().filter(|known| known.name != "ecmp") {
        let text = router_config(&format!(
            r#""XOFF_LB": {{"global": {{"scheme": "{}", "advertise_ports": "Ethernet4"}}}}"#,
            known.name
        ));
        let config = load_config(&text, PORTS);
        assert_eq!(
            config.balancing.schemes,
            [known.default_config()],
            "{}",
            known.name
        );
        assert_eq!(
            config.balancing.advertise.map(|told| told.loads),
            Some(known.uses_remote_load),
            "{}",
            known.name
        );
        assert_eq!(load_warnings(&text, PORTS), [""; 0], "{}", known.name);
    }
}

#[test]
fn scheme_parameters_are_applied() {
    assert_eq!(
        resolve_scheme(
            r#"{"scheme": "global", "hash_fields": "five-tuple-qp", "idle_time": "50", "flowset_size": "1024", "quality_delta": "2",
                "probability": "50", "remote_weight": "30", "primary_threshold": "5", "alternate_cost": "2"}"#
        ),
        SchemeConfig {
            hash: HashFields::FiveTupleQp,
            flowset_entries: 1024,
            primary_threshold: 5,
            alternate_cost: 2,
            ..SchemeConfig::new(
                "mine",
                SchemeKind::Flowlet {
                    idle: Picos::from_micros(50),
                    pick: MemberSelection::Global { remote_percent: 30 },
                    rebalance: Some(RebalanceRule {
                        quality_delta: 2,
                        probability: 1 << 31,
                    }),
                }
            )
        }
    );
    let drill = resolve_scheme(r#"{"scheme": "drill", "samples": "4", "memory": "0"}"#);
    assert_eq!(
        drill.kind,
        SchemeKind::Drill {
            samples: 4,
            memory: 0
        }
    );
    let cluster = resolve_scheme(r#"{"scheme": "cluster", "flows_max": "1000", "idle_time": "5000"}"#);
    let idle = Picos::from_millis(5);
    assert_eq!(
        cluster.kind,
        SchemeKind::Cluster {
            flows_max: 1000,
            idle
        }
    );
}

#[test]
fn idle_time_zero_is_accepted() {
    let SchemeKind::Flowlet { idle, .. } = resolve_scheme(r#"{"scheme": "flowlet", "idle_time": "0"}"#).kind
    else {
        panic!("no flowlets");
    };
    assert_eq!(idle, Picos::ZERO);
}

#[test]
fn entry_with_a_built_in_name_changes_the_built_in_scheme() {
    let text = router_config(
        r#""XOFF_LB": {"global": {"scheme": "letflow"}}, "XOFF_LB_SCHEME": {"letflow": {"idle_time": "7"}, "ecmp": {"hash_fields": "symmetric"}},
           "XOFF_LB_GROUP": {"10.2.0.0/16": {"scheme": "ecmp"}}"#,
    );
    let config = load_config(&text, PORTS);
    assert_eq!(scheme_names(&config), ["letflow", "ecmp"]);
    assert_eq!(config.balancing.schemes[1].hash, HashFields::Symmetric);
    let SchemeKind::Flowlet { idle, .. } = config.balancing.schemes[0].kind else {
        panic!("no flowlets");
    };
    assert_eq!(idle, Picos::from_micros(7));
}

#[test]
fn longest_matching_prefix_selects_scheme_and_site() {
    let text = router_config(
        r#""XOFF_LB_GROUP": {"0.0.0.0/0": {"scheme": "drill"}, "10.2.1.0/24": {"scheme": "round-robin"}, "10.2.1.0/25": {"scheme": "ecmp"}},
           "XOFF_LB_SITE": {"10.2.0.0/23": {"site": "3"}}"#,
    );
    let config = load_config(&text, PORTS);
    // A scheme without routes is not in the list of used schemes.
    assert_eq!(scheme_names(&config), ["drill", "round-robin", "ecmp"]);
    let tag = |scheme| RouteTag {
        site: 3,
        scheme: Some(scheme),
    };
    assert_eq!(route_tags(&config), [tag(0), tag(1)]);
    assert_eq!(config.balancing.moves_kept, 256);
}

#[test]
fn advertise_fields_are_resolved() {
    let advertise = |fields: &str| {
        let text = router_config(&format!(r#""XOFF_LB": {{"global": {{{fields}}}}}"#));
        load_config(&text, PORTS).balancing.advertise
    };
    let told = Some(AdvertiseConfig {
        interval: Picos::from_micros(16),
        ports: vec![0, 1],
        loads: true,
    });
    assert_eq!(
        advertise(r#""scheme": "conga", "advertise_ports": "Ethernet4,Ethernet0""#),
        told
    );
    assert_eq!(
        advertise(r#""advertise": "on", "advertise_ports": ["Ethernet0", "Ethernet4"]"#),
        told
    );
    assert_eq!(
        advertise(r#""scheme": "conga", "advertise": "off", "advertise_ports": "Ethernet0""#),
        None
    );
    let ways = AdvertiseConfig {
        interval: Picos::from_micros(16),
        ports: vec![0],
        loads: false,
    };
    for said in [
        "",
        r#""scheme": "flowlet", "#,
        r#""scheme": "conga", "advertise": "ways", "#,
    ] {
        let told = advertise(&format!(r#"{said}"advertise_ports": "Ethernet0""#));
        assert_eq!(told.as_ref(), Some(&ways), "{said}");
    }
    assert_eq!(advertise(r#""advertise": "ways""#), None, "nobody is there");
    let own = advertise(r#""advertise": "on", "advertise_ports": "Ethernet0", "advertise_interval": "40""#);
    assert_eq!(own.map(|own| own.interval), Some(Picos::from_micros(40)));
    assert_eq!(
        load_warnings(
            &router_config(r#""XOFF_LB": {"global": {"scheme": "conga"}}"#),
            PORTS
        ),
        ["XOFF_LB|global: no link quality messages are sent: advertise_ports is empty"]
    );
}

#[test]
fn load_fields_are_resolved() {
    let text = router_config(
        r#""XOFF_LB_LOAD": {"global": {"sampling_interval": "50", "exponent": "4", "instant_drop": "true", "past_weight": "1",
           "past_min": "0", "past_max": "1000", "future_weight": "0", "current_weight": "3", "current_min": "10"}}"#,
    );
    let load = load_config(&text, PORTS).balancing.load;
    assert_eq!(
        (load.interval, load.exponent, load.instant_drop),
        (Picos::from_micros(50), 4, true)
    );
    let figures = [load.past, load.future, load.current].map(|m| (m.weight, m.min_permille, m.max_permille));
    assert_eq!(figures, [(1, 0, 1000), (0, 200, 800), (3, 10, 800)]);
}

#[test]
fn lag_scheme_is_resolved() {
    let text = r#"{"PORTCHANNEL": {"PortChannel1": {"admin_status": "up"}, "PortChannel2": {"admin_status": "up"}},
                   "PORTCHANNEL_MEMBER": {"PortChannel2|Ethernet0": {}, "PortChannel2|Ethernet4": {}},
                   "XOFF_LB_PORTCHANNEL": {"PortChannel2": {"scheme": "round-robin"}}}"#;
    let config = load_config(text, PORTS);
    assert_eq!(config.balancing.lags, [None, Some(0)]);
    assert_eq!(scheme_names(&config), ["round-robin"]);
}

#[test]
fn invalid_load_balancing_entries_are_refused() {
    for (tables, line) in [
        (
            r#""XOFF_LB": {"global": {"scheme": "flowlets"}}"#,
            r#"XOFF_LB|global scheme "flowlets": there is no load-balancing scheme flowlets; did you mean flowlet?"#,
        ),
        (
            r#""XOFF_LB_GROUP": {"10.2.0.0/16": {"scheme": "min"}}, "XOFF_LB_SCHEME": {"mine": {"scheme": "drill"}}"#,
            r#"XOFF_LB_GROUP|10.2.0.0/16 scheme "min": there is no load-balancing scheme min; did you mean mine?"#,
        ),
        (
            r#""XOFF_LB_SCHEME": {"mine": {"idle_time": "5"}}"#,
            "XOFF_LB_SCHEME|mine scheme: the field is missing: it selects the built-in scheme; one of ecmp, ecmp-qp, \
             symmetric, flowlet, letflow, per-packet, fixed, round-robin, random, drill, conga, global, cluster",
        ),
        (
            r#""XOFF_LB_SCHEME": {"flowlet": {"flowset_size": "1000"}}"#,
            r#"XOFF_LB_SCHEME|flowlet flowset_size "1000": expected a power of two from 256 to 32768; write 1024"#,
        ),
        (
            r#""XOFF_LB_GROUP": {"10.2.0.1/16": {"scheme": "drill"}}"#,
            "XOFF_LB_GROUP|10.2.0.1/16: 10.2.0.1/16 has bits set beyond its prefix length of 16; write 10.2.0.0/16",
        ),
        (
            r#""XOFF_LB_LOAD": {"global": {"past_weight": "0", "future_weight": "0"}}"#,
            "XOFF_LB_LOAD|global: the sum of the weights is 0, so all links would have the same quality; set \
             past_weight, future_weight or current_weight to at least 1",
        ),
        (
            r#""XOFF_LB_LOAD": {"global": {"past_min": "800"}}"#,
            "XOFF_LB_LOAD|global past_min: past_min 800 is not below past_max 800; use a smaller value",
        ),
        (
            r#""XOFF_LB": {"global": {"advertise_ports": "Ethernet5"}}"#,
            "XOFF_LB|global advertise_ports \"Ethernet5\": there is no port Ethernet5; add it to PORT, or remove it from \
             the list",
        ),
        (
            r#""XOFF_LB_SITE": {"10.2.0.0/16": {"site": "0"}}"#,
            r#"XOFF_LB_SITE|10.2.0.0/16 site "0": expected a whole number from 1 to 65535"#,
        ),
    ] {
        assert_eq!(load_errors(&router_config(tables), PORTS), [line], "{tables}");
    }
}

#[test]
fn unsupported_scheme_parameters_are_noted() {
    let tables = r#""XOFF_LB_SCHEME": {"a": {"scheme": "round-robin", "idle_time": "5"}, "b": {"scheme": "drill", "idle_time": "5"},
                    "c": {"scheme": "flowlet", "probability": "5"}}"#;
    assert_eq!(
        load_warnings(&router_config(tables), PORTS),
        [
            "XOFF_LB_SCHEME|a: idle_time has no effect: round-robin has no parameters",
            "XOFF_LB_SCHEME|b: idle_time has no effect: the parameters of drill are samples, memory",
            "XOFF_LB_SCHEME|c: probability has no effect: quality_delta is 0",
        ]
    );
    assert!(built_in_scheme("own").is_none());
}

/// SONiC configures the scheme `ecmp-qp` with a list of hash fields.
#[test]
fn hash_field_list_with_queue_pair_selects_ecmp_qp() {
    let hashed = |lists: &str| {
        let text = format!(
            r#"{{"PORTCHANNEL": {{"PortChannel1": {{"admin_status": "up", "static": "true"}}}},
                "PORTCHANNEL_MEMBER": {{"PortChannel1|Ethernet0": {{}}}}, "SWITCH_HASH": {{"GLOBAL": {{{lists}}}}}}}"#
        );
        assert_eq!(load_warnings(&text, PORTS), [""; 0], "{lists}");
        let balancing = load_config(&text, PORTS).balancing;
        let name = |index: Option<u16>| index.map(|index| balancing.schemes[usize::from(index)].name.clone());
        let lag = balancing.lags.first().copied().flatten();
        (name(balancing.default_scheme), name(lag))
    };
    let five = r#"["SRC_IP", "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT", "L4_DST_PORT"]"#;
    let six = r#"["SRC_IP", "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT", "L4_DST_PORT", "RDMA_BTH_DEST_QP"]"#;
    let (ecmp, qp) = (Some("ecmp".to_owned()), Some("ecmp-qp".to_owned()));
    assert_eq!(hashed(&format!(r#""ecmp_hash": {five}"#)), (None, None));
    assert_eq!(hashed(&format!(r#""ecmp_hash": {six}"#)), (qp.clone(), ecmp));
    assert_eq!(
        hashed(&format!(r#""lag_hash_ipv4_rdma": {six}"#)),
        (None, qp.clone())
    );
    assert_eq!(
        hashed(&format!(r#""ecmp_hash_ipv6_rdma": {six}, "lag_hash": {six}"#)),
        (qp.clone(), qp)
    );
}
