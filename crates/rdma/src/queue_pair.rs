//! A queue pair: its two sides, its congestion control, its pacing.

use xoff_units::Picos;
use xoff_wire::{Opcode, Transport as Service};

use super::config::{QpConfig, QpIndex, Transport};
use super::congestion::{CongestionControl, Feedback};
use super::counters::Counters;
use super::pacing::{Pace, Pacing};
use super::packet::Packet;
use super::requester::Requester;
use super::responder::Responder;
use super::shared::{Env, Shared};
use super::telemetry::TelemetryFormat;
use super::work::{Arrival, PostError, WorkRequest};

/// A queue pair.
#[derive(Debug)]
pub(super) struct QueuePair {
    index: QpIndex,
    pub(super) config: QpConfig,
    congestion: Box<dyn CongestionControl>,
    /// What its data packets collect.
    telemetry: Option<TelemetryFormat>,
    pub(super) counters: Counters,
    requester: Requester,
    responder: Responder,
    pace: Pace,
    /// When it may send next.
    due: Picos,
    /// It stands in the queue of its data class.
    queued: bool,
    /// Its departure is reconsidered whenever something happens: queue pairs take turns, or its pacing is that of ns-3.
    pub(super) is_reconsidered: bool,
    /// Packets acknowledged when its departure was last reconsidered.
    reconsidered_at: u64,
    /// The next data packet is a READ response if there is one: requests and responses take turns.
    response_next: bool,
    /// When it is asked for timers.
    pub(super) armed: Picos,
    /// It is one of [`Shared::completing`].
    completing: bool,
}

impl QueuePair {
    pub(super) fn new(index: QpIndex, config: QpConfig, congestion: Box<dyn CongestionControl>) -> QueuePair {
        QueuePair {
            index,
            is_reconsidered: config.pacing != Pacing::Exact,
            requester: Requester::new(&config),
            responder: Responder::new(&config),
            config,
            telemetry: congestion.telemetry_format(),
            congestion,
            counters: Counters::default(),
            pace: Pace::default(),
            due: Picos::ZERO,
            queued: false,
            reconsidered_at: 0,
            response_next: true,
            armed: Picos::NEVER,
            completing: false,
        }
    }

    fn parts<'a>(
        &'a mut self,
        now: Picos,
        shared: &'a mut Shared,
    ) -> (&'a mut Requester, &'a mut Responder, Env<'a>) {
        let env = Env {
            now,
            qp: self.index,
            config: &self.config,
            congestion: &mut *self.congestion,
            counters: &mut self.counters,
            shared,
        };
        (&mut self.requester, &mut self.responder, env)
    }

    pub(super) fn congestion(&self) -> &dyn CongestionControl {
        &*self.congestion
    }

    pub(super) fn post(
        &mut self,
        now: Picos,
        shared: &mut Shared,
        request: &WorkRequest,
    ) -> Result<(), PostError> {
        self.requester.post(&self.config, request)?;
        self.settle(now, shared);
        Ok(())
    }

    pub(super) fn post_receives(&mut self, count: u32) {
        let entries = &mut self.responder.receive_entries;
        *entries = entries.saturating_add(u64::from(count));
    }

    pub(super) fn receive(
        &mut self,
        now: Picos,
        shared: &mut Shared,
        packet: &Packet,
        arrival: &Arrival<'_>,
    ) {
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += u64::from(packet.payload_len);
        let (requester, responder, mut env) = self.parts(now, shared);
        match packet.opcode {
            Opcode::RcAcknowledge => requester.on_acknowledge(&mut env, packet, arrival.telemetry),
            Opcode::Cnp => self.on_cnp(now),
            opcode => {
                let response = is_read_response(opcode);
                let request = opcode.transport() != Service::Other;
                if arrival.ce && (response || request) {
                    responder.replies.on_mark(&mut env);
                }
                let has_data = response || (request && opcode != Opcode::RcReadRequest);
                env.counters.rx_data_packets += u64::from(has_data);
                if response {
                    requester.on_read_response(&mut env, packet);
                } else {
                    responder.on_request(&mut env, packet, arrival);
                }
            }
        }
        self.settle(now, shared);
    }

    fn on_cnp(&mut self, now: Picos) {
        if matches!(self.config.feedback, Feedback::Cnp { .. }) && !self.requester.failed {
            self.counters.rp_cnp_handled += 1;
            self.congestion.notified(now);
        } else {
            self.counters.rp_cnp_ignored += 1;
        }
    }

    /// Its turn in its data class: the next packet, and the telemetry that it collects. `None` if what it wanted to send has
    /// become needless meanwhile.
    #[inline]
    pub(super) fn pop(
        &mut self,
        now: Picos,
        shared: &mut Shared,
    ) -> Option<(Packet, Option<TelemetryFormat>)> {
        self.queued = false;
        let rate = self.rate_bps();
        if self.responder.replies.has_response() {
            let packet = self.next_in_turns(now, shared);
            return self.send(now, shared, rate, packet);
        }
        // Two places that a packet comes from would make it go through memory.
        let (requester, _, mut env) = self.parts(now, shared);
        let packet = requester.next_packet(&mut env);
        self.send(now, shared, rate, packet)
    }

    /// The next packet where READ responses wait: they and requests take turns.
    #[inline(never)]
    fn next_in_turns(&mut self, now: Picos, shared: &mut Shared) -> Option<Packet> {
        let response_next = self.response_next;
        let (requester, responder, mut env) = self.parts(now, shared);
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

    /// Takes account of a packet that is sent at a rate, or of its absence.
    #[inline(always)]
    fn send(
        &mut self,
        now: Picos,
        shared: &mut Shared,
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
                self.congestion.sent(now, bytes);
            }
            let interval = self.pace.interval(self.config.pacing, bytes, rate);
            self.due = self.due.max(now).saturating_add(interval);
        }
        self.settle(now, shared);
        packet.map(|packet| (packet, collects))
    }

    /// Fires what is due.
    pub(super) fn expire(&mut self, now: Picos, shared: &mut Shared) {
        if self.congestion.next_deadline() <= now {
            self.congestion.expire(now);
        }
        // A change of rate alone does not make a NIC of ns-3 look for a packet; what a timeout repeats has to leave.
        let is_timeout = self.requester.next_deadline() <= now;
        if is_timeout {
            shared.classes.begin_event(now);
        }
        let (requester, responder, mut env) = self.parts(now, shared);
        requester.expire(&mut env);
        responder.expire(&mut env);
        self.settle(now, shared);
        if is_timeout {
            shared.classes.end_event(now);
        }
    }

    /// Where queue pairs take turns as in ns-3: moves the departure of the next packet if the rate has changed, and gives up the
    /// place in the queue if a window that has shrunk forbids the packet.
    #[inline(never)]
    fn reconsider(&mut self, now: Picos, shared: &mut Shared) {
        let due = self.due;
        if self.config.pacing == Pacing::Ns3Retimed {
            let (before, after) = self.pace.retime(self.config.pacing, self.rate_bps());
            self.due = Picos(self.due.0.saturating_sub(before.0).saturating_add(after.0));
        }
        let class = self.config.data_class;
        let available = match self.requester.has_data_left() {
            true => self.due,
            false => Picos::NEVER,
        };
        let is_retimed = self.due != due;
        // The model computes a rate with every acknowledgement but the first.
        let before = std::mem::replace(&mut self.reconsidered_at, self.requester.unacked);
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
        if !self.queued {
            return;
        }
        if !self.has_packet() {
            self.queued = false;
            shared.classes.retime(class, Picos::NEVER, self.index.0);
        } else if is_retimed {
            shared.classes.retime(class, self.due.max(now), self.index.0);
        }
    }

    /// Congestion control's rate, within that of the configuration.
    #[inline]
    fn rate_bps(&self) -> u64 {
        self.congestion
            .rate_bps()
            .min(self.config.rate_bps_max.unwrap_or(u64::MAX))
            .max(1)
    }

    /// Whether it has a packet to send, at whatever time.
    #[inline(always)]
    fn has_packet(&self) -> bool {
        self.responder.replies.has_response() || self.requester.sendable(&self.config, &*self.congestion)
    }

    /// After anything happened: enters the queue if it can send, and the timers.
    #[inline]
    fn settle(&mut self, now: Picos, shared: &mut Shared) {
        if self.is_reconsidered {
            self.reconsider(now, shared);
        }
        if !self.queued && self.has_packet() {
            self.queued = true;
            shared
                .classes
                .push(self.config.data_class, self.due.max(now), self.index.0);
        }
        let deadline = self.requester.next_deadline();
        let deadline = deadline
            .min(self.responder.gap_deadline)
            .min(self.congestion.next_deadline());
        shared.timers.arm(self.index.0, deadline, &mut self.armed);
        self.note_completing(shared);
    }

    /// Counts itself among those that may complete something, or no longer. An acknowledgement completes a message whose last packet has
    /// been sent; without acknowledgements messages complete as they leave; data behind a gap may wait for what is not the last.
    #[inline]
    pub(super) fn note_completing(&mut self, shared: &mut Shared) {
        let completing = self.config.transport != Transport::Rc
            || self.config.reorders()
            || self.requester.has_sent_message();
        if completing != self.completing {
            self.completing = completing;
            match completing {
                true => shared.completing += 1,
                false => shared.completing -= 1,
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
