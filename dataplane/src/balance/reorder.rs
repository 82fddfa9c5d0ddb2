//! Packets of queue pairs that arrive out of order, counted where they arrive.
//!
//! Requests and responses of a queue pair have packet sequence numbers of their own, and are in no order to each other: each is a
//! *stream* here. Of a stream the highest number that has come is known (24-bit serial arithmetic), and which of the 512 numbers
//! below it have come.
//!
//! | a packet whose number is | counts as |
//! |---|---|
//! | above the highest | in order, also where it leaves a gap: what is missing may be late, lost, or the rest of a READ request's numbers |
//! | below, and has not come | out of order; its *extent* is how far below (RFC 4737: sequence numbers instead of positions) |
//! | below, and has come | repeated: the sender sent it again |
//! | below, not come, and what comes next is the repetition of the number behind it | repeated: a sender that goes back sends what was lost before it got here, and then what was not |
//! | the highest again | repeated; acknowledgements may have one number several times, and then count as nothing |
//! | more than 512 below | repeated: so far below it is not known what has come |
//! | more than 65 536 below | in order: the queue pair's number is used for another connection |
//!
//! So a packet that was lost on its way here, and is then repeated alone (selective repeat), counts as out of order: a switch sees no
//! difference. Left out are datagrams, whose numbers are those of their many senders, CNPs, which have none, and NAKs, which name a number that is
//! missing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::flow_map::FlowMap;
use super::packet::{QueuePair, queue_pair};
use xoff_units::Picos;
use xoff_wire::bth::{self, MASK_24};
use xoff_wire::parse::Payload;
use xoff_wire::{IPV4_LEN, IPV6_LEN, UDP_LEN};

/// Sequence numbers below the highest one of which it is known whether they have come.
const WINDOW: u32 = 512;

/// A number so far below the highest one begins another connection.
const RESTART: u32 = 1 << 16;

/// When the table is full, streams that have been silent for so long give up their places.
const SILENCE: Picos = Picos::from_millis(1_000);

/// Streams that are looked at for a place when the table is full.
const LOOKS: usize = 4;

/// What streams have carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderCounts {
    /// Packets.
    pub packets: u64,
    /// Those that came behind one with a higher number.
    pub out_of_order: u64,
    /// Those that had come before, or that their sender went back for.
    pub repeated: u64,
    /// How far below the highest number one came at most: the longest way that packets overtook one.
    pub extent_max: u32,
}

/// A stream, as `show` sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// Who sends.
    pub source: IpAddr,
    /// Who has the queue pair.
    pub destination: IpAddr,
    /// Its number.
    pub destination_qp: u32,
    /// READ responses and acknowledgements, not requests.
    pub responses: bool,
    /// What came.
    pub counts: ReorderCounts,
}

/// What a switch knows of the order of what it receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReorderingView {
    /// All packets of streams, those included that have given up their places.
    pub total: ReorderCounts,
    /// Packets of streams that found no place.
    pub untracked_packets: u64,
    /// Most streams that can be known.
    pub streams_max: u32,
    /// The streams that are known, in the order in which their places were first taken.
    pub streams: Vec<StreamView>,
}

/// Packets that came late, of which the next one says what they were.
#[derive(Clone, Copy, Debug, Default)]
struct Late {
    packets: u32,
    /// The number behind the last of them.
    next: u32,
    extent: u32,
}

#[derive(Clone, Debug)]
struct Stream {
    key: u64,
    source: IpAddr,
    destination: IpAddr,
    destination_qp: u32,
    responses: bool,
    seen: Picos,
    highest: u32,
    /// A bit for each number of the window, at its number modulo the window.
    come: [u64; (WINDOW / 64) as usize],
    late: Late,
    counts: ReorderCounts,
}

impl Stream {
    fn begin(&mut self, psn: u32) {
        (self.highest, self.come) = (psn, [0; (WINDOW / 64) as usize]);
        self.set(psn);
    }

    fn set(&mut self, psn: u32) {
        let bit = psn % WINDOW;
        self.come[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    fn has_come(&self, psn: u32) -> bool {
        let bit = psn % WINDOW;
        self.come[(bit / 64) as usize] & 1 << (bit % 64) != 0
    }

    fn advance(&mut self, psn: u32, by: u32) {
        if by >= WINDOW {
            self.come = [0; (WINDOW / 64) as usize];
        } else {
            for number in self.highest + 1..self.highest + by {
                let bit = number % WINDOW;
                self.come[(bit / 64) as usize] &= !(1 << (bit % 64));
            }
        }
        self.highest = psn;
        self.set(psn);
    }

    /// A packet has come; `acknowledges`: its number may have come before.
    fn note(&mut self, psn: u32, acknowledges: bool) {
        self.counts.packets += 1;
        let ahead = psn.wrapping_sub(self.highest) & MASK_24;
        if ahead == 0 {
            self.counts.repeated += u64::from(!acknowledges);
            return;
        }
        // Half of all numbers are ahead, half behind (IBTA 9.7.1: the window is 2^23).
        if ahead < 1 << 23 {
            self.settle();
            self.advance(psn, ahead);
            return;
        }
        let behind = MASK_24 + 1 - ahead;
        let follows = self.late.packets > 0 && psn == self.late.next;
        if behind > RESTART {
            self.settle();
            self.begin(psn);
        } else if behind >= WINDOW || self.has_come(psn) {
            if follows {
                self.counts.repeated += u64::from(core::mem::take(&mut self.late).packets);
            }
            self.settle();
            self.counts.repeated += u64::from(!acknowledges);
        } else {
            if !follows {
                self.settle();
            }
            self.set(psn);
            self.late = Late {
                packets: self.late.packets + 1,
                next: (psn + 1) & MASK_24,
                extent: self.late.extent.max(behind),
            };
        }
    }

    /// Those that came late were out of order.
    fn settle(&mut self) {
        self.counts = self.settled();
        self.late = Late::default();
    }

    /// The counts if those that came late were out of order.
    fn settled(&self) -> ReorderCounts {
        ReorderCounts {
            out_of_order: self.counts.out_of_order + u64::from(self.late.packets),
            extent_max: self.counts.extent_max.max(self.late.extent),
            ..self.counts
        }
    }
}

/// The streams of a switch.
#[derive(Debug)]
pub(crate) struct Reordering {
    /// Where each is in the list.
    places: FlowMap,
    streams: Vec<Stream>,
    /// Of streams that have given up their places.
    gone: ReorderCounts,
    untracked_packets: u64,
    hand: usize,
}

impl Reordering {
    pub(crate) fn new(streams_max: u32) -> Reordering {
        Reordering {
            places: FlowMap::new(streams_max as usize),
            streams: Vec::with_capacity(streams_max as usize),
            gone: ReorderCounts::default(),
            untracked_packets: 0,
            hand: 0,
        }
    }

    pub(crate) fn streams_max(&self) -> u32 {
        self.places.flows_max() as u32
    }

    /// A packet has arrived; `l3`: from its layer-3 header on.
    pub(crate) fn note(&mut self, now: Picos, payload: Payload, l3: &[u8]) {
        let Some(pair) = queue_pair(payload, l3) else {
            return;
        };
        let Some(kind) = Kind::of(&pair, payload, l3) else {
            return;
        };
        let responses = kind != Kind::Request;
        let key = if responses { !pair.key } else { pair.key };
        let stream = match self.places.find(key) {
            Some(place) => self.places.get(place)[0] as usize,
            None => match self.enter(now, key, payload, l3, &pair, responses) {
                Some(stream) => stream,
                None => {
                    self.untracked_packets += 1;
                    return;
                }
            },
        };
        let stream = &mut self.streams[stream];
        stream.seen = now;
        stream.note(pair.psn, kind == Kind::Acknowledgement);
    }

    /// A stream that is not known gets a place, if there is one.
    fn enter(
        &mut self,
        now: Picos,
        key: u64,
        payload: Payload,
        l3: &[u8],
        pair: &QueuePair,
        responses: bool,
    ) -> Option<usize> {
        let (source, destination) = addresses(payload, l3)?;
        let stream = Stream {
            key,
            source,
            destination,
            destination_qp: pair.destination_qp,
            responses,
            seen: now,
            // The packet itself is noted as one that follows.
            highest: pair.psn.wrapping_sub(1) & MASK_24,
            come: [0; (WINDOW / 64) as usize],
            late: Late::default(),
            counts: ReorderCounts::default(),
        };
        if self.streams.len() < self.places.flows_max() {
            self.places.insert(key, [self.streams.len() as u64, 0])?;
            self.streams.push(stream);
            return Some(self.streams.len() - 1);
        }
        let free = self.make_room(now)?;
        self.places.insert(key, [free as u64, 0])?;
        self.streams[free] = stream;
        Some(free)
    }

    /// A place whose stream is silent, if one of those that are looked at is.
    fn make_room(&mut self, now: Picos) -> Option<usize> {
        for _ in 0..LOOKS.min(self.streams.len()) {
            self.hand = (self.hand + 1) % self.streams.len();
            let stream = &self.streams[self.hand];
            if now.since(stream.seen) >= SILENCE {
                add(&mut self.gone, &stream.settled());
                if let Some(place) = self.places.find(stream.key) {
                    self.places.remove(place);
                }
                return Some(self.hand);
            }
        }
        None
    }

    pub(crate) fn view(&self) -> ReorderingView {
        let mut total = self.gone;
        let streams = self.streams.iter().map(|stream| StreamView {
            source: stream.source,
            destination: stream.destination,
            destination_qp: stream.destination_qp,
            responses: stream.responses,
            counts: stream.settled(),
        });
        let streams: Vec<_> = streams.collect();
        streams.iter().for_each(|stream| add(&mut total, &stream.counts));
        ReorderingView {
            total,
            untracked_packets: self.untracked_packets,
            streams_max: self.streams_max(),
            streams,
        }
    }
}

fn add(sum: &mut ReorderCounts, counts: &ReorderCounts) {
    sum.packets += counts.packets;
    sum.out_of_order += counts.out_of_order;
    sum.repeated += counts.repeated;
    sum.extent_max = sum.extent_max.max(counts.extent_max);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
    Acknowledgement,
}

impl Kind {
    /// `None`: its number says nothing of the order.
    fn of(pair: &QueuePair, payload: Payload, l3: &[u8]) -> Option<Kind> {
        // Reliable, unreliable and extended connections.
        if !matches!(pair.opcode >> 5, 0 | 1 | 5) {
            return None;
        }
        match pair.opcode & 0x1f {
            0x0d..=0x10 => Some(Kind::Response),
            0x11 | 0x12 => acknowledges(payload, l3).then_some(Kind::Acknowledgement),
            _ => Some(Kind::Request),
        }
    }
}

/// Whether the AETH of a packet says ACK: the two bits below the highest are zero.
fn acknowledges(payload: Payload, l3: &[u8]) -> bool {
    let header_len = match payload {
        Payload::Ipv4 => usize::from(l3.first().copied().unwrap_or(0) & 0x0f) * 4,
        _ => IPV6_LEN,
    };
    let syndrome = l3.get(header_len + UDP_LEN + bth::LEN);
    syndrome.is_some_and(|syndrome| syndrome & 0x60 == 0)
}

fn addresses(payload: Payload, l3: &[u8]) -> Option<(IpAddr, IpAddr)> {
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
