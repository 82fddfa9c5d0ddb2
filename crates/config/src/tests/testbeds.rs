//! Tests of the configurations in `testbeds/`.

use xoff_dataplane::config::{BridgingConfig, BufferThreshold, SchedulingMode, TrustMode};
use xoff_dataplane::route::RouteTarget;
use xoff_units::Picos;

use super::resolve_options;
use crate::{load, merge_layers, parse, resolve};

const INCAST: &str = include_str!("../../../../testbeds/incast.config_db.json");
const NO_PFC: &str = include_str!("../../../../testbeds/no-pfc.config_db.json");
const ROUTED: &str = include_str!("../../../../testbeds/routed/config_db.json");
const PORTS: [&str; 5] = ["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12", "Ethernet16"];

#[test]
fn incast_testbed_resolves() {
    let loaded = load(&[("incast", INCAST)], &resolve_options(&PORTS)).expect("a valid configuration");
    assert_eq!(loaded.resolved.warnings, Vec::<String>::new());
    let config = loaded.resolved.config;
    assert_eq!(
        config
            .ports
            .iter()
            .map(|port| port.name.as_str())
            .collect::<Vec<_>>(),
        PORTS
    );
    assert_eq!(
        (config.name.as_str(), config.cell_bytes, config.bridging),
        ("incast", 256, BridgingConfig::Transparent)
    );
    let profile = |index: u16| &config.profiles[usize::from(index)];
    for (index, port) in config.ports.iter().enumerate() {
        assert!(port.admin_up);
        assert_eq!((port.link.speed_mbps, port.mtu), (1_000, 1_500));
        assert_eq!(port.mac, [2, 0, 0, 0, 0x10, 1 + index as u8]);
        assert_eq!(port.classify.trust, TrustMode::Dscp);
        let class = |dscp: usize| port.classify.dscp_to_tc[dscp];
        assert_eq!((class(26), class(8), class(0), class(63)), (3, 0, 0, 0));
        assert_eq!((port.classify.tc_to_pg[3], port.classify.tc_to_queue[3]), (3, 3));
        assert_eq!(
            (
                port.pfc.enabled,
                port.pfc.priority_to_queue[3],
                port.pfc.priority_to_pg[3]
            ),
            (8, 3, 3)
        );
        // 65535 quanta of 512 ns less the reaction budget of 20 ms is shorter than half of the pause.
        assert_eq!(port.pfc.refresh, Picos(33_553_920_000 - 20_000_000_000));
        assert_eq!(profile(port.pgs[3]).threshold, BufferThreshold::Dynamic(0));
        assert_eq!(profile(port.pgs[3]).xoff_bytes, 3_145_728);
        assert_eq!(profile(port.pgs[0]).xoff_bytes, 0);
        assert_eq!(port.queues[0].schedule, SchedulingMode::Dwrr { weight: 14 });
        assert_eq!(port.queues[3].schedule, SchedulingMode::Dwrr { weight: 14 });
        assert!(
            port.queues
                .iter()
                .all(|queue| queue.wred.is_none() && queue.shaper.is_none())
        );
    }
    assert_eq!(config.pools.len(), 4, "nothing falls back to the built-in pools");
}

#[test]
fn no_pfc_layer_only_disables_pfc() {
    let layers = [parse(INCAST, "incast").unwrap(), parse(NO_PFC, "no-pfc").unwrap()];
    let with = resolve(&layers[0], &resolve_options(&PORTS)).unwrap().config;
    let mut without = resolve(&merge_layers(&layers), &resolve_options(&PORTS)).unwrap();
    assert_eq!(without.warnings.len(), 1, "{:?}", without.warnings);
    assert!(without.warnings[0].contains("no priority in pfc_enable signals its XOFF"));
    for port in &mut without.config.ports {
        assert_eq!(port.pfc.enabled, 0);
        port.pfc.enabled = 8;
    }
    assert_eq!(without.config, with);
}

#[test]
fn testbeds_are_in_canonical_form() {
    assert_eq!(parse(INCAST, "").unwrap().to_json(), INCAST);
    assert_eq!(parse(NO_PFC, "").unwrap().to_json(), NO_PFC);
    assert_eq!(parse(ROUTED, "").unwrap().to_json(), ROUTED);
}

#[test]
fn routed_testbed_resolves_without_warnings() {
    let loaded = load(&[("routed", ROUTED)], &resolve_options(&PORTS[..4])).expect("a valid configuration");
    assert_eq!(loaded.resolved.warnings, Vec::<String>::new());
    let config = loaded.resolved.config;
    let names: Vec<&str> = config
        .routing
        .interfaces
        .iter()
        .map(|i| i.name.as_str())
        .collect();
    assert_eq!(names, ["Ethernet0", "Ethernet4", "Loopback0", "Vlan100"]);
    assert!(
        config
            .routing
            .interfaces
            .iter()
            .all(|interface| interface.mtu >= 9_100)
    );
    let prefixes: Vec<String> = loaded
        .resolved
        .static_routes
        .iter()
        .map(|route| route.prefix.to_string())
        .collect();
    assert_eq!(
        prefixes,
        ["0.0.0.0/0", "10.2.0.0/16", "198.18.0.0/15", "2001:db8:2::/48"]
    );
    let RouteTarget::Via(paths) = &loaded.resolved.static_routes[1].target else {
        panic!("{:?}", loaded.resolved.static_routes[1])
    };
    assert_eq!(paths.iter().map(|path| path.weight).collect::<Vec<_>>(), [2, 1]);
}
