//! What a worker does when there is nothing to do.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};

/// How a worker waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Idle {
    /// Looks again at once for a while, then sleeps until a frame or a deadline comes: next to no CPU when idle.
    #[default]
    Adaptive,
    /// Never sleeps: a core of its own, and the shortest reaction.
    Spin,
}

/// An adaptive worker looks again at once for this long after the last work. A sleep and a wake-up cost about as
/// much, so waiting longer would not pay.
const AWAKE_NS: u64 = 50_000;
/// Deadlines nearer than this are not slept for: a virtual machine wakes up that much late.
const SLEEP_NS_MIN: u64 = 80_000;
/// A worker that sleeps for a deadline wakes up this much early and looks for the rest.
const EARLY_NS: u64 = 40_000;
/// Longest sleep: links and losses are looked at ten times a second.
const SLEEP_NS_MAX: u64 = 100_000_000;

/// Remembers when there was work last.
#[derive(Debug)]
pub(crate) struct IdlePolicy {
    idle: Idle,
    worked_at_ns: u64,
}

impl IdlePolicy {
    pub(crate) fn new(idle: Idle) -> IdlePolicy {
        IdlePolicy {
            idle,
            worked_at_ns: 0,
        }
    }

    /// There was work at this wall time.
    pub(crate) fn worked(&mut self, now_ns: u64) {
        self.worked_at_ns = now_ns;
    }

    /// How long to sleep, given the wall time of the next deadline; `None`: look again at once.
    pub(crate) fn sleep_for(&self, now_ns: u64, deadline_ns: Option<u64>) -> Option<Duration> {
        if self.idle == Idle::Spin || now_ns.saturating_sub(self.worked_at_ns) < AWAKE_NS {
            return None;
        }
        let ahead = deadline_ns.map_or(SLEEP_NS_MAX, |at| at.saturating_sub(now_ns));
        if ahead < SLEEP_NS_MIN {
            return None;
        }
        Some(Duration::from_nanos((ahead - EARLY_NS).min(SLEEP_NS_MAX)))
    }
}

/// Sleeps until one of `fds` can be read or the time is over.
pub(crate) fn sleep_on<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>, limit: Duration) {
    let mut polled: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    // An interrupted sleep is a short sleep.
    let _ = ppoll(&mut polled, Some(TimeSpec::from_duration(limit)), None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_only_after_a_while_and_only_for_far_deadlines() {
        let mut policy = IdlePolicy::new(Idle::Adaptive);
        policy.worked(1_000_000);
        assert_eq!(policy.sleep_for(1_010_000, None), None);
        assert_eq!(
            policy.sleep_for(1_100_000, None),
            Some(Duration::from_millis(100))
        );
        assert_eq!(policy.sleep_for(1_100_000, Some(1_150_000)), None);
        assert_eq!(
            policy.sleep_for(1_100_000, Some(2_140_000)),
            Some(Duration::from_millis(1))
        );
        assert_eq!(IdlePolicy::new(Idle::Spin).sleep_for(1 << 40, None), None);
    }
}
