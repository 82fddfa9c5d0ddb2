//! Tests of `INTERFACE`, `VLAN_INTERFACE`, `PORTCHANNEL_INTERFACE` and `LOOPBACK_INTERFACE`.

use xoff_dataplane::config::InterfaceAttachment;

use super::{load_config, load_errors, load_text, load_warnings};

const PORTS: [&str; 3] = ["Ethernet0", "Ethernet4", "Ethernet8"];

/// Formats each interface as one line: name, port or VLAN, MAC address, MTU and addresses.
#[track_caller]
fn interface_lines(text: &str) -> Vec<String> {
    let line = |interface: &xoff_dataplane::config::InterfaceConfig| {
        let stands_on = match interface.attachment {
            InterfaceAttachment::Port(port) => format!("port {port}"),
            InterfaceAttachment::Lag(lag) => format!("LAG {lag}"),
            InterfaceAttachment::Vlan(id) => format!("VLAN {id}"),
            InterfaceAttachment::Loopback => "-".to_owned(),
        };
        let mac: String = interface.mac.iter().map(|octet| format!("{octet:02x}")).collect();
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        format!(
            "{} on {stands_on}, {mac}, {}: {}",
            interface.name,
            interface.mtu,
            addresses.join(" ")
        )
    };
    load_config(text, &PORTS)
        .routing
        .interfaces
        .iter()
        .map(line)
        .collect()
}

#[test]
fn all_kinds_of_interfaces_are_resolved() {
    let text = r#"{
        "DEVICE_METADATA": {"localhost": {"mac": "02:00:00:00:10:00"}},
        "PORT": {"Ethernet0": {"mtu": "9100"}},
        "PORTCHANNEL": {"PortChannel1": {"admin_status": "up", "static": "true", "mtu": "4000"}},
        "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet4": {}},
        "VLAN": {"Vlan10": {}, "Vlan20": {"mtu": "1400"}},
        "VLAN_MEMBER": {"Vlan10|Ethernet8": {"tagging_mode": "tagged"}, "Vlan20|Ethernet8": {"tagging_mode": "tagged"}},
        "INTERFACE": {"Ethernet0": {"mac_addr": "02:00:00:00:20:00"}, "Ethernet0|10.0.0.1/31": {"family": "IPv4", "scope": "global"},
            "Ethernet0|10.0.1.1/24": {}},
        "VLAN_INTERFACE": {"Vlan10": {"NULL": "NULL"}, "Vlan10|192.168.0.1/21": {}, "Vlan10|FC02:1000::1/64": {"family": "IPv6"},
            "Vlan20": {"ipv6_use_link_local_only": "enable"}},
        "PORTCHANNEL_INTERFACE": {"PortChannel1": {"vrf_name": "default"}, "PortChannel1|10.0.0.56/31": {}, "PortChannel1|FC00::71/126": {}},
        "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.1.0.32/32": {}, "Loopback0|FC00:1::32/128": {}}}"#;
    assert_eq!(
        interface_lines(text),
        [
            "Ethernet0 on port 0, 020000002000, 9100: 10.0.0.1/31 10.0.1.1/24",
            "Loopback0 on -, 020000001000, 9216: 10.1.0.32/32 fc00:1::32/128",
            "PortChannel1 on LAG 0, 020000001000, 4000: 10.0.0.56/31 fc00::71/126 fe80::ff:fe00:1000/64",
            "Vlan10 on VLAN 10, 020000001000, 1500: 192.168.0.1/21 fc02:1000::1/64 fe80::ff:fe00:1000/64",
            "Vlan20 on VLAN 20, 020000001000, 1400: fe80::ff:fe00:1000/64",
        ]
    );
    assert_eq!(load_warnings(text, &PORTS), Vec::<String>::new());
}

#[test]
fn vrf_of_an_interface_is_noted_and_ignored() {
    let text = r#"{"VRF": {"Vrf1": {}}, "INTERFACE": {"Ethernet0": {"vrf_name": "Vrf1"}, "Ethernet0|10.0.0.1/24": {}}}"#;
    assert_eq!(load_config(text, &PORTS).routing.interfaces.len(), 1);
    let notes = load_warnings(text, &PORTS).join("\n");
    assert!(
        notes.contains("INTERFACE|Ethernet0: vrf_name Vrf1 has no effect: VRFs are not implemented"),
        "{notes}"
    );
}

#[test]
fn prefix_lengths_31_and_32_are_accepted() {
    let text = r#"{"INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}, "Ethernet0|2001:db8::/127": {},
            "Ethernet4": {}, "Ethernet4|10.0.0.2/32": {}, "Ethernet4|2001:db8::2/128": {},
            "Ethernet8": {}, "Ethernet8|fe80::1/64": {}},
        "LOOPBACK_INTERFACE": {"Loopback1": {}, "Loopback1|10.8.0.1/24": {}}}"#;
    let found = interface_lines(text);
    assert_eq!(found.len(), 4);
    assert!(
        found[2].contains("fe80::1/64 fe80::"),
        "a link-local address that was written stands beside the derived one: {}",
        found[2]
    );
}

#[test]
fn interface_without_an_address_is_noted() {
    let text =
        r#"{"INTERFACE": {"Ethernet0": {"nat_zone": "1", "mpls": "enable", "loopback_action": "drop"}}}"#;
    assert_eq!(
        load_warnings(text, &["Ethernet0"]),
        [
            "no effect: INTERFACE loopback_action \"drop\" (a packet may leave through its ingress interface); INTERFACE mpls \
             \"enable\" (MPLS and class-based forwarding are not implemented); INTERFACE nat_zone \"1\" (address translation \
             is not implemented)",
            "INTERFACE|Ethernet0: the interface has no address and cannot route packets",
        ]
    );
}

#[test]
fn vlan_mtu_above_member_mtu_is_noted() {
    let text = r#"{"VLAN": {"Vlan10": {"mtu": "9100"}}, "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "untagged"}},
        "VLAN_INTERFACE": {"Vlan10": {}, "Vlan10|10.0.0.1/24": {}}}"#;
    assert_eq!(
        load_warnings(text, &["Ethernet0"]),
        ["VLAN|Vlan10: mtu 9100 is more than the 1500 of Ethernet0: larger packets are dropped there"]
    );
}

/// Asserts that an address of `INTERFACE` is refused for this reason. The keys of two ports without
/// addresses exist too.
#[track_caller]
fn assert_address_refused(key: &str, fields: &str, why: &str) {
    let text = format!(r#"{{"INTERFACE": {{"Ethernet0": {{}}, "Ethernet4": {{}}, "{key}": {fields}}}}}"#);
    assert_eq!(
        load_errors(&text, &["Ethernet0", "Ethernet4"]),
        [format!("INTERFACE|{key}{why}")],
        "{text}"
    );
}

#[test]
fn non_host_addresses_are_refused() {
    let cases = [
        ("0.0.0.0/0", "addresses that begin with 0 do not belong to a host"),
        (
            "0.1.0.1/24",
            "addresses that begin with 0 do not belong to a host",
        ),
        (
            "127.0.0.1/8",
            "it is a loopback address, which never leaves a host",
        ),
        ("224.0.0.5/24", "it is a multicast address"),
        ("250.0.0.1/24", "it is reserved (class E)"),
        ("255.255.255.255/32", "it is reserved (class E)"),
        ("10.0.0.0/24", "it is the network address of 10.0.0.0/24"),
        ("10.0.0.255/24", "it is the broadcast address of 10.0.0.0/24"),
        ("10.0.0.7/30", "it is the broadcast address of 10.0.0.4/30"),
        ("::/64", "it is the unspecified address"),
        ("::1/128", "it is the loopback address, which never leaves a host"),
        ("ff02::1/16", "it is a multicast address"),
        (
            "::ffff:10.0.0.1/120",
            "it is an IPv4-mapped IPv6 address, which is not used on links",
        ),
    ];
    for (prefix, why) in cases {
        let address = prefix.split_once('/').expect("a prefix").0;
        assert_address_refused(
            &format!("Ethernet0|{prefix}"),
            "{}",
            &format!(": {address} cannot be the address of an interface: {why}; use the address of a host"),
        );
    }
    assert_address_refused(
        "Ethernet0|10.0.0.1/0",
        "{}",
        ": a network with prefix length 0 contains all addresses; use the address of a host",
    );
    assert_address_refused(
        "Ethernet0|10.0.0.1/31",
        r#"{"family": "IPv6"}"#,
        " family \"IPv6\": the address is of family IPv4",
    );
}

#[test]
fn invalid_address_keys_are_refused() {
    for prefix in [
        "10.0.0.1/",
        "10.0.0.1/33",
        "10.0.0.01/24",
        "10.0.0.1/08",
        "10.0.0.1/+8",
        "10.0.0.1/+8",
        "2001:db8::1/129",
        "host/24",
        "",
    ] {
        assert_address_refused(
            &format!("Ethernet0|{prefix}"),
            "{}",
            &format!(
                ": {prefix:?} in the key: expected an IP address, with or without the length of its network, such as \
                 10.0.0.1/31 or 2001:db8::1"
            ),
        );
    }
    assert_address_refused(
        "Ethernet0|default|10.0.0.1/24",
        "{}",
        ": expected a key of the form PORT, or PORT|ADDRESS/LENGTH",
    );
}

#[test]
fn contradicting_interfaces_are_refused() {
    let both = r#""Ethernet0": {}, "Ethernet4": {}"#;
    let cases = [
        (
            format!(r#"{{"INTERFACE": {{{both}, "Ethernet0|10.0.0.1/24": {{}}, "Ethernet4|10.0.0.1/24": {{}}}}}}"#),
            "INTERFACE|Ethernet4|10.0.0.1/24: Ethernet0 has the address 10.0.0.1 already; give each interface an \
             address of its own",
        ),
        (
            format!(r#"{{"INTERFACE": {{{both}, "Ethernet0|10.0.0.1/24": {{}}, "Ethernet4|10.0.0.129/25": {{}}}}}}"#),
            "INTERFACE|Ethernet4|10.0.0.129/25: the network 10.0.0.128/25 overlaps 10.0.0.0/24 of Ethernet0; give each \
             interface a network of its own",
        ),
        (
            format!(r#"{{"INTERFACE": {{{both}, "Ethernet0|2001:db8::1/64": {{}}, "Ethernet4|2001:DB8::1:1/112": {{}}}}}}"#),
            "INTERFACE|Ethernet4|2001:DB8::1:1/112: the network 2001:db8::1:0/112 overlaps 2001:db8::/64 of Ethernet0; \
             give each interface a network of its own",
        ),
        (
            format!(
                r#"{{"INTERFACE": {{{both}, "Ethernet0|10.0.0.1/24": {{}}}},
                    "LOOPBACK_INTERFACE": {{"Loopback0": {{}}, "Loopback0|10.0.0.9/32": {{}}}}}}"#
            ),
            "LOOPBACK_INTERFACE|Loopback0|10.0.0.9/32: the network 10.0.0.9/32 overlaps 10.0.0.0/24 of Ethernet0; give \
             each interface a network of its own",
        ),
        (
            format!(r#"{{"INTERFACE": {{{both}, "Ethernet0|2001:db8::1/64": {{}}, "Ethernet0|2001:DB8::1/65": {{}}}}}}"#),
            "INTERFACE|Ethernet0|2001:db8::1/64: Ethernet0 has 2001:db8::1 already; remove one of the two",
        ),
        (
            r#"{"VLAN_INTERFACE": {"Vlan10": {}}}"#.to_owned(),
            "VLAN_INTERFACE|Vlan10: there is no VLAN Vlan10; add Vlan10 to VLAN",
        ),
        (
            r#"{"PORTCHANNEL_INTERFACE": {"PortChannel1": {}}}"#.to_owned(),
            "PORTCHANNEL_INTERFACE|PortChannel1: there is no LAG PortChannel1; add PortChannel1 to PORTCHANNEL",
        ),
        (
            r#"{"INTERFACE": {"Ethernet0": {"mac_addr": "01:00:5e:00:00:01"}}}"#.to_owned(),
            "INTERFACE|Ethernet0 mac_addr \"01:00:5e:00:00:01\": expected a unicast MAC address such as \
             02:00:00:00:10:01",
        ),
        (
            r#"{"PORT": {"Ethernet0": {"mtu": "1279"}}, "INTERFACE": {"Ethernet0": {}, "Ethernet0|2001:db8::1/64": {}}}"#
                .to_owned(),
            "INTERFACE|Ethernet0: IPv6 needs an MTU of 1280 bytes, Ethernet0 has 1279; raise mtu in PORT, or remove the \
             IPv6 addresses",
        ),
    ];
    for (text, line) in cases {
        assert_eq!(load_errors(&text, &["Ethernet0", "Ethernet4"]), [line], "{text}");
    }
}

#[test]
fn networks_on_one_interface_may_overlap() {
    let text = r#"{"INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.1/24": {}, "Ethernet0|10.0.0.2/24": {},
        "Ethernet0|10.0.1.1/16": {}}}"#;
    assert!(load_text(text, &["Ethernet0"]).is_ok());
}
