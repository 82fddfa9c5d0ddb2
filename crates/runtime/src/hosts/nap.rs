//! How long the hosts' thread may look away.
//!
//! A NIC makes up for a late call of 32 frames, so a thread that comes back every few frames sends the same
//! frames at the same model times as one that never sleeps, in bursts that cost fewer system calls, and leaves the core
//! to the switch meanwhile. At speeds where 32 frames last less than a sleep and its delay, it does not sleep.

use std::time::Duration;

use crate::workers::IdleMode;

/// The thread looks away for this part of the time that can be made up for, while there is traffic.
const NAP_PART: u64 = 6;
/// Shorter naps do not pay for the sleep.
const NAP_NS_MIN: u64 = 50_000;
/// Longer naps (of dilated runs) would make pauses wait.
const NAP_NS_MAX: u64 = 500_000;
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
    /// How long a nap is; `None` where there is no time for one.
    nap_ns: Option<u64>,
}

impl Naps {
    /// For hosts of which the fastest can make up for a lateness of `catch_up_ns` wall time.
    pub(super) fn new(idle: IdleMode, catch_up_ns: u64) -> Naps {
        let fits = catch_up_ns >= NAP_NS_MIN + LATENESS_NS;
        let nap_ns = fits.then(|| (catch_up_ns / NAP_PART).clamp(NAP_NS_MIN, NAP_NS_MAX));
        Naps {
            spin: idle == IdleMode::Spin,
            nap_ns,
        }
    }

    /// After a turn that did (`busy`) or did not move frames, with the next deadline `ahead_ns` of wall time away.
    pub(super) fn after(&self, busy: bool, ahead_ns: u64) -> Rest {
        match (busy, self.nap_ns) {
            _ if self.spin => Rest::None,
            (true, Some(nap_ns)) => Rest::Nap(Duration::from_nanos(nap_ns)),
            (true, None) => Rest::None,
            (false, Some(nap_ns)) => Rest::Sleep(Duration::from_nanos(ahead_ns.clamp(nap_ns, SLEEP_NS_MAX))),
            // Deadlines nearer than a sleep is exact are waited for awake.
            (false, None) if ahead_ns < LATENESS_NS => Rest::None,
            (false, None) => Rest::Sleep(Duration::from_nanos(
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
        let gigabit = Naps::new(IdleMode::Adaptive, 283_000);
        let ten_gigabit = Naps::new(IdleMode::Adaptive, 28_300);
        let dilated = Naps::new(IdleMode::Adaptive, 2_830_000);
        assert_eq!(gigabit.after(true, 0), Rest::Nap(US(50)));
        assert_eq!(gigabit.after(false, 8_848), Rest::Sleep(US(50)));
        assert_eq!(dilated.after(true, 0), Rest::Nap(Duration::from_nanos(471_666)));
        assert_eq!(ten_gigabit.after(true, 0), Rest::None);
        assert_eq!(ten_gigabit.after(false, 885), Rest::None);
        assert_eq!(ten_gigabit.after(false, 1_000_000), Rest::Sleep(US(925)));
        for naps in [gigabit, dilated, ten_gigabit] {
            assert_eq!(naps.after(false, u64::MAX), Rest::Sleep(US(10_000)));
        }
        assert_eq!(
            Naps::new(IdleMode::Spin, 283_000).after(false, u64::MAX),
            Rest::None
        );
    }
}
