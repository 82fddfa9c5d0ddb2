//! The same hosts on one switch that blocks nobody: what a fabric is measured against.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::plan::{ConfigLayer, FarEnd, LabPlan, LinkPlan, SwitchPlan};
use super::super::routes::{COMPUTED_ROUTES, SwitchGraph};
use xoff_telemetry::failure::Failure;

/// Name of the switch.
const NAME: &str = "one-switch";
/// Tables about the way to other switches, which are gone.
const OF_THE_FABRIC: [&str; 3] = ["STATIC_ROUTE", "XOFF_ROUTE", "NEIGH"];

/// The lab with all its hosts at one switch: every host keeps its link, its address and its place in the workload, links between
/// switches are gone. The switch is configured as those were that hosts are at: layers that are about the whole switch as the first
/// of them has it, and what is about ports from the switch that each was at. A lab that has one switch is its own.
///
/// # Errors
/// Addresses that do not fit one switch.
pub(super) fn one_switch(plan: &LabPlan) -> Result<LabPlan, Failure> {
    let alone = plan
        .links
        .iter()
        .all(|link| !matches!(link.far, FarEnd::Switch { .. }));
    if alone && plan.switches.len() == 1 {
        return Ok(plan.clone());
    }
    let mut ports = vec![Ports::new(); plan.switches.len()];
    let mut edges: Vec<usize> = Vec::new();
    let mut links: Vec<LinkPlan> = Vec::new();
    for link in &plan.links {
        if let FarEnd::Switch { switch, port } = &link.far {
            ports[link.switch].insert(link.port.clone(), None);
            ports[*switch].insert(port.clone(), None);
            continue;
        }
        let port = format!("Ethernet{}", 4 * links.len());
        ports[link.switch].insert(link.port.clone(), Some(port.clone()));
        if !edges.contains(&link.switch) {
            edges.push(link.switch);
        }
        links.push(LinkPlan {
            switch: 0,
            port,
            ..link.clone()
        });
    }
    let made =
        |layer: &ConfigLayer| matches!(layer, ConfigLayer::Text { source, .. } if source == COMPUTED_ROUTES);
    let routed = plan.switches.iter().any(|switch| switch.config.iter().any(made));
    let written: Vec<(usize, Vec<&ConfigLayer>)> = edges
        .iter()
        .map(|&edge| {
            let layers = plan.switches[edge].config.iter();
            (edge, layers.filter(|layer| !made(layer)).collect())
        })
        .collect();
    let count = written.iter().map(|(_, layers)| layers.len()).max().unwrap_or(0);
    let config = (0..count)
        .map(|at| layer_of_all(plan, at, &written, &ports))
        .collect();
    let mut one = LabPlan {
        switches: vec![SwitchPlan {
            name: NAME.to_owned(),
            config,
            asic: None,
            pg_profiles: plan.switches.iter().find_map(|switch| switch.pg_profiles.clone()),
        }],
        links,
        ..plan.clone()
    };
    if routed {
        route(&mut one)?;
    }
    Ok(one)
}

/// What becomes of the ports of a switch: their new names, or `None` for those to other switches.
type Ports = HashMap<String, Option<String>>;

/// The layers that the switches have at one place, as one.
fn layer_of_all(
    plan: &LabPlan,
    at: usize,
    written: &[(usize, Vec<&ConfigLayer>)],
    ports: &[Ports],
) -> ConfigLayer {
    let mut sources: Option<String> = None;
    let mut merged = Map::new();
    for (switch, layers) in written {
        match layers.get(at) {
            Some(preset @ ConfigLayer::Preset { .. }) if sources.is_none() => return (*preset).clone(),
            Some(ConfigLayer::Text { source, text }) => {
                sources.get_or_insert_with(|| source.clone());
                // What is no JSON has been refused with the lab itself.
                let top = serde_json::from_str(text).unwrap_or_default();
                let tables = part_of(top, plan.switches[*switch].asic.as_deref());
                add(&mut merged, tables, &ports[*switch]);
            }
            _ => {}
        }
    }
    ConfigLayer::Text {
        source: sources.unwrap_or_default(),
        text: Value::Object(merged).to_string(),
    }
}

/// The tables of the selected ASIC where a file configures several, else those of the file.
fn part_of(mut top: Map<String, Value>, asic: Option<&str>) -> Map<String, Value> {
    match asic.and_then(|asic| top.remove(asic)) {
        Some(Value::Object(tables)) => tables,
        _ => top,
    }
}

/// Adds the tables of a switch, its ports renamed; what is there already stays.
fn add(merged: &mut Map<String, Value>, tables: Map<String, Value>, ports: &Ports) {
    for (table, entries) in tables {
        if OF_THE_FABRIC.contains(&table.as_str()) {
            continue;
        }
        let entries = match entries {
            Value::Object(entries) => entries,
            Value::Null => {
                merged.entry(table).or_insert(Value::Null);
                continue;
            }
            _ => continue,
        };
        let target = merged.entry(table).or_insert(Value::Null);
        if target.is_null() {
            *target = Value::Object(Map::new());
        }
        for (key, fields) in entries {
            if let (Some(key), Some(target)) = (renamed_key(&key, ports), target.as_object_mut()) {
                target.entry(key).or_insert_with(|| renamed_value(fields, ports));
            }
        }
    }
}

/// A key of a table, its parts divided by `|`; `None` if it is about ports that are gone.
fn renamed_key(key: &str, ports: &Ports) -> Option<String> {
    let parts: Option<Vec<String>> = key
        .split('|')
        .map(|part| match port_list(part, ports) {
            Some(list) => Some(list).filter(|list| !list.is_empty()),
            None => Some(part.to_owned()),
        })
        .collect();
    Some(parts?.join("|"))
}

fn renamed_value(value: Value, ports: &Ports) -> Value {
    match value {
        Value::String(text) => Value::String(port_list(&text, ports).unwrap_or(text)),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(
                fields
                    .map(|(key, value)| (key, renamed_value(value, ports)))
                    .collect(),
            )
        }
        Value::Array(items) => {
            let gone = |item: &Value| {
                let text = item.as_str();
                text.and_then(|text| port_list(text, ports))
                    .is_some_and(|list| list.is_empty())
            };
            let items = items.into_iter().filter(|item| !gone(item));
            Value::Array(items.map(|item| renamed_value(item, ports)).collect())
        }
        other => other,
    }
}

/// The new names of a list of ports, those left out that are gone; `None` if it is none.
fn port_list(text: &str, ports: &Ports) -> Option<String> {
    let known: Option<Vec<&Option<String>>> = text.split(',').map(|port| ports.get(port.trim())).collect();
    let there: Vec<&str> = known?.into_iter().flatten().map(String::as_str).collect();
    Some(there.join(","))
}

/// Interfaces and neighbours of the one switch, for the addresses that the hosts have.
fn route(one: &mut LabPlan) -> Result<(), Failure> {
    let wrong = |why: String| {
        Failure::configuration("the lab's hosts do not fit one switch, which they are to be compared with")
            .because(why)
            .fix("give each host a network of its own, or leave `ipv4` and `gateway` out")
    };
    let graph = SwitchGraph::new(1, &one.links).ok_or_else(|| wrong("too many links".to_owned()))?;
    let fixed = vec![true; one.hosts.len()];
    let networks = graph
        .assign_host_addresses(&mut one.hosts, &fixed)
        .map_err(|overlap| wrong(overlap.reason))?;
    graph.add_route_layers(&mut one.switches, &mut one.hosts, &networks, &[]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::plan::TimeMode;
    use super::super::super::{config::resolve_switch_setup, resolve::parse_lab};
    use super::*;
    use xoff_units::Picos;

    fn plan(text: &str) -> LabPlan {
        parse_lab(text, "x.yml", Path::new(""), TimeMode::Virtual)
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn hosts_keep_their_links_and_addresses() {
        let lab = plan(
            "name: x\ntopology:\n  fabric:\n    leaf-spine: {leaves: 2, spines: 2, hosts: 2, speed: 100g, uplink_speed: 200g, delay: 1us, config: {preset: roce-lossless}}\n",
        );
        let one = one_switch(&lab).unwrap();
        assert_eq!((one.switches.len(), one.links.len()), (1, 4));
        let ports: Vec<&str> = one.links.iter().map(|link| link.port.as_str()).collect();
        assert_eq!(ports, ["Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"]);
        assert!(
            one.links
                .iter()
                .all(|link| link.speed_mbps == Some(100_000) && link.delay_ns == 1_000)
        );
        let addresses = |plan: &LabPlan| -> Vec<_> {
            let hosts = plan.hosts.iter();
            hosts.map(|host| (host.ipv4, host.gateways.clone())).collect()
        };
        assert_eq!(addresses(&one), addresses(&lab));
        let setup = resolve_switch_setup(&one, 0, 1, Picos::from_micros(10))
            .unwrap_or_else(|failure| panic!("{failure}"));
        let ports = &setup.loaded.resolved.config.ports;
        assert_eq!(ports.len(), 4);
        assert!(ports.iter().all(|port| port.pfc.enabled == 1 << 3));
    }

    #[test]
    fn one_switch_is_its_own() {
        let lab = plan("name: x\ntopology:\n  fabric:\n    star: {hosts: 3, speed: 100g}\n");
        assert_eq!(one_switch(&lab).unwrap(), lab);
    }

    #[test]
    fn what_is_about_ports_goes_with_them() {
        let ports: Ports = [
            ("Ethernet0".to_owned(), Some("Ethernet8".to_owned())),
            ("Ethernet4".to_owned(), None),
        ]
        .into();
        let tables = serde_json::json!({
            "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}, "Ethernet4": {"pfc_enable": "3"}},
            "BUFFER_PG": {"Ethernet0,Ethernet4|3": {"profile": "pg"}},
            "ACL_TABLE": {"A": {"ports": ["Ethernet0", "Ethernet4"], "stage": "ingress"}},
            "WRED_PROFILE": {"AZURE": {"ecn": "ecn_all"}},
            "STATIC_ROUTE": {"10.0.0.0/8": {"nexthop": "172.16.0.1"}},
        });
        let Value::Object(tables) = tables else { panic!() };
        let mut merged = Map::new();
        add(&mut merged, tables, &ports);
        let expected = serde_json::json!({
            "PORT_QOS_MAP": {"Ethernet8": {"pfc_enable": "3"}},
            "BUFFER_PG": {"Ethernet8|3": {"profile": "pg"}},
            "ACL_TABLE": {"A": {"ports": ["Ethernet8"], "stage": "ingress"}},
            "WRED_PROFILE": {"AZURE": {"ecn": "ecn_all"}},
        });
        assert_eq!(Value::Object(merged), expected);
    }
}
