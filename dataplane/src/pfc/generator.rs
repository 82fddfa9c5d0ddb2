//! The sending side of PFC: when a port asks its peer to stop, again, and to go on.

use super::bits;
use crate::ids::PRIORITIES;
use crate::time::Picos;

/// Decides which PFC frames one port owes its peer. Frames are composed when the link is free, from the state
/// at that moment, so that a change that is overtaken by the next one costs no frame.
#[derive(Clone, Debug)]
pub(crate) struct PauseGenerator {
    /// Priorities whose group is congested.
    xoff: u8,
    /// Priorities for which an XOFF is owed: newly congested, or due for a refresh.
    owed_xoff: u8,
    /// Priorities for which an XON is owed.
    owed_xon: u8,
    /// Priorities whose last word to the peer was XOFF.
    told: u8,
    refresh: Picos,
    refresh_at: Picos,
    quanta: u16,
    since: [Picos; PRIORITIES],
    asked_ps: [u64; PRIORITIES],
}

/// Which classes a PFC frame names, with their timers.
pub(crate) type PauseFrame = (u8, [u16; PRIORITIES]);

impl PauseGenerator {
    pub(crate) fn new(quanta: u16, refresh: Picos) -> PauseGenerator {
        PauseGenerator {
            xoff: 0,
            owed_xoff: 0,
            owed_xon: 0,
            told: 0,
            refresh,
            refresh_at: Picos::NEVER,
            quanta,
            since: [Picos::ZERO; PRIORITIES],
            asked_ps: [0; PRIORITIES],
        }
    }

    pub(crate) fn reconfigure(&mut self, quanta: u16, refresh: Picos) {
        self.quanta = quanta;
        self.refresh = refresh;
    }

    /// Priorities asked to stop now.
    pub(crate) fn xoff_mask(&self) -> u8 {
        self.xoff
    }

    /// The groups behind these priorities have become congested.
    pub(crate) fn xoff(&mut self, now: Picos, priorities: u8) {
        for n in bits(priorities & !self.xoff) {
            self.since[n] = now;
        }
        self.owed_xoff |= priorities & !self.xoff;
        self.owed_xon &= !priorities;
        self.xoff |= priorities;
    }

    /// The groups behind these priorities have room again.
    pub(crate) fn xon(&mut self, now: Picos, priorities: u8) {
        for n in bits(priorities & self.xoff) {
            self.asked_ps[n] += now.since(self.since[n]).0;
        }
        self.xoff &= !priorities;
        self.owed_xoff &= !priorities;
        self.owed_xon |= priorities & self.told;
        if self.xoff == 0 {
            self.refresh_at = Picos::NEVER;
        }
    }

    /// The peer is gone: nothing is owed. What is congested will be said again by [`PauseGenerator::announce`].
    pub(crate) fn forget_peer(&mut self) {
        (self.owed_xoff, self.owed_xon, self.told) = (0, 0, 0);
        self.refresh_at = Picos::NEVER;
    }

    /// A peer has appeared: it is told what is congested.
    pub(crate) fn announce(&mut self) {
        self.owed_xoff = self.xoff;
    }

    /// The refresh deadline has come.
    pub(crate) fn refresh_due(&mut self, now: Picos) {
        if self.refresh_at <= now {
            self.owed_xoff |= self.xoff;
            self.refresh_at = Picos::NEVER;
        }
    }

    /// When the next XOFF must be repeated.
    pub(crate) fn refresh_at(&self) -> Picos {
        self.refresh_at
    }

    pub(crate) fn owes(&self) -> bool {
        self.owed_xoff | self.owed_xon != 0
    }

    /// The frame to send now. An XOFF names every congested class, and so refreshes them all; an XON names only
    /// the classes that resume.
    pub(crate) fn take(&mut self, now: Picos) -> Option<PauseFrame> {
        let mut quanta = [0; PRIORITIES];
        if self.owed_xoff != 0 {
            bits(self.xoff).for_each(|n| quanta[n] = self.quanta);
            self.owed_xoff = 0;
            self.told |= self.xoff;
            self.refresh_at = now.saturating_add(self.refresh);
            return Some((self.xoff, quanta));
        }
        let resumed = core::mem::take(&mut self.owed_xon);
        self.told &= !resumed;
        (resumed != 0).then_some((resumed, quanta))
    }

    /// Time each priority was asked to pause until `now`, in picoseconds.
    pub(crate) fn asked_ps(&self, now: Picos) -> [u64; PRIORITIES] {
        let mut total = self.asked_ps;
        bits(self.xoff).for_each(|n| total[n] += now.since(self.since[n]).0);
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator() -> PauseGenerator {
        PauseGenerator::new(0xffff, Picos::from_millis(10))
    }

    #[test]
    fn xoff_is_repeated_until_xon_and_xon_is_said_once() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        let (enable, quanta) = pfc.take(Picos::ZERO).unwrap();
        assert_eq!((enable, quanta[3]), (1 << 3, 0xffff));
        assert_eq!(pfc.take(Picos::ZERO), None);
        assert_eq!(pfc.refresh_at(), Picos::from_millis(10));
        pfc.refresh_due(Picos::from_millis(10));
        assert!(pfc.take(Picos::from_millis(10)).is_some());
        pfc.xon(Picos::from_millis(11), 1 << 3);
        assert_eq!(pfc.take(Picos::from_millis(11)), Some((1 << 3, [0; PRIORITIES])));
        assert_eq!(pfc.refresh_at(), Picos::NEVER);
        assert_eq!(pfc.asked_ps(Picos::from_millis(20))[3], Picos::from_millis(11).0);
    }

    #[test]
    fn a_pause_that_ends_before_it_was_sent_costs_no_frame() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        pfc.xon(Picos::from_nanos(5), 1 << 3);
        assert!(!pfc.owes());
    }

    #[test]
    fn an_xon_overtaken_by_xoff_is_not_sent() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        pfc.take(Picos::ZERO);
        pfc.xon(Picos::from_nanos(1), 1 << 3);
        pfc.xoff(Picos::from_nanos(2), 1 << 3);
        assert_eq!(pfc.take(Picos::from_nanos(2)).unwrap().0, 1 << 3);
        assert!(!pfc.owes());
    }

    #[test]
    fn a_second_class_refreshes_the_first() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        pfc.take(Picos::ZERO);
        pfc.xoff(Picos::from_millis(1), 1 << 4);
        assert_eq!(pfc.take(Picos::from_millis(1)).unwrap().0, 0b1_1000);
        assert_eq!(pfc.refresh_at(), Picos::from_millis(11));
    }
}
