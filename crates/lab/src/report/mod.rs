//! The report of a run: traffic, losses, switch counters and the verdict.
//!
//! `docs/report.md` describes each field.

mod file;
mod job_tables;
mod link_report;
mod processes;
mod real_time_section;
mod receivers;
mod table;
mod virtual_section;

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use xoff_rdma::Counters;
use xoff_telemetry::failure::Exit;
use xoff_telemetry::verdict::{
    ExpectationResult, OversizedDrops, ProtectedClasses, Traffic, describe_idle_switches, lossless_drops,
    oversized_drops,
};
use xoff_telemetry::{
    Environment, FlowReport, SwitchReport, Taint, TxTimes, Verdict, count_noun, describe_drop,
    group_thousands, set_common_tx_span,
};
use xoff_workload::WorkloadResults;

pub use link_report::{LinkBalanceReport, LinkReport};
pub use processes::{PlainHostReport, ProcessEffect, ProcessReport};
pub use real_time_section::RealTimeRunReport;
pub use receivers::{ForeignFlowReport, ReceiverReport};
pub use table::render_report;
pub use virtual_section::{
    AccelerationReport, DeadlockReport, HostReport, JobAccelerationReport, ReorderedConnectionReport,
    VirtualRunReport,
};

/// Largest number of ports with different DCBX configurations that a report names.
const DCBX_WARNINGS_MAX: usize = 16;

/// Name and version of the report format. The version changes if a field is removed or changes its meaning.
pub const REPORT_SCHEMA: &str = "xoff.report/1";

/// The report of one run. `--report` writes it as JSON, and `docs/report.md` describes the fields.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Report {
    /// The value of [`REPORT_SCHEMA`].
    pub schema: String,
    /// The machine and the program version of the run.
    pub environment: Environment,
    /// Seed of all random decisions of the run (`--seed`).
    pub seed: u64,
    /// Whether the run is clean, failed, tainted or without traffic. A tainted run proves nothing, because
    /// something outside the model could change its results. A run without the traffic that it needs proves
    /// nothing either. The verdict decides the exit code ([`Verdict::exit`]).
    pub verdict: Verdict,
    /// The taints (causes that make a run prove nothing) in the order of time. Empty if the run is clean.
    pub taints: Vec<Taint>,
    /// The failures of the run, one text each, such as lost, reordered or damaged frames of a lossless flow.
    /// If a switch dropped frames, the text names the port and the drop reason. In a tainted run, the machine
    /// can be the cause of a failure.
    pub failures: Vec<String>,
    /// The frames that the run offered and received.
    #[serde(default)]
    pub traffic: Traffic,
    /// The expectations of the user and the traffic that arrived. `failures` describes the expectations that do
    /// not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<ExpectationResult>,
    /// The frames that switches dropped because they exceed an MTU, by port and class. `failures` describes the
    /// drops of protected classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oversized: Vec<OversizedDrops>,
    /// The processes of a lab in real time that ended before the run did. `failures` describes the processes that
    /// ended by a signal or with an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessReport>,
    /// The plain hosts of a lab whose kernel dropped frames instead of sending them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plain_hosts: Vec<PlainHostReport>,
    /// Warnings about settings without effect, such as a congestion control that gets no signal, and about ports
    /// whose DCBX configuration differs from that of their neighbour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The open-loop flows between hosts, which send without acknowledgements. Results of jobs are in `jobs`.
    pub flows: Vec<FlowReport>,
    /// The host of `xoff host run`, with the pauses that it received. `None` for other commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostReport>,
    /// The switches, in the order of the lab.
    pub switches: Vec<SwitchReport>,
    /// Receive counters of model hosts. The list contains the hosts that have at least one counter above 0.
    /// The counters include RoCE traffic that belongs to no flow of the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receivers: Vec<ReceiverReport>,
    /// Sums over all flows, switches and queue pairs.
    pub totals: Totals,
    /// Results of a run in virtual time. `None` in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<VirtualRunReport>,
    /// Results of a lab in real time. `None` for runs in virtual time and for runs without a lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealTimeRunReport>,
    /// Results of the jobs, which send RDMA messages through queue pairs. `None` without jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<WorkloadResults>,
}

/// Sums over the whole run: all flows, all ports of all switches, and all queue pairs of all hosts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Totals {
    /// Frames that the flows sent.
    pub sent_frames: u64,
    /// Frames of flows that hosts received with a valid ICRC, without duplicates.
    pub received_frames: u64,
    /// Frames of flows that hosts sent and no host received.
    pub lost_frames: u64,
    /// Frames of flows that arrived after a frame that was sent later.
    pub reordered_frames: u64,
    /// Frames of flows that arrived with a wrong invariant CRC (ICRC).
    pub icrc_errors: u64,
    /// PFC frames that the switches sent.
    pub pfc_tx_frames: u64,
    /// Frames that the switches marked CE.
    pub ecn_marked_frames: u64,
    /// Frames that the switches dropped, for any reason.
    pub dropped_frames: u64,
    /// Time for which switches paused their peers, in nanoseconds of model time, summed over all ports and
    /// priorities. An 802.3x PAUSE frame pauses all priorities, but its time counts only once.
    #[serde(default)]
    pub pausing_ns: u64,
    /// Data packets of flows and queue pairs that arrived at hosts, including retransmissions and duplicates.
    #[serde(default)]
    pub data_packets: u64,
    /// Data packets of flows and queue pairs that arrived with the ECN mark CE.
    #[serde(default)]
    pub ce_marked_packets: u64,
    /// Data packets that arrived out of order. For example, a host sends packets 1, 2 and 3, and they arrive
    /// in the order 1, 3, 2. For an open-loop flow, packet 2 is counted, because packet 3 arrived before. For
    /// a queue pair, packet 3 is counted, because packet 2 is missing at its arrival. For requests, this is
    /// the Linux `hw_counter` `out_of_sequence`. READ responses after a missing response and implied NAKs are
    /// counted as well.
    #[serde(default)]
    pub out_of_order_packets: u64,
}

/// Builds a report from the reports of all switches and all flows. `taints` need not be sorted. The sections
/// for receivers, jobs, virtual time and real time are empty, and the caller adds them. At the end, the caller
/// calls [`Report::judge`], which decides the verdict.
pub fn build_report(
    environment: Environment,
    seed: u64,
    mut switches: Vec<SwitchReport>,
    flows: Vec<FlowReport>,
    mut taints: Vec<Taint>,
) -> Report {
    set_common_tx_span(&mut switches);
    // A report that is read from a file does not have these times.
    for port in switches.iter_mut().flat_map(|switch| &mut switch.ports) {
        port.tx_times = TxTimes::default();
    }
    taints.sort_by_key(|taint| taint.since_ns);
    let failures: Vec<String> = flows
        .iter()
        .filter_map(|flow| lossless_failure(flow, &switches))
        .collect();
    Report {
        schema: REPORT_SCHEMA.to_owned(),
        environment,
        seed,
        verdict: Traffic::default().verdict(!taints.is_empty(), !failures.is_empty()),
        traffic: Traffic::default(),
        expectations: Vec::new(),
        oversized: Vec::new(),
        processes: Vec::new(),
        plain_hosts: Vec::new(),
        failures,
        warnings: describe_dcbx_mismatches(&switches),
        totals: Totals::of_flows_and_switches(&flows, &switches),
        taints,
        flows,
        host: None,
        switches,
        receivers: Vec::new(),
        virtual_time: None,
        real_time: None,
        jobs: None,
    }
}

/// Describes the ports whose DCBX configuration differs from that of their neighbour, one line for each port.
fn describe_dcbx_mismatches(switches: &[SwitchReport]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut more = 0;
    for switch in switches {
        for port in switch.lldp.iter().flat_map(|lldp| &lldp.ports) {
            let mismatches = port.dcbx.as_ref().map_or(&[][..], |dcbx| &dcbx.mismatches);
            let Some((first, others)) = mismatches.split_first() else {
                continue;
            };
            let others = match others.len() {
                0 => String::new(),
                count => format!(" (and {})", count_noun(count as u64, "more difference")),
            };
            match warnings.len() < DCBX_WARNINGS_MAX {
                true => warnings.push(format!("{} {}: DCBX: {first}{others}", switch.name, port.port)),
                false => more += 1,
            }
        }
    }
    if more > 0 {
        let ports = count_noun(more, "more port");
        warnings.push(format!("{ports} with different DCBX configurations at both ends"));
    }
    warnings
}

impl Report {
    /// Decides the verdict from the traffic of the run. Expectations that do not hold, drops of protected frames at an
    /// MTU, and drops of lossless classes at a full buffer become failures of the run. Call this function once.
    pub fn judge(
        &mut self,
        traffic: Traffic,
        expectations: Vec<ExpectationResult>,
        protected: &ProtectedClasses,
    ) {
        if describe_idle_switches(&self.switches).is_some() {
            // The first and the last departure of a run without traffic say nothing about the use of its links.
            let ports = self.switches.iter_mut().flat_map(|switch| &mut switch.ports);
            ports.for_each(|port| port.tx_utilisation = None);
        }
        self.oversized = oversized_drops(&self.switches, protected);
        self.failures
            .extend(expectations.iter().filter_map(ExpectationResult::failure));
        self.failures
            .extend(self.oversized.iter().filter_map(OversizedDrops::failure));
        let failed_flows = self
            .flows
            .iter()
            .filter(|flow| flow.lossless && flow.lost_frames > 0);
        let described: Vec<u8> = failed_flows.map(|flow| flow.class).collect();
        self.failures.extend(lossless_drops(&self.switches, &described));
        self.expectations = expectations;
        self.traffic = traffic;
        self.decide_verdict();
    }

    /// Adds failures that are known after [`Report::judge`], such as the reason for an early end.
    pub fn add_failures(&mut self, failures: impl IntoIterator<Item = String>) {
        self.failures.extend(failures);
        self.decide_verdict();
    }

    fn decide_verdict(&mut self) {
        self.verdict = self
            .traffic
            .verdict(!self.taints.is_empty(), !self.failures.is_empty());
    }

    /// Returns the exit code of the command ([`Verdict::exit`]). For a tainted run (a run that proves nothing), the
    /// exit code is [`Exit::Inconclusive`], even if the run has failures.
    pub fn exit(&self) -> Exit {
        self.verdict.exit()
    }

    /// Adds the queue pair counters of one host to the totals. Call this function once for each host.
    pub fn add_queue_pair_counters(&mut self, counters: &Counters) {
        self.totals.data_packets += counters.rx_data_packets;
        self.totals.ce_marked_packets += counters.np_ecn_marked_roce_packets;
        self.totals.out_of_order_packets += counters.out_of_order_packets();
    }

    /// Formats the report as indented JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        let mut text = Vec::new();
        self.write_json(&mut text)
            .expect("a report has string keys and finite numbers");
        String::from_utf8(text).expect("JSON is UTF-8")
    }

    /// Writes the report as indented JSON with a newline at the end. The text of a large fabric has gigabytes and is
    /// never in memory as a whole.
    ///
    /// # Errors
    /// `out` returns an error.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
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

/// Describes the lost, reordered and damaged frames of a lossless flow. Returns `None` if the flow has no
/// such frames or is not lossless.
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
        "{} to {}, class {}: {} of {}",
        flow.src,
        flow.dst,
        flow.class,
        broken.join(", "),
        count_noun(flow.sent_frames, "frame")
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
