//! How long one queue has been held without progress.

use crate::config::WatchdogRule;
use xoff_units::Picos;

/// What a poll sees of a queue, beside its pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// The poll.
    pub(crate) now: Picos,
    /// The poll before it.
    pub(crate) interval_start: Picos,
    /// Time from poll to poll.
    pub(crate) poll: Picos,
    /// Something waits in the queue.
    pub(crate) waiting: bool,
    /// Frames that have ever left the queue.
    pub(crate) sent: u64,
    /// Since when no XOFF has come; [`Picos::NEVER`]: a pause stands until it is resumed.
    pub(crate) quiet_since: Picos,
}

/// The pauses of a queue as the watchdog judges them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueWatch {
    /// The beginning of the pause that is on.
    held_since: Option<Picos>,
    /// What was before this does not count.
    judged_from: Picos,
    /// The pause has gone on without XOFF frames in some poll interval: for an empty queue it counts from here.
    fed_from: Picos,
    /// The beginning of the first pause in the present poll interval.
    touched: Option<Picos>,
    /// Time held in the present interval, in picoseconds, up to `counted_until`.
    held_ps: u64,
    counted_until: Picos,
    /// Frames that had left at the beginning of the present interval, or of the first pause in it.
    sent: u64,
    /// Since when each interval was held for the most part, with nothing sent.
    mostly_held_from: Option<Picos>,
}

impl QueueWatch {
    /// A pause begins. `sent`: frames that have ever left the queue.
    pub(crate) fn hold(&mut self, now: Picos, sent: u64) {
        self.held_since = Some(now);
        self.counted_until = now;
        if self.touched.is_none() && self.mostly_held_from.is_none() {
            self.sent = sent;
        }
        self.touched = self.touched.or(Some(now));
    }

    /// A pause is over.
    pub(crate) fn let_go(&mut self, now: Picos) {
        self.count_until(now);
        self.held_since = None;
    }

    /// The beginning of the pause that is on.
    pub(crate) fn held_since(&self) -> Option<Picos> {
        self.held_since
    }

    /// What was before `now` is no reason for a storm.
    pub(crate) fn judge_from(&mut self, now: Picos) {
        self.judged_from = now;
    }

    /// Closes the poll interval that ends now.
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

    /// How long the queue has been held without progress, as far as that may become a storm.
    pub(crate) fn stuck_for(&self, seen: &Sight, rule: WatchdogRule) -> Option<Picos> {
        let from = match (seen.waiting, rule) {
            (true, _) => self.held_since,
            (false, WatchdogRule::Broadcom) => self.held_since.map(|since| since.max(self.fed_from)),
            (false, WatchdogRule::Nvidia) => None,
            (false, WatchdogRule::Vs) => self.mostly_held_from,
        };
        from.map(|from| seen.now.since(from.max(self.judged_from)))
    }

    /// Whether the next poll may find a storm, if nothing else happens.
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
