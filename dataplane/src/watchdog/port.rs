//! Watchdog state of the queues of one port.

use super::account::Account;
use super::queue::QueueWatch;
use crate::config::{PortWatchdog, WatchdogAction};
use crate::ids::PRIORITIES;
use crate::pfc::bits;
use xoff_units::Picos;

/// State of a queue in the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The queue is not watched.
    Unwatched,
    /// The queue is watched and is not in a storm.
    Watching,
    /// The queue is in a storm.
    Stormed,
    /// The big red switch is on.
    BigRedSwitch,
}

/// Watchdog state of a port. Pauses are tracked on every port, watched or not.
#[derive(Debug, Default)]
pub(crate) struct PortWatch {
    config: Option<PortWatchdog>,
    /// Queues that the peer pauses, whether the port honours the pause or not.
    held: u8,
    /// Queues in a storm.
    stormed: u8,
    /// Queues that drop because of the big red switch.
    switched_off: u8,
    pub(crate) queues: [QueueWatch; PRIORITIES],
    pub(crate) accounts: [Account; PRIORITIES],
}

impl PortWatch {
    /// The watchdog configuration of the port.
    pub(crate) fn config(&self) -> Option<&PortWatchdog> {
        self.config.as_ref()
    }

    /// Sets the watchdog configuration of the port.
    pub(crate) fn configure(&mut self, config: Option<PortWatchdog>) {
        self.config = config;
    }

    /// Watched queues.
    pub(crate) fn watched(&self) -> u8 {
        self.config.map_or(0, |config| config.queues)
    }

    /// Queues in a storm.
    pub(crate) fn stormed(&self) -> u8 {
        self.stormed
    }

    /// The state of a queue.
    pub(crate) fn mode(&self, queue: usize) -> Mode {
        let bit = 1 << queue;
        match () {
            () if self.switched_off & bit != 0 => Mode::BigRedSwitch,
            () if self.stormed & bit != 0 => Mode::Stormed,
            () if self.watched() & bit != 0 => Mode::Watching,
            () => Mode::Unwatched,
        }
    }

    /// Sets the state of a queue.
    pub(crate) fn set_mode(&mut self, queue: usize, mode: Mode) {
        let bit = 1 << queue;
        self.stormed &= !bit;
        self.switched_off &= !bit;
        match mode {
            Mode::Stormed => self.stormed |= bit,
            Mode::BigRedSwitch => self.switched_off |= bit,
            Mode::Unwatched | Mode::Watching => {}
        }
    }

    /// Queues that drop all frames.
    pub(crate) fn dropping(&self) -> u8 {
        match self.action() {
            Some(WatchdogAction::Drop) => self.switched_off | self.stormed,
            _ => self.switched_off,
        }
    }

    /// Queues that ignore pauses.
    pub(crate) fn unheeding(&self) -> u8 {
        match self.action() {
            Some(WatchdogAction::Drop | WatchdogAction::Forward) => self.switched_off | self.stormed,
            _ => self.switched_off,
        }
    }

    /// Queues that the peer pauses, whether the port honours the pause or not.
    pub(crate) fn held(&self) -> u8 {
        self.held
    }

    /// Sets the queues that the peer pauses. `since` returns the start of the oldest pause of a queue, and
    /// `sent` the number of frames sent from a queue. Returns the queues whose pause began, ended, or was
    /// replaced by a new one.
    pub(crate) fn update_held(
        &mut self,
        now: Picos,
        held: u8,
        since: impl Fn(usize) -> Picos,
        sent: impl Fn(usize) -> u64,
    ) -> u8 {
        let before = core::mem::replace(&mut self.held, held);
        let mut changed = before ^ held;
        // If a new pause begins when the old one ends, the old pause still counts as ended.
        changed |= bits(before & held)
            .filter(|&n| since(n) >= now && self.queues[n].held_since() != Some(now))
            .fold(0, |mask, n| mask | 1 << n);
        for n in bits(changed & before) {
            self.queues[n].let_go(now);
        }
        for n in bits(changed & held) {
            self.queues[n].hold(now, sent(n));
        }
        changed
    }

    /// True if the next poll can detect or restore a storm.
    pub(crate) fn worth_a_poll(&self) -> bool {
        let watched = self.watched();
        watched & self.stormed != 0 || bits(watched).any(|n| self.queues[n].may_become_stormed())
    }

    fn action(&self) -> Option<WatchdogAction> {
        self.config.map(|config| config.action)
    }
}
