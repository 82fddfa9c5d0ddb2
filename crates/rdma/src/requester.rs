//! The requester of a queue pair. The requester divides messages into packets, and completes a message when
//! its acknowledgements arrive (IBTA 9.7.2 to 9.7.3).

use std::collections::BTreeSet;

use xoff_units::{Picos, prefetch};

use super::config::{QpConfig, RETRY_MAX, Recovery, Transport};
use super::congestion::{Ack, CongestionControl};
use super::held_responses::HeldResponses;
use super::inline_queue::InlineQueue;
use super::messages::{Message, MessageQueue};
use super::packet::Packet;
use super::sequence::PsnNumbering;
use super::state::QpContext;
use super::telemetry::Telemetry;
use super::work::{CompletionKind, FailReason, MESSAGE_BYTES_MAX, PostError, Verb, WorkRequest};

/// Largest number of outstanding packets, and largest number of responses to one READ. The sum of both
/// numbers is at most half of the PSN space.
pub(super) const OUTSTANDING_MAX: u32 = 1 << 22;

/// Returns the largest length of a message in bytes. Returns `None` if the transport service does not support the
/// operation: READ needs RC, and UD supports only SEND. `mtu` is the MTU of the queue pair in bytes.
pub fn message_bytes_max(transport: Transport, verb: Verb, mtu: u32) -> Option<u64> {
    match (transport, verb) {
        (Transport::Rc, Verb::Read) => {
            Some(MESSAGE_BYTES_MAX.min(u64::from(OUTSTANDING_MAX) * u64::from(mtu)))
        }
        (_, Verb::Read) | (Transport::Ud, Verb::Write) => None,
        (Transport::Ud, Verb::Send) => Some(u64::from(mtu)),
        (Transport::Rc | Transport::Uc, _) => Some(MESSAGE_BYTES_MAX),
    }
}

/// Departure time of one packet, for the measurement of the round-trip time.
#[derive(Clone, Copy, Debug)]
struct Departure {
    sequence: u64,
    /// Departure time, for the measurement of the round-trip time. [`Picos::NEVER`] for a retransmitted
    /// packet, which cannot be measured: its acknowledgement can belong to the first or the second copy
    /// (Karn, SIGCOMM 1987).
    at: Picos,
}

/// State of the requester. Its sequence numbers satisfy `unacked <= next <= sent <= messages.end()`.
///
/// The fields that nearly every packet and acknowledgement uses are in the first cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Requester {
    pub(super) messages: MessageQueue,
    /// Index of the message that contains `next`.
    cursor: usize,
    /// One more than the highest sequence number ever sent.
    pub(super) sent: u64,
    /// Oldest sequence number that is not acknowledged.
    pub(super) unacked: u64,
    /// Next sequence number to send.
    pub(super) next: u64,
    /// Payload bytes before `next`.
    next_bytes: u64,
    /// Largest value that `next_bytes` has had.
    sent_bytes: u64,
    /// Largest value that `unacked_bytes` has had.
    unacked_bytes: u64,
    acked_bytes: u64,
    /// First sequence number for which no acknowledgement or READ response has been requested. All lower
    /// sequence numbers have an answer or expect an answer.
    answered_to: u64,
    /// End of the local ACK timeout. [`Picos::NEVER`] if the timeout does not run.
    pub(super) deadline: Picos,
    /// End of the wait that an RNR NAK has requested. [`Picos::NEVER`] without a wait.
    pub(super) rnr_until: Picos,
    pub(super) retries_left: u8,
    pub(super) rnr_left: u8,
    pub(super) failed: bool,
    /// True if a missing READ response has been requested again.
    pub(super) read_gap: bool,
    pub(super) numbering: PsnNumbering,
    /// Sequence numbers of packets to retransmit out of order (selective repeat).
    pub(super) repeats: BTreeSet<u64>,
    /// Value of `next` at the last timeout (selective repeat). While packets before this sequence number are
    /// unacknowledged, every acknowledgement causes a retransmission of the oldest unacknowledged packet.
    pub(super) recover: u64,
    pub(super) held_responses: HeldResponses,
    departures: InlineQueue<Departure, 2>,
    /// Number of outstanding READ requests.
    reads: u32,
}

impl Requester {
    pub(super) fn new(config: &QpConfig) -> Requester {
        Requester {
            numbering: PsnNumbering::new(config.first_psn),
            messages: MessageQueue::default(),
            unacked: 0,
            next: 0,
            sent: 0,
            cursor: 0,
            next_bytes: 0,
            sent_bytes: 0,
            unacked_bytes: 0,
            acked_bytes: 0,
            departures: InlineQueue::default(),
            repeats: BTreeSet::new(),
            recover: 0,
            answered_to: 0,
            reads: 0,
            read_gap: false,
            held_responses: HeldResponses::new(),
            retries_left: config.retry_cnt,
            rnr_left: config.rnr_retry,
            deadline: Picos::NEVER,
            rnr_until: Picos::NEVER,
            failed: false,
        }
    }

    /// Fetches the memory that nearly every packet uses, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.messages.prefetch();
        prefetch(&self.cursor);
        prefetch(&self.answered_to);
        prefetch(&self.held_responses);
    }

    pub(super) fn post(&mut self, config: &QpConfig, request: &WorkRequest) -> Result<(), PostError> {
        let bytes_max = message_bytes_max(config.transport, request.verb, config.mtu);
        let bytes_max = bytes_max.ok_or(PostError::Unsupported)?;
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

    /// Returns whether a packet exists and the windows permit it.
    #[inline]
    pub(super) fn can_send(&self, config: &QpConfig, congestion: &dyn CongestionControl) -> bool {
        if self.failed || self.rnr_until != Picos::NEVER {
            return false;
        }
        !self.repeats.is_empty()
            || self.may_start_next(config)
                && (self.window_has_room(config, congestion) || self.needs_window_probe(config))
    }

    /// Returns whether a new packet exists and the limits of outstanding packets and READs permit it. Does
    /// not check the windows.
    fn may_start_next(&self, config: &QpConfig) -> bool {
        self.messages.get(self.cursor).is_some_and(|message| {
            self.next - self.unacked < u64::from(OUTSTANDING_MAX)
                && (message.verb != Verb::Read || self.reads < u32::from(config.reads_max))
        })
    }

    /// Returns whether fewer packets and bytes are in flight than the windows permit. The result is always
    /// true for UC and UD. These services have no acknowledgements, so a full window would never open again.
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

    /// Returns whether the requester must send one packet beyond a full window, to request
    /// an acknowledgement.
    ///
    /// The packet is necessary in one case: the window has become smaller than the data in flight, and
    /// no sent packet requests an acknowledgement. A window of constant size does not need it, because
    /// [`next_packet`](Requester::next_packet) requests an acknowledgement with the packet that fills
    /// the window.
    fn needs_window_probe(&self, config: &QpConfig) -> bool {
        config.ack_every > 1 && self.next > self.unacked && !self.awaits_acknowledgement()
    }

    /// Returns whether a requested acknowledgement has not arrived yet.
    fn awaits_acknowledgement(&self) -> bool {
        self.answered_to > self.unacked
    }

    /// Returns whether all packets of the oldest message have been sent.
    #[inline]
    pub(super) fn has_sent_message(&self) -> bool {
        let oldest = self.messages.front();
        oldest.is_some_and(|message| message.end() <= self.sent)
    }

    /// Returns whether a packet is unsent or waits for retransmission. The windows are not checked.
    pub(super) fn has_data_left(&self) -> bool {
        !self.failed && (!self.repeats.is_empty() || self.messages.get(self.cursor).is_some())
    }

    /// Returns whether the queue pair has an incomplete message.
    pub(super) fn has_messages(&self) -> bool {
        self.messages.front().is_some()
    }

    fn inflight_bytes(&self) -> u64 {
        self.next_bytes.saturating_sub(self.unacked_bytes)
    }

    /// Takes the next packet. Returns `None` if no packet exists or the windows do not permit one.
    #[inline]
    pub(super) fn next_packet(&mut self, env: &mut QpContext<'_>) -> Option<Packet> {
        if !self.can_send(env.config, env.congestion) {
            return None;
        }
        let repeat = self.repeats.pop_first();
        let sequence = repeat.unwrap_or(self.next);
        let index = if repeat.is_some() {
            self.messages.index_of(sequence)
        } else {
            self.cursor
        };
        let message = *self.messages.get(index)?;
        let (mtu, transport) = (env.config.mtu, env.config.transport);
        let is_read = message.verb == Verb::Read;
        let payload_len = if is_read {
            0
        } else {
            message.payload_len(sequence, mtu)
        };
        let is_retransmission = sequence < self.sent;
        if is_retransmission {
            env.counters.retransmitted_packets += 1;
            env.shared.retransmitted_packets += 1;
        }
        match repeat {
            Some(_) => self.invalidate_departure_time(sequence),
            None => self.advance_next(env.now, &message, payload_len, is_retransmission),
        }
        let last = sequence + 1 == message.end();
        let ack_req = transport == Transport::Rc
            && !is_read
            && (last
                || is_retransmission && sequence == self.unacked
                || repeat.is_some()
                || env.config.ack_every > 1 && !self.window_has_room(env.config, env.congestion));
        if transport == Transport::Rc {
            if is_read {
                self.answered_to = self.answered_to.max(message.end());
            } else if ack_req || env.config.ack_every == 1 {
                self.answered_to = self.answered_to.max(sequence + 1);
            }
            // If no sent packet requests an acknowledgement, a missing acknowledgement is not a loss
            // (IBTA 9.7.6.1.3).
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

    /// Moves `next` behind a packet that is sent in order.
    fn advance_next(&mut self, now: Picos, message: &Message, payload_len: u32, is_retransmission: bool) {
        let sequence = self.next;
        if message.verb == Verb::Read {
            self.reads += 1;
            self.next = message.end();
        } else {
            self.next += 1;
            if !is_retransmission {
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

    fn invalidate_departure_time(&mut self, sequence: u64) {
        let index = self
            .departures
            .partition_point(|departure| departure.sequence < sequence);
        if let Some(departure) = self.departures.get_mut(index)
            && departure.sequence == sequence
        {
            departure.at = Picos::NEVER;
        }
    }

    /// Completes a UC or UD message when its last packet leaves.
    fn finish_unreliable(&mut self, env: &mut QpContext<'_>) {
        self.departures.clear();
        self.unacked = self.next;
        self.unacked_bytes = self.next_bytes;
        self.acked_bytes = self.next_bytes;
        self.pop_message(env);
    }

    fn pop_message(&mut self, env: &mut QpContext<'_>) {
        let Some(message) = self.messages.pop_front() else {
            return;
        };
        self.cursor = self.cursor.saturating_sub(1);
        if message.verb == Verb::Read {
            self.reads = self.reads.saturating_sub(1);
        }
        env.push_completion(CompletionKind::Acked { id: message.id });
    }

    /// Acknowledges all packets before `acked_end`. If a READ with missing responses comes first, stops there
    /// and returns `true`.
    #[inline]
    pub(super) fn acknowledge_before(&mut self, env: &mut QpContext<'_>, acked_end: u64) -> bool {
        let before = self.unacked;
        let mut found_read = false;
        while self.unacked < acked_end {
            match self.messages.front() {
                Some(front) if front.verb != Verb::Read => {
                    let end = front.end();
                    self.unacked = acked_end.min(end);
                    if self.unacked == end {
                        self.pop_message(env);
                    }
                }
                front => {
                    found_read = front.is_some();
                    break;
                }
            }
        }
        if self.unacked > before {
            self.update_after_ack(env);
        }
        found_read
    }

    /// Handles the arrival of the READ response with the lowest sequence number that was missing so far.
    /// `end` is the sequence number after the last response of the READ.
    pub(super) fn acknowledge_read_response(&mut self, env: &mut QpContext<'_>, end: u64) {
        self.unacked += 1;
        if self.unacked == end {
            self.pop_message(env);
        }
        self.update_after_ack(env);
    }

    #[inline(always)]
    fn update_after_ack(&mut self, env: &mut QpContext<'_>) {
        let mtu = env.config.mtu;
        self.unacked_bytes = self.messages.stream_offset_at(self.unacked, mtu);
        if self.next < self.unacked {
            // The retransmission was not necessary: the data had arrived.
            self.set_next(self.unacked, mtu);
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

    /// Reports an acknowledgement to congestion control. `acked_packet` is the sequence number that the
    /// acknowledgement names. `None` if it names no packet.
    #[inline(always)]
    pub(super) fn report_ack(
        &mut self,
        env: &mut QpContext<'_>,
        acked_packet: Option<u64>,
        marked: bool,
        telemetry: Option<&Telemetry>,
    ) {
        let mut rtt = None;
        while let Some(departure) = self.departures.front() {
            if departure.sequence >= self.unacked {
                break;
            }
            if acked_packet == Some(departure.sequence) && departure.at != Picos::NEVER {
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
        env.congestion.on_ack(env.now, &ack);
    }

    /// Resumes sending at an earlier sequence number.
    pub(super) fn rewind(&mut self, sequence: u64, mtu: u32) {
        self.set_next(sequence, mtu);
        self.departures.clear();
        self.repeats.clear();
        self.recover = 0;
        self.reads = 0;
        self.answered_to = self.answered_to.min(sequence);
        // The timeout starts when the packet is sent again.
        self.deadline = Picos::NEVER;
    }

    /// Restarts the message that contains `unacked`.
    pub(super) fn restart_message(&mut self, mtu: u32) {
        if let Some(front) = self.messages.front() {
            self.unacked = front.first;
            self.unacked_bytes = self.messages.stream_offset_at(self.unacked, mtu);
        }
        self.rewind(self.unacked, mtu);
    }

    fn set_next(&mut self, sequence: u64, mtu: u32) {
        self.next = sequence;
        self.cursor = self.messages.index_of(sequence);
        self.next_bytes = self.messages.stream_offset_at(sequence, mtu);
    }

    /// Schedules the retransmission of one packet, or of the READ that contains it. Packets that are not sent
    /// yet are ignored.
    pub(super) fn schedule_retransmission(&mut self, sequence: u64) {
        if sequence >= self.next {
            return;
        }
        let Some(message) = self.messages.get(self.messages.index_of(sequence)) else {
            return;
        };
        if message.verb != Verb::Read {
            self.repeats.insert(sequence);
        } else if sequence == message.first.max(self.unacked) {
            // NAKs arrive for every response of a lost READ request. The request is repeated only once.
            self.repeats.insert(sequence);
        }
    }

    /// Uses one retry. If no retry is left, fails the queue pair and returns `false`.
    pub(super) fn use_retry(&mut self, env: &mut QpContext<'_>) -> bool {
        if let Some(left) = self.retries_left.checked_sub(1) {
            self.retries_left = left;
            return true;
        }
        env.counters.req_transport_retries_exceeded += 1;
        self.fail_requests(env, FailReason::RetriesExceeded);
        false
    }

    /// Uses one RNR retry. If no RNR retry is left, fails the queue pair and returns `false`.
    pub(super) fn use_rnr_retry(&mut self, env: &mut QpContext<'_>) -> bool {
        if env.config.rnr_retry >= RETRY_MAX {
            return true;
        }
        if let Some(left) = self.rnr_left.checked_sub(1) {
            self.rnr_left = left;
            return true;
        }
        env.counters.req_rnr_retries_exceeded += 1;
        self.fail_requests(env, FailReason::RnrRetriesExceeded);
        false
    }

    /// Processes the timers that have expired: the local ACK timeout, the wait after an RNR NAK, and the
    /// tolerated reordering time.
    pub(super) fn process_timers(&mut self, env: &mut QpContext<'_>) {
        if self.rnr_until <= env.now {
            self.rnr_until = Picos::NEVER;
        }
        if self.held_responses.gap_deadline <= env.now {
            self.request_missing_responses(env);
        }
        if self.deadline > env.now {
            return;
        }
        self.deadline = Picos::NEVER;
        if self.unacked >= self.next {
            return; // nothing is in flight: a rewind came after the last packet
        }
        env.counters.local_ack_timeout_err += 1;
        env.shared.timeouts += 1;
        if !self.use_retry(env) {
            return;
        }
        env.congestion.on_timeout(env.now);
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

    /// Fails the oldest request for the reason `why`, and flushes all other requests.
    pub(super) fn fail_requests(&mut self, env: &mut QpContext<'_>, why: FailReason) {
        self.failed = true;
        let mut why = why;
        while let Some(message) = self.messages.pop_front() {
            env.push_completion(CompletionKind::Failed { id: message.id, why });
            why = FailReason::Flushed;
        }
        self.rewind(self.messages.end(), env.config.mtu);
        self.unacked = self.next;
        self.unacked_bytes = self.next_bytes;
        self.sent = self.next;
        self.rnr_until = Picos::NEVER;
        self.held_responses.clear();
    }

    /// Returns the time at which the next timer of the requester expires. Returns [`Picos::NEVER`] if no
    /// timer runs.
    pub(super) fn next_deadline(&self) -> Picos {
        self.deadline
            .min(self.rnr_until)
            .min(self.held_responses.gap_deadline)
    }
}
