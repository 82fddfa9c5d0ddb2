//! Tests of parsing: JSON structure, old forms of SONiC and unusual values.

use super::{assert_each_refused, load_config, load_errors, load_warnings};
use crate::parse;

#[test]
fn old_forms_are_converted_to_new_forms() {
    let old = r#"{"BUFFER_POOL": {"x": {"type": "ingress", "mode": "static", "size": "9"}},
        "BUFFER_PROFILE": {"p": {"pool": "[BUFFER_POOL|x]", "size": "0", "static_th": "0"}},
        "BUFFER_PG": {"Ethernet0,Ethernet4|3-4": {"profile": "[BUFFER_PROFILE|p]"}},
        "INTERFACE": {"Ethernet0": {"NULL": "NULL"}},
        "PORT_QOS_MAP": {"Ethernet0,Ethernet4": {"pfc_enable": ["3", "4"]}}}"#;
    let text = parse(old, "old").unwrap().to_json();
    let expected = r#"{
    "BUFFER_PG": {
        "Ethernet0|3-4": {
            "profile": "p"
        },
        "Ethernet4|3-4": {
            "profile": "p"
        }
    },
    "BUFFER_POOL": {
        "x": {
            "mode": "static",
            "size": "9",
            "type": "ingress"
        }
    },
    "BUFFER_PROFILE": {
        "p": {
            "pool": "x",
            "size": "0",
            "static_th": "0"
        }
    },
    "INTERFACE": {
        "Ethernet0": {}
    },
    "PORT_QOS_MAP": {
        "Ethernet0": {
            "pfc_enable": "3,4"
        },
        "Ethernet4": {
            "pfc_enable": "3,4"
        }
    }
}
"#;
    assert_eq!(text, expected);
    assert_eq!(parse(&text, "again").unwrap().to_json(), text);
}

#[test]
fn values_without_quotes_are_accepted_with_a_note() {
    let text = r#"{"PORT": {"Ethernet0": {"speed": 10000, "mtu": 9100}}}"#;
    assert_eq!(load_config(text, &["Ethernet0"]).ports[0].link.speed_mbps, 10_000);
    assert_eq!(
        load_warnings(text, &["Ethernet0"]),
        [
            "test.json: PORT|Ethernet0 speed and 1 more: written without quotes; SONiC writes every value as a string, \
          and xoff reads it as a string"
        ]
    );
}

#[test]
fn byte_order_mark_is_ignored() {
    assert!(parse("\u{feff}{}", "windows").is_ok());
}

#[test]
fn a_lab_file_and_a_preset_are_recognised() {
    let lab = load_errors("name: x\ntopology:\n  nodes: {}\n", &[]);
    assert!(
        lab[0].contains("for a lab file, use `xoff lab check`"),
        "{}",
        lab[0]
    );
    let preset = load_errors(r#"{"preset": "roce-lossless"}"#, &[]);
    assert!(preset[0].contains("--preset NAME"), "{}", preset[0]);
}

#[test]
fn invalid_structure_is_refused() {
    assert_each_refused(&[
        ("", "not JSON: EOF while parsing a value at line 1 column 0"),
        (
            r#"{"PORT": {"#,
            "not JSON: EOF while parsing an object at line 1 column 10",
        ),
        (
            "[]",
            "expected an object of tables, {\"PORT\": {...}}, found a list",
        ),
        (
            r#"{"PORT": "x"}"#,
            "PORT: expected an object of entries, found a string",
        ),
        (
            r#"{"PORT": {"Ethernet0": 7}}"#,
            "PORT|Ethernet0: expected an object of fields, found a number",
        ),
        (
            r#"{"BUFFER_PORT_INGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": [null]}}}"#,
            "BUFFER_PORT_INGRESS_PROFILE_LIST|Ethernet0 profile_list: expected a string, found null",
        ),
        (
            r#"{"PORT": {"Ethernet0": {"speed": {}}}}"#,
            "PORT|Ethernet0 speed: expected a string, found an object",
        ),
        (
            r#"{"PORT": {"Ethernet0": {"speed": ["1"]}}}"#,
            "PORT|Ethernet0 speed: expected a string, found a list",
        ),
        (
            r#"{"PORT": {"Ethernet0": {"speed": 1.5}}}"#,
            r#"PORT|Ethernet0 speed "1.5": expected a whole number of Mb/s from 10 to 1600000"#,
        ),
        (
            r#"{"BUFFER_PROFILE": {"p": {"pool": "[BUFFER_PG|x]", "size": "0", "static_th": "0"}}}"#,
            r#"BUFFER_PROFILE|p pool "[BUFFER_PG|x]": expected a reference to BUFFER_POOL"#,
        ),
    ]);
    let deep = "[".repeat(100_000);
    assert!(load_errors(&deep, &[])[0].starts_with("not JSON: recursion limit exceeded"));
}

#[test]
fn duplicate_names_are_refused() {
    assert_each_refused(&[
        (
            r#"{"PORT": {}, "PORT": {}}"#,
            "PORT: the table occurs twice; remove one of them",
        ),
        (
            r#"{"PORT": {"Ethernet0": {}, "Ethernet0": {}}}"#,
            "PORT|Ethernet0: the key occurs twice; remove one of them",
        ),
        (
            r#"{"PORT": {"Ethernet0": {"mtu": "1500", "mtu": "9100"}}}"#,
            "PORT|Ethernet0 mtu: the field occurs twice; remove one of them",
        ),
    ]);
}

#[test]
fn tables_without_effect_are_noted_once() {
    let text = r#"{
        "DEVICE_METADATA": {"localhost": {"dpu_auto_recovery": "enable", "zebra_nexthop": "enabled"}},
        "PORT": {"Ethernet0": {"dom_polling": "enabled"}, "Ethernet4": {"dom_polling": "enabled", "fec": "rs"}},
        "DPUS": {"dpu0": {"midplane_interface": "dpu0"}},
        "DHCP_SERVER_IPV4_PORT": {"bridge-midplane|dpu0": {"ips@": "169.254.200.1"}},
        "DNS_OPTIONS": {"ndots": {}},
        "VRRP": {"Vlan10|1": {"track_interface": {"Ethernet0": {"weight": 10, "x": [true, "\"", null]}}}},
        "FIPS": {"global": {"enable": "false"}, "global": {"enable": "false", "enforce": "false"}}}"#;
    assert_eq!(
        load_warnings(text, &[]),
        [
            "no effect: DEVICE_METADATA dpu_auto_recovery, DEVICE_METADATA zebra_nexthop, PORT dom_polling (not modelled \
             by xoff); DHCP_SERVER_IPV4_PORT, DNS_OPTIONS, DPUS, FIPS (outside the data path of a switch); \
             PORT fec (these ports have no transceiver); VRRP (gateways shared by several switches are not implemented)"
        ]
    );
    let db = parse(text, "text").expect("names of SONiC");
    assert_eq!(parse(&db.to_json(), "again").expect("canonical"), db);
    assert_eq!(
        db.get("VRRP", "Vlan10|1", "track_interface").as_deref(),
        Some(r#"{"Ethernet0":{"weight":10,"x":[true,"\"",null]}}"#)
    );
}

#[test]
fn misspelt_names_are_not_replaced() {
    // Neither the entries of the table nor the references to them cause further errors.
    let text = r#"{"BUFFER_POOLS": {"p": {"size": "?"}}, "BUFFER_PROFILE": {"q": {"pool": "p", "size": "0", "static_th": "0"}},
        "VLANS": {"Vlan10": {}}, "VLAN_MEMBER": {"Vlan10|Ethernet0": {"tagging_mode": "untagged"}}}"#;
    assert_eq!(
        load_errors(text, &["Ethernet0"]),
        [
            "BUFFER_POOLS: no such table; did you mean BUFFER_POOL?",
            "VLANS: no such table; did you mean VLAN?",
        ]
    );
}

#[test]
fn unknown_names_are_refused() {
    assert_each_refused(&[
        (
            r#"{"BUFFER_POOLS": {}}"#,
            "BUFFER_POOLS: no such table; did you mean BUFFER_POOL?",
        ),
        (r#"{"pfc_wd": {}}"#, "pfc_wd: no such table; did you mean PFC_WD?"),
        (
            r#"{"XOFF_SWITCHES": {}}"#,
            "XOFF_SWITCHES: no such table; did you mean XOFF_SWITCH?",
        ),
        (r#"{"QWERTYUIOP": {}}"#, "QWERTYUIOP: no such table"),
        (
            r#"{"PORT": {"Ethernet0": {"qwertyuiop": "1"}}}"#,
            r#"PORT|Ethernet0 qwertyuiop "1": no such field"#,
        ),
        (
            r#"{"PORT": {"Ethernet0": {"Fec": "rs"}}}"#,
            r#"PORT|Ethernet0 Fec "rs": no such field; did you mean fec?"#,
        ),
        (
            r#"{"PORT": {"Ethernet0": {"dom_poling": "1"}}}"#,
            r#"PORT|Ethernet0 dom_poling "1": no such field; did you mean dom_polling?"#,
        ),
        (
            r#"{"FEATURE": {"bgp": {"stat": "enabled"}}}"#,
            r#"FEATURE|bgp stat "enabled": no such field; did you mean state?"#,
        ),
        (
            r#"{"feature": {"bgp": {"state": "enabled"}}}"#,
            "feature: no such table; did you mean FEATURE?",
        ),
    ]);
}

#[test]
fn a_key_that_is_too_long_is_one_error() {
    let fields: Vec<String> = (0..500).map(|n| format!("\"field{n}\": \"x\"")).collect();
    let config = |key: &str| format!("{{\"XOFF_SWITCH\": {{\"{key}\": {{{}}}}}}}", fields.join(", "));
    let errors = load_errors(&config(&"k".repeat(8_193)), &[]);
    assert_eq!(
        errors,
        [format!(
            "XOFF_SWITCH|{}...: the key has 8,193 bytes, at most 8,192 are possible; use a shorter name",
            "k".repeat(40)
        )]
    );
    // A list of ports may be long.
    let ports: Vec<String> = (0..512).map(|n| format!("Ethernet{n}")).collect();
    let list = format!("{{\"QUEUE\": {{\"{}|3\": {{}}}}}}", ports.join(","));
    let errors = load_errors(&list, &[]);
    assert!(
        errors.iter().all(|error| !error.contains("the key has")),
        "{errors:?}"
    );
}
