//! What a host has counted.

use std::net::IpAddr;

use xoff_units::Picos;

use super::Host;
use crate::nic::NicCounters;
use crate::receiver::{ForeignFlow, ReceiveTotals, ReceivedFlow};
use crate::requester::Requester;
use xoff_telemetry::{FlowReport, LatencyReport};

/// What one flow has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFlow {
    /// Number of the flow.
    pub flow: u32,
    /// Class in which it was queued.
    pub class: u8,
    /// Where it went.
    pub dst_ip: IpAddr,
    /// Frames put on the wire.
    pub sent_frames: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// Whether its destination's MAC address was known in the end; if not, nothing was sent.
    pub resolved: bool,
}

/// What a host has to say of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostResults {
    /// Its name.
    pub name: String,
    /// Its NIC.
    pub nic: NicCounters,
    /// Its flows, in the order of the configuration.
    pub sent: Vec<SentFlow>,
    /// Flows of model hosts that arrived, by token and number.
    pub received: Vec<ReceivedFlow>,
    /// Other RoCE traffic that arrived, by address and queue pair.
    pub foreign: Vec<ForeignFlow>,
    /// What arrived beside flows.
    pub totals: ReceiveTotals,
}

impl Host {
    /// Everything counted, as of `now`.
    pub fn results(&self, now: Picos) -> HostResults {
        let (received, foreign) = self.receiver.results();
        HostResults {
            name: self.config.name.clone(),
            nic: self.nic_counters(now),
            sent: self.flows.iter().map(sent).collect(),
            received,
            foreign,
            totals: self.receiver.totals,
        }
    }

    /// What one of its flows has sent, by its number.
    pub fn sent_flow(&self, flow: u32) -> Option<SentFlow> {
        self.flow_index(flow).map(|index| sent(&self.flows[index]))
    }

    /// What has arrived of a flow of this run, by its number; `None`: nothing.
    pub fn received_flow(&self, flow: u32) -> Option<ReceivedFlow> {
        self.receiver.received(self.config.token, flow)
    }

    /// What the NIC has counted up to `now`.
    pub fn nic_counters(&self, now: Picos) -> NicCounters {
        let mut counters = self.nic.counters(now);
        counters.tx_dropped_frames += self.neighbours.dropped_frames;
        counters
    }

    /// Packets with a wrong ICRC, whosever they were.
    pub fn icrc_errors(&self) -> u64 {
        self.receiver.icrc_errors()
    }

    /// RoCE packets that a switch has trimmed.
    pub fn trimmed_frames(&self) -> u64 {
        self.receiver.totals.trimmed_frames
    }

    /// Frames that found the receive buffer full.
    pub fn rx_dropped_frames(&self) -> u64 {
        self.nic.rx_dropped_frames()
    }
}

fn sent(flow: &Requester) -> SentFlow {
    SentFlow {
        flow: flow.config().id,
        class: flow.config().class,
        dst_ip: flow.config().dst_ip,
        sent_frames: flow.sent_frames(),
        payload_bytes: flow.sent_payload_bytes(),
        resolved: flow.is_resolved(),
    }
}

/// The report of a flow: what `src` says of its sending and `dst` of its receiving (`None`: nothing arrived).
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
