//! Applies the PFC watchdog to the switch. [`crate::watchdog`] has its rules.

use super::Switch;
use super::port::Port;
use crate::config::{PortWatchdog, SwitchConfig, WatchdogAction, WatchdogConfig};
use crate::drops::DropReason;
use crate::frame::Store;
use crate::ids::{PRIORITIES, PortId, QueueId};
use crate::outputs::{Outputs, SwitchEvent, SwitchEventKind};
use crate::pfc::bits;
use crate::watchdog::{Mode, PollGrid, Sight, StormCounters, WatchdogStats, WatchdogStatus};
use xoff_units::Picos;

/// Watchdog state that is common to all ports.
#[derive(Debug)]
pub(super) struct Watchdog {
    pub(super) config: WatchdogConfig,
    pub(super) grid: PollGrid,
}

impl Watchdog {
    pub(super) fn new(config: &SwitchConfig) -> Watchdog {
        Watchdog {
            config: config.watchdog,
            grid: PollGrid::new(Picos::ZERO, config.watchdog.poll),
        }
    }
}

impl Port {
    /// The priorities whose pauses stop a queue.
    pub(super) fn priorities_of(&self, queue: usize) -> u8 {
        bits(0xff)
            .filter(|&p| usize::from(self.pfc.priority_to_queue[p]) % PRIORITIES == queue)
            .fold(0, |mask, p| mask | 1 << p)
    }

    /// The priority groups of the honoured priorities that stop these queues.
    pub(super) fn groups_of(&self, queues: u8) -> u8 {
        bits(queues)
            .flat_map(|n| bits(self.priorities_of(n) & self.pfc.honoured()))
            .fold(0, |mask, p| {
                mask | 1 << (self.pfc.priority_to_pg[p] % PRIORITIES as u8)
            })
    }

    /// Total counts of frames of a queue and its priority groups.
    fn storm_counters(&self, queue: usize) -> StormCounters {
        let out = &self.counters.queues[queue];
        let mut counters = StormCounters {
            tx_packets: out.packets,
            tx_dropped_packets: out.dropped_packets,
            ..StormCounters::default()
        };
        for group in bits(self.groups_of(1 << queue)) {
            let group = &self.counters.pgs[group];
            counters.rx_packets += group.packets;
            counters.rx_dropped_packets += group.dropped_packets;
        }
        counters
    }

    /// Arrival time of the latest XOFF for a queue.
    fn quiet_since(&self, queue: usize) -> Picos {
        bits(self.priorities_of(queue))
            .map(|p| self.receiver.quiet_since(p))
            .max()
            .unwrap_or_default()
    }
}

impl Switch {
    /// Polls every watched queue.
    #[cold]
    pub(super) fn poll_watchdog<S: Store>(&mut self, now: Picos, store: &mut S, outputs: &mut Outputs) {
        if self.watchdog.config.big_red_switch {
            return;
        }
        let mut again = false;
        for index in 0..self.ports.len() {
            let Some(&config) = self.ports[index].watch.config() else {
                continue;
            };
            for n in bits(config.queues) {
                let queue = QueueId::new(PortId(index as u16), n as u8);
                again |= self.poll_queue(now, queue, &config, store, outputs);
            }
        }
        if again {
            self.timers
                .arm_watchdog(self.watchdog.grid.next_after(now), outputs);
        }
    }

    /// Polls a queue. Returns true if the next poll is needed.
    fn poll_queue<S: Store>(
        &mut self,
        now: Picos,
        queue: QueueId,
        config: &PortWatchdog,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> bool {
        let n = usize::from(queue.number());
        let grid = &self.watchdog.grid;
        let state = &mut self.ports[queue.port().index()];
        let seen = Sight {
            now,
            interval_start: grid.interval_start(now),
            poll: grid.poll(),
            waiting: state.backlog & (1 << n) != 0,
            sent: state.counters.queues[n].packets,
            quiet_since: state.quiet_since(n),
        };
        let watch = &mut state.watch.queues[n];
        watch.observe(&seen);
        let stuck = watch.stuck_for(&seen, self.watchdog.config.rule);
        let stuck = stuck.filter(|span| *span >= config.detection);
        match (state.watch.mode(n) == Mode::Stormed, stuck) {
            (false, Some(paused)) => self.begin_storm(now, queue, config.action, paused, store, outputs),
            (false, None) => return state.watch.queues[n].may_become_stormed(),
            (true, _) => {
                let quiet = |span| seen.quiet_since != Picos::NEVER && now.since(seen.quiet_since) >= span;
                let over = match config.action {
                    WatchdogAction::Alert => stuck.is_none(),
                    WatchdogAction::Drop | WatchdogAction::Forward => config.restoration.is_some_and(quiet),
                };
                if over {
                    self.end_storm(now, queue, store, outputs);
                    return self.ports[queue.port().index()].watch.queues[n].may_become_stormed();
                }
            }
        }
        // A pause that lasts until its resume changes nothing by itself. Its end requests a poll.
        let ends = config.action == WatchdogAction::Alert || config.restoration.is_some();
        ends && seen.quiet_since != Picos::NEVER
    }

    fn begin_storm<S: Store>(
        &mut self,
        now: Picos,
        queue: QueueId,
        action: WatchdogAction,
        paused: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.change_mode(now, queue, Mode::Stormed);
        outputs.events.push(SwitchEvent {
            at: now,
            kind: SwitchEventKind::StormDetected {
                queue,
                action,
                paused,
            },
        });
        self.enforce_watchdog(now, queue.port(), store, outputs);
    }

    fn end_storm<S: Store>(&mut self, now: Picos, queue: QueueId, store: &mut S, outputs: &mut Outputs) {
        self.change_mode(now, queue, Mode::Watching);
        tell_restored(now, queue, outputs);
        self.enforce_watchdog(now, queue.port(), store, outputs);
    }

    /// Ends the storms of a port whose link went down.
    pub(super) fn end_storms<S: Store>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        for n in bits(self.ports[port.index()].watch.stormed()) {
            self.end_storm(now, QueueId::new(port, n as u8), store, outputs);
        }
    }

    /// Sets the watchdog state of a queue and updates its statistics.
    fn change_mode(&mut self, now: Picos, queue: QueueId, mode: Mode) {
        let n = usize::from(queue.number());
        let state = &mut self.ports[queue.port().index()];
        let counters = state.storm_counters(n);
        let watch = &mut state.watch;
        let before = watch.mode(n);
        let account = &mut watch.accounts[n];
        match before {
            before if before == mode => return,
            Mode::Stormed | Mode::BigRedSwitch => account.close(now, counters),
            Mode::Watching | Mode::Unwatched => {}
        }
        match mode {
            Mode::Stormed => account.open(WatchdogStatus::Stormed, now, counters),
            Mode::BigRedSwitch => account.open(WatchdogStatus::BigRedSwitch, now, counters),
            Mode::Watching => watch.queues[n].judge_from(now),
            Mode::Unwatched => {}
        }
        watch.set_mode(n, mode);
    }

    /// Applies the watchdog states of a port: drops queues, ignores pauses, and starts transmissions.
    fn enforce_watchdog<S: Store>(&mut self, now: Picos, port: PortId, store: &mut S, outputs: &mut Outputs) {
        self.ports[port.index()].refresh_watchdog();
        let state = &self.ports[port.index()];
        for n in bits(state.dropping_queues & state.backlog) {
            self.discard_queue(QueueId::new(port, n as u8), store);
        }
        self.restate_pauses(now, port, outputs);
        self.resume_groups(now, store, outputs);
        self.kick(now, port, store, outputs);
    }

    /// Drops the frames that wait in a queue.
    fn discard_queue<S: Store>(&mut self, queue: QueueId, store: &mut S) {
        let n = usize::from(queue.number());
        while let Some(frame) = self.unqueue(queue) {
            self.release(&frame, queue);
            store.release(frame.frame);
            let state = &mut self.ports[queue.port().index()];
            state.count_trimmed_drop(&frame);
            let counters = &mut state.counters;
            counters.drops[DropReason::WatchdogEgress as usize][usize::from(frame.tc)] += 1;
            counters.queues[n].watchdog_dropped_packets += 1;
            counters.queues[n].count_drop(frame.mac_len());
        }
        let state = &mut self.ports[queue.port().index()];
        state.backlog &= !(1 << n);
        state.scheduler.forget_deficit(n);
    }

    /// Updates storm statistics before the ports get a new configuration with other priority groups.
    pub(super) fn settle_watchdog(&mut self) {
        for state in &mut self.ports {
            for n in 0..PRIORITIES {
                let counters = state.storm_counters(n);
                state.watch.accounts[n].settle(counters);
            }
        }
    }

    /// Applies a new configuration after the ports have applied it. A storm of a queue that is still watched
    /// continues with the new action and times. Other storms end.
    pub(super) fn configure_watchdog<S: Store>(
        &mut self,
        now: Picos,
        config: &SwitchConfig,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let before = core::mem::replace(&mut self.watchdog.config, config.watchdog);
        let any_watched = self.ports.iter().any(|state| state.watch.watched() != 0);
        if before.poll != config.watchdog.poll || !any_watched {
            self.watchdog.grid = PollGrid::new(now, config.watchdog.poll);
        }
        let on = config.watchdog.big_red_switch;
        if before.big_red_switch != on {
            let kind = SwitchEventKind::BigRedSwitch { on };
            outputs.events.push(SwitchEvent { at: now, kind });
        }
        for (index, port) in config.ports.iter().enumerate() {
            self.configure_port_watchdog(now, PortId(index as u16), port.watchdog, outputs);
            self.enforce_watchdog(now, PortId(index as u16), store, outputs);
        }
        let grid = &self.watchdog.grid;
        if !on && self.ports.iter().any(|state| state.watch.worth_a_poll()) {
            self.timers.arm_watchdog(grid.next_after(now), outputs);
        }
    }

    fn configure_port_watchdog(
        &mut self,
        now: Picos,
        port: PortId,
        config: Option<PortWatchdog>,
        outputs: &mut Outputs,
    ) {
        let watched = config.map_or(0, |config| config.queues);
        for n in 0..PRIORITIES {
            let queue = QueueId::new(port, n as u8);
            let before = self.ports[port.index()].watch.mode(n);
            let mode = match before {
                _ if watched & (1 << n) == 0 => Mode::Unwatched,
                _ if self.watchdog.config.big_red_switch => Mode::BigRedSwitch,
                Mode::Stormed => Mode::Stormed,
                _ => Mode::Watching,
            };
            // The queue may have other priority groups now. The counts of the old groups are already
            // included.
            let state = &mut self.ports[port.index()];
            let counters = state.storm_counters(n);
            state.watch.accounts[n].restart_from(counters);
            self.change_mode(now, queue, mode);
            if before == Mode::Stormed && mode != Mode::Stormed {
                tell_restored(now, queue, outputs);
            }
        }
        self.ports[port.index()].watch.configure(config);
    }

    /// Applies the first configuration.
    pub(super) fn start_watchdog(&mut self, config: &SwitchConfig) {
        let mut none = Outputs::default();
        for (index, port) in config.ports.iter().enumerate() {
            self.configure_port_watchdog(Picos::ZERO, PortId(index as u16), port.watchdog, &mut none);
            self.ports[index].refresh_watchdog();
        }
    }

    /// Watchdog statistics of a queue. `None` if the queue is not watched and has no counts. Counts remain
    /// when a queue is no longer watched.
    pub fn watchdog_stats(&self, queue: QueueId) -> Option<WatchdogStats> {
        let n = usize::from(queue.number());
        let state = &self.ports[queue.port().index()];
        let watched = state.watch.watched() & (1 << n) != 0;
        let account = &state.watch.accounts[n];
        (watched || account.has_counted()).then(|| account.stats(state.storm_counters(n)))
    }

    /// Bit *n*: queue *n* of this port is watched.
    pub fn watched_queues(&self, port: PortId) -> u8 {
        self.ports[port.index()].watch.watched()
    }

    /// Bit *n*: queue *n* of this port is in a storm.
    pub fn stormed_queues(&self, port: PortId) -> u8 {
        self.ports[port.index()].watch.stormed()
    }

    /// Clears the watchdog statistics of all queues. A current storm continues and still counts as detected,
    /// so that detected minus restored remains the number of current storms.
    pub fn clear_watchdog_stats(&mut self) {
        for state in &mut self.ports {
            for n in 0..PRIORITIES {
                let counters = state.storm_counters(n);
                state.watch.accounts[n].clear(counters);
            }
        }
    }
}

fn tell_restored(now: Picos, queue: QueueId, outputs: &mut Outputs) {
    let kind = SwitchEventKind::StormRestored { queue };
    outputs.events.push(SwitchEvent { at: now, kind });
}
