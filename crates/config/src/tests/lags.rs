//! Tests of `PORTCHANNEL`, `PORTCHANNEL_MEMBER` and LAGs in VLANs.

use xoff_dataplane::config::{BridgingConfig, LagConfig, TaggingMode, VlanMemberConfig};

use super::{load_config, load_errors, load_warnings};

const PORTS: [&str; 3] = ["Ethernet0", "Ethernet4", "Ethernet8"];

#[test]
fn lags_and_members_are_resolved() {
    let text = r#"{"PORTCHANNEL": {
            "PortChannel10": {"admin_status": "down", "static": "true", "min_links": "2", "mtu": "9100"},
            "PortChannel2": {"admin_status": "up", "static": "true", "description": "spine"}},
        "PORTCHANNEL_MEMBER": {"PortChannel10|Ethernet8": {}, "PortChannel10|Ethernet4": {}, "PortChannel2|Ethernet0": {}},
        "VLAN": {"Vlan10": {}},
        "VLAN_MEMBER": {"Vlan10|PortChannel2": {"tagging_mode": "untagged"}, "Vlan10|PortChannel10": {"tagging_mode": "tagged"}}}"#;
    let config = load_config(text, &PORTS);
    assert_eq!(
        config.lags,
        [
            LagConfig {
                name: "PortChannel2".to_owned(),
                admin_up: true,
                min_links: 1,
                members: vec![0]
            },
            LagConfig {
                name: "PortChannel10".to_owned(),
                admin_up: false,
                min_links: 2,
                members: vec![1, 2]
            },
        ]
    );
    let BridgingConfig::Vlans(vlans) = &config.bridging else {
        panic!("VLANs")
    };
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    assert_eq!(
        vlans[0].members,
        [member(3, TaggingMode::Untagged), member(4, TaggingMode::Tagged)]
    );
    assert_eq!(
        config.ports.iter().map(|port| port.mtu).collect::<Vec<_>>(),
        [1_500, 9_100, 9_100],
        "members have the MTU of their LAG"
    );
    assert_eq!(load_warnings(text, &PORTS), Vec::<String>::new());
}

#[test]
fn missing_lacp_is_noted() {
    let text = r#"{"PORTCHANNEL": {
            "PortChannel1": {"admin_status": "up", "fast_rate": "true", "lacp_key": "auto", "fallback": "false", "min_links": "2"},
            "PortChannel0002": {"admin_status": "up", "static": "true"}},
        "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}}}"#;
    assert_eq!(
        load_warnings(text, &PORTS),
        [
            "no effect: PORTCHANNEL fast_rate \"true\", PORTCHANNEL lacp_key (LACP is not implemented and a member is \
             active while its link is up)",
            "PORTCHANNEL|PortChannel1: LACP is not implemented: a member is active while its link is up, even if its peer \
             does not agree; set static to \"true\" to suppress this note",
            "PORTCHANNEL|PortChannel1: min_links 2 exceeds the number of members, 1: the LAG is never up",
            "PORTCHANNEL|PortChannel0002: the LAG has no member and is never up",
        ]
    );
}

#[test]
fn invalid_lags_and_members_are_refused() {
    let up = r#"{"admin_status": "up"}"#;
    let lag = format!(r#""PORTCHANNEL": {{"PortChannel1": {up}, "PortChannel2": {up}}}"#);
    let cases = [
        (
            r#""PORTCHANNEL": {"PortChannel12345": {"admin_status": "up"}}"#.to_owned(),
            "PORTCHANNEL|PortChannel12345: \"PortChannel12345\" in the key: expected a LAG from PortChannel0 to \
             PortChannel9999",
        ),
        (
            r#""PORTCHANNEL": {"PortChannel1": {}}"#.to_owned(),
            "PORTCHANNEL|PortChannel1 admin_status: the field is missing",
        ),
        (
            r#""PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "min_links": "0"}}"#.to_owned(),
            "PORTCHANNEL|PortChannel1 min_links \"0\": expected a whole number from 1 to 1024",
        ),
        (
            r#""PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}}"#.to_owned(),
            "PORTCHANNEL_MEMBER|PortChannel1|Ethernet0: there is no LAG PortChannel1; add PortChannel1 to PORTCHANNEL",
        ),
        (
            lag.clone() + r#", "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet1": {}}"#,
            "PORTCHANNEL_MEMBER|PortChannel1|Ethernet1: there is no port Ethernet1; add it to PORT, or \
             name it on the command line (--port)",
        ),
        (
            lag.clone()
                + r#", "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}, "PortChannel2|Ethernet0": {}}"#,
            "PORTCHANNEL_MEMBER|PortChannel2|Ethernet0: Ethernet0 is a member of PortChannel1 already; remove one of \
             the two",
        ),
        (
            lag.clone()
                + r#", "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}, "PortChannel1|Ethernet4": {}},
                "PORT": {"Ethernet4": {"speed": "25000"}}"#,
            "PORTCHANNEL_MEMBER|PortChannel1|Ethernet4: Ethernet4 has 25000 Mb/s, but Ethernet0 of the same LAG has 1000 Mb/s; \
             give all members one speed",
        ),
    ];
    assert_all_refused(&cases);
}

#[test]
fn lags_contradicting_other_tables_are_refused() {
    let up = r#"{"admin_status": "up"}"#;
    let lag = format!(r#""PORTCHANNEL": {{"PortChannel1": {up}, "PortChannel2": {up}}}"#);
    let cases = [
        (
            lag.clone()
                + r#", "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}}, "INTERFACE": {"Ethernet0": {}}"#,
            "PORTCHANNEL_MEMBER|PortChannel1|Ethernet0: Ethernet0 is a routed port with an entry in INTERFACE; remove it there; \
             PORTCHANNEL_INTERFACE|PortChannel1 makes the LAG an interface",
        ),
        (
            lag.clone()
                + r#", "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}}, "VLAN": {"Vlan10": {}},
                "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "tagged"}}"#,
            "VLAN_MEMBER|Vlan10|Ethernet0: Ethernet0 is a member of PortChannel1; make the LAG the member",
        ),
        (
            lag.clone()
                + r#", "PORTCHANNEL_INTERFACE": {"PortChannel1": {}}, "VLAN": {"Vlan10": {}},
                "VLAN_MEMBER": {"Vlan10|PortChannel1": {"tagging_mode": "tagged"}}"#,
            "VLAN_MEMBER|Vlan10|PortChannel1: PortChannel1 is a routed LAG with an entry in PORTCHANNEL_INTERFACE; remove one of \
             the two",
        ),
        (
            lag.clone() + r#", "PORT_QOS_MAP": {"PortChannel1": {"pfc_enable": "3"}}"#,
            "PORT_QOS_MAP|PortChannel1: PortChannel1 is a LAG, but this table is for ports; name its members instead",
        ),
        (
            r#""PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "mtu": "9100"}},
                "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet0": {}}, "PORT": {"Ethernet0": {"mtu": "1500"}}"#
                .to_owned(),
            "PORT|Ethernet0 mtu \"1500\": PortChannel1, the LAG of this port, has mtu 9100; make them equal, \
             or remove the mtu of the port",
        ),
        (
            r#""PORT": {"PortChannel1": {}}"#.to_owned(),
            "PORT|PortChannel1: a port cannot have the name of a VLAN, a LAG or a loopback interface; rename \
             it, for example to EthernetN",
        ),
    ];
    assert_all_refused(&cases);
}

/// Asserts that each of these tables is refused with exactly this message.
#[track_caller]
fn assert_all_refused(cases: &[(String, &str)]) {
    for (text, line) in cases {
        assert_eq!(
            load_errors(&format!("{{{text}}}"), &["Ethernet0", "Ethernet4"]),
            [*line],
            "{text}"
        );
    }
}
