//! Updates pauses in both directions after changes of XOFF states, received pauses, or the configuration.

use super::Switch;
use super::port::Port;
use crate::ids::{PRIORITIES, PgId, PortId, TRAFFIC_CLASSES};
use crate::outputs::Outputs;
use crate::pfc::{PauseHistory, bits};
use xoff_units::Picos;

impl Port {
    /// Updates the watchdog's view of paused queues. Returns the queues whose pause began or ended.
    fn update_held(&mut self, now: Picos) -> u8 {
        let (receiver, map, counters) = (&self.receiver, &self.pfc.priority_to_queue, &self.counters);
        let paused = receiver.paused();
        let queue_of = |p: usize| usize::from(map[p]) % PRIORITIES;
        let held = bits(paused).fold(0, |mask, p| mask | 1 << queue_of(p));
        let since = |n: usize| {
            let pauses = bits(paused).filter(|&p| queue_of(p) == n);
            pauses.map(|p| receiver.since(p)).min().unwrap_or_default()
        };
        let sent = |n: usize| counters.queues[n].packets;
        self.watch.update_held(now, held, since, sent)
    }
}

impl Switch {
    /// Stops or resumes the queues of a port after its pauses may have changed. Returns true if a queue
    /// resumed.
    pub(super) fn pauses_changed(&mut self, now: Picos, port: PortId, outputs: &mut Outputs) -> bool {
        let state = &mut self.ports[port.index()];
        let changed = state.update_held(now);
        if changed & state.watch.watched() != 0 && !self.watchdog.config.big_red_switch {
            self.timers
                .arm_watchdog(self.watchdog.grid.next_after(now), outputs);
        }
        let resumed = state.refresh_paused_queues();
        let stopped = |tc: usize| u16::from(state.paused_queues >> state.queue(tc as u8) & 1);
        let tcs = (0..TRAFFIC_CLASSES).fold(0, |mask, tc| mask | stopped(tc) << tc);
        self.balance.loads_mut().set_paused_tcs(port.index(), tcs);
        resumed
    }

    /// Updates pauses in both directions for a new configuration of a port.
    pub(super) fn restate_pauses(&mut self, now: Picos, port: PortId, outputs: &mut Outputs) {
        let congested = self.congested(port);
        let state = &mut self.ports[port.index()];
        let asked = state.generator.xoff_mask();
        state.generator.xon(now, asked & !congested);
        state.generator.xoff(now, congested & !asked);
        state.release_pauses(now, false);
        self.pauses_changed(now, port, outputs);
    }

    /// Priorities that the peer must pause, from the XOFF states of the port's groups. A group whose frames
    /// the watchdog drops does not pause the peer.
    pub(super) fn congested(&self, port: PortId) -> u16 {
        let state = &self.ports[port.index()];
        bits(!state.dropping_groups)
            .map(|pg| pg as u8)
            .filter(|&pg| self.mmu.xoff(PgId::new(port, pg)))
            .fold(0, |mask, pg| mask | state.asks_for(pg))
    }
}

/// Pause states, for use between two calls.
impl Switch {
    /// Bit *n*: the peer pauses priority *n* of this port, with PFC or with 802.3x PAUSE.
    pub fn paused(&self, port: PortId) -> u8 {
        let state = &self.ports[port.index()];
        match state.whole_port.paused() {
            0 => state.receiver.paused(),
            _ => 0xff,
        }
    }

    /// Returns the priorities that signal XOFF of priority group `pg`, and the priorities that pause queue
    /// `queue`, as bit masks. A PAUSE of the whole port counts as all priorities.
    pub fn pause_maps(&self, port: PortId, pg: u8, queue: u8) -> (u8, u8) {
        let state = &self.ports[port.index()];
        let stops = match state.pfc.global_honoured() {
            true => 0xff,
            false => state.priorities_of(usize::from(queue)),
        };
        let signals = match state.pfc.global_generated() {
            true => 0xff,
            false => state.signalling(pg),
        };
        (signals, stops)
    }

    /// The received pauses of each priority up to `now` (`show pfc counters --history`).
    pub fn pause_history(&self, now: Picos, port: PortId) -> [PauseHistory; PRIORITIES] {
        self.ports[port.index()].receiver.history(now)
    }
}
