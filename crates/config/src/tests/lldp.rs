//! LLDP and DCBX: settings of the ports, errors and warnings.

use xoff_dataplane::config::LldpConfig;
use xoff_wire::lldp::{ApplicationEntry, ApplicationSelector, SelectionAlgorithm, capability};
use xoff_wire::lldp_port::LldpPortSettings;

use super::*;

const PORTS: [&str; 2] = ["Ethernet0", "Ethernet4"];

fn lldp(tables: &str) -> Option<LldpConfig> {
    load_config(&format!("{{{tables}}}"), &PORTS).lldp
}

/// Returns the settings of `Ethernet0` with LLDP on and these tables.
fn port_settings(tables: &str) -> LldpPortSettings {
    let tables = format!(r#""LLDP": {{"GLOBAL": {{"enabled": "true"}}}}{tables}"#);
    lldp(&tables).expect("LLDP is on").ports[0]
        .clone()
        .expect("LLDP is on at the port")
}

#[test]
fn lldp_is_off_by_default_and_can_be_turned_off() {
    assert_eq!(lldp(""), None);
    assert_eq!(lldp(r#""LLDP": {"GLOBAL": {"enabled": "false"}}"#), None);
    let off = r#""LLDP": {"GLOBAL": {}}, "LLDP_PORT": {"Ethernet4": {"enabled": "false"}}"#;
    let ports = lldp(off).expect("LLDP is on").ports;
    assert!(ports[0].is_some() && ports[1].is_none());
    for table in [
        r#""LLDP_PORT": {"Ethernet0": {}}"#,
        r#""XOFF_DCBX": {"Ethernet0": {}}"#,
    ] {
        let warnings = load_warnings(&format!("{{{table}}}"), &PORTS);
        assert!(
            warnings.iter().any(|text| text.contains("LLDP is off")),
            "{warnings:?}"
        );
    }
}

#[test]
fn frames_describe_the_switch_and_the_port() {
    let settings = port_settings(
        r#", "DEVICE_METADATA": {"localhost": {"hostname": "tor0", "mac": "02:00:00:00:10:00"}},
        "PORT": {"Ethernet0": {"alias": "etp1", "description": "to spine"}},
        "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.1.0.1/32": {}, "Loopback0|fc00::1/128": {}}"#,
    );
    let information = &settings.information;
    assert_eq!(information.chassis_id.to_string(), "02:00:00:00:10:00");
    assert_eq!(information.port_id.to_string(), "etp1");
    assert_eq!(information.port_description.as_deref(), Some("to spine"));
    assert_eq!(information.system_name.as_deref(), Some("tor0"));
    let capabilities = information.capabilities.expect("not suppressed");
    assert_eq!(capabilities.enabled, capability::BRIDGE | capability::ROUTER);
    let addresses: Vec<String> = information
        .management_addresses
        .iter()
        .map(|management| management.address.to_string())
        .collect();
    assert_eq!(addresses, ["10.1.0.1", "fc00::1"]);
    assert_eq!(
        (settings.interval_s, settings.ttl_s(), settings.dcbx),
        (30, 121, None)
    );
    assert_eq!(settings.mac, [2, 0, 0, 0, 0x10, 1]);
}

#[test]
fn global_fields_apply_to_all_ports_and_a_port_can_have_its_own_mode() {
    let tables = r#""LLDP": {"GLOBAL": {"hello_time": "5", "multiplier": "2", "mode": "RECEIVE", "system_name": "core",
        "system_description": "test", "supp_mgmt_address_tlv": "true", "supp_system_capabilities_tlv": "true"}},
        "LLDP_PORT": {"Ethernet4": {"mode": "TRANSMIT"}}"#;
    let ports = lldp(tables).expect("LLDP is on").ports;
    let modes = ports.iter().flatten().map(|port| (port.transmits, port.receives));
    assert_eq!(modes.collect::<Vec<_>>(), [(false, true), (true, false)]);
    let first = ports[0].as_ref().expect("LLDP is on");
    assert_eq!((first.interval_s, first.ttl_s()), (5, 11));
    assert_eq!(first.information.system_name.as_deref(), Some("core"));
    assert_eq!(
        (
            first.information.capabilities,
            first.information.management_addresses.len()
        ),
        (None, 0)
    );
    assert_eq!(
        load_errors(r#"{"LLDP": {"GLOBAL": {"hello_time": "4"}}}"#, &PORTS),
        [r#"LLDP|GLOBAL hello_time "4": expected a whole number of s from 5 to 254"#]
    );
}

#[test]
fn dcbx_follows_from_pfc_enable_and_the_schedulers() {
    let settings = port_settings(
        r#", "XOFF_DCBX": {"Ethernet0": {"ets_willing": "true", "pfc_capability": "2",
            "applications": "udp:4791:3,ethertype:0x8906:4,dscp:26:3"}},
        "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4", "pfc_to_queue_map": "M"}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"M": {"0": "0", "1": "0", "2": "0", "3": "3", "4": "4", "5": "0", "6": "6", "7": "0"}},
        "SCHEDULER": {"s": {"type": "STRICT"}, "one": {"type": "DWRR", "weight": "1"}, "two": {"type": "DWRR", "weight": "2"}},
        "QUEUE": {"Ethernet0|0": {"scheduler": "one"}, "Ethernet0|3-4": {"scheduler": "one"},
            "Ethernet0|6": {"scheduler": "s"}, "Ethernet0|7": {"scheduler": "two"}}"#,
    );
    let dcbx = settings.dcbx.expect("DCBX is on");
    assert_eq!(
        (dcbx.pfc.is_willing, dcbx.pfc.capability, dcbx.pfc.enabled),
        (false, 2, 0b11000)
    );
    let tables = dcbx.ets.tables;
    assert_eq!(tables.traffic_class, [0, 0, 0, 3, 4, 0, 6, 0]);
    // Three queues of equal weight. Queue 7 has no priority.
    assert_eq!(tables.bandwidth_percent, [34, 0, 0, 33, 33, 0, 0, 0]);
    let algorithms = [0, 6, 7].map(|class: usize| tables.algorithm[class]);
    let strict = SelectionAlgorithm::StrictPriority;
    assert_eq!(algorithms, [SelectionAlgorithm::Ets, strict, strict]);
    assert_eq!(
        (dcbx.ets_recommendation, dcbx.queue_of_priority),
        (Some(tables), [0, 0, 0, 3, 4, 0, 6, 0])
    );
    // The configured schedulers win.
    assert!(!dcbx.ets.is_willing);
    let entry = |priority, selector, protocol| ApplicationEntry {
        priority,
        selector,
        protocol,
    };
    assert_eq!(
        dcbx.applications,
        [
            entry(3, ApplicationSelector::UdpPort, 4791),
            entry(4, ApplicationSelector::EtherType, 0x8906),
            entry(3, ApplicationSelector::Dscp, 26)
        ]
    );
}

#[test]
fn a_configured_pfc_enable_wins() {
    let dcbx = |tables: &str| {
        let tables = format!(
            r#", "XOFF_DCBX": {{"Ethernet0": {{"pfc_willing": "true", "pfc_default": "5"}}}}{tables}"#
        );
        let pfc = port_settings(&tables).dcbx.expect("DCBX is on").pfc;
        (pfc.is_willing, pfc.enabled)
    };
    assert_eq!(dcbx(""), (true, 1 << 5));
    let qos = r#", "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}}"#;
    assert_eq!(dcbx(qos), (false, 1 << 3));
    assert_eq!(dcbx(&qos.replace('3', "")), (false, 0));
    let text = format!(
        r#"{{"LLDP": {{"GLOBAL": {{}}}}, "XOFF_DCBX": {{"Ethernet0": {{"pfc_willing": "true"}}}}{qos}}}"#
    );
    let warnings = load_warnings(&text, &PORTS);
    assert!(
        warnings
            .iter()
            .any(|text| text.starts_with("XOFF_DCBX|Ethernet0: pfc_willing has no effect, because")),
        "{warnings:?}"
    );
}

#[test]
fn configured_schedulers_win_over_a_negotiated_ets() {
    let negotiates = |field: &str, tables: &str| {
        let text = format!(
            r#"{{"LLDP": {{"GLOBAL": {{}}}}, "SCHEDULER": {{"s": {{"type": "DWRR", "weight": "3"}}}},
            "XOFF_DCBX": {{"Ethernet0": {{"ets_willing": "true"{field}}}}}{tables}}}"#
        );
        let config = load_config(&text, &PORTS);
        let lldp = config.lldp.expect("LLDP is on");
        let dcbx = lldp.ports[0].as_ref().and_then(|port| port.dcbx.as_ref());
        let shares = dcbx.map(|dcbx| dcbx.ets.tables.bandwidth_percent);
        let warnings = load_warnings(&text, &PORTS).into_iter();
        (
            dcbx.is_some_and(|dcbx| dcbx.ets.is_willing),
            shares.unwrap_or_default(),
            warnings
                .filter(|text| text.starts_with("XOFF_DCBX|Ethernet0: ets_"))
                .count(),
        )
    };
    let equal = [13, 13, 13, 13, 12, 12, 12, 12];
    assert_eq!(negotiates("", ""), (true, equal, 0));
    // A scheduler of another port, and a queue without a scheduler.
    let others = r#", "QUEUE": {"Ethernet4|3": {"scheduler": "s"}, "Ethernet0|3": {}}"#;
    assert_eq!(negotiates("", others), (true, equal, 0));
    let default = r#", "ets_default": "0:20, 3:80,1:strict,2:strict,4:strict,5:strict,6:strict,7:strict""#;
    assert_eq!(negotiates(default, ""), (true, [20, 0, 0, 80, 0, 0, 0, 0], 0));
    let own = r#", "QUEUE": {"Ethernet0|2-4": {"scheduler": "s"}}"#;
    assert_eq!(negotiates("", own), (false, [7, 7, 22, 22, 21, 7, 7, 7], 1));
    assert_eq!(negotiates(default, own), (false, [7, 7, 22, 22, 21, 7, 7, 7], 2));
}

#[test]
fn headroom_of_a_willing_port_is_no_mistake() {
    let tables = |willing: &str| {
        format!(
            r#"{{"LLDP": {{"GLOBAL": {{}}}}, "XOFF_DCBX": {{"Ethernet0": {{"pfc_willing": "{willing}"}}}},
            "BUFFER_POOL": {{"in": {{"type": "ingress", "mode": "dynamic", "size": "1000000"}}}},
            "BUFFER_PROFILE": {{"l": {{"pool": "in", "size": "0", "dynamic_th": "0", "xoff": "100000", "xon": "0"}}}},
            "BUFFER_PG": {{"Ethernet0|3": {{"profile": "l"}}}}}}"#
        )
    };
    let warns = |willing| {
        load_warnings(&tables(willing), &PORTS)
            .iter()
            .any(|text| text.contains("has headroom"))
    };
    assert_eq!((warns("false"), warns("true")), (true, false));
}

#[test]
fn contradictory_and_malformed_fields_are_errors() {
    let errors = |field: &str, tables: &str| {
        let text =
            format!(r#"{{"LLDP": {{"GLOBAL": {{}}}}, "XOFF_DCBX": {{"Ethernet0": {{{field}}}}}{tables}}}"#);
        load_errors(&text, &PORTS)
    };
    let pfc = r#", "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4"}}"#;
    assert_eq!(
        errors(r#""pfc_capability": "1""#, pfc),
        [
            r#"XOFF_DCBX|Ethernet0 pfc_capability "1": the number of priorities with PFC is 2, which exceeds this capability"#
        ]
    );
    assert_eq!(
        errors(r#""ets_capability": "7""#, ""),
        [
            r#"XOFF_DCBX|Ethernet0 ets_capability "7": the priorities of the port use queues up to 7, which exceeds this capability"#
        ]
    );
    for item in [
        "udp:4791",
        "udp:4791:8",
        "http:80:1",
        "dscp:64:3",
        "ethertype:0x5ff:3",
        "udp:1:2:3",
        "udp:x:3",
    ] {
        let found = errors(&format!(r#""applications": "tcp:1:1,{item}""#), "");
        assert!(
            found[0].starts_with(&format!(r#"XOFF_DCBX|Ethernet0 applications "{item}": expected"#)),
            "{found:?}"
        );
    }
    for schedulers in ["0", "8:1", "0:0", "0:101", "0:dwrr", "0:1,0:2", "0:1,,1:1", "x:1"] {
        let found = errors(
            &format!(r#""ets_willing": "true", "ets_default": "{schedulers}""#),
            "",
        );
        let start = format!(
            r#"XOFF_DCBX|Ethernet0 ets_default "{schedulers}": expected queue:weight or queue:strict"#
        );
        assert!(found.len() == 1 && found[0].starts_with(&start), "{found:?}");
    }
    let twice = errors(r#""applications": "udp:1:1,udp:1:2""#, "");
    assert!(
        twice[0].contains("an earlier item has the same selector and protocol"),
        "{twice:?}"
    );
}

#[test]
fn every_port_sends_a_valid_frame() {
    let settings = port_settings(
        r#", "XOFF_DCBX": {"Ethernet0": {"pfc_willing": "true", "ets_recommendation": "false"}},
        "PORT": {"Ethernet0": {"description": "é description with many characters é"}}"#,
    );
    let mut port = xoff_wire::lldp_port::LldpPort::new(settings);
    port.set_link(0, true);
    let frame = port.poll_frame(0).expect("a frame is due");
    let received = xoff_wire::lldp::Lldpdu::parse(&frame).expect("the frame is valid");
    assert!(
        received.rejected.is_empty() && received.warnings.is_empty(),
        "{received:?}"
    );
    assert_eq!(received.pdu.dcbx.ets_recommendation, None);
}
