//! Tests with two endpoints and a link in virtual time. The link drops, delays, duplicates and marks packets.

mod feedback;
mod livelock;
mod loss;
mod read;
mod rnr;
mod robustness;
mod timing;
mod windows;
mod wire;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};

use xoff_units::Picos;
use xoff_wire::Opcode;

use super::congestion::{Ack, CongestionControl};
use super::*;

/// Speed of the link in bits per second.
const LINE_BPS: u64 = 100_000_000_000;
/// Propagation delay of the link in one direction.
const LATENCY: Picos = Picos::from_nanos(1_000);
/// Bytes of a packet without its payload, as in [`QpConfig::new`].
const HEADER_BYTES: u32 = 62;

/// Limit of events in one call of [`TestLink::run`].
const EVENTS_MAX: u32 = 1_500_000;

/// Calls that a controller has received.
#[derive(Clone, Debug, Default)]
struct ControllerCalls {
    sent: Vec<(Picos, u32)>,
    acks: Vec<(Picos, u64, u64, Option<Picos>, bool, bool)>,
    notified: Vec<Picos>,
    missed: u32,
    timed_out: u32,
}

/// A controller with a fixed rate and window that records all calls.
#[derive(Clone, Debug)]
struct RecordingController {
    rate_bps: u64,
    window_bytes: Option<u64>,
    telemetry: bool,
    calls: Arc<Mutex<ControllerCalls>>,
}

impl RecordingController {
    fn new(rate_bps: u64) -> RecordingController {
        RecordingController {
            rate_bps,
            window_bytes: None,
            telemetry: false,
            calls: Arc::default(),
        }
    }

    fn calls(&self) -> ControllerCalls {
        self.calls.lock().unwrap().clone()
    }
}

impl CongestionControl for RecordingController {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn rate_bps(&self) -> u64 {
        self.rate_bps
    }
    fn window_bytes(&self) -> Option<u64> {
        self.window_bytes
    }
    fn telemetry_format(&self) -> Option<TelemetryFormat> {
        self.telemetry.then(TelemetryFormat::default)
    }
    fn on_packet_sent(&mut self, now: Picos, packet_bytes: u32) {
        self.calls.lock().unwrap().sent.push((now, packet_bytes));
    }
    fn on_ack(&mut self, now: Picos, ack: &Ack<'_>) {
        let telemetry = ack.telemetry.is_some();
        let note = (
            now,
            ack.acked_bytes,
            ack.inflight_bytes,
            ack.rtt,
            ack.marked,
            telemetry,
        );
        self.calls.lock().unwrap().acks.push(note);
    }
    fn on_cnp(&mut self, now: Picos) {
        self.calls.lock().unwrap().notified.push(now);
    }
    fn on_nak(&mut self, _now: Picos) {
        self.calls.lock().unwrap().missed += 1;
    }
    fn on_timeout(&mut self, _now: Picos) {
        self.calls.lock().unwrap().timed_out += 1;
    }
}

/// Action of the link on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkAction {
    Pass,
    Drop,
    /// The packet arrives this much later, after packets that were sent later.
    Delay(Picos),
    /// The packet arrives twice, the second time this much later.
    Twice(Picos),
    Mark,
}

type LinkScript = Box<dyn FnMut(usize, u64, &Packet) -> LinkAction>;

/// A packet in flight: arrival time, number and destination.
#[derive(Debug)]
struct InFlightPacket {
    at: Picos,
    order: u64,
    to: usize,
    packet: Packet,
    ce: bool,
    telemetry: Option<Box<Telemetry>>,
}

impl PartialEq for InFlightPacket {
    fn eq(&self, other: &InFlightPacket) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for InFlightPacket {}
impl PartialOrd for InFlightPacket {
    fn partial_cmp(&self, other: &InFlightPacket) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlightPacket {
    fn cmp(&self, other: &InFlightPacket) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Two endpoints and the link between them.
struct TestLink {
    now: Picos,
    ends: [Endpoint; 2],
    /// Time at which the transmitter of each end is free again.
    free: [Picos; 2],
    flying: BinaryHeap<Reverse<InFlightPacket>>,
    order: u64,
    /// Number of packets that each end has sent.
    sent: [u64; 2],
    /// Returns the action for a sending end, a packet number and a packet.
    script: LinkScript,
    /// Every packet that was sent: time and sending end.
    log: Vec<(Picos, usize, Packet)>,
    keep_log: bool,
    completions: [Vec<Completion>; 2],
}

impl TestLink {
    fn new(script: impl FnMut(usize, u64, &Packet) -> LinkAction + 'static) -> TestLink {
        TestLink {
            now: Picos::ZERO,
            ends: [Endpoint::new(), Endpoint::new()],
            free: [Picos::ZERO; 2],
            flying: BinaryHeap::new(),
            order: 0,
            sent: [0; 2],
            script: Box::new(script),
            log: Vec::new(),
            keep_log: true,
            completions: [Vec::new(), Vec::new()],
        }
    }

    /// Creates a queue pair at each end. `adapt` changes the default configuration of both.
    fn connect(&mut self, control: [&RecordingController; 2], adapt: impl Fn(&mut QpConfig)) -> QpIndex {
        self.connect_with(control.map(|fixed| Box::new(fixed.clone()) as Box<_>), adapt)
    }

    /// Does the same as [`TestLink::connect`] with any congestion control.
    fn connect_with(
        &mut self,
        control: [Box<dyn CongestionControl>; 2],
        adapt: impl Fn(&mut QpConfig),
    ) -> QpIndex {
        let n = self.ends[0].len() as u32;
        let numbers = [2 * n + 0x10, 2 * n + 0x11];
        let mut created = QpIndex(n);
        for (end, control) in control.into_iter().enumerate() {
            let mut config = QpConfig::new(numbers[end], numbers[1 - end]);
            config.ack_timeout = 4; // 65 us
            adapt(&mut config);
            if end == 1 {
                std::mem::swap(&mut config.first_psn, &mut config.peer_first_psn);
            }
            created = self.ends[end].create_queue_pair(config, control);
            assert_eq!(created, QpIndex(n));
        }
        created
    }

    fn post(&mut self, end: usize, qp: QpIndex, id: u64, verb: Verb, bytes: u64) {
        self.ends[end]
            .post(self.now, qp, WorkRequest { id, verb, bytes })
            .unwrap();
    }

    /// Runs until no event is left, or until a time.
    fn run(&mut self, until: Picos) {
        for _ in 0..EVENTS_MAX {
            let arrival = self
                .flying
                .peek()
                .map_or(Picos::NEVER, |Reverse(flying)| flying.at);
            let timer = self.ends[0].next_deadline().min(self.ends[1].next_deadline());
            let leave = [0, 1].map(|end| {
                let earliest = *self.ends[end].earliest_departures();
                earliest.into_iter().min().unwrap().max(self.free[end])
            });
            let next = arrival.min(timer).min(leave[0]).min(leave[1]).max(self.now);
            if next == Picos::NEVER || next > until {
                self.now = if next == Picos::NEVER { self.now } else { until };
                return;
            }
            self.now = next;
            if arrival <= next {
                self.deliver_next();
            } else if timer <= next {
                self.ends[0].advance(next);
                self.ends[1].advance(next);
            } else {
                self.send_packets(usize::from(leave[0] > next));
            }
            for end in 0..2 {
                self.completions[end].extend(self.ends[end].completions());
            }
        }
        panic!("no end: {EVENTS_MAX} events, now {:?}", self.now);
    }

    fn deliver_next(&mut self) {
        let Some(Reverse(flying)) = self.flying.pop() else {
            return;
        };
        let arrival = ArrivalInfo {
            ce: flying.ce,
            telemetry: flying.telemetry.as_deref(),
        };
        assert!(self.ends[flying.to].receive(self.now, &flying.packet, arrival));
        if let Some(telemetry) = flying.telemetry {
            self.ends[flying.to].recycle(telemetry);
        }
    }

    fn send_packets(&mut self, end: usize) {
        let earliest = *self.ends[end].earliest_departures();
        let class = (0..8_u8)
            .rev()
            .find(|class| earliest[usize::from(*class)] <= self.now)
            .unwrap();
        let Some(outgoing) = self.ends[end].pop_packet(self.now, class) else {
            return;
        };
        let packet = outgoing.packet;
        let bytes = u64::from(packet.payload_len + HEADER_BYTES);
        self.free[end] = Picos(self.now.0 + bytes * 8_000_000_000_000 / LINE_BPS);
        let fate = (self.script)(end, self.sent[end], &packet);
        self.sent[end] += 1;
        if self.keep_log {
            self.log.push((self.now, end, packet));
        }
        let telemetry = match outgoing.collects {
            Some(_) => Some(Box::new(hop_telemetry(self.now))),
            None => outgoing.telemetry,
        };
        let base = self.free[end].saturating_add(LATENCY);
        let at: &[Picos] = match fate {
            LinkAction::Pass | LinkAction::Mark => &[base],
            LinkAction::Drop => &[],
            LinkAction::Delay(by) => &[base.saturating_add(by)],
            LinkAction::Twice(by) => &[base, base.saturating_add(by)],
        };
        for at in at {
            self.order += 1;
            self.flying.push(Reverse(InFlightPacket {
                at: *at,
                order: self.order,
                to: 1 - end,
                packet,
                ce: fate == LinkAction::Mark,
                telemetry: telemetry.clone(),
            }));
        }
    }

    /// Returns the identifiers of the acknowledged requests of an end, in order.
    fn acked(&self, end: usize) -> Vec<u64> {
        let ids = self.completions[end]
            .iter()
            .filter_map(|completion| match completion.kind {
                CompletionKind::Acked { id } => Some(id),
                _ => None,
            });
        ids.collect()
    }

    /// Returns the number, length and verb of the messages that an end has received.
    fn received(&self, end: usize) -> Vec<(u64, u64, Verb)> {
        let messages = self.completions[end]
            .iter()
            .filter_map(|completion| match completion.kind {
                CompletionKind::Received { message, bytes, verb } => Some((message, bytes, verb)),
                _ => None,
            });
        messages.collect()
    }

    fn failed(&self, end: usize) -> Vec<(u64, FailReason)> {
        let requests = self.completions[end]
            .iter()
            .filter_map(|completion| match completion.kind {
                CompletionKind::Failed { id, why } => Some((id, why)),
                _ => None,
            });
        requests.collect()
    }

    /// Returns the opcode and PSN of the packets that an end has sent.
    fn sent_by(&self, end: usize) -> Vec<(Opcode, u32)> {
        let packets = self.log.iter().filter(|(_, from, _)| *from == end);
        packets
            .map(|(_, _, packet)| (packet.opcode, packet.psn))
            .collect()
    }
}

/// Telemetry of a hop at 100 Gb/s with half of the speed in use. The queue changes from packet to packet.
fn hop_telemetry(at: Picos) -> Telemetry {
    let mut telemetry = Telemetry::default();
    telemetry.push(HopTelemetry {
        at,
        tx_bytes: at.0 / 160,
        queue_bytes: at.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48,
        speed_mbps: 100_000,
    });
    telemetry
}

/// Creates a link without faults and one reliable connection.
fn connect_without_faults(adapt: impl Fn(&mut QpConfig)) -> (TestLink, QpIndex, RecordingController) {
    connect_with_script(|_, _, _| LinkAction::Pass, adapt)
}

fn connect_with_script(
    script: impl FnMut(usize, u64, &Packet) -> LinkAction + 'static,
    adapt: impl Fn(&mut QpConfig),
) -> (TestLink, QpIndex, RecordingController) {
    let mut link = TestLink::new(script);
    let control = RecordingController::new(LINE_BPS);
    let qp = link.connect([&control, &RecordingController::new(LINE_BPS)], adapt);
    (link, qp, control)
}

const SECOND: Picos = Picos::from_millis(1_000);
