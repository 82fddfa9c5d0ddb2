//! Two endpoints over a pipe in virtual time that loses, delays, repeats and marks as it is told.

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

/// Speed of the pipe's links, bits per second.
const LINE_BPS: u64 = 100_000_000_000;
/// One way through the pipe.
const LATENCY: Picos = Picos::from_nanos(1_000);
/// Bytes of a packet of the pipe beside its payload: [`QpConfig::new`]'s.
const HEADER_BYTES: u32 = 62;

/// More happens in no test between two looks at it.
const EVENTS_MAX: u32 = 1_500_000;

/// What a controller was told.
#[derive(Clone, Debug, Default)]
struct Told {
    sent: Vec<(Picos, u32)>,
    acks: Vec<(Picos, u64, u64, Option<Picos>, bool, bool)>,
    notified: Vec<Picos>,
    missed: u32,
    timed_out: u32,
}

/// A controller of fixed rate and window that notes what it is told.
#[derive(Clone, Debug)]
struct Fixed {
    rate_bps: u64,
    window_bytes: Option<u64>,
    telemetry: bool,
    told: Arc<Mutex<Told>>,
}

impl Fixed {
    fn new(rate_bps: u64) -> Fixed {
        Fixed {
            rate_bps,
            window_bytes: None,
            telemetry: false,
            told: Arc::default(),
        }
    }

    fn told(&self) -> Told {
        self.told.lock().unwrap().clone()
    }
}

impl CongestionControl for Fixed {
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
    fn sent(&mut self, now: Picos, packet_bytes: u32) {
        self.told.lock().unwrap().sent.push((now, packet_bytes));
    }
    fn acknowledged(&mut self, now: Picos, ack: &Ack<'_>) {
        let telemetry = ack.telemetry.is_some();
        let note = (
            now,
            ack.acked_bytes,
            ack.inflight_bytes,
            ack.rtt,
            ack.marked,
            telemetry,
        );
        self.told.lock().unwrap().acks.push(note);
    }
    fn notified(&mut self, now: Picos) {
        self.told.lock().unwrap().notified.push(now);
    }
    fn missed(&mut self, _now: Picos) {
        self.told.lock().unwrap().missed += 1;
    }
    fn timed_out(&mut self, _now: Picos) {
        self.told.lock().unwrap().timed_out += 1;
    }
}

/// What the pipe does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Drop,
    /// Behind what is sent up to this much later.
    Delay(Picos),
    /// Once now, once this much later.
    Twice(Picos),
    Mark,
}

type Script = Box<dyn FnMut(usize, u64, &Packet) -> Fate>;

/// A packet of the pipe: when it arrives, its number, where.
#[derive(Debug)]
struct Flying {
    at: Picos,
    order: u64,
    to: usize,
    packet: Packet,
    ce: bool,
    telemetry: Option<Box<Telemetry>>,
}

impl PartialEq for Flying {
    fn eq(&self, other: &Flying) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Flying {}
impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Flying) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flying {
    fn cmp(&self, other: &Flying) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The two endpoints and the pipe.
struct Pipe {
    now: Picos,
    ends: [Endpoint; 2],
    /// Where each end's link is free again.
    free: [Picos; 2],
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    /// Packets that each end has sent.
    sent: [u64; 2],
    /// Given the sending end, the number of the packet there and the packet.
    script: Script,
    /// Every packet that began to leave: when, from which end.
    log: Vec<(Picos, usize, Packet)>,
    keep_log: bool,
    completions: [Vec<Completion>; 2],
}

impl Pipe {
    fn new(script: impl FnMut(usize, u64, &Packet) -> Fate + 'static) -> Pipe {
        Pipe {
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

    /// A queue pair from each end to the other, both with what `adapt` makes of the defaults.
    fn connect(&mut self, control: [&Fixed; 2], adapt: impl Fn(&mut QpConfig)) -> QpIndex {
        self.connect_with(control.map(|fixed| Box::new(fixed.clone()) as Box<_>), adapt)
    }

    /// As [`Pipe::connect`], with any congestion control.
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
            created = self.ends[end].create(config, control);
            assert_eq!(created, QpIndex(n));
        }
        created
    }

    fn post(&mut self, end: usize, qp: QpIndex, id: u64, verb: Verb, bytes: u64) {
        self.ends[end]
            .post(self.now, qp, WorkRequest { id, verb, bytes })
            .unwrap();
    }

    /// Runs until nothing is left to happen, or `until`.
    fn run(&mut self, until: Picos) {
        for _ in 0..EVENTS_MAX {
            let arrival = self
                .flying
                .peek()
                .map_or(Picos::NEVER, |Reverse(flying)| flying.at);
            let timer = self.ends[0].next_deadline().min(self.ends[1].next_deadline());
            let leave = [0, 1].map(|end| {
                let earliest = *self.ends[end].earliest();
                earliest.into_iter().min().unwrap().max(self.free[end])
            });
            let next = arrival.min(timer).min(leave[0]).min(leave[1]).max(self.now);
            if next == Picos::NEVER || next > until {
                self.now = if next == Picos::NEVER { self.now } else { until };
                return;
            }
            self.now = next;
            if arrival <= next {
                self.arrive();
            } else if timer <= next {
                self.ends[0].advance(next);
                self.ends[1].advance(next);
            } else {
                self.leave(usize::from(leave[0] > next));
            }
            for end in 0..2 {
                self.completions[end].extend(self.ends[end].completions());
            }
        }
        panic!("no end: {EVENTS_MAX} events, now {:?}", self.now);
    }

    fn arrive(&mut self) {
        let Some(Reverse(flying)) = self.flying.pop() else {
            return;
        };
        let arrival = Arrival {
            ce: flying.ce,
            telemetry: flying.telemetry.as_deref(),
        };
        assert!(self.ends[flying.to].receive(self.now, &flying.packet, arrival));
        if let Some(telemetry) = flying.telemetry {
            self.ends[flying.to].recycle(telemetry);
        }
    }

    fn leave(&mut self, end: usize) {
        let earliest = *self.ends[end].earliest();
        let class = (0..8_u8)
            .rev()
            .find(|class| earliest[usize::from(*class)] <= self.now)
            .unwrap();
        let Some(outgoing) = self.ends[end].pop(self.now, class) else {
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
            Some(_) => Some(Box::new(one_hop(self.now))),
            None => outgoing.telemetry,
        };
        let base = self.free[end].saturating_add(LATENCY);
        let at: &[Picos] = match fate {
            Fate::Pass | Fate::Mark => &[base],
            Fate::Drop => &[],
            Fate::Delay(by) => &[base.saturating_add(by)],
            Fate::Twice(by) => &[base, base.saturating_add(by)],
        };
        for at in at {
            self.order += 1;
            self.flying.push(Reverse(Flying {
                at: *at,
                order: self.order,
                to: 1 - end,
                packet,
                ce: fate == Fate::Mark,
                telemetry: telemetry.clone(),
            }));
        }
    }

    /// Names of the requests of an end that were acknowledged, in that order.
    fn acked(&self, end: usize) -> Vec<u64> {
        let ids = self.completions[end]
            .iter()
            .filter_map(|completion| match completion.kind {
                CompletionKind::Acked { id } => Some(id),
                _ => None,
            });
        ids.collect()
    }

    /// Number, length and verb of the messages that arrived at an end.
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

    /// Opcode and PSN of what an end sent.
    fn sent_by(&self, end: usize) -> Vec<(Opcode, u32)> {
        let packets = self.log.iter().filter(|(_, from, _)| *from == end);
        packets
            .map(|(_, _, packet)| (packet.opcode, packet.psn))
            .collect()
    }
}

/// A hop at 100 Gb/s, half of which is used, with a queue that changes from packet to packet.
fn one_hop(at: Picos) -> Telemetry {
    let mut telemetry = Telemetry::default();
    telemetry.push(HopTelemetry {
        at,
        tx_bytes: at.0 / 160,
        queue_bytes: at.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48,
        speed_mbps: 100_000,
    });
    telemetry
}

/// A pipe that does no harm, and one reliable connection over it.
fn plain(adapt: impl Fn(&mut QpConfig)) -> (Pipe, QpIndex, Fixed) {
    scripted(|_, _, _| Fate::Pass, adapt)
}

fn scripted(
    script: impl FnMut(usize, u64, &Packet) -> Fate + 'static,
    adapt: impl Fn(&mut QpConfig),
) -> (Pipe, QpIndex, Fixed) {
    let mut pipe = Pipe::new(script);
    let control = Fixed::new(LINE_BPS);
    let qp = pipe.connect([&control, &Fixed::new(LINE_BPS)], adapt);
    (pipe, qp, control)
}

const SECOND: Picos = Picos::from_millis(1_000);
