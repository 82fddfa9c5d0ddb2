//! Merging, comparing, writing.

use crate::{ConfigDb, diff_configs, merge_layers, parse};

fn parse_db(text: &str) -> ConfigDb {
    parse(text, "layer").unwrap_or_else(|problems| panic!("{problems}"))
}

fn diff_lines(old: &str, new: &str) -> Vec<String> {
    diff_configs(&parse_db(old), &parse_db(new))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn later_layer_overrides_single_fields() {
    let merged = merge_layers(&[
        parse_db(
            r#"{"PORT": {"Ethernet0": {"speed": "1000", "mtu": "1500"}, "Ethernet4": {"speed": "1000"}}}"#,
        ),
        parse_db(r#"{"PORT": {"Ethernet0": {"speed": "10000"}}}"#),
    ]);
    let expected = parse_db(
        r#"{"PORT": {"Ethernet0": {"speed": "10000", "mtu": "1500"}, "Ethernet4": {"speed": "1000"}}}"#,
    );
    assert_eq!(merged, expected);
    assert_eq!(merged.source(), "layer + layer");
}

#[test]
fn later_threshold_replaces_the_other_threshold() {
    let merged = merge_layers(&[
        parse_db(r#"{"BUFFER_PROFILE": {"p": {"pool": "x", "size": "0", "dynamic_th": "1"}}}"#),
        parse_db(r#"{"BUFFER_PROFILE": {"p": {"static_th": "9"}}}"#),
    ]);
    assert_eq!(
        merged,
        parse_db(r#"{"BUFFER_PROFILE": {"p": {"pool": "x", "size": "0", "static_th": "9"}}}"#)
    );
}

#[test]
fn later_layer_changes_part_of_a_range() {
    let base = parse_db(
        r#"{"QUEUE": {"Ethernet0|3-5": {"scheduler": "a", "wred_profile": "w"}, "Ethernet4|3-5": {"scheduler": "a"}}}"#,
    );
    let merged = merge_layers(&[
        base,
        parse_db(r#"{"QUEUE": {"Ethernet0|4": {"scheduler": "b"}}}"#),
    ]);
    let expected = parse_db(
        r#"{"QUEUE": {"Ethernet0|3": {"scheduler": "a", "wred_profile": "w"},
                      "Ethernet0|4": {"scheduler": "b", "wred_profile": "w"},
                      "Ethernet0|5": {"scheduler": "a", "wred_profile": "w"}, "Ethernet4|3-5": {"scheduler": "a"}}}"#,
    );
    assert_eq!(merged, expected);
}

#[test]
fn changes_are_listed_in_natural_order() {
    let old = r#"{"PORT": {"Ethernet10": {"mtu": "1500"}, "Ethernet2": {"speed": "1000", "mtu": "1500"}},
                  "INTERFACE": {"Ethernet2": {}}}"#;
    let new = r#"{"PORT": {"Ethernet10": {"mtu": "9100"}, "Ethernet2": {"mtu": "1500", "pfc_asym": "on"}},
                  "VLAN": {"Vlan10": {}}}"#;
    assert_eq!(
        diff_lines(old, new),
        [
            "-INTERFACE|Ethernet2",
            "+PORT|Ethernet2 pfc_asym \"on\"",
            "-PORT|Ethernet2 speed \"1000\"",
            "-PORT|Ethernet10 mtu \"1500\"\n+PORT|Ethernet10 mtu \"9100\"",
            "+VLAN|Vlan10",
        ]
    );
    assert_eq!(diff_lines(old, old), Vec::<String>::new());
}

#[test]
fn equal_ranges_in_different_forms_are_no_change() {
    let range = r#"{"BUFFER_PG": {"Ethernet0|3-4": {"profile": "p"}}}"#;
    let single = r#"{"BUFFER_PG": {"Ethernet0|3": {"profile": "p"}, "Ethernet0|4": {"profile": "q"}}}"#;
    assert_eq!(
        diff_lines(range, single),
        ["-BUFFER_PG|Ethernet0|4 profile \"p\"\n+BUFFER_PG|Ethernet0|4 profile \"q\""]
    );
    assert_eq!(diff_lines(single, &single.replace('q', "p")).len(), 1);
    assert_eq!(diff_lines(range, &single.replace('q', "p")), Vec::<String>::new());
}

#[test]
fn set_checks_names_and_values() {
    let mut config = ConfigDb::default();
    config.set("PORT", "Ethernet0", "speed", "25000").unwrap();
    config.set("VLAN", "Vlan10", "", "").unwrap();
    assert_eq!(config.get("PORT", "Ethernet0", "speed").as_deref(), Some("25000"));
    assert_eq!(config.keys("VLAN").collect::<Vec<_>>(), ["Vlan10"]);
    let refused = |table: &str, key: &str, field: &str, value: &str| {
        ConfigDb::default()
            .set(table, key, field, value)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused("PORTS", "a", "b", "c"), "PORTS|a b: no such table");
    assert_eq!(
        refused("VLAN", "10", "", ""),
        "VLAN|10: \"10\" in the key: expected a VLAN from Vlan2 to Vlan4094"
    );
    assert!(refused("PORT", "Ethernet0", "mtu", "1").contains("from 68 to 9216"));
}
