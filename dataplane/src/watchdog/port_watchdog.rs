//! Watchdog state of the queues of one port.

use super::statistics::QueueStormStatistics;
use super::storm_detection::QueueMonitor;
use crate::bits::iter_set_bits;
use crate::config::{PortWatchdog, WatchdogAction};
use crate::ids::PRIORITIES;
use xoff_units::Picos;

/// State of a queue in the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchedQueueState {
    /// The queue is not watched.
    Unwatched,
    /// The queue is watched and is not in a storm.
    Watched,
    /// The queue is in a storm.
    Stormed,
    /// The queue drops all frames, because the big red switch is on.
    BigRedSwitch,
}

/// Watchdog state of a port. Pauses are tracked on every port, even if the port is not watched.
#[derive(Debug, Default)]
pub(crate) struct PortMonitor {
    config: Option<PortWatchdog>,
    /// Mask of queues that the peer pauses, even if the port does not honour the pause.
    paused: u8,
    /// Mask of queues in a storm.
    stormed: u8,
    /// Mask of queues that drop all frames because of the big red switch.
    big_red_switched: u8,
    pub(crate) queues: [QueueMonitor; PRIORITIES],
    /// Statistics of the queues. The first storm allocates them, because most ports have no storm.
    storm_statistics: Option<Box<[QueueStormStatistics; PRIORITIES]>>,
}

impl PortMonitor {
    /// Returns the watchdog configuration of the port. Returns `None` if the port is not watched.
    pub(crate) fn config(&self) -> Option<&PortWatchdog> {
        self.config.as_ref()
    }

    /// Sets the watchdog configuration of the port.
    pub(crate) fn configure(&mut self, config: Option<PortWatchdog>) {
        self.config = config;
    }

    /// Returns the mask of watched queues.
    pub(crate) fn watched_queues(&self) -> u8 {
        self.config.map_or(0, |config| config.queues)
    }

    /// Returns the mask of queues in a storm.
    pub(crate) fn stormed_queues(&self) -> u8 {
        self.stormed
    }

    /// Returns the state of a queue.
    pub(crate) fn queue_state(&self, queue: usize) -> WatchedQueueState {
        let bit = 1 << queue;
        match () {
            () if self.big_red_switched & bit != 0 => WatchedQueueState::BigRedSwitch,
            () if self.stormed & bit != 0 => WatchedQueueState::Stormed,
            () if self.watched_queues() & bit != 0 => WatchedQueueState::Watched,
            () => WatchedQueueState::Unwatched,
        }
    }

    /// Sets the state of a queue.
    pub(crate) fn set_state(&mut self, queue: usize, state: WatchedQueueState) {
        let bit = 1 << queue;
        self.stormed &= !bit;
        self.big_red_switched &= !bit;
        match state {
            WatchedQueueState::Stormed => self.stormed |= bit,
            WatchedQueueState::BigRedSwitch => self.big_red_switched |= bit,
            WatchedQueueState::Unwatched | WatchedQueueState::Watched => {}
        }
    }

    /// Returns the storm statistics of a queue.
    pub(crate) fn storm_statistics(&self, queue: usize) -> QueueStormStatistics {
        let statistics = self.storm_statistics.as_ref();
        statistics.map_or_else(QueueStormStatistics::default, |all| all[queue])
    }

    /// Returns the storm statistics of a queue to change counts. Returns `None` if no queue of the port has ever had a
    /// storm, so that there are no counts.
    pub(crate) fn counted_storms(&mut self, queue: usize) -> Option<&mut QueueStormStatistics> {
        self.storm_statistics.as_mut().map(|all| &mut all[queue])
    }

    /// Returns the storm statistics of a queue to begin or end a storm. Allocates the statistics of the port if
    /// necessary.
    pub(crate) fn reserve_storm_statistics(&mut self, queue: usize) -> &mut QueueStormStatistics {
        &mut self.storm_statistics.get_or_insert_default()[queue]
    }

    /// Returns the mask of queues that drop all frames.
    pub(crate) fn dropping_queues(&self) -> u8 {
        match self.action() {
            Some(WatchdogAction::Drop) => self.big_red_switched | self.stormed,
            _ => self.big_red_switched,
        }
    }

    /// Returns the mask of queues that ignore pauses.
    pub(crate) fn pause_ignoring_queues(&self) -> u8 {
        match self.action() {
            Some(WatchdogAction::Drop | WatchdogAction::Forward) => self.big_red_switched | self.stormed,
            _ => self.big_red_switched,
        }
    }

    /// Returns the mask of queues that the peer pauses, even if the port does not honour the pause.
    pub(crate) fn paused_queues(&self) -> u8 {
        self.paused
    }

    /// Sets the mask of queues that the peer pauses. `since` returns the start of the oldest current pause of
    /// a queue. `sent` returns the number of frames sent from a queue. Returns the mask of queues whose pause
    /// began, ended, or was replaced by a new pause.
    pub(crate) fn update_paused(
        &mut self,
        now: Picos,
        paused: u8,
        since: impl Fn(usize) -> Picos,
        sent: impl Fn(usize) -> u64,
    ) -> u8 {
        let before = core::mem::replace(&mut self.paused, paused);
        let mut changed = before ^ paused;
        // If a new pause begins at the time at which the old pause ends, both changes are recorded.
        changed |= iter_set_bits(before & paused)
            .filter(|&n| since(n) >= now && self.queues[n].paused_since() != Some(now))
            .fold(0, |mask, n| mask | 1 << n);
        for n in iter_set_bits(changed & before) {
            self.queues[n].end_pause(now);
        }
        for n in iter_set_bits(changed & paused) {
            self.queues[n].begin_pause(now, sent(n));
        }
        changed
    }

    /// Returns true if the next poll can detect or restore a storm.
    pub(crate) fn needs_poll(&self) -> bool {
        let watched = self.watched_queues();
        watched & self.stormed != 0 || iter_set_bits(watched).any(|n| self.queues[n].can_become_stormed())
    }

    fn action(&self) -> Option<WatchdogAction> {
        self.config.map(|config| config.action)
    }
}
