//! Applies the PFC watchdog to the switch. The documentation of [`crate::watchdog`] explains the rules.

use super::Switch;
use super::port::Port;
use crate::bits::iter_set_bits;
use crate::config::{PortWatchdog, SwitchConfig, WatchdogAction, WatchdogConfig};
use crate::drops::DropReason;
use crate::frame::FrameStore;
use crate::ids::{PRIORITIES, PortId, QueueId};
use crate::outputs::{Outputs, SwitchEvent, SwitchEventKind};
use crate::watchdog::{
    PollSchedule, QueueSample, StormCounters, WatchdogStats, WatchdogStatus, WatchedQueueState,
};
use xoff_units::Picos;

/// Watchdog state that is common to all ports.
#[derive(Debug)]
pub(super) struct Watchdog {
    pub(super) config: WatchdogConfig,
    pub(super) poll_schedule: PollSchedule,
}

impl Watchdog {
    pub(super) fn new(config: &SwitchConfig) -> Watchdog {
        Watchdog {
            config: config.watchdog,
            poll_schedule: PollSchedule::new(Picos::ZERO, config.watchdog.poll),
        }
    }
}

impl Port {
    /// Returns the mask of priorities whose pauses stop a queue.
    pub(super) fn priorities_pausing_queue(&self, queue: usize) -> u8 {
        iter_set_bits(0xff)
            .filter(|&p| usize::from(self.pfc.priority_to_queue[p]) % PRIORITIES == queue)
            .fold(0, |mask, p| mask | 1 << p)
    }

    /// Returns the mask of priority groups that belong to these queues: the groups of the honoured priorities
    /// that stop the queues.
    pub(super) fn priority_groups_of_queues(&self, queues: u8) -> u8 {
        iter_set_bits(queues)
            .flat_map(|n| iter_set_bits(self.priorities_pausing_queue(n) & self.pfc.honoured_priorities()))
            .fold(0, |mask, p| {
                mask | 1 << (self.pfc.priority_to_pg[p] % PRIORITIES as u8)
            })
    }

    /// Returns the counters of a queue and of its priority groups, which the storm statistics use.
    fn storm_counters(&self, queue: usize) -> StormCounters {
        let out = &self.counters.queues[queue];
        let mut counters = StormCounters {
            tx_packets: self.sent_packets(queue),
            tx_dropped_packets: out.dropped_packets,
            ..StormCounters::default()
        };
        for group in iter_set_bits(self.priority_groups_of_queues(1 << queue)) {
            counters.rx_packets += self.accepted_packets(group);
            counters.rx_dropped_packets += self.counters.pgs[group].dropped_packets;
        }
        counters
    }

    /// Returns the arrival time of the latest XOFF that stops a queue.
    fn last_xoff_at(&self, queue: usize) -> Picos {
        iter_set_bits(self.priorities_pausing_queue(queue))
            .map(|p| self.receiver.last_xoff_at(p))
            .max()
            .unwrap_or_default()
    }
}

impl Switch {
    /// Checks every watched queue for the beginning or the end of a storm.
    #[cold]
    pub(super) fn poll_watchdog<S: FrameStore>(&mut self, now: Picos, store: &mut S, outputs: &mut Outputs) {
        if self.watchdog.config.big_red_switch {
            return;
        }
        let mut again = false;
        for index in 0..self.ports.len() {
            let Some(&config) = self.ports[index].watchdog.config() else {
                continue;
            };
            for n in iter_set_bits(config.queues) {
                let queue = QueueId::new(PortId(index as u16), n as u8);
                again |= self.poll_queue(now, queue, &config, store, outputs);
            }
        }
        if again {
            self.timers
                .arm_watchdog(self.watchdog.poll_schedule.next_after(now), outputs);
        }
    }

    /// Checks a watched queue. Returns true if the next poll is needed for this queue.
    fn poll_queue<S: FrameStore>(
        &mut self,
        now: Picos,
        queue: QueueId,
        config: &PortWatchdog,
        store: &mut S,
        outputs: &mut Outputs,
    ) -> bool {
        let n = usize::from(queue.number());
        let poll_schedule = &self.watchdog.poll_schedule;
        let state = &mut self.ports[queue.port().index()];
        let sample = QueueSample {
            now,
            interval_start: poll_schedule.interval_start(now),
            poll: poll_schedule.interval(),
            has_waiting_frames: state.backlogged_queues & (1 << n) != 0,
            sent: state.sent_packets(n),
            last_xoff_at: state.last_xoff_at(n),
        };
        let watch = &mut state.watchdog.queues[n];
        watch.close_interval(&sample);
        let paused_time = watch.paused_without_progress(&sample, self.watchdog.config.rule);
        let paused_time = paused_time.filter(|span| *span >= config.detection);
        match (
            state.watchdog.queue_state(n) == WatchedQueueState::Stormed,
            paused_time,
        ) {
            (false, Some(paused)) => self.begin_storm(now, queue, config.action, paused, store, outputs),
            (false, None) => return state.watchdog.queues[n].can_become_stormed(),
            (true, _) => {
                let quiet =
                    |span| sample.last_xoff_at != Picos::NEVER && now.since(sample.last_xoff_at) >= span;
                let over = match config.action {
                    WatchdogAction::Alert => paused_time.is_none(),
                    WatchdogAction::Drop | WatchdogAction::Forward => config.restoration.is_some_and(quiet),
                };
                if over {
                    self.end_storm(now, queue, store, outputs);
                    return self.ports[queue.port().index()].watchdog.queues[n].can_become_stormed();
                }
            }
        }
        // A pause that lasts until an explicit resume needs no poll meanwhile. The end of the pause requests
        // a poll.
        let ends = config.action == WatchdogAction::Alert || config.restoration.is_some();
        ends && sample.last_xoff_at != Picos::NEVER
    }

    fn begin_storm<S: FrameStore>(
        &mut self,
        now: Picos,
        queue: QueueId,
        action: WatchdogAction,
        paused: Picos,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.change_queue_state(now, queue, WatchedQueueState::Stormed);
        outputs.events.push(SwitchEvent {
            at: now,
            kind: SwitchEventKind::StormDetected {
                queue,
                action,
                paused,
            },
        });
        self.apply_watchdog_to_port(now, queue.port(), store, outputs);
    }

    fn end_storm<S: FrameStore>(&mut self, now: Picos, queue: QueueId, store: &mut S, outputs: &mut Outputs) {
        self.change_queue_state(now, queue, WatchedQueueState::Watched);
        push_restored_event(now, queue, outputs);
        self.apply_watchdog_to_port(now, queue.port(), store, outputs);
    }

    /// Ends the storms of a port whose link goes down.
    pub(super) fn end_storms_of_port<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        for n in iter_set_bits(self.ports[port.index()].watchdog.stormed_queues()) {
            self.end_storm(now, QueueId::new(port, n as u8), store, outputs);
        }
    }

    /// Sets the watchdog state of a queue and updates its statistics.
    fn change_queue_state(&mut self, now: Picos, queue: QueueId, new_state: WatchedQueueState) {
        let n = usize::from(queue.number());
        let state = &mut self.ports[queue.port().index()];
        let counters = state.storm_counters(n);
        let watch = &mut state.watchdog;
        let before = watch.queue_state(n);
        match before {
            before if before == new_state => return,
            WatchedQueueState::Stormed | WatchedQueueState::BigRedSwitch => {
                watch.reserve_storm_statistics(n).end_counting(now, counters)
            }
            WatchedQueueState::Watched | WatchedQueueState::Unwatched => {}
        }
        match new_state {
            WatchedQueueState::Stormed | WatchedQueueState::BigRedSwitch => {
                let status = match new_state {
                    WatchedQueueState::Stormed => WatchdogStatus::Stormed,
                    _ => WatchdogStatus::BigRedSwitch,
                };
                watch
                    .reserve_storm_statistics(n)
                    .begin_counting(status, now, counters)
            }
            WatchedQueueState::Watched => watch.queues[n].ignore_pauses_before(now),
            WatchedQueueState::Unwatched => {}
        }
        watch.set_state(n, new_state);
    }

    /// Applies the watchdog states of a port: drops waiting frames, updates pauses, and starts transmissions.
    fn apply_watchdog_to_port<S: FrameStore>(
        &mut self,
        now: Picos,
        port: PortId,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        self.ports[port.index()].apply_watchdog_state();
        let state = &self.ports[port.index()];
        for n in iter_set_bits(state.dropping_queues & state.backlogged_queues) {
            self.discard_queue(QueueId::new(port, n as u8), store);
        }
        self.update_pauses(now, port, outputs);
        self.resume_groups(now, store, outputs);
        self.try_transmit(now, port, store, outputs);
    }

    /// Drops the frames that wait in a queue.
    fn discard_queue<S: FrameStore>(&mut self, queue: QueueId, store: &mut S) {
        let n = usize::from(queue.number());
        while let Some(frame) = self.remove_queue_head(queue) {
            self.release_frame_cells(&frame, queue);
            store.release(frame.frame);
            let state = &mut self.ports[queue.port().index()];
            state.count_trimmed_drop(&frame);
            let counters = &mut state.counters;
            counters.drops[DropReason::WatchdogEgress as usize][usize::from(frame.tc)] += 1;
            counters.queues[n].watchdog_dropped_packets += 1;
            counters.queues[n].count_drop(frame.mac_len());
        }
        let state = &mut self.ports[queue.port().index()];
        state.backlogged_queues &= !(1 << n);
        state.scheduler.clear_deficit(n);
    }

    /// Adds the frames up to now to the storm statistics. Called before a new configuration is applied,
    /// because it can change the priority groups that belong to the queues.
    pub(super) fn update_storm_counts(&mut self) {
        for state in &mut self.ports {
            for n in 0..PRIORITIES {
                let counters = state.storm_counters(n);
                if let Some(statistics) = state.watchdog.counted_storms(n) {
                    statistics.add_counts(counters);
                }
            }
        }
    }

    /// Applies a new configuration, after the ports have applied their part. If a queue in a storm is still
    /// watched, the storm continues with the new action and times. If the queue is no longer watched, the
    /// storm ends.
    pub(super) fn configure_watchdog<S: FrameStore>(
        &mut self,
        now: Picos,
        config: &SwitchConfig,
        store: &mut S,
        outputs: &mut Outputs,
    ) {
        let before = core::mem::replace(&mut self.watchdog.config, config.watchdog);
        let any_watched = self
            .ports
            .iter()
            .any(|state| state.watchdog.watched_queues() != 0);
        if before.poll != config.watchdog.poll || !any_watched {
            self.watchdog.poll_schedule = PollSchedule::new(now, config.watchdog.poll);
        }
        let on = config.watchdog.big_red_switch;
        if before.big_red_switch != on {
            let kind = SwitchEventKind::BigRedSwitch { on };
            outputs.events.push(SwitchEvent { at: now, kind });
        }
        for (index, port) in config.ports.iter().enumerate() {
            self.configure_port_watchdog(now, PortId(index as u16), port.watchdog, outputs);
            self.apply_watchdog_to_port(now, PortId(index as u16), store, outputs);
        }
        let poll_schedule = &self.watchdog.poll_schedule;
        if !on && self.ports.iter().any(|state| state.watchdog.needs_poll()) {
            self.timers.arm_watchdog(poll_schedule.next_after(now), outputs);
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
            let before = self.ports[port.index()].watchdog.queue_state(n);
            let new_state = match before {
                _ if watched & (1 << n) == 0 => WatchedQueueState::Unwatched,
                _ if self.watchdog.config.big_red_switch => WatchedQueueState::BigRedSwitch,
                WatchedQueueState::Stormed => WatchedQueueState::Stormed,
                _ => WatchedQueueState::Watched,
            };
            // The queue may have other priority groups now. The statistics already include the frames of the
            // old groups.
            let state = &mut self.ports[port.index()];
            let counters = state.storm_counters(n);
            if let Some(statistics) = state.watchdog.counted_storms(n) {
                statistics.restart_counts_from(counters);
            }
            self.change_queue_state(now, queue, new_state);
            if before == WatchedQueueState::Stormed && new_state != WatchedQueueState::Stormed {
                push_restored_event(now, queue, outputs);
            }
        }
        self.ports[port.index()].watchdog.configure(config);
    }

    /// Applies the watchdog configuration of a new switch.
    pub(super) fn start_watchdog(&mut self, config: &SwitchConfig) {
        let mut none = Outputs::default();
        for (index, port) in config.ports.iter().enumerate() {
            self.configure_port_watchdog(Picos::ZERO, PortId(index as u16), port.watchdog, &mut none);
            self.ports[index].apply_watchdog_state();
        }
    }

    /// Returns the watchdog statistics of a queue. Returns `None` if the queue is not watched and has no
    /// counts. Counts remain when a queue is no longer watched.
    pub fn watchdog_stats(&self, queue: QueueId) -> Option<WatchdogStats> {
        let n = usize::from(queue.number());
        let state = &self.ports[queue.port().index()];
        let watched = state.watchdog.watched_queues() & (1 << n) != 0;
        let statistics = state.watchdog.storm_statistics(n);
        (watched || statistics.has_counts()).then(|| statistics.stats_at(state.storm_counters(n)))
    }

    /// Returns a bit mask. Bit *n* is set if the watchdog watches queue *n* of this port.
    pub fn watched_queues(&self, port: PortId) -> u8 {
        self.ports[port.index()].watchdog.watched_queues()
    }

    /// Returns a bit mask. Bit *n* is set if the watchdog has detected a storm at queue *n* of this port.
    pub fn stormed_queues(&self, port: PortId) -> u8 {
        self.ports[port.index()].watchdog.stormed_queues()
    }

    /// Clears the watchdog statistics of all queues. A current storm continues and is still counted as
    /// detected. The number of detected storms minus the number of restored storms is therefore always the
    /// number of current storms.
    pub fn clear_watchdog_stats(&mut self) {
        for state in &mut self.ports {
            for n in 0..PRIORITIES {
                let counters = state.storm_counters(n);
                if let Some(statistics) = state.watchdog.counted_storms(n) {
                    statistics.clear_statistics(counters);
                }
            }
        }
    }
}

fn push_restored_event(now: Picos, queue: QueueId, outputs: &mut Outputs) {
    let kind = SwitchEventKind::StormRestored { queue };
    outputs.events.push(SwitchEvent { at: now, kind });
}
