//! Compares a run with its reference: the recorded results of the ns-3 model for the same scenario.

use std::collections::BTreeMap;

use serde::Serialize;

use super::plan::{FrameLengths, MODEL_HEADER_BYTES};
use super::run::OracleRunResult;
use xoff_lab::ns3::{CongestionMode, PauseEvent, Scenario, flow_paths};

/// Largest permitted relative difference of a completion time: 0.5 %. In some scenarios,
/// [`COMPLETION_BOUND_DCQCN`] applies instead.
pub const COMPLETION_BOUND: f64 = 0.005;
/// Largest permitted relative difference of a completion time, if ECN marks can change rates
/// ([`ScenarioComparison::dcqcn`]) or the congestion control is HPCC-PINT: 5 %. The bound is larger than
/// [`COMPLETION_BOUND`], because the rates depend on which packet is marked first, or on random numbers.
pub const COMPLETION_BOUND_DCQCN: f64 = 0.05;
/// Permitted relative difference of the number of transitions to paused: 10 %. A difference of up to
/// [`PAUSE_COUNT_BOUND`] is always permitted.
pub const PAUSE_SHARE_BOUND: f64 = 0.1;
/// Permitted absolute difference of the number of transitions to paused, even if it is more
/// than [`PAUSE_SHARE_BOUND`].
pub const PAUSE_COUNT_BOUND: u64 = 2;

/// Bytes that a RoCEv2 data frame adds to its payload on an Ethernet link: preamble and start delimiter 8,
/// Ethernet 14, IPv4 20, UDP 8, base transport header 12, ICRC 4, FCS 4, gap 12.
const ETHERNET_HEADER_BYTES: u32 = 82;

/// The comparison of one scenario in xoff with the reference, the recorded results of the ns-3 model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioComparison {
    /// Name of the scenario folder.
    pub folder: String,
    /// True if ECN marks can change rates: the congestion control is DCQCN or DCTCP, marking and rate limits
    /// are on, and a queue can reach a marking threshold.
    pub dcqcn: bool,
    /// Largest permitted relative difference of a completion time: [`COMPLETION_BOUND`]
    /// or [`COMPLETION_BOUND_DCQCN`].
    pub completion_bound: f64,
    /// Comparisons of the flows, in the order of their start times.
    pub flows: Vec<FlowComparison>,
    /// Transitions to paused of each interface that received pauses, in the order of nodes and interfaces.
    pub pauses: Vec<PauseComparison>,
    /// Number of transitions to paused in the reference, over all interfaces.
    pub reference_pauses: u64,
    /// Number of transitions to paused in xoff, over all interfaces.
    pub xoff_pauses: u64,
    /// Number of frames that switches dropped in xoff.
    pub dropped_frames: u64,
    /// Number of frame-hops in xoff: each frame counts once for each link that it passed.
    pub frame_hops: u64,
    /// True if the completion times are within the bound. If ECN marks are random or the congestion control
    /// is HPCC-PINT, only the median difference must be within the bound, and every flow with a reference
    /// must end.
    pub completions_hold: bool,
    /// True if the number of transitions to paused is within the bounds, or if the reference has no record
    /// of pauses.
    pub pauses_hold: bool,
    /// Median of the absolute relative differences of completion times, or `None` if there is no completion
    /// time to compare.
    pub median_difference: Option<f64>,
    /// Notes about settings of the input that the run does not support.
    pub notes: Vec<String>,
    /// Comparisons of the flows with a completion time in the reference, for a second run in which frames
    /// have the lengths of Ethernet. Empty if there was no such run.
    pub ethernet: Vec<EthernetComparison>,
}

/// The comparison of one flow with its reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowComparison {
    /// Node number of the sending host.
    pub src: u32,
    /// Node number of the receiving host.
    pub dst: u32,
    /// Payload bytes of the flow.
    pub bytes: u64,
    /// Start time of the flow in nanoseconds of simulated time.
    pub start_ns: u64,
    /// Completion time in the reference in nanoseconds, from the start of the flow to its last
    /// acknowledgement. `None` if the reference has no completion time.
    pub reference_ns: Option<u64>,
    /// Completion time in xoff in nanoseconds, from the start of the flow to its last acknowledgement. `None`
    /// if the flow did not end.
    pub xoff_ns: Option<u64>,
    /// `(xoff - reference) / reference`, or `None` if one of the completion times is missing or the reference
    /// is 0.
    pub difference: Option<f64>,
    /// Slowdown in the reference, the recorded run of another simulator: the completion time divided by the
    /// ideal completion time. Both times come from the reference. `None` if one of the two times is missing.
    pub reference_slowdown: Option<f64>,
    /// Slowdown in xoff: the completion time in xoff divided by the ideal completion time from the reference.
    /// `None` if one of the two times is missing.
    pub xoff_slowdown: Option<f64>,
    /// True if the difference is within the bound, or if the reference has no completion time.
    pub holds: bool,
}

/// The transitions to paused of one interface: the received pause frames with a pause time above 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PauseComparison {
    /// Node number of the receiving host or switch.
    pub node: u32,
    /// True if the node is a switch.
    pub is_switch: bool,
    /// Interface number at the node, from 1.
    pub interface: u32,
    /// Number of transitions to paused in the reference.
    pub reference: u64,
    /// Number of transitions to paused in xoff.
    pub xoff: u64,
    /// Time of the first transition in the reference in nanoseconds, or `None` without a transition.
    pub reference_first_ns: Option<u64>,
    /// Time of the first transition in xoff in nanoseconds, or `None` without a transition.
    pub xoff_first_ns: Option<u64>,
}

/// The comparison of one flow with a prediction, in a run with the frame lengths of Ethernet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EthernetComparison {
    /// Node number of the sending host.
    pub src: u32,
    /// Node number of the receiving host.
    pub dst: u32,
    /// Completion time that is predicted from the reference and the frame lengths of Ethernet,
    /// in nanoseconds.
    pub predicted_ns: u64,
    /// Transmission time of an Ethernet frame divided by the transmission time of the model's frame.
    pub predicted_factor: f64,
    /// Completion time in xoff in nanoseconds, or `None` if the flow did not end.
    pub xoff_ns: Option<u64>,
    /// `(xoff - predicted) / predicted`, or `None` if the flow did not end.
    pub difference: Option<f64>,
}

impl ScenarioComparison {
    /// Compares a run with the reference results in the folder of its scenario. `ethernet` is a second run of
    /// the scenario with the frame lengths of Ethernet. The function compares the second run with a
    /// prediction from the reference.
    pub(super) fn new(
        scenario: &Scenario,
        outcome: &OracleRunResult,
        ethernet: Option<&OracleRunResult>,
    ) -> ScenarioComparison {
        let dcqcn = scenario.parameters.can_mark();
        let is_random = scenario.parameters.mode == CongestionMode::HpccPint;
        let bound = if dcqcn || is_random {
            COMPLETION_BOUND_DCQCN
        } else {
            COMPLETION_BOUND
        };
        let flows = compare_flows(scenario, outcome, bound);
        let pauses = compare_pauses(scenario, outcome);
        let reference_pauses = pauses.iter().map(|row| row.reference).sum();
        let xoff_pauses = pauses.iter().map(|row| row.xoff).sum();
        ScenarioComparison {
            folder: scenario.name.clone(),
            dcqcn,
            completion_bound: bound,
            completions_hold: are_completions_within_bound(scenario, &flows, bound),
            median_difference: median_difference(&flows),
            flows,
            pauses,
            reference_pauses,
            xoff_pauses,
            dropped_frames: outcome.dropped_frames,
            frame_hops: outcome.frame_hops,
            pauses_hold: scenario.pauses.is_none()
                || are_pause_counts_within_bounds(reference_pauses, xoff_pauses),
            notes: scenario.notes(),
            ethernet: ethernet.map_or_else(Vec::new, |outcome| compare_ethernet(scenario, outcome)),
        }
    }

    /// Returns whether the completion times and the number of transitions to paused are within their bounds.
    pub fn is_within_bounds(&self) -> bool {
        self.completions_hold && self.pauses_hold
    }

    /// Returns the largest absolute relative difference of a completion time, or 0 without completion times
    /// in the reference. Returns `None` if a flow with a reference did not end.
    pub fn largest_difference(&self) -> Option<f64> {
        self.flows
            .iter()
            .filter(|flow| flow.reference_ns.is_some())
            .try_fold(0.0_f64, |max, flow| Some(max.max(flow.difference?.abs())))
    }
}

/// Returns whether the completion times are within the bound. Usually, every flow must be within the bound.
/// In two cases, every flow must end, but only the median difference must be within the bound: if ECN marks
/// are random, and if the congestion control differs from the model.
fn are_completions_within_bound(scenario: &Scenario, flows: &[FlowComparison], bound: f64) -> bool {
    let random = |marking: &xoff_lab::ns3::EcnThresholds| marking.min_bytes != marking.max_bytes;
    let by_median = scenario.parameters.can_mark() && scenario.parameters.marking.iter().any(random)
        || scenario.parameters.mode == CongestionMode::HpccPint;
    let ended = flows
        .iter()
        .all(|flow| flow.reference_ns.is_none() || flow.xoff_ns.is_some());
    match by_median {
        true => ended && median_difference(flows).is_none_or(|median| median <= bound),
        false => flows.iter().all(|flow| flow.holds),
    }
}

fn median_difference(flows: &[FlowComparison]) -> Option<f64> {
    let mut differences: Vec<f64> = flows
        .iter()
        .filter_map(|flow| flow.difference)
        .map(f64::abs)
        .collect();
    differences.sort_by(f64::total_cmp);
    differences.get(differences.len().checked_sub(1)? / 2).copied()
}

/// Returns whether two numbers of transitions differ by at most 10 %, or by at most 2.
fn are_pause_counts_within_bounds(reference: u64, xoff: u64) -> bool {
    let difference = reference.abs_diff(xoff);
    difference <= PAUSE_COUNT_BOUND || difference as f64 <= reference as f64 * PAUSE_SHARE_BOUND
}

fn relative_difference(value: u64, reference: u64) -> Option<f64> {
    (reference > 0).then(|| (value as f64 - reference as f64) / reference as f64)
}

fn compare_flows(scenario: &Scenario, outcome: &OracleRunResult, bound: f64) -> Vec<FlowComparison> {
    let flows = scenario.flows.iter().zip(&outcome.completions_ns);
    flows
        .map(|(flow, &xoff_ns)| {
            let difference = xoff_ns
                .zip(flow.reference_ns)
                .and_then(|(ns, reference)| relative_difference(ns, reference));
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

fn compare_pauses(scenario: &Scenario, outcome: &OracleRunResult) -> Vec<PauseComparison> {
    let mut rows: BTreeMap<(u32, u32), PauseComparison> = BTreeMap::new();
    let mut add = |events: &[PauseEvent], of_reference: bool| {
        for event in events.iter().filter(|event| event.is_pause) {
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

/// Compares flows with a prediction for the frame lengths of Ethernet.
///
/// The prediction is `delays + (reference - delays) * factor`:
///
/// - `delays` is the sum of the link delays.
/// - `reference` is the completion time in the reference.
/// - `factor` is the transmission time of an Ethernet frame on the slowest link, divided by the transmission
///   time of a frame of the model.
fn compare_ethernet(scenario: &Scenario, outcome: &OracleRunResult) -> Vec<EthernetComparison> {
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
            let model = FrameLengths::Model
                .timing(speed_mbps)
                .duration(payload + MODEL_HEADER_BYTES);
            let real = FrameLengths::Ethernet
                .timing(speed_mbps)
                .duration(payload + ETHERNET_HEADER_BYTES);
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
                difference: xoff_ns.and_then(|ns| relative_difference(ns, predicted_ns)),
            })
        })
        .collect()
}

/// Runs a scenario with the frame lengths of the model, and compares the results with the reference. If DCQCN
/// without a window controls the rates, also runs the scenario with the frame lengths of Ethernet. `seed` is
/// the seed of all random decisions.
///
/// # Errors
/// The scenario does not form a valid fabric, or a flow cannot be sent.
pub fn compare_scenario(
    scenario: &Scenario,
    seed: u64,
) -> Result<ScenarioComparison, xoff_telemetry::failure::Failure> {
    let outcome = super::run::run_scenario(scenario, FrameLengths::Model, seed)?;
    // Other congestion controls depend on bytes or windows, so other frame lengths change their rates.
    let by_rate_alone =
        scenario.parameters.mode == CongestionMode::Dcqcn && !scenario.parameters.window.is_used;
    let ethernet = match by_rate_alone && scenario.flows.iter().any(|flow| flow.reference_ns.is_some()) {
        true => Some(super::run::run_scenario(scenario, FrameLengths::Ethernet, seed)?),
        false => None,
    };
    Ok(ScenarioComparison::new(scenario, &outcome, ethernet.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_counts_may_differ_by_ten_percent_or_by_two() {
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
            assert_eq!(
                are_pause_counts_within_bounds(reference, xoff),
                holds,
                "{reference} {xoff}"
            );
        }
    }
}
