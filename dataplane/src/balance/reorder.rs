//! Counts packets of queue pairs that arrive out of order.
//!
//! Requests and responses of a queue pair have separate packet sequence numbers (PSN). The switch treats them
//! as two independent *streams*. For each stream, the switch stores the highest received PSN (24-bit serial
//! arithmetic) and a bitmap of the 512 numbers below it.
//!
//! | PSN of the packet | the packet counts as |
//! |---|---|
//! | above the highest PSN | in order. A gap may be filled later: by late packets, by repeated packets, or never if the numbers belong to READ responses |
//! | below, not received before | out of order. The *extent* is the distance to the highest PSN (RFC 4737, with sequence numbers instead of positions) |
//! | below, received before | repeated: the sender sent the packet again |
//! | below, not received, and the next packet repeats the number that follows | repeated: a sender with go-back-N repeats lost and received packets in sequence |
//! | equal to the highest PSN | repeated. Acknowledgements may use a number several times and do not count |
//! | more than 512 below | repeated. The bitmap does not cover these numbers |
//! | more than 65536 below | in order: another connection uses the queue pair number |
//!
//! Suppose that a packet was lost before this switch, and the sender repeats only this packet (selective
//! repeat). The switch then counts the repeated packet as out of order, because it cannot distinguish a late
//! retransmission from reordering.
//!
//! Datagrams, CNPs and NAKs are not counted. The sequence numbers of datagrams come from many senders, CNPs
//! have no sequence number, and the number in a NAK is the number of the missing packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::flow_map::FlowMap;
use super::packet::{QueuePair, queue_pair};
use xoff_units::Picos;
use xoff_wire::bth::{self, MASK_24};
use xoff_wire::parse::Payload;
use xoff_wire::{IPV4_LEN, IPV6_LEN, UDP_LEN};

/// Number of sequence numbers below the highest number that the bitmap covers.
const BITMAP_PACKETS: u32 = 512;

/// A sequence number that is this far below the highest number belongs to a new connection.
const RESTART_DISTANCE: u32 = 1 << 16;

/// If the table is full, a new stream may replace a stream that was idle for this time.
const EVICT_AFTER: Picos = Picos::from_millis(1_000);

/// Number of streams that are checked for replacement when a new stream finds the table full.
const EVICTION_CHECKS: usize = 4;

/// Packet counters of one stream, or of all streams together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderCounts {
    /// Number of all packets.
    pub packets: u64,
    /// Number of packets that arrived after a packet with a higher sequence number and are not counted in
    /// `repeated` (RFC 4737: reordered packets). A packet that was lost before the switch and repeated alone
    /// also counts.
    pub out_of_order: u64,
    /// Number of packets that had already arrived before, or that the sender repeated by go-back-N. Packets
    /// more than 512 numbers below the highest number also count, because the switch does not store whether
    /// they had arrived.
    pub repeated: u64,
    /// Largest distance between the sequence number of an out-of-order packet and the highest number (RFC
    /// 4737: reordering extent). 0 if no packet was out of order.
    pub extent_max: u32,
}

/// Snapshot of a stream, for `show` commands: the requests or the responses to one queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// IP address of the sender.
    pub source: IpAddr,
    /// IP address of the receiver.
    pub destination: IpAddr,
    /// Number of the receiver's queue pair, 24 bits.
    pub destination_qp: u32,
    /// True for READ responses and acknowledgements, false for requests.
    pub responses: bool,
    /// Counters of the stream.
    pub counts: ReorderCounts,
}

/// Snapshot of the packet order at a switch ([`Switch::reordering`](crate::Switch::reordering)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReorderingView {
    /// Sum over all streams, including streams that were replaced in the table.
    pub total: ReorderCounts,
    /// Number of packets whose stream found no free entry in the table.
    pub untracked_packets: u64,
    /// Largest number of streams that fit into the table.
    pub streams_max: u32,
    /// The streams in the table, in the order of their entries.
    pub streams: Vec<StreamView>,
}

/// Late packets of a stream. Only the next packet shows whether these packets are out of order or repeated.
#[derive(Clone, Copy, Debug, Default)]
struct LatePackets {
    packets: u32,
    /// The sequence number after the last late packet.
    next: u32,
    extent: u32,
}

/// State of a stream.
#[derive(Clone, Debug)]
struct PacketStream {
    key: u64,
    source: IpAddr,
    destination: IpAddr,
    destination_qp: u32,
    responses: bool,
    seen: Picos,
    highest: u32,
    /// A bitmap with one bit for each sequence number of the window. The bit of number `n` is at position `n`
    /// modulo the window size.
    received: [u64; (BITMAP_PACKETS / 64) as usize],
    late: LatePackets,
    counts: ReorderCounts,
}

impl PacketStream {
    /// Restarts the stream at this number.
    fn restart_at(&mut self, psn: u32) {
        (self.highest, self.received) = (psn, [0; (BITMAP_PACKETS / 64) as usize]);
        self.mark_received(psn);
    }

    /// Marks a number as received.
    fn mark_received(&mut self, psn: u32) {
        let bit = psn % BITMAP_PACKETS;
        self.received[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    /// Returns true if a number of the window was received.
    fn is_received(&self, psn: u32) -> bool {
        let bit = psn % BITMAP_PACKETS;
        self.received[(bit / 64) as usize] & 1 << (bit % 64) != 0
    }

    /// Moves the window up by `distance` sequence numbers, to `psn`.
    fn advance_window(&mut self, psn: u32, distance: u32) {
        if distance >= BITMAP_PACKETS {
            self.received = [0; (BITMAP_PACKETS / 64) as usize];
        } else {
            for number in self.highest + 1..self.highest + distance {
                let bit = number % BITMAP_PACKETS;
                self.received[(bit / 64) as usize] &= !(1 << (bit % 64));
            }
        }
        self.highest = psn;
        self.mark_received(psn);
    }

    /// Counts a received packet. `acknowledges` is true for acknowledgements, whose numbers may repeat.
    fn count_packet(&mut self, psn: u32, acknowledges: bool) {
        self.counts.packets += 1;
        let ahead = psn.wrapping_sub(self.highest) & MASK_24;
        if ahead == 0 {
            self.counts.repeated += u64::from(!acknowledges);
            return;
        }
        // Half of all numbers are ahead, and half are behind (IBTA 9.7.1: the window is 2^23).
        if ahead < 1 << 23 {
            self.count_late_packets();
            self.advance_window(psn, ahead);
            return;
        }
        let behind = MASK_24 + 1 - ahead;
        let follows = self.late.packets > 0 && psn == self.late.next;
        if behind > RESTART_DISTANCE {
            self.count_late_packets();
            self.restart_at(psn);
        } else if behind >= BITMAP_PACKETS || self.is_received(psn) {
            if follows {
                self.counts.repeated += u64::from(core::mem::take(&mut self.late).packets);
            }
            self.count_late_packets();
            self.counts.repeated += u64::from(!acknowledges);
        } else {
            if !follows {
                self.count_late_packets();
            }
            self.mark_received(psn);
            self.late = LatePackets {
                packets: self.late.packets + 1,
                next: (psn + 1) & MASK_24,
                extent: self.late.extent.max(behind),
            };
        }
    }

    /// Counts the late packets as out of order.
    fn count_late_packets(&mut self) {
        self.counts = self.counts_with_late_packets();
        self.late = LatePackets::default();
    }

    /// Returns the counters, with all late packets counted as out of order.
    fn counts_with_late_packets(&self) -> ReorderCounts {
        ReorderCounts {
            out_of_order: self.counts.out_of_order + u64::from(self.late.packets),
            extent_max: self.counts.extent_max.max(self.late.extent),
            ..self.counts
        }
    }
}

/// Counts reordered packets for all streams of a switch.
#[derive(Debug)]
pub(crate) struct ReorderTracker {
    /// Index in `streams` for the key of each stream.
    stream_indices: FlowMap,
    streams: Vec<PacketStream>,
    /// Sum over streams that were replaced in the table.
    evicted: ReorderCounts,
    untracked_packets: u64,
    /// Index of the stream that was last checked for replacement.
    eviction_position: usize,
}

impl ReorderTracker {
    /// Creates a tracker for at most `streams_max` streams.
    pub(crate) fn new(streams_max: u32) -> ReorderTracker {
        ReorderTracker {
            stream_indices: FlowMap::new(streams_max as usize),
            streams: Vec::with_capacity(streams_max as usize),
            evicted: ReorderCounts::default(),
            untracked_packets: 0,
            eviction_position: 0,
        }
    }

    /// Returns the largest number of streams in the table.
    pub(crate) fn streams_max(&self) -> u32 {
        self.stream_indices.flows_max() as u32
    }

    /// Counts a received packet. `l3` starts at the layer-3 header. Packets without a queue pair are ignored.
    pub(crate) fn count_packet(&mut self, now: Picos, payload: Payload, l3: &[u8]) {
        let Some(pair) = queue_pair(payload, l3) else {
            return;
        };
        let Some(kind) = PacketKind::of(&pair, payload, l3) else {
            return;
        };
        let responses = kind != PacketKind::Request;
        let key = if responses { !pair.key } else { pair.key };
        let stream = match self.stream_indices.find(key) {
            Some(entry) => self.stream_indices.value(entry)[0] as usize,
            None => match self.add_stream(now, key, payload, l3, &pair, responses) {
                Some(stream) => stream,
                None => {
                    self.untracked_packets += 1;
                    return;
                }
            },
        };
        let stream = &mut self.streams[stream];
        stream.seen = now;
        stream.count_packet(pair.psn, kind == PacketKind::Acknowledgement);
    }

    /// Adds a stream and returns its index in `streams`. Returns `None` if no entry is free.
    fn add_stream(
        &mut self,
        now: Picos,
        key: u64,
        payload: Payload,
        l3: &[u8],
        pair: &QueuePair,
        responses: bool,
    ) -> Option<usize> {
        let (source, destination) = ip_addresses(payload, l3)?;
        let stream = PacketStream {
            key,
            source,
            destination,
            destination_qp: pair.destination_qp,
            responses,
            seen: now,
            // The caller counts the packet itself afterwards.
            highest: pair.psn.wrapping_sub(1) & MASK_24,
            received: [0; (BITMAP_PACKETS / 64) as usize],
            late: LatePackets::default(),
            counts: ReorderCounts::default(),
        };
        if self.streams.len() < self.stream_indices.flows_max() {
            self.stream_indices.insert(key, [self.streams.len() as u64, 0])?;
            self.streams.push(stream);
            return Some(self.streams.len() - 1);
        }
        let free = self.evict_idle_stream(now)?;
        self.stream_indices.insert(key, [free as u64, 0])?;
        self.streams[free] = stream;
        Some(free)
    }

    /// Removes an idle stream and returns its index. Checks only a few streams. Returns `None` if none of the
    /// checked streams is idle.
    fn evict_idle_stream(&mut self, now: Picos) -> Option<usize> {
        for _ in 0..EVICTION_CHECKS.min(self.streams.len()) {
            self.eviction_position = (self.eviction_position + 1) % self.streams.len();
            let stream = &self.streams[self.eviction_position];
            if now.since(stream.seen) >= EVICT_AFTER {
                add_counts(&mut self.evicted, &stream.counts_with_late_packets());
                if let Some(entry) = self.stream_indices.find(stream.key) {
                    self.stream_indices.remove(entry);
                }
                return Some(self.eviction_position);
            }
        }
        None
    }

    /// Returns a snapshot of all streams.
    pub(crate) fn view(&self) -> ReorderingView {
        let mut total = self.evicted;
        let streams = self.streams.iter().map(|stream| StreamView {
            source: stream.source,
            destination: stream.destination,
            destination_qp: stream.destination_qp,
            responses: stream.responses,
            counts: stream.counts_with_late_packets(),
        });
        let streams: Vec<_> = streams.collect();
        streams
            .iter()
            .for_each(|stream| add_counts(&mut total, &stream.counts));
        ReorderingView {
            total,
            untracked_packets: self.untracked_packets,
            streams_max: self.streams_max(),
            streams,
        }
    }
}

/// Adds the counters of a stream to a sum.
fn add_counts(sum: &mut ReorderCounts, counts: &ReorderCounts) {
    sum.packets += counts.packets;
    sum.out_of_order += counts.out_of_order;
    sum.repeated += counts.repeated;
    sum.extent_max = sum.extent_max.max(counts.extent_max);
}

/// Kind of a packet, from its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketKind {
    Request,
    Response,
    Acknowledgement,
}

impl PacketKind {
    /// Returns the kind of a packet. Returns `None` if its sequence number gives no information about
    /// the order.
    fn of(pair: &QueuePair, payload: Payload, l3: &[u8]) -> Option<PacketKind> {
        // Reliable, unreliable and extended (XRC) connections.
        if !matches!(pair.opcode >> 5, 0 | 1 | 5) {
            return None;
        }
        match pair.opcode & 0x1f {
            0x0d..=0x10 => Some(PacketKind::Response),
            0x11 | 0x12 => has_ack_syndrome(payload, l3).then_some(PacketKind::Acknowledgement),
            _ => Some(PacketKind::Request),
        }
    }
}

/// Returns true if the packet is an ACK: bits 5 and 6 of its AETH syndrome are zero.
fn has_ack_syndrome(payload: Payload, l3: &[u8]) -> bool {
    let header_len = match payload {
        Payload::Ipv4 => usize::from(l3.first().copied().unwrap_or(0) & 0x0f) * 4,
        _ => IPV6_LEN,
    };
    let syndrome = l3.get(header_len + UDP_LEN + bth::LEN);
    syndrome.is_some_and(|syndrome| syndrome & 0x60 == 0)
}

/// Returns the source and destination address of a packet.
fn ip_addresses(payload: Payload, l3: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match payload {
        Payload::Ipv4 => {
            let header = l3.first_chunk::<IPV4_LEN>()?;
            let at = |at: usize| {
                Some(Ipv4Addr::from_bits(u32::from_be_bytes(
                    *header.get(at..)?.first_chunk()?,
                )))
            };
            Some((at(12)?.into(), at(16)?.into()))
        }
        _ => {
            let header = l3.first_chunk::<IPV6_LEN>()?;
            let at = |at: usize| {
                Some(Ipv6Addr::from_bits(u128::from_be_bytes(
                    *header.get(at..)?.first_chunk()?,
                )))
            };
            Some((at(8)?.into(), at(24)?.into()))
        }
    }
}
