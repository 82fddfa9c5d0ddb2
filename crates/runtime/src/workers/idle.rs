//! The idle policy decides how a worker thread waits when it has no work.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};

use xoff_ports::SchedPolicy;

/// The way in which a worker thread waits for work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdleMode {
    /// After its last work, the thread polls for 50 us. Then the thread sleeps until a frame arrives or a
    /// deadline is due. An idle thread needs almost no CPU time.
    #[default]
    Adaptive,
    /// The thread never sleeps. A polling thread reacts faster than an adaptive thread, but needs its
    /// own core.
    Spin,
}

/// Time for which an adaptive worker polls after its last work, in nanoseconds. Polling for this time
/// costs about as much CPU time as one sleep with its wake-up. Longer polling would therefore cost more
/// than it saves.
const POLL_NS: u64 = 50_000;
/// Limit for sleeping, in nanoseconds. If the next deadline is closer, a worker does not sleep. In a virtual
/// machine, a thread can wake up late by this time.
const SLEEP_NS_MIN: u64 = 80_000;
/// A sleeping worker wakes up this number of nanoseconds before its deadline, and then polls until
/// the deadline.
const WAKE_EARLY_NS: u64 = 40_000;
/// Longest sleep in nanoseconds. After a sleep, the worker checks link states and losses.
const SLEEP_NS_MAX: u64 = 100_000_000;

/// Time between two checks for preemptions of the thread, in nanoseconds.
const PREEMPTION_CHECK_NS: u64 = 10_000_000;
/// Smallest number of preemptions since the last check by which a core becomes crowded. In addition, there
/// must be at least one preemption for each [`PREEMPTION_CHECK_NS`].
const PREEMPTIONS_MIN: u64 = 2;
/// Time for which a core is regarded as crowded after a check, in nanoseconds. On a crowded core, a polling
/// worker would delay the threads that send frames to this worker.
const CROWDED_HOLD_NS: u64 = 1_000_000_000;
/// Limit for the amount of work without idle time. A frame counts as up to three units of work. Above this
/// limit, the worker no longer lets other threads of the core run first. During such a wait, a receive ring,
/// which may hold only 1024 frames, could overflow.
const BACKLOG_FRAMES_MAX: usize = 3 * 512;
/// Time in nanoseconds for which a worker does not wait for other threads, after it had too much work without
/// idle time.
const BACKLOG_HOLD_NS: u64 = 1_000_000_000;

/// The next action of a worker without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleAction {
    /// Yields the core to other ready threads, and then polls again.
    Yield,
    /// Polls again without yielding the core. Another thread would use the core for milliseconds, but the
    /// next deadline is earlier.
    KeepCore,
    /// Sleeps until a frame arrives, at most for this time.
    Sleep(Duration),
}

/// The idle state of one thread: for example, the time of its last work, and whether other threads compete
/// for its core.
#[derive(Debug)]
pub(crate) struct IdlePolicy {
    idle: IdleMode,
    last_work_ns: u64,
    checked_at_ns: u64,
    preemptions: u64,
    crowded_until_ns: u64,
    /// Amount of work since the last idle time.
    backlog: usize,
    backlog_until_ns: u64,
    sched_policy: SchedPolicy,
}

impl IdlePolicy {
    pub(crate) fn new(idle: IdleMode) -> IdlePolicy {
        IdlePolicy {
            idle,
            last_work_ns: 0,
            checked_at_ns: 0,
            preemptions: 0,
            crowded_until_ns: 0,
            backlog: 0,
            backlog_until_ns: 0,
            sched_policy: SchedPolicy::default(),
        }
    }

    /// Records an amount of work that was done at the wall time `now_ns`.
    pub(crate) fn record_work(&mut self, now_ns: u64, work: usize) {
        self.last_work_ns = now_ns;
        self.backlog += work;
    }

    /// Returns the next action of a thread without work. `deadline_ns` is the wall time of the next deadline,
    /// or `None` if the thread has no deadline.
    pub(crate) fn next_action(&mut self, now_ns: u64, deadline_ns: Option<u64>) -> IdleAction {
        if std::mem::take(&mut self.backlog) > BACKLOG_FRAMES_MAX {
            self.backlog_until_ns = now_ns + BACKLOG_HOLD_NS;
        }
        if now_ns.saturating_sub(self.checked_at_ns) >= PREEMPTION_CHECK_NS {
            self.update_preemptions(now_ns, count_preemptions());
        }
        let crowded = self.is_core_contended(now_ns);
        if self.idle == IdleMode::Spin {
            // On a core of its own, a system call in each turn would only slow down polling.
            return if crowded {
                IdleAction::Yield
            } else {
                IdleAction::KeepCore
            };
        }
        if !crowded && now_ns.saturating_sub(self.last_work_ns) < POLL_NS {
            return IdleAction::Yield;
        }
        let Some(deadline_ns) = deadline_ns else {
            return IdleAction::Sleep(Duration::from_nanos(SLEEP_NS_MAX));
        };
        let remaining_ns = deadline_ns.saturating_sub(now_ns);
        if remaining_ns < SLEEP_NS_MIN {
            return if crowded {
                IdleAction::KeepCore
            } else {
                IdleAction::Yield
            };
        }
        IdleAction::Sleep(Duration::from_nanos(
            (remaining_ns - WAKE_EARLY_NS).min(SLEEP_NS_MAX),
        ))
    }

    /// Returns whether the thread never sleeps.
    pub(crate) fn is_spinning(&self) -> bool {
        self.idle == IdleMode::Spin
    }

    /// Returns whether other threads compete for the core (a crowded core). The last call of
    /// [`IdlePolicy::next_action`] has determined this.
    pub(crate) fn is_core_contended(&self, now_ns: u64) -> bool {
        now_ns < self.crowded_until_ns
    }

    /// Sets the scheduling policy of the calling thread. On a crowded core, the thread gets the policy
    /// `SCHED_BATCH`: after a wake-up, it waits for other threads. While frames arrive too fast, the default
    /// policy is used.
    pub(crate) fn update_sched_policy(&mut self, now_ns: u64) {
        self.sched_policy.set_batch(self.may_use_batch_policy(now_ns));
    }

    /// Returns whether the thread may wait for other threads. Such a wait lasts milliseconds. The receive
    /// rings of the ports must hold all frames that arrive during the wait.
    fn may_use_batch_policy(&self, now_ns: u64) -> bool {
        self.idle == IdleMode::Adaptive && self.is_core_contended(now_ns) && now_ns >= self.backlog_until_ns
    }

    /// Processes the number of preemptions of the thread, counted since the start of the thread.
    fn update_preemptions(&mut self, now_ns: u64, preemptions: u64) {
        let since_ns = now_ns.saturating_sub(self.checked_at_ns);
        let more = preemptions.saturating_sub(self.preemptions);
        if more >= PREEMPTIONS_MIN && more.saturating_mul(PREEMPTION_CHECK_NS) >= since_ns {
            self.crowded_until_ns = now_ns + CROWDED_HOLD_NS;
        }
        self.checked_at_ns = now_ns;
        self.preemptions = preemptions;
    }
}

/// Returns how often other threads have preempted the calling thread since its start. Returns 0 if the kernel
/// does not report this number.
fn count_preemptions() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches().unsigned_abs())
}

/// Sleeps until `waker` or one of `fds` is readable, at most for the time `limit`. Returns whether `waker`
/// was readable.
pub(crate) fn sleep_on<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    waker: Option<BorrowedFd<'a>>,
    limit: Duration,
) -> bool {
    let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut polled: Vec<PollFd<'_>> = waker.into_iter().chain(fds).map(polled).collect();
    // An interrupted sleep only ends earlier.
    let woken = ppoll(&mut polled, Some(TimeSpec::from_duration(limit)), None);
    let first = polled.first().filter(|_| waker.is_some() && woken.is_ok());
    first.is_some_and(|waker| waker.any().unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_worker_polls_before_it_sleeps_and_sleeps_only_for_distant_deadlines() {
        let mut policy = IdlePolicy::new(IdleMode::Adaptive);
        policy.record_work(1_000_000, 1);
        let sleep = |ms| IdleAction::Sleep(Duration::from_millis(ms));
        assert_eq!(policy.next_action(1_010_000, None), IdleAction::Yield);
        assert_eq!(policy.next_action(1_100_000, None), sleep(100));
        assert_eq!(policy.next_action(1_100_000, Some(1_150_000)), IdleAction::Yield);
        assert_eq!(policy.next_action(1_100_000, Some(2_140_000)), sleep(1));
        assert_eq!(
            IdlePolicy::new(IdleMode::Spin).next_action(0, None),
            IdleAction::KeepCore
        );
    }

    #[test]
    fn adaptive_worker_sleeps_without_polling_on_a_crowded_core() {
        let at = |ms: u64| ms * 1_000_000;
        let mut policy = IdlePolicy::new(IdleMode::Adaptive);
        policy.update_preemptions(at(1000), 90);
        // The kernel's own threads cause a few preemptions in a long time.
        policy.update_preemptions(at(1500), 110);
        policy.record_work(at(1500), 1);
        assert_eq!(policy.crowded_until_ns, 0);
        policy.update_preemptions(at(1510), 111);
        assert_eq!(policy.crowded_until_ns, 0, "one preemption is not enough");
        policy.update_preemptions(at(1520), 113);
        assert_eq!(policy.crowded_until_ns, at(2520));
        let mut spinning = IdlePolicy::new(IdleMode::Spin);
        spinning.crowded_until_ns = at(2520);
        spinning.checked_at_ns = at(1520);
        assert_eq!(spinning.next_action(at(1525), None), IdleAction::Yield);
        policy.record_work(at(1525), 1);
        assert_eq!(
            policy.next_action(at(1525), None),
            IdleAction::Sleep(Duration::from_millis(100))
        );
        assert_eq!(
            policy.next_action(at(1525), Some(at(1525) + 5_000)),
            IdleAction::KeepCore,
            "a released core returns only after milliseconds"
        );
    }

    #[test]
    fn batch_policy_is_used_on_a_crowded_core_unless_frames_arrive_too_fast() {
        let at = |ms: u64| ms * 1_000_000;
        let mut policy = IdlePolicy::new(IdleMode::Adaptive);
        assert!(!policy.may_use_batch_policy(at(1000)), "the core is not crowded");
        policy.checked_at_ns = at(5000);
        policy.crowded_until_ns = at(5000);
        let mut burst = |ms, work| {
            policy.record_work(at(ms), work);
            policy.next_action(at(ms), None);
            policy.may_use_batch_policy(at(ms))
        };
        assert!(burst(1020, BACKLOG_FRAMES_MAX));
        assert!(
            burst(1030, BACKLOG_FRAMES_MAX),
            "the backlog restarts after an idle time"
        );
        assert!(!burst(1040, BACKLOG_FRAMES_MAX + 1));
        assert!(!burst(2039, 1));
        assert!(burst(2040, 1));
        assert!(!burst(5000, 1), "the core is no longer crowded");
        let mut spinning = IdlePolicy::new(IdleMode::Spin);
        spinning.crowded_until_ns = at(5000);
        assert!(
            !spinning.may_use_batch_policy(at(1000)),
            "a spinning worker has its own core"
        );
    }
}
