//! The report of a run: traffic, losses, counters of the switches, and the verdict.
//!
//! `docs/report.md` describes each field.

mod file;
mod job_tables;
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
pub use table::render_report;

use crate::{RealTimeReport, VirtualReport};

/// Name and version of the format of a report. The number changes if a field is removed or changes its
/// meaning.
pub const REPORT_SCHEMA: &str = "xoff.report/1";

/// The report of one run.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Report {
    /// The value of [`REPORT_SCHEMA`].
    pub schema: String,
    /// The machine of the run.
    pub environment: Environment,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Whether the run is clean or tainted.
    pub verdict: Verdict,
    /// The taints in order of time. Empty if the run is clean.
    pub taints: Vec<Taint>,
    /// Losses, reordering and damaged frames of flows that are declared lossless, and other unmet conditions.
    /// A text names the port and the reason of a loss if a switch dropped the frames. In a tainted run, the
    /// cause of a failure can be outside the model.
    pub failures: Vec<String>,
    /// Settings without effect, such as a congestion control that gets no signal. They are found before the
    /// run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The flows between hosts.
    pub flows: Vec<FlowReport>,
    /// The switches.
    pub switches: Vec<SwitchReport>,
    /// Counters of model hosts as receivers, with the RoCE traffic that belongs to no flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receivers: Vec<ReceiverReport>,
    /// Sums over all flows, switches and queue pairs.
    pub totals: Totals,
    /// Results of a run in virtual time. `None` in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<VirtualReport>,
    /// Results of a lab in real time. `None` in virtual time and outside a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealTimeReport>,
    /// Results of the jobs of the workload. `None` without jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<WorkloadResults>,
}

/// Sums over all flows, over all ports of all switches, and over the queue pairs of all hosts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Totals {
    /// Frames sent by hosts.
    pub sent_frames: u64,
    /// Frames received by hosts.
    pub received_frames: u64,
    /// Frames that hosts sent and no host received.
    pub lost_frames: u64,
    /// Frames that arrived after a frame that was sent later.
    pub reordered_frames: u64,
    /// Frames with a wrong invariant CRC.
    pub icrc_errors: u64,
    /// PFC frames that the switches sent.
    pub pfc_tx_frames: u64,
    /// Frames that the switches marked CE.
    pub ecn_marked_frames: u64,
    /// Frames that the switches dropped, for any reason.
    pub dropped_frames: u64,
    /// Time for which switches paused their peers, summed over ports and priorities, in nanoseconds. The time
    /// of an 802.3x PAUSE counts once, not once for each priority.
    #[serde(default)]
    pub pausing_ns: u64,
    /// Data packets that arrived at hosts, including retransmissions and duplicates. In virtual time, the
    /// packets of queue pairs are included.
    #[serde(default)]
    pub data_packets: u64,
    /// Data packets that arrived marked CE.
    #[serde(default)]
    pub ce_marked_packets: u64,
    /// Data packets that arrived out of order. A packet of an open-loop flow counts if it arrives after a
    /// packet that was sent later. A packet of a queue pair counts if it arrives after a gap: requests by the
    /// Linux `hw_counter` `out_of_sequence`, and READ responses that follow a missing response.
    #[serde(default)]
    pub out_of_order_packets: u64,
}

/// Builds a report from the snapshots of all switches and the results of all flows. The taints can be in any
/// order.
pub fn build_report(
    environment: Environment,
    seed: u64,
    snapshots: &[SwitchSnapshot],
    flows: Vec<FlowReport>,
    mut taints: Vec<Taint>,
) -> Report {
    taints.sort_by_key(|taint| taint.since_ns);
    let switches: Vec<SwitchReport> = snapshots.iter().map(SwitchReport::new).collect();
    Report {
        schema: REPORT_SCHEMA.to_owned(),
        environment,
        seed,
        verdict: if taints.is_empty() {
            Verdict::Clean
        } else {
            Verdict::Tainted
        },
        failures: flows
            .iter()
            .filter_map(|flow| lossless_failure(flow, &switches))
            .collect(),
        warnings: Vec::new(),
        totals: Totals::of_flows_and_switches(&flows, &switches),
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
    /// Returns the exit code of the command. A tainted run is inconclusive, also if it has failures.
    pub fn exit(&self) -> Exit {
        match self.verdict {
            Verdict::Tainted => Exit::Inconclusive,
            Verdict::Clean if !self.failures.is_empty() => Exit::CheckFailed,
            Verdict::Clean => Exit::Ok,
        }
    }

    /// Adds the counters of the queue pairs of one host to the totals.
    pub fn add_queue_pair_counters(&mut self, counters: &Counters) {
        self.totals.data_packets += counters.rx_data_packets;
        self.totals.ce_marked_packets += counters.np_ecn_marked_roce_packets;
        self.totals.out_of_order_packets += counters.out_of_order_packets();
    }

    /// Formats the report as JSON.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a report has string keys and finite numbers");
        text.push('\n');
        text
    }
}

impl Totals {
    fn of_flows_and_switches(flows: &[FlowReport], switches: &[SwitchReport]) -> Totals {
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

/// Describes the lost, reordered and damaged frames of a lossless flow. Returns `None` for a lossy flow, and
/// for a flow whose frames all arrived whole and in order.
fn lossless_failure(flow: &FlowReport, switches: &[SwitchReport]) -> Option<String> {
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
        text.push_str(&describe_drops_of_class(flow.class, switches));
    }
    Some(text)
}

/// Lists the ports that dropped frames of a class, grouped by drop reason.
fn describe_drops_of_class(class: u8, switches: &[SwitchReport]) -> String {
    let mut ports_by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for switch in switches {
        for port in &switch.ports {
            for (reason, classes) in &port.drops_by_class {
                let count = classes.get(usize::from(class)).copied().unwrap_or(0);
                if count > 0 {
                    let port_drops = format!("{} {} ({})", switch.name, port.name, group_thousands(count));
                    ports_by_reason.entry(reason).or_default().push(port_drops);
                }
            }
        }
    }
    if ports_by_reason.is_empty() {
        return "; no switch dropped a frame of the class, so they were lost on a host or a link".to_owned();
    }
    let sentence = |(reason, ports): (&&str, &Vec<String>)| {
        let why = describe_drop(reason).unwrap_or("").trim_end_matches('.');
        format!(
            "; the class was dropped at {} by {reason}: {why}",
            ports.join(", ")
        )
    };
    ports_by_reason.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests;
