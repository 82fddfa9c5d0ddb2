//! One cause, one error: an object that is refused makes no errors of those that refer to it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::how;
use crate::load;
use crate::schema::{Fields, Kind, Part, tables};

/// A configuration in which an object of each table is used.
fn traditional() -> Value {
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

/// The same in the dynamic buffer model.
fn dynamic() -> Value {
    let mut config = traditional();
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

fn errors(config: &Value) -> Vec<String> {
    let text = config.to_string();
    match load(&[("test.json", &text)], &how(&[])) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.as_slice().iter().map(ToString::to_string).collect(),
    }
}

/// Every table of the schema to which a key or a field of another refers.
fn referred_tables() -> BTreeSet<&'static str> {
    let mut referred = BTreeSet::from(["PORT", "VLAN", "PORTCHANNEL", "XOFF_LB_SCHEME"]);
    for table in tables() {
        let Fields::Named(fields) = table.fields else {
            continue;
        };
        for field in fields {
            match field.kind {
                Kind::Reference(target) | Kind::ReferenceOrNull(target) | Kind::References(target) => {
                    referred.insert(target);
                }
                _ => {}
            }
        }
    }
    referred
}

/// A name that no table takes, in every key, list and value that names the object.
fn rename_everywhere(config: &Value, table: &str, name: &str) -> Value {
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
    fn walk(value: &Value, renamed: &dyn Fn(&str) -> String) -> Value {
        match value {
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| (renamed(key), walk(value, renamed)))
                    .collect(),
            ),
            Value::String(text) => Value::String(renamed(text)),
            other => other.clone(),
        }
    }
    // Names of maps are shared by several tables: this table's map gets a name of its own.
    let mut config = config.clone();
    let unique = format!("{name}{table}");
    if name == "AZURE" {
        let fields: Vec<&str> = tables()
            .flat_map(|of| match of.fields {
                Fields::Named(fields) => fields
                    .iter()
                    .filter(|field| matches!(field.kind, Kind::Reference(of) if of == table))
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
        return walk(&config, &|text| {
            if text == unique {
                bad.clone()
            } else {
                text.to_owned()
            }
        });
    }
    walk(&config, &whole)
}

/// The objects of a table: keys without further parts.
fn objects(config: &Value, table: &str) -> Vec<String> {
    let entries = config.get(table).and_then(Value::as_object);
    entries
        .into_iter()
        .flat_map(|entries| entries.keys().cloned())
        .collect()
}

fn check_every_break(config: &Value) {
    assert_eq!(errors(config), Vec::<String>::new());
    let mut broken = 0;
    for table in referred_tables() {
        for name in objects(config, table) {
            let one = |what: &str, config: &Value| {
                let errors = errors(config);
                assert_eq!(errors.len(), 1, "{table}|{name}: {what}\n{}", errors.join("\n"));
                assert!(errors[0].contains(table), "{table}|{name}: {what}\n{}", errors[0]);
            };
            let mut no_object = config.clone();
            no_object[table][&name] = json!(7);
            one("not an object", &no_object);
            one("a name that is refused", &rename_everywhere(config, table, &name));
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
            let errors = errors(&no_table);
            assert_eq!(errors.len(), 1, "{table} is not an object\n{}", errors.join("\n"));
        }
    }
    assert!(broken > 40, "{broken}");
}

#[test]
fn a_refused_object_is_one_error() {
    check_every_break(&traditional());
}

#[test]
fn a_refused_object_is_one_error_in_the_dynamic_buffer_model() {
    check_every_break(&dynamic());
}

#[test]
fn a_missing_field_is_one_error() {
    for config in [traditional(), dynamic()] {
        for table in tables() {
            let (Fields::Named(fields), false) = (&table.fields, table.key.contains(&Part::Prefix)) else {
                continue;
            };
            for name in objects(&config, table.name) {
                for field in fields.iter().filter(|field| field.required) {
                    let mut missing = config.clone();
                    let entry = missing[table.name][&name].as_object_mut().expect("fields");
                    if entry.remove(field.name).is_some() {
                        let errors = errors(&missing);
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

/// Errors that do not depend on each other are all reported at once.
#[test]
fn independent_errors_stay() {
    let mut config = traditional();
    config["BUFFER_POOL"]["in"]["size"] = json!("much");
    config["BUFFER_PG"]["Ethernet4|0"]["profile"] = json!("lossyy");
    config["SCHEDULER"]["weighted"]["weight"] = json!("many");
    config["WRED_PROFILE"]["marking"]["green_max_threshold"] = json!("5");
    config["VLAN"]["Vlan10"]["vlanid"] = json!("11");
    let errors = errors(&config);
    for part in ["size", "lossyy", "weight", "green_max_threshold", "vlanid"] {
        assert!(
            errors.iter().any(|error| error.contains(part)),
            "{part}: {errors:?}"
        );
    }
    assert_eq!(errors.len(), 5, "{errors:?}");
}

/// The users of an object that is missing are one line, and all of them are in the list.
#[test]
fn errors_that_differ_in_keys_alone_share_a_line() {
    let mut config = traditional();
    config["BUFFER_PROFILE"]
        .as_object_mut()
        .expect("profiles")
        .remove("lossy");
    config["BUFFER_PORT_INGRESS_PROFILE_LIST"] = json!({});
    for port in ["Ethernet0", "Ethernet4"] {
        config["PORT"][port]["sped"] = json!("1000");
    }
    let text = config.to_string();
    let problems = load(&[("test.json", &text)], &how(&[]))
        .map(|_| ())
        .expect_err("a missing profile");
    assert_eq!(problems.as_slice().len(), 4, "{problems}");
    assert_eq!(
        problems.to_string(),
        "test.json: BUFFER_PG|Ethernet0|0 and 1 more profile \"lossy\": BUFFER_PROFILE has no entry lossy; add lossy to BUFFER_PROFILE\n\
         test.json: PORT|Ethernet0 and 1 more sped \"1000\": no such field; did you mean speed?"
    );
}
