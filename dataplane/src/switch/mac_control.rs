//! Handles received MAC control frames. A port honours either PFC frames, or 802.3x PAUSE frames if no
//! priority has PFC. Other MAC control frames are dropped.

use super::Switch;
use super::timers::TimerKind;
use crate::bits::iter_set_bits;
use crate::drops::DropReason;
use crate::frame::{FrameStore, ReceivedFrame};
use crate::ids::{PRIORITIES, PortId};
use crate::outputs::{DroppedFrame, ForwardingResult, Outputs};
use xoff_units::Picos;
use xoff_wire::mac_control::{MacControl, Pfc};

impl Switch {
    #[cold]
    pub(super) fn receive_mac_control<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        arrival: &ReceivedFrame,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> ForwardingResult {
        let bytes = store.prefix(arrival.frame);
        self.control_log.record(now, port, bytes);
        let ingress = &mut self.ports[port.index()];
        let verdict = match MacControl::parse_for_station(bytes, ingress.mac) {
            _ if !ingress.up => Err(DropReason::PortDown),
            Err(_) => Err(DropReason::MacControlUnknown),
            Ok(MacControl::Pause { quanta }) => {
                ingress.counters.pause_rx += 1;
                if ingress.pfc.honours_global_pause() {
                    let timing = ingress.link.timing();
                    ingress
                        .whole_port
                        .receive(now, 1, &[quanta; PRIORITIES], 1, timing);
                }
                Ok(())
            }
            Ok(MacControl::Pfc(Pfc { enable, quanta })) => {
                ingress.counters.pfc_rx_frames += 1;
                iter_set_bits(enable).for_each(|n| ingress.counters.pfc_rx[n] += 1);
                ingress.receiver.receive(
                    now,
                    enable,
                    &quanta,
                    ingress.pfc.honoured_priorities(),
                    ingress.link.timing(),
                );
                Ok(())
            }
        };
        store.release(arrival.frame);
        match verdict {
            Ok(()) => {
                let expiry = self.ports[port.index()].next_pause_change();
                self.timers.arm(port, TimerKind::PauseExpiry, expiry, outputs);
                if self.apply_pause_changes(now, port, outputs) {
                    self.try_transmit(now, port, store, outputs);
                }
                ForwardingResult::Control
            }
            Err(reason) => {
                ForwardingResult::Dropped(self.drop_control_frame(port, arrival.frame_len, reason))
            }
        }
    }

    /// Drops a MAC control frame or a link quality message. The frame is also counted as a received frame
    /// of traffic class 0, so that the number of received frames equals the number of sent, dropped and
    /// queued frames.
    pub(super) fn drop_control_frame(
        &mut self,
        port: PortId,
        frame_len: u32,
        reason: DropReason,
    ) -> DroppedFrame {
        let ingress = &mut self.ports[port.index()];
        let mac_len = ingress.link.mac_len(frame_len);
        let drop = DroppedFrame {
            reason,
            port,
            tc: 0,
            mac_len,
            refusal: None,
        };
        ingress.counters.rx_packets += 1;
        ingress.counters.rx_bytes += u64::from(mac_len);
        ingress.counters.rx_class_packets[0] += 1;
        ingress.count_drop(&drop);
        drop
    }
}
