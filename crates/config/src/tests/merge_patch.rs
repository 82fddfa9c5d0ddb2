//! Tests of layers as JSON merge patches (RFC 7386), in which `null` removes an object.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Map, Value, json};

use super::{assert_each_refused, resolve_options};
use crate::{LoadedConfig, Problems, load, merge_layers, parse, parse_layers};

/// The algorithm `MergePatch` of RFC 7386, section 2.
fn rfc_merge_patch(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(name);
            }
            value => {
                let old = target.remove(name).unwrap_or(Value::Null);
                target.insert(name.clone(), rfc_merge_patch(old, value));
            }
        }
    }
    Value::Object(target)
}

/// Merges layers that are valid by themselves.
fn merge_to_json(layers: &[Value]) -> Value {
    let texts: Vec<String> = layers.iter().map(Value::to_string).collect();
    let layers: Vec<(&str, &str)> = texts.iter().map(|text| ("layer", text.as_str())).collect();
    let db = parse_layers(&layers, None).unwrap_or_else(|problems| panic!("{problems}\n{texts:?}"));
    merge_layers(&[db]).to_value()
}

fn load_layers(layers: &[&str]) -> Result<LoadedConfig, Problems> {
    let layers: Vec<(&str, &str)> = layers.iter().map(|text| ("layer", *text)).collect();
    load(&layers, &resolve_options(&["Ethernet0"]))
}

/// Tables with their keys and fields: several kinds of fields, a list, and a table without an effect.
const FIELDS: [(&str, &str, &[&str]); 6] = [
    ("PORT", "alias", &["Ethernet0", "Ethernet4"]),
    ("PORT", "mtu", &["Ethernet0", "Ethernet4"]),
    (
        "BUFFER_PORT_INGRESS_PROFILE_LIST",
        "profile_list",
        &["Ethernet0", "Ethernet4"],
    ),
    ("VLAN", "description", &["Vlan10", "Vlan11"]),
    ("NTP", "vrf", &["global"]),
    ("NTP", "src_intf", &["global"]),
];

fn random_layer(random: &mut Xoshiro256PlusPlus) -> Value {
    let mut layer = Map::new();
    for (table, field, keys) in FIELDS {
        for key in keys {
            let choice = random.next_u32() % 16;
            let number = random.next_u32() % 3 + 1500;
            let value = match (choice, field) {
                (0..=5, _) => continue,
                (6, _) => {
                    layer.insert(table.to_owned(), Value::Null);
                    continue;
                }
                (7..=8, _) => None,
                (9..=10, _) => Some(Value::Null),
                (_, "profile_list") => Some(json!([format!("p{number}"), "q"])),
                _ => Some(json!(number.to_string())),
            };
            let entries = layer.entry(table).or_insert_with(|| json!({}));
            let Some(entries) = entries.as_object_mut() else {
                continue;
            };
            match value {
                None => entries.insert((*key).to_owned(), Value::Null),
                Some(value) => {
                    let entry = entries.entry(*key).or_insert_with(|| json!({}));
                    entry
                        .as_object_mut()
                        .and_then(|entry| entry.insert(field.to_owned(), value))
                }
            };
        }
    }
    Value::Object(layer)
}

#[test]
fn merge_equals_the_rfc_7386_algorithm() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7386);
    for _ in 0..3_000 {
        let layers: Vec<Value> = (0..1 + random.next_u32() % 4)
            .map(|_| random_layer(&mut random))
            .collect();
        let expected = layers.iter().fold(json!({}), rfc_merge_patch);
        assert_eq!(merge_to_json(&layers), expected, "{layers:?}");
    }
}

/// The examples of RFC 7386, appendix A, whose documents are objects. `a` to `c` stand for a table, its
/// entry and a field.
#[test]
fn rfc_7386_examples_are_merged() {
    let entry = |fields: Value| json!({"PORT": {"Ethernet0": fields}});
    for (original, patch, expected) in [
        (
            json!({"alias": "b"}),
            json!({"alias": "c"}),
            json!({"alias": "c"}),
        ),
        (
            json!({"alias": "b"}),
            json!({"mtu": "1500"}),
            json!({"alias": "b", "mtu": "1500"}),
        ),
        (json!({"alias": "b"}), json!({"alias": null}), json!({})),
        (
            json!({"alias": "b", "mtu": "1500"}),
            json!({"alias": null}),
            json!({"mtu": "1500"}),
        ),
        (json!({}), json!({"alias": null}), json!({})),
    ] {
        assert_eq!(
            merge_to_json(&[entry(original.clone()), entry(patch.clone())]),
            entry(expected),
            "{original} {patch}"
        );
    }
    let list =
        |items: Value| json!({"BUFFER_PORT_INGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": items}}});
    assert_eq!(
        merge_to_json(&[list(json!(["a", "b"])), list(json!(["c"]))]),
        list(json!(["c"]))
    );
    // In the RFC, {} with {"a": {"bb": {"ccc": null}}} gives {"a": {"bb": {}}}.
    assert_eq!(
        merge_to_json(&[json!({}), entry(json!({"alias": null}))]),
        entry(json!({}))
    );
    assert_eq!(
        merge_to_json(&[entry(json!({"alias": "b"})), json!({"PORT": {"Ethernet0": null}})]),
        json!({"PORT": {}})
    );
    assert_eq!(
        merge_to_json(&[entry(json!({"alias": "b"})), json!({"PORT": null})]),
        json!({})
    );
}

#[test]
fn null_for_a_missing_object_is_accepted() {
    for text in [
        r#"{"VLAN": null}"#,
        r#"{"VLAN": {"Vlan10": null}, "BUFFER_PG": {"Ethernet99|3-4": null}}"#,
        r#"{"PORT": {"Ethernet0": {"mtu": null}}, "NTP": {"global": {"vrf": null}}, "SYSLOG_SERVER": null}"#,
        r#"{"QUEUE": {"Ethernet0|8": null}, "DSCP_TO_TC_MAP": {"AZURE": {"3": null}}}"#,
    ] {
        assert!(load_layers(&[text]).is_ok(), "{text}");
        assert!(load_layers(&["{}", text, text]).is_ok(), "{text}");
    }
}

/// A misspelt name in a removal would silently remove nothing, so removals are checked too.
#[test]
fn null_for_an_unknown_name_is_refused() {
    assert_each_refused(&[
        (
            r#"{"BUFER_POOL": null}"#,
            "BUFER_POOL: no such table; did you mean BUFFER_POOL?",
        ),
        (
            r#"{"PORT": {"Ethernet0": {"mtuu": null}}}"#,
            "PORT|Ethernet0 mtuu: no such field; did you mean mtu?",
        ),
        (
            r#"{"VLAN": {"10": null}}"#,
            r#"VLAN|10: "10" in the key: expected a VLAN from Vlan2 to Vlan4094"#,
        ),
        (
            r#"{"DSCP_TO_TC_MAP": {"AZURE": {"64": null}}}"#,
            "DSCP_TO_TC_MAP|AZURE 64: expected a DSCP from 0 to 63 as the field's name",
        ),
        (
            r#"{"PORT": {}, "PORT": null}"#,
            "PORT: the table occurs twice; remove one of them",
        ),
        (
            r#"{"VLAN": {"Vlan10": {}, "Vlan10": null}}"#,
            "VLAN|Vlan10: the key occurs twice; remove one of them",
        ),
        (
            r#"{"PORT": {"Ethernet0": {"mtu": "1500", "mtu": null}}}"#,
            "PORT|Ethernet0 mtu: the field occurs twice; remove one of them",
        ),
    ]);
}

#[test]
fn removal_splits_ranges() {
    let base = json!({"QUEUE": {"Ethernet0|3-5": {"scheduler": "a"}, "Ethernet4|3": {"scheduler": "a"}}});
    let without = |patch: Value| merge_to_json(&[base.clone(), json!({"QUEUE": patch})]);
    let a = json!({"scheduler": "a"});
    assert_eq!(
        without(json!({"Ethernet0|4": null})),
        json!({"QUEUE": {"Ethernet0|3": a, "Ethernet0|5": a, "Ethernet4|3": a}})
    );
    assert_eq!(
        without(json!({"Ethernet0,Ethernet4|0-3": null})),
        json!({"QUEUE": {"Ethernet0|4": a, "Ethernet0|5": a}})
    );
    assert_eq!(
        without(json!({"Ethernet0|3-5": null, "Ethernet0|3": {"scheduler": "b"}})),
        json!({"QUEUE": {"Ethernet0|3": {"scheduler": "b"}, "Ethernet4|3": a}})
    );
    assert_eq!(
        without(json!({"Ethernet0|5": {"scheduler": null}}))["QUEUE"]["Ethernet0|5"],
        json!({})
    );
}

/// References are checked only in the merged configuration.
#[test]
fn layers_complete_each_other_in_any_order() {
    let pool = r#"{"BUFFER_POOL": {"x": {"type": "ingress", "mode": "static", "size": "9000"}}}"#;
    let profile = r#"{"BUFFER_PROFILE": {"p": {"pool": "x", "size": "0", "static_th": "0"}}}"#;
    let user = r#"{"BUFFER_PG": {"Ethernet0|0": {"profile": "p"}}}"#;
    for layers in [
        [pool, profile, user],
        [user, profile, pool],
        [profile, user, pool],
    ] {
        assert!(load_layers(&layers).is_ok());
    }
    // An object and its users can be removed in one layer or in two layers.
    let remove_user = r#"{"BUFFER_PG": {"Ethernet0|0": null}}"#;
    let remove_profile = r#"{"BUFFER_PROFILE": {"p": null}}"#;
    assert!(load_layers(&[pool, profile, user, remove_profile, remove_user]).is_ok());
    let problems = load_layers(&[pool, profile, user, remove_profile]).expect_err("the profile is in use");
    assert_eq!(
        problems
            .as_slice()
            .iter()
            .map(|problem| problem.why.as_str())
            .collect::<Vec<_>>(),
        ["BUFFER_PROFILE has no entry p"]
    );
}

#[test]
fn removed_field_has_its_default() {
    let loaded = load_layers(&[
        r#"{"PORT": {"Ethernet0": {"mtu": "9100", "speed": "25000"}}}"#,
        r#"{"PORT": {"Ethernet0": {"mtu": null}}}"#,
    ])
    .unwrap_or_else(|problems| panic!("{problems}"));
    let port = &loaded.resolved.config.ports[0];
    assert_eq!((port.link.speed_mbps, port.mtu), (25_000, 1_500));
    assert_eq!(parse("{}", "x").unwrap(), merge_layers(&[]));
}
