//! The sending side of a queue pair: requests become packets, acknowledgements complete them (IBTA 9.7.2 to 9.7.3).

use std::collections::{BTreeSet, VecDeque};

use xoff_units::Picos;

use super::config::{QpConfig, RETRY_MAX, Recovery, Transport};
use super::congestion::{Ack, CongestionControl};
use super::messages::{Message, Messages};
use super::packet::Packet;
use super::responses::ResponsesAhead;
use super::sequence::Numbering;
use super::shared::Env;
use super::telemetry::Telemetry;
use super::work::{CompletionKind, FailReason, MESSAGE_BYTES_MAX, PostError, Verb, WorkRequest};

/// Most packets outstanding, and most responses to one READ: together they stay within half of the PSN space.
pub(super) const OUTSTANDING_MAX: u32 = 1 << 22;

/// When a packet left, for the round-trip time.
#[derive(Clone, Copy, Debug)]
struct Departure {
    sequence: u64,
    /// [`Picos::NEVER`] if it left more than once: then nobody knows which one is acknowledged (Karn, SIGCOMM 1987).
    at: Picos,
}

/// State of the sending side. Sequence numbers: `unacked <= next <= sent <= messages.end()`.
#[derive(Debug)]
pub(super) struct Requester {
    pub(super) numbering: Numbering,
    pub(super) messages: Messages,
    /// Oldest one not acknowledged.
    pub(super) unacked: u64,
    /// Next one to send.
    pub(super) next: u64,
    /// Behind the newest one ever sent.
    pub(super) sent: u64,
    /// Place of the message that `next` belongs to.
    cursor: usize,
    /// Payload bytes before `next`, and the most that this was.
    next_bytes: u64,
    sent_bytes: u64,
    /// Payload bytes before `unacked`, and the most that this was.
    unacked_bytes: u64,
    acked_bytes: u64,
    departures: VecDeque<Departure>,
    /// Packets to be repeated out of turn (selective repeat).
    pub(super) repeats: BTreeSet<u64>,
    /// Where `next` was at the last timeout (selective repeat): until then, where acknowledgements stop, a packet is missing.
    pub(super) recover: u64,
    /// The receiver owes an answer to all before this: a packet that requested an acknowledgement, or a READ, has been sent.
    answered_to: u64,
    /// READ requests outstanding.
    reads: u32,
    /// A missing READ response has been asked for.
    pub(super) read_gap: bool,
    pub(super) ahead: ResponsesAhead,
    pub(super) retries_left: u8,
    pub(super) rnr_left: u8,
    /// Local ACK timeout.
    pub(super) deadline: Picos,
    /// End of the wait that an RNR NAK asked for.
    pub(super) rnr_until: Picos,
    pub(super) failed: bool,
}

impl Requester {
    pub(super) fn new(config: &QpConfig) -> Requester {
        Requester {
            numbering: Numbering::new(config.first_psn),
            messages: Messages::default(),
            unacked: 0,
            next: 0,
            sent: 0,
            cursor: 0,
            next_bytes: 0,
            sent_bytes: 0,
            unacked_bytes: 0,
            acked_bytes: 0,
            departures: VecDeque::new(),
            repeats: BTreeSet::new(),
            recover: 0,
            answered_to: 0,
            reads: 0,
            read_gap: false,
            ahead: ResponsesAhead::new(),
            retries_left: config.retry_cnt,
            rnr_left: config.rnr_retry,
            deadline: Picos::NEVER,
            rnr_until: Picos::NEVER,
            failed: false,
        }
    }

    pub(super) fn post(&mut self, config: &QpConfig, request: &WorkRequest) -> Result<(), PostError> {
        let bytes_max = match (config.transport, request.verb) {
            (Transport::Rc, Verb::Read) => {
                MESSAGE_BYTES_MAX.min(u64::from(OUTSTANDING_MAX) * u64::from(config.mtu))
            }
            (_, Verb::Read) | (Transport::Ud, Verb::Write) => return Err(PostError::Unsupported),
            (Transport::Ud, _) => u64::from(config.mtu),
            _ => MESSAGE_BYTES_MAX,
        };
        if self.failed {
            return Err(PostError::Failed);
        }
        if request.bytes > bytes_max {
            let bytes = request.bytes;
            return Err(PostError::TooLong { bytes, bytes_max });
        }
        self.messages.push(request, config.mtu);
        Ok(())
    }

    /// Whether a packet may be sent as far as windows are concerned.
    #[inline]
    pub(super) fn sendable(&self, config: &QpConfig, congestion: &dyn CongestionControl) -> bool {
        if self.failed || self.rnr_until != Picos::NEVER {
            return false;
        }
        !self.repeats.is_empty()
            || self.may_start_next(config)
                && (self.window_has_room(config, congestion) || self.needs_window_probe(config))
    }

    /// Whether the next packet in turn exists and fits the limits that hold with and without a window.
    fn may_start_next(&self, config: &QpConfig) -> bool {
        self.messages.get(self.cursor).is_some_and(|message| {
            self.next - self.unacked < u64::from(OUTSTANDING_MAX)
                && (message.verb != Verb::Read || self.reads < u32::from(config.reads_max))
        })
    }

    /// Whether fewer packets and bytes are in flight than the windows allow. Always true without acknowledgements, which alone
    /// would open a window again.
    fn window_has_room(&self, config: &QpConfig, congestion: &dyn CongestionControl) -> bool {
        if config.transport != Transport::Rc {
            return true;
        }
        let packets_max = config.window_packets.unwrap_or(u32::MAX);
        let packets_max = if config.reorders() {
            packets_max.min(config.reorder_window_packets)
        } else {
            packets_max
        };
        let bytes_max = config
            .window_bytes
            .unwrap_or(u64::MAX)
            .min(congestion.window_bytes().unwrap_or(u64::MAX));
        self.next - self.unacked < u64::from(packets_max) && self.inflight_bytes() < bytes_max
    }

    /// Whether one packet beyond a full window has to request an acknowledgement, because the receiver owes none: the window has
    /// shrunk below what is in flight since the last packet was sent. The packet that fills a window requests one itself
    /// ([`next_packet`](Requester::next_packet)), so a window of constant size needs no such probe.
    fn needs_window_probe(&self, config: &QpConfig) -> bool {
        config.ack_every > 1 && self.next > self.unacked && !self.awaits_acknowledgement()
    }

    /// Whether the receiver owes an acknowledgement that has not arrived.
    fn awaits_acknowledgement(&self) -> bool {
        self.answered_to > self.unacked
    }

    /// Whether all of the oldest message has been sent.
    #[inline]
    pub(super) fn has_sent_message(&self) -> bool {
        let oldest = self.messages.front();
        oldest.is_some_and(|message| message.end() <= self.sent)
    }

    /// Whether a packet has not been sent, or is to be sent again, whatever the windows allow.
    pub(super) fn has_data_left(&self) -> bool {
        !self.failed && (!self.repeats.is_empty() || self.messages.get(self.cursor).is_some())
    }

    /// Whether a message is not complete.
    pub(super) fn has_messages(&self) -> bool {
        self.messages.front().is_some()
    }

    fn inflight_bytes(&self) -> u64 {
        self.next_bytes.saturating_sub(self.unacked_bytes)
    }

    /// The next packet, if one may be sent.
    #[inline]
    pub(super) fn next_packet(&mut self, env: &mut Env<'_>) -> Option<Packet> {
        if !self.sendable(env.config, env.congestion) {
            return None;
        }
        let repeat = self.repeats.pop_first();
        let sequence = repeat.unwrap_or(self.next);
        let place = if repeat.is_some() {
            self.messages.find(sequence)
        } else {
            self.cursor
        };
        let message = *self.messages.get(place)?;
        let (mtu, transport) = (env.config.mtu, env.config.transport);
        let is_read = message.verb == Verb::Read;
        let payload_len = if is_read {
            0
        } else {
            message.payload(sequence, mtu)
        };
        let again = sequence < self.sent;
        if again {
            env.counters.retransmitted_packets += 1;
            env.shared.repeats += 1;
        }
        match repeat {
            Some(_) => self.forget_departure(sequence),
            None => self.step(env.now, &message, payload_len, again),
        }
        let last = sequence + 1 == message.end();
        let ack_req = transport == Transport::Rc
            && !is_read
            && (last
                || again && sequence == self.unacked
                || repeat.is_some()
                || env.config.ack_every > 1 && !self.window_has_room(env.config, env.congestion));
        if transport == Transport::Rc {
            if is_read {
                self.answered_to = self.answered_to.max(message.end());
            } else if ack_req || env.config.ack_every == 1 {
                self.answered_to = self.answered_to.max(sequence + 1);
            }
            // As long as the receiver owes nothing, its silence is no loss (IBTA 9.7.6.1.3).
            if self.deadline == Picos::NEVER && self.awaits_acknowledgement() {
                self.deadline = env.ack_deadline();
            }
        } else if last {
            self.finish_unreliable(env);
        }
        Some(Packet {
            opcode: message.opcode(sequence, transport),
            dst_qp: env.config.peer,
            psn: self.numbering.psn(sequence),
            ack_req,
            becn: false,
            payload_len,
            header: message.header(sequence, mtu, env.config.number, transport),
        })
    }

    /// Moves `next` behind the packet that is sent in turn.
    fn step(&mut self, now: Picos, message: &Message, payload_len: u32, again: bool) {
        let sequence = self.next;
        if message.verb == Verb::Read {
            self.reads += 1;
            self.next = message.end();
        } else {
            self.next += 1;
            if !again {
                self.departures.push_back(Departure { sequence, at: now });
            }
        }
        self.next_bytes += u64::from(payload_len);
        self.sent_bytes = self.sent_bytes.max(self.next_bytes);
        self.sent = self.sent.max(self.next);
        if self.next == message.end() {
            self.cursor += 1;
        }
    }

    fn forget_departure(&mut self, sequence: u64) {
        if let Ok(place) = self
            .departures
            .binary_search_by_key(&sequence, |departure| departure.sequence)
        {
            self.departures[place].at = Picos::NEVER;
        }
    }

    /// Without acknowledgements, a message is done when its last packet leaves.
    fn finish_unreliable(&mut self, env: &mut Env<'_>) {
        self.departures.clear();
        self.unacked = self.next;
        self.unacked_bytes = self.next_bytes;
        self.acked_bytes = self.next_bytes;
        self.pop_message(env);
    }

    fn pop_message(&mut self, env: &mut Env<'_>) {
        let Some(message) = self.messages.pop_front() else {
            return;
        };
        self.cursor = self.cursor.saturating_sub(1);
        if message.verb == Verb::Read {
            self.reads = self.reads.saturating_sub(1);
        }
        env.complete(CompletionKind::Acked { id: message.id });
    }

    /// Takes all before `through` as acknowledged, up to a READ whose responses are missing. Says whether it met one.
    #[inline]
    pub(super) fn advance(&mut self, env: &mut Env<'_>, through: u64) -> bool {
        let before = self.unacked;
        let mut met_read = false;
        while self.unacked < through {
            match self.messages.front() {
                Some(front) if front.verb != Verb::Read => {
                    let end = front.end();
                    self.unacked = through.min(end);
                    if self.unacked == end {
                        self.pop_message(env);
                    }
                }
                front => {
                    met_read = front.is_some();
                    break;
                }
            }
        }
        if self.unacked > before {
            self.progress(env);
        }
        met_read
    }

    /// A READ response arrived that is the oldest one missing.
    pub(super) fn advance_read(&mut self, env: &mut Env<'_>, end: u64) {
        self.unacked += 1;
        if self.unacked == end {
            self.pop_message(env);
        }
        self.progress(env);
    }

    #[inline(always)]
    fn progress(&mut self, env: &mut Env<'_>) {
        let mtu = env.config.mtu;
        self.unacked_bytes = self.messages.stream_at(self.unacked, mtu);
        if self.next < self.unacked {
            // It went back too early: what it was about to repeat had arrived.
            self.seek(self.unacked, mtu);
        }
        self.retries_left = env.config.retry_cnt;
        self.rnr_left = env.config.rnr_retry;
        self.read_gap = false;
        self.deadline = if self.unacked < self.next && self.awaits_acknowledgement() {
            env.ack_deadline()
        } else {
            Picos::NEVER
        };
        while self.repeats.first().is_some_and(|first| *first < self.unacked) {
            self.repeats.pop_first();
        }
        if self.unacked < self.recover.min(self.next) {
            self.repeats.insert(self.unacked);
        }
    }

    /// Tells congestion control of an answer; `named` is the packet that it answers.
    #[inline(always)]
    pub(super) fn inform(
        &mut self,
        env: &mut Env<'_>,
        named: Option<u64>,
        marked: bool,
        telemetry: Option<&Telemetry>,
    ) {
        let mut rtt = None;
        while let Some(departure) = self.departures.front() {
            if departure.sequence >= self.unacked {
                break;
            }
            if named == Some(departure.sequence) && departure.at != Picos::NEVER {
                rtt = Some(env.now.since(departure.at));
            }
            self.departures.pop_front();
        }
        let acked_bytes = self.unacked_bytes.saturating_sub(self.acked_bytes);
        self.acked_bytes += acked_bytes;
        let ack = Ack {
            acked_bytes,
            inflight_bytes: self.inflight_bytes(),
            acked_total: self.acked_bytes,
            sent_total: self.sent_bytes,
            rtt,
            marked,
            telemetry,
        };
        env.congestion.acknowledged(env.now, &ack);
    }

    /// Resumes sending at a sequence number that had been sent.
    pub(super) fn rewind(&mut self, sequence: u64, mtu: u32) {
        self.seek(sequence, mtu);
        self.departures.clear();
        self.repeats.clear();
        self.recover = 0;
        self.reads = 0;
        self.answered_to = self.answered_to.min(sequence);
        // Time runs from when it is sent again.
        self.deadline = Picos::NEVER;
    }

    /// The message that `unacked` belongs to begins again.
    pub(super) fn restart_message(&mut self, mtu: u32) {
        if let Some(front) = self.messages.front() {
            self.unacked = front.first;
            self.unacked_bytes = self.messages.stream_at(self.unacked, mtu);
        }
        self.rewind(self.unacked, mtu);
    }

    fn seek(&mut self, sequence: u64, mtu: u32) {
        self.next = sequence;
        self.cursor = self.messages.find(sequence);
        self.next_bytes = self.messages.stream_at(sequence, mtu);
    }

    /// Repeats one packet out of turn, or the READ that it belongs to; not one whose turn is still to come.
    pub(super) fn repeat(&mut self, sequence: u64) {
        if sequence >= self.next {
            return;
        }
        let Some(message) = self.messages.get(self.messages.find(sequence)) else {
            return;
        };
        if message.verb != Verb::Read {
            self.repeats.insert(sequence);
        } else if sequence == message.first.max(self.unacked) {
            // Every response of a request that was lost is named; the request is repeated once.
            self.repeats.insert(sequence);
        }
    }

    /// One repetition less; fails the queue pair, and says so, if there was none left.
    pub(super) fn spend_retry(&mut self, env: &mut Env<'_>) -> bool {
        if let Some(left) = self.retries_left.checked_sub(1) {
            self.retries_left = left;
            return true;
        }
        env.counters.req_transport_retries_exceeded += 1;
        self.fail(env, FailReason::RetriesExceeded);
        false
    }

    /// The same for RNR NAKs.
    pub(super) fn spend_rnr_retry(&mut self, env: &mut Env<'_>) -> bool {
        if env.config.rnr_retry >= RETRY_MAX {
            return true;
        }
        if let Some(left) = self.rnr_left.checked_sub(1) {
            self.rnr_left = left;
            return true;
        }
        env.counters.req_rnr_retries_exceeded += 1;
        self.fail(env, FailReason::RnrRetriesExceeded);
        false
    }

    /// The local ACK timeout, or the wait after an RNR NAK, may be over.
    pub(super) fn expire(&mut self, env: &mut Env<'_>) {
        if self.rnr_until <= env.now {
            self.rnr_until = Picos::NEVER;
        }
        if self.ahead.gap_deadline <= env.now {
            self.request_missing_responses(env);
        }
        if self.deadline > env.now {
            return;
        }
        self.deadline = Picos::NEVER;
        if self.unacked >= self.next {
            return; // nothing is under way: it was sent before the queue pair went back
        }
        env.counters.local_ack_timeout_err += 1;
        env.shared.timeouts += 1;
        if !self.spend_retry(env) {
            return;
        }
        env.congestion.timed_out(env.now);
        self.read_gap = false;
        match env.config.recovery {
            Recovery::GoBackN => self.rewind(self.unacked, env.config.mtu),
            Recovery::GoBackZero => self.restart_message(env.config.mtu),
            Recovery::SelectiveRepeat => {
                self.recover = self.next;
                self.repeats.insert(self.unacked);
            }
        }
    }

    /// The oldest request fails, the others with it.
    pub(super) fn fail(&mut self, env: &mut Env<'_>, why: FailReason) {
        self.failed = true;
        let mut why = why;
        while let Some(message) = self.messages.pop_front() {
            env.complete(CompletionKind::Failed { id: message.id, why });
            why = FailReason::Flushed;
        }
        self.rewind(self.messages.end(), env.config.mtu);
        self.unacked = self.next;
        self.unacked_bytes = self.next_bytes;
        self.sent = self.next;
        self.rnr_until = Picos::NEVER;
        self.ahead.clear();
    }

    /// When time alone requires an action next.
    pub(super) fn next_deadline(&self) -> Picos {
        self.deadline.min(self.rnr_until).min(self.ahead.gap_deadline)
    }
}
