//! What the receiving side sends: acknowledgements, NAKs, READ responses, in the order of what they answer.

use std::collections::VecDeque;

use xoff_units::Picos;
use xoff_wire::bth::MASK_24;
use xoff_wire::{Aeth, NakCode, Opcode, Syndrome};

use super::congestion::Feedback;
use super::finished::Finished;
use super::messages::packets_of;
use super::packet::{Header, Packet};
use super::sequence::Numbering;
use super::shared::Env;
use super::telemetry::Telemetry;
use super::work::Arrival;

/// Most READ requests that wait for their responses; one more is refused (IBTA 9.7.4.1.3: responder resources).
const READS_MAX: usize = 256;

/// An answer and the sequence number that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// All before this has arrived.
    Ack(u64),
    /// No receive entry for this.
    Rnr(u64),
    /// This is missing, or refused.
    Nak(u64, NakCode),
}

impl Reply {
    /// It answers everything before this.
    fn covers(self) -> u64 {
        match self {
            Reply::Ack(sequence) | Reply::Rnr(sequence) | Reply::Nak(sequence, _) => sequence,
        }
    }
}

/// A READ whose responses are not all sent.
#[derive(Clone, Copy, Debug)]
struct Read {
    first: u64,
    next: u64,
    end: u64,
    remaining: u32,
}

/// Answers to be given.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// Requests executed, READs included: the message sequence number.
    pub(super) messages: u64,
    /// Packets that arrived since the last acknowledgement.
    pub(super) since_ack: u32,
    /// One of those not acknowledged was marked.
    marked: bool,
    last_cnp: Option<Picos>,
    reads: VecDeque<Read>,
    /// An answer that waits for the responses of a READ before it.
    deferred: Option<(Reply, Option<Box<Telemetry>>)>,
}

impl Replies {
    /// Remembers the mark of a packet that is taken, for its acknowledgement.
    #[inline]
    pub(super) fn note(&mut self, env: &Env<'_>, arrival: &Arrival<'_>) {
        self.marked |= arrival.ce && env.config.feedback == Feedback::AckEcho;
    }

    /// Data arrived marked: a CNP, unless one was sent just now.
    pub(super) fn on_mark(&mut self, env: &mut Env<'_>) {
        env.counters.np_ecn_marked_roce_packets += 1;
        let Feedback::Cnp { interval } = env.config.feedback else {
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
        env.emit(env.config.cnp_class, Finished::cnp(env.qp));
    }

    /// Counts packets taken, and acknowledges all before `through` if it is time.
    #[inline]
    pub(super) fn count(
        &mut self,
        env: &mut Env<'_>,
        packets: u32,
        wanted: bool,
        through: u64,
        arrival: &Arrival<'_>,
    ) {
        self.since_ack = self.since_ack.saturating_add(packets);
        if wanted || self.since_ack >= env.config.ack_every {
            let telemetry = arrival
                .telemetry
                .map(|telemetry| env.shared.boxed_echo(telemetry));
            self.answer(env, Reply::Ack(through), telemetry);
        }
    }

    /// Gives an answer, or keeps it until the responses before it are sent.
    #[inline]
    pub(super) fn answer(&mut self, env: &mut Env<'_>, reply: Reply, telemetry: Option<Box<Telemetry>>) {
        self.since_ack = 0;
        if self.reads.front().is_some_and(|read| read.first < reply.covers()) {
            self.deferred = Some((reply, telemetry));
            return;
        }
        let (sequence, syndrome) = match reply {
            // The first packet is acknowledged as number 0: nothing to say before it.
            Reply::Ack(through) => match through.checked_sub(1) {
                Some(last) => (last, Syndrome::ACK),
                None => return,
            },
            Reply::Rnr(sequence) => {
                let timer = env.config.min_rnr_timer;
                (sequence, Syndrome::RnrNak { timer })
            }
            Reply::Nak(sequence, code) => (sequence, Syndrome::Nak(code)),
        };
        self.acknowledge(env, sequence, syndrome, telemetry);
    }

    /// A NAK that acknowledges nothing, so that no response need go before it.
    pub(super) fn selective_nak(&mut self, env: &mut Env<'_>, sequence: u64) {
        self.acknowledge(env, sequence, Syndrome::Nak(NakCode::PsnSequenceError), None);
    }

    #[inline(always)]
    fn acknowledge(
        &mut self,
        env: &mut Env<'_>,
        sequence: u64,
        syndrome: Syndrome,
        telemetry: Option<Box<Telemetry>>,
    ) {
        let psn = Numbering::new(env.config.peer_first_psn).psn(sequence);
        let marked = std::mem::take(&mut self.marked);
        let answer = Finished::answer(env.qp, psn, marked, self.aeth(syndrome), telemetry);
        env.emit(env.config.ack_class, answer);
    }

    fn aeth(&self, syndrome: Syndrome) -> Aeth {
        let msn = self.messages as u32 & MASK_24;
        Aeth { syndrome, msn }
    }

    /// Enters a READ; false if too many wait, or it is longer than the PSN space allows.
    pub(super) fn read(&mut self, mtu: u32, first: u64, bytes: u32) -> bool {
        let packets = packets_of(bytes, mtu);
        if self.reads.len() >= READS_MAX || packets > super::requester::OUTSTANDING_MAX {
            return false;
        }
        self.reads.push_back(Read {
            first,
            next: first,
            end: first + u64::from(packets),
            remaining: bytes,
        });
        true
    }

    /// A READ, or the rest of it, is asked for again. Its sender will ask again for what it had asked for after it.
    pub(super) fn read_again(&mut self, mtu: u32, first: u64, bytes: u32) {
        while self.reads.back().is_some_and(|read| read.end > first) {
            self.reads.pop_back();
        }
        if self
            .deferred
            .as_ref()
            .is_some_and(|(reply, _)| reply.covers() > first)
        {
            self.deferred = None;
        }
        self.read(mtu, first, bytes);
    }

    /// Whether responses wait to be sent.
    #[inline]
    pub(super) fn has_response(&self) -> bool {
        !self.reads.is_empty()
    }

    pub(super) fn next_response(&mut self, env: &mut Env<'_>) -> Option<Packet> {
        let read = self.reads.front_mut()?;
        let payload_len = read.remaining.min(env.config.mtu);
        let sequence = read.next;
        read.remaining -= payload_len;
        read.next += 1;
        let (first, last) = (sequence == read.first, read.next == read.end);
        let opcode = match (first, last) {
            (true, true) => Opcode::RcReadResponseOnly,
            (true, false) => Opcode::RcReadResponseFirst,
            (false, true) => Opcode::RcReadResponseLast,
            (false, false) => Opcode::RcReadResponseMiddle,
        };
        let header = if first || last {
            Header::Aeth(self.aeth(Syndrome::ACK))
        } else {
            Header::None
        };
        if last {
            self.reads.pop_front();
            if let Some((reply, telemetry)) = self.deferred.take() {
                self.answer(env, reply, telemetry);
            }
        }
        Some(Packet {
            opcode,
            dst_qp: env.config.peer,
            psn: Numbering::new(env.config.peer_first_psn).psn(sequence),
            ack_req: false,
            becn: false,
            payload_len,
            header,
        })
    }
}
