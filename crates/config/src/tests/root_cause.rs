//! Tests of root causes: a refused object causes no errors of the objects that refer to it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::resolve_options;
use crate::load;
use crate::schema::{KeyPart, TableFields, ValueKind, all_tables};

/// A configuration that uses an object of each table.
fn traditional_config() -> Value {
    json!({
        "PORT": {
            "Ethernet0": {"speed": "100000", "mtu": "9100", "admin_status": "up"},
            "Ethernet4": {"speed": "100000", "mtu": "9100", "admin_status": "up"},
            "Ethernet8": {"speed": "100000", "mtu": "9100", "admin_status": "up"},
            "Ethernet12": {"speed": "100000", "mtu": "9100", "admin_status": "up"}
        },
        "PORTCHANNEL": {"PortChannel1": {"mtu": "9100", "admin_status": "up"}},
        "PORTCHANNEL_MEMBER": {"PortChannel1|Ethernet8": {}, "PortChannel1|Ethernet12": {}},
        "VLAN": {"Vlan10": {"vlanid": "10"}},
        "VLAN_MEMBER": {
            "Vlan10|Ethernet4": {"tagging_mode": "untagged"},
            "Vlan10|PortChannel1": {"tagging_mode": "tagged"}
        },
        "VLAN_INTERFACE": {"Vlan10": {}, "Vlan10|10.10.0.1/24": {}},
        "INTERFACE": {"Ethernet0": {}, "Ethernet0|10.0.0.0/31": {}},
        "LOOPBACK_INTERFACE": {"Loopback0": {}, "Loopback0|10.1.0.1/32": {}},
        "STATIC_ROUTE": {"10.2.0.0/16": {"nexthop": "10.0.0.1,10.10.0.9", "ifname": "Ethernet0,Vlan10"}},
        "NEIGH": {"Ethernet0|10.0.0.1": {"neigh": "02:00:00:00:00:01"}},
        "BUFFER_POOL": {
            "in": {"type": "ingress", "mode": "dynamic", "size": "16777216", "xoff": "4194304"},
            "out": {"type": "egress", "mode": "dynamic", "size": "16777216"}
        },
        "BUFFER_PROFILE": {
            "lossless": {"pool": "in", "size": "1248", "xoff": "100000", "xon_offset": "3000", "dynamic_th": "0"},
            "lossy": {"pool": "in", "size": "0", "dynamic_th": "3"},
            "queue": {"pool": "out", "size": "1518", "dynamic_th": "1"}
        },
        "BUFFER_PG": {
            "Ethernet0|0": {"profile": "lossy"}, "Ethernet0|3-4": {"profile": "lossless"},
            "Ethernet4|0": {"profile": "lossy"}, "Ethernet4|3-4": {"profile": "lossless"}
        },
        "BUFFER_QUEUE": {"Ethernet0|0-7": {"profile": "queue"}, "Ethernet4|0-7": {"profile": "queue"}},
        "BUFFER_PORT_INGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": "lossy"}},
        "BUFFER_PORT_EGRESS_PROFILE_LIST": {"Ethernet0": {"profile_list": "queue"}},
        "DSCP_TO_TC_MAP": {"AZURE": {"3": "3", "4": "4"}},
        "TC_TO_QUEUE_MAP": {"AZURE": {"3": "3", "4": "4"}},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {"3": "3", "4": "4"}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {"3": "3", "4": "4"}},
        "PORT_QOS_MAP": {
            "Ethernet0": {
                "dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "tc_to_pg_map": "AZURE",
                "pfc_to_queue_map": "AZURE", "pfc_enable": "3,4"
            },
            "Ethernet4": {"dscp_to_tc_map": "AZURE", "pfc_enable": "3,4"}
        },
        "SCHEDULER": {"weighted": {"type": "DWRR", "weight": "15"}},
        "WRED_PROFILE": {
            "marking": {
                "ecn": "ecn_all", "green_min_threshold": "100000", "green_max_threshold": "200000",
                "green_drop_probability": "5"
            }
        },
        "QUEUE": {
            "Ethernet0|3": {"scheduler": "weighted", "wred_profile": "marking"},
            "Ethernet4|3-4": {"scheduler": "weighted", "wred_profile": "marking"}
        },
        "PFC_WD": {"Ethernet0": {"action": "drop", "detection_time": "400", "restoration_time": "400"}},
        "ARS_OBJECT": {"object": {"assign_mode": "per_flowlet_quality"}},
        "ARS_PROFILE": {"profile": {"default_ars_object": "object"}},
        "XOFF_LB_SCHEME": {"spray": {"scheme": "round-robin"}},
        "XOFF_LB": {"global": {"scheme": "spray"}}
    })
}

/// The same configuration in the dynamic buffer model.
fn dynamic_config() -> Value {
    let mut config = traditional_config();
    config["DEVICE_METADATA"] = json!({"localhost": {"buffer_model": "dynamic"}});
    config["DEFAULT_LOSSLESS_BUFFER_PARAMETER"] = json!({"AZURE": {"default_dynamic_th": "0"}});
    config["CABLE_LENGTH"] =
        json!({"AZURE": {"Ethernet0": "5m", "Ethernet4": "5m", "Ethernet8": "5m", "Ethernet12": "5m"}});
    config["BUFFER_POOL"] = json!({
        "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic"},
        "out": {"type": "egress", "mode": "dynamic"}
    });
    config["BUFFER_PROFILE"] = json!({
        "lossy": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
        "queue": {"pool": "out", "size": "1518", "dynamic_th": "1"}
    });
    for port in ["Ethernet0", "Ethernet4"] {
        config["BUFFER_PG"][format!("{port}|3-4")] = json!({"profile": "NULL"});
    }
    config
}

fn error_lines(config: &Value) -> Vec<String> {
    let text = config.to_string();
    match load(&[("test.json", &text)], &resolve_options(&[])) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.as_slice().iter().map(ToString::to_string).collect(),
    }
}

/// All tables of the schema to which a key or a field of another table refers.
fn referenced_tables() -> BTreeSet<&'static str> {
    let mut referred = BTreeSet::from(["PORT", "VLAN", "PORTCHANNEL", "XOFF_LB_SCHEME"]);
    for table in all_tables() {
        let TableFields::Named(fields) = table.fields else {
            continue;
        };
        for field in fields {
            match field.kind {
                ValueKind::Reference(target)
                | ValueKind::ReferenceOrNull(target)
                | ValueKind::References(target) => {
                    referred.insert(target);
                }
                _ => {}
            }
        }
    }
    referred
}

/// Renames an object to an invalid name, in all keys, lists and values that contain its name.
fn rename_object(config: &Value, table: &str, name: &str) -> Value {
    let bad = format!("{name} \u{e9}");
    let whole = |text: &str| -> String {
        let separators = |c: char| c == '|' || c == ',';
        let parts: Vec<&str> = text.split_inclusive(separators).collect();
        let renamed = parts
            .iter()
            .map(|part| match part.trim_end_matches(separators) == name {
                true => part.replace(name, &bad),
                false => (*part).to_owned(),
            });
        renamed.collect()
    };
    fn rename_in_value(value: &Value, renamed: &dyn Fn(&str) -> String) -> Value {
        match value {
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| (renamed(key), rename_in_value(value, renamed)))
                    .collect(),
            ),
            Value::String(text) => Value::String(renamed(text)),
            other => other.clone(),
        }
    }
    // Several tables share names of maps, so the map of this table gets its own name.
    let mut config = config.clone();
    let unique = format!("{name}{table}");
    if name == "AZURE" {
        let fields: Vec<&str> = all_tables()
            .flat_map(|of| match of.fields {
                TableFields::Named(fields) => fields
                    .iter()
                    .filter(|field| matches!(field.kind, ValueKind::Reference(of) if of == table))
                    .map(|field| field.name)
                    .collect(),
                _ => Vec::new(),
            })
            .collect();
        let object = config[table]
            .as_object_mut()
            .and_then(|entries| entries.remove(name))
            .expect("the map");
        config[table][&unique] = object;
        for port in config["PORT_QOS_MAP"]
            .as_object_mut()
            .expect("ports")
            .values_mut()
        {
            for field in &fields {
                if port.get(field).is_some() {
                    port[*field] = json!(unique);
                }
            }
        }
        let bad = format!("{unique} \u{e9}");
        return rename_in_value(&config, &|text| {
            if text == unique {
                bad.clone()
            } else {
                text.to_owned()
            }
        });
    }
    rename_in_value(&config, &whole)
}

/// The objects of a table, which are its keys without further parts.
fn object_keys(config: &Value, table: &str) -> Vec<String> {
    let entries = config.get(table).and_then(Value::as_object);
    entries
        .into_iter()
        .flat_map(|entries| entries.keys().cloned())
        .collect()
}

fn assert_one_error_per_broken_object(config: &Value) {
    assert_eq!(error_lines(config), Vec::<String>::new());
    let mut broken = 0;
    for table in referenced_tables() {
        for name in object_keys(config, table) {
            let one = |what: &str, config: &Value| {
                let errors = error_lines(config);
                assert_eq!(errors.len(), 1, "{table}|{name}: {what}\n{}", errors.join("\n"));
                assert!(errors[0].contains(table), "{table}|{name}: {what}\n{}", errors[0]);
            };
            let mut no_object = config.clone();
            no_object[table][&name] = json!(7);
            one("not an object", &no_object);
            one("a name that is refused", &rename_object(config, table, &name));
            let fields = config[table][&name].as_object().expect("fields").clone();
            for field in fields.keys() {
                let mut refused = config.clone();
                refused[table][&name][field] = json!("? \u{7}");
                one(&format!("{field} is refused"), &refused);
                broken += 1;
            }
        }
        if config.get(table).is_some() {
            let mut no_table = config.clone();
            no_table[table] = json!("?");
            let errors = error_lines(&no_table);
            assert_eq!(errors.len(), 1, "{table} is not an object\n{}", errors.join("\n"));
        }
    }
    assert!(broken > 40, "{broken}");
}

#[test]
fn refused_object_is_one_error() {
    assert_one_error_per_broken_object(&traditional_config());
}

#[test]
fn refused_object_is_one_error_in_the_dynamic_buffer_model() {
    assert_one_error_per_broken_object(&dynamic_config());
}

#[test]
fn missing_field_is_one_error() {
    for config in [traditional_config(), dynamic_config()] {
        for table in all_tables() {
            let (TableFields::Named(fields), false) = (&table.fields, table.key.contains(&KeyPart::Prefix))
            else {
                continue;
            };
            for name in object_keys(&config, table.name) {
                for field in fields.iter().filter(|field| field.required) {
                    let mut missing = config.clone();
                    let entry = missing[table.name][&name].as_object_mut().expect("fields");
                    if entry.remove(field.name).is_some() {
                        let errors = error_lines(&missing);
                        assert_eq!(
                            errors.len(),
                            1,
                            "{} {name} {}\n{}",
                            table.name,
                            field.name,
                            errors.join("\n")
                        );
                    }
                }
            }
        }
    }
}

/// Independent errors are all reported at once.
#[test]
fn independent_errors_are_all_reported() {
    let mut config = traditional_config();
    config["BUFFER_POOL"]["in"]["size"] = json!("much");
    config["BUFFER_PG"]["Ethernet4|0"]["profile"] = json!("lossyy");
    config["SCHEDULER"]["weighted"]["weight"] = json!("many");
    config["WRED_PROFILE"]["marking"]["green_max_threshold"] = json!("5");
    config["VLAN"]["Vlan10"]["vlanid"] = json!("11");
    let errors = error_lines(&config);
    for part in ["size", "lossyy", "weight", "green_max_threshold", "vlanid"] {
        assert!(
            errors.iter().any(|error| error.contains(part)),
            "{part}: {errors:?}"
        );
    }
    assert_eq!(errors.len(), 5, "{errors:?}");
}

/// The users of a missing object share a line, and the list of errors contains all of them.
#[test]
fn errors_with_different_keys_share_a_line() {
    let mut config = traditional_config();
    config["BUFFER_PROFILE"]
        .as_object_mut()
        .expect("profiles")
        .remove("lossy");
    config["BUFFER_PORT_INGRESS_PROFILE_LIST"] = json!({});
    for port in ["Ethernet0", "Ethernet4"] {
        config["PORT"][port]["sped"] = json!("1000");
    }
    let text = config.to_string();
    let problems = load(&[("test.json", &text)], &resolve_options(&[]))
        .map(|_| ())
        .expect_err("a missing profile");
    assert_eq!(problems.as_slice().len(), 4, "{problems}");
    assert_eq!(
        problems.to_string(),
        "test.json: BUFFER_PG|Ethernet0|0 and 1 more profile \"lossy\": BUFFER_PROFILE has no entry lossy; add lossy to BUFFER_PROFILE\n\
         test.json: PORT|Ethernet0 and 1 more sped \"1000\": no such field; did you mean speed?"
    );
}
