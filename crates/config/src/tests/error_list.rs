//! Everything wrong at once: all of it is said, in order, one line each.

use super::load_errors;
use crate::{PORT_OPTION, Problems, ResolveOptions, load};

const NASTY: &str = r#"{
"PORT": {"Ethernet0": {"speed": "fast", "mtu": "67", "admin_status": "maybe", "sped": "1"},
         "Ethernet4": {"pfc_asym": true}, "Ether\nnet": {}, "Ethernet8": []},
"BUFER_POOL": {"in": {"type": "ingress", "mode": "dynamic", "size": "-1"}},
"BUFFER_PROFILE": {"p": {"pool": "in", "size": "0", "dynamic_th": "9"},
                   "q": {"pool": "inn", "size": "0", "dynamic_th": "1", "static_th": "1"}},
"BUFFER_PG": {"Ethernet0|3-9": {"profile": "p"}, "Ethernet00|3": {"profile": "r"}},
"PORT_QOS_MAP": {"Ethernet4": {"pfc_enable": "8", "tc_to_pg_map": "nope"}},
"WRED_PROFILE": {"w": {"ecn": "on"}},
"VLAN": {"Vlan5000": {}},
"VLAN_MEMBER": {"Vlan6|Ethernet4": {"tagging_mode": "tagged"}},
"INTERFACE": {"Ethernet4": {}, "Ethernet4|10.0.0.0/24": {}, "Ethernet12": {}},
"STATIC_ROUTE": {"10.9.0.1/24": {"nexthop": "10.0.0.1"}, "10.8.0.0/24": {"nexthop": "10.0.0.1", "ifname": "Ethernet4,Ethernet4"}},
"XOFF_SWITCH": {"localhost": {"cellsize": "256"}}
}"#;

#[test]
fn all_errors_of_a_file_are_reported_in_order() {
    let expected = [
        r#"BUFER_POOL: no such table; did you mean BUFFER_POOL?"#,
        r#"BUFFER_PG|Ethernet00|3: there is no port Ethernet00; add it to PORT, or name it on the command line (--port)"#,
        r#"BUFFER_PG|Ethernet00|3 profile "r": BUFFER_PROFILE has no entry r; add r to BUFFER_PROFILE"#,
        r#"BUFFER_PG|Ethernet0|3-9: "3-9" in the key: expected a number from 0 to 7, or a range such as 3-4"#,
        r#"BUFFER_PROFILE|p dynamic_th "9": expected a whole number from -8 to 7"#,
        r#"BUFFER_PROFILE|q: dynamic_th and static_th exclude each other; remove one of them"#,
        r#"INTERFACE|Ethernet4|10.0.0.0/24: 10.0.0.0 cannot be the address of an interface: it is the network address of 10.0.0.0/24; use the address of a host"#,
        r#"INTERFACE|Ethernet12: there is no port Ethernet12; add it to PORT, or name it on the command line (--port)"#,
        r#"PORT|Ether\nnet: "Ether\nnet" in the key: expected a name of letters, digits and . _ - / : @ # + ~ % & = *"#,
        r#"PORT|Ethernet0 admin_status "maybe": expected up or down"#,
        r#"PORT|Ethernet0 mtu "67": expected a whole number of bytes from 68 to 9216"#,
        r#"PORT|Ethernet0 sped "1": no such field; did you mean speed?"#,
        r#"PORT|Ethernet0 speed "fast": expected a whole number of Mb/s from 10 to 1600000"#,
        r#"PORT|Ethernet4 pfc_asym "true": expected on or off"#,
        r#"PORT|Ethernet8: expected an object of fields, found a list"#,
        r#"PORT_QOS_MAP|Ethernet4 pfc_enable "8": expected priorities from 0 to 7 separated by commas, or "" for none"#,
        r#"PORT_QOS_MAP|Ethernet4 tc_to_pg_map "nope": TC_TO_PRIORITY_GROUP_MAP has no entry nope; add nope to TC_TO_PRIORITY_GROUP_MAP"#,
        r#"STATIC_ROUTE|10.8.0.0/24 ifname: the lists must have the same length, but nexthop has 1 item, ifname 2; give one item for each next hop; an empty item is the default"#,
        r#"VLAN|Vlan5000: "Vlan5000" in the key: expected a VLAN from Vlan2 to Vlan4094"#,
        r#"VLAN_MEMBER|Vlan6|Ethernet4: there is no VLAN Vlan6; add Vlan6 to VLAN"#,
        r#"WRED_PROFILE|w ecn "on": expected ecn_none, ecn_green, ecn_yellow, ecn_red, ecn_green_yellow, ecn_green_red, ecn_yellow_red or ecn_all"#,
        r#"XOFF_SWITCH|localhost cellsize "256": no such field; did you mean cell_size?"#,
    ];
    assert_eq!(load_errors(NASTY, &[]), expected);
    assert_eq!(Problems::EXIT_CODE, 4);
}

/// A configuration whose entries use 32 ports that do not exist.
fn config_without_ports() -> String {
    let entries = |suffix: &str, fields: &str| {
        let entry = |n: usize| format!(r#""Ethernet{}{suffix}": {{{fields}}}"#, 4 * n);
        (0..32).map(entry).collect::<Vec<_>>().join(",")
    };
    format!(
        r#"{{"PORT_QOS_MAP": {{{}}}, "BUFFER_QUEUE": {{{}}}}}"#,
        entries("", r#""pfc_enable": "3""#),
        entries("|3", "")
    )
}

#[test]
fn many_missing_ports_share_a_line_that_proposes_only_options_of_the_command() {
    let text = config_without_ports();
    let errors = |port_source| {
        let options = ResolveOptions {
            port_source,
            ..ResolveOptions::default()
        };
        load(&[("", &text)], &options).expect_err("no ports")
    };
    let with_option = errors(Some(PORT_OPTION));
    assert_eq!(
        with_option
            .as_slice()
            .iter()
            .filter(|error| error.missing_port.is_some())
            .count(),
        64,
        "JSON output has each error"
    );
    let line = |problems: &Problems| {
        let text = problems.to_string();
        let about_ports: Vec<&str> = text.lines().filter(|line| line.contains("no port")).collect();
        assert_eq!(about_ports.len(), 1, "{text}");
        about_ports[0].to_owned()
    };
    assert_eq!(
        line(&with_option),
        "BUFFER_QUEUE|Ethernet0|3 and 63 more: there are no ports Ethernet0, Ethernet4, Ethernet8, Ethernet12 and 28 \
         more; add them to PORT, or name them on the command line (--port)"
    );
    let without_option = line(&errors(None));
    assert!(without_option.ends_with("; add them to PORT"), "{without_option}");
}
