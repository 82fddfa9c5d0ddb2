//! Converts a scenario of the HPCC model of ns-3 into a lab file.
//!
//! The lab has switches with SONiC tables, model hosts, transports and jobs of kind `flows`. Some features of
//! the model do not exist in labs, and the import returns a note for each of them (docs/import.md).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::format::{first_flow_start_ns, format_duration, format_speed, node_name, port_name};
use super::jobs::{FlowGroup, write_jobs};
use super::switches::write_nodes;
use super::transports::write_transports;
use crate::ns3::{CongestionMode, Scenario, Topology};
use xoff_telemetry::failure::Failure;

/// Largest number of characters in the name of a lab.
const NAME_LEN_MAX: usize = 48;

/// A lab file that [`import_ns3`] generated, with notes about its differences from the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedLab {
    /// Text of the lab file in YAML.
    pub text: String,
    /// Differences from the scenario, one text each, possibly none. The comment at the beginning of `text`
    /// also lists them.
    pub notes: Vec<String>,
}

/// Reads a scenario of the HPCC model of ns-3 and converts it into a lab file.
///
/// `path` is the configuration file of the scenario, or the folder with the file `parameters.txt`
/// or `config.txt`.
///
/// # Errors
/// Fails if a file is missing or invalid, or if a flow has no path from its sender to its receiver.
pub fn import_ns3(path: &Path) -> Result<ImportedLab, Failure> {
    let scenario = Scenario::read(path)?;
    import_scenario(&scenario)
}

/// Converts a scenario into a lab file.
pub(super) fn import_scenario(scenario: &Scenario) -> Result<ImportedLab, Failure> {
    scenario.paths()?;
    let mut notes = scenario_notes(scenario);
    let groups = FlowGroup::group_flows_by_transport(scenario);
    let mut body = String::new();
    body.push_str("topology:\n  routes: auto\n  nodes:\n");
    write_nodes(&mut body, scenario, &mut notes);
    body.push_str("  links:\n");
    write_links(&mut body, &scenario.topology);
    body.push_str("transports:\n");
    write_transports(&mut body, scenario, &groups, &mut notes);
    body.push_str("workload:\n  jobs:\n");
    write_jobs(&mut body, scenario, &groups, &mut notes);
    let mut text = header_comment(scenario, &notes);
    let _ = writeln!(text, "name: {}", lab_name(&scenario.name));
    text.push_str(&body);
    Ok(ImportedLab { text, notes })
}

/// Returns the comment at the beginning of the lab file.
fn header_comment(scenario: &Scenario, notes: &[String]) -> String {
    let mut text = format!("# Written by `xoff lab import --ns3` from {}.\n", scenario.name);
    text.push_str("# h3 and s8 are the nodes 3 and 8 of the topology.");
    match first_flow_start_ns(scenario) {
        0 => text.push('\n'),
        start_ns => {
            let start_s = start_ns as f64 / 1e9;
            let _ = writeln!(text, " The first flow starts at {start_s} s there and at 0 here.");
        }
    }
    for note in notes {
        let _ = writeln!(text, "# - {note}");
    }
    text
}

/// Returns the name of the lab: the name of the scenario with `-` instead of invalid characters.
fn lab_name(name: &str) -> String {
    let stem = name.strip_suffix(".txt").unwrap_or(name);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let allowed: String = stem
        .chars()
        .map(|c| if is_allowed(c) { c } else { '-' })
        .take(NAME_LEN_MAX)
        .collect();
    match allowed.chars().any(|c| c.is_ascii_alphanumeric()) {
        true => allowed,
        false => "ns3".to_owned(),
    }
}

/// Writes the links of the lab.
fn write_links(text: &mut String, topology: &Topology) {
    for (index, link) in topology.links.iter().enumerate() {
        let end = |node: u32| {
            let interface = match topology.nodes[node as usize].is_switch {
                true => port_name(topology.interface_number(node, index).unwrap_or(1)),
                false => "eth0".to_owned(),
            };
            format!("\"{}:{interface}\"", node_name(topology, node))
        };
        let _ = writeln!(
            text,
            "    - {{endpoints: [{}, {}], speed: {}, delay: {}}}",
            end(link.ends[0]),
            end(link.ends[1]),
            format_speed(link.speed_mbps),
            format_duration(link.delay_ns),
        );
    }
}

/// Returns the notes that concern neither switches nor transports.
fn scenario_notes(scenario: &Scenario) -> Vec<String> {
    let (topology, parameters) = (&scenario.topology, &scenario.parameters);
    let mut notes = Vec::new();
    if !parameters.unknown.is_empty() {
        let names = parameters.unknown.join(", ");
        notes.push(format!(
            "settings that the HPCC model does not know are left out: {names}"
        ));
    }
    let pairs: BTreeSet<[u32; 2]> = topology
        .links
        .iter()
        .map(|link| sort_link_ends(link.ends))
        .collect();
    if pairs.len() < topology.links.len() {
        notes.push(
            "some nodes have several links between them: the lab uses all of them, the model the last one"
                .to_owned(),
        );
    }
    let unlinked = topology.nodes.iter().filter(|node| node.links.is_empty()).count();
    if unlinked > 0 {
        let nodes = xoff_telemetry::count_noun(unlinked as u64, "node");
        notes.push(format!("left out: {nodes} without a link"));
    }
    if has_equal_paths(scenario) {
        notes.push(
            "flows with several shortest paths use other paths than in the model, because the hash differs; dst_port has no effect"
                .to_owned(),
        );
    }
    if parameters.mode == CongestionMode::HpccPint {
        notes.push("CC_MODE 10 (HPCC-PINT) becomes hpcc, whose telemetry contains every link".to_owned());
    }
    notes
}

/// Returns the ends of a link in ascending order.
fn sort_link_ends([a, b]: [u32; 2]) -> [u32; 2] {
    [a.min(b), a.max(b)]
}

/// Returns whether a flow of the scenario has several shortest paths.
fn has_equal_paths(scenario: &Scenario) -> bool {
    let receivers: BTreeSet<u32> = scenario.flows.iter().map(|flow| flow.dst).collect();
    receivers
        .into_iter()
        .any(|receiver| crate::ns3::has_equal_paths(&scenario.topology, receiver))
}
