//! The host: NIC, flows, queue pairs, receiver and neighbours.

use std::collections::VecDeque;
use std::net::IpAddr;

use xoff_dataplane::ids::PRIORITIES;
use xoff_dataplane::{LinkTiming, Picos};
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

mod receive;
mod results;
mod transmit;

pub use results::{HostResults, SentFlow, flow_report};

/// Maximum length in bytes of a frame that is stored as headers only. The headers are Ethernet, tag, IPv6,
/// UDP, BTH and RETH.
pub const HEADERS_LEN_MAX: usize = 94;
/// Maximum number of PFC frames and frames of [`Host::send_frame`] that wait for the link. If a PFC frame is
/// discarded, its pause state is announced later.
const PFC_OUTBOX_MAX: usize = 64;
/// Maximum length of a frame for [`Host::send_frame`], without FCS. The length is the sum of the largest MTU
/// of a veth or tap device, an Ethernet header and a VLAN tag.
pub const SENT_FRAME_LEN_MAX: usize = 65_535 + ETHERNET_LEN + TAG_LEN;

/// A model host. Its behaviour depends only on the arriving frames and on the times that the caller passes.
///
/// Call [`Host::receive`] for each arriving frame. Then call [`Host::transmit`] until it returns `None`.
/// Repeat both calls at the time of [`Host::next_deadline`] or at the next arrival, whichever is earlier.
///
/// If a call is late, the host still does not exceed its link speed. The host catches up at most 32 frames
/// and records the remaining time as lost link time.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    nic: Nic,
    receive_buffer: Option<SlowReceiveBuffer>,
    neighbours: Neighbours,
    /// PFC frames that wait until the present transmission ends. These frames leave before all other frames
    /// and in order.
    pfc_outbox: VecDeque<ControlFrame>,
    flows: Vec<FlowSender>,
    queues: [ClassQueue; PRIORITIES],
    queue_pairs: QueuePairs,
    /// True if the last frame was from a queue pair. Flows and queue pairs alternate if both have frames.
    queue_pair_sent: bool,
    receiver: Receiver,
    sent_frames: u64,
    /// Length of the longest frame given to [`Host::send_frame`].
    given_len_max: usize,
}

/// Reason why a host does not send a given frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendFrameError {
    /// The limit of waiting frames has been reached.
    #[error("{PFC_OUTBOX_MAX} frames wait for the host's link already")]
    QueueFull,
    /// The length of the frame is not possible on a link.
    #[error("a frame of {frame_len} bytes cannot be sent, {ETHERNET_LEN} to {SENT_FRAME_LEN_MAX} bytes can")]
    Length {
        /// Length in bytes, without FCS.
        frame_len: usize,
    },
}

/// An arriving frame in virtual time, with its headers and properties.
#[derive(Clone, Copy, Debug)]
pub struct InboundFrame<'a> {
    /// Stored bytes of the frame, with at least the headers.
    pub prefix: &'a [u8],
    /// Length without FCS, as a socket sees it.
    pub frame_len: u32,
    /// Parsed headers.
    pub parsed: &'a ParsedHeaders,
    /// The ICRC is wrong.
    pub damaged: bool,
    /// Telemetry that the frame has collected.
    pub telemetry: Option<&'a Telemetry>,
}

impl Host {
    /// Creates a host that does not send yet.
    ///
    /// # Errors
    /// Returns an error if a value is out of its range. See [`HostConfig::check`].
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
            receive_buffer: config
                .nic
                .receive_buffer
                .map(|buffer| SlowReceiveBuffer::new(buffer, &config.nic.link)),
            neighbours,
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

    /// Returns the name of the host.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the speed and framing of the link.
    pub fn link(&self) -> &LinkTiming {
        self.nic.link()
    }

    /// Returns the time for which a frame of `frame_len` bytes without FCS occupies the link.
    #[inline]
    pub fn transmission_time(&self, frame_len: u32) -> Picos {
        self.nic.transmission_time(frame_len)
    }

    /// Returns the length of the longest frame that the host builds. [`Host::transmit`] needs a buffer of
    /// this length.
    pub fn frame_len_max(&self) -> usize {
        // An echo reply is as long as its request.
        let longest = self.flows.iter().map(FlowSender::frame_len_max).max();
        longest
            .unwrap_or_default()
            .max(REPLY_LEN_MAX)
            .max(self.queue_pairs.frame_len_max)
            .max(self.given_len_max)
    }

    /// Returns whether the next frame in virtual time consists of headers only. Such a frame has at most
    /// [`HEADERS_LEN_MAX`] bytes.
    #[inline]
    pub fn writes_headers_only(&self) -> bool {
        self.flows.is_empty() && self.next_control_frame().is_none()
    }

    /// Returns the longest delay of a [`Host::transmit`] call with which no link time is lost. The result is
    /// the transmission time of 32 frames of maximum length. Returns [`Picos::NEVER`] for a
    /// host without flows.
    pub fn catch_up_span(&self) -> Picos {
        let longest = self.flows.iter().map(FlowSender::frame_len_max).max();
        let longest = longest.max(Some(self.queue_pairs.frame_len_max).filter(|len| *len > 0));
        longest.map_or(Picos::NEVER, |frame_len| self.nic.catch_up_span(frame_len as u32))
    }

    /// Starts the flows. The start time of each flow is relative to `now`. The host also announces its
    /// addresses again, because the network may not have been ready for the first announcement.
    pub fn start(&mut self, now: Picos) {
        self.neighbours.announce_again(now);
        for index in 0..self.flows.len() {
            if !self.flows[index].config().waits {
                self.start_at(index, now);
            }
        }
    }

    /// Starts the flow with this number. The start time of the flow is relative to `now`. If the flow is
    /// already running, it continues. Returns `false` if the flow does not exist.
    #[must_use = "false: there is no such flow"]
    pub fn start_flow(&mut self, now: Picos, flow: u32) -> bool {
        let index = self.flow_index(flow);
        if let Some(index) = index {
            self.start_at(index, now);
        }
        index.is_some()
    }

    /// Stops the flow with this number. A later start continues the flow. Returns `false` if the flow does
    /// not exist.
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

    /// Stops all flows. Frames that are not sent yet are neither sent nor counted.
    pub fn stop(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.started_at = None);
        self.queues.iter_mut().for_each(ClassQueue::clear);
    }

    /// Returns whether any flow has frames to send, now or later.
    pub fn is_sending(&self) -> bool {
        let sends = |flow: &FlowSender| flow.started_at.is_some() && !flow.is_finished();
        self.flows.iter().any(sends)
    }

    /// Returns the addresses whose MAC address is not known yet.
    pub fn unresolved(&self) -> impl Iterator<Item = IpAddr> {
        self.neighbours.unresolved()
    }

    /// Returns the number of frames that the flows have sent.
    pub fn sent_frames(&self) -> u64 {
        self.sent_frames
    }

    /// Returns the number of frames of flows that have arrived.
    pub fn received_frames(&self) -> u64 {
        self.receiver.received_frames()
    }

    /// Returns the time of the next [`Host::transmit`] call if nothing arrives. If a frame is ready, the time
    /// is not later than the current time.
    pub fn next_deadline(&self) -> Picos {
        self.next_departure().min(self.next_timer())
    }

    /// Returns the time at which the link is free again.
    #[inline]
    pub fn link_free(&self) -> Picos {
        self.nic.link_free()
    }

    /// Returns the time of the next departure in the current state.
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
                    .next_start(queue_pairs.merged_with(first, &mut [Picos::NEVER; PRIORITIES]))
            }
        };
        start.min(control)
    }

    /// Returns the next time at which a pause, a timer of a queue pair or neighbour, or the
    /// receive buffer changes.
    #[inline]
    pub fn next_timer(&self) -> Picos {
        let receive_buffer = self
            .receive_buffer
            .as_ref()
            .map_or(Picos::NEVER, SlowReceiveBuffer::next_deadline);
        self.nic
            .next_change()
            .min(self.neighbours.next_deadline())
            .min(self.queue_pairs.next_deadline())
            .min(receive_buffer)
    }

    /// Processes due timers without sending a frame.
    pub fn advance(&mut self, now: Picos) {
        self.nic.advance(now);
        self.neighbours.advance(now);
        self.queue_pairs.advance(now);
        self.update_pfc(now);
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

    /// Sends PFC frames to the peer if the receive buffer requires them.
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

    /// Sends a MAC control frame before all data, as a faulty NIC would.
    ///
    /// # Errors
    /// Returns [`SendFrameError::QueueFull`]. The frame is
    /// counted in [`NicCounters::tx_dropped_frames`](super::NicCounters).
    pub fn send_mac_control(&mut self, now: Picos, control: MacControl) -> Result<(), SendFrameError> {
        self.queue_before_data(now, control.to_frame(self.config.mac).to_vec())
    }

    /// Sends a frame (without FCS) before all data frames. If this frame is longer than all frames of the
    /// host, [`Host::frame_len_max`] increases.
    ///
    /// # Errors
    /// Returns an error if the frame is shorter than an Ethernet header or longer than
    /// [`SENT_FRAME_LEN_MAX`]. Also returns an error if too many frames wait. This last case is also counted
    /// in [`NicCounters::tx_dropped_frames`](super::NicCounters).
    pub fn send_frame(&mut self, now: Picos, bytes: &[u8]) -> Result<(), SendFrameError> {
        if !(ETHERNET_LEN..=SENT_FRAME_LEN_MAX).contains(&bytes.len()) {
            return Err(SendFrameError::Length {
                frame_len: bytes.len(),
            });
        }
        self.queue_before_data(now, bytes.to_vec())
    }

    /// Queues a frame before all data.
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
    /// Creates a queue pair. If the setup does not contain the MAC address of the next hop, the host resolves
    /// the address.
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
    /// Returns the error of the queue pair, see [`PostError`].
    pub fn post(&mut self, now: Picos, qp: QpIndex, request: WorkRequest) -> Result<(), PostError> {
        self.queue_pairs.post(now, qp, request)
    }

    /// Posts receive entries for SEND.
    pub fn post_receives(&mut self, now: Picos, qp: QpIndex, count: u32) {
        self.queue_pairs.post_receives(now, qp, count);
    }

    /// Takes the completions of queue pairs since the last call, in order.
    pub fn completions(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.queue_pairs.completions()
    }

    /// Returns whether [`Host::completions`] would return at least one completion.
    #[inline]
    pub fn has_completions(&self) -> bool {
        self.queue_pairs.has_completions()
    }

    /// Returns [`Endpoint::completes_nothing_before`] of the queue pairs.
    #[inline]
    pub fn completes_nothing_before(&self, until: Picos) -> bool {
        self.queue_pairs.completes_nothing_before(until)
    }

    /// Returns the counters of all queue pairs, with the names of Linux `hw_counters`.
    pub fn rdma_counters(&self) -> Counters {
        self.queue_pairs.counters()
    }

    /// Returns the RDMA endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        self.queue_pairs.endpoint()
    }

    /// Returns the configuration of the host.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }
}
