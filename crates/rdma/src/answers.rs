//! What the sending side does when answers arrive: acknowledgements, NAKs, READ responses.

use xoff_units::Picos;
use xoff_wire::ext::rnr_timer_us;
use xoff_wire::{Aeth, NakCode, Syndrome};

use super::config::Recovery;
use super::packet::{Header, Packet};
use super::requester::Requester;
use super::shared::Env;
use super::telemetry::Telemetry;
use super::work::{FailReason, Verb};

impl Requester {
    /// An ACKNOWLEDGE packet.
    #[inline]
    pub(super) fn on_acknowledge(
        &mut self,
        env: &mut Env<'_>,
        packet: &Packet,
        telemetry: Option<&Telemetry>,
    ) {
        let sequence = self
            .numbering
            .sequence(packet.psn, self.unacked)
            .filter(|s| *s < self.sent);
        let (Header::Aeth(Aeth { syndrome, .. }), Some(sequence)) = (packet.header, sequence) else {
            env.counters.rx_discarded += 1;
            return;
        };
        match syndrome {
            Syndrome::Ack { .. } => {
                let met_read = self.advance(env, sequence + 1);
                self.inform(env, Some(sequence), packet.becn, telemetry);
                if met_read {
                    self.on_acknowledge_ahead(env, sequence + 1);
                }
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                self.on_sequence_error(env, sequence, packet.becn, telemetry);
            }
            Syndrome::RnrNak { timer } => self.on_rnr_nak(env, sequence, timer),
            Syndrome::Nak(code) => {
                env.counters.req_remote_errors += 1;
                self.advance(env, sequence);
                self.inform(env, None, packet.becn, telemetry);
                if sequence >= self.unacked {
                    self.fail(env, FailReason::Refused(code));
                }
            }
            Syndrome::Reserved(_) => env.counters.rx_discarded += 1,
        }
    }

    fn on_sequence_error(
        &mut self,
        env: &mut Env<'_>,
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
                    self.inform(env, None, marked, telemetry);
                }
                if sequence >= self.unacked && sequence < self.next {
                    env.congestion.missed(env.now);
                    self.repeat(sequence);
                }
            }
            Recovery::GoBackN => {
                let met_read = self.advance(env, sequence);
                self.inform(env, sequence.checked_sub(1), marked, telemetry);
                if met_read {
                    self.on_implied_nak(env);
                } else if sequence == self.unacked && self.next > sequence {
                    env.congestion.missed(env.now);
                    if self.unacked > before || self.spend_retry(env) {
                        self.rewind(self.unacked, mtu);
                    }
                }
            }
            Recovery::GoBackZero => {
                let met_read = self.advance(env, sequence);
                self.inform(env, sequence.checked_sub(1), marked, telemetry);
                let begun = self.messages.front().is_some_and(|front| sequence >= front.first);
                if met_read {
                    self.on_implied_nak(env);
                } else if begun {
                    env.congestion.missed(env.now);
                    self.restart_message(mtu);
                }
            }
        }
    }

    fn on_rnr_nak(&mut self, env: &mut Env<'_>, sequence: u64, timer: u8) {
        env.counters.rnr_nak_retry_err += 1;
        let met_read = self.advance(env, sequence);
        self.inform(env, sequence.checked_sub(1), false, None);
        if met_read {
            self.on_implied_nak(env);
        } else if sequence == self.unacked && self.rnr_until == Picos::NEVER && self.spend_rnr_retry(env) {
            self.rewind(sequence, env.config.mtu);
            let wait = Picos::from_micros(u64::from(rnr_timer_us(timer)));
            self.rnr_until = env.now.saturating_add(wait);
        }
    }

    /// A READ RESPONSE packet: data, and an acknowledgement of all before it.
    pub(super) fn on_read_response(&mut self, env: &mut Env<'_>, packet: &Packet) {
        let sequence = self
            .numbering
            .sequence(packet.psn, self.unacked)
            .filter(|s| *s < self.sent);
        let Some(sequence) = sequence else {
            env.counters.rx_discarded += 1;
            return;
        };
        if sequence < self.unacked {
            return; // repeated, and here already
        }
        let met_read = self.advance(env, sequence);
        self.inform(env, None, false, None);
        let response_to = self.messages.get(self.messages.find(sequence));
        let Some(read) = response_to.filter(|message| {
            message.verb == Verb::Read && packet.payload_len == message.payload(sequence, env.config.mtu)
        }) else {
            env.counters.rx_discarded += 1;
            return;
        };
        if met_read {
            self.hold_response(env, sequence);
        } else if sequence == self.unacked {
            let end = read.end();
            self.advance_read(env, end);
            self.take_held(env);
        } else {
            env.counters.rx_discarded += 1;
        }
    }

    /// A READ response arrived behind a missing one.
    fn hold_response(&mut self, env: &mut Env<'_>, sequence: u64) {
        env.counters.out_of_sequence += 1;
        if !env.config.reorders() {
            self.on_implied_nak(env);
            return;
        }
        let places_max = env.config.reorder_window_packets as usize + 1;
        if sequence - self.unacked >= places_max as u64 {
            // No room, so the gap has lasted too long.
            self.request_missing_responses(env);
        } else {
            self.ahead.hold(self.unacked, sequence, places_max);
            self.on_acknowledge_ahead(env, sequence);
        }
    }

    /// All requests before `through` are acknowledged, but a READ response before it is missing. It is asked for, after the time for
    /// which gaps are tolerated.
    fn on_acknowledge_ahead(&mut self, env: &mut Env<'_>, through: u64) {
        if !env.config.reorders() {
            self.on_implied_nak(env);
            return;
        }
        self.ahead.acked_to = self.ahead.acked_to.max(through);
        match env.config.out_of_order {
            None => self.on_implied_nak(env),
            Some(tolerated) if self.ahead.gap_deadline == Picos::NEVER && !self.read_gap => {
                self.ahead.gap_deadline = env.now.saturating_add(tolerated);
            }
            Some(_) => {}
        }
    }

    /// Takes the responses that waited for the one that has just arrived, and the acknowledgements between them.
    #[inline]
    fn take_held(&mut self, env: &mut Env<'_>) {
        if !self.ahead.is_waiting(self.unacked) {
            self.ahead.gap_deadline = Picos::NEVER;
            return;
        }
        let acked_to = self.ahead.acked_to;
        let acknowledges_requests = acked_to > self.unacked;
        loop {
            self.advance(env, acked_to);
            match self.messages.front() {
                Some(read) if read.verb == Verb::Read && self.ahead.has(self.unacked) => {
                    let end = read.end();
                    self.advance_read(env, end);
                }
                _ => break,
            }
        }
        if acknowledges_requests {
            self.inform(env, None, false, None);
        }
        let tolerated = env.config.out_of_order;
        let tolerated = tolerated.filter(|_| self.ahead.is_waiting(self.unacked));
        // The clock runs anew for the gap that is now the oldest.
        self.ahead.gap_deadline = tolerated.map_or(Picos::NEVER, |time| env.now.saturating_add(time));
    }

    /// A gap between READ responses has lasted as long as is tolerated.
    pub(super) fn request_missing_responses(&mut self, env: &mut Env<'_>) {
        self.ahead.gap_deadline = Picos::NEVER;
        self.on_implied_nak(env);
    }

    /// Something arrived that comes behind a READ response that is missing (IBTA 9.7.3.3). The READ is asked for again once.
    fn on_implied_nak(&mut self, env: &mut Env<'_>) {
        if self.read_gap {
            return;
        }
        self.read_gap = true;
        env.counters.implied_nak_seq_err += 1;
        match env.config.recovery {
            Recovery::SelectiveRepeat => self.repeat(self.unacked),
            Recovery::GoBackN | Recovery::GoBackZero => self.rewind(self.unacked, env.config.mtu),
        }
    }
}
