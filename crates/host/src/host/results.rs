//! Results and counters of a host.

use std::net::IpAddr;

use xoff_units::Picos;

use super::Host;
use crate::flow_sender::FlowSender;
use crate::nic::NicCounters;
use crate::receiver::{ForeignFlow, ReceiveTotals, ReceivedFlow};
use xoff_telemetry::{FlowReport, LatencyReport};

/// Results of the sender of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFlow {
    /// Number of the flow.
    pub flow: u32,
    /// Class of the flow.
    pub class: u8,
    /// Destination address.
    pub dst_ip: IpAddr,
    /// Number of sent frames.
    pub sent_frames: u64,
    /// Payload bytes of the sent frames.
    pub payload_bytes: u64,
    /// Whether the MAC address of the destination is known. If not, nothing was sent.
    pub resolved: bool,
}

/// Results of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostResults {
    /// Name of the host.
    pub name: String,
    /// Counters of the NIC.
    pub nic: NicCounters,
    /// Results of the sent flows, in the order of the configuration.
    pub sent: Vec<SentFlow>,
    /// Results of the received flows of model hosts, sorted by token and number.
    pub received: Vec<ReceivedFlow>,
    /// Results of other RoCE traffic, sorted by address and queue pair.
    pub foreign: Vec<ForeignFlow>,
    /// Counts of received frames that belong to no flow.
    pub totals: ReceiveTotals,
}

impl Host {
    /// Returns all results at `now`.
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

    /// Returns the results of one sent flow, by its number.
    pub fn sent_flow(&self, flow: u32) -> Option<SentFlow> {
        self.flow_index(flow)
            .map(|index| sent_flow_results(&self.flows[index]))
    }

    /// Returns the results of one received flow of this run, or `None` if no frame of the flow has arrived.
    pub fn received_flow(&self, flow: u32) -> Option<ReceivedFlow> {
        self.receiver.received(self.config.token, flow)
    }

    /// Returns the counters of the NIC at `now`.
    pub fn nic_counters(&self, now: Picos) -> NicCounters {
        let mut counters = self.nic.counters(now);
        counters.tx_dropped_frames += self.neighbours.dropped_frames;
        counters
    }

    /// Returns the number of packets with a wrong ICRC.
    pub fn icrc_errors(&self) -> u64 {
        self.receiver.icrc_errors()
    }

    /// Returns the number of RoCE packets that a switch has trimmed.
    pub fn trimmed_frames(&self) -> u64 {
        self.receiver.totals.trimmed_frames
    }

    /// Returns the number of frames that did not fit into the receive buffer.
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
    }
}

/// Creates the report of a flow from the results of sender and receiver. `received` is `None` if no frame of
/// the flow has arrived.
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
        sent_frames: sent.sent_frames,
        received_frames,
        lost_frames: sent.sent_frames.saturating_sub(received_frames),
        reordered_frames: received.map_or(0, |flow| flow.reordered_frames),
        ce_marked_frames: received.map_or(0, |flow| flow.ce_marked_frames),
        duplicate_frames: received.map_or(0, |flow| flow.duplicate_frames),
        icrc_errors: received.map_or(0, |flow| flow.icrc_errors),
        goodput_bps: received.map_or(0, |flow| flow.goodput_bps),
        latency_ns: received.map_or_else(LatencyReport::default, |flow| flow.latency_ns),
    }
}
