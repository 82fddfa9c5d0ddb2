//! Formats names, speeds and times of a scenario for a lab file.

use crate::ns3::{Scenario, Topology};

/// Returns the start time of the first flow in nanoseconds. Returns 0 for a scenario without flows.
pub(super) fn first_flow_start_ns(scenario: &Scenario) -> u64 {
    scenario.flows.first().map_or(0, |flow| flow.start_ns)
}

/// Returns the name of a node, for example `s12` for a switch or `h3` for a host. The number in the name is
/// the node number in ns-3 flow lists.
pub(super) fn node_name(topology: &Topology, node: u32) -> String {
    match topology.nodes[node as usize].is_switch {
        true => format!("s{node}"),
        false => format!("h{node}"),
    }
}

/// Returns the SONiC port name for an interface number of the model. For example, interface 1 is `Ethernet0`
/// and interface 2 is `Ethernet4`.
pub(super) fn port_name(interface: u32) -> String {
    format!("Ethernet{}", 4 * interface.saturating_sub(1))
}

/// Formats a speed for a lab file, such as `100g`.
pub(super) fn format_speed(speed_mbps: u32) -> String {
    match speed_mbps.is_multiple_of(1_000) {
        true => format!("{}g", speed_mbps / 1_000),
        false => format!("{speed_mbps}m"),
    }
}

/// Formats a duration for a lab file, such as `2us`. The unit is the largest unit that gives a whole number.
pub(super) fn format_duration(ns: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = UNITS
        .iter()
        .find(|(unit_ns, _)| ns > 0 && ns.is_multiple_of(*unit_ns));
    match unit {
        Some((unit_ns, unit)) => format!("{}{unit}", ns / unit_ns),
        None => format!("{ns}ns"),
    }
}
