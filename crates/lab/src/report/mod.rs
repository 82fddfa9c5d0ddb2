//! The result of a run: what was sent and lost, what the switches did, and whether it may be believed.
//!
//! Field by field: `docs/report.md`.

mod file;
mod jobs;
mod receivers;
mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xoff_rdma::Counters;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::{
    Environment, FlowReport, SwitchReport, SwitchSnapshot, Taint, Verdict, describe_drop, group_thousands,
};
use xoff_workload::WorkloadResults;

pub use receivers::{ForeignFlowReport, ReceiverReport};
pub use table::render;

use crate::{RealReport, VirtualReport};

/// Name and version of the report's form. The number changes when a field changes its meaning or goes.
pub const SCHEMA: &str = "xoff.report/1";

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine it ran on.
    pub environment: Environment,
    /// Seed of every random decision.
    pub seed: u64,
    /// Whether the figures may be believed.
    pub verdict: Verdict,
    /// What tainted the run, in the order it happened; empty in a clean one.
    pub taints: Vec<Taint>,
    /// What was promised and not kept: losses, reordering and damage of flows declared lossless, each with where
    /// and why as far as the switches know. Only a clean run's failures are claims.
    pub failures: Vec<String>,
    /// Settings that had no effect, such as congestion control that gets no signal; known before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The flows between hosts.
    pub flows: Vec<FlowReport>,
    /// The switches.
    pub switches: Vec<SwitchReport>,
    /// What model hosts received beside the frames of flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receivers: Vec<ReceiverReport>,
    /// Sums over flows and switches.
    pub totals: Totals,
    /// What only a run in virtual time has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<VirtualReport>,
    /// What a lab in real time has beside its switches and flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealReport>,
    /// What became of the workload's jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<WorkloadResults>,
}

/// Sums over the flows (first five) and over all ports of all switches (the rest).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Totals {
    /// Frames sent by hosts.
    pub sent_frames: u64,
    /// Frames received by hosts.
    pub received_frames: u64,
    /// Frames lost between them.
    pub lost_frames: u64,
    /// Frames that arrived behind a later one.
    pub reordered_frames: u64,
    /// Frames with a wrong invariant CRC.
    pub icrc_errors: u64,
    /// PFC frames that switches sent.
    pub pfc_tx_frames: u64,
    /// Frames that switches marked CE.
    pub ecn_marked_frames: u64,
    /// Frames that switches dropped, whatever the reason.
    pub dropped_frames: u64,
    /// Time in which switches asked their peers to pause, over all ports and priorities, in nanoseconds; 802.3x pauses once.
    #[serde(default)]
    pub pausing_ns: u64,
    /// Packets with data that arrived at hosts, repetitions included: of flows, and in virtual time of queue pairs too.
    #[serde(default)]
    pub data_packets: u64,
    /// Those that arrived marked CE.
    #[serde(default)]
    pub ce_marked_packets: u64,
    /// Those that arrived out of order: of flows, behind a packet that was sent later; of queue pairs, behind a gap (the
    /// `hw_counter` `out_of_sequence`, and READ responses that showed others to be missing).
    #[serde(default)]
    pub out_of_order_packets: u64,
}

/// Puts a run's result together. `taints` in any order.
pub fn build(
    environment: Environment,
    seed: u64,
    snapshots: &[SwitchSnapshot],
    flows: Vec<FlowReport>,
    mut taints: Vec<Taint>,
) -> Report {
    taints.sort_by_key(|taint| taint.since_ns);
    let switches: Vec<SwitchReport> = snapshots.iter().map(SwitchReport::new).collect();
    Report {
        schema: SCHEMA.to_owned(),
        environment,
        seed,
        verdict: if taints.is_empty() {
            Verdict::Clean
        } else {
            Verdict::Tainted
        },
        failures: flows.iter().filter_map(|flow| failure(flow, &switches)).collect(),
        warnings: Vec::new(),
        totals: Totals::of(&flows, &switches),
        taints,
        flows,
        switches,
        receivers: Vec::new(),
        virtual_time: None,
        real_time: None,
        jobs: None,
    }
}

impl Report {
    /// How a command that made this report ends: a tainted run claims nothing, whatever was found.
    pub fn exit(&self) -> Exit {
        match self.verdict {
            Verdict::Tainted => Exit::Inconclusive,
            Verdict::Clean if !self.failures.is_empty() => Exit::CheckFailed,
            Verdict::Clean => Exit::Ok,
        }
    }

    /// Adds what the queue pairs of a host have counted to the sums.
    pub fn count_queue_pairs(&mut self, counters: &Counters) {
        self.totals.data_packets += counters.rx_data_packets;
        self.totals.ce_marked_packets += counters.np_ecn_marked_roce_packets;
        self.totals.out_of_order_packets += counters.out_of_order_packets();
    }

    /// The JSON text, for a file.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report has string keys and finite numbers");
        text.push('\n');
        text
    }
}

impl Totals {
    fn of(flows: &[FlowReport], switches: &[SwitchReport]) -> Totals {
        let mut totals = Totals::default();
        for flow in flows {
            totals.sent_frames += flow.sent_frames;
            totals.received_frames += flow.received_frames;
            totals.lost_frames += flow.lost_frames;
            totals.reordered_frames += flow.reordered_frames;
            totals.icrc_errors += flow.icrc_errors;
            totals.data_packets += flow.received_frames + flow.duplicate_frames;
            totals.ce_marked_packets += flow.ce_marked_frames;
            totals.out_of_order_packets += flow.reordered_frames;
        }
        for port in switches.iter().flat_map(|switch| &switch.ports) {
            totals.pfc_tx_frames += port.pfc_tx_frames;
            totals.ecn_marked_frames += port.ecn_marked;
            totals.dropped_frames += port.dropped();
            totals.pausing_ns += port.pausing_ns.iter().sum::<u64>() + port.global_pausing_ns;
        }
        totals
    }
}

/// What a flow broke of its promise, with where and why as far as the switches know; nothing if it kept it or
/// promised nothing.
fn failure(flow: &FlowReport, switches: &[SwitchReport]) -> Option<String> {
    let broken: Vec<String> = [
        (flow.lost_frames, "lost"),
        (flow.reordered_frames, "out of order"),
        (flow.icrc_errors, "damaged (ICRC)"),
    ]
    .into_iter()
    .filter(|&(count, _)| flow.lossless && count > 0)
    .map(|(count, what)| format!("{} {what}", group_thousands(count)))
    .collect();
    if broken.is_empty() {
        return None;
    }
    let mut text = format!(
        "{} to {}, class {}: {} of {} frames",
        flow.src,
        flow.dst,
        flow.class,
        broken.join(", "),
        group_thousands(flow.sent_frames)
    );
    if flow.lost_frames > 0 {
        text.push_str(&where_lost(flow.class, switches));
    }
    Some(text)
}

/// Where the switches dropped frames of a class, and why: reason by reason.
fn where_lost(class: u8, switches: &[SwitchReport]) -> String {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for switch in switches {
        for port in &switch.ports {
            for (reason, classes) in &port.drops_by_class {
                let count = classes.get(usize::from(class)).copied().unwrap_or(0);
                if count > 0 {
                    let place = format!("{} {} ({})", switch.name, port.name, group_thousands(count));
                    places.entry(reason).or_default().push(place);
                }
            }
        }
    }
    if places.is_empty() {
        return "; no switch dropped a frame of the class, so they were lost on a host or a link".to_owned();
    }
    let sentence = |(reason, ports): (&&str, &Vec<String>)| {
        let why = describe_drop(reason).unwrap_or("").trim_end_matches('.');
        format!(
            "; the class was dropped at {} by {reason}: {why}",
            ports.join(", ")
        )
    };
    places.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests;
