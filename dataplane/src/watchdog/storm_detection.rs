//! Measures the time for which a queue was paused without progress.

use crate::config::WatchdogRule;
use xoff_units::Picos;

/// The state of a queue at a poll of the watchdog, without its pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSample {
    /// Time of the poll.
    pub(crate) now: Picos,
    /// Time of the previous poll.
    pub(crate) interval_start: Picos,
    /// Poll interval.
    pub(crate) poll: Picos,
    /// True if frames wait in the queue.
    pub(crate) has_waiting_frames: bool,
    /// Number of frames that the queue has sent since the start of the switch.
    pub(crate) sent: u64,
    /// Arrival time of the latest XOFF frame. During a pause without an end time, which lasts until a resume
    /// frame arrives, the value is [`Picos::NEVER`].
    pub(crate) last_xoff_at: Picos,
}

/// Pause history of one queue, for the detection of storms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueMonitor {
    /// Start of the current pause. `None` if the queue is not paused.
    paused_since: Option<Picos>,
    /// Pauses before this time are ignored.
    counts_since: Picos,
    /// End of the latest poll interval in which the pause continued but no XOFF frame arrived. If the queue
    /// is empty, the watchdog measures the pause from this time on.
    xoff_missing_since: Picos,
    /// Start of the first pause in the current poll interval. `None` if there was no pause.
    first_pause_in_interval: Option<Picos>,
    /// Time for which the queue was paused in the current poll interval until `counted_until`,
    /// in picoseconds.
    paused_ps: u64,
    counted_until: Picos,
    /// Number of frames that the queue had sent at the start of the current interval. If the queue was first
    /// paused during the interval, the number refers to the start of this pause.
    sent: u64,
    /// Start of the current sequence of poll intervals in which the queue was paused for more than four
    /// fifths of the time and sent nothing. `None` if the last interval was different.
    mostly_paused_since: Option<Picos>,
}

impl QueueMonitor {
    /// Begins a pause. `sent` is the number of frames that the queue has sent since the start of the switch.
    pub(crate) fn begin_pause(&mut self, now: Picos, sent: u64) {
        self.paused_since = Some(now);
        self.counted_until = now;
        if self.first_pause_in_interval.is_none() && self.mostly_paused_since.is_none() {
            self.sent = sent;
        }
        self.first_pause_in_interval = self.first_pause_in_interval.or(Some(now));
    }

    /// Ends the current pause.
    pub(crate) fn end_pause(&mut self, now: Picos) {
        self.count_paused_time(now);
        self.paused_since = None;
    }

    /// Returns the start of the current pause. Returns `None` if the queue is not paused.
    pub(crate) fn paused_since(&self) -> Option<Picos> {
        self.paused_since
    }

    /// Ignores pauses before `now` for storm detection.
    pub(crate) fn ignore_pauses_before(&mut self, now: Picos) {
        self.counts_since = now;
    }

    /// Closes the poll interval that ends at this poll.
    pub(crate) fn close_interval(&mut self, sample: &QueueSample) {
        self.count_paused_time(sample.now);
        let paused_ps = core::mem::take(&mut self.paused_ps);
        let mostly_paused = paused_ps > sample.poll.0 / 5 * 4 && sample.sent == self.sent;
        self.mostly_paused_since = match (mostly_paused, self.mostly_paused_since) {
            (true, None) => self.first_pause_in_interval,
            (true, from) => from,
            (false, _) => None,
        };
        self.first_pause_in_interval = self.paused_since;
        self.sent = sample.sent;
        let xoff_received = sample.last_xoff_at > sample.interval_start;
        if self
            .paused_since
            .is_some_and(|since| since <= sample.interval_start)
            && !xoff_received
        {
            self.xoff_missing_since = sample.now;
        }
    }

    /// Returns the time for which the queue was paused without progress. Returns `None` if the queue is not
    /// paused, or if `rule` excludes a storm.
    pub(crate) fn paused_without_progress(&self, sample: &QueueSample, rule: WatchdogRule) -> Option<Picos> {
        let from = match (sample.has_waiting_frames, rule) {
            (true, _) => self.paused_since,
            (false, WatchdogRule::Broadcom) => {
                self.paused_since.map(|since| since.max(self.xoff_missing_since))
            }
            (false, WatchdogRule::Nvidia) => None,
            (false, WatchdogRule::Vs) => self.mostly_paused_since,
        };
        from.map(|from| sample.now.since(from.max(self.counts_since)))
    }

    /// Returns true if the next poll may detect a storm without further events.
    pub(crate) fn can_become_stormed(&self) -> bool {
        self.paused_since.is_some() || self.mostly_paused_since.is_some()
    }

    fn count_paused_time(&mut self, now: Picos) {
        if self.paused_since.is_some() {
            self.paused_ps += now.since(self.counted_until).0;
        }
        self.counted_until = now;
    }
}
