//! The host itself: NIC, flows, receiver and neighbours put together.

use std::collections::VecDeque;
use std::net::IpAddr;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{LinkTiming, Picos};
use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::vlan::TAG_LEN;
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_MAC_CONTROL, MacControl, RoceView};

use super::config::{HostConfig, HostConfigError};
use super::intake::Intake;
use super::neighbour::{ANSWER_LEN_MAX, ControlFrame, Neighbours};
use super::nic::{Nic, Turn};
use super::queue_pairs::{Depth, Emitted, QueuePairSetup, QueuePairs};
use super::receiver::Receiver;
use super::requester::Requester;
use super::schedule::ClassQueue;
use super::trimmed::is_trimmed;
use xoff_rdma::{Completion, Counters, Endpoint, PostError, QpIndex, Telemetry, WorkRequest};

mod results;

pub use results::{HostResults, SentFlow, flow_report};

/// The longest headers that are written of a frame of which nothing else is: Ethernet, tag, IPv6, UDP, BTH and RETH.
pub const HEADERS_LEN_MAX: usize = 94;
/// PFC frames and frames given as bytes that wait at most; the state that a PFC frame would announce stays to be announced.
const PFC_OUTBOX_MAX: usize = 64;
/// Longest frame that [`Host::send_frame`] takes, without FCS: the largest MTU of a veth or tap, an Ethernet header, a VLAN tag.
pub const SENT_FRAME_LEN_MAX: usize = 65_535 + ETHERNET_LEN + TAG_LEN;

/// A model host, sans-IO: a function of what arrives and of the time it is told.
///
/// Contract: call [`Host::receive`] for each frame as it arrives, then [`Host::transmit`] until it returns `None`; call again
/// at [`Host::next_deadline`] or when something arrives, whichever is first. Calling later is allowed and
/// never makes it send faster than its link: up to 32 frames catch up, the rest of the lost time is recorded.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    nic: Nic,
    intake: Option<Intake>,
    neighbours: Neighbours,
    /// PFC frames of our own that wait for the frame in transmission; they go first, in order.
    pfc_outbox: VecDeque<ControlFrame>,
    flows: Vec<Requester>,
    queues: [ClassQueue; PRIORITIES],
    queue_pairs: QueuePairs,
    /// A queue pair sent last: where both have something to send, flows and queue pairs take turns.
    queue_pair_sent: bool,
    receiver: Receiver,
    sent_frames: u64,
    /// Length of the longest frame that was given as bytes.
    given_len_max: usize,
}

/// Why a host does not send a frame that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRefused {
    /// As many frames wait for the link as may.
    #[error("{PFC_OUTBOX_MAX} frames wait for the host's link already")]
    QueueFull,
    /// No link carries a frame of this length.
    #[error("a frame of {frame_len} bytes cannot be sent, {ETHERNET_LEN} to {SENT_FRAME_LEN_MAX} bytes can")]
    Length {
        /// Its length in bytes, without FCS.
        frame_len: usize,
    },
}

/// A frame that arrives, as virtual time has it: its headers, and what is known of the rest.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// What is stored of it: the headers at least.
    pub prefix: &'a [u8],
    /// Its length, as a socket would see it.
    pub frame_len: u32,
    /// What its headers say.
    pub parsed: &'a ParsedHeaders,
    /// Its ICRC is wrong.
    pub damaged: bool,
    /// What it has collected on its way.
    pub telemetry: Option<&'a Telemetry>,
}

impl Host {
    /// A host that does not send yet.
    ///
    /// # Errors
    /// A value out of its range: see [`HostConfig::check`].
    pub fn new(config: &HostConfig) -> Result<Host, HostConfigError> {
        config.check()?;
        let token = (!config.accept_any_token).then_some(config.token);
        let mut neighbours = Neighbours::new(config);
        for flow in config.flows.iter().filter(|flow| flow.dst_mac.is_none()) {
            neighbours.resolve(config.next_hop(flow.dst_ip));
        }
        Ok(Host {
            queue_pairs: QueuePairs::new(config),
            queue_pair_sent: false,
            config: config.clone(),
            nic: Nic::new(&config.nic),
            intake: config
                .nic
                .receive_buffer
                .map(|buffer| Intake::new(buffer, &config.nic.link)),
            neighbours,
            pfc_outbox: VecDeque::new(),
            flows: config
                .flows
                .iter()
                .map(|flow| Requester::new(flow, config))
                .collect(),
            queues: Default::default(),
            receiver: Receiver::new(token, config.dilate),
            sent_frames: 0,
            given_len_max: 0,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Speed and framing of its link.
    pub fn link(&self) -> &LinkTiming {
        self.nic.link()
    }

    /// How long a frame of `frame_len` octets, as a socket sees it, occupies the link.
    #[inline]
    pub fn occupied(&self, frame_len: u32) -> Picos {
        self.nic.duration(frame_len)
    }

    /// Length of the longest frame it builds; [`Host::transmit`] wants a buffer of that.
    pub fn frame_len_max(&self) -> usize {
        // Answers to an echo request are as long as the request.
        let longest = self.flows.iter().map(Requester::frame_len_max).max();
        longest
            .unwrap_or_default()
            .max(ANSWER_LEN_MAX)
            .max(self.queue_pairs.frame_len_max)
            .max(self.given_len_max)
    }

    /// Whether what it builds next in virtual time is headers, at most [`HEADERS_LEN_MAX`] octets: nothing that is stored whole waits.
    #[inline]
    pub fn writes_headers_only(&self) -> bool {
        self.flows.is_empty() && self.control_front().is_none()
    }

    /// How late [`Host::transmit`] may be called without losing link time: what 32 of its longest frames take;
    /// [`Picos::NEVER`] for a host without flows.
    pub fn catch_up_span(&self) -> Picos {
        let longest = self.flows.iter().map(Requester::frame_len_max).max();
        let longest = longest.max(Some(self.queue_pairs.frame_len_max).filter(|len| *len > 0));
        longest.map_or(Picos::NEVER, |frame_len| self.nic.catch_up_span(frame_len as u32))
    }

    /// Starts the flows: a flow's own start time counts from `now`. The host announces itself again, in case the network
    /// was not there when it did before.
    pub fn start(&mut self, now: Picos) {
        self.neighbours.announce_again(now);
        for index in 0..self.flows.len() {
            if !self.flows[index].config().waits {
                self.start_at(index, now);
            }
        }
    }

    /// Starts one flow, by its number; its own start time counts from `now`. False if there is none of that number. One that
    /// sends already goes on.
    #[must_use = "false: there is no such flow"]
    pub fn start_flow(&mut self, now: Picos, flow: u32) -> bool {
        let index = self.flow_index(flow);
        if let Some(index) = index {
            self.start_at(index, now);
        }
        index.is_some()
    }

    /// Stops one flow, by its number; it may be started again and goes on where it was. False if there is none of that number.
    #[must_use = "false: there is no such flow"]
    pub fn stop_flow(&mut self, flow: u32) -> bool {
        let Some(index) = self.flow_index(flow) else {
            return false;
        };
        let flow = &mut self.flows[index];
        flow.started_at = None;
        self.queues[usize::from(flow.config().class)].remove(index as u32);
        true
    }

    fn flow_index(&self, flow: u32) -> Option<usize> {
        self.flows.iter().position(|own| own.config().id == flow)
    }

    fn start_at(&mut self, index: usize, now: Picos) {
        if self.flows[index].started_at.is_none() {
            self.flows[index].started_at = Some(now);
            self.enqueue_first(index, now);
        }
    }

    /// Stops all flows. What was not sent is not sent any more, nor counted as sent.
    pub fn stop(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.started_at = None);
        self.queues.iter_mut().for_each(ClassQueue::clear);
    }

    /// Whether some flow has still something to send, now or later.
    pub fn is_sending(&self) -> bool {
        let sends = |flow: &Requester| flow.started_at.is_some() && !flow.is_finished();
        self.flows.iter().any(sends)
    }

    /// Destinations that have not said their MAC address yet.
    pub fn unresolved(&self) -> impl Iterator<Item = IpAddr> {
        self.neighbours.unresolved()
    }

    /// Frames that the flows have sent so far.
    pub fn sent_frames(&self) -> u64 {
        self.sent_frames
    }

    /// Frames of flows that have arrived so far.
    pub fn received_frames(&self) -> u64 {
        self.receiver.received_frames()
    }

    /// Takes a frame that arrived at model time `now`, when the wall clock stood at `wall_ns`.
    pub fn receive(&mut self, now: Picos, wall_ns: u64, frame: &[u8], parsed: &ParsedHeaders) {
        let inbound = Inbound {
            prefix: frame,
            frame_len: frame.len() as u32,
            parsed,
            damaged: false,
            telemetry: None,
        };
        self.queue_pairs.begin_event(now);
        self.take(now, wall_ns, &inbound);
        self.queue_pairs.end_event(now);
    }

    fn take(&mut self, now: Picos, wall_ns: u64, inbound: &Inbound<'_>) {
        let Inbound {
            prefix: frame,
            parsed,
            ..
        } = *inbound;
        if !self.admit(now, inbound) {
            return;
        }
        match RoceView::new_checked(frame) {
            Ok(view) if self.queue_pairs.is_empty() => self.receiver.receive(now, wall_ns, frame, &view),
            Ok(view) => {
                if !view.icrc_is_valid() || !self.queue_pairs.receive(now, frame, parsed, None) {
                    self.receiver.receive(now, wall_ns, frame, &view);
                }
            }
            Err(_) if is_trimmed(frame, parsed) => self.receiver.totals.trimmed_frames += 1,
            Err(_) => self.receive_other(now, inbound),
        }
    }

    /// Takes a frame in virtual time, at `now`.
    #[inline]
    pub fn receive_virtual(&mut self, now: Picos, inbound: &Inbound<'_>) {
        self.queue_pairs.begin_event(now);
        self.take_virtual(now, inbound);
        self.queue_pairs.end_event(now);
    }

    #[inline(always)]
    fn take_virtual(&mut self, now: Picos, inbound: &Inbound<'_>) {
        if !self.admit(now, inbound) {
            return;
        }
        let Inbound { prefix, parsed, .. } = *inbound;
        if inbound.damaged {
            self.receiver.receive_damaged(prefix);
        } else if self.queue_pairs.receive(now, prefix, parsed, inbound.telemetry) {
            // The transport has it.
        } else if is_trimmed(prefix, parsed) {
            self.receiver.totals.trimmed_frames += 1;
        } else if let Ok(view) = RoceView::new_checked(prefix) {
            self.receiver.receive(now, now.as_nanos(), prefix, &view);
        } else {
            self.receive_other(now, inbound);
        }
    }

    /// Whether a frame gets past the NIC: a pause stops there, and what is for others or finds no room.
    #[inline]
    fn admit(&mut self, now: Picos, inbound: &Inbound<'_>) -> bool {
        if inbound.parsed.payload == Payload::MacControl {
            self.receive_control(now, inbound.prefix);
            return false;
        }
        let for_us = inbound
            .prefix
            .first_chunk::<6>()
            .is_some_and(|dst| *dst == self.config.mac || dst[0] & 1 != 0);
        if !for_us {
            self.receiver.totals.flooded_frames += 1;
            return false;
        }
        self.take_in(now, inbound.frame_len, inbound.parsed)
    }

    fn receive_other(&mut self, now: Picos, inbound: &Inbound<'_>) {
        self.receiver.totals.other_frames += 1;
        let Some(resolved) = self.neighbours.receive(now, inbound.prefix, inbound.parsed) else {
            return;
        };
        self.queue_pairs.resolve(resolved.ip, resolved.mac);
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            if flow.next_hop() == resolved.ip && !flow.is_resolved() {
                flow.resolve(resolved.mac);
                self.enqueue_first(index, now);
            }
        }
    }

    /// The next frame to put on the wire now, built at the front of `buf`; `None`: nothing may be sent before
    /// [`Host::next_deadline`]. `wall_ns` goes into its stamp.
    ///
    /// A frame that is returned counts as sent. `buf` must hold [`Host::frame_len_max`] bytes; what does not fit is not sent.
    pub fn transmit(&mut self, now: Picos, wall_ns: u64, buf: &mut [u8]) -> Option<usize> {
        self.emit(now, || wall_ns, buf, Depth::Whole)
            .map(|emitted| emitted.frame_len)
    }

    /// As [`Host::transmit`], in virtual time: of frames of queue pairs the headers alone are written.
    #[inline(always)] // what it returns is large
    pub fn transmit_virtual(&mut self, now: Picos, buf: &mut [u8]) -> Option<Emitted> {
        self.emit(now, || now.as_nanos(), buf, Depth::Headers)
    }

    #[inline]
    fn emit(
        &mut self,
        now: Picos,
        wall_ns: impl FnOnce() -> u64,
        buf: &mut [u8],
        depth: Depth,
    ) -> Option<Emitted> {
        self.neighbours.advance(now);
        self.queue_pairs.advance(now);
        self.signal(now);
        if self.control_front().is_some()
            && let Some(frame_len) = self.transmit_control(now, buf)
        {
            return Some(Emitted::whole(frame_len));
        }
        loop {
            let queue_pairs = self.queue_pairs.earliest();
            let turn = match self.flows.is_empty() {
                true => self.nic.turn(now, queue_pairs)?,
                false => {
                    let queues = &self.queues;
                    let first = |class: usize| queues[class].earliest();
                    self.nic
                        .turn(now, queue_pairs.or(first, &mut [Picos::NEVER; PRIORITIES]))?
                }
            };
            let flows_at = self.queues[turn.class].earliest();
            let of_queue_pair = match queue_pairs.at[turn.class] {
                at if at > turn.start => false,
                _ if flows_at > turn.start => true,
                _ => !self.queue_pair_sent,
            };
            self.queue_pair_sent = of_queue_pair;
            if !of_queue_pair {
                return self.emit_of_flow(now, wall_ns(), turn, buf).map(Emitted::whole);
            }
            // What could not be written counts as sent and is lost; the next one has its turn.
            let left_at = self.left_at(turn, now);
            if let Some(emitted) = self.queue_pairs.emit(left_at, turn.class as u8, depth, buf) {
                let turn = self.nic.limit_catch_up(turn, now, emitted.frame_len as u32);
                self.nic.sent(turn, emitted.frame_len as u32);
                self.queue_pairs
                    .link_free_at(now, self.nic.duration(emitted.frame_len as u32));
                return Some(emitted);
            }
        }
    }

    /// When a packet of a queue pair leaves, as its rate limiter is to see it: a call that comes late, within what can be caught up
    /// with, is none of its business. In virtual time no call is late.
    #[inline]
    fn left_at(&self, turn: Turn, now: Picos) -> Picos {
        if turn.start == now {
            return now;
        }
        let span = self.nic.catch_up_span(self.queue_pairs.frame_len_max as u32);
        turn.start.max(Picos(now.0.saturating_sub(span.0)))
    }

    fn emit_of_flow(&mut self, now: Picos, wall_ns: u64, turn: Turn, buf: &mut [u8]) -> Option<usize> {
        let index = self.queues[turn.class].pop(turn.start)?;
        let flow = &mut self.flows[index as usize];
        let frame_len = flow.next_frame_len();
        let turn = self.nic.limit_catch_up(turn, now, frame_len as u32);
        let built = flow.build(wall_ns, buf);
        if built.is_some() {
            flow.pacer.sent(turn.start, self.nic.wire_len(frame_len as u32));
            self.nic.sent(turn, frame_len as u32);
            self.sent_frames += 1;
        }
        if !flow.is_finished() {
            self.queues[turn.class].push(flow.pacer.due(), index);
        }
        built
    }

    /// When to call [`Host::transmit`] next if nothing arrives; not later than now if it has something to send now.
    pub fn next_deadline(&self) -> Picos {
        self.next_departure().min(self.next_timer())
    }

    /// When its link is free again: it sends nothing before.
    #[inline]
    pub fn link_free(&self) -> Picos {
        self.nic.link_free()
    }

    /// When it may send next, as things stand.
    #[inline(always)]
    pub fn next_departure(&self) -> Picos {
        let control = match self.control_front() {
            Some(frame) => frame.created.max(self.nic.link_free()),
            None => Picos::NEVER,
        };
        let queue_pairs = self.queue_pairs.earliest();
        let start = match self.flows.is_empty() {
            true => self.nic.next_start(queue_pairs),
            false => {
                let first = |class: usize| self.queues[class].earliest();
                self.nic
                    .next_start(queue_pairs.or(first, &mut [Picos::NEVER; PRIORITIES]))
            }
        };
        start.min(control)
    }

    /// When something changes by time alone: pauses, timers of queue pairs and neighbours, the receive buffer.
    #[inline]
    pub fn next_timer(&self) -> Picos {
        let intake = self.intake.as_ref().map_or(Picos::NEVER, Intake::next_deadline);
        self.nic
            .next_change()
            .min(self.neighbours.next_deadline())
            .min(self.queue_pairs.next_deadline())
            .min(intake)
    }

    /// Does what is due by time alone, and sends nothing.
    pub fn advance(&mut self, now: Picos) {
        self.nic.advance(now);
        self.neighbours.advance(now);
        self.queue_pairs.advance(now);
        self.signal(now);
    }

    fn enqueue_first(&mut self, index: usize, now: Picos) {
        let flow = &mut self.flows[index];
        let Some(started_at) = flow.started_at else { return };
        if !flow.is_resolved() || flow.is_finished() {
            return;
        }
        let start = started_at.saturating_add(flow.config().start).max(now);
        flow.pacer.start(start);
        self.queues[usize::from(flow.config().class)].push(start, index as u32);
    }

    fn receive_control(&mut self, now: Picos, frame: &[u8]) {
        match MacControl::parse(frame) {
            Ok(MacControl::Pfc(pfc)) => self.nic.pause(now, pfc.enable, &pfc.quanta),
            Ok(MacControl::Pause { quanta }) => self.nic.pause_all(now, quanta),
            Err(_) => self.receiver.totals.malformed_control_frames += 1,
        }
    }

    /// Lets a frame into the receive buffer; false if it is full.
    fn take_in(&mut self, now: Picos, frame_len: u32, parsed: &ParsedHeaders) -> bool {
        let Some(intake) = &mut self.intake else {
            return true;
        };
        let class = intake.class(parsed);
        let mac_len = self.nic.link().mac_len(frame_len);
        let taken = intake.accept(now, class, mac_len);
        if !taken {
            self.nic.count_rx_dropped(class);
        }
        self.signal(now);
        taken
    }

    /// Tells the peer to pause or to go on, where the receive buffer asks for it.
    #[inline]
    fn signal(&mut self, now: Picos) {
        if self.intake.is_some() {
            self.signal_intake(now);
        }
    }

    fn signal_intake(&mut self, now: Picos) {
        if self.pfc_outbox.len() >= PFC_OUTBOX_MAX {
            return;
        }
        if let Some(pfc) = self.intake.as_mut().and_then(|intake| intake.signal(now)) {
            self.nic.count_pfc_sent(pfc.enable);
            let bytes = MacControl::Pfc(pfc).to_frame(self.config.mac).to_vec();
            self.pfc_outbox.push_back(ControlFrame { created: now, bytes });
        }
    }

    /// Sends a MAC control frame ahead of all data, as a misbehaving NIC does.
    ///
    /// # Errors
    /// [`SendRefused::QueueFull`]; the frame counts in [`NicCounters::tx_dropped_frames`](super::NicCounters).
    pub fn send_mac_control(&mut self, now: Picos, control: MacControl) -> Result<(), SendRefused> {
        self.queue_ahead(now, control.to_frame(self.config.mac).to_vec())
    }

    /// Sends a frame that is given as bytes, without FCS, ahead of all data. It may be longer than the frames of the host's own flows:
    /// [`Host::frame_len_max`] grows with it.
    ///
    /// # Errors
    /// A frame that is shorter than an Ethernet header, or longer than [`SENT_FRAME_LEN_MAX`]; too many frames that wait, which
    /// counts in [`NicCounters::tx_dropped_frames`](super::NicCounters) too.
    pub fn send_frame(&mut self, now: Picos, bytes: &[u8]) -> Result<(), SendRefused> {
        if !(ETHERNET_LEN..=SENT_FRAME_LEN_MAX).contains(&bytes.len()) {
            return Err(SendRefused::Length {
                frame_len: bytes.len(),
            });
        }
        self.queue_ahead(now, bytes.to_vec())
    }

    /// Queues a frame ahead of all data.
    fn queue_ahead(&mut self, now: Picos, bytes: Vec<u8>) -> Result<(), SendRefused> {
        if self.pfc_outbox.len() >= PFC_OUTBOX_MAX {
            self.nic.count_tx_dropped();
            return Err(SendRefused::QueueFull);
        }
        if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&bytes) {
            self.nic.count_pfc_sent(pfc.enable);
        }
        self.given_len_max = self.given_len_max.max(bytes.len());
        self.pfc_outbox.push_back(ControlFrame { created: now, bytes });
        Ok(())
    }

    #[inline]
    fn control_front(&self) -> Option<&ControlFrame> {
        self.pfc_outbox.front().or_else(|| self.neighbours.front())
    }

    fn transmit_control(&mut self, now: Picos, buf: &mut [u8]) -> Option<usize> {
        let start = self.control_front()?.created.max(self.nic.link_free());
        if start > now {
            return None;
        }
        let frame = self.pfc_outbox.pop_front().or_else(|| self.neighbours.pop())?;
        let Some(room) = buf.get_mut(..frame.bytes.len()) else {
            self.nic.count_tx_dropped();
            return None;
        };
        room.copy_from_slice(&frame.bytes);
        let is_mac_control = frame.bytes.get(12..14) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes());
        self.nic
            .sent_ahead(start, frame.bytes.len() as u32, is_mac_control);
        Some(frame.bytes.len())
    }
}

/// Queue pairs.
impl Host {
    /// Creates a queue pair. Its peer's link address is asked for, if the setup does not say it.
    pub fn create_queue_pair(&mut self, setup: QueuePairSetup) -> QpIndex {
        let (index, unresolved) = self.queue_pairs.create(setup, &self.config);
        if let Some(ip) = unresolved {
            self.neighbours.resolve(ip);
        }
        index
    }

    /// Posts a work request.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn post(&mut self, now: Picos, qp: QpIndex, request: WorkRequest) -> Result<(), PostError> {
        self.queue_pairs.post(now, qp, request)
    }

    /// Posts receive entries for SEND.
    pub fn post_receives(&mut self, now: Picos, qp: QpIndex, count: u32) {
        self.queue_pairs.post_receives(now, qp, count);
    }

    /// Takes what queue pairs have completed since the last call, in order.
    pub fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.queue_pairs.completions()
    }

    /// Whether there is something to be taken by [`Host::completions`].
    #[inline]
    pub fn has_completions(&self) -> bool {
        self.queue_pairs.has_completions()
    }

    /// As [`Endpoint::completes_nothing_before`].
    #[inline]
    pub fn completes_nothing_before(&self, until: Picos) -> bool {
        self.queue_pairs.completes_nothing_before(until)
    }

    /// What all queue pairs have counted, under the names of Linux `hw_counters`.
    pub fn rdma_counters(&self) -> Counters {
        self.queue_pairs.counters()
    }

    /// The transport, to be read.
    pub fn endpoint(&self) -> &Endpoint {
        self.queue_pairs.endpoint()
    }

    /// What it was told to be.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }
}
