//! Processes acknowledgements, NAKs and READ responses at the requester.

use xoff_units::Picos;
use xoff_wire::ext::rnr_timer_us;
use xoff_wire::{Aeth, NakCode, Syndrome};

use super::config::Recovery;
use super::packet::{ExtensionHeader, Packet};
use super::requester::Requester;
use super::state::QpContext;
use super::telemetry::Telemetry;
use super::work::{FailReason, Verb};

impl Requester {
    /// Processes an acknowledgement, a NAK or an RNR NAK.
    #[inline]
    pub(super) fn on_acknowledge(
        &mut self,
        env: &mut QpContext<'_>,
        packet: &Packet,
        telemetry: Option<&Telemetry>,
    ) {
        let sequence = self
            .numbering
            .nearest_sequence(packet.psn, self.unacked)
            .filter(|s| *s < self.sent);
        let (ExtensionHeader::Aeth(Aeth { syndrome, .. }), Some(sequence)) = (packet.header, sequence) else {
            env.counters.rx_discarded += 1;
            return;
        };
        match syndrome {
            Syndrome::Ack { .. } => {
                let found_read = self.acknowledge_before(env, sequence + 1);
                self.report_ack(env, Some(sequence), packet.becn, telemetry);
                if found_read {
                    self.on_ack_after_gap(env, sequence + 1);
                }
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                self.on_sequence_error(env, sequence, packet.becn, telemetry);
            }
            Syndrome::RnrNak { timer } => self.on_rnr_nak(env, sequence, timer),
            Syndrome::Nak(code) => {
                env.counters.req_remote_errors += 1;
                self.acknowledge_before(env, sequence);
                self.report_ack(env, None, packet.becn, telemetry);
                if sequence >= self.unacked {
                    self.fail_requests(env, FailReason::Refused(code));
                }
            }
            Syndrome::Reserved(_) => env.counters.rx_discarded += 1,
        }
    }

    fn on_sequence_error(
        &mut self,
        env: &mut QpContext<'_>,
        sequence: u64,
        marked: bool,
        telemetry: Option<&Telemetry>,
    ) {
        env.counters.packet_seq_err += 1;
        let before = self.unacked;
        let mtu = env.config.mtu;
        match env.config.recovery {
            Recovery::SelectiveRepeat => {
                if marked || telemetry.is_some() {
                    self.report_ack(env, None, marked, telemetry);
                }
                if sequence >= self.unacked && sequence < self.next {
                    env.congestion.on_nak(env.now);
                    self.schedule_retransmission(sequence);
                }
            }
            Recovery::GoBackN => {
                let found_read = self.acknowledge_before(env, sequence);
                self.report_ack(env, sequence.checked_sub(1), marked, telemetry);
                if found_read {
                    self.on_implied_nak(env);
                } else if sequence == self.unacked && self.next > sequence {
                    env.congestion.on_nak(env.now);
                    if self.unacked > before || self.use_retry(env) {
                        self.rewind(self.unacked, mtu);
                    }
                }
            }
            Recovery::GoBackZero => {
                let found_read = self.acknowledge_before(env, sequence);
                self.report_ack(env, sequence.checked_sub(1), marked, telemetry);
                let begun = self.messages.front().is_some_and(|front| sequence >= front.first);
                if found_read {
                    self.on_implied_nak(env);
                } else if begun {
                    env.congestion.on_nak(env.now);
                    self.restart_message(mtu);
                }
            }
        }
    }

    fn on_rnr_nak(&mut self, env: &mut QpContext<'_>, sequence: u64, timer: u8) {
        env.counters.rnr_nak_retry_err += 1;
        let found_read = self.acknowledge_before(env, sequence);
        self.report_ack(env, sequence.checked_sub(1), false, None);
        if found_read {
            self.on_implied_nak(env);
        } else if sequence == self.unacked && self.rnr_until == Picos::NEVER && self.use_rnr_retry(env) {
            self.rewind(sequence, env.config.mtu);
            let wait = Picos::from_micros(u64::from(rnr_timer_us(timer)));
            self.rnr_until = env.now.saturating_add(wait);
        }
    }

    /// Processes a READ response. The response also acknowledges all earlier requests.
    pub(super) fn on_read_response(&mut self, env: &mut QpContext<'_>, packet: &Packet) {
        let sequence = self
            .numbering
            .nearest_sequence(packet.psn, self.unacked)
            .filter(|s| *s < self.sent);
        let Some(sequence) = sequence else {
            env.counters.rx_discarded += 1;
            return;
        };
        if sequence < self.unacked {
            return; // a repeated response
        }
        let found_read = self.acknowledge_before(env, sequence);
        self.report_ack(env, None, false, None);
        let response_to = self.messages.get(self.messages.index_of(sequence));
        let Some(read) = response_to.filter(|message| {
            message.verb == Verb::Read && packet.payload_len == message.payload_len(sequence, env.config.mtu)
        }) else {
            env.counters.rx_discarded += 1;
            return;
        };
        if found_read {
            self.store_response(env, sequence);
        } else if sequence == self.unacked {
            let end = read.end();
            self.acknowledge_read_response(env, end);
            self.process_held_responses(env);
        } else {
            env.counters.rx_discarded += 1;
        }
    }

    /// Stores a READ response that arrived after a missing READ response.
    fn store_response(&mut self, env: &mut QpContext<'_>, sequence: u64) {
        env.counters.out_of_sequence += 1;
        if !env.config.reorders() {
            self.on_implied_nak(env);
            return;
        }
        let slots_max = env.config.reorder_window_packets as usize + 1;
        if sequence - self.unacked >= slots_max as u64 {
            // The reorder window is full, so the gap is treated as a loss.
            self.request_missing_responses(env);
        } else {
            self.held_responses.store(self.unacked, sequence, slots_max);
            self.on_ack_after_gap(env, sequence);
        }
    }

    /// Processes an acknowledgement for requests behind a missing READ response. After the tolerated
    /// reordering time, the missing response is requested again.
    fn on_ack_after_gap(&mut self, env: &mut QpContext<'_>, acked_end: u64) {
        if !env.config.reorders() {
            self.on_implied_nak(env);
            return;
        }
        self.held_responses.store_acknowledgement(acked_end);
        match env.config.out_of_order {
            None => self.on_implied_nak(env),
            Some(tolerated) if self.held_responses.gap_deadline == Picos::NEVER && !self.read_gap => {
                self.held_responses.gap_deadline = env.now.saturating_add(tolerated);
            }
            Some(_) => {}
        }
    }

    /// Processes the stored responses and acknowledgements that follow the READ response that has
    /// just arrived.
    #[inline]
    fn process_held_responses(&mut self, env: &mut QpContext<'_>) {
        if !self.held_responses.has_later_data(self.unacked) {
            self.held_responses.gap_deadline = Picos::NEVER;
            return;
        }
        let acked_to = self.held_responses.acked_to();
        let acknowledges_requests = acked_to > self.unacked;
        loop {
            self.acknowledge_before(env, acked_to);
            match self.messages.front() {
                Some(read) if read.verb == Verb::Read && self.held_responses.has_response(self.unacked) => {
                    let end = read.end();
                    self.acknowledge_read_response(env, end);
                }
                _ => break,
            }
        }
        if acknowledges_requests {
            self.report_ack(env, None, false, None);
        }
        let tolerated = env.config.out_of_order;
        let tolerated = tolerated.filter(|_| self.held_responses.has_later_data(self.unacked));
        // The reordering time starts again for the gap that is now the oldest.
        self.held_responses.gap_deadline =
            tolerated.map_or(Picos::NEVER, |time| env.now.saturating_add(time));
    }

    /// Requests a missing READ response again, at the end of the tolerated reordering time.
    pub(super) fn request_missing_responses(&mut self, env: &mut QpContext<'_>) {
        self.held_responses.gap_deadline = Picos::NEVER;
        self.on_implied_nak(env);
    }

    /// Processes an implied NAK: the answer to a later request arrives before an expected READ response (IBTA
    /// 9.7.3.3). Repeats the READ once.
    fn on_implied_nak(&mut self, env: &mut QpContext<'_>) {
        if self.read_gap {
            return;
        }
        self.read_gap = true;
        env.counters.implied_nak_seq_err += 1;
        match env.config.recovery {
            Recovery::SelectiveRepeat => self.schedule_retransmission(self.unacked),
            Recovery::GoBackN | Recovery::GoBackZero => self.rewind(self.unacked, env.config.mtu),
        }
    }
}
