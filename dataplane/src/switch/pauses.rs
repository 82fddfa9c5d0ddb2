//! Updates the sent and the received pauses of a port. The caller calls this after a change of the priority
//! groups in XOFF, of the received pauses, or of the configuration.

use super::Switch;
use super::port::Port;
use crate::bits::iter_set_bits;
use crate::ids::{PRIORITIES, PgId, PortId, TRAFFIC_CLASSES};
use crate::outputs::Outputs;
use crate::pfc::PauseHistory;
use xoff_units::Picos;

impl Port {
    /// Informs the watchdog about the paused queues. Returns the queues whose pause began or ended.
    fn update_paused_queues_for_watchdog(&mut self, now: Picos) -> u8 {
        let (receiver, map, traffic) = (&self.receiver, &self.pfc.priority_to_queue, &self.traffic);
        let paused = receiver.paused_priorities();
        let queue_of = |p: usize| usize::from(map[p]) % PRIORITIES;
        let held = iter_set_bits(paused).fold(0, |mask, p| mask | 1 << queue_of(p));
        let since = |n: usize| {
            let pauses = iter_set_bits(paused).filter(|&p| queue_of(p) == n);
            pauses.map(|p| receiver.paused_since(p)).min().unwrap_or_default()
        };
        let sent = |n: usize| traffic.sent(n).packets;
        self.watchdog.update_paused(now, held, since, sent)
    }
}

impl Switch {
    /// Stops or resumes the queues of a port after its received pauses may have changed. Returns true if at
    /// least one queue resumed.
    pub(super) fn apply_pause_changes(&mut self, now: Picos, port: PortId, outputs: &mut Outputs) -> bool {
        let state = &mut self.ports[port.index()];
        let changed = state.update_paused_queues_for_watchdog(now);
        if changed & state.watchdog.watched_queues() != 0 && !self.watchdog.config.big_red_switch {
            self.timers
                .arm_watchdog(self.watchdog.poll_schedule.next_after(now), outputs);
        }
        let resumed = state.update_paused_queues();
        let stopped = |tc: usize| u16::from(state.paused_queues >> state.egress_queue(tc as u8) & 1);
        let tcs = (0..TRAFFIC_CLASSES).fold(0, |mask, tc| mask | stopped(tc) << tc);
        self.balance.loads_mut().set_paused_tcs(port.index(), tcs);
        resumed
    }

    /// Updates the pauses of a port in both directions for a new configuration.
    pub(super) fn update_pauses(&mut self, now: Picos, port: PortId, outputs: &mut Outputs) {
        let xoff_subjects = self.xoff_pause_targets(port);
        let state = &mut self.ports[port.index()];
        state.change_control_frames(|frames| {
            let asked = frames.generator.xoff_mask();
            frames.generator.leave_xoff(now, asked & !xoff_subjects);
            frames.generator.enter_xoff(now, xoff_subjects & !asked);
        });
        state.release_pauses(now, false);
        self.apply_pause_changes(now, port, outputs);
    }

    /// Returns the mask of priorities that the peer must pause, based on the XOFF states of the port's
    /// priority groups. A group does not pause the peer while the watchdog drops the frames of the group.
    pub(super) fn xoff_pause_targets(&self, port: PortId) -> u16 {
        let state = &self.ports[port.index()];
        iter_set_bits(!state.dropping_groups)
            .map(|pg| pg as u8)
            .filter(|&pg| self.mmu.is_in_xoff(PgId::new(port, pg)))
            .fold(0, |mask, pg| mask | state.pause_targets_of_group(pg))
    }
}

/// Pause states, for use between two calls.
impl Switch {
    /// Returns a bit mask. Bit *n* is set if the peer pauses priority *n* of this port, with PFC or with
    /// 802.3x PAUSE. A PAUSE frame sets all bits.
    pub fn paused_priorities(&self, port: PortId) -> u8 {
        let state = &self.ports[port.index()];
        match state.whole_port.paused_priorities() {
            0 => state.receiver.paused_priorities(),
            _ => 0xff,
        }
    }

    /// Returns two bit masks: first the priorities that signal XOFF of priority group `pg`, then the
    /// priorities that pause queue `queue`. A mask contains all priorities if the port uses 802.3x PAUSE in
    /// this direction.
    pub fn pause_priority_masks(&self, port: PortId, pg: u8, queue: u8) -> (u8, u8) {
        let state = &self.ports[port.index()];
        let stops = match state.pfc.honours_global_pause() {
            true => 0xff,
            false => state.priorities_pausing_queue(usize::from(queue)),
        };
        let signals = match state.pfc.generates_global_pause() {
            true => 0xff,
            false => state.priorities_signalling(pg),
        };
        (signals, stops)
    }

    /// Returns the received pauses of each priority from the start of the switch to `now` (`show pfc
    /// counters --history`).
    pub fn pause_history(&self, now: Picos, port: PortId) -> [PauseHistory; PRIORITIES] {
        self.ports[port.index()].receiver.pause_history(now)
    }
}
