//! The model host: its NIC, flows, queue pairs, receiver and neighbours.

use std::collections::VecDeque;
use std::net::IpAddr;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{LinkTiming, Picos, prefetch};
use xoff_wire::lldp::EtsTables;
use xoff_wire::parse::ParsedHeaders;
use xoff_wire::vlan::TAG_LEN;
use xoff_wire::{ETHERNET_LEN, MacControl};

use super::arp_nd::{ControlFrame, Neighbours, REPLY_LEN_MAX};
use super::config::{HostConfig, HostConfigError};
use super::flow_sender::FlowSender;
use super::nic::Nic;
use super::queue_pairs::{QueuePairSetup, QueuePairs};
use super::receive_buffer::SlowReceiveBuffer;
use super::receiver::Receiver;
use super::schedule::ClassQueue;
use xoff_rdma::{Completion, Counters, Endpoint, PostError, QpIndex, Telemetry, WorkRequest};

mod negotiation;
mod receive;
mod results;
mod settings;
mod transmit;

pub use results::{HostResults, SentFlow, flow_report};

/// Largest number of bytes that are stored for a frame with headers only. The headers are Ethernet, tag,
/// IPv6, UDP, BTH and RETH.
pub const HEADERS_LEN_MAX: usize = 94;
/// Largest number of frames that wait for the link: PFC frames and frames of [`Host::send_frame`]. If the
/// limit is reached, the host sends the next PFC frame later.
const PFC_OUTBOX_MAX: usize = 64;
/// Largest length of a frame for [`Host::send_frame`] in bytes, without FCS. The length is the largest MTU of
/// a veth or tap device plus an Ethernet header and a VLAN tag.
pub const SENT_FRAME_LEN_MAX: usize = 65_535 + ETHERNET_LEN + TAG_LEN;

/// A model host. Its behaviour depends only on the arriving frames and on the times that the caller passes.
///
/// Call [`Host::receive`] for each arriving frame. Then call [`Host::transmit`] until it returns `None`.
/// Repeat this at the next arrival or at [`Host::next_deadline`], whichever is earlier.
///
/// If a call is late, the host still does not exceed its link speed. The host
/// catches up at most 32 frames. The rest of the missed link time is lost and
/// recorded in [`NicCounters::tx_deficit_ns`](super::NicCounters::tx_deficit_ns).
///
/// A large fabric has thousands of hosts, and each frame finds another one outside the cache. The fields that nearly
/// every frame uses therefore come first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Host {
    /// [`HostConfig::mac`], which never changes. Each frame reads it, and `config` is in other cache lines.
    mac: [u8; 6],
    /// True if the last frame was from a queue pair. If flows and queue pairs both have frames to send, they
    /// send in turn.
    queue_pair_sent: bool,
    flows: Vec<FlowSender>,
    /// PFC frames and frames of [`Host::send_frame`] that wait for the end of the current transmission. The
    /// host sends them in the order of this queue, and before the frames of flows and queue pairs.
    pfc_outbox: VecDeque<ControlFrame>,
    nic: Nic,
    queue_pairs: QueuePairs,
    neighbours: Neighbours,
    receive_buffer: Option<Box<SlowReceiveBuffer>>,
    /// ETS recommendation of the peer that the NIC uses instead of its configuration (DCBX).
    negotiated_ets: Option<EtsTables>,
    queues: [ClassQueue; PRIORITIES],
    receiver: Receiver,
    sent_frames: u64,
    /// Length of the longest frame that was passed to [`Host::send_frame`].
    given_len_max: usize,
    config: HostConfig,
}

/// Reason why a host does not send a frame that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendFrameError {
    /// 64 frames already wait for the link.
    #[error("{PFC_OUTBOX_MAX} frames wait for the host's link already")]
    QueueFull,
    /// The frame is shorter than an Ethernet header or longer than [`SENT_FRAME_LEN_MAX`].
    #[error("a frame of {frame_len} bytes cannot be sent, {ETHERNET_LEN} to {SENT_FRAME_LEN_MAX} bytes can")]
    Length {
        /// Length of the frame in bytes, without FCS.
        frame_len: usize,
    },
}

/// A frame that arrives in virtual time, with its headers and properties.
#[derive(Clone, Copy, Debug)]
pub struct InboundFrame<'a> {
    /// Stored bytes of the frame, at least all headers.
    pub prefix: &'a [u8],
    /// Length of the whole frame in bytes, without FCS.
    pub frame_len: u32,
    /// Parsed headers of `prefix`.
    pub parsed: &'a ParsedHeaders,
    /// True if a link has corrupted the frame, so its ICRC is wrong.
    pub damaged: bool,
    /// Telemetry that the frame has collected on its path. `None`: the frame carries no telemetry.
    pub telemetry: Option<&'a Telemetry>,
}

impl Host {
    /// Creates a host. Its flows do not send before [`Host::start`].
    ///
    /// # Errors
    /// Returns an error if [`HostConfig::check`] rejects the configuration.
    pub fn new(config: &HostConfig) -> Result<Host, HostConfigError> {
        config.check()?;
        let token = (!config.accept_any_token).then_some(config.token);
        let mut neighbours = Neighbours::new(config);
        for flow in config.flows.iter().filter(|flow| flow.dst_mac.is_none()) {
            neighbours.resolve(config.next_hop(flow.dst_ip));
        }
        Ok(Host {
            queue_pairs: QueuePairs::new(config),
            mac: config.mac,
            queue_pair_sent: false,
            config: config.clone(),
            nic: Nic::new(&config.nic),
            receive_buffer: config
                .nic
                .receive_buffer
                .map(|buffer| Box::new(SlowReceiveBuffer::new(buffer, &config.nic.link))),
            neighbours,
            negotiated_ets: None,
            pfc_outbox: VecDeque::new(),
            flows: config
                .flows
                .iter()
                .map(|flow| FlowSender::new(flow, config))
                .collect(),
            queues: Default::default(),
            receiver: Receiver::new(token, config.dilate),
            sent_frames: 0,
            given_len_max: 0,
        })
    }

    /// Fetches the memory that nearly every event uses, without waiting for it. A caller with many hosts calls this
    /// method some events before an event of the host, and [`Host::prefetch_receiver`] or [`Host::prefetch_senders`]
    /// some events later.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
        self.nic.prefetch();
        self.queue_pairs.prefetch();
        prefetch(&self.neighbours);
        prefetch(&self.receive_buffer);
    }

    /// Fetches the memory that a packet for the queue pair with this number uses, see [`Host::prefetch`]. The packet is
    /// a request, or an acknowledgement if `is_acknowledge` is true.
    #[inline]
    pub fn prefetch_receiver(&self, number: u32, is_acknowledge: bool) {
        self.queue_pairs.prefetch_receiver(number, is_acknowledge);
    }

    /// Fetches the memory that the next data packet of the host uses, see [`Host::prefetch`].
    /// [`Host::prefetch_controllers`] follows some events later.
    #[inline]
    pub fn prefetch_senders(&self) {
        self.queue_pairs.prefetch_senders();
    }

    /// Fetches the memory of the congestion controllers, see [`Host::prefetch_senders`].
    #[inline]
    pub fn prefetch_controllers(&self) {
        self.queue_pairs.prefetch_controllers();
    }

    /// Returns the name of the host.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the speed and framing of the link.
    pub fn link(&self) -> &LinkTiming {
        self.nic.link()
    }

    /// Returns the time for which a frame of `frame_len` bytes without FCS occupies the link, with preamble
    /// and gap.
    #[inline]
    pub fn transmission_time(&self, frame_len: u32) -> Picos {
        self.nic.transmission_time(frame_len)
    }

    /// Returns the length in bytes of the longest frame that the host can send now, without FCS.
    /// [`Host::transmit`] needs a buffer of this length. The length can grow with [`Host::create_queue_pair`]
    /// and [`Host::send_frame`].
    pub fn frame_len_max(&self) -> usize {
        // An echo reply is as long as its request.
        let longest = self.flows.iter().map(FlowSender::frame_len_max).max();
        longest
            .unwrap_or_default()
            .max(REPLY_LEN_MAX)
            .max(self.queue_pairs.frame_len_max)
            .max(self.given_len_max)
    }

    /// Returns whether the host writes only the headers of its next frame in virtual time. This is so if the
    /// host has no flows and no control frame waits. The headers have at most [`HEADERS_LEN_MAX`] bytes.
    #[inline]
    pub fn writes_headers_only(&self) -> bool {
        self.flows.is_empty() && self.next_control_frame().is_none()
    }

    /// Returns the longest delay of a [`Host::transmit`] call that loses no link time: the transmission time
    /// of 32 frames of maximum length. Returns [`Picos::NEVER`] for a host without flows and queue pairs.
    pub fn catch_up_span(&self) -> Picos {
        let longest = self.flows.iter().map(FlowSender::frame_len_max).max();
        let longest = longest.max(Some(self.queue_pairs.frame_len_max).filter(|len| *len > 0));
        longest.map_or(Picos::NEVER, |frame_len| self.nic.catch_up_span(frame_len as u32))
    }

    /// Starts the flows that do not wait for [`Host::start_flow`]. The start time of each flow counts
    /// from `now`. The host also announces its addresses again, in case the network was not ready at the
    /// first announcement.
    pub fn start(&mut self, now: Picos) {
        self.neighbours.announce_again(now);
        for index in 0..self.flows.len() {
            if !self.flows[index].config().waits {
                self.start_at(index, now);
            }
        }
    }

    /// Starts the flow with this number ([`FlowConfig::id`](super::FlowConfig::id)). The start time of the
    /// flow counts from `now`. A flow that is already running continues without change. Returns `false` if no
    /// flow has this number.
    #[must_use = "false: there is no such flow"]
    pub fn start_flow(&mut self, now: Picos, flow: u32) -> bool {
        let index = self.flow_index(flow);
        if let Some(index) = index {
            self.start_at(index, now);
        }
        index.is_some()
    }

    /// Stops the flow with this number ([`FlowConfig::id`](super::FlowConfig::id)). A later start continues
    /// the flow. Returns `false` if no flow has this number.
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
            self.enqueue_flow(index, now);
        }
    }

    /// Stops all flows. Queue pairs continue. [`Host::start_flow`] continues a stopped flow.
    pub fn stop(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.started_at = None);
        self.queues.iter_mut().for_each(ClassQueue::clear);
    }

    /// Returns whether any started flow has frames left to send, now or later. Stopped flows, flows that wait
    /// for [`Host::start_flow`], and queue pairs do not count.
    pub fn is_sending(&self) -> bool {
        let sends = |flow: &FlowSender| flow.started_at.is_some() && !flow.is_finished();
        self.flows.iter().any(sends)
    }

    /// Returns the IP addresses whose MAC address the host needs and does not know yet.
    pub fn unresolved(&self) -> impl Iterator<Item = IpAddr> {
        self.neighbours.unresolved()
    }

    /// Returns the number of frames that all flows have sent. Frames of queue pairs are not included.
    pub fn sent_frames(&self) -> u64 {
        self.sent_frames
    }

    /// Returns the number of frames of flows that have arrived with a valid ICRC, without duplicates.
    pub fn received_frames(&self) -> u64 {
        self.receiver.received_frames()
    }

    /// Returns the time at which [`Host::transmit`] must be called next if no frame arrives. If a frame is
    /// ready, the time is not later than the current time. Returns [`Picos::NEVER`] if the host waits only
    /// for arrivals.
    pub fn next_deadline(&self) -> Picos {
        self.next_departure().min(self.next_timer())
    }

    /// Returns the time at which the current or last transmission ends.
    #[inline]
    pub fn link_free(&self) -> Picos {
        self.nic.link_free()
    }

    /// Returns the departure time of the next frame if no timer expires and no frame arrives before. Returns
    /// [`Picos::NEVER`] if no frame can leave.
    #[inline(always)]
    pub fn next_departure(&self) -> Picos {
        let control = match self.next_control_frame() {
            Some(frame) => frame.created.max(self.nic.link_free()),
            None => Picos::NEVER,
        };
        let queue_pairs = self.queue_pairs.earliest();
        let start = match self.flows.is_empty() {
            true => self.nic.next_start(queue_pairs),
            false => {
                let first = |class: usize| self.queues[class].earliest();
                self.nic
                    .next_start(queue_pairs.merge_flow_departures(first, &mut [Picos::NEVER; PRIORITIES]))
            }
        };
        start.min(control)
    }

    /// Returns the time of the next timer: a pause that starts or ends, a timer of a queue pair, an ARP
    /// or neighbour discovery request, or a change of the receive buffer. Returns [`Picos::NEVER`]
    /// without timers.
    #[inline]
    pub fn next_timer(&self) -> Picos {
        let receive_buffer = self
            .receive_buffer
            .as_ref()
            .map_or(Picos::NEVER, |buffer| buffer.next_deadline());
        self.nic
            .next_change()
            .min(self.neighbours.next_deadline())
            .min(self.queue_pairs.next_deadline())
            .min(receive_buffer)
    }

    /// Processes the timers that are due at `now`. Sends no frame.
    pub fn advance(&mut self, now: Picos) {
        self.nic.advance(now);
        self.advance_control(now);
        self.queue_pairs.advance(now);
        self.update_pfc(now);
    }

    /// Queues the frames of ARP, ND and LLDP that are due at `now`.
    #[inline]
    fn advance_control(&mut self, now: Picos) {
        if self.neighbours.is_due(now) {
            self.queue_control_frames(now);
        }
    }

    #[inline(never)]
    fn queue_control_frames(&mut self, now: Picos) {
        self.neighbours.queue_due_frames(now);
        self.apply_negotiation(now);
    }

    fn enqueue_flow(&mut self, index: usize, now: Picos) {
        let flow = &mut self.flows[index];
        let Some(started_at) = flow.started_at else { return };
        if !flow.is_resolved() || flow.is_finished() {
            return;
        }
        let start = started_at.saturating_add(flow.config().start).max(now);
        flow.pacer.start(start);
        self.queues[usize::from(flow.config().class)].push(start, index as u32);
    }

    /// Queues a PFC frame for the peer if the receive buffer requires one.
    #[inline]
    fn update_pfc(&mut self, now: Picos) {
        if self.receive_buffer.is_some() {
            self.send_due_pfc(now);
        }
    }

    fn send_due_pfc(&mut self, now: Picos) {
        if self.pfc_outbox.len() >= PFC_OUTBOX_MAX {
            return;
        }
        if let Some(pfc) = self
            .receive_buffer
            .as_mut()
            .and_then(|receive_buffer| receive_buffer.next_pfc(now))
        {
            self.nic.count_pfc_sent(pfc.enable);
            let bytes = MacControl::Pfc(pfc).to_frame(self.config.mac).to_vec();
            self.pfc_outbox.push_back(ControlFrame { created: now, bytes });
        }
    }

    /// Queues a MAC control frame (PFC or PAUSE). The frame leaves before all data frames, as from a
    /// faulty NIC.
    ///
    /// # Errors
    /// Returns [`SendFrameError::QueueFull`] if too many frames wait. The frame is then counted
    /// in [`NicCounters::tx_dropped_frames`](super::NicCounters).
    pub fn send_mac_control(&mut self, now: Picos, control: MacControl) -> Result<(), SendFrameError> {
        self.queue_before_data(now, control.to_frame(self.config.mac).to_vec())
    }

    /// Queues a frame. The frame leaves before all data frames. `bytes` is the frame without FCS. If this
    /// frame is longer than all frames of the host, [`Host::frame_len_max`] increases.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - The frame is shorter than an Ethernet header or longer than [`SENT_FRAME_LEN_MAX`].
    /// - Too many frames wait. The frame is then counted in
    ///   [`NicCounters::tx_dropped_frames`](super::NicCounters).
    pub fn send_frame(&mut self, now: Picos, bytes: &[u8]) -> Result<(), SendFrameError> {
        if !(ETHERNET_LEN..=SENT_FRAME_LEN_MAX).contains(&bytes.len()) {
            return Err(SendFrameError::Length {
                frame_len: bytes.len(),
            });
        }
        self.queue_before_data(now, bytes.to_vec())
    }

    /// Queues a frame that leaves before all data frames.
    fn queue_before_data(&mut self, now: Picos, bytes: Vec<u8>) -> Result<(), SendFrameError> {
        if self.pfc_outbox.len() >= PFC_OUTBOX_MAX {
            self.nic.count_tx_dropped();
            return Err(SendFrameError::QueueFull);
        }
        if let Ok(MacControl::Pfc(pfc)) = MacControl::parse(&bytes) {
            self.nic.count_pfc_sent(pfc.enable);
        }
        self.given_len_max = self.given_len_max.max(bytes.len());
        self.pfc_outbox.push_back(ControlFrame { created: now, bytes });
        Ok(())
    }

    #[inline]
    fn next_control_frame(&self) -> Option<&ControlFrame> {
        self.pfc_outbox.front().or_else(|| self.neighbours.front())
    }
}

/// Methods for queue pairs.
impl Host {
    /// Creates a queue pair and returns its index, counted from 0. If the setup does not contain the MAC
    /// address of the next hop, the host resolves the address.
    pub fn create_queue_pair(&mut self, setup: QueuePairSetup) -> QpIndex {
        let (index, unresolved) = self.queue_pairs.create(setup, &self.config);
        if let Some(ip) = unresolved {
            self.neighbours.resolve(ip);
        }
        index
    }

    /// Posts a work request to a queue pair at the time `now`.
    ///
    /// # Errors
    /// Returns an error if the queue pair rejects the request (see [`PostError`]).
    pub fn post(&mut self, now: Picos, qp: QpIndex, request: WorkRequest) -> Result<(), PostError> {
        self.queue_pairs.post(now, qp, request)
    }

    /// Posts `count` receive entries (receive work requests) to a queue pair. Each SEND message from the peer
    /// uses one entry.
    pub fn post_receives(&mut self, now: Picos, qp: QpIndex, count: u32) {
        self.queue_pairs.post_receives(now, qp, count);
    }

    /// Takes the completions of all queue pairs since the previous call, in the order of their times.
    pub fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.queue_pairs.completions()
    }

    /// Returns the completions that [`Host::completions`] would take, oldest first.
    pub fn pending_completions(&self) -> impl DoubleEndedIterator<Item = &Completion> {
        self.queue_pairs.pending_completions()
    }

    /// Returns whether [`Host::completions`] would return a completion.
    #[inline]
    pub fn has_completions(&self) -> bool {
        self.queue_pairs.has_completions()
    }

    /// Returns whether no queue pair can have a completion before `until`
    /// (see [`Endpoint::completes_no_message_before`]).
    #[inline]
    pub fn completes_no_message_before(&self, until: Picos) -> bool {
        self.queue_pairs.completes_no_message_before(until)
    }

    /// Returns the sums of the counters of all queue pairs. The names are those of Linux `hw_counters`.
    pub fn rdma_counters(&self) -> Counters {
        self.queue_pairs.counters()
    }

    /// Returns the RDMA endpoint, which contains the queue pairs.
    pub fn endpoint(&self) -> &Endpoint {
        self.queue_pairs.endpoint()
    }

    /// Returns the configuration of the host.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }
}
