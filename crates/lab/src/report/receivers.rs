//! Reports the receive counters of model hosts. In a run with lossless flows, some of these counters are
//! failures of the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use xoff_telemetry::{group_thousands, simple_table};

use super::Report;
use xoff_host::HostResults;

/// Counters of normal traffic. The table omits receivers that have only these counters.
const NORMAL_TRAFFIC_COUNTERS: [&str; 3] = ["roce_frames", "flooded_frames", "other_frames"];

/// Receive counters of a model host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverReport {
    /// Name of the host.
    pub host: String,
    /// The receive counters by name, as `docs/report.md` defines them. Most of them count frames. Counters
    /// with the value 0 are omitted.
    pub counters: BTreeMap<String, u64>,
    /// RoCE traffic that no model host of the lab sent. Each pair of a source address and a destination queue
    /// pair has one entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignFlowReport>,
}

/// RoCE packets from one source address to one queue pair. No model host sent these packets, because they
/// lack the flow header of model hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignFlowReport {
    /// Source IP address of the packets, as text.
    pub src: String,
    /// Number of the destination queue pair.
    pub dst_qp: u32,
    /// Packets with a valid ICRC.
    pub frames: u64,
    /// The SEND and WRITE requests of the services RC and UC among these packets.
    pub requests: u64,
    /// Number of packet sequence numbers (PSNs) that were skipped.
    pub missing_psns: u64,
    /// Requests with a PSN before the newest PSN that arrived.
    pub out_of_order: u64,
    /// Packets with a wrong ICRC.
    pub icrc_errors: u64,
}

impl ReceiverReport {
    /// Creates the report of a host. Returns `None` if all counters of the host are 0.
    pub fn new(results: &HostResults) -> Option<ReceiverReport> {
        let foreign: Vec<ForeignFlowReport> = results.foreign.iter().map(foreign_flow_report).collect();
        let of_flows = |count: fn(&xoff_host::ReceivedFlow) -> u64| results.received.iter().map(count).sum();
        let of_foreign = |count: fn(&ForeignFlowReport) -> u64| foreign.iter().map(count).sum();
        let (totals, nic) = (&results.totals, &results.nic);
        let counters: [(&str, u64); 21] = [
            ("roce_frames", totals.roce_frames),
            ("stale_frames", totals.stale_frames),
            ("untracked_frames", totals.untracked_frames),
            ("flooded_frames", totals.flooded_frames),
            ("trimmed_frames", totals.trimmed_frames),
            ("malformed_control_frames", totals.malformed_control_frames),
            ("other_frames", totals.other_frames),
            ("icrc_errors", of_flows(|flow| flow.icrc_errors)),
            ("unattributed_icrc_errors", totals.unattributed_icrc_errors),
            ("psn_errors", of_flows(|flow| flow.psn_errors)),
            ("duplicate_frames", of_flows(|flow| flow.duplicate_frames)),
            ("clock_errors", of_flows(|flow| flow.clock_errors)),
            ("foreign_frames", of_foreign(|flow| flow.frames)),
            ("foreign_icrc_errors", of_foreign(|flow| flow.icrc_errors)),
            ("foreign_missing_psns", of_foreign(|flow| flow.missing_psns)),
            ("pause_rx_frames", nic.pause_rx_frames),
            ("global_paused_ns", nic.global_paused_ns),
            ("pause_tx_frames", nic.pause_tx_frames),
            ("tx_control_frames", nic.tx_control_frames),
            ("nic_dropped_frames", nic.rx_dropped_frames.iter().sum()),
            ("nic_tx_dropped_frames", nic.tx_dropped_frames),
        ];
        let counters: BTreeMap<String, u64> = counters
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect();
        (!counters.is_empty()).then(|| ReceiverReport {
            host: results.name.clone(),
            counters,
            foreign,
        })
    }

    fn count(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }

    /// Describes the unexpected RoCE frames of a receiver of lossless flows: frames that belong to no flow,
    /// damaged frames, and frames with a wrong PSN. Damaged frames of a known flow are not included, because
    /// they are a failure of that flow. Returns `None` if the receiver has no unexpected frames.
    fn lossless_failure(&self) -> Option<String> {
        let damaged = self.count("unattributed_icrc_errors") + self.count("foreign_icrc_errors");
        let broken: Vec<String> = [
            (self.count("foreign_frames"), "of no flow of a model host"),
            (damaged, "damaged (ICRC)"),
            (self.count("psn_errors"), "with a wrong PSN"),
            (
                self.count("untracked_frames"),
                "of more flows than a host can track",
            ),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", group_thousands(count)))
        .collect();
        (!broken.is_empty()).then(|| format!("{} received RoCE frames: {}", self.host, broken.join(", ")))
    }

    fn has_abnormal_counters(&self) -> bool {
        self.counters
            .keys()
            .any(|name| !NORMAL_TRAFFIC_COUNTERS.contains(&name.as_str()))
    }
}

fn foreign_flow_report(flow: &xoff_host::UnstampedFlow) -> ForeignFlowReport {
    ForeignFlowReport {
        src: flow.src_ip.to_string(),
        dst_qp: flow.dst_qp,
        frames: flow.frames,
        requests: flow.requests,
        missing_psns: flow.missing_psns,
        out_of_order: flow.out_of_order,
        icrc_errors: flow.icrc_errors,
    }
}

impl Report {
    /// Adds the receive counters of a host to the report, unless all counters are 0. If `expects_lossless` is
    /// true, unexpected or damaged RoCE frames are a failure of the run.
    pub fn add_receiver(&mut self, results: &HostResults, expects_lossless: bool) {
        let Some(receiver) = ReceiverReport::new(results) else {
            return;
        };
        if expects_lossless {
            self.failures.extend(receiver.lossless_failure());
        }
        self.receivers.push(receiver);
    }
}

/// Formats the receive counters of hosts. Hosts that have only counters of normal traffic are omitted.
/// Returns an empty text if no hosts remain.
pub(super) fn receivers_table(receivers: &[ReceiverReport]) -> String {
    let shown = receivers
        .iter()
        .filter(|receiver| receiver.has_abnormal_counters());
    let rows: Vec<Vec<String>> = shown
        .flat_map(|receiver| {
            let counters = receiver.counters.iter();
            counters.map(|(name, count)| vec![receiver.host.clone(), name.clone(), group_thousands(*count)])
        })
        .collect();
    match rows.is_empty() {
        true => String::new(),
        false => simple_table(&["Receiver", "Counter", "Count"], 2, rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_and_damaged_frames_fail_a_receiver_of_lossless_flows() {
        let receiver = |name: &str| ReceiverReport {
            host: "h2".to_owned(),
            counters: BTreeMap::from([(name.to_owned(), 2)]),
            foreign: Vec::new(),
        };
        for name in [
            "foreign_frames",
            "foreign_icrc_errors",
            "unattributed_icrc_errors",
            "psn_errors",
            "untracked_frames",
        ] {
            let failure = receiver(name).lossless_failure();
            assert!(
                failure.is_some_and(|text| text.contains("h2 received RoCE frames: 2 ")),
                "{name}"
            );
            assert!(receivers_table(&[receiver(name)]).contains(name));
        }
        for name in NORMAL_TRAFFIC_COUNTERS {
            assert_eq!(receiver(name).lossless_failure(), None);
            assert_eq!(receivers_table(&[receiver(name)]), "");
        }
    }
}
