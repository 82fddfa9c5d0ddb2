//! All queue pairs of one host.

use hashbrown::HashTable;
use xoff_units::Picos;
use xoff_wire::bth::MASK_24;

use super::config::{QpConfig, QpIndex};
use super::congestion::CongestionControl;
use super::counters::Counters;
use super::packet::Packet;
use super::queue_pair::QueuePair;
use super::ready::CLASSES;
use super::shared::Shared;
use super::telemetry::Telemetry;
use super::work::{Arrival, Completion, Outgoing, PostError, WorkRequest};

/// Boxes for telemetry that are kept for reuse.
const SPARE_MAX: usize = 1024;

/// All queue pairs of one host.
///
/// Its owner
///
/// - hands in arriving packets ([`receive`](Endpoint::receive)) and work requests ([`post`](Endpoint::post)),
/// - takes packets out ([`pop`](Endpoint::pop)) when the link is free for a class and [`earliest`](Endpoint::earliest) has come,
/// - calls [`advance`](Endpoint::advance) when [`next_deadline`](Endpoint::next_deadline) has come,
///
/// each with the model time, which never goes backwards. Both times may have changed after every call.
#[derive(Debug, Default)]
pub struct Endpoint {
    queue_pairs: Vec<QueuePair>,
    by_number: HashTable<u32>,
    shared: Shared,
    unknown_qp: u64,
}

/// Spreads numbers over the table, the same on every machine: the product with the golden ratio.
#[inline]
fn hash(number: u32) -> u64 {
    let product = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

impl Endpoint {
    /// One without queue pairs.
    pub fn new() -> Endpoint {
        Endpoint::default()
    }

    /// Creates a queue pair, ready to send. Of several with one number, packets reach the newest.
    pub fn create(&mut self, config: QpConfig, congestion: Box<dyn CongestionControl>) -> QpIndex {
        let at = u32::try_from(self.queue_pairs.len()).unwrap_or(u32::MAX);
        let config = config.clamped();
        let Endpoint {
            queue_pairs,
            by_number,
            ..
        } = self;
        let number = config.number;
        let of = |index: u32| queue_pairs.get(index as usize).map(|qp| qp.config.number);
        match by_number.find_mut(hash(number), |index| of(*index) == Some(number)) {
            Some(index) => *index = at,
            None => {
                by_number.insert_unique(hash(number), at, |index| hash(of(*index).unwrap_or(number)));
            }
        }
        let mut queue_pair = QueuePair::new(QpIndex(at), config, congestion);
        queue_pair.is_reconsidered |= self.shared.classes.takes_turns();
        queue_pair.note_completing(&mut self.shared);
        self.queue_pairs.push(queue_pair);
        QpIndex(at)
    }

    /// Queue pairs of a class that may send take turns in the order of their creation, as in the ns-3 RDMA models, instead of by
    /// how long each has waited. Called before the first is created.
    pub fn take_turns(&mut self) {
        self.shared.classes.take_turns();
    }

    /// Where queue pairs [take turns](Endpoint::take_turns): a frame arrives or a message is posted at `now`. Called before the endpoint has it.
    pub fn begin_event(&mut self, now: Picos) {
        self.shared.classes.begin_event(now);
    }

    /// Where queue pairs [take turns](Endpoint::take_turns): the endpoint has what happened at `now`.
    pub fn end_event(&mut self, now: Picos) {
        self.shared.classes.end_event(now);
    }

    /// Where queue pairs [take turns](Endpoint::take_turns): a packet leaves, and the link is free again at `free`.
    pub fn link_free_at(&mut self, free: Picos) {
        self.shared.classes.sent(free);
    }

    /// How many queue pairs it has.
    pub fn len(&self) -> usize {
        self.queue_pairs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.queue_pairs.is_empty()
    }

    /// Configuration of a queue pair, as it was taken.
    pub fn config(&self, qp: QpIndex) -> Option<&QpConfig> {
        self.queue_pairs.get(qp.0 as usize).map(|qp| &qp.config)
    }

    /// Queues a message. Messages of a queue pair go, and complete, in the order in which they are posted.
    pub fn post(&mut self, now: Picos, qp: QpIndex, request: WorkRequest) -> Result<(), PostError> {
        let queue_pair = self
            .queue_pairs
            .get_mut(qp.0 as usize)
            .ok_or(PostError::NoSuchQp)?;
        queue_pair.post(now, &mut self.shared, &request)
    }

    /// Adds receive entries, each good for one arriving SEND ([`super::ReceiveQueue::Posted`]).
    pub fn post_receives(&mut self, _now: Picos, qp: QpIndex, count: u32) {
        if let Some(queue_pair) = self.queue_pairs.get_mut(qp.0 as usize) {
            queue_pair.post_receives(count);
        }
    }

    /// A packet arrives. False if its queue pair does not exist.
    #[inline]
    pub fn receive(&mut self, now: Picos, packet: &Packet, arrival: Arrival<'_>) -> bool {
        let number = packet.dst_qp & MASK_24;
        let queue_pairs = &self.queue_pairs;
        let found = self.by_number.find(hash(number), |index| {
            queue_pairs
                .get(*index as usize)
                .is_some_and(|qp| qp.config.number == number)
        });
        let Some(queue_pair) = found.and_then(|index| self.queue_pairs.get_mut(*index as usize)) else {
            self.unknown_qp += 1;
            return false;
        };
        queue_pair.receive(now, &mut self.shared, packet, &arrival);
        true
    }

    /// Per NIC class: when its next packet may leave at the earliest, perhaps in the past; [`Picos::NEVER`] if it has none.
    #[inline]
    pub fn earliest(&self) -> &[Picos; CLASSES] {
        self.shared.classes.earliest()
    }

    /// Bit *n*: class *n* has a packet, so that [`earliest`](Endpoint::earliest) says when. Nearly always one or two have.
    #[inline]
    pub fn waiting(&self) -> u8 {
        self.shared.classes.waiting()
    }

    /// The next packet of a class, which begins to leave now. `None` before [`earliest`](Endpoint::earliest); rarely also then,
    /// where an acknowledgement has made needless what was to be repeated.
    #[inline]
    pub fn pop(&mut self, now: Picos, class: u8) -> Option<Outgoing> {
        if usize::from(class) >= CLASSES {
            return None;
        }
        if let Some(finished) = self.shared.classes.pop_finished(class) {
            let queue_pair = self.queue_pairs.get_mut(finished.qp.0 as usize)?;
            queue_pair.counters.tx_packets += 1;
            return Some(Outgoing {
                qp: finished.qp,
                packet: finished.packet(queue_pair.config.peer),
                telemetry: finished.telemetry,
                collects: None,
            });
        }
        while let Some(index) = self.shared.classes.pop(class, now) {
            let queue_pair = self.queue_pairs.get_mut(index as usize)?;
            if let Some((packet, collects)) = queue_pair.pop(now, &mut self.shared) {
                queue_pair.counters.tx_packets += 1;
                queue_pair.counters.tx_bytes += u64::from(packet.payload_len);
                return Some(Outgoing {
                    qp: QpIndex(index),
                    packet,
                    telemetry: None,
                    collects,
                });
            }
        }
        None
    }

    /// Fires the timers that are due: retransmission, RNR, tolerated gaps, congestion control.
    pub fn advance(&mut self, now: Picos) {
        while let Some((at, index)) = self.shared.timers.pop(now) {
            let Some(queue_pair) = self.queue_pairs.get_mut(index as usize) else {
                continue;
            };
            if queue_pair.armed == at {
                queue_pair.armed = Picos::NEVER;
                queue_pair.expire(now, &mut self.shared);
            }
        }
    }

    /// When [`advance`](Endpoint::advance) is to be called next; [`Picos::NEVER`] if at no time. A timer that has been moved to
    /// a later time may still show here at its old one.
    pub fn next_deadline(&self) -> Picos {
        self.shared.timers.next()
    }

    /// Takes out what has been completed since the last call, oldest first.
    pub fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.shared.completions.drain(..)
    }

    /// Whether [`completions`](Endpoint::completions) has something.
    #[inline]
    pub fn has_completions(&self) -> bool {
        !self.shared.completions.is_empty()
    }

    /// Whether nothing completes before `until` by time alone, by what is sent until then, or by packets that
    /// [complete nothing](Packet::completes_nothing) and answer what has been sent by now. `false` does not say that something will.
    #[inline]
    pub fn completes_nothing_before(&self, until: Picos) -> bool {
        self.shared.completing == 0 && self.shared.timers.next() >= until
    }

    /// Gives back the box of an [`Outgoing`], so that the next acknowledgement need not allocate one.
    pub fn recycle(&mut self, telemetry: Box<Telemetry>) {
        if self.shared.spare.len() < SPARE_MAX {
            self.shared.spare.push(telemetry);
        }
    }

    /// Local ACK timeouts of all queue pairs.
    pub fn timeouts(&self) -> u64 {
        self.shared.timeouts
    }

    /// Packets sent again by all queue pairs.
    pub fn retransmitted_packets(&self) -> u64 {
        self.shared.repeats
    }

    /// The sums over all queue pairs.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters {
            rx_unknown_qp: self.unknown_qp,
            ..Counters::default()
        };
        self.queue_pairs.iter().for_each(|qp| sum.add(&qp.counters));
        sum
    }

    /// Counters of one queue pair.
    pub fn qp_counters(&self, qp: QpIndex) -> Option<&Counters> {
        self.queue_pairs.get(qp.0 as usize).map(|qp| &qp.counters)
    }

    /// Congestion control of one queue pair.
    pub fn congestion(&self, qp: QpIndex) -> Option<&dyn CongestionControl> {
        self.queue_pairs.get(qp.0 as usize).map(QueuePair::congestion)
    }
}
