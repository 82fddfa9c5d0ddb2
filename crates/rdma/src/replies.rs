//! Packets that the responder sends: acknowledgements, NAKs and READ responses. They leave in the order of
//! the requests.

use std::collections::VecDeque;

use xoff_units::Picos;
use xoff_wire::bth::MASK_24;
use xoff_wire::{Aeth, NakCode, Opcode, Syndrome};

use super::congestion::CongestionFeedback;
use super::messages::packet_count;
use super::packet::{ExtensionHeader, Packet};
use super::sequence::PsnNumbering;
use super::state::QpContext;
use super::telemetry::Telemetry;
use super::unpaced::UnpacedPacket;
use super::work::ArrivalInfo;

/// Largest number of READ requests that wait for their responses. The responder rejects further READs (IBTA
/// 9.7.4.1.3: responder resources).
const READS_MAX: usize = 256;

/// A reply, with the sequence number to which it refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// All packets before this number have arrived.
    Ack(u64),
    /// No receive entry is free for the packet with this number.
    Rnr(u64),
    /// The packet with this number is missing or was rejected.
    Nak(u64, NakCode),
}

impl Reply {
    /// Returns a sequence number. The reply acknowledges all packets before this number.
    fn end_sequence(self) -> u64 {
        match self {
            Reply::Ack(sequence) | Reply::Rnr(sequence) | Reply::Nak(sequence, _) => sequence,
        }
    }
}

/// A READ with responses that are not sent yet.
#[derive(Clone, Copy, Debug)]
struct PendingRead {
    first: u64,
    next: u64,
    end: u64,
    remaining: u32,
}

/// State of the replies of one queue pair. The fields that nearly every request uses come first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ReplyQueue {
    /// Number of executed requests, including READs. This is the message sequence number (MSN) of the AETH.
    pub(super) messages: u64,
    /// Number of packets since the last acknowledgement.
    pub(super) since_ack: u32,
    /// True if at least one packet since the last acknowledgement had an ECN mark.
    marked: bool,
    /// READs whose responses are not sent yet. `None` until the first READ arrives. The box is a quarter of the size of
    /// the list.
    #[allow(clippy::box_collection)]
    reads: Option<Box<VecDeque<PendingRead>>>,
    last_cnp: Option<Picos>,
    /// Reply that waits until the responses of an earlier READ are sent.
    deferred: Option<(Reply, Option<Box<Telemetry>>)>,
}

impl ReplyQueue {
    /// Stores the ECN mark of an accepted packet for its acknowledgement.
    #[inline]
    pub(super) fn store_ecn_mark(&mut self, env: &QpContext<'_>, arrival: &ArrivalInfo<'_>) {
        self.marked |= arrival.ce && env.config.feedback == CongestionFeedback::AckEcho;
    }

    /// Sends a CNP for a packet with an ECN mark, if the CNP interval has passed since the previous CNP.
    pub(super) fn on_ecn_mark(&mut self, env: &mut QpContext<'_>) {
        env.counters.np_ecn_marked_roce_packets += 1;
        let CongestionFeedback::Cnp { interval } = env.config.feedback else {
            return;
        };
        if self
            .last_cnp
            .is_some_and(|last| env.now < last.saturating_add(interval))
        {
            return;
        }
        self.last_cnp = Some(env.now);
        env.counters.np_cnp_sent += 1;
        env.send_unpaced(env.config.cnp_class, UnpacedPacket::cnp(env.qp));
    }

    /// Counts accepted packets. If an acknowledgement is due, acknowledges all packets before `acked_end`.
    #[inline]
    pub(super) fn count_packets(
        &mut self,
        env: &mut QpContext<'_>,
        packets: u32,
        ack_requested: bool,
        acked_end: u64,
        arrival: &ArrivalInfo<'_>,
    ) {
        self.since_ack = self.since_ack.saturating_add(packets);
        if ack_requested || self.since_ack >= env.config.ack_every {
            let telemetry = arrival
                .telemetry
                .map(|telemetry| env.shared.echo_telemetry(telemetry));
            self.send_reply(env, Reply::Ack(acked_end), telemetry);
        }
    }

    /// Sends a reply. If responses of earlier READs are not sent yet, the reply waits for them.
    #[inline]
    pub(super) fn send_reply(
        &mut self,
        env: &mut QpContext<'_>,
        reply: Reply,
        telemetry: Option<Box<Telemetry>>,
    ) {
        self.since_ack = 0;
        let oldest_read = self.reads.as_ref().and_then(|reads| reads.front());
        if oldest_read.is_some_and(|read| read.first < reply.end_sequence()) {
            self.deferred = Some((reply, telemetry));
            return;
        }
        let (sequence, syndrome) = match reply {
            // No packet precedes packet 0, so nothing is acknowledged.
            Reply::Ack(acked_end) => match acked_end.checked_sub(1) {
                Some(last) => (last, Syndrome::ACK),
                None => return,
            },
            Reply::Rnr(sequence) => {
                let timer = env.config.min_rnr_timer;
                (sequence, Syndrome::RnrNak { timer })
            }
            Reply::Nak(sequence, code) => (sequence, Syndrome::Nak(code)),
        };
        self.send_acknowledge(env, sequence, syndrome, telemetry);
    }

    /// Sends a NAK of selective repeat. This NAK acknowledges no packets, so it does not wait for
    /// READ responses.
    pub(super) fn send_selective_nak(&mut self, env: &mut QpContext<'_>, sequence: u64) {
        self.send_acknowledge(env, sequence, Syndrome::Nak(NakCode::PsnSequenceError), None);
    }

    #[inline(always)]
    fn send_acknowledge(
        &mut self,
        env: &mut QpContext<'_>,
        sequence: u64,
        syndrome: Syndrome,
        telemetry: Option<Box<Telemetry>>,
    ) {
        let psn = PsnNumbering::new(env.config.peer_first_psn).psn(sequence);
        let marked = std::mem::take(&mut self.marked);
        let answer = UnpacedPacket::acknowledge(env.qp, psn, marked, self.build_aeth(syndrome), telemetry);
        env.send_unpaced(env.config.ack_class, answer);
    }

    fn build_aeth(&self, syndrome: Syndrome) -> Aeth {
        let msn = self.messages as u32 & MASK_24;
        Aeth { syndrome, msn }
    }

    /// Queues the responses of a READ. Returns `false` if too many READs wait, or if the READ has too many
    /// responses for the PSN space.
    pub(super) fn push_read(&mut self, mtu: u32, first: u64, bytes: u32) -> bool {
        let packets = packet_count(bytes, mtu);
        let reads = self.reads.get_or_insert_default();
        if reads.len() >= READS_MAX || packets > super::requester::OUTSTANDING_MAX {
            return false;
        }
        reads.push_back(PendingRead {
            first,
            next: first,
            end: first + u64::from(packets),
            remaining: bytes,
        });
        true
    }

    /// Answers a repeated READ request. The request is for the whole READ or for its remaining bytes. Pending
    /// replies to later READs are discarded, because the requester also repeats the later READs.
    pub(super) fn restart_read(&mut self, mtu: u32, first: u64, bytes: u32) {
        let reads = self.reads.get_or_insert_default();
        while reads.back().is_some_and(|read| read.end > first) {
            reads.pop_back();
        }
        if self
            .deferred
            .as_ref()
            .is_some_and(|(reply, _)| reply.end_sequence() > first)
        {
            self.deferred = None;
        }
        self.push_read(mtu, first, bytes);
    }

    /// Returns whether READ responses are waiting.
    #[inline]
    pub(super) fn has_response(&self) -> bool {
        self.reads.as_ref().is_some_and(|reads| !reads.is_empty())
    }

    pub(super) fn next_response(&mut self, env: &mut QpContext<'_>) -> Option<Packet> {
        let reads = self.reads.as_mut()?;
        let read = reads.front_mut()?;
        let payload_len = read.remaining.min(env.config.mtu);
        let sequence = read.next;
        read.remaining -= payload_len;
        read.next += 1;
        let (first, last) = (sequence == read.first, read.next == read.end);
        if last {
            reads.pop_front();
        }
        let opcode = match (first, last) {
            (true, true) => Opcode::RcReadResponseOnly,
            (true, false) => Opcode::RcReadResponseFirst,
            (false, true) => Opcode::RcReadResponseLast,
            (false, false) => Opcode::RcReadResponseMiddle,
        };
        let header = if first || last {
            ExtensionHeader::Aeth(self.build_aeth(Syndrome::ACK))
        } else {
            ExtensionHeader::None
        };
        if last && let Some((reply, telemetry)) = self.deferred.take() {
            self.send_reply(env, reply, telemetry);
        }
        Some(Packet {
            opcode,
            dst_qp: env.config.peer,
            psn: PsnNumbering::new(env.config.peer_first_psn).psn(sequence),
            ack_req: false,
            becn: false,
            payload_len,
            header,
        })
    }
}
