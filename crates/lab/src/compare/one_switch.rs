//! Builds the reference lab of a comparison, which has the same hosts at one non-blocking switch.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::plan::{ConfigLayer, FarEnd, LabPlan, LinkPlan, SwitchPlan};
use super::super::routes::SwitchGraph;
use xoff_telemetry::failure::Failure;

/// Name of the single switch.
const SWITCH_NAME: &str = "one-switch";
/// Tables about routes to other switches. The single switch does not need them.
const FABRIC_TABLES: [&str; 3] = ["STATIC_ROUTE", "XOFF_ROUTE", "NEIGH"];

/// Moves all hosts of a lab to one switch and returns the new lab. Each host keeps its link, its address and
/// its part in the workload. Links between switches are removed. The configuration of the new switch is
/// merged from the configurations of all switches with hosts. Settings of a port come from the old switch of
/// this port. Settings of the whole switch come from the first switch with a host. A lab with only one switch
/// is returned unchanged.
///
/// # Errors
/// Fails if the addresses of the hosts are not possible on one switch.
pub(super) fn one_switch_lab(plan: &LabPlan) -> Result<LabPlan, Failure> {
    let is_unlinked = plan
        .links
        .iter()
        .all(|link| !matches!(link.far, FarEnd::Switch { .. }));
    if is_unlinked && plan.switches.len() == 1 {
        return Ok(plan.clone());
    }
    let mut ports = vec![PortRenames::new(); plan.switches.len()];
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
    let routed = plan
        .switches
        .iter()
        .any(|switch| switch.config.iter().any(ConfigLayer::is_computed));
    let written_layers: Vec<(usize, Vec<&ConfigLayer>)> = edges
        .iter()
        .map(|&edge| {
            let layers = plan.switches[edge].config.iter();
            (edge, layers.filter(|layer| !layer.is_computed()).collect())
        })
        .collect();
    let count = written_layers
        .iter()
        .map(|(_, layers)| layers.len())
        .max()
        .unwrap_or(0);
    let config = (0..count)
        .map(|at| merge_layers(plan, at, &written_layers, &ports))
        .collect();
    let mut one = LabPlan {
        switches: vec![SwitchPlan {
            name: SWITCH_NAME.to_owned(),
            config,
            asic: None,
            pg_profiles: plan.switches.iter().find_map(|switch| switch.pg_profiles.clone()),
        }],
        links,
        ..plan.clone()
    };
    if routed {
        configure_routing(&mut one)?;
    }
    Ok(one)
}

/// The new port name for each old port name of a switch. The value is `None` if the link of the
/// port was removed.
type PortRenames = HashMap<String, Option<String>>;

/// Merges layer number `layer_index` of all switches into one layer. `written_layers` contains the
/// configuration layers of each switch with hosts, without computed routes.
fn merge_layers(
    plan: &LabPlan,
    layer_index: usize,
    written_layers: &[(usize, Vec<&ConfigLayer>)],
    ports: &[PortRenames],
) -> ConfigLayer {
    let mut first_source: Option<String> = None;
    let mut merged = Map::new();
    for (switch, layers) in written_layers {
        match layers.get(layer_index) {
            Some(preset @ ConfigLayer::Preset { .. }) if first_source.is_none() => return (*preset).clone(),
            Some(ConfigLayer::Text { source, text }) => {
                first_source.get_or_insert_with(|| source.clone());
                // The checks of the lab have already rejected invalid JSON.
                let top = serde_json::from_str(text).unwrap_or_default();
                let tables = select_asic_tables(top, plan.switches[*switch].asic.as_deref());
                merge_tables(&mut merged, tables, &ports[*switch]);
            }
            _ => {}
        }
    }
    ConfigLayer::Text {
        source: first_source.unwrap_or_default(),
        text: Value::Object(merged).to_string(),
    }
}

/// Returns the tables of the selected ASIC if the file describes several ASICs. Otherwise returns all tables
/// of the file.
fn select_asic_tables(mut config: Map<String, Value>, asic: Option<&str>) -> Map<String, Value> {
    match asic.and_then(|asic| config.remove(asic)) {
        Some(Value::Object(tables)) => tables,
        _ => config,
    }
}

/// Adds the tables of a switch with renamed ports. Existing entries stay.
fn merge_tables(merged: &mut Map<String, Value>, tables: Map<String, Value>, ports: &PortRenames) {
    for (table, entries) in tables {
        if FABRIC_TABLES.contains(&table.as_str()) {
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
            if let (Some(key), Some(target)) = (rename_ports_in_key(&key, ports), target.as_object_mut()) {
                target
                    .entry(key)
                    .or_insert_with(|| rename_ports_in_value(fields, ports));
            }
        }
    }
}

/// Renames the ports in a key of a table. The character `|` separates the segments of a key. Returns `None`
/// if all ports in a segment were removed.
fn rename_ports_in_key(key: &str, ports: &PortRenames) -> Option<String> {
    let parts: Option<Vec<String>> = key
        .split('|')
        .map(|part| match rename_port_list(part, ports) {
            Some(list) => Some(list).filter(|list| !list.is_empty()),
            None => Some(part.to_owned()),
        })
        .collect();
    Some(parts?.join("|"))
}

/// Renames the ports in a value of a table. Ports of removed links are deleted from arrays.
fn rename_ports_in_value(value: Value, ports: &PortRenames) -> Value {
    match value {
        Value::String(text) => Value::String(rename_port_list(&text, ports).unwrap_or(text)),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(
                fields
                    .map(|(key, value)| (key, rename_ports_in_value(value, ports)))
                    .collect(),
            )
        }
        Value::Array(items) => {
            let is_removed = |item: &Value| {
                let text = item.as_str();
                text.and_then(|text| rename_port_list(text, ports))
                    .is_some_and(|list| list.is_empty())
            };
            let items = items.into_iter().filter(|item| !is_removed(item));
            Value::Array(items.map(|item| rename_ports_in_value(item, ports)).collect())
        }
        other => other,
    }
}

/// Renames the ports of a comma-separated list and deletes the ports of removed links. Returns `None` if the
/// text is not a list of ports.
fn rename_port_list(text: &str, ports: &PortRenames) -> Option<String> {
    let new_names: Option<Vec<&Option<String>>> =
        text.split(',').map(|port| ports.get(port.trim())).collect();
    let remaining: Vec<&str> = new_names?.into_iter().flatten().map(String::as_str).collect();
    Some(remaining.join(","))
}

/// Adds interfaces and neighbours for the addresses of the hosts to the single switch.
fn configure_routing(lab: &mut LabPlan) -> Result<(), Failure> {
    let impossible = |why: String| {
        Failure::configuration("the lab cannot be compared with one switch")
            .because(why)
            .fix("give each host a network of its own, or omit `ipv4` and `gateway`")
    };
    let graph = SwitchGraph::new(1, &lab.links).ok_or_else(|| impossible("too many links".to_owned()))?;
    let fixed = vec![true; lab.hosts.len()];
    let networks = graph
        .assign_host_addresses(&mut lab.hosts, &fixed)
        .map_err(|overlap| impossible(overlap.reason))?;
    graph.add_route_layers(&mut lab.switches, &mut lab.hosts, &networks, &[]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::plan::TimeMode;
    use super::super::super::{config::resolve_switch_setup, resolve::parse_lab};
    use super::*;
    use xoff_units::Picos;

    fn parse_plan(text: &str) -> LabPlan {
        parse_lab(text, "x.yml", Path::new(""), TimeMode::Virtual)
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn hosts_keep_links_and_addresses_on_one_switch() {
        let lab = parse_plan(
            "name: x\ntopology:\n  fabric:\n    leaf-spine: {leaves: 2, spines: 2, hosts: 2, speed: 100g, uplink_speed: 200g, delay: 1us, config: {preset: roce-lossless}}\n",
        );
        let one = one_switch_lab(&lab).unwrap();
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
    fn a_lab_with_one_switch_is_unchanged() {
        let lab = parse_plan("name: x\ntopology:\n  fabric:\n    star: {hosts: 3, speed: 100g}\n");
        assert_eq!(one_switch_lab(&lab).unwrap(), lab);
    }

    #[test]
    fn entries_of_removed_ports_are_removed() {
        let ports: PortRenames = [
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
        merge_tables(&mut merged, tables, &ports);
        let expected = serde_json::json!({
            "PORT_QOS_MAP": {"Ethernet8": {"pfc_enable": "3"}},
            "BUFFER_PG": {"Ethernet8|3": {"profile": "pg"}},
            "ACL_TABLE": {"A": {"ports": ["Ethernet8"], "stage": "ingress"}},
            "WRED_PROFILE": {"AZURE": {"ecn": "ecn_all"}},
        });
        assert_eq!(Value::Object(merged), expected);
    }
}
