//! A run beside its reference: differences, and whether they are within bounds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::plan::{self, HEADER_BYTES, Lengths};
use super::run::Outcome;
use xoff_lab::ns3::{CongestionMode, PauseEvent, Scenario, flow_paths};

/// Most that a completion time may differ, as a share, where congestion control has no part.
pub const BOUND: f64 = 0.005;
/// The same with DCQCN, whose rates depend on which packet is marked first.
pub const BOUND_DCQCN: f64 = 0.05;
/// Transitions to paused may differ by this share...
pub const PAUSES_BOUND: f64 = 0.1;
/// ...or by so many.
pub const PAUSES_BOUND_COUNT: u64 = 2;

/// Bytes of a RoCEv2 data frame on an Ethernet link beside its payload: preamble and start 8, Ethernet 14, IPv4 20, UDP 8, base
/// transport header 12, ICRC 4, FCS 4, gap 12.
const WIRE_HEADER_BYTES: u32 = 82;

/// Result of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the folder.
    pub folder: String,
    /// Whether queues can be marked, so that DCQCN has a part.
    pub dcqcn: bool,
    /// Largest difference of a completion time allowed, as a share.
    pub completion_bound: f64,
    /// The flows, in the order of their starts.
    pub flows: Vec<FlowComparison>,
    /// Transitions to paused, per receiving interface, in the order of nodes and interfaces.
    pub pauses: Vec<PauseComparison>,
    /// Transitions to paused of the reference.
    pub reference_pauses: u64,
    /// Transitions to paused here.
    pub xoff_pauses: u64,
    /// Frames that switches dropped here.
    pub dropped_frames: u64,
    /// Frames that passed a link here, each counted per link.
    pub frame_hops: u64,
    /// Whether all flows are within the bound.
    pub completions_hold: bool,
    /// Whether the transitions are.
    pub pauses_hold: bool,
    /// The median of the differences of completion times, without their signs; none without reference.
    pub median_difference: Option<f64>,
    /// What the input says and the run does not do.
    pub notes: Vec<String>,
    /// The same flows with Ethernet's real lengths.
    pub ethernet: Vec<EthernetComparison>,
}

/// A flow beside its reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowComparison {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// When it starts.
    pub start_ns: u64,
    /// From its start to its last acknowledgement, by the reference; none if that is not known.
    pub reference_ns: Option<u64>,
    /// The same here; none if it did not end.
    pub xoff_ns: Option<u64>,
    /// `(xoff - reference) / reference`.
    pub difference: Option<f64>,
    /// Reference over what it takes alone, by the reference.
    pub reference_slowdown: Option<f64>,
    /// The same here, over the same time alone.
    pub xoff_slowdown: Option<f64>,
    /// Within the bound.
    pub holds: bool,
}

/// Transitions to paused that an interface received.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PauseComparison {
    /// The node.
    pub node: u32,
    /// It is a switch.
    pub is_switch: bool,
    /// Its interface, from 1.
    pub interface: u32,
    /// By the reference.
    pub reference: u64,
    /// Here.
    pub xoff: u64,
    /// When the first one came, by the reference.
    pub reference_first_ns: Option<u64>,
    /// The same here.
    pub xoff_first_ns: Option<u64>,
}

/// A flow with Ethernet's real lengths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EthernetComparison {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// What the wire lengths make of the reference.
    pub predicted_ns: u64,
    /// By what factor they make it longer.
    pub predicted_factor: f64,
    /// The run.
    pub xoff_ns: Option<u64>,
    /// `(xoff - predicted) / predicted`.
    pub difference: Option<f64>,
}

impl Comparison {
    /// Holds an outcome against its folder, and one with Ethernet's lengths against what follows from the reference.
    pub(super) fn new(scenario: &Scenario, outcome: &Outcome, ethernet: Option<&Outcome>) -> Comparison {
        let dcqcn = scenario.parameters.can_mark();
        let is_random = scenario.parameters.mode == CongestionMode::HpccPint;
        let bound = if dcqcn || is_random { BOUND_DCQCN } else { BOUND };
        let flows = compare_flows(scenario, outcome, bound);
        let pauses = compare_pauses(scenario, outcome);
        let reference_pauses = pauses.iter().map(|row| row.reference).sum();
        let xoff_pauses = pauses.iter().map(|row| row.xoff).sum();
        Comparison {
            folder: scenario.name.clone(),
            dcqcn,
            completion_bound: bound,
            completions_hold: completions_hold(scenario, &flows, bound),
            median_difference: median(&flows),
            flows,
            pauses,
            reference_pauses,
            xoff_pauses,
            dropped_frames: outcome.dropped_frames,
            frame_hops: outcome.frame_hops,
            pauses_hold: scenario.pauses.is_none() || pauses_hold(reference_pauses, xoff_pauses),
            notes: scenario.notes(),
            ethernet: ethernet.map_or_else(Vec::new, |outcome| compare_ethernet(scenario, outcome)),
        }
    }

    /// Within all bounds.
    pub fn holds(&self) -> bool {
        self.completions_hold && self.pauses_hold
    }

    /// The largest difference of a completion time, as a share; none if a flow did not end.
    pub fn largest_difference(&self) -> Option<f64> {
        self.flows
            .iter()
            .filter(|flow| flow.reference_ns.is_some())
            .try_fold(0.0_f64, |max, flow| Some(max.max(flow.difference?.abs())))
    }
}

/// Every flow is within the bound. Where marks are drawn at random, and for controls that are not equal to the model's, the median is,
/// and every flow has ended.
fn completions_hold(scenario: &Scenario, flows: &[FlowComparison], bound: f64) -> bool {
    let random = |marking: &xoff_lab::ns3::Marking| marking.min_bytes != marking.max_bytes;
    let by_median = scenario.parameters.can_mark() && scenario.parameters.marking.iter().any(random)
        || scenario.parameters.mode == CongestionMode::HpccPint;
    let ended = flows
        .iter()
        .all(|flow| flow.reference_ns.is_none() || flow.xoff_ns.is_some());
    match by_median {
        true => ended && median(flows).is_none_or(|median| median <= bound),
        false => flows.iter().all(|flow| flow.holds),
    }
}

fn median(flows: &[FlowComparison]) -> Option<f64> {
    let mut differences: Vec<f64> = flows
        .iter()
        .filter_map(|flow| flow.difference)
        .map(f64::abs)
        .collect();
    differences.sort_by(f64::total_cmp);
    differences.get(differences.len().checked_sub(1)? / 2).copied()
}

/// Within 10 % or 2.
fn pauses_hold(reference: u64, xoff: u64) -> bool {
    let apart = reference.abs_diff(xoff);
    apart <= PAUSES_BOUND_COUNT || apart as f64 <= reference as f64 * PAUSES_BOUND
}

fn share(difference_of: u64, from: u64) -> Option<f64> {
    (from > 0).then(|| (difference_of as f64 - from as f64) / from as f64)
}

fn compare_flows(scenario: &Scenario, outcome: &Outcome, bound: f64) -> Vec<FlowComparison> {
    let flows = scenario.flows.iter().zip(&outcome.completions_ns);
    flows
        .map(|(flow, &xoff_ns)| {
            let difference = xoff_ns
                .zip(flow.reference_ns)
                .and_then(|(ns, reference)| share(ns, reference));
            let ideal = flow.ideal_ns.filter(|ns| *ns > 0);
            let slowdown = |ns: u64| ideal.map(|ideal| ns as f64 / ideal as f64);
            FlowComparison {
                src: flow.src,
                dst: flow.dst,
                bytes: flow.bytes,
                start_ns: flow.start_ns,
                reference_ns: flow.reference_ns,
                xoff_ns,
                difference,
                reference_slowdown: flow.reference_ns.and_then(slowdown),
                xoff_slowdown: xoff_ns.and_then(slowdown),
                holds: flow.reference_ns.is_none()
                    || difference.is_some_and(|difference| difference.abs() <= bound),
            }
        })
        .collect()
}

fn compare_pauses(scenario: &Scenario, outcome: &Outcome) -> Vec<PauseComparison> {
    let mut rows: BTreeMap<(u32, u32), PauseComparison> = BTreeMap::new();
    let mut add = |events: &[PauseEvent], of_reference: bool| {
        for event in events.iter().filter(|event| event.pause) {
            let row = rows.entry((event.node, event.interface)).or_default();
            let (count, first) = match of_reference {
                true => (&mut row.reference, &mut row.reference_first_ns),
                false => (&mut row.xoff, &mut row.xoff_first_ns),
            };
            *count += 1;
            first.get_or_insert(event.time_ns);
        }
    };
    add(scenario.pauses.as_deref().unwrap_or_default(), true);
    add(&outcome.pauses, false);
    rows.into_iter()
        .map(|((node, interface), row)| PauseComparison {
            node,
            is_switch: scenario.topology.nodes[node as usize].is_switch,
            interface,
            ..row
        })
        .collect()
}

/// What the lengths of Ethernet make of the reference: all that is not delay of the links takes longer by the ratio of the times
/// that a packet takes on the slowest link of its way.
fn compare_ethernet(scenario: &Scenario, outcome: &Outcome) -> Vec<EthernetComparison> {
    let paths = flow_paths(&scenario.topology, &scenario.flows);
    let flows = scenario.flows.iter().zip(&outcome.completions_ns).zip(paths);
    flows
        .filter_map(|((flow, &xoff_ns), paths)| {
            let reference_ns = flow.reference_ns?;
            let steps = paths
                .iter()
                .flat_map(|paths| paths.data.iter().chain(&paths.acks));
            let links = steps.map(|step| &scenario.topology.links[step.link]);
            let speed_mbps = links.clone().map(|link| link.speed_mbps).min().unwrap_or(1);
            let delay_ns: u64 = links.map(|link| link.delay_ns).sum();
            let payload = scenario.parameters.payload_bytes;
            let model = plan::Lengths::Model
                .timing(speed_mbps)
                .duration(payload + HEADER_BYTES);
            let real = plan::Lengths::Ethernet
                .timing(speed_mbps)
                .duration(payload + WIRE_HEADER_BYTES);
            let factor = if model.0 > 0 {
                real.0 as f64 / model.0 as f64
            } else {
                1.0
            };
            let stretched = reference_ns.saturating_sub(delay_ns) as f64 * factor;
            let predicted_ns = delay_ns + stretched as u64;
            Some(EthernetComparison {
                src: flow.src,
                dst: flow.dst,
                predicted_ns,
                predicted_factor: factor,
                xoff_ns,
                difference: xoff_ns.and_then(|ns| share(ns, predicted_ns)),
            })
        })
        .collect()
}

/// Runs a scenario with both kinds of lengths and compares.
///
/// # Errors
/// A scenario that makes no fabric.
pub fn compare(scenario: &Scenario, seed: u64) -> Result<Comparison, xoff_telemetry::failure::Failure> {
    let outcome = super::run::run(scenario, Lengths::Model, seed)?;
    // Other controls count bytes or windows: other lengths are other flows.
    let by_rate_alone = scenario.parameters.mode == CongestionMode::Dcqcn && !scenario.parameters.window.used;
    let ethernet = match by_rate_alone && scenario.flows.iter().any(|flow| flow.reference_ns.is_some()) {
        true => Some(super::run::run(scenario, Lengths::Ethernet, seed)?),
        false => None,
    };
    Ok(Comparison::new(scenario, &outcome, ethernet.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_differ_by_a_tenth_or_by_two() {
        for (reference, xoff, holds) in [
            (0, 2, true),
            (0, 3, false),
            (10, 12, true),
            (10, 13, false),
            (100, 110, true),
            (100, 111, false),
            (100, 89, false),
            (1_938, 1_750, true),
        ] {
            assert_eq!(pauses_hold(reference, xoff), holds, "{reference} {xoff}");
        }
    }
}
