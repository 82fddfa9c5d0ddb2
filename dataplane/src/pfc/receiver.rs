//! The receiving side of PFC and 802.3x: which priorities the peer has stopped, and until when.

use std::collections::VecDeque;

use crate::ids::PRIORITIES;
use xoff_units::{LinkTiming, Picos};

/// Pause frames that wait for the response time at most. A peer that sends more within it makes the port respond early.
const PENDING_PAUSES_MAX: usize = 256;

/// The longest time that a station may take to respond to a pause at a speed in Mb/s (IEEE 802.3 31B.3.7), in pause quanta.
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

/// A pause frame that has arrived and is not in effect yet.
#[derive(Clone, Copy, Debug)]
struct PendingPause {
    effective: Picos,
    quanta: [u16; PRIORITIES],
    /// The speed that its quanta are of.
    speed_mbps: u32,
    /// Bit *n*: priority *n* is concerned.
    enable: u8,
    until_resumed: bool,
}

/// Keeps the pause timers of one port. Used by switch ports and by hosts alike.
///
/// IEEE 802.1Qbb: a new value replaces the running timer, zero resumes at once, expiry resumes, a value
/// whose enable bit is clear is ignored. A frame in transmission completes; that is the transmitter's part.
///
/// With a response time ([`PauseReceiver::set_response`]) a pause frame takes effect that long after its arrival. A resume is
/// delayed as well, so a pause keeps its length.
#[derive(Clone, Debug, Default)]
pub struct PauseReceiver {
    until: [Picos; PRIORITIES],
    paused: u8,
    since: [Picos; PRIORITIES],
    /// When the latest pause that is over ended.
    ended: [Picos; PRIORITIES],
    /// When a pause was last asked for.
    last_xoff: [Picos; PRIORITIES],
    paused_ps: [u64; PRIORITIES],
    on_to_off: [u64; PRIORITIES],
    until_resumed: bool,
    response: Picos,
    /// In the order of their effect; empty without a response time.
    pending: VecDeque<PendingPause>,
}

/// The pauses of one priority (`pfc_stat_history`). Always kept; the option decides whether they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseHistory {
    /// Times the priority was stopped while it ran.
    pub transitions: u64,
    /// Time it was stopped, the pause in progress included, in picoseconds.
    pub total_pause_ps: u64,
    /// When the latest pause began, in model time; `None`: there was none.
    pub recent_pause_at: Option<Picos>,
    /// How long the latest pause lasted, or has lasted so far, in picoseconds.
    pub recent_pause_ps: u64,
}

impl PauseReceiver {
    /// Nothing paused.
    pub fn new() -> PauseReceiver {
        PauseReceiver::default()
    }

    /// Whether a pause lasts until it is resumed, whatever its quanta: simulators have it so. From the next pause on.
    pub fn set_until_resumed(&mut self, until_resumed: bool) {
        self.until_resumed = until_resumed;
    }

    /// Sets the time from the arrival of a pause frame to its effect, for the frames that arrive from now on. Zero: at once.
    pub fn set_response(&mut self, response: Picos) {
        self.response = response;
        if response != Picos::ZERO {
            self.pending.reserve(PENDING_PAUSES_MAX);
        }
    }

    /// Takes a PFC frame: bit *n* of `enable` makes `quanta[n]` valid. Priorities outside `honoured` are left alone.
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
            effective: now.saturating_add(self.response),
            quanta: *quanta,
            speed_mbps: link.speed_mbps,
            enable: enable & honoured,
            until_resumed: self.until_resumed,
        };
        for priority in bits(pause.enable).filter(|&priority| quanta[priority] != 0) {
            self.last_xoff[priority] = now;
        }
        let Some(last) = self.pending.back().map(|last| last.effective) else {
            match self.response {
                Picos::ZERO => self.apply(now, &pause),
                _ => self.pending.push_back(pause),
            }
            return;
        };
        // A response time that became shorter lets no pause overtake an earlier one.
        pause.effective = pause.effective.max(last);
        if self.pending.len() >= PENDING_PAUSES_MAX
            && let Some(first) = self.pending.pop_front()
        {
            self.apply(now, &first);
        }
        self.pending.push_back(pause);
    }

    /// Does what a pause frame says, at `now`.
    fn apply(&mut self, now: Picos, pause: &PendingPause) {
        let link = LinkTiming::ethernet(pause.speed_mbps);
        for priority in bits(pause.enable) {
            match pause.quanta[priority] {
                0 => self.resume(priority, now),
                _ if pause.until_resumed => self.pause(priority, now, Picos::NEVER),
                q => self.pause(priority, now, pause.effective.saturating_add(link.pause(q))),
            }
        }
    }

    /// Bit *n*: priority *n* is stopped, as of the last `receive` or `expire`.
    pub fn paused(&self) -> u8 {
        self.paused
    }

    /// Does what is due by `now`: pauses whose response time is over take effect, pauses that have lasted their quanta end.
    pub fn expire(&mut self, now: Picos) {
        while let Some(pause) = self
            .pending
            .front()
            .copied()
            .filter(|first| first.effective <= now)
        {
            self.pending.pop_front();
            self.end_pauses(pause.effective);
            self.apply(pause.effective, &pause);
        }
        self.end_pauses(now);
    }

    /// Ends the pauses whose time has come.
    fn end_pauses(&mut self, now: Picos) {
        for priority in bits(self.paused) {
            if self.until[priority] <= now {
                self.resume(priority, self.until[priority]);
            }
        }
    }

    /// When a pause takes effect or ends by itself next; [`Picos::NEVER`] if neither will happen.
    #[inline]
    pub fn next_change(&self) -> Picos {
        match self.pending.front() {
            None => self.next_end(),
            Some(first) => first.effective.min(self.next_end()),
        }
    }

    #[inline]
    fn next_end(&self) -> Picos {
        if self.paused == 0 {
            return Picos::NEVER;
        }
        bits(self.paused)
            .map(|p| self.until[p])
            .min()
            .unwrap_or(Picos::NEVER)
    }

    /// Resumes every priority outside `honoured`, and forgets its pauses that are not in effect yet: PFC was switched off for it, or
    /// the link went down.
    pub fn release(&mut self, now: Picos, honoured: u8) {
        self.pending.iter_mut().for_each(|pause| pause.enable &= honoured);
        for priority in bits(self.paused & !honoured) {
            self.resume(priority, now);
        }
    }

    /// Time each priority was paused until `now`, the pause in progress included, in picoseconds.
    pub fn paused_ps(&self, now: Picos) -> [u64; PRIORITIES] {
        let mut total = self.paused_ps;
        for priority in bits(self.paused) {
            total[priority] += now.min(self.until[priority]).since(self.since[priority]).0;
        }
        total
    }

    /// Times a running priority was stopped.
    pub fn on_to_off(&self) -> &[u64; PRIORITIES] {
        &self.on_to_off
    }

    /// When the latest pause of a priority began; zero if there was none.
    pub fn since(&self, priority: usize) -> Picos {
        self.since[priority]
    }

    /// Since when no XOFF has come for a priority: the arrival of the latest one. [`Picos::NEVER`] while a pause stands that
    /// lasts until it is resumed: its one XOFF speaks for all that are not repeated.
    pub fn quiet_since(&self, priority: usize) -> Picos {
        let stands = self.paused & (1 << priority) != 0 && self.until[priority] == Picos::NEVER;
        match stands {
            true => Picos::NEVER,
            false => self.last_xoff[priority],
        }
    }

    /// Each priority's pauses until `now`.
    pub fn history(&self, now: Picos) -> [PauseHistory; PRIORITIES] {
        let total = self.paused_ps(now);
        core::array::from_fn(|n| {
            let end = match self.paused & (1 << n) != 0 {
                true => now.min(self.until[n]),
                false => self.ended[n],
            };
            PauseHistory {
                transitions: self.on_to_off[n],
                total_pause_ps: total[n],
                recent_pause_at: (self.on_to_off[n] != 0).then_some(self.since[n]),
                recent_pause_ps: end.since(self.since[n]).0,
            }
        })
    }

    fn pause(&mut self, priority: usize, now: Picos, until: Picos) {
        if self.paused & (1 << priority) == 0 {
            self.paused |= 1 << priority;
            self.since[priority] = now;
            self.on_to_off[priority] += 1;
        }
        self.until[priority] = until;
    }

    fn resume(&mut self, priority: usize, at: Picos) {
        if self.paused & (1 << priority) != 0 {
            self.paused &= !(1 << priority);
            self.ended[priority] = at;
            if self.until[priority] == Picos::NEVER {
                self.last_xoff[priority] = at;
            }
            self.paused_ps[priority] += at.since(self.since[priority]).0;
        }
    }
}

/// The numbers of the set bits, lowest first.
pub fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lowest < PRIORITIES).then_some(lowest)
    })
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
        assert_eq!(rx.paused(), 0);
        assert_eq!(
            rx.paused_ps(Picos::from_millis(1))[3],
            Picos::from_nanos(76_800).0
        );
        assert_eq!(rx.on_to_off()[3], 1);
    }

    #[test]
    fn a_pause_until_resumed_ignores_its_quanta() {
        let mut rx = PauseReceiver::new();
        rx.set_until_resumed(true);
        rx.receive(Picos::ZERO, 1 << 3, &quanta(3, 1), 0xff, &GIGABIT);
        assert_eq!(rx.next_change(), Picos::NEVER);
        rx.expire(Picos::from_millis(1_000));
        assert_eq!(rx.paused(), 1 << 3);
        rx.receive(Picos::from_millis(1_000), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(rx.paused(), 0);
        assert_eq!(
            rx.paused_ps(Picos::from_millis(2_000))[3],
            Picos::from_millis(1_000).0
        );
    }

    #[test]
    fn the_latest_pause_is_remembered_with_its_start_and_length() {
        let mut rx = PauseReceiver::new();
        assert_eq!(rx.history(Picos::from_millis(1))[3], PauseHistory::default());
        let at = Picos::from_nanos;
        rx.receive(at(1_000), 1 << 3, &quanta(3, 100), 0xff, &GIGABIT); // until 52.2 us
        rx.receive(at(100_000), 1 << 3, &quanta(3, 100), 0xff, &GIGABIT);
        let so_far = rx.history(at(110_000))[3];
        assert_eq!((so_far.transitions, so_far.recent_pause_ps), (2, at(10_000).0));
        rx.receive(at(120_000), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        let after = PauseHistory {
            transitions: 2,
            total_pause_ps: at(51_200 + 20_000).0,
            recent_pause_at: Some(at(100_000)),
            recent_pause_ps: at(20_000).0,
        };
        assert_eq!(rx.history(at(900_000))[3], after);
    }

    #[test]
    fn a_pause_takes_effect_after_the_response_time_and_keeps_its_length() {
        let at = Picos::from_nanos;
        let mut rx = PauseReceiver::new();
        rx.set_response(GIGABIT.pause(2)); // 1024 ns
        rx.receive(Picos::ZERO, 1 << 3, &quanta(3, 100), 0xff, &GIGABIT);
        assert_eq!((rx.paused(), rx.next_change()), (0, at(1_024)));
        rx.expire(at(1_024));
        assert_eq!((rx.paused(), rx.next_change()), (1 << 3, at(1_024 + 51_200)));
        // The resume is delayed as well.
        rx.receive(at(10_000), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!((rx.paused(), rx.next_change()), (1 << 3, at(11_024)));
        // A call that comes late finds the times of a punctual one.
        rx.expire(at(20_000));
        assert_eq!((rx.paused(), rx.next_change()), (0, Picos::NEVER));
        assert_eq!(rx.paused_ps(at(20_000))[3], at(10_000).0);
        assert_eq!(rx.quiet_since(3), Picos::ZERO, "silence begins with the arrival");
    }

    #[test]
    fn pauses_in_the_response_time_are_bounded_ordered_and_forgotten_with_the_link() {
        let at = Picos::from_nanos;
        let mut rx = PauseReceiver::new();
        rx.set_response(at(1_000_000));
        for n in 0..300 {
            rx.receive(at(n), 1 << 3, &quanta(3, 1000), 0xff, &GIGABIT);
        }
        assert_eq!(rx.pending.len(), PENDING_PAUSES_MAX);
        assert_eq!(rx.paused(), 1 << 3, "the first ones took effect early");
        rx.set_response(Picos::ZERO);
        rx.receive(at(400), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(rx.paused(), 1 << 3, "no pause overtakes an earlier one");
        rx.release(at(500), 0);
        assert_eq!(rx.paused(), 0);
        rx.expire(at(2_000_000));
        assert_eq!((rx.paused(), rx.next_change()), (0, Picos::NEVER));
    }

    #[test]
    fn xon_is_no_xoff_and_a_pause_that_stands_is_never_quiet() {
        let mut rx = PauseReceiver::new();
        rx.receive(Picos(5), 1 << 3, &quanta(3, 9), 0xff, &GIGABIT);
        rx.receive(Picos(7), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(rx.quiet_since(3), Picos(5));
        rx.set_until_resumed(true);
        rx.receive(Picos(8), 1 << 3, &quanta(3, 9), 0xff, &GIGABIT);
        assert_eq!(rx.quiet_since(3), Picos::NEVER);
        rx.receive(Picos(20), 1 << 3, &quanta(3, 0), 0xff, &GIGABIT);
        assert_eq!(rx.quiet_since(3), Picos(20));
    }

    #[test]
    fn zero_resumes_clear_bits_and_foreign_priorities_do_nothing() {
        let mut rx = PauseReceiver::new();
        rx.receive(Picos::ZERO, 0, &[0xffff; PRIORITIES], 0xff, &GIGABIT);
        rx.receive(Picos::ZERO, 0xff, &[0xffff; PRIORITIES], 1 << 4, &GIGABIT);
        assert_eq!(rx.paused(), 1 << 4);
        rx.receive(Picos::from_nanos(10), 1 << 4, &[0; PRIORITIES], 1 << 4, &GIGABIT);
        assert_eq!(rx.paused(), 0);
        assert_eq!(rx.next_change(), Picos::NEVER);
    }
}
