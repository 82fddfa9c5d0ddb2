//! Results and counters of a host.

use std::net::IpAddr;

use xoff_units::Picos;

use super::Host;
use crate::flow_sender::FlowSender;
use crate::nic::NicCounters;
use crate::receiver::{ReceiveTotals, ReceivedFlow, UnstampedFlow};
use xoff_telemetry::{FlowEnd, FlowReport, LatencyReport};

/// Results of one flow at its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFlow {
    /// Number of the flow, [`FlowConfig::id`](crate::FlowConfig::id).
    pub flow: u32,
    /// Class of the flow, 0 to 7.
    pub class: u8,
    /// Destination IP address.
    pub dst_ip: IpAddr,
    /// Number of sent frames.
    pub sent_frames: u64,
    /// Payload bytes of the sent frames, with stamps.
    pub payload_bytes: u64,
    /// True if the MAC address of the next hop is known. If it is not known, the flow has sent nothing.
    pub resolved: bool,
    /// Model time in nanoseconds for which the flow did not send because the caller was so late that the flow could not
    /// catch up. With rate *r*, it offered *r* times this time less.
    pub late_ns: u64,
}

/// Results of a host at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostResults {
    /// Name of the host.
    pub name: String,
    /// Counters of the NIC of the host.
    pub nic: NicCounters,
    /// Results of the sent flows, in the order of the configuration.
    pub sent: Vec<SentFlow>,
    /// Results of the received flows of model hosts, sorted by token and flow number.
    pub received: Vec<ReceivedFlow>,
    /// Results of RoCE traffic from other senders, sorted by source address and queue pair.
    pub foreign: Vec<UnstampedFlow>,
    /// Counts of received frames that are not attributed to single flows.
    pub totals: ReceiveTotals,
}

impl HostResults {
    /// Returns the model time in nanoseconds for which the host offered no traffic because the caller was late: the
    /// largest time of its flows, or the lost link time of a host with queue pairs only.
    pub fn late_ns(&self) -> u64 {
        let of_flows = self.sent.iter().map(|flow| flow.late_ns).max();
        of_flows.unwrap_or(self.nic.tx_deficit_ns)
    }
}

impl Host {
    /// Returns all results at the model time `now`.
    pub fn results(&self, now: Picos) -> HostResults {
        let (received, foreign) = self.receiver.results();
        HostResults {
            name: self.config.name.clone(),
            nic: self.nic_counters(now),
            sent: self.flows.iter().map(sent_flow_results).collect(),
            received,
            foreign,
            totals: self.receiver.totals,
        }
    }

    /// Returns the results of the sent flow with the number `flow`. Returns `None` if no flow has
    /// this number.
    pub fn sent_flow(&self, flow: u32) -> Option<SentFlow> {
        self.flow_index(flow)
            .map(|index| sent_flow_results(&self.flows[index]))
    }

    /// Returns the results of the received flow with the number `flow` and the token (run identifier) of this
    /// host. Returns `None` if no frame of the flow has arrived.
    pub fn received_flow(&self, flow: u32) -> Option<ReceivedFlow> {
        self.receiver.received(self.config.token, flow)
    }

    /// Returns the results of [`Host::received_flow`] without latencies, which are 0. This is faster.
    pub fn received_flow_counters(&self, flow: u32) -> Option<ReceivedFlow> {
        self.receiver.received_counters(self.config.token, flow)
    }

    /// Returns the counters of the NIC at the model time `now`.
    pub fn nic_counters(&self, now: Picos) -> NicCounters {
        let mut counters = self.nic.counters(now);
        counters.tx_dropped_frames += self.neighbours.dropped_frames;
        counters
    }

    /// Returns the number of received packets with a wrong ICRC.
    pub fn icrc_errors(&self) -> u64 {
        self.receiver.icrc_errors()
    }

    /// Returns the number of received RoCE packets that a switch had trimmed. The host drops these packets,
    /// because they have no ICRC.
    pub fn trimmed_frames(&self) -> u64 {
        self.receiver.totals.trimmed_frames
    }

    /// Returns the number of frames that did not fit into the receive buffer. The number is 0 for a NIC
    /// without a receive buffer.
    pub fn rx_dropped_frames(&self) -> u64 {
        self.nic.rx_dropped_frames()
    }
}

fn sent_flow_results(flow: &FlowSender) -> SentFlow {
    SentFlow {
        flow: flow.config().id,
        class: flow.config().class,
        dst_ip: flow.config().dst_ip,
        sent_frames: flow.sent_frames(),
        payload_bytes: flow.sent_payload_bytes(),
        resolved: flow.is_resolved(),
        late_ns: flow.late_time().as_nanos(),
    }
}

/// Creates the report of a flow from the results of its sender and its receiver. `src` and `dst` are the
/// names of both hosts. `lossless` is true if the class of the flow is lossless. `received` is `None` if no
/// frame of the flow has arrived.
pub fn flow_report(
    src: &str,
    dst: &str,
    lossless: bool,
    sent: &SentFlow,
    received: Option<&ReceivedFlow>,
) -> FlowReport {
    let received_frames = received.map_or(0, |flow| flow.received_frames);
    FlowReport {
        src: src.to_owned(),
        dst: dst.to_owned(),
        class: sent.class,
        lossless,
        end: FlowEnd::Both,
        sent_frames: sent.sent_frames,
        received_frames,
        received_bytes: received.map_or(0, |flow| flow.payload_bytes),
        lost_frames: sent.sent_frames.saturating_sub(received_frames),
        reordered_frames: received.map_or(0, |flow| flow.reordered_frames),
        ce_marked_frames: received.map_or(0, |flow| flow.ce_marked_frames),
        duplicate_frames: received.map_or(0, |flow| flow.duplicate_frames),
        icrc_errors: received.map_or(0, |flow| flow.icrc_errors),
        goodput_bps: received.map_or(0, |flow| flow.goodput_bps),
        latency_ns: received.map_or_else(LatencyReport::default, |flow| flow.latency_ns),
    }
}
