//! One queue pair: requester, responder, congestion control and pacing.

use xoff_units::{Picos, prefetch};
use xoff_wire::{Opcode, Transport as Service};

use super::config::{QpConfig, QpIndex, Transport};
use super::congestion::{CongestionControl, CongestionFeedback};
use super::counters::Counters;
use super::pacing::{Pacing, PacingInterval};
use super::packet::Packet;
use super::requester::Requester;
use super::responder::Responder;
use super::state::{EndpointState, QpContext};
use super::telemetry::TelemetryFormat;
use super::work::{ArrivalInfo, PostError, WorkRequest};

/// State of one queue pair. A large fabric has thousands of queue pairs, and each packet finds another one outside the
/// cache. The fields that nearly every packet uses are therefore neighbours, here and in the parts of a queue pair.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct QueuePair {
    pub(super) config: QpConfig,
    congestion: Box<dyn CongestionControl>,
    /// Earliest departure time of the next data packet.
    due: Picos,
    /// Time at which the timer of this queue pair fires. [`Picos::NEVER`] if no timer runs.
    pub(super) armed: Picos,
    pace: PacingInterval,
    index: QpIndex,
    /// True if the queue pair is in the transmission queue of its data class.
    is_queued: bool,
    /// True if the departure time is computed again after every event. This is necessary if the endpoint uses
    /// round robin or the pacing of ns-3.
    pub(super) updates_departure: bool,
    /// True if a waiting READ response leaves before the next request packet. Requests and
    /// responses alternate.
    response_next: bool,
    /// True if this queue pair is counted in [`EndpointState::completing_qps`].
    is_completing: bool,
    /// True if READ responses are waiting.
    has_responses: bool,
    pub(super) counters: Counters,
    /// Format of the telemetry that data packets of this queue pair collect. `None`: they collect none.
    telemetry: Option<TelemetryFormat>,
    /// Number of acknowledged packets when the departure time was last computed.
    acked_at_update: u64,
    requester: Requester,
    responder: Responder,
}

impl QueuePair {
    pub(super) fn new(index: QpIndex, config: QpConfig, congestion: Box<dyn CongestionControl>) -> QueuePair {
        QueuePair {
            index,
            updates_departure: config.pacing != Pacing::Exact,
            requester: Requester::new(&config),
            responder: Responder::new(&config),
            config,
            telemetry: congestion.telemetry_format(),
            congestion,
            counters: Counters::default(),
            pace: PacingInterval::default(),
            due: Picos::ZERO,
            is_queued: false,
            acked_at_update: 0,
            response_next: true,
            armed: Picos::NEVER,
            is_completing: false,
            has_responses: false,
        }
    }

    fn split<'a>(
        &'a mut self,
        now: Picos,
        shared: &'a mut EndpointState,
    ) -> (&'a mut Requester, &'a mut Responder, QpContext<'a>) {
        let env = QpContext {
            now,
            qp: self.index,
            config: &self.config,
            congestion: &mut *self.congestion,
            counters: &mut self.counters,
            shared,
        };
        (&mut self.requester, &mut self.responder, env)
    }

    /// Fetches the memory that nearly every packet uses, without waiting for it.
    #[inline]
    fn prefetch(&self) {
        prefetch(&self.config);
        prefetch(&self.config.first_psn);
        prefetch(&self.congestion);
        prefetch(&self.counters);
    }

    /// Fetches the memory that sent packets and their acknowledgements use, without waiting for it.
    #[inline]
    pub(super) fn prefetch_requester(&self) {
        self.prefetch();
        self.requester.prefetch();
    }

    /// Fetches the memory that received requests use, without waiting for it.
    #[inline]
    pub(super) fn prefetch_responder(&self) {
        self.prefetch();
        prefetch(&self.responder);
        prefetch(&self.responder.replies);
    }

    pub(super) fn congestion(&self) -> &dyn CongestionControl {
        &*self.congestion
    }

    pub(super) fn post(
        &mut self,
        now: Picos,
        shared: &mut EndpointState,
        request: &WorkRequest,
    ) -> Result<(), PostError> {
        self.requester.post(&self.config, request)?;
        self.update_after_requester(now, shared);
        Ok(())
    }

    pub(super) fn post_receives(&mut self, count: u32) {
        let entries = &mut self.responder.receive_entries;
        *entries = entries.saturating_add(u64::from(count));
    }

    pub(super) fn receive(
        &mut self,
        now: Picos,
        shared: &mut EndpointState,
        packet: &Packet,
        arrival: &ArrivalInfo<'_>,
    ) {
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += u64::from(packet.payload_len);
        let (requester, responder, mut env) = self.split(now, shared);
        match packet.opcode {
            Opcode::RcAcknowledge => {
                requester.on_acknowledge(&mut env, packet, arrival.telemetry);
                self.update_after_requester(now, shared);
            }
            Opcode::Cnp => {
                self.on_cnp(now);
                self.update_after_requester(now, shared);
            }
            opcode => {
                let response = is_read_response(opcode);
                let request = opcode.transport() != Service::Other;
                if arrival.ce && (response || request) {
                    responder.replies.on_ecn_mark(&mut env);
                }
                let has_data = response || (request && opcode != Opcode::RcReadRequest);
                env.counters.rx_data_packets += u64::from(has_data);
                if response {
                    requester.on_read_response(&mut env, packet);
                    self.update_after_requester(now, shared);
                } else {
                    responder.on_request(&mut env, packet, arrival);
                    self.update_after_responder(now, shared);
                }
            }
        }
    }

    fn on_cnp(&mut self, now: Picos) {
        if matches!(self.config.feedback, CongestionFeedback::Cnp { .. }) && !self.requester.failed {
            self.counters.rp_cnp_handled += 1;
            self.congestion.on_cnp(now);
        } else {
            self.counters.rp_cnp_ignored += 1;
        }
    }

    /// Takes the next data packet of this queue pair. Also returns the format of the telemetry that the
    /// packet collects. Returns `None` if the packet is no longer needed.
    #[inline]
    pub(super) fn pop_packet(
        &mut self,
        now: Picos,
        shared: &mut EndpointState,
    ) -> Option<(Packet, Option<TelemetryFormat>)> {
        self.is_queued = false;
        let rate = self.rate_bps();
        if self.has_responses {
            let packet = self.next_alternating(now, shared);
            self.has_responses = self.responder.replies.has_response();
            return self.account_packet(now, shared, rate, packet);
        }
        // The compiler would copy a packet from two call sites through memory.
        let (requester, _, mut env) = self.split(now, shared);
        let packet = requester.next_packet(&mut env);
        self.account_packet(now, shared, rate, packet)
    }

    /// Takes a READ response or a request packet. The two kinds alternate.
    #[inline(never)]
    fn next_alternating(&mut self, now: Picos, shared: &mut EndpointState) -> Option<Packet> {
        let response_next = self.response_next;
        let (requester, responder, mut env) = self.split(now, shared);
        if response_next {
            responder
                .replies
                .next_response(&mut env)
                .or_else(|| requester.next_packet(&mut env))
        } else {
            requester
                .next_packet(&mut env)
                .or_else(|| responder.replies.next_response(&mut env))
        }
    }

    /// Updates the pacing and the congestion controller after a packet has been taken.
    #[inline(always)]
    fn account_packet(
        &mut self,
        now: Picos,
        shared: &mut EndpointState,
        rate: u64,
        packet: Option<Packet>,
    ) -> Option<(Packet, Option<TelemetryFormat>)> {
        let collects = self
            .telemetry
            .filter(|_| packet.as_ref().is_some_and(|packet| packet.payload_len > 0));
        if let Some(packet) = &packet {
            self.response_next = !is_read_response(packet.opcode);
            let telemetry_bytes = collects.map_or(0, |format| u32::from(format.bytes));
            let bytes = packet.payload_len + self.config.header_bytes + telemetry_bytes;
            if packet.opcode != Opcode::RcReadRequest {
                self.congestion.on_packet_sent(now, bytes);
            }
            let interval = self.pace.interval(self.config.pacing, bytes, rate);
            self.due = self.due.max(now).saturating_add(interval);
        }
        self.update_after_requester(now, shared);
        packet.map(|packet| (packet, collects))
    }

    /// Processes the timers of this queue pair that are due.
    pub(super) fn process_timers(&mut self, now: Picos, shared: &mut EndpointState) {
        if self.congestion.next_deadline() <= now {
            self.congestion.on_deadline(now);
        }
        // In ns-3, a NIC does not look for a packet after a rate change. It does so for a retransmission
        // after a timeout.
        let is_timeout = self.requester.next_deadline() <= now;
        if is_timeout {
            shared.classes.begin_event(now);
        }
        let (requester, responder, mut env) = self.split(now, shared);
        requester.process_timers(&mut env);
        responder.process_gap_timer(&mut env);
        let deadline = self.responder.gap_deadline.min(self.requester_deadline());
        self.update_schedule(now, deadline, shared);
        if is_timeout {
            shared.classes.end_event(now);
        }
    }

    /// Moves the departure of the next packet if the rate has changed, as in the round robin of ns-3. Removes
    /// the queue pair from its class if its window has shrunk and no longer permits the packet.
    #[inline(never)]
    fn update_departure(&mut self, now: Picos, shared: &mut EndpointState) {
        let due = self.due;
        if self.config.pacing == Pacing::Ns3Retimed {
            let (before, after) = self.pace.change_rate(self.config.pacing, self.rate_bps());
            self.due = Picos(self.due.0.saturating_sub(before.0).saturating_add(after.0));
        }
        let class = self.config.data_class;
        let available = match self.requester.has_data_left() {
            true => self.due,
            false => Picos::NEVER,
        };
        let is_retimed = self.due != due;
        // The ns-3 model computes a rate with every acknowledgement except the first one.
        let before = std::mem::replace(&mut self.acked_at_update, self.requester.unacked);
        let has_new_rate =
            self.config.pacing == Pacing::Ns3Retimed && before > 0 && before != self.requester.unacked;
        shared.classes.set_next_available(
            class,
            now,
            self.index.0,
            available,
            has_new_rate,
            self.requester.has_messages(),
        );
        if !self.is_queued {
            return;
        }
        if !self.has_packet() {
            self.is_queued = false;
            shared.classes.move_departure(class, Picos::NEVER, self.index.0);
        } else if is_retimed {
            shared
                .classes
                .move_departure(class, self.due.max(now), self.index.0);
        }
    }

    /// Returns the rate of congestion control, limited by the configured maximum.
    #[inline]
    fn rate_bps(&self) -> u64 {
        self.congestion
            .rate_bps()
            .min(self.config.rate_bps_max.unwrap_or(u64::MAX))
            .max(1)
    }

    /// Returns whether the queue pair has a packet to send, now or later.
    #[inline(always)]
    fn has_packet(&self) -> bool {
        self.has_responses || self.requester.can_send(&self.config, &*self.congestion)
    }

    /// Returns the time of the next timer of the requester and of congestion control.
    #[inline]
    fn requester_deadline(&self) -> Picos {
        self.requester
            .next_deadline()
            .min(self.congestion.next_deadline())
    }

    /// Updates the class queue and the timers after an event of the requester or of congestion control. Such an event
    /// does not change the responder, whose memory is therefore not read.
    #[inline]
    fn update_after_requester(&mut self, now: Picos, shared: &mut EndpointState) {
        let deadline = self.requester_deadline();
        self.update_schedule(now, deadline, shared);
    }

    /// Updates the class queue and the timers after a request packet. Such a packet does not change the requester and
    /// congestion control, whose memory is therefore not read: without waiting READ responses, a queue pair that is
    /// not queued still has no packet.
    #[inline]
    fn update_after_responder(&mut self, now: Picos, shared: &mut EndpointState) {
        self.has_responses = self.responder.replies.has_response();
        let deadline = self.responder.gap_deadline;
        if self.has_responses || self.updates_departure {
            return self.update_schedule(now, deadline, shared);
        }
        shared.timers.arm(self.index.0, deadline, &mut self.armed);
    }

    /// Updates the class queue after an event, and the timer, which must run until `deadline` at most.
    #[inline]
    fn update_schedule(&mut self, now: Picos, deadline: Picos, shared: &mut EndpointState) {
        if self.updates_departure {
            self.update_departure(now, shared);
        }
        if !self.is_queued && self.has_packet() {
            self.is_queued = true;
            shared
                .classes
                .push(self.config.data_class, self.due.max(now), self.index.0);
        }
        shared.timers.arm(self.index.0, deadline, &mut self.armed);
        self.update_can_complete_messages(shared);
    }

    /// Updates [`EndpointState::completing_qps`].
    ///
    /// The queue pair counts if one of these conditions holds:
    ///
    /// - The last packet of its oldest message has been sent. An acknowledgement then completes the message.
    /// - Its transport has no acknowledgements. A message is then complete when its last packet leaves.
    /// - Its receiver stores packets behind a gap. Any data packet can then fill the gap and complete
    ///   a message.
    #[inline]
    pub(super) fn update_can_complete_messages(&mut self, shared: &mut EndpointState) {
        let is_completing = self.config.transport != Transport::Rc
            || self.config.reorders()
            || self.requester.has_sent_message();
        if is_completing != self.is_completing {
            self.is_completing = is_completing;
            match is_completing {
                true => shared.completing_qps += 1,
                false => shared.completing_qps -= 1,
            }
        }
    }
}

fn is_read_response(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::RcReadResponseFirst
            | Opcode::RcReadResponseMiddle
            | Opcode::RcReadResponseLast
            | Opcode::RcReadResponseOnly
    )
}
