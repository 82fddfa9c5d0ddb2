//! Time for which a queue was paused without progress.

use crate::config::WatchdogRule;
use xoff_units::Picos;

/// The state of a queue at a poll, without its pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Time of the poll.
    pub(crate) now: Picos,
    /// Time of the previous poll.
    pub(crate) interval_start: Picos,
    /// Poll interval.
    pub(crate) poll: Picos,
    /// True if frames wait in the queue.
    pub(crate) waiting: bool,
    /// Total number of frames sent from the queue.
    pub(crate) sent: u64,
    /// Arrival time of the latest XOFF. [`Picos::NEVER`] during a pause that lasts until its resume.
    pub(crate) quiet_since: Picos,
}

/// Pause history of one queue for storm detection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueWatch {
    /// Start of the current pause.
    held_since: Option<Picos>,
    /// Pauses before this time do not count.
    judged_from: Picos,
    /// End of the latest poll interval in which the pause continued without XOFF frames. For an empty queue,
    /// the pause counts from here.
    fed_from: Picos,
    /// Start of the first pause in the current poll interval.
    touched: Option<Picos>,
    /// Time paused in the current poll interval until `counted_until`, in picoseconds.
    held_ps: u64,
    counted_until: Picos,
    /// Frames sent at the start of the current interval, or at the first pause in it.
    sent: u64,
    /// Start of the sequence of intervals in which the queue was mostly paused and sent nothing.
    mostly_held_from: Option<Picos>,
}

impl QueueWatch {
    /// Begins a pause. `sent` is the total number of frames sent from the queue.
    pub(crate) fn hold(&mut self, now: Picos, sent: u64) {
        self.held_since = Some(now);
        self.counted_until = now;
        if self.touched.is_none() && self.mostly_held_from.is_none() {
            self.sent = sent;
        }
        self.touched = self.touched.or(Some(now));
    }

    /// Ends the current pause.
    pub(crate) fn let_go(&mut self, now: Picos) {
        self.count_until(now);
        self.held_since = None;
    }

    /// Start of the current pause.
    pub(crate) fn held_since(&self) -> Option<Picos> {
        self.held_since
    }

    /// Ignores pauses before `now` for storm detection.
    pub(crate) fn judge_from(&mut self, now: Picos) {
        self.judged_from = now;
    }

    /// Closes the poll interval that ends at this poll.
    pub(crate) fn observe(&mut self, seen: &Sight) {
        self.count_until(seen.now);
        let held_ps = core::mem::take(&mut self.held_ps);
        let mostly = held_ps > seen.poll.0 / 5 * 4 && seen.sent == self.sent;
        self.mostly_held_from = match (mostly, self.mostly_held_from) {
            (true, None) => self.touched,
            (true, from) => from,
            (false, _) => None,
        };
        self.touched = self.held_since;
        self.sent = seen.sent;
        let fed = seen.quiet_since > seen.interval_start;
        if self.held_since.is_some_and(|since| since <= seen.interval_start) && !fed {
            self.fed_from = seen.now;
        }
    }

    /// Time for which the queue was paused without progress. `None` if the rule excludes a storm.
    pub(crate) fn stuck_for(&self, seen: &Sight, rule: WatchdogRule) -> Option<Picos> {
        let from = match (seen.waiting, rule) {
            (true, _) => self.held_since,
            (false, WatchdogRule::Broadcom) => self.held_since.map(|since| since.max(self.fed_from)),
            (false, WatchdogRule::Nvidia) => None,
            (false, WatchdogRule::Vs) => self.mostly_held_from,
        };
        from.map(|from| seen.now.since(from.max(self.judged_from)))
    }

    /// True if the next poll may detect a storm without further events.
    pub(crate) fn may_become_stormed(&self) -> bool {
        self.held_since.is_some() || self.mostly_held_from.is_some()
    }

    fn count_until(&mut self, now: Picos) {
        if self.held_since.is_some() {
            self.held_ps += now.since(self.counted_until).0;
        }
        self.counted_until = now;
    }
}
