//! How long the hosts' thread may look away.
//!
//! A NIC makes up for a late call of 32 frames, so a thread that comes back every few frames sends the same
//! frames at the same model times as one that never sleeps, in bursts that cost fewer system calls, and leaves the core
//! to the switch meanwhile. At speeds where 32 frames last less than a sleep and its delay, it does not sleep.

use std::time::Duration;

use crate::driver::Idle;

/// How long the thread looks away while there is traffic.
const NAP_NS: u64 = 50_000;
/// A nap may be this late and the NIC still catches up. Virtual machines wake up 50 to 100 us late as a rule.
const LATENESS_NS: u64 = 150_000;
/// Longest sleep without traffic: losses of devices and commands are looked for this often.
const SLEEP_NS_MAX: u64 = 10_000_000;

/// What to do after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Look again at once.
    None,
    /// Look away whatever arrives, so that a burst gathers.
    Nap(Duration),
    /// Sleep until something arrives, for so long at most.
    Sleep(Duration),
}

/// Decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naps {
    spin: bool,
    nap: bool,
}

impl Naps {
    /// For hosts of which the fastest can make up for a lateness of `catch_up_ns` wall time.
    pub(super) fn new(idle: Idle, catch_up_ns: u64) -> Naps {
        Naps {
            spin: idle == Idle::Spin,
            nap: catch_up_ns >= NAP_NS + LATENESS_NS,
        }
    }

    /// After a turn that did (`busy`) or did not move frames, with the next deadline `ahead_ns` of wall time away.
    pub(super) fn after(&self, busy: bool, ahead_ns: u64) -> Rest {
        match (self.spin, busy, self.nap) {
            (true, ..) => Rest::None,
            (false, true, true) => Rest::Nap(Duration::from_nanos(NAP_NS)),
            (false, true, false) => Rest::None,
            (false, false, true) => Rest::Sleep(Duration::from_nanos(ahead_ns.clamp(NAP_NS, SLEEP_NS_MAX))),
            // Deadlines nearer than a sleep is exact are waited for awake.
            (false, false, false) if ahead_ns < LATENESS_NS => Rest::None,
            (false, false, false) => Rest::Sleep(Duration::from_nanos(
                (ahead_ns - LATENESS_NS / 2).min(SLEEP_NS_MAX),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    #[test]
    fn gigabit_hosts_nap_in_traffic_and_fast_ones_stay_awake() {
        // 32 frames of 8.8 us, and of 0.9 us.
        let gigabit = Naps::new(Idle::Adaptive, 283_000);
        let ten_gigabit = Naps::new(Idle::Adaptive, 28_300);
        assert_eq!(gigabit.after(true, 0), Rest::Nap(US(50)));
        assert_eq!(gigabit.after(false, 8_848), Rest::Sleep(US(50)));
        assert_eq!(ten_gigabit.after(true, 0), Rest::None);
        assert_eq!(ten_gigabit.after(false, 885), Rest::None);
        assert_eq!(ten_gigabit.after(false, 1_000_000), Rest::Sleep(US(925)));
        for naps in [gigabit, ten_gigabit] {
            assert_eq!(naps.after(false, u64::MAX), Rest::Sleep(US(10_000)));
        }
        assert_eq!(Naps::new(Idle::Spin, 283_000).after(false, u64::MAX), Rest::None);
    }
}
