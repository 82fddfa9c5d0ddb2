//! The receiving side of PFC: which priorities the peer has stopped, and until when.

use crate::ids::PRIORITIES;
use crate::time::{LinkTiming, Picos};

/// Keeps the pause timers of one port. Used by switch ports and by hosts alike.
///
/// IEEE 802.1Qbb: a new value replaces the running timer, zero resumes at once, expiry resumes, a value
/// whose enable bit is clear is ignored. A frame in transmission completes; that is the transmitter's part.
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
        for priority in bits(enable & honoured) {
            if quanta[priority] != 0 {
                self.last_xoff[priority] = now;
            }
            match quanta[priority] {
                0 => self.resume(priority, now),
                _ if self.until_resumed => self.pause(priority, now, Picos::NEVER),
                q => self.pause(priority, now, now.saturating_add(link.pause(q))),
            }
        }
    }

    /// Bit *n*: priority *n* is stopped, as of the last `receive` or `expire`.
    pub fn paused(&self) -> u8 {
        self.paused
    }

    /// Ends the pauses whose time has come.
    pub fn expire(&mut self, now: Picos) {
        for priority in bits(self.paused) {
            if self.until[priority] <= now {
                self.resume(priority, self.until[priority]);
            }
        }
    }

    /// When the next pause ends by itself, [`Picos::NEVER`] if none is on.
    #[inline]
    pub fn next_expiry(&self) -> Picos {
        if self.paused == 0 {
            return Picos::NEVER;
        }
        bits(self.paused)
            .map(|p| self.until[p])
            .min()
            .unwrap_or(Picos::NEVER)
    }

    /// Resumes every priority outside `honoured`: PFC was switched off for it, or the link went down.
    pub fn release(&mut self, now: Picos, honoured: u8) {
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
        assert_eq!(rx.next_expiry(), Picos::from_nanos(51_200));
        rx.receive(Picos::from_nanos(25_600), 1 << 3, &quanta(3, 100), 0xff, &GIGABIT);
        assert_eq!(rx.next_expiry(), Picos::from_nanos(76_800));
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
        assert_eq!(rx.next_expiry(), Picos::NEVER);
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
        assert_eq!(rx.next_expiry(), Picos::NEVER);
    }
}
