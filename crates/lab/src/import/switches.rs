//! Writes the switches and hosts of a lab file. The switches get SONiC tables with the buffers, ECN
//! thresholds and priorities of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::format::{format_duration, format_speed, node_name, port_name};
use crate::ns3::{EcnThresholds, Link, Ns3ModelParameters, Scenario, SwitchBuffer, Topology};

/// Smallest and largest number of frame slots of a switch. Inside this range, the number of frame slots is
/// twice the buffer size divided by the payload of a full packet.
const FRAME_COUNT_RANGE: std::ops::RangeInclusive<u64> = 4_096..=1_048_576;

/// Writes the switches and then the hosts.
pub(super) fn write_nodes(text: &mut String, scenario: &Scenario, notes: &mut Vec<String>) {
    let topology = &scenario.topology;
    let is_linked = |node: &u32| !topology.nodes[*node as usize].links.is_empty();
    let mut layers = WrittenConfigLayers::default();
    for node in topology.switches().filter(is_linked) {
        let ports = PortConfigLayer::new(scenario, node).to_yaml(notes);
        let _ = writeln!(text, "    {}:\n      kind: switch", node_name(topology, node));
        layers.write_config(text, scenario, ports);
    }
    for node in topology.hosts().filter(is_linked) {
        let name = node_name(topology, node);
        let _ = writeln!(text, "    {name}: {{kind: model, nic: {{response_ns: 0}}}}");
    }
    add_rounded_percentage_notes(&scenario.parameters, notes);
}

/// The configuration layers that the lab file already contains. Later switches with the same layer use a
/// YAML alias.
#[derive(Default)]
struct WrittenConfigLayers {
    /// Whether the common layer is written.
    has_common: bool,
    /// Number of each written port layer, by its text.
    ports: BTreeMap<String, usize>,
}

impl WrittenConfigLayers {
    /// Writes the configuration of a switch. `ports` is the text of its port layer.
    fn write_config(&mut self, text: &mut String, scenario: &Scenario, ports: String) {
        let next = self.ports.len() + 1;
        let known = self.ports.get(&ports).copied();
        if let (true, Some(number)) = (self.has_common, known) {
            let _ = writeln!(text, "      config: [*common, *ports{number}]");
            return;
        }
        text.push_str("      config:\n");
        match self.has_common {
            true => text.push_str("        - *common\n"),
            false => {
                text.push_str("        - &common\n");
                text.push_str(&shared_switch_config_layer(scenario));
            }
        }
        self.has_common = true;
        let _ = writeln!(text, "        - &ports{next}");
        text.push_str(&ports);
        self.ports.insert(ports, next);
    }
}

/// Indentation of the tables of a configuration layer.
const INDENT: &str = "          ";

/// Returns the layer with the tables that are the same for all switches.
fn shared_switch_config_layer(scenario: &Scenario) -> String {
    let parameters = &scenario.parameters;
    let frames = 2 * u64::from(parameters.buffer_bytes) / u64::from(parameters.payload_bytes);
    let frames = frames.clamp(*FRAME_COUNT_RANGE.start(), *FRAME_COUNT_RANGE.end());
    let mut text = String::new();
    let mut line = |content: String| {
        let _ = writeln!(text, "{INDENT}{content}");
    };
    line(format!(
        "XOFF_SWITCH: {{localhost: {{cell_size: 1, mark_point: dequeue, pipeline_latency: 0, frames: {frames}}}}}"
    ));
    let identity = |step: usize| {
        let entries: Vec<String> = (0..8).map(|n| format!("\"{}\": \"{n}\"", n * step)).collect();
        format!("{{NS3: {{{}}}}}", entries.join(", "))
    };
    line(format!("DSCP_TO_TC_MAP: {}", identity(8)));
    for table in [
        "TC_TO_QUEUE_MAP",
        "TC_TO_PRIORITY_GROUP_MAP",
        "MAP_PFC_PRIORITY_TO_QUEUE",
    ] {
        line(format!("{table}: {}", identity(1)));
    }
    line("SCHEDULER:".to_owned());
    line("  flows: {type: DWRR, weight: 1}".to_owned());
    line("  acknowledgements: {type: STRICT}".to_owned());
    let marking = ecn_thresholds_of_switches(scenario);
    if parameters.ecn && !marking.is_empty() {
        line("WRED_PROFILE:".to_owned());
        for marking in marking {
            line(wred_profile(marking));
        }
    }
    text
}

/// Returns the ECN thresholds for all link speeds that occur at switches.
fn ecn_thresholds_of_switches(scenario: &Scenario) -> Vec<&EcnThresholds> {
    let topology = &scenario.topology;
    let has_switch = |link: &&Link| {
        link.ends
            .iter()
            .any(|end| topology.nodes[*end as usize].is_switch)
    };
    let speeds: BTreeSet<u64> = topology
        .links
        .iter()
        .filter(has_switch)
        .map(Link::rate_bps)
        .collect();
    let marking = speeds
        .into_iter()
        .filter_map(|rate| scenario.parameters.marking(rate));
    marking.collect()
}

/// Returns an entry of the `WRED_PROFILE` table.
fn wred_profile(marking: &EcnThresholds) -> String {
    format!(
        "  {}: {{ecn: ecn_all, wred_green_enable: \"true\", green_min_threshold: {}, green_max_threshold: {}, green_drop_probability: {}}}",
        wred_profile_name(marking.rate_bps),
        marking.min_bytes,
        marking.max_bytes,
        marking_percent(marking),
    )
}

/// Returns the name of the WRED profile of a link speed.
fn wred_profile_name(rate_bps: u64) -> String {
    format!("ecn_{}", format_speed((rate_bps / 1_000_000) as u32))
}

/// Returns the marking probability in whole percent.
fn marking_percent(marking: &EcnThresholds) -> u64 {
    (marking.max_probability * 100.0).round() as u64
}

/// Adds a note if a marking probability is rounded.
fn add_rounded_percentage_notes(parameters: &Ns3ModelParameters, notes: &mut Vec<String>) {
    let is_whole = |marking: &EcnThresholds| {
        let exact = marking.max_probability * 100.0;
        (exact - exact.round()).abs() < 1e-9
    };
    if parameters.ecn && !parameters.marking.iter().all(is_whole) {
        notes.push("PMAX_MAP: probabilities are whole percent in SONiC, so some are rounded".to_owned());
    }
}

/// The layer with the tables of the ports and the buffer of one switch.
struct PortConfigLayer<'a> {
    scenario: &'a Scenario,
    /// The names of the ports, grouped by link speed in Mb/s and delay in nanoseconds. All ports of a group
    /// have the same buffer profile.
    ports: BTreeMap<(u32, u64), Vec<String>>,
    buffer: SwitchBuffer,
    /// Priorities of the flows.
    priorities: BTreeSet<u8>,
}

impl PortConfigLayer<'_> {
    /// Collects the ports of a switch node.
    fn new(scenario: &Scenario, node: u32) -> PortConfigLayer<'_> {
        let topology: &Topology = &scenario.topology;
        let mut ports: BTreeMap<(u32, u64), Vec<String>> = BTreeMap::new();
        for (index, link) in topology.nodes[node as usize].links.iter().enumerate() {
            let link = &topology.links[*link];
            ports
                .entry((link.speed_mbps, link.delay_ns))
                .or_default()
                .push(port_name(index as u32 + 1));
        }
        PortConfigLayer {
            scenario,
            ports,
            buffer: SwitchBuffer::new(scenario, node),
            priorities: scenario.flows.iter().map(|flow| flow.priority).collect(),
        }
    }

    /// Returns the text of the layer.
    fn to_yaml(&self, notes: &mut Vec<String>) -> String {
        let mut text = String::new();
        self.write_buffer_pools(&mut text, notes);
        self.write_priority_groups(&mut text);
        self.write_queues(&mut text);
        text
    }

    /// Writes the buffer pools and profiles.
    fn write_buffer_pools(&self, text: &mut String, notes: &mut Vec<String>) {
        let buffer_bytes = u64::from(self.scenario.parameters.buffer_bytes).max(1);
        let shared = match self.buffer.shared_bytes {
            Some(shared) => shared,
            None => {
                let note = "BUFFER_SIZE is smaller than the reserved space and headroom of the ports of a switch: the limits have no effect there, as in the model";
                if !notes.iter().any(|known| known == note) {
                    notes.push(note.to_owned());
                }
                u64::from(u32::MAX)
            }
        };
        let _ = writeln!(text, "{INDENT}BUFFER_POOL:");
        for (name, side, mode, size) in [
            ("flows", "ingress", "dynamic", shared),
            ("acknowledgements", "ingress", "static", buffer_bytes),
            ("queues", "egress", "static", buffer_bytes.max(shared)),
        ] {
            let _ = writeln!(
                text,
                "{INDENT}  {name}: {{type: {side}, mode: {mode}, size: {size}}}"
            );
        }
        let _ = writeln!(text, "{INDENT}BUFFER_PROFILE:");
        for (speed_mbps, delay_ns) in self.ports.keys() {
            let profile = self.buffer.port_profile(*speed_mbps, *delay_ns);
            let _ = writeln!(
                text,
                "{INDENT}  {}: {{pool: flows, size: {}, xoff: {}, xon_offset: {}, dynamic_th: -{}}}",
                profile_name(*speed_mbps, *delay_ns),
                profile.reserve_bytes + profile.headroom_bytes,
                profile.headroom_bytes,
                profile.resume_offset_bytes,
                profile.shift,
            );
        }
        for (name, pool, size) in [
            ("acknowledgements", "acknowledgements", buffer_bytes),
            ("queues", "queues", buffer_bytes.max(shared)),
        ] {
            let _ = writeln!(
                text,
                "{INDENT}  {name}: {{pool: {pool}, size: 0, static_th: {size}}}"
            );
        }
    }

    /// Writes the priority groups of all ports.
    fn write_priority_groups(&self, text: &mut String) {
        let _ = writeln!(text, "{INDENT}BUFFER_PG:");
        for ((speed_mbps, delay_ns), ports) in &self.ports {
            let ports = ports.join(",");
            for priority in &self.priorities {
                let profile = profile_name(*speed_mbps, *delay_ns);
                let _ = writeln!(text, "{INDENT}  \"{ports}|{priority}\": {{profile: {profile}}}");
            }
            let _ = writeln!(text, "{INDENT}  \"{ports}|0\": {{profile: acknowledgements}}");
        }
    }

    /// Writes the queues and the QoS maps of all ports.
    fn write_queues(&self, text: &mut String) {
        let priorities: Vec<String> = self.priorities.iter().map(u8::to_string).collect();
        let pfc_enable = priorities.join(",");
        let all_ports: Vec<&str> = self.ports.values().flatten().map(String::as_str).collect();
        let all_ports = all_ports.join(",");
        let _ = writeln!(
            text,
            "{INDENT}BUFFER_QUEUE: {{\"{all_ports}|0-7\": {{profile: queues}}}}"
        );
        let _ = writeln!(text, "{INDENT}QUEUE:");
        let _ = writeln!(
            text,
            "{INDENT}  \"{all_ports}|0\": {{scheduler: acknowledgements}}"
        );
        let parameters = &self.scenario.parameters;
        for ((speed_mbps, _), ports) in &self.ports {
            let ports = ports.join(",");
            let marking = parameters
                .marking(u64::from(*speed_mbps) * 1_000_000)
                .filter(|_| parameters.ecn);
            let wred = marking.map_or_else(String::new, |marking| {
                format!(", wred_profile: {}", wred_profile_name(marking.rate_bps))
            });
            for priority in &self.priorities {
                let _ = writeln!(
                    text,
                    "{INDENT}  \"{ports}|{priority}\": {{scheduler: flows{wred}}}"
                );
            }
        }
        let _ = writeln!(text, "{INDENT}PORT_QOS_MAP:");
        let _ = writeln!(
            text,
            "{INDENT}  \"{all_ports}\": {{dscp_to_tc_map: NS3, tc_to_queue_map: NS3, tc_to_pg_map: NS3, pfc_to_queue_map: NS3, pfc_enable: \"{pfc_enable}\"}}"
        );
    }
}

/// Returns the name of the buffer profile of a link speed and delay.
fn profile_name(speed_mbps: u32, delay_ns: u64) -> String {
    format!("pg_{}_{}", format_speed(speed_mbps), format_duration(delay_ns))
}
