//! The RDMA endpoint: all queue pairs of one host.

use hashbrown::HashTable;
use xoff_units::{Picos, prefetch};
use xoff_wire::bth::MASK_24;

use super::class_queues::CLASS_COUNT;
use super::config::{QpConfig, QpIndex};
use super::congestion::CongestionControl;
use super::counters::Counters;
use super::packet::Packet;
use super::queue_pair::QueuePair;
use super::state::EndpointState;
use super::telemetry::Telemetry;
use super::work::{ArrivalInfo, Completion, OutgoingPacket, PostError, WorkRequest};

/// Largest number of telemetry boxes that an endpoint keeps for reuse.
const SPARE_TELEMETRY_MAX: usize = 1024;

/// All queue pairs of one host. The host uses an endpoint as follows:
///
/// - It passes arriving packets to [`receive`](Endpoint::receive) and work requests
///   to [`post`](Endpoint::post).
/// - It takes the next packet of a NIC class with [`pop_packet`](Endpoint::pop_packet) when two conditions
///   hold: its link is free, and the time in [`earliest_departures`](Endpoint::earliest_departures) has
///   been reached.
/// - It takes the finished requests from [`completions`](Endpoint::completions).
/// - It calls [`advance`](Endpoint::advance) at the time of [`next_deadline`](Endpoint::next_deadline).
///
/// Calls with an argument `now` get the current model time, which must never decrease. Departure times and
/// deadline can change with every such call, so the host reads them again after each of these calls.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Endpoint {
    queue_pairs: Vec<QueuePair>,
    /// Queue pairs that have received packets, each at the place that follows from its number. Most hosts receive
    /// packets for few queue pairs, and find them here without a look-up in the table.
    recent: [RecentQueuePair; RECENT_QUEUE_PAIRS],
    /// The first 64 queue pairs to which messages have been posted. Bit *n* is the queue pair with index *n*.
    senders: u64,
    shared: EndpointState,
    by_number: HashTable<u32>,
    unknown_qp: u64,
}

/// Largest number of senders that are fetched before it is known which of them sends the next packet.
const PREFETCHED_SENDERS_MAX: u32 = 2;
/// Number of queue pairs that an endpoint finds by number without a look-up in its table.
const RECENT_QUEUE_PAIRS: usize = 4;

/// A queue pair that has received a packet.
#[derive(Clone, Copy, Debug)]
struct RecentQueuePair {
    number: u32,
    index: u32,
}

impl Default for RecentQueuePair {
    fn default() -> RecentQueuePair {
        // No queue pair has this number, because numbers have 24 bits.
        RecentQueuePair {
            number: u32::MAX,
            index: 0,
        }
    }
}

/// Hashes a queue pair number by multiplication with the golden ratio. The hash is equal on every machine.
#[inline]
fn hash_qp_number(number: u32) -> u64 {
    let product = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

impl Endpoint {
    /// Creates an endpoint without queue pairs.
    pub fn new() -> Endpoint {
        Endpoint::default()
    }

    /// Creates a queue pair that is ready to send, and returns its index. If a value of `config` is outside
    /// its range, the nearest limit of the range is used. If several queue pairs have the same number, the
    /// newest of these queue pairs receives the arriving packets.
    pub fn create_queue_pair(&mut self, config: QpConfig, congestion: Box<dyn CongestionControl>) -> QpIndex {
        let index = u32::try_from(self.queue_pairs.len()).unwrap_or(u32::MAX);
        let config = config.clamped();
        let Endpoint {
            queue_pairs,
            by_number,
            ..
        } = self;
        let number = config.number;
        let number_of = |index: u32| queue_pairs.get(index as usize).map(|qp| qp.config.number);
        match by_number.find_mut(hash_qp_number(number), |index| number_of(*index) == Some(number)) {
            Some(existing) => *existing = index,
            None => {
                by_number.insert_unique(hash_qp_number(number), index, |index| {
                    hash_qp_number(number_of(*index).unwrap_or(number))
                });
            }
        }
        self.recent = Default::default();
        self.shared.reordering_qps += u32::from(config.reorders());
        let mut queue_pair = QueuePair::new(QpIndex(index), config, congestion);
        queue_pair.updates_departure |= self.shared.classes.uses_round_robin();
        queue_pair.update_can_complete_messages(&mut self.shared);
        // Without this, the first queue pair would reserve memory for four, and most hosts have two.
        if self.queue_pairs.len() == self.queue_pairs.capacity() {
            self.queue_pairs.reserve_exact(self.queue_pairs.len().max(1));
        }
        self.queue_pairs.push(queue_pair);
        QpIndex(index)
    }

    /// From now on, selects the queue pairs of a class round robin, in the order of their creation, as the
    /// ns-3 RDMA models do. By default, the queue pair with the earliest departure time sends first. Must be
    /// called before the first queue pair is created.
    pub fn enable_round_robin(&mut self) {
        self.shared.classes.enable_round_robin();
    }

    /// Tells the endpoint that an event starts at `now`: a frame arrives or a message is
    /// posted. The host calls this method before it processes the event. Needed only with
    /// [round robin](Endpoint::enable_round_robin).
    pub fn begin_event(&mut self, now: Picos) {
        self.shared.classes.begin_event(now);
    }

    /// Tells the endpoint that the event at `now` has ended. The host calls this method after it has
    /// processed the event. Needed only with [round robin](Endpoint::enable_round_robin).
    pub fn end_event(&mut self, now: Picos) {
        self.shared.classes.end_event(now);
    }

    /// Tells the endpoint that a packet starts to leave and that the link is free again at `free`. Needed
    /// only with [round robin](Endpoint::enable_round_robin).
    pub fn set_link_free_at(&mut self, free: Picos) {
        self.shared.classes.on_packet_sent(free);
    }

    /// Returns the number of queue pairs. Their indices are 0 to the number minus 1.
    pub fn len(&self) -> usize {
        self.queue_pairs.len()
    }

    /// Returns whether the endpoint has no queue pairs.
    pub fn is_empty(&self) -> bool {
        self.queue_pairs.is_empty()
    }

    /// Returns the configuration of a queue pair, with all values limited to their ranges. Returns `None` if
    /// the queue pair does not exist.
    pub fn config(&self, qp: QpIndex) -> Option<&QpConfig> {
        self.queue_pairs.get(qp.0 as usize).map(|qp| &qp.config)
    }

    /// Queues a message for transmission. The messages of a queue pair are sent and completed in the order in
    /// which they are posted.
    ///
    /// # Errors
    /// Returns an error if the queue pair does not exist or cannot accept the request (see [`PostError`]).
    pub fn post(&mut self, now: Picos, qp: QpIndex, request: WorkRequest) -> Result<(), PostError> {
        let queue_pair = self
            .queue_pairs
            .get_mut(qp.0 as usize)
            .ok_or(PostError::NoSuchQp)?;
        self.senders |= 1_u64.checked_shl(qp.0).unwrap_or(0);
        queue_pair.post(now, &mut self.shared, &request)
    }

    /// Adds `count` receive entries to a queue pair with [`super::ReceiveQueue::Posted`]. Each arriving SEND
    /// message uses one entry. The call has no effect if the queue pair does not exist, or if its receive
    /// queue is unlimited.
    pub fn post_receives(&mut self, _now: Picos, qp: QpIndex, count: u32) {
        if let Some(queue_pair) = self.queue_pairs.get_mut(qp.0 as usize) {
            queue_pair.post_receives(count);
        }
    }

    /// Processes an arriving packet. Returns `false` if its destination queue pair does not exist. The caller
    /// counts such a packet with [`count_unknown_packet`](Endpoint::count_unknown_packet), unless the packet
    /// belongs to something else, such as a flow without queue pairs.
    #[inline]
    pub fn receive(&mut self, now: Picos, packet: &Packet, arrival: ArrivalInfo<'_>) -> bool {
        let number = packet.dst_qp & MASK_24;
        let recent = self.recent[number as usize % RECENT_QUEUE_PAIRS];
        let index = match recent.number == number {
            true => Some(recent.index),
            false => self.find_queue_pair(number),
        };
        let Some(queue_pair) = index.and_then(|index| self.queue_pairs.get_mut(index as usize)) else {
            return false;
        };
        queue_pair.receive(now, &mut self.shared, packet, &arrival);
        true
    }

    /// Looks up the index of a queue pair in the table, for this packet and the next ones.
    #[inline(never)]
    fn find_queue_pair(&mut self, number: u32) -> Option<u32> {
        let queue_pairs = &self.queue_pairs;
        let has_number = |index: &u32| {
            let queue_pair = queue_pairs.get(*index as usize);
            queue_pair.is_some_and(|queue_pair| queue_pair.config.number == number)
        };
        let index = *self.by_number.find(hash_qp_number(number), has_number)?;
        self.recent[number as usize % RECENT_QUEUE_PAIRS] = RecentQueuePair { number, index };
        Some(index)
    }

    /// Fetches the memory that nearly every call uses, without waiting for it. The other `prefetch` methods read this
    /// memory, so they should be called later.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.queue_pairs);
        prefetch(&self.shared);
        prefetch(&self.shared.completions);
        prefetch(self.shared.classes.earliest_departures());
    }

    /// Fetches the memory of the queue pair with this number, without waiting for it. The queue pair will receive a
    /// request, or an acknowledgement of its own requests if `is_acknowledge` is true. Returns its index, or `None` if
    /// finding it would need a look-up in a table.
    #[inline]
    pub fn prefetch_receiver(&self, number: u32, is_acknowledge: bool) -> Option<QpIndex> {
        let recent = self.recent[number as usize % RECENT_QUEUE_PAIRS];
        if recent.number != number {
            return None;
        }
        let queue_pair = self.queue_pairs.get(recent.index as usize)?;
        match is_acknowledge {
            true => queue_pair.prefetch_requester(),
            false => queue_pair.prefetch_responder(),
        }
        self.shared.classes.prefetch_latest_classes();
        Some(QpIndex(recent.index))
    }

    /// Calls `fetch` with the index of each queue pair to which messages have been posted, if the endpoint has few such
    /// queue pairs. One of them will send the next packet.
    #[inline]
    fn for_senders(&self, mut fetch: impl FnMut(QpIndex, &QueuePair)) {
        if self.senders.count_ones() > PREFETCHED_SENDERS_MAX {
            return;
        }
        let mut left = self.senders;
        while left != 0 {
            let index = left.trailing_zeros();
            if let Some(queue_pair) = self.queue_pairs.get(index as usize) {
                fetch(QpIndex(index), queue_pair);
            }
            left &= left - 1;
        }
    }

    /// Fetches the memory of the queue pairs that can send the next packet, without waiting for it, if they are few.
    /// Calls `fetch` with the index of each of them.
    #[inline]
    pub fn prefetch_senders(&self, mut fetch: impl FnMut(QpIndex)) {
        self.for_senders(|index, queue_pair| {
            queue_pair.prefetch_requester();
            fetch(index);
        });
        self.shared.classes.prefetch_latest_classes();
    }

    /// Fetches the congestion controllers of the queue pairs that can send the next packet, without waiting for them.
    /// Reads the memory that [`prefetch_senders`](Endpoint::prefetch_senders) has fetched.
    #[inline]
    pub fn prefetch_controllers(&self) {
        self.for_senders(|_, queue_pair| queue_pair.congestion().prefetch());
    }

    /// Counts a packet for a queue pair that does not exist in [`Counters::rx_unknown_qp`].
    pub fn count_unknown_packet(&mut self) {
        self.unknown_qp += 1;
    }

    /// Returns the earliest departure time of the next packet of each NIC class. The time can be in the past.
    /// A class without packets has [`Picos::NEVER`].
    #[inline]
    pub fn earliest_departures(&self) -> &[Picos; CLASS_COUNT] {
        self.shared.classes.earliest_departures()
    }

    /// Returns the NIC classes that have a packet to send, now or later. Bit *n* stands for class *n*. The
    /// departure times are in [`earliest_departures`](Endpoint::earliest_departures).
    #[inline]
    pub fn waiting_classes(&self) -> u8 {
        self.shared.classes.waiting_classes()
    }

    /// Takes the next packet of a class, 0 to 7. The packet starts to leave at `now`.
    ///
    /// Returns `None` if `class` is above 7, and before the time in
    /// [`earliest_departures`](Endpoint::earliest_departures). The result can also be `None` after this time,
    /// if an acknowledgement has made a retransmission unnecessary.
    #[inline]
    pub fn pop_packet(&mut self, now: Picos, class: u8) -> Option<OutgoingPacket> {
        if usize::from(class) >= CLASS_COUNT {
            return None;
        }
        if let Some(unpaced) = self.shared.classes.pop_unpaced(class) {
            let queue_pair = self.queue_pairs.get_mut(unpaced.qp.0 as usize)?;
            queue_pair.counters.tx_packets += 1;
            return Some(OutgoingPacket {
                qp: unpaced.qp,
                packet: unpaced.to_packet(queue_pair.config.peer),
                telemetry: unpaced.telemetry,
                collects: None,
            });
        }
        while let Some(index) = self.shared.classes.pop(class, now) {
            let queue_pair = self.queue_pairs.get_mut(index as usize)?;
            if let Some((packet, collects)) = queue_pair.pop_packet(now, &mut self.shared) {
                queue_pair.counters.tx_packets += 1;
                queue_pair.counters.tx_bytes += u64::from(packet.payload_len);
                return Some(OutgoingPacket {
                    qp: QpIndex(index),
                    packet,
                    telemetry: None,
                    collects,
                });
            }
        }
        None
    }

    /// Processes the timers that are due: retransmission, RNR wait, reordering time and congestion control.
    pub fn advance(&mut self, now: Picos) {
        while let Some((at, index)) = self.shared.timers.pop(now) {
            let Some(queue_pair) = self.queue_pairs.get_mut(index as usize) else {
                continue;
            };
            if queue_pair.armed == at {
                queue_pair.armed = Picos::NEVER;
                queue_pair.process_timers(now, &mut self.shared);
            }
        }
    }

    /// Returns the time at which [`advance`](Endpoint::advance) must be called next. Returns [`Picos::NEVER`]
    /// if no timer runs. If a timer has moved to a later time, the result can still be its old time. A call
    /// of `advance` at the old time has no effect.
    pub fn next_deadline(&self) -> Picos {
        self.shared.timers.next()
    }

    /// Removes and returns the completions since the previous call, oldest first. If the caller drops the
    /// iterator early, the next call returns the remaining completions.
    #[inline]
    pub fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.shared.completions.drain()
    }

    /// Returns the completions that [`completions`](Endpoint::completions) would remove, oldest first.
    pub fn pending_completions(&self) -> impl DoubleEndedIterator<Item = &Completion> {
        self.shared.completions.iter()
    }

    /// Returns whether [`completions`](Endpoint::completions) would return a completion.
    #[inline]
    pub fn has_completions(&self) -> bool {
        !self.shared.completions.is_empty()
    }

    /// Returns whether it is certain that no completion occurs before `until`.
    ///
    /// The method assumes that all packets that arrive before `until` satisfy [`Packet::completes_no_message`].
    /// `false` means that a completion is possible.
    #[inline]
    pub fn completes_no_message_before(&self, until: Picos) -> bool {
        self.shared.completing_qps == 0 && self.shared.timers.next() >= until
    }

    /// Returns whether only the last packet of a message completes it at the receiver. `false` means that a queue pair
    /// stores packets behind a gap, so that any packet can complete messages. The payload of a READ is received by
    /// the host that posted it.
    #[inline]
    pub fn receives_messages_in_order(&self) -> bool {
        self.shared.reordering_qps == 0
    }

    /// Takes back the telemetry box of an [`OutgoingPacket`] for reuse. A later acknowledgement then needs no
    /// new allocation.
    pub fn recycle(&mut self, telemetry: Box<Telemetry>) {
        if self.shared.spare.len() < SPARE_TELEMETRY_MAX {
            self.shared.spare.push(telemetry);
        }
    }

    /// Returns the number of local ACK timeouts of all queue pairs.
    pub fn timeouts(&self) -> u64 {
        self.shared.timeouts
    }

    /// Returns the number of packets that all queue pairs have retransmitted.
    pub fn retransmitted_packets(&self) -> u64 {
        self.shared.retransmitted_packets
    }

    /// Returns the sums of the counters of all queue pairs, and in [`Counters::rx_unknown_qp`] the number of
    /// packets for queue pairs that do not exist.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters {
            rx_unknown_qp: self.unknown_qp,
            ..Counters::default()
        };
        self.queue_pairs.iter().for_each(|qp| sum.add(&qp.counters));
        sum
    }

    /// Returns the counters of one queue pair. Returns `None` if the queue pair does not exist.
    pub fn qp_counters(&self, qp: QpIndex) -> Option<&Counters> {
        self.queue_pairs.get(qp.0 as usize).map(|qp| &qp.counters)
    }

    /// Returns the congestion controller of one queue pair. Returns `None` if the queue pair does not exist.
    pub fn congestion(&self, qp: QpIndex) -> Option<&dyn CongestionControl> {
        self.queue_pairs.get(qp.0 as usize).map(QueuePair::congestion)
    }
}
