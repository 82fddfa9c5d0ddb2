//! What a worker does when there is nothing to do.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};

use xoff_ports::Courtesy;

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

/// How often an adaptive worker looks whether others want its core.
const LOOK_NS: u64 = 10_000_000;
/// Taken off its core so often since the last look, and at least once per [`LOOK_NS`], a worker is not alone on it.
const PREEMPTIONS_MIN: u64 = 2;
/// So long it then leaves the core at once when there is nothing to do: while it looked again, frames of those whom it
/// keeps from their work would only come later.
const CROWDED_NS: u64 = 1_000_000_000;
/// More work than this since the last rest, and frames come too fast to wait for others: three for each frame, of which a ring of
/// jumbo frames holds 1024 (`ports/packet/ring.rs`), and one of smaller frames more.
const BACKLOG_MAX: usize = 3 * 512;
/// So long a worker then does not wait for others.
const HURRIED_NS: u64 = 1_000_000_000;

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Looks again; whoever else is ready may have the core first.
    Yield,
    /// Looks again at once, without letting go of the core: what is due soon is due within less than the time that another one
    /// would keep it (a slice is milliseconds).
    Look,
    /// Sleeps until a frame comes, or for so long.
    Sleep(Duration),
}

/// Remembers when there was work last, and whether others wait for the core.
#[derive(Debug)]
pub(crate) struct IdlePolicy {
    idle: Idle,
    worked_at_ns: u64,
    looked_at_ns: u64,
    preemptions: u64,
    crowded_until_ns: u64,
    /// Work since the last rest.
    backlog: usize,
    hurried_until_ns: u64,
    courtesy: Courtesy,
}

impl IdlePolicy {
    pub(crate) fn new(idle: Idle) -> IdlePolicy {
        IdlePolicy {
            idle,
            worked_at_ns: 0,
            looked_at_ns: 0,
            preemptions: 0,
            crowded_until_ns: 0,
            backlog: 0,
            hurried_until_ns: 0,
            courtesy: Courtesy::default(),
        }
    }

    /// There was so much work at this wall time.
    pub(crate) fn worked(&mut self, now_ns: u64, work: usize) {
        self.worked_at_ns = now_ns;
        self.backlog += work;
    }

    /// What to do now that there is nothing to do, given the wall time of the next deadline.
    pub(crate) fn rest(&mut self, now_ns: u64, deadline_ns: Option<u64>) -> Rest {
        if std::mem::take(&mut self.backlog) > BACKLOG_MAX {
            self.hurried_until_ns = now_ns + HURRIED_NS;
        }
        if now_ns.saturating_sub(self.looked_at_ns) >= LOOK_NS {
            self.look(now_ns, preemptions());
        }
        let crowded = self.is_crowded(now_ns);
        if self.idle == Idle::Spin {
            // Alone on its core, a system call a turn would only make it look less often.
            return if crowded { Rest::Yield } else { Rest::Look };
        }
        if !crowded && now_ns.saturating_sub(self.worked_at_ns) < AWAKE_NS {
            return Rest::Yield;
        }
        let Some(deadline_ns) = deadline_ns else {
            return Rest::Sleep(Duration::from_nanos(SLEEP_NS_MAX));
        };
        let ahead_ns = deadline_ns.saturating_sub(now_ns);
        if ahead_ns < SLEEP_NS_MIN {
            return if crowded { Rest::Look } else { Rest::Yield };
        }
        Rest::Sleep(Duration::from_nanos((ahead_ns - EARLY_NS).min(SLEEP_NS_MAX)))
    }

    /// Whether it never sleeps.
    pub(crate) fn spins(&self) -> bool {
        self.idle == Idle::Spin
    }

    /// Whether others want the core, as far as was seen by [`IdlePolicy::rest`].
    pub(crate) fn is_crowded(&self, now_ns: u64) -> bool {
        now_ns < self.crowded_until_ns
    }

    /// Has the calling thread wait for others when it wakes up on a core that they want, or not, by what was seen by [`IdlePolicy::rest`].
    pub(crate) fn give_way(&mut self, now_ns: u64) {
        self.courtesy.follow(self.may_give_way(now_ns));
    }

    /// Whether it may wait for others: for milliseconds, in which its ports' rings have to hold what comes.
    fn may_give_way(&self, now_ns: u64) -> bool {
        self.idle == Idle::Adaptive && self.is_crowded(now_ns) && now_ns >= self.hurried_until_ns
    }

    /// Takes in how often the thread was taken off its core, since it began.
    fn look(&mut self, now_ns: u64, preemptions: u64) {
        let since_ns = now_ns.saturating_sub(self.looked_at_ns);
        let more = preemptions.saturating_sub(self.preemptions);
        if more >= PREEMPTIONS_MIN && more.saturating_mul(LOOK_NS) >= since_ns {
            self.crowded_until_ns = now_ns + CROWDED_NS;
        }
        self.looked_at_ns = now_ns;
        self.preemptions = preemptions;
    }
}

/// How often the calling thread was taken off its core by another one. Without an answer it is alone.
fn preemptions() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches().unsigned_abs())
}

/// Sleeps until the bell rings, one of `fds` can be read or the time is over; whether the bell has rung.
pub(crate) fn sleep_on<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    bell: Option<BorrowedFd<'a>>,
    limit: Duration,
) -> bool {
    let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut polled: Vec<PollFd<'_>> = bell.into_iter().chain(fds).map(polled).collect();
    // An interrupted sleep is a short sleep.
    let woken = ppoll(&mut polled, Some(TimeSpec::from_duration(limit)), None);
    let first = polled.first().filter(|_| bell.is_some() && woken.is_ok());
    first.is_some_and(|bell| bell.any().unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_only_after_a_while_and_only_for_far_deadlines() {
        let mut policy = IdlePolicy::new(Idle::Adaptive);
        policy.worked(1_000_000, 1);
        let sleep = |ms| Rest::Sleep(Duration::from_millis(ms));
        assert_eq!(policy.rest(1_010_000, None), Rest::Yield);
        assert_eq!(policy.rest(1_100_000, None), sleep(100));
        assert_eq!(policy.rest(1_100_000, Some(1_150_000)), Rest::Yield);
        assert_eq!(policy.rest(1_100_000, Some(2_140_000)), sleep(1));
        assert_eq!(IdlePolicy::new(Idle::Spin).rest(0, None), Rest::Look);
    }

    #[test]
    fn leaves_a_crowded_core_at_once() {
        let at = |ms: u64| ms * 1_000_000;
        let mut policy = IdlePolicy::new(Idle::Adaptive);
        policy.look(at(1000), 90);
        // A few in a long time are the kernel's own threads.
        policy.look(at(1500), 110);
        policy.worked(at(1500), 1);
        assert_eq!(policy.crowded_until_ns, 0);
        policy.look(at(1510), 111);
        assert_eq!(policy.crowded_until_ns, 0, "one is none");
        policy.look(at(1520), 113);
        assert_eq!(policy.crowded_until_ns, at(2520));
        let mut spinning = IdlePolicy::new(Idle::Spin);
        spinning.crowded_until_ns = at(2520);
        spinning.looked_at_ns = at(1520);
        assert_eq!(spinning.rest(at(1525), None), Rest::Yield);
        policy.worked(at(1525), 1);
        assert_eq!(
            policy.rest(at(1525), None),
            Rest::Sleep(Duration::from_millis(100))
        );
        assert_eq!(
            policy.rest(at(1525), Some(at(1525) + 5_000)),
            Rest::Look,
            "who lets go of the core now has it back in milliseconds"
        );
    }

    #[test]
    fn gives_way_on_a_crowded_core_unless_frames_come_too_fast() {
        let at = |ms: u64| ms * 1_000_000;
        let mut policy = IdlePolicy::new(Idle::Adaptive);
        assert!(!policy.may_give_way(at(1000)), "it is alone");
        policy.looked_at_ns = at(5000);
        policy.crowded_until_ns = at(5000);
        let mut burst = |ms, work| {
            policy.worked(at(ms), work);
            policy.rest(at(ms), None);
            policy.may_give_way(at(ms))
        };
        assert!(burst(1020, BACKLOG_MAX));
        assert!(burst(1030, BACKLOG_MAX), "what was before the last rest is over");
        assert!(!burst(1040, BACKLOG_MAX + 1));
        assert!(!burst(2039, 1));
        assert!(burst(2040, 1));
        assert!(!burst(5000, 1), "alone again");
        let mut spinning = IdlePolicy::new(Idle::Spin);
        spinning.crowded_until_ns = at(5000);
        assert!(!spinning.may_give_way(at(1000)), "its core is its own");
    }
}
