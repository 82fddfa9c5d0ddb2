//! The counters of a port.

use super::port::Port;
use crate::bits::iter_set_bits;
use crate::config::PauseModel;
use crate::counters::PortCounters;
use crate::drops::DropReason;
use crate::egress::QueuedFrame;
use crate::outputs::DroppedFrame;
use xoff_units::Picos;
use xoff_wire::mac_control::{self, MacControl};

impl Port {
    /// Counts a frame whose transmission starts.
    #[inline(always)]
    pub(crate) fn count_departure(&mut self, now: Picos, queue: usize, frame: &QueuedFrame, duration: Picos) {
        let bytes = u64::from(frame.mac_len());
        self.traffic.count_sent(queue, frame.tc, bytes);
        if let Some(refused_by) = frame.trimmed_for_queue() {
            self.counters.queues[refused_by].tx_trim_packets += 1;
        }
        self.tx_bytes += bytes;
        if !self.has_sent {
            (self.has_sent, self.tx_first_ps) = (true, now.0);
        }
        self.tx_last_ps = now.0.saturating_add(duration.0);
        self.tx_busy_ps += duration.0;
    }

    /// Returns the time for which a MAC control frame occupies the link. The utilisation is measured from the
    /// first to the last data frame. The returned time is therefore added to the busy time of the link only
    /// when a data frame follows.
    pub(crate) fn control_duration(&mut self, frame_len: u32) -> Picos {
        self.add_control_busy_time(self.link.mac_len(frame_len))
    }

    /// Like [`Port::control_duration`], but for a PFC or PAUSE frame.
    pub(crate) fn pause_duration(&mut self) -> Picos {
        match self.pfc.pauses {
            PauseModel::Timed => self.control_duration(mac_control::FRAME_LEN as u32),
            PauseModel::UntilResumed { frame_bytes } => self.add_control_busy_time(frame_bytes),
        }
    }

    /// Counts a PFC or PAUSE frame whose transmission starts.
    pub(crate) fn count_pause_sent(&mut self, frame: &MacControl) {
        match frame {
            MacControl::Pause { .. } => self.counters.pause_tx += 1,
            MacControl::Pfc(pfc) => {
                self.counters.pfc_tx_frames += 1;
                iter_set_bits(pfc.enable).for_each(|n| self.counters.pfc_tx[n] += 1);
            }
        }
    }

    fn add_control_busy_time(&mut self, mac_len: u32) -> Picos {
        let duration = self.link.transmission_time(mac_len);
        if self.has_sent {
            self.trailing_control_ps = self.trailing_control_ps() + duration.0;
            self.trailing_control_after_bytes = self.tx_bytes;
            self.tx_busy_ps += duration.0;
        }
        duration
    }

    /// Returns the time of the MAC control frames since the last data frame.
    fn trailing_control_ps(&self) -> u64 {
        match self.trailing_control_after_bytes == self.tx_bytes {
            true => self.trailing_control_ps,
            false => 0,
        }
    }

    /// Restarts the measurement of utilisation with the next data frame.
    pub(super) fn restart_utilisation(&mut self) {
        (self.has_sent, self.tx_busy_ps, self.tx_first_ps, self.tx_last_ps) = (false, 0, u64::MAX, 0);
        (self.trailing_control_ps, self.tx_deficit_ps) = (0, 0);
    }

    /// Returns the number of frames that a queue has sent.
    pub(super) fn sent_packets(&self, queue: usize) -> u64 {
        self.traffic.sent(queue).packets
    }

    /// Returns the number of frames that a priority group has accepted.
    pub(super) fn accepted_packets(&self, group: usize) -> u64 {
        let on_fast_path = self
            .traffic
            .received_packets_of_group(&self.rules.classify, group);
        self.counters.pgs[group].packets + on_fast_path
    }

    /// Returns all counters. Current pauses are included up to `now`.
    pub(super) fn counters_at(&self, now: Picos) -> PortCounters {
        let mut counters = self.counters.clone();
        self.traffic.add_received_to(&self.rules.classify, &mut counters);
        self.traffic.add_sent_to(&mut counters);
        counters.tx_bytes = self.tx_bytes;
        counters.tx_busy_ps = self.tx_busy_ps - self.trailing_control_ps();
        (counters.tx_first_ps, counters.tx_last_ps) = (self.tx_first_ps, self.tx_last_ps);
        let generator = &self.control_frames().generator;
        counters.rx_pause_ps = self.receiver.paused_ps(now);
        counters.tx_pause_ps = generator.peer_paused_ps(now);
        counters.rx_global_pause_ps = self.whole_port.paused_ps(now)[0];
        counters.tx_global_pause_ps = generator.peer_port_paused_ps(now);
        counters.pfc_on2off_rx = *self.receiver.pause_start_counts();
        counters
    }

    /// Counts the drop of a trimmed frame that waited in a queue. A frame that was not trimmed is
    /// not counted.
    pub(crate) fn count_trimmed_drop(&mut self, frame: &QueuedFrame) {
        if let Some(refused_by) = frame.trimmed_for_queue() {
            self.counters.queues[refused_by].dropped_trim_packets += 1;
        }
    }

    #[cold]
    pub(crate) fn count_drop(&mut self, drop: &DroppedFrame) {
        self.counters.drops[drop.reason as usize][usize::from(drop.tc)] += 1;
        if drop.refusal.is_some() {
            self.refusals[drop.reason as usize] = drop.refusal;
        }
        match drop.reason {
            DropReason::PriorityGroupDropped => {
                let group = usize::from(self.priority_group(drop.tc));
                self.counters.pgs[group].dropped_packets += 1;
            }
            DropReason::WatchdogIngress => {
                let group = usize::from(self.priority_group(drop.tc));
                self.counters.pgs[group].dropped_packets += 1;
                self.counters.pgs[group].watchdog_dropped_packets += 1;
            }
            DropReason::QueueDropped | DropReason::WredDropped | DropReason::WatchdogEgress => {
                let queue = self.egress_queue(drop.tc);
                self.counters.queues[queue].count_drop(drop.mac_len);
                if drop.reason == DropReason::WatchdogEgress {
                    self.counters.queues[queue].watchdog_dropped_packets += 1;
                }
            }
            _ => {}
        }
    }
}
