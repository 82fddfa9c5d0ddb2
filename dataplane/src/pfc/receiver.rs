//! The receiver of PFC and 802.3x pauses. It stores which priorities the peer has paused, and when each
//! pause ends.

use std::collections::VecDeque;

use crate::bits::iter_set_bits;
use crate::ids::PRIORITIES;
use xoff_units::{LinkTiming, Picos};

/// Largest number of pause frames that wait for the response time. If more frames arrive, the oldest frame
/// takes effect before its response time has passed.
const PENDING_PAUSES_MAX: usize = 256;

/// Returns the longest permitted response time to a pause for a link speed in Mb/s (IEEE 802.3 31B.3.7). The
/// result is in pause quanta of 512 bit times.
pub const fn response_quanta_max(speed_mbps: u32) -> u16 {
    match speed_mbps {
        0..=9_999 => 2,
        10_000..=24_999 => 67,
        25_000..=39_999 => 80,
        40_000..=49_999 => 118,
        50_000..=99_999 => 147,
        100_000..=199_999 => 394,
        200_000..=399_999 => 453,
        _ => 905,
    }
}

/// A received pause frame that has not taken effect yet.
#[derive(Clone, Copy, Debug)]
struct PendingPause {
    effective_at: Picos,
    quanta: [u16; PRIORITIES],
    /// Link speed that defines the length of a pause quantum.
    speed_mbps: u32,
    /// Bit *n* is set if the frame pauses or resumes priority *n*.
    enable: u8,
    until_resumed: bool,
}

/// Pause timers of one port (IEEE 802.1Q clause 36, IEEE 802.3 Annex 31B). Switch ports and hosts use this
/// type, for PFC and for 802.3x PAUSE.
///
/// A new pause time replaces the running timer of a priority. The pause time zero resumes the priority at
/// once. When the timer expires, the priority resumes. With [`PauseReceiver::set_until_resumed`], pauses do
/// not expire. A priority whose enable bit is clear is not changed. If a frame is already in transmission,
/// the transmitter completes the frame.
///
/// With a response time ([`PauseReceiver::set_response_time`]), a pause frame takes effect when this time
/// has passed since its arrival. A resume is delayed by the same time, so the length of the pause does
/// not change.
#[derive(Clone, Debug, Default)]
pub struct PauseReceiver {
    paused_until: [Picos; PRIORITIES],
    paused: u8,
    paused_since: [Picos; PRIORITIES],
    /// End of the latest completed pause of each priority.
    ended_at: [Picos; PRIORITIES],
    /// Arrival of the latest XOFF of each priority.
    last_xoff: [Picos; PRIORITIES],
    paused_ps: [u64; PRIORITIES],
    on_to_off: [u64; PRIORITIES],
    until_resumed: bool,
    /// A receiver with a response time reserves the memory of `pending` ([`PauseReceiver::reserve_memory`]).
    reserves_memory: bool,
    response: Picos,
    /// Pause frames that have not taken effect yet. The frame that takes effect first comes first. Empty
    /// without a response time.
    pending: VecDeque<PendingPause>,
}

/// Pause statistics of one priority (SONiC `pfc_stat_history`). The statistics are always collected. The
/// SONiC option controls only whether the statistics are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseHistory {
    /// Number of pauses that stopped the running priority.
    pub transitions: u64,
    /// Total time for which the priority was paused, in picoseconds, including the current pause.
    pub total_pause_ps: u64,
    /// Model time at which the latest pause began. `None` if the priority was never paused.
    pub recent_pause_at: Option<Picos>,
    /// Length of the latest pause in picoseconds. A current pause is counted up to now.
    pub recent_pause_ps: u64,
}

impl PauseReceiver {
    /// Creates a receiver without pauses and without a response time.
    pub fn new() -> PauseReceiver {
        PauseReceiver::default()
    }

    /// Selects how long later pauses last. If `until_resumed` is true, a pause lasts until a resume frame
    /// arrives, and the pause time in the pause frame is ignored. This is the pause model of ns-3 simulators
    /// ([`PauseModel::UntilResumed`](crate::config::PauseModel::UntilResumed)). The default is false.
    pub fn set_until_resumed(&mut self, until_resumed: bool) {
        self.until_resumed = until_resumed;
    }

    /// Sets the response time: the time from the arrival of a pause frame to its effect. The new value
    /// applies to frames that arrive later. Zero, the default, means no delay.
    pub fn set_response_time(&mut self, response: Picos) {
        self.response = response;
        self.reserve_pending();
    }

    /// Reserves the memory of all pause frames that can wait for their effect, so that later calls do not allocate.
    /// Without this call, the first pause frames allocate the memory.
    pub fn reserve_memory(&mut self) {
        self.reserves_memory = true;
        self.reserve_pending();
    }

    fn reserve_pending(&mut self) {
        if self.reserves_memory && self.response != Picos::ZERO {
            self.pending
                .reserve(PENDING_PAUSES_MAX.saturating_sub(self.pending.len()));
        }
    }

    /// Processes a pause frame that arrived at `now`. If bit *n* of `enable` is set, `quanta[n]` is the pause
    /// time of priority *n* in pause quanta of the link, and 0 means resume. Priorities outside the mask
    /// `honoured` are not changed.
    pub fn receive(
        &mut self,
        now: Picos,
        enable: u8,
        quanta: &[u16; PRIORITIES],
        honoured: u8,
        link: &LinkTiming,
    ) {
        self.expire(now);
        let mut pause = PendingPause {
            effective_at: now.saturating_add(self.response),
            quanta: *quanta,
            speed_mbps: link.speed_mbps,
            enable: enable & honoured,
            until_resumed: self.until_resumed,
        };
        for priority in iter_set_bits(pause.enable).filter(|&priority| quanta[priority] != 0) {
            self.last_xoff[priority] = now;
        }
        let Some(last) = self.pending.back().map(|last| last.effective_at) else {
            match self.response {
                Picos::ZERO => self.apply_pause(now, &pause),
                _ => self.pending.push_back(pause),
            }
            return;
        };
        // If the response time was shortened, a later pause must not take effect before an earlier pause.
        pause.effective_at = pause.effective_at.max(last);
        if self.pending.len() >= PENDING_PAUSES_MAX
            && let Some(first) = self.pending.pop_front()
        {
            self.apply_pause(now, &first);
        }
        self.pending.push_back(pause);
    }

    /// Applies a pause frame at `now`.
    fn apply_pause(&mut self, now: Picos, pause: &PendingPause) {
        let link = LinkTiming::ethernet(pause.speed_mbps);
        for priority in iter_set_bits(pause.enable) {
            match pause.quanta[priority] {
                0 => self.resume_priority(priority, now),
                _ if pause.until_resumed => self.pause_priority(priority, now, Picos::NEVER),
                q => self.pause_priority(
                    priority,
                    now,
                    pause.effective_at.saturating_add(link.pause_duration(q)),
                ),
            }
        }
    }

    /// Returns the bit mask of the priorities that were paused at the last call of `receive` or `expire`. Bit
    /// *n* belongs to priority *n*.
    pub fn paused_priorities(&self) -> u8 {
        self.paused
    }

    /// Applies the pauses whose response time has passed, and ends the pauses whose time is over.
    pub fn expire(&mut self, now: Picos) {
        while let Some(pause) = self
            .pending
            .front()
            .copied()
            .filter(|first| first.effective_at <= now)
        {
            self.pending.pop_front();
            self.end_pauses(pause.effective_at);
            self.apply_pause(pause.effective_at, &pause);
        }
        self.end_pauses(now);
    }

    /// Ends the pauses whose time is over.
    fn end_pauses(&mut self, now: Picos) {
        for priority in iter_set_bits(self.paused) {
            if self.paused_until[priority] <= now {
                self.resume_priority(priority, self.paused_until[priority]);
            }
        }
    }

    /// Returns the time at which the next pause takes effect or ends. Returns [`Picos::NEVER`] if no change
    /// is due.
    #[inline]
    pub fn next_change(&self) -> Picos {
        match self.pending.front() {
            None => self.next_end(),
            Some(first) => first.effective_at.min(self.next_end()),
        }
    }

    #[inline]
    fn next_end(&self) -> Picos {
        if self.paused == 0 {
            return Picos::NEVER;
        }
        iter_set_bits(self.paused)
            .map(|p| self.paused_until[p])
            .min()
            .unwrap_or(Picos::NEVER)
    }

    /// Resumes every priority outside the mask `honoured` and discards its pending pauses. Call this method
    /// when PFC is disabled or the link goes down.
    pub fn release_priorities(&mut self, now: Picos, honoured: u8) {
        self.pending.iter_mut().for_each(|pause| pause.enable &= honoured);
        for priority in iter_set_bits(self.paused & !honoured) {
            self.resume_priority(priority, now);
        }
    }

    /// Returns the total time for which each priority was paused until `now`, in picoseconds. The current
    /// pause is included.
    pub fn paused_ps(&self, now: Picos) -> [u64; PRIORITIES] {
        let mut total = self.paused_ps;
        for priority in iter_set_bits(self.paused) {
            total[priority] += now
                .min(self.paused_until[priority])
                .since(self.paused_since[priority])
                .0;
        }
        total
    }

    /// Returns for each priority the number of pauses that stopped the running priority.
    pub fn pause_start_counts(&self) -> &[u64; PRIORITIES] {
        &self.on_to_off
    }

    /// Returns the start of the latest pause of a priority (0 to 7). Returns zero if the priority was
    /// never paused.
    pub fn paused_since(&self, priority: usize) -> Picos {
        self.paused_since[priority]
    }

    /// Returns the arrival time of the latest XOFF of a priority (0 to 7). With
    /// [`UntilResumed`](crate::config::PauseModel::UntilResumed), a pause lasts until its resume and is not
    /// repeated. During such a pause, returns [`Picos::NEVER`]. Returns zero if no XOFF frame has arrived.
    pub fn last_xoff_at(&self, priority: usize) -> Picos {
        let lasts_until_resumed =
            self.paused & (1 << priority) != 0 && self.paused_until[priority] == Picos::NEVER;
        match lasts_until_resumed {
            true => Picos::NEVER,
            false => self.last_xoff[priority],
        }
    }

    /// Returns the pause statistics of each priority until `now`.
    pub fn pause_history(&self, now: Picos) -> [PauseHistory; PRIORITIES] {
        let total = self.paused_ps(now);
        core::array::from_fn(|n| {
            let end = match self.paused & (1 << n) != 0 {
                true => now.min(self.paused_until[n]),
                false => self.ended_at[n],
            };
            PauseHistory {
                transitions: self.on_to_off[n],
                total_pause_ps: total[n],
                recent_pause_at: (self.on_to_off[n] != 0).then_some(self.paused_since[n]),
                recent_pause_ps: end.since(self.paused_since[n]).0,
            }
        })
    }

    fn pause_priority(&mut self, priority: usize, now: Picos, until: Picos) {
        if self.paused & (1 << priority) == 0 {
            self.paused |= 1 << priority;
            self.paused_since[priority] = now;
            self.on_to_off[priority] += 1;
        }
        self.paused_until[priority] = until;
    }

    fn resume_priority(&mut self, priority: usize, at: Picos) {
        if self.paused & (1 << priority) != 0 {
            self.paused &= !(1 << priority);
            self.ended_at[priority] = at;
            if self.paused_until[priority] == Picos::NEVER {
                self.last_xoff[priority] = at;
            }
            self.paused_ps[priority] += at.since(self.paused_since[priority]).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: LinkTiming = LinkTiming::ethernet(1_000);

    fn quanta(priority: usize, value: u16) -> [u16; PRIORITIES] {
        let mut all = [0; PRIORITIES];
        all[priority] = value;
        all
    }

    #[test]
    fn pause_lasts_its_quanta_and_a_new_value_replaces_the_timer() {
        let mut rx = PauseReceiver::new();
        rx.receive(Picos::ZERO, 1 << 3, &quanta(3, 100), 0xff, &GIGABIT);
        assert_eq!(rx.next_change(), Picos::from_nanos(51_200));
        rx.receive(Picos::from_nanos(25_600), 1 << 3, &quanta(3, 100), 0xff, &GIGABIT);
        assert_eq!(rx.next_change(), Picos::from_nanos(76_800));
        rx.expire(Picos::from_nanos(76_800));
        assert_eq!(rx.paused_priorities(), 0);
        assert_eq!(
            rx.paused_ps(Picos::from_millis(1))[3],
            Picos::from_nanos(76_800).0
        );
        assert_eq!(rx.pause_start_counts()[3], 1);
    }

    #[test]
    fn a_pause_until_resumed_ignores_its_quanta() {
        let mut rx = PauseReceiver::new();
        rx.set_until_resumed(true);
        rx.receive(Picos::ZERO, 1 << 3, &quanta(3, 1), 0xff, &GIGABIT);
        assert_eq!(rx.next_change(), Picos::NEVER);
        rx.expire(Picos::from_millis(1_000));
        assert_eq!(rx.paused_priorities(), 1 << 3);
        rx.receive(Picos::from_millis(1_000), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(rx.paused_priorities(), 0);
        assert_eq!(
            rx.paused_ps(Picos::from_millis(2_000))[3],
            Picos::from_millis(1_000).0
        );
    }

    #[test]
    fn history_has_start_and_length_of_the_latest_pause() {
        let mut rx = PauseReceiver::new();
        assert_eq!(
            rx.pause_history(Picos::from_millis(1))[3],
            PauseHistory::default()
        );
        let at = Picos::from_nanos;
        rx.receive(at(1_000), 1 << 3, &quanta(3, 100), 0xff, &GIGABIT); // until 52.2 us
        rx.receive(at(100_000), 1 << 3, &quanta(3, 100), 0xff, &GIGABIT);
        let so_far = rx.pause_history(at(110_000))[3];
        assert_eq!((so_far.transitions, so_far.recent_pause_ps), (2, at(10_000).0));
        rx.receive(at(120_000), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        let after = PauseHistory {
            transitions: 2,
            total_pause_ps: at(51_200 + 20_000).0,
            recent_pause_at: Some(at(100_000)),
            recent_pause_ps: at(20_000).0,
        };
        assert_eq!(rx.pause_history(at(900_000))[3], after);
    }

    #[test]
    fn a_pause_takes_effect_after_the_response_time_and_keeps_its_length() {
        let at = Picos::from_nanos;
        let mut rx = PauseReceiver::new();
        rx.set_response_time(GIGABIT.pause_duration(2)); // 1024 ns
        rx.receive(Picos::ZERO, 1 << 3, &quanta(3, 100), 0xff, &GIGABIT);
        assert_eq!((rx.paused_priorities(), rx.next_change()), (0, at(1_024)));
        rx.expire(at(1_024));
        assert_eq!(
            (rx.paused_priorities(), rx.next_change()),
            (1 << 3, at(1_024 + 51_200))
        );
        // The resume is delayed as well.
        rx.receive(at(10_000), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!((rx.paused_priorities(), rx.next_change()), (1 << 3, at(11_024)));
        // A late call gives the same times as a punctual call.
        rx.expire(at(20_000));
        assert_eq!((rx.paused_priorities(), rx.next_change()), (0, Picos::NEVER));
        assert_eq!(rx.paused_ps(at(20_000))[3], at(10_000).0);
        assert_eq!(rx.last_xoff_at(3), Picos::ZERO, "silence begins with the arrival");
    }

    #[test]
    fn pending_pauses_are_bounded_ordered_and_discarded_with_the_link() {
        let at = Picos::from_nanos;
        let mut rx = PauseReceiver::new();
        rx.set_response_time(at(1_000_000));
        for n in 0..300 {
            rx.receive(at(n), 1 << 3, &quanta(3, 1000), 0xff, &GIGABIT);
        }
        assert_eq!(rx.pending.len(), PENDING_PAUSES_MAX);
        assert_eq!(rx.paused_priorities(), 1 << 3, "the first ones took effect early");
        rx.set_response_time(Picos::ZERO);
        rx.receive(at(400), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(
            rx.paused_priorities(),
            1 << 3,
            "no pause overtakes an earlier one"
        );
        rx.release_priorities(at(500), 0);
        assert_eq!(rx.paused_priorities(), 0);
        rx.expire(at(2_000_000));
        assert_eq!((rx.paused_priorities(), rx.next_change()), (0, Picos::NEVER));
    }

    #[test]
    fn last_xoff_ignores_xon_and_never_expires_until_resumed() {
        let mut rx = PauseReceiver::new();
        rx.receive(Picos(5), 1 << 3, &quanta(3, 9), 0xff, &GIGABIT);
        rx.receive(Picos(7), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(rx.last_xoff_at(3), Picos(5));
        rx.set_until_resumed(true);
        rx.receive(Picos(8), 1 << 3, &quanta(3, 9), 0xff, &GIGABIT);
        assert_eq!(rx.last_xoff_at(3), Picos::NEVER);
        rx.receive(Picos(20), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(rx.last_xoff_at(3), Picos(20));
    }

    #[test]
    fn zero_resumes_and_other_priorities_are_ignored() {
        let mut rx = PauseReceiver::new();
        rx.receive(Picos::ZERO, 0, &[0xffff; PRIORITIES], 0xff, &GIGABIT);
        rx.receive(Picos::ZERO, 0xff, &[0xffff; PRIORITIES], 1 << 4, &GIGABIT);
        assert_eq!(rx.paused_priorities(), 1 << 4);
        rx.receive(Picos::from_nanos(10), 1 << 4, &[0; PRIORITIES], 1 << 4, &GIGABIT);
        assert_eq!(rx.paused_priorities(), 0);
        assert_eq!(rx.next_change(), Picos::NEVER);
    }
}
