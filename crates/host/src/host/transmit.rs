//! The transmit path of a host. Control frames leave first. Queue pairs and flows then send in turn.

use xoff_dataplane::Picos;
use xoff_dataplane::ids::PRIORITIES;
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl};

use super::Host;
use crate::nic::SendSlot;
use crate::queue_pairs::{EmitMode, EmittedFrame};

impl Host {
    /// Builds the next frame at the start of `buf` and returns its length in bytes, without FCS. Returns
    /// `None` if no frame may be sent before [`Host::next_deadline`]. `wall_ns` is written into the stamp of
    /// the frame.
    ///
    /// The host counts the frame as sent. `buf` must have [`Host::frame_len_max`] bytes. A frame that does
    /// not fit is not sent.
    pub fn transmit(&mut self, now: Picos, wall_ns: u64, buf: &mut [u8]) -> Option<usize> {
        self.emit_next(now, || wall_ns, buf, EmitMode::Whole)
            .map(|emitted| emitted.frame_len)
    }

    /// Does the same as [`Host::transmit`] in virtual time. For frames of queue pairs, only the headers
    /// are written.
    #[inline(always)] // because the returned value is large
    pub fn transmit_virtual(&mut self, now: Picos, buf: &mut [u8]) -> Option<EmittedFrame> {
        self.emit_next(now, || now.as_nanos(), buf, EmitMode::Headers)
    }

    #[inline]
    fn emit_next(
        &mut self,
        now: Picos,
        wall_ns: impl FnOnce() -> u64,
        buf: &mut [u8],
        mode: EmitMode,
    ) -> Option<EmittedFrame> {
        self.advance_control(now);
        self.queue_pairs.advance(now);
        self.update_pfc(now);
        if self.next_control_frame().is_some()
            && let Some(frame_len) = self.transmit_control(now, buf)
        {
            return Some(EmittedFrame::complete(frame_len));
        }
        loop {
            let queue_pairs = self.queue_pairs.earliest();
            let slot = match self.flows.is_empty() {
                true => self.nic.select_class(now, queue_pairs)?,
                false => {
                    let queues = &self.queues;
                    let first = |class: usize| queues[class].earliest();
                    self.nic.select_class(
                        now,
                        queue_pairs.merge_flow_departures(first, &mut [Picos::NEVER; PRIORITIES]),
                    )?
                }
            };
            let flows_at = match self.flows.is_empty() {
                true => Picos::NEVER,
                false => self.queues[slot.class].earliest(),
            };
            let of_queue_pair = match queue_pairs.at[slot.class] {
                at if at > slot.start => false,
                _ if flows_at > slot.start => true,
                _ => !self.queue_pair_sent,
            };
            self.queue_pair_sent = of_queue_pair;
            if !of_queue_pair {
                return self
                    .emit_flow_frame(now, wall_ns(), slot, buf)
                    .map(EmittedFrame::complete);
            }
            // A packet that could not be written counts as sent and is lost. The loop continues with the
            // next frame.
            let departure_time = self.departure_time(slot, now);
            if let Some(emitted) = self
                .queue_pairs
                .emit_next(departure_time, slot.class as u8, mode, buf)
            {
                let slot = self.nic.limit_catch_up(slot, now, emitted.frame_len as u32);
                self.nic.record_sent(slot, emitted.frame_len as u32);
                self.queue_pairs
                    .link_free_at(now, self.nic.transmission_time(emitted.frame_len as u32));
                return Some(emitted);
            }
        }
    }

    /// Returns the departure time of a packet for the rate limiter of its queue pair. If the call is late by
    /// at most the catch-up time, this is the time at which the packet could have left. In virtual time, no
    /// call is late.
    #[inline]
    fn departure_time(&self, slot: SendSlot, now: Picos) -> Picos {
        if slot.start == now {
            return now;
        }
        let span = self.nic.catch_up_span(self.queue_pairs.frame_len_max as u32);
        slot.start.max(Picos(now.0.saturating_sub(span.0)))
    }

    fn emit_flow_frame(&mut self, now: Picos, wall_ns: u64, slot: SendSlot, buf: &mut [u8]) -> Option<usize> {
        let index = self.queues[slot.class].pop(slot.start)?;
        let flow = &mut self.flows[index as usize];
        let frame_len = flow.next_frame_len();
        let punctual = slot.start;
        let slot = self.nic.limit_catch_up(slot, now, frame_len as u32);
        let built = flow.build_frame(wall_ns, buf);
        if built.is_some() {
            let lost = flow
                .pacer
                .record_sent(slot.start, self.nic.wire_len(frame_len as u32));
            if slot.start != punctual {
                flow.add_late_time(lost);
            }
            self.nic.record_sent(slot, frame_len as u32);
            self.sent_frames += 1;
        }
        if !flow.is_finished() {
            self.queues[slot.class].push(flow.pacer.due(), index);
        }
        built
    }

    fn transmit_control(&mut self, now: Picos, buf: &mut [u8]) -> Option<usize> {
        let start = self.next_control_frame()?.created.max(self.nic.link_free());
        if start > now {
            return None;
        }
        let frame = self.pfc_outbox.pop_front().or_else(|| self.neighbours.pop())?;
        let Some(room) = buf.get_mut(..frame.bytes.len()) else {
            self.nic.count_tx_dropped();
            return None;
        };
        room.copy_from_slice(&frame.bytes);
        let frame_len = frame.bytes.len() as u32;
        if frame.bytes.get(12..14) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes()) {
            let is_pause = matches!(MacControl::parse(&frame.bytes), Ok(MacControl::Pause { .. }));
            self.nic.record_sent_control(start, frame_len, is_pause);
        } else {
            self.nic.record_sent_before_data(start, frame_len);
        }
        Some(frame.bytes.len())
    }
}
