//! The idle policy of the thread that drives model hosts. The policy decides how the thread waits.
//!
//! If the thread calls the NIC of a host too late, the NIC still sends up to 32 late frames at their correct
//! model times. The thread can therefore sleep for the time of several frames, and the result is the same as
//! without sleep. Sleeping reduces the number of system calls, and the switch can use the core meanwhile. If
//! 32 frames take less time than a sleep and its wake-up delay, the thread does not sleep.

use std::time::Duration;

use crate::workers::IdleMode;

/// Divisor of the catch-up time. The catch-up time is the longest delay of a thread after which a NIC still
/// sends all frames at their model times. With traffic, the thread sleeps for the catch-up time divided by
/// this number.
const PAUSE_DIVISOR: u64 = 6;
/// Shortest pause in nanoseconds. A shorter pause would save less time than its system call costs.
const PAUSE_NS_MIN: u64 = 50_000;
/// Longest sleep with traffic, in nanoseconds. A longer sleep would delay the processing of PFC frames in
/// dilated runs.
const PAUSE_NS_MAX: u64 = 500_000;
/// Assumed delay of a wake-up in nanoseconds. The thread sleeps only if the NIC can catch up after such a
/// delay. In virtual machines, threads usually wake up 50 to 100 us late.
const WAKE_DELAY_NS: u64 = 150_000;
/// Longest sleep without traffic, in nanoseconds. After a sleep, the thread reads the loss counters of the
/// device and looks for commands.
const SLEEP_NS_MAX: u64 = 10_000_000;

/// The action of the thread after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostIdleAction {
    /// Start the next turn at once.
    Poll,
    /// Sleep for this time, even if frames arrive. The frames then form a burst.
    Pause(Duration),
    /// Sleep until a frame arrives, at most for this time.
    Sleep(Duration),
}

/// The policy by which the thread waits after a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostIdlePolicy {
    is_spinning: bool,
    /// Duration of a pause in nanoseconds. `None` if the hosts are too fast for pauses.
    pause_ns: Option<u64>,
}

impl HostIdlePolicy {
    /// Creates the policy. `catch_up_ns` is the longest delay after which the fastest host can still catch
    /// up, in nanoseconds of wall time.
    pub(super) fn new(idle: IdleMode, catch_up_ns: u64) -> HostIdlePolicy {
        let fits = catch_up_ns >= PAUSE_NS_MIN + WAKE_DELAY_NS;
        let pause_ns = fits.then(|| (catch_up_ns / PAUSE_DIVISOR).clamp(PAUSE_NS_MIN, PAUSE_NS_MAX));
        HostIdlePolicy {
            is_spinning: idle == IdleMode::Spin,
            pause_ns,
        }
    }

    /// Returns the action after a turn. `has_traffic` tells whether the turn had traffic. `remaining_ns` is
    /// the wall time until the next deadline, in nanoseconds.
    pub(super) fn next_action(&self, has_traffic: bool, remaining_ns: u64) -> HostIdleAction {
        match (has_traffic, self.pause_ns) {
            _ if self.is_spinning => HostIdleAction::Poll,
            (true, Some(pause_ns)) => HostIdleAction::Pause(Duration::from_nanos(pause_ns)),
            (true, None) => HostIdleAction::Poll,
            (false, Some(pause_ns)) => {
                HostIdleAction::Sleep(Duration::from_nanos(remaining_ns.clamp(pause_ns, SLEEP_NS_MAX)))
            }
            // The thread polls for a deadline that is closer than the wake-up delay.
            (false, None) if remaining_ns < WAKE_DELAY_NS => HostIdleAction::Poll,
            (false, None) => HostIdleAction::Sleep(Duration::from_nanos(
                (remaining_ns - WAKE_DELAY_NS / 2).min(SLEEP_NS_MAX),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: fn(u64) -> Duration = Duration::from_micros;

    #[test]
    fn gigabit_hosts_pause_with_traffic_and_faster_hosts_poll() {
        // 32 frames of 8.8 us and of 0.9 us.
        let gigabit = HostIdlePolicy::new(IdleMode::Adaptive, 283_000);
        let ten_gigabit = HostIdlePolicy::new(IdleMode::Adaptive, 28_300);
        let dilated = HostIdlePolicy::new(IdleMode::Adaptive, 2_830_000);
        assert_eq!(gigabit.next_action(true, 0), HostIdleAction::Pause(MICROS(50)));
        assert_eq!(
            gigabit.next_action(false, 8_848),
            HostIdleAction::Sleep(MICROS(50))
        );
        assert_eq!(
            dilated.next_action(true, 0),
            HostIdleAction::Pause(Duration::from_nanos(471_666))
        );
        assert_eq!(ten_gigabit.next_action(true, 0), HostIdleAction::Poll);
        assert_eq!(ten_gigabit.next_action(false, 885), HostIdleAction::Poll);
        assert_eq!(
            ten_gigabit.next_action(false, 1_000_000),
            HostIdleAction::Sleep(MICROS(925))
        );
        for idle_policy in [gigabit, dilated, ten_gigabit] {
            assert_eq!(
                idle_policy.next_action(false, u64::MAX),
                HostIdleAction::Sleep(MICROS(10_000))
            );
        }
        assert_eq!(
            HostIdlePolicy::new(IdleMode::Spin, 283_000).next_action(false, u64::MAX),
            HostIdleAction::Poll
        );
    }
}
