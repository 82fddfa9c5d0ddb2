//! The receive path of a host: NIC, queue pairs, receiver and neighbours.

use xoff_dataplane::Picos;
use xoff_wire::parse::{ParsedHeaders, Payload};
use xoff_wire::{MacControl, RoceView};

use super::{Host, InboundFrame};
use crate::roce_datagram::is_trimmed;

impl Host {
    /// Processes a whole frame that arrived at the model time `now`. `frame` has no FCS. `wall_ns` is the
    /// wall clock at the arrival, in nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub fn receive(&mut self, now: Picos, wall_ns: u64, frame: &[u8], parsed: &ParsedHeaders) {
        let inbound = InboundFrame {
            prefix: frame,
            frame_len: frame.len() as u32,
            parsed,
            damaged: false,
            telemetry: None,
        };
        self.queue_pairs.begin_event(now);
        self.process_frame(now, wall_ns, &inbound);
        self.queue_pairs.end_event(now);
    }

    fn process_frame(&mut self, now: Picos, wall_ns: u64, inbound: &InboundFrame<'_>) {
        let InboundFrame {
            prefix: frame,
            parsed,
            ..
        } = *inbound;
        if !self.passes_nic(now, inbound) {
            return;
        }
        match RoceView::new_checked(frame) {
            Ok(view) => {
                let is_for_queue_pair = !self.queue_pairs.is_empty()
                    && view.icrc_is_valid()
                    && self.queue_pairs.receive(now, frame, parsed, None);
                if !is_for_queue_pair {
                    self.receive_without_queue_pair(now, wall_ns, frame, &view);
                }
            }
            Err(_) if is_trimmed(frame, parsed) => self.receiver.totals.trimmed_frames += 1,
            Err(_) => self.receive_other(now, inbound),
        }
    }

    /// Processes a frame that arrives at the model time `now` in virtual time.
    #[inline]
    pub fn receive_virtual(&mut self, now: Picos, inbound: &InboundFrame<'_>) {
        self.queue_pairs.begin_event(now);
        self.process_virtual_frame(now, inbound);
        self.queue_pairs.end_event(now);
    }

    #[inline(always)]
    fn process_virtual_frame(&mut self, now: Picos, inbound: &InboundFrame<'_>) {
        if !self.passes_nic(now, inbound) {
            return;
        }
        let InboundFrame { prefix, parsed, .. } = *inbound;
        if inbound.damaged {
            self.receiver.receive_damaged(prefix);
        } else if self.queue_pairs.receive(now, prefix, parsed, inbound.telemetry) {
            // The transport has processed the frame.
        } else if is_trimmed(prefix, parsed) {
            self.receiver.totals.trimmed_frames += 1;
        } else if let Ok(view) = RoceView::new_checked(prefix) {
            self.receive_without_queue_pair(now, now.as_nanos(), prefix, &view);
        } else {
            self.receive_other(now, inbound);
        }
    }

    /// Processes a RoCE frame that is for no queue pair of this host. Frames of flows carry a stamp, and only other
    /// frames are frames for unknown queue pairs.
    fn receive_without_queue_pair(&mut self, now: Picos, wall_ns: u64, frame: &[u8], view: &RoceView<'_>) {
        let belongs_to_flow = self.receiver.receive(now, wall_ns, frame, view);
        if !belongs_to_flow {
            self.queue_pairs.count_unknown_packet();
        }
    }

    /// Returns whether the NIC passes a frame to the host. Pause frames end at the NIC. The NIC drops frames
    /// for other hosts and frames that do not fit into the receive buffer.
    #[inline]
    fn passes_nic(&mut self, now: Picos, inbound: &InboundFrame<'_>) -> bool {
        if inbound.parsed.payload == Payload::MacControl {
            self.receive_control(now, inbound.prefix);
            return false;
        }
        let for_us = inbound
            .prefix
            .first_chunk::<6>()
            .is_some_and(|dst| *dst == self.mac || dst[0] & 1 != 0);
        if !for_us {
            self.receiver.totals.flooded_frames += 1;
            return false;
        }
        self.store_in_receive_buffer(now, inbound.frame_len, inbound.parsed)
    }

    fn receive_other(&mut self, now: Picos, inbound: &InboundFrame<'_>) {
        self.receiver.totals.other_frames += 1;
        let Some(resolved) = self.neighbours.receive(now, inbound.prefix, inbound.parsed) else {
            self.apply_negotiation(now);
            return;
        };
        self.queue_pairs.resolve(resolved.ip, resolved.mac);
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            if flow.next_hop() == resolved.ip && !flow.is_resolved() {
                flow.resolve(resolved.mac);
                self.enqueue_flow(index, now);
            }
        }
    }

    fn receive_control(&mut self, now: Picos, frame: &[u8]) {
        match MacControl::parse(frame) {
            Ok(MacControl::Pfc(pfc)) => self.nic.receive_pfc(now, pfc.enable, &pfc.quanta),
            Ok(MacControl::Pause { quanta }) => self.nic.receive_pause(now, quanta),
            Err(_) => self.receiver.totals.malformed_control_frames += 1,
        }
    }

    /// Stores a frame in the receive buffer. Returns `false` if the buffer is full.
    fn store_in_receive_buffer(&mut self, now: Picos, frame_len: u32, parsed: &ParsedHeaders) -> bool {
        let Some(receive_buffer) = &mut self.receive_buffer else {
            return true;
        };
        let class = receive_buffer.class_of(parsed);
        let mac_len = self.nic.link().mac_len(frame_len);
        let taken = receive_buffer.store_frame(now, class, mac_len);
        if !taken {
            self.nic.count_rx_dropped(class);
        }
        self.update_pfc(now);
        taken
    }
}
