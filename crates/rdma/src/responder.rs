//! The receiving side of a queue pair: puts requests in order and answers them (IBTA 9.7.4 to 9.7.5).

use xoff_units::Picos;
use xoff_wire::NakCode;

use super::config::{QpConfig, ReceiveQueue, Recovery, Transport};
use super::messages::packets_of;
use super::packet::Packet;
use super::replies::{Replies, Reply};
use super::request::Request;
use super::sequence::Numbering;
use super::shared::Env;
use super::window::ReorderWindow;
use super::work::{Arrival, CompletionKind, Verb};

/// A message that has begun and not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    first: u64,
    verb: Verb,
    bytes: u64,
    dma_len: u32,
}

/// Why a request in its turn was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// No receive entry.
    NotReady,
    /// It is malformed or out of place.
    Invalid,
}

/// State of the receiving side.
#[derive(Debug)]
pub(super) struct Responder {
    numbering: Numbering,
    /// Sequence number of the oldest request missing.
    pub(super) expected: u64,
    open: Option<Open>,
    /// SEND and WRITE messages that arrived whole.
    received: u64,
    /// Receive entries left.
    pub(super) receive_entries: u64,
    /// Entries are re-posted from then on ([`ReceiveQueue::Reposted`]).
    reposting_since: Picos,
    /// The gap at `expected` has been named: silence until it is filled.
    silent: bool,
    pub(super) failed: bool,
    window: ReorderWindow,
    /// All that is missing before this has been named (when packets behind a gap are kept).
    named: u64,
    /// When a gap that is tolerated will be complained of.
    pub(super) gap_deadline: Picos,
    pub(super) replies: Replies,
}

impl Responder {
    pub(super) fn new(config: &QpConfig) -> Responder {
        Responder {
            numbering: Numbering::new(config.peer_first_psn),
            expected: 0,
            open: None,
            received: 0,
            receive_entries: match config.receive_queue {
                ReceiveQueue::Reposted { depth, .. } => u64::from(depth),
                ReceiveQueue::Unlimited | ReceiveQueue::Posted => 0,
            },
            reposting_since: Picos::ZERO,
            silent: false,
            failed: false,
            window: ReorderWindow::default(),
            named: 0,
            gap_deadline: Picos::NEVER,
            replies: Replies::default(),
        }
    }

    /// A request packet arrives.
    #[inline]
    pub(super) fn on_request(&mut self, env: &mut Env<'_>, packet: &Packet, arrival: &Arrival<'_>) {
        let request = Request::of(packet).filter(|(transport, _)| *transport == env.config.transport);
        let sequence = self.numbering.sequence(packet.psn, self.expected);
        let (Some((transport, request)), Some(sequence)) = (request, sequence) else {
            env.counters.rx_discarded += 1;
            return;
        };
        if self.failed {
            return;
        }
        match transport {
            Transport::Rc => self.on_reliable(env, sequence, request, arrival),
            Transport::Uc => self.on_unreliable(env, sequence, request),
            Transport::Ud => {
                self.open = None;
                let _ = self.execute(env, self.expected, request);
            }
        }
    }

    fn on_reliable(&mut self, env: &mut Env<'_>, sequence: u64, request: Request, arrival: &Arrival<'_>) {
        if env.config.recovery == Recovery::GoBackZero
            && request.first
            && self.open.is_some_and(|open| open.first == sequence)
        {
            self.restart_message(env.config);
        }
        if sequence == self.expected {
            self.silent = false;
            self.replies.note(env, arrival);
            self.in_turn(env, request, arrival);
        } else if sequence < self.expected {
            self.replies.note(env, arrival);
            self.on_duplicate(env, sequence, request, arrival);
        } else if env.config.reorders() && !self.silent {
            self.hold(env, sequence, request, arrival);
        } else {
            self.on_gap(env);
        }
    }

    /// Executes the request whose turn it is, and those held behind it.
    fn in_turn(&mut self, env: &mut Env<'_>, request: Request, arrival: &Arrival<'_>) {
        let mut request = request;
        let (mut executed, mut wanted, mut acknowledge) = (0, false, None);
        let refusal = loop {
            if let Err(refusal) = self.execute(env, self.expected, request) {
                break Some(refusal);
            }
            let mut numbers = 1;
            if request.verb == Verb::Read {
                // Its responses acknowledge all before it.
                numbers = packets_of(request.dma_len, env.config.mtu);
                (executed, wanted, acknowledge) = (0, false, None);
                self.replies.since_ack = 0;
            }
            self.expected += u64::from(numbers);
            if request.verb != Verb::Read {
                executed += 1;
                wanted |= request.ack_req || request.last;
                acknowledge = Some(self.expected);
            }
            if self.window.is_empty() {
                break None;
            }
            match self.window.shift(u64::from(numbers)) {
                Some(held) => request = held,
                None => break None,
            }
        };
        if let Some(refusal) = refusal {
            self.refuse(env, refusal);
        } else if let Some(through) = acknowledge {
            self.replies.count(env, executed, wanted, through, arrival);
        }
        self.watch_gap(env);
    }

    /// Sets the clock on the gap that is now the oldest.
    fn watch_gap(&mut self, env: &Env<'_>) {
        let tolerated = env.config.out_of_order.filter(|_| !self.window.is_empty());
        self.gap_deadline = tolerated.map_or(Picos::NEVER, |time| env.now.saturating_add(time));
    }

    /// One request in its turn.
    #[inline(always)]
    fn execute(&mut self, env: &mut Env<'_>, sequence: u64, request: Request) -> Result<(), Refusal> {
        if request.verb == Verb::Read {
            if self.open.is_some() || !self.replies.read(env.config.mtu, sequence, request.dma_len) {
                return Err(Refusal::Invalid);
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
        if !fits || request.first == self.open.is_some() {
            return Err(Refusal::Invalid);
        }
        let mut open = match self.open {
            Some(open) if open.verb == request.verb => open,
            Some(_) => return Err(Refusal::Invalid),
            None => self.begin(env, sequence, request)?,
        };
        open.bytes += u64::from(request.payload_len);
        if !request.last {
            self.open = Some(open);
            return Ok(());
        }
        if open.verb == Verb::Write && open.bytes != u64::from(open.dma_len) {
            return Err(Refusal::Invalid);
        }
        self.open = None;
        self.replies.messages += 1;
        env.complete(CompletionKind::Received {
            message: self.received,
            bytes: open.bytes,
            verb: open.verb,
        });
        self.received += 1;
        Ok(())
    }

    /// The first packet of a SEND or WRITE.
    fn begin(&mut self, env: &mut Env<'_>, first: u64, request: Request) -> Result<Open, Refusal> {
        if request.verb == Verb::Write {
            env.counters.rx_write_requests += 1;
        } else if env.config.receive_queue != ReceiveQueue::Unlimited {
            self.repost(env);
            let Some(left) = self.receive_entries.checked_sub(1) else {
                env.counters.out_of_buffer += 1;
                return Err(Refusal::NotReady);
            };
            self.receive_entries = left;
        }
        Ok(Open {
            first,
            verb: request.verb,
            bytes: 0,
            dma_len: request.dma_len,
        })
    }

    /// Adds the receive entries that the application has re-posted since the last call.
    fn repost(&mut self, env: &Env<'_>) {
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

    fn refuse(&mut self, env: &mut Env<'_>, refusal: Refusal) {
        self.window.clear();
        self.named = self.expected;
        match refusal {
            Refusal::NotReady => {
                self.silent = true;
                self.replies.answer(env, Reply::Rnr(self.expected), None);
            }
            Refusal::Invalid => {
                env.counters.resp_invalid_requests += 1;
                self.failed = true;
                self.replies
                    .answer(env, Reply::Nak(self.expected, NakCode::InvalidRequest), None);
            }
        }
    }

    /// A request that had arrived: acknowledged again, or read again.
    fn on_duplicate(&mut self, env: &mut Env<'_>, sequence: u64, request: Request, arrival: &Arrival<'_>) {
        env.counters.duplicate_request += 1;
        if request.verb != Verb::Read {
            let wanted = request.ack_req || request.last;
            self.replies.count(env, 1, wanted, self.expected, arrival);
            return;
        }
        let end = sequence + u64::from(packets_of(request.dma_len, env.config.mtu));
        if end <= self.expected {
            env.counters.rx_read_requests += 1;
            self.replies.read_again(env.config.mtu, sequence, request.dma_len);
        }
    }

    /// Something behind a gap that is not kept.
    fn on_gap(&mut self, env: &mut Env<'_>) {
        env.counters.out_of_sequence += 1;
        if self.silent {
            return;
        }
        self.silent = true;
        if env.config.recovery == Recovery::GoBackZero {
            self.restart_message(env.config);
        }
        self.replies
            .answer(env, Reply::Nak(self.expected, NakCode::PsnSequenceError), None);
    }

    /// The message that has begun is forgotten and expected from its start.
    fn restart_message(&mut self, config: &QpConfig) {
        let Some(open) = self.open.take() else {
            return;
        };
        self.expected = open.first;
        self.replies.since_ack = 0;
        if open.verb == Verb::Send && config.receive_queue != ReceiveQueue::Unlimited {
            self.receive_entries += 1;
        }
    }

    /// Something behind a gap that is kept.
    fn hold(&mut self, env: &mut Env<'_>, sequence: u64, request: Request, arrival: &Arrival<'_>) {
        env.counters.out_of_sequence += 1;
        let places_max = env.config.reorder_window_packets as usize + 1;
        let ahead = usize::try_from(sequence - self.expected).unwrap_or(usize::MAX);
        if ahead >= places_max {
            // No room: whatever the gap is, it has lasted too long.
            self.name_missing(env);
            return;
        }
        self.replies.note(env, arrival);
        let numbers = match request.verb {
            Verb::Read => packets_of(request.dma_len, env.config.mtu),
            Verb::Send | Verb::Write => 1,
        };
        if !self.window.hold(ahead, request, numbers, places_max) {
            env.counters.duplicate_request += 1;
        } else if env.config.out_of_order.is_none() {
            self.name_missing(env);
        } else if self.gap_deadline == Picos::NEVER && self.named <= self.expected {
            self.watch_gap(env);
        }
    }

    /// Names what is missing and has not been named.
    fn name_missing(&mut self, env: &mut Env<'_>) {
        self.gap_deadline = Picos::NEVER;
        let from = self.named.max(self.expected);
        if env.config.recovery != Recovery::SelectiveRepeat {
            if self.named <= self.expected {
                self.named = self.expected + 1;
                self.replies
                    .answer(env, Reply::Nak(self.expected, NakCode::PsnSequenceError), None);
            }
            return;
        }
        if self.replies.since_ack > 0 {
            self.replies.answer(env, Reply::Ack(self.expected), None);
        }
        let end = self.expected + self.window.len() as u64;
        for sequence in from..end {
            if self.window.is_missing((sequence - self.expected) as usize) {
                self.replies.selective_nak(env, sequence);
            }
        }
        self.named = from.max(end);
    }

    /// A gap may have lasted as long as is tolerated.
    pub(super) fn expire(&mut self, env: &mut Env<'_>) {
        if self.gap_deadline <= env.now {
            self.name_missing(env);
        }
    }

    /// Unreliable connection: a gap costs the message that it lies in, and all up to the next first packet.
    fn on_unreliable(&mut self, env: &mut Env<'_>, sequence: u64, request: Request) {
        if sequence < self.expected {
            env.counters.duplicate_request += 1;
            return;
        }
        if sequence > self.expected {
            env.counters.out_of_sequence += 1;
            self.open = None;
        }
        if request.first {
            self.open = None;
        }
        self.expected = sequence + 1;
        if (request.first || self.open.is_some()) && self.execute(env, sequence, request).is_err() {
            self.open = None;
        }
    }
}
