//! How fast a job could be if the network were nothing but its hosts' links.

use xoff_units::Picos;

use super::bulk::Bulk;
use super::engine::{Connection, Workload};
use super::list::{List, messages};
use super::spec::{Framing, Repeat};
use super::split::duration;

/// What hosts send and receive, in bytes of payload.
struct Loads<'a> {
    workload: &'a Workload,
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl Loads<'_> {
    fn new(workload: &Workload) -> Loads<'_> {
        let hosts = workload.line_rates_bps.len();
        Loads {
            workload,
            sent: vec![0; hosts],
            received: vec![0; hosts],
        }
    }

    fn add(&mut self, connection: u32, bytes: u64) {
        if let Some(Connection { src, dst, .. }) = self.workload.connections.get(connection as usize) {
            let (sent, received) = (&mut self.sent[*src as usize], &mut self.received[*dst as usize]);
            *sent = sent.saturating_add(bytes);
            *received = received.saturating_add(bytes);
        }
    }

    /// How long the busiest direction of a link lasts.
    fn busiest(&self, framing: Framing) -> Picos {
        let rates = self.workload.line_rates_bps.iter();
        let loads = self
            .sent
            .iter()
            .zip(&self.received)
            .map(|(sent, received)| *sent.max(received));
        let spans = rates.zip(loads).filter(|(_, bytes)| *bytes > 0);
        spans
            .map(|(bps, bytes)| duration(on_wire(bytes, framing), *bps))
            .max()
            .unwrap_or(Picos::ZERO)
    }
}

/// Bytes on the wire for so many of payload, if all frames were full.
fn on_wire(bytes: u64, framing: Framing) -> u64 {
    let wire = u128::from(bytes) * u128::from(framing.wire_bytes);
    u64::try_from(wire.div_ceil(u128::from(framing.payload_bytes.max(1)))).unwrap_or(u64::MAX)
}

impl Workload {
    /// One iteration of a size: the bytes that the busiest NIC must send, or receive, over its line rate.
    pub(super) fn iteration_roofline(&self, bulk: &Bulk, bytes: u64, framing: Framing) -> Picos {
        let mut loads = Loads::new(self);
        for (edge, &connection) in bulk.connections.iter().enumerate() {
            loads.add(connection, bulk.pattern.edge_bytes(edge as u32, bytes));
        }
        loads.busiest(framing)
    }

    /// A list of flows: no earlier than the first start plus what the busiest NIC must move, nor than any message's
    /// start plus its own length. From the start of the job.
    pub(super) fn list_roofline(&self, list: &List, framing: Framing) -> Picos {
        let mut loads = Loads::new(self);
        let mut latest = Picos::ZERO;
        for (flow, &connection) in list.flows.iter().zip(&list.connections) {
            let count = u64::from(messages(flow));
            loads.add(connection, flow.bytes.saturating_mul(count));
            let rate = |host: u32| self.line_rates_bps[host as usize];
            let alone = duration(on_wire(flow.bytes, framing), rate(flow.src).min(rate(flow.dst)));
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
        latest.max(first.saturating_add(loads.busiest(framing)))
    }
}
