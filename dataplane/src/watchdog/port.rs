//! The watched queues of one port.

use super::account::Account;
use super::queue::QueueWatch;
use crate::config::{PortWatchdog, WatchdogAction};
use crate::ids::PRIORITIES;
use crate::pfc::bits;
use xoff_units::Picos;

/// What the watchdog does about a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing: the queue is not watched.
    Unwatched,
    /// It looks for storms.
    Watching,
    /// A storm is on.
    Stormed,
    /// The big red switch is on.
    BigRedSwitch,
}

/// A port as its watchdog sees it. Pauses are followed on every port, watched or not.
#[derive(Debug, Default)]
pub(crate) struct PortWatch {
    config: Option<PortWatchdog>,
    /// Queues that the peer holds, whatever is done about it.
    held: u8,
    /// Queues in which a storm is on.
    stormed: u8,
    /// Queues that drop because of the big red switch.
    switched_off: u8,
    pub(crate) queues: [QueueWatch; PRIORITIES],
    pub(crate) accounts: [Account; PRIORITIES],
}

impl PortWatch {
    /// What it is told to do.
    pub(crate) fn config(&self) -> Option<&PortWatchdog> {
        self.config.as_ref()
    }

    /// Tells it what to do from now on.
    pub(crate) fn configure(&mut self, config: Option<PortWatchdog>) {
        self.config = config;
    }

    /// Queues that are watched.
    pub(crate) fn watched(&self) -> u8 {
        self.config.map_or(0, |config| config.queues)
    }

    /// Queues in which a storm is on.
    pub(crate) fn stormed(&self) -> u8 {
        self.stormed
    }

    /// What is done about a queue.
    pub(crate) fn mode(&self, queue: usize) -> Mode {
        let bit = 1 << queue;
        match () {
            () if self.switched_off & bit != 0 => Mode::BigRedSwitch,
            () if self.stormed & bit != 0 => Mode::Stormed,
            () if self.watched() & bit != 0 => Mode::Watching,
            () => Mode::Unwatched,
        }
    }

    /// What is to be done about a queue from now on.
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

    /// Queues that drop everything.
    pub(crate) fn dropping(&self) -> u8 {
        match self.action() {
            Some(WatchdogAction::Drop) => self.switched_off | self.stormed,
            _ => self.switched_off,
        }
    }

    /// Queues that do not obey pauses.
    pub(crate) fn unheeding(&self) -> u8 {
        match self.action() {
            Some(WatchdogAction::Drop | WatchdogAction::Forward) => self.switched_off | self.stormed,
            _ => self.switched_off,
        }
    }

    /// Queues that the peer holds, whatever is done about it.
    pub(crate) fn held(&self) -> u8 {
        self.held
    }

    /// Takes over which queues the peer holds. `since`: when the oldest pause of a queue began; `sent`: how many frames have
    /// left a queue. Returns the queues whose pause has begun, is over, or has been followed by another.
    pub(crate) fn update_held(
        &mut self,
        now: Picos,
        held: u8,
        since: impl Fn(usize) -> Picos,
        sent: impl Fn(usize) -> u64,
    ) -> u8 {
        let before = core::mem::replace(&mut self.held, held);
        let mut changed = before ^ held;
        // A pause that ran out at the instant at which the next one came is over all the same.
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

    /// Whether a poll may find something.
    pub(crate) fn worth_a_poll(&self) -> bool {
        let watched = self.watched();
        watched & self.stormed != 0 || bits(watched).any(|n| self.queues[n].may_become_stormed())
    }

    fn action(&self) -> Option<WatchdogAction> {
        self.config.map(|config| config.action)
    }
}
