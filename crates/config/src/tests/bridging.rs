//! `VLAN`, `VLAN_MEMBER`, and what INTERFACE does to them.

use xoff_dataplane::config::{BridgingConfig, TaggingMode, VlanConfig, VlanMemberConfig};

use super::{assert_each_refused, load_config, load_warnings};

#[test]
fn vlans_and_members_are_resolved() {
    let config = load_config(
        r#"{"VLAN": {"Vlan200": {"vlanid": "200"}, "Vlan30": {}},
            "VLAN_MEMBER": {"Vlan200|Ethernet4": {"tagging_mode": "tagged"},
                            "Vlan30|Ethernet4": {"tagging_mode": "priority_tagged"},
                            "Vlan30|Ethernet0": {"tagging_mode": "untagged"}}}"#,
        &["Ethernet0", "Ethernet4"],
    );
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    assert_eq!(
        config.bridging,
        BridgingConfig::Vlans(vec![
            VlanConfig {
                id: 30,
                members: vec![
                    member(0, TaggingMode::Untagged),
                    member(1, TaggingMode::PriorityTagged)
                ]
            },
            VlanConfig {
                id: 200,
                members: vec![member(1, TaggingMode::Tagged)]
            },
        ])
    );
}

#[test]
fn invalid_vlans_and_members_are_refused() {
    assert_each_refused(&[
        (
            r#"{"VLAN": {"Vlan1": {}}}"#,
            r#"VLAN|Vlan1: "Vlan1" in the key: expected a VLAN from Vlan2 to Vlan4094"#,
        ),
        (
            r#"{"VLAN": {"Vlan10": {"vlanid": "11"}}}"#,
            r#"VLAN|Vlan10 vlanid "11": expected 10, as in the key"#,
        ),
        (
            r#"{"VLAN": {"Vlan10": {}}, "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "trunk"}}}"#,
            "VLAN_MEMBER|Vlan10|Ethernet0 tagging_mode \"trunk\": expected tagged, untagged or priority_tagged",
        ),
        (
            r#"{"VLAN": {"Vlan10": {}}, "VLAN_MEMBER": {"Vlan10|Ethernet0": {}}}"#,
            "VLAN_MEMBER|Vlan10|Ethernet0 tagging_mode: the field is missing",
        ),
        (
            r#"{"VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "tagged"}}}"#,
            "VLAN_MEMBER|Vlan10|Ethernet0: there is no VLAN Vlan10; add Vlan10 to VLAN",
        ),
        (
            r#"{"VLAN": {"Vlan10": {}, "Vlan20": {}}, "VLAN_MEMBER": {
                "Vlan10|Ethernet0": {"tagging_mode": "untagged"}, "Vlan20|Ethernet0": {"tagging_mode": "untagged"}}}"#,
            "VLAN_MEMBER|Vlan20|Ethernet0 tagging_mode: untagged frames of Ethernet0 belong to Vlan10 already; make \
             all but one tagged",
        ),
        (
            r#"{"VLAN": {"Vlan10": {}}, "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "tagged"}},
                "INTERFACE": {"Ethernet0": {}}}"#,
            "VLAN_MEMBER|Vlan10|Ethernet0: Ethernet0 is a routed port with an entry in INTERFACE; remove one of the two",
        ),
    ]);
}

#[test]
fn unused_ports_are_noted() {
    let text = r#"{"VLAN": {"Vlan10": {"mtu": "9100"}}, "PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "static": "true"}},
        "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "tagged"}},
        "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet8": {}}}"#;
    assert_eq!(
        load_warnings(text, &["Ethernet0", "Ethernet4", "Ethernet8"]),
        [
            "Ethernet4: the port is in no VLAN, LAG or INTERFACE and forwards nothing",
            "PORTCHANNEL|PortChannel1: the LAG is in no VLAN or PORTCHANNEL_INTERFACE and forwards nothing",
            "VLAN|Vlan10: mtu has no effect: the MTU of the ports limits bridged frames",
        ]
    );
}
