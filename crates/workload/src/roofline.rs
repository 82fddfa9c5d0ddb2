//! Rooflines: lower bounds of completion times. The bound assumes that the links of the hosts are the only
//! limit of the network.

use xoff_units::Picos;

use super::bulk::BulkJob;
use super::engine::Workload;
use super::job_context::Connection;
use super::list::{FlowListJob, message_count};
use super::spec::{Framing, Repeat};
use super::split::transmission_time;

/// Payload bytes that each host sends and receives. The index is the number of the host.
struct HostLoads<'a> {
    workload: &'a Workload,
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl HostLoads<'_> {
    fn new(workload: &Workload) -> HostLoads<'_> {
        let hosts = workload.line_rates_bps.len();
        HostLoads {
            workload,
            sent: vec![0; hosts],
            received: vec![0; hosts],
        }
    }

    fn add_message(&mut self, connection: u32, bytes: u64) {
        if let Some(Connection { src, dst, .. }) = self.workload.connections.get(connection as usize) {
            let (sent, received) = (&mut self.sent[*src as usize], &mut self.received[*dst as usize]);
            *sent = sent.saturating_add(bytes);
            *received = received.saturating_add(bytes);
        }
    }

    /// Returns the longest time that a host link needs in one direction for its bytes.
    fn busiest_link_time(&self, framing: Framing) -> Picos {
        let rates = self.workload.line_rates_bps.iter();
        let loads = self
            .sent
            .iter()
            .zip(&self.received)
            .map(|(sent, received)| *sent.max(received));
        let spans = rates.zip(loads).filter(|(_, bytes)| *bytes > 0);
        spans
            .map(|(bps, bytes)| transmission_time(bytes_on_link(bytes, framing), *bps))
            .max()
            .unwrap_or(Picos::ZERO)
    }
}

/// Returns the bytes on the link for the given payload, if all frames are full.
fn bytes_on_link(bytes: u64, framing: Framing) -> u64 {
    let wire = u128::from(bytes) * u128::from(framing.wire_bytes);
    u64::try_from(wire.div_ceil(u128::from(framing.payload_bytes.max(1)))).unwrap_or(u64::MAX)
}

impl Workload {
    /// Returns the roofline of one iteration: the bytes of the busiest NIC divided by its line rate.
    pub(super) fn iteration_roofline(&self, bulk: &BulkJob, bytes: u64, framing: Framing) -> Picos {
        let mut loads = HostLoads::new(self);
        for (edge, &connection) in bulk.connections.iter().enumerate() {
            loads.add_message(connection, bulk.pattern.bytes_on_edge(edge as u32, bytes));
        }
        loads.busiest_link_time(framing)
    }

    /// Returns the roofline of a list of flows, counted from the start of the job. The result is the larger
    /// of two bounds:
    ///
    /// - the earliest start, plus the time that the busiest NIC needs for its data,
    /// - the maximum of `start + transmission time` over all messages.
    pub(super) fn list_roofline(&self, list: &FlowListJob, framing: Framing) -> Picos {
        let mut loads = HostLoads::new(self);
        let mut latest = Picos::ZERO;
        for (flow, &connection) in list.flows.iter().zip(&list.connections) {
            let count = u64::from(message_count(flow));
            loads.add_message(connection, flow.bytes.saturating_mul(count));
            let rate = |host: u32| self.line_rates_bps[host as usize];
            let alone = transmission_time(
                bytes_on_link(flow.bytes, framing),
                rate(flow.src).min(rate(flow.dst)),
            );
            let between = match flow.repeat {
                Repeat::Once => Picos::ZERO,
                Repeat::Every { interval, .. } => interval,
                Repeat::AfterCompletion { gap, .. } => gap.saturating_add(alone),
            };
            let last = flow
                .start
                .saturating_add(Picos(between.0.saturating_mul(count - 1)));
            latest = latest.max(last.saturating_add(alone));
        }
        let first = list.flows.first().map_or(Picos::ZERO, |flow| flow.start);
        latest.max(first.saturating_add(loads.busiest_link_time(framing)))
    }
}
