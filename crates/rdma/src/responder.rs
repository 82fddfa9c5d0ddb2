//! The responder of a queue pair. The responder brings requests into order and answers them (IBTA 9.7.4
//! to 9.7.5).

use xoff_units::Picos;
use xoff_wire::NakCode;

use super::config::{QpConfig, ReceiveQueue, Recovery, Transport};
use super::messages::packet_count;
use super::packet::Packet;
use super::reorder_window::ReorderWindow;
use super::replies::{Reply, ReplyQueue};
use super::request::RequestPacket;
use super::sequence::PsnNumbering;
use super::state::QpContext;
use super::work::{ArrivalInfo, CompletionKind, Verb};

/// A message that has arrived only in part: at least one packet has arrived, but the last packet is missing.
#[derive(Clone, Copy, Debug)]
struct PartialMessage {
    first: u64,
    verb: Verb,
    bytes: u64,
    dma_len: u32,
}

/// Reason why a request was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestError {
    /// No receive entry is free for a SEND.
    NotReady,
    /// The request is malformed, or it is not possible at this position of a message.
    Invalid,
}

/// State of the responder. A request in order uses the first cache line and the beginning of the second one.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Responder {
    /// Sequence number of the oldest missing request.
    pub(super) expected: u64,
    /// Time at which a tolerated gap is reported with a NAK. [`Picos::NEVER`] if no gap is tolerated now.
    pub(super) gap_deadline: Picos,
    /// Number of complete SEND and WRITE messages.
    received: u64,
    partial: Option<PartialMessage>,
    window: ReorderWindow,
    numbering: PsnNumbering,
    /// True if a NAK for the gap at `expected` has been sent. The responder then sends no further NAK until
    /// the gap is filled.
    has_sent_nak: bool,
    pub(super) failed: bool,
    pub(super) replies: ReplyQueue,
    /// Number of free receive entries.
    pub(super) receive_entries: u64,
    /// Start of the current interval of [`ReceiveQueue::Reposted`].
    reposting_since: Picos,
    /// Used with a reorder window. The responder has sent NAKs for all missing packets before this
    /// sequence number.
    reported_before: u64,
}

impl Responder {
    pub(super) fn new(config: &QpConfig) -> Responder {
        Responder {
            numbering: PsnNumbering::new(config.peer_first_psn),
            expected: 0,
            partial: None,
            received: 0,
            receive_entries: match config.receive_queue {
                ReceiveQueue::Reposted { depth, .. } => u64::from(depth),
                ReceiveQueue::Unlimited | ReceiveQueue::Posted => 0,
            },
            reposting_since: Picos::ZERO,
            has_sent_nak: false,
            failed: false,
            window: ReorderWindow::default(),
            reported_before: 0,
            gap_deadline: Picos::NEVER,
            replies: ReplyQueue::default(),
        }
    }

    /// Processes a request packet.
    #[inline]
    pub(super) fn on_request(&mut self, env: &mut QpContext<'_>, packet: &Packet, arrival: &ArrivalInfo<'_>) {
        let request =
            RequestPacket::parse(packet).filter(|(transport, _)| *transport == env.config.transport);
        let sequence = self.numbering.nearest_sequence(packet.psn, self.expected);
        let (Some((transport, request)), Some(sequence)) = (request, sequence) else {
            env.counters.rx_discarded += 1;
            return;
        };
        if self.failed {
            return;
        }
        match transport {
            Transport::Rc => self.on_rc_request(env, sequence, request, arrival),
            Transport::Uc => self.on_uc_request(env, sequence, request),
            Transport::Ud => {
                self.partial = None;
                let _ = self.execute_request(env, self.expected, request);
            }
        }
    }

    fn on_rc_request(
        &mut self,
        env: &mut QpContext<'_>,
        sequence: u64,
        request: RequestPacket,
        arrival: &ArrivalInfo<'_>,
    ) {
        if env.config.recovery == Recovery::GoBackZero
            && request.first
            && self.partial.is_some_and(|partial| partial.first == sequence)
        {
            self.restart_message(env.config);
        }
        if sequence == self.expected {
            self.has_sent_nak = false;
            self.replies.store_ecn_mark(env, arrival);
            self.execute_in_order(env, request, arrival);
        } else if sequence < self.expected {
            self.replies.store_ecn_mark(env, arrival);
            self.on_duplicate(env, sequence, request, arrival);
        } else if env.config.reorders() && !self.has_sent_nak {
            self.store_in_window(env, sequence, request, arrival);
        } else {
            self.on_gap(env);
        }
    }

    /// Executes the next request in order, and then the requests that follow it in the reorder window.
    fn execute_in_order(
        &mut self,
        env: &mut QpContext<'_>,
        request: RequestPacket,
        arrival: &ArrivalInfo<'_>,
    ) {
        let mut request = request;
        let (mut executed, mut ack_requested, mut acknowledge) = (0, false, None);
        let error = loop {
            if let Err(error) = self.execute_request(env, self.expected, request) {
                break Some(error);
            }
            let mut sequence_count = 1;
            if request.verb == Verb::Read {
                // The READ responses acknowledge all earlier requests.
                sequence_count = packet_count(request.dma_len, env.config.mtu);
                (executed, ack_requested, acknowledge) = (0, false, None);
                self.replies.since_ack = 0;
            }
            self.expected += u64::from(sequence_count);
            if request.verb != Verb::Read {
                executed += 1;
                ack_requested |= request.ack_req || request.last;
                acknowledge = Some(self.expected);
            }
            if self.window.is_empty() {
                break None;
            }
            match self.window.advance(u64::from(sequence_count)) {
                Some(held) => request = held,
                None => break None,
            }
        };
        if let Some(error) = error {
            self.reject_request(env, error);
        } else if let Some(acked_end) = acknowledge {
            self.replies
                .count_packets(env, executed, ack_requested, acked_end, arrival);
        }
        self.start_gap_timer(env);
    }

    /// Starts the timer of the gap that is now the oldest gap. Stops the timer if no gap is tolerated.
    fn start_gap_timer(&mut self, env: &QpContext<'_>) {
        self.gap_deadline = match env.config.out_of_order {
            _ if self.window.is_empty() => Picos::NEVER,
            None => Picos::NEVER,
            Some(tolerated) => env.now.saturating_add(tolerated),
        };
    }

    /// Executes one request.
    #[inline(always)]
    fn execute_request(
        &mut self,
        env: &mut QpContext<'_>,
        sequence: u64,
        request: RequestPacket,
    ) -> Result<(), RequestError> {
        if request.verb == Verb::Read {
            if self.partial.is_some() || !self.replies.push_read(env.config.mtu, sequence, request.dma_len) {
                return Err(RequestError::Invalid);
            }
            env.counters.rx_read_requests += 1;
            self.replies.messages += 1;
            return Ok(());
        }
        let mtu = env.config.mtu;
        let fits = match (request.first, request.last) {
            (true, true) => request.payload_len <= mtu,
            (false, true) => (1..=mtu).contains(&request.payload_len),
            (_, false) => request.payload_len == mtu,
        };
        if !fits || request.first == self.partial.is_some() {
            return Err(RequestError::Invalid);
        }
        let mut partial = match self.partial {
            Some(partial) if partial.verb == request.verb => partial,
            Some(_) => return Err(RequestError::Invalid),
            None => self.begin_message(env, sequence, request)?,
        };
        partial.bytes += u64::from(request.payload_len);
        if !request.last {
            self.partial = Some(partial);
            return Ok(());
        }
        if partial.verb == Verb::Write && partial.bytes != u64::from(partial.dma_len) {
            return Err(RequestError::Invalid);
        }
        self.partial = None;
        self.replies.messages += 1;
        env.push_completion(CompletionKind::Received {
            message: self.received,
            bytes: partial.bytes,
            verb: partial.verb,
        });
        self.received += 1;
        Ok(())
    }

    /// Processes the first packet of a SEND or WRITE.
    fn begin_message(
        &mut self,
        env: &mut QpContext<'_>,
        first: u64,
        request: RequestPacket,
    ) -> Result<PartialMessage, RequestError> {
        if request.verb == Verb::Write {
            env.counters.rx_write_requests += 1;
        } else if env.config.receive_queue != ReceiveQueue::Unlimited {
            self.repost_receive_entries(env);
            let Some(left) = self.receive_entries.checked_sub(1) else {
                env.counters.out_of_buffer += 1;
                return Err(RequestError::NotReady);
            };
            self.receive_entries = left;
        }
        Ok(PartialMessage {
            first,
            verb: request.verb,
            bytes: 0,
            dma_len: request.dma_len,
        })
    }

    /// Adds the receive entries that the application has posted since the previous
    /// call ([`ReceiveQueue::Reposted`]).
    fn repost_receive_entries(&mut self, env: &QpContext<'_>) {
        let ReceiveQueue::Reposted { depth, interval_ps } = env.config.receive_queue else {
            return;
        };
        let missing = u64::from(depth).saturating_sub(self.receive_entries);
        let interval_ps = interval_ps.max(1);
        let reposted = env.now.since(self.reposting_since).0 / interval_ps;
        if reposted >= missing {
            self.receive_entries += missing;
            self.reposting_since = env.now;
        } else {
            self.receive_entries += reposted;
            self.reposting_since += Picos(reposted * interval_ps);
        }
    }

    fn reject_request(&mut self, env: &mut QpContext<'_>, error: RequestError) {
        self.window.clear();
        self.reported_before = self.expected;
        match error {
            RequestError::NotReady => {
                self.has_sent_nak = true;
                self.replies.send_reply(env, Reply::Rnr(self.expected), None);
            }
            RequestError::Invalid => {
                env.counters.resp_invalid_requests += 1;
                self.failed = true;
                self.replies
                    .send_reply(env, Reply::Nak(self.expected, NakCode::InvalidRequest), None);
            }
        }
    }

    /// Processes a request that had already arrived. A READ is answered again. A request that is not a READ
    /// is acknowledged again.
    fn on_duplicate(
        &mut self,
        env: &mut QpContext<'_>,
        sequence: u64,
        request: RequestPacket,
        arrival: &ArrivalInfo<'_>,
    ) {
        env.counters.duplicate_request += 1;
        if request.verb != Verb::Read {
            let ack_requested = request.ack_req || request.last;
            self.replies
                .count_packets(env, 1, ack_requested, self.expected, arrival);
            return;
        }
        let end = sequence + u64::from(packet_count(request.dma_len, env.config.mtu));
        if end <= self.expected {
            env.counters.rx_read_requests += 1;
            self.replies
                .restart_read(env.config.mtu, sequence, request.dma_len);
        }
    }

    /// Handles a request after a gap, without a reorder window.
    fn on_gap(&mut self, env: &mut QpContext<'_>) {
        env.counters.out_of_sequence += 1;
        if self.has_sent_nak {
            return;
        }
        self.has_sent_nak = true;
        if env.config.recovery == Recovery::GoBackZero {
            self.restart_message(env.config);
        }
        self.replies
            .send_reply(env, Reply::Nak(self.expected, NakCode::PsnSequenceError), None);
    }

    /// Discards a message that has arrived only in part. The responder then expects the first packet of this
    /// message again.
    fn restart_message(&mut self, config: &QpConfig) {
        let Some(partial) = self.partial.take() else {
            return;
        };
        self.expected = partial.first;
        self.replies.since_ack = 0;
        if partial.verb == Verb::Send && config.receive_queue != ReceiveQueue::Unlimited {
            self.receive_entries += 1;
        }
    }

    /// Stores a request in the reorder window. The request arrived after a gap.
    fn store_in_window(
        &mut self,
        env: &mut QpContext<'_>,
        sequence: u64,
        request: RequestPacket,
        arrival: &ArrivalInfo<'_>,
    ) {
        env.counters.out_of_sequence += 1;
        let slots_max = env.config.reorder_window_packets as usize + 1;
        let ahead = usize::try_from(sequence - self.expected).unwrap_or(usize::MAX);
        if ahead >= slots_max {
            // The window is full, so the gap is treated as a loss.
            self.send_missing_naks(env);
            return;
        }
        self.replies.store_ecn_mark(env, arrival);
        let sequence_count = match request.verb {
            Verb::Read => packet_count(request.dma_len, env.config.mtu),
            Verb::Send | Verb::Write => 1,
        };
        if !self.window.store(ahead, request, sequence_count, slots_max) {
            env.counters.duplicate_request += 1;
        } else if env.config.out_of_order.is_none() {
            self.send_missing_naks(env);
        } else if self.gap_deadline == Picos::NEVER && self.reported_before <= self.expected {
            self.start_gap_timer(env);
        }
    }

    /// Sends NAKs for the missing packets for which none has been sent.
    fn send_missing_naks(&mut self, env: &mut QpContext<'_>) {
        self.gap_deadline = Picos::NEVER;
        let from = self.reported_before.max(self.expected);
        if env.config.recovery != Recovery::SelectiveRepeat {
            if self.reported_before <= self.expected {
                self.reported_before = self.expected + 1;
                self.replies
                    .send_reply(env, Reply::Nak(self.expected, NakCode::PsnSequenceError), None);
            }
            return;
        }
        if self.replies.since_ack > 0 {
            self.replies.send_reply(env, Reply::Ack(self.expected), None);
        }
        let end = self.expected + self.window.len() as u64;
        for sequence in from..end {
            if self.window.is_missing((sequence - self.expected) as usize) {
                self.replies.send_selective_nak(env, sequence);
            }
        }
        self.reported_before = from.max(end);
    }

    /// Processes the end of the tolerated reordering time.
    pub(super) fn process_gap_timer(&mut self, env: &mut QpContext<'_>) {
        if self.gap_deadline <= env.now {
            self.send_missing_naks(env);
        }
    }

    /// Processes a request of an unreliable connection (UC). If a packet is missing, its whole message is
    /// discarded. All further packets are discarded until the first packet of the next message arrives.
    fn on_uc_request(&mut self, env: &mut QpContext<'_>, sequence: u64, request: RequestPacket) {
        if sequence < self.expected {
            env.counters.duplicate_request += 1;
            return;
        }
        if sequence > self.expected {
            env.counters.out_of_sequence += 1;
            self.partial = None;
        }
        if request.first {
            self.partial = None;
        }
        self.expected = sequence + 1;
        if (request.first || self.partial.is_some()) && self.execute_request(env, sequence, request).is_err()
        {
            self.partial = None;
        }
    }
}
