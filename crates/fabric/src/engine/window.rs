//! Time windows, and the parts of their work that shards process separately.

use xoff_dataplane::Picos;

use crate::event_queue::{first_key_after, first_key_at};

/// How the hosts process a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostWindow {
    /// No completion can occur. Each group of hosts is a partition.
    WithoutCompletions,
    /// Each group of hosts is a partition. The handler acts on completions at once.
    WithLocalCompletions,
    /// Each group of hosts is a partition. After a host has received a message, its partition stops until the handler
    /// has acted on the completion.
    WithDelayedCompletions,
    /// A completion can act on any host. One thread processes the events of all hosts in one order.
    Joint,
}

/// A time window of all shards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Picos,
    /// End of the interval of the window.
    pub(super) interval_end: Picos,
    /// Key of the first event after the window.
    pub(super) limit: u128,
}

impl Window {
    /// Returns the window from `begin` to the end of its interval, or to the time `target` if it is earlier. Events at
    /// this time belong to the window.
    pub(super) fn until(begin: Picos, interval_end: Picos, target: Picos) -> Window {
        Window {
            begin,
            interval_end,
            limit: first_key_at(interval_end).min(first_key_after(target)),
        }
    }
}

/// A part of the work for a window. Shards process it separately.
#[derive(Clone, Copy, Debug)]
pub(super) enum WindowPhase {
    /// Finds the partitions that have events in the window.
    Prepare(Window),
    /// As [`WindowPhase::Prepare`]. Then finds out whether no host can have a completion.
    PrepareAndCheck(Window),
    /// Processes the events of hosts and switches. The window must be prepared.
    HostsAndSwitches(Window, HostWindow),
    /// Prepares the window, then processes the events of hosts and switches.
    WholeWindow(Window, HostWindow),
    /// Processes the events of switches.
    Switches(Window),
    /// Processes the events of hosts and switches in several windows.
    Batch(WindowBatch),
}

/// The result of a phase in one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseResult {
    /// Whether no host of the shard can have a completion. Only valid after [`WindowPhase::PrepareAndCheck`].
    pub(super) has_no_completion: bool,
    /// Time of the latest processed event, or zero.
    pub(super) latest: Picos,
    /// See [`RunStopReason::Stuck`](super::RunStopReason::Stuck).
    pub(super) is_stuck: bool,
    /// A bit for each window of a batch that had events.
    pub(super) windows_with_events: u64,
}

impl PhaseResult {
    pub(super) const NOTHING: PhaseResult = PhaseResult {
        has_no_completion: true,
        latest: Picos::ZERO,
        is_stuck: false,
        windows_with_events: 0,
    };

    /// Combines the results of two shards.
    pub(super) fn and(self, other: PhaseResult) -> PhaseResult {
        PhaseResult {
            has_no_completion: self.has_no_completion && other.has_no_completion,
            latest: self.latest.max(other.latest),
            is_stuck: self.is_stuck || other.is_stuck,
            windows_with_events: self.windows_with_events | other.windows_with_events,
        }
    }
}

/// Largest number of windows in a batch.
pub(super) const BATCH_WINDOWS_MAX: u64 = 16;

/// Consecutive windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowBatch {
    /// The first window. All completions in it are local.
    pub(super) first: Window,
    /// Length of the other windows.
    pub(super) interval: Picos,
    /// Time after which no event is processed.
    pub(super) target: Picos,
    /// Largest number of windows, at most [`BATCH_WINDOWS_MAX`].
    pub(super) windows: u64,
}

impl WindowBatch {
    /// Returns a window by its number. Returns `None` after the end of the batch.
    pub(super) fn window(&self, number: u64) -> Option<Window> {
        if number == 0 {
            return Some(self.first);
        }
        let begin = Picos(self.first.interval_end.0 + (number - 1) * self.interval.0);
        let is_in_batch = number < self.windows && begin <= self.target;
        is_in_batch.then(|| Window::until(begin, begin + self.interval, self.target))
    }
}
