//! Flows that share one link: a small network model for tests of convergence.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_units::Picos;

use super::super::{Ack, CongestionConfig, CongestionControl, CongestionFeedback, ControllerContext};
use crate::{HopTelemetry, Telemetry};

/// Default round-trip time without queueing.
pub(super) const RTT: Picos = Picos::from_micros(10);
/// Default packet length. The whole packet is payload.
pub(super) const PACKET_BYTES: u64 = 1000;
/// Marking by the shared link. It depends on the bytes that remain in the queue behind the departing packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Marking {
    /// Every packet above this queue length.
    Step(u64),
    /// Random between two queue lengths, up to this probability. Every packet above the second length.
    Red { min: u64, max: u64, probability: f64 },
}

/// Speed of the host links and of the shared link, and marking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) line_bps: u64,
    pub(super) rtt: Picos,
    pub(super) packet_bytes: u64,
    pub(super) marking: Marking,
}

impl Link {
    /// Creates a link with [`RTT`] and [`PACKET_BYTES`].
    pub(super) fn new(line_bps: u64, marking: Marking) -> Link {
        Link {
            line_bps,
            rtt: RTT,
            packet_bytes: PACKET_BYTES,
            marking,
        }
    }

    fn packet_time(&self) -> Picos {
        Picos(self.packet_bytes * 8_000_000_000_000 / self.line_bps)
    }
}

/// Results of the second half of a run.
#[derive(Clone, Debug)]
pub(super) struct LinkUsage {
    line_bps: u64,
    /// Rate of each flow in bits per second.
    pub(super) goodput_bps: Vec<f64>,
    /// Average queue length in bytes.
    pub(super) queue_mean: f64,
    /// Longest queue in bytes.
    pub(super) queue_max: u64,
    /// Time at which the last packet of each flow was acknowledged, in the whole run.
    pub(super) finished: Vec<Picos>,
}

impl LinkUsage {
    /// Returns the share of the link capacity in use.
    pub(super) fn utilisation(&self) -> f64 {
        self.goodput_bps.iter().sum::<f64>() / self.line_bps as f64
    }

    /// Returns the smallest rate of a flow divided by the largest.
    pub(super) fn rate_ratio(&self) -> f64 {
        let most = self.goodput_bps.iter().copied().fold(0.0, f64::max);
        let least = self.goodput_bps.iter().copied().fold(f64::MAX, f64::min);
        least / most
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send,
    Departure,
    Acknowledgement,
    Notification,
    Deadline,
}

struct Flow {
    control: Box<dyn CongestionControl>,
    due: Picos,
    send_scheduled: bool,
    /// Bytes that are not sent yet.
    left: u64,
    sent: u64,
    acked: u64,
    finished: Picos,
    /// Sending time, mark and telemetry of packets whose acknowledgement is in flight.
    answers: VecDeque<(Picos, bool, Telemetry)>,
    last_notification: Option<Picos>,
    deadline: Picos,
    delivered: u64,
}

struct Network {
    now: Picos,
    half: Picos,
    events: BinaryHeap<Reverse<(Picos, u64, Event, usize)>>,
    order: u64,
    flows: Vec<Flow>,
    /// Flow and sending time of the packets that wait for the shared link.
    queue: VecDeque<(usize, Picos)>,
    /// The packet on the link, with its mark and telemetry.
    departing: Option<(usize, Picos, bool, Telemetry)>,
    feedback: CongestionFeedback,
    link: Link,
    random: u64,
    tx_bytes: u64,
    queue_area: f64,
    queue_since: Picos,
    queue_max: u64,
}

/// Runs flows of one algorithm. Each flow starts at its time and sends until `length`.
pub(super) fn run(choice: &CongestionConfig, link: Link, starts: &[Picos], length: Picos) -> LinkUsage {
    run_messages(choice, link, starts, u64::MAX, length)
}

/// Runs flows of `bytes` each, in whole packets.
pub(super) fn run_messages(
    choice: &CongestionConfig,
    link: Link,
    starts: &[Picos],
    bytes: u64,
    length: Picos,
) -> LinkUsage {
    let context = ControllerContext {
        line_rate_bps: link.line_bps,
        base_rtt: link.rtt,
        packet_bytes: link.packet_bytes as u32,
        seed: 1,
    };
    let factory = choice.factory().unwrap();
    let half = Picos(length.0 / 2);
    let flows = starts.iter().map(|start| Flow {
        control: factory.make(&context),
        due: *start,
        send_scheduled: false,
        left: bytes,
        sent: 0,
        acked: 0,
        finished: Picos::NEVER,
        answers: VecDeque::new(),
        last_notification: None,
        deadline: Picos::NEVER,
        delivered: 0,
    });
    let mut network = Network {
        now: Picos::ZERO,
        half,
        events: BinaryHeap::new(),
        order: 0,
        flows: flows.collect(),
        queue: VecDeque::new(),
        departing: None,
        feedback: choice.default_feedback(),
        link,
        random: 1,
        tx_bytes: 0,
        queue_area: 0.0,
        queue_since: half,
        queue_max: 0,
    };
    for flow in 0..starts.len() {
        network.schedule_send(flow);
    }
    while let Some(Reverse((at, _, event, flow))) = network.events.pop() {
        if at > length {
            break;
        }
        network.now = at;
        network.handle(event, flow);
    }
    let seconds = (length - half).0 as f64 / 1e12;
    let bps = |flow: &Flow| (flow.delivered * 8) as f64 / seconds;
    LinkUsage {
        line_bps: link.line_bps,
        goodput_bps: network.flows.iter().map(bps).collect(),
        queue_mean: network.queue_area / (length - half).0 as f64,
        queue_max: network.queue_max,
        finished: network.flows.iter().map(|flow| flow.finished).collect(),
    }
}

impl Network {
    fn schedule(&mut self, at: Picos, event: Event, flow: usize) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event, flow)));
    }

    /// Schedules a packet with a random delay of up to half a packet time. Synchronised hosts would see the
    /// queue at the same phase of each period. Some unfair rates would then be stable that are not stable in
    /// a network.
    fn schedule_send(&mut self, flow: usize) {
        if !self.flows[flow].send_scheduled {
            self.flows[flow].send_scheduled = true;
            let late = Picos((self.random_unit() * self.link.packet_time().0 as f64 / 2.0) as u64);
            let at = self.flows[flow].due.max(self.now).saturating_add(late);
            self.schedule(at, Event::Send, flow);
        }
    }

    /// Returns a random number from 0 to 1 (SplitMix64).
    fn random_unit(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn handle(&mut self, event: Event, flow: usize) {
        match event {
            Event::Send => self.send(flow),
            Event::Departure => self.depart(),
            Event::Acknowledgement => self.acknowledge(flow),
            Event::Notification => self.flows[flow].control.on_cnp(self.now),
            Event::Deadline => {
                self.flows[flow].deadline = Picos::NEVER;
                if self.flows[flow].control.next_deadline() <= self.now {
                    self.flows[flow].control.on_deadline(self.now);
                }
            }
        }
        let owner = &mut self.flows[flow];
        assert!(
            (1..=self.link.line_bps).contains(&owner.control.rate_bps()),
            "{:?}",
            owner.control
        );
        let deadline = owner.control.next_deadline();
        assert!(deadline > self.now, "a deadline stays due: {:?}", owner.control);
        if deadline < owner.deadline {
            owner.deadline = deadline;
            self.schedule(deadline, Event::Deadline, flow);
        }
    }

    fn send(&mut self, flow: usize) {
        let now = self.now;
        let packet_time = self.link.packet_time();
        let sender = &mut self.flows[flow];
        sender.send_scheduled = false;
        if sender.left == 0 {
            return;
        }
        if sender
            .control
            .window_bytes()
            .is_some_and(|window| sender.sent - sender.acked >= window)
        {
            // An acknowledgement arrives here.
            return;
        }
        sender.left -= self.link.packet_bytes;
        sender.sent += self.link.packet_bytes;
        sender.control.on_packet_sent(now, self.link.packet_bytes as u32);
        let gap = self.link.packet_bytes as f64 * 8e12 / sender.control.rate_bps() as f64;
        // Delays are compensated up to one packet time.
        sender.due = sender
            .due
            .max(Picos(now.0.saturating_sub(packet_time.0)))
            .saturating_add(Picos(gap as u64));
        self.count_queue();
        self.queue.push_back((flow, now));
        if self.departing.is_none() {
            self.transmit();
        }
        self.schedule_send(flow);
    }

    /// Sends the next packet of the queue. The marking depends on the queue length at the start
    /// of the transmission.
    fn transmit(&mut self) {
        self.count_queue();
        let Some((flow, sent_at)) = self.queue.pop_front() else {
            return;
        };
        let queue_bytes = self.queue.len() as u64 * self.link.packet_bytes;
        self.tx_bytes += self.link.packet_bytes;
        let mut telemetry = Telemetry::default();
        telemetry.push(HopTelemetry {
            at: self.now,
            tx_bytes: self.tx_bytes,
            queue_bytes,
            speed_mbps: (self.link.line_bps / 1_000_000) as u32,
        });
        let marked = self.mark(queue_bytes);
        self.departing = Some((flow, sent_at, marked, telemetry));
        self.schedule(
            self.now.saturating_add(self.link.packet_time()),
            Event::Departure,
            flow,
        );
    }

    fn depart(&mut self) {
        let Some((flow, sent_at, marked, telemetry)) = self.departing.take() else {
            return;
        };
        let back = self.now.saturating_add(self.link.rtt - self.link.packet_time());
        let receiver = &mut self.flows[flow];
        let echoed = marked && self.feedback == CongestionFeedback::AckEcho;
        receiver.answers.push_back((sent_at, echoed, telemetry));
        let mut notify = false;
        if let CongestionFeedback::Cnp { interval } = self.feedback {
            notify = marked
                && receiver
                    .last_notification
                    .is_none_or(|last| self.now.since(last) >= interval);
            if notify {
                receiver.last_notification = Some(self.now);
            }
        }
        if self.now > self.half {
            receiver.delivered += self.link.packet_bytes;
        }
        if notify {
            self.schedule(back, Event::Notification, flow);
        }
        self.schedule(back, Event::Acknowledgement, flow);
        self.transmit();
    }

    fn mark(&mut self, queue_bytes: u64) -> bool {
        match self.link.marking {
            Marking::Step(threshold) => queue_bytes > threshold,
            Marking::Red {
                min,
                max,
                probability,
            } => {
                let draw = self.random_unit();
                let depth = queue_bytes.saturating_sub(min) as f64 / (max - min) as f64;
                queue_bytes > max || draw < depth * probability
            }
        }
    }

    fn acknowledge(&mut self, flow: usize) {
        let sender = &mut self.flows[flow];
        let (sent_at, marked, telemetry) = sender.answers.pop_front().unwrap();
        sender.acked += self.link.packet_bytes;
        if sender.left == 0 && sender.acked == sender.sent {
            sender.finished = self.now;
        }
        let ack = Ack {
            acked_bytes: self.link.packet_bytes,
            inflight_bytes: sender.sent - sender.acked,
            acked_total: sender.acked,
            sent_total: sender.sent,
            rtt: Some(self.now - sent_at),
            marked,
            telemetry: sender.control.telemetry_format().map(|_| &telemetry),
        };
        sender.control.on_ack(self.now, &ack);
        self.schedule_send(flow);
    }

    /// Adds the queue length since the last change to the average.
    fn count_queue(&mut self) {
        if self.now <= self.half {
            return;
        }
        let bytes = self.queue.len() as u64 * self.link.packet_bytes;
        self.queue_area += bytes as f64 * (self.now - self.queue_since).0 as f64;
        self.queue_since = self.now;
        self.queue_max = self.queue_max.max(bytes);
    }
}
