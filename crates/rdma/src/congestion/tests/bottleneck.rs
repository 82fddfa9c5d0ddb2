//! Flows that share one link: a small packet-level network to see controllers converge in.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_units::Picos;

use super::super::{Ack, Choice, CongestionControl, Context, Feedback};
use crate::{HopTelemetry, Telemetry};

/// Round trip without queueing, unless a link says otherwise.
pub(super) const RTT: Picos = Picos::from_micros(10);
/// Length of packets, unless a link says otherwise; all of it is payload.
pub(super) const PACKET_BYTES: u64 = 1000;
/// How the shared link marks, by the bytes that remain behind the departing packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Marking {
    /// Beyond so many bytes.
    Step(u64),
    /// Random between two lengths, with this probability at the upper one; always beyond.
    Red { min: u64, max: u64, probability: f64 },
}

/// Speed of the hosts' links and of the shared one, and how that marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) line_bps: u64,
    pub(super) rtt: Picos,
    pub(super) packet_bytes: u64,
    pub(super) marking: Marking,
}

impl Link {
    /// With [`RTT`] and [`PACKET_BYTES`].
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

/// What came out, over the second half of the time.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    line_bps: u64,
    /// Bits per second of each flow.
    pub(super) goodput_bps: Vec<f64>,
    /// Queue in bytes, averaged over time.
    pub(super) queue_mean: f64,
    /// Longest queue, bytes.
    pub(super) queue_max: u64,
    /// When each flow's last packet was acknowledged, at any time.
    pub(super) finished: Vec<Picos>,
}

impl Outcome {
    /// Share of the link that carried something.
    pub(super) fn utilisation(&self) -> f64 {
        self.goodput_bps.iter().sum::<f64>() / self.line_bps as f64
    }

    /// The smallest flow's rate over the largest's.
    pub(super) fn balance(&self) -> f64 {
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
    /// Bytes not yet sent.
    left: u64,
    sent: u64,
    acked: u64,
    finished: Picos,
    /// Sending time, mark and telemetry of packets whose acknowledgement is on its way.
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
    /// The one on it, with its mark and what the link says of itself.
    departing: Option<(usize, Picos, bool, Telemetry)>,
    feedback: Feedback,
    link: Link,
    random: u64,
    tx_bytes: u64,
    queue_area: f64,
    queue_since: Picos,
    queue_max: u64,
}

/// Runs flows of one choice, which start at these times and send for all of `length`.
pub(super) fn run(choice: &Choice, link: Link, starts: &[Picos], length: Picos) -> Outcome {
    run_messages(choice, link, starts, u64::MAX, length)
}

/// Runs flows of so many bytes, whole packets.
pub(super) fn run_messages(
    choice: &Choice,
    link: Link,
    starts: &[Picos],
    bytes: u64,
    length: Picos,
) -> Outcome {
    let context = Context {
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
        feedback: choice.feedback(),
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
    Outcome {
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

    /// Up to half a packet's time late, for hosts in step see the queue at the same moment of each period, and then some
    /// divisions of the link hold that no network would.
    fn schedule_send(&mut self, flow: usize) {
        if !self.flows[flow].send_scheduled {
            self.flows[flow].send_scheduled = true;
            let late = Picos((self.draw() * self.link.packet_time().0 as f64 / 2.0) as u64);
            let at = self.flows[flow].due.max(self.now).saturating_add(late);
            self.schedule(at, Event::Send, flow);
        }
    }

    /// From 0 up to 1 (SplitMix64).
    fn draw(&mut self) -> f64 {
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
            Event::Notification => self.flows[flow].control.notified(self.now),
            Event::Deadline => {
                self.flows[flow].deadline = Picos::NEVER;
                if self.flows[flow].control.next_deadline() <= self.now {
                    self.flows[flow].control.expire(self.now);
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
            // An acknowledgement comes back here.
            return;
        }
        sender.left -= self.link.packet_bytes;
        sender.sent += self.link.packet_bytes;
        sender.control.sent(now, self.link.packet_bytes as u32);
        let gap = self.link.packet_bytes as f64 * 8e12 / sender.control.rate_bps() as f64;
        // Lateness is made up for, within a packet's time.
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

    /// Takes the next packet from the queue. Switches look at what remains at this moment, not when it has left.
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
        let echoed = marked && self.feedback == Feedback::AckEcho;
        receiver.answers.push_back((sent_at, echoed, telemetry));
        let mut notify = false;
        if let Feedback::Cnp { interval } = self.feedback {
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
                let draw = self.draw();
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
        sender.control.acknowledged(self.now, &ack);
        self.schedule_send(flow);
    }

    /// Adds the queue up to now to its average.
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
