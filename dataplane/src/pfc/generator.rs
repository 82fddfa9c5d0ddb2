//! The sending side of PFC: when a port asks its peer to stop, again, and to go on.

use std::collections::VecDeque;

use super::bits;
use crate::config::{PauseModel, PfcConfig};
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
    /// Each change is a frame of its own; `owed_xoff` then only says that some are owed.
    in_order: bool,
    /// Those changes: priority, and whether it is to stop. Alternating per priority, so few while the link is ever free.
    changes: VecDeque<(u8, bool)>,
    refresh: Picos,
    refresh_at: Picos,
    quanta: u16,
    since: [Picos; PRIORITIES],
    asked_ps: [u64; PRIORITIES],
}

/// Which classes a PFC frame names, with their timers.
pub(crate) type PauseFrame = (u8, [u16; PRIORITIES]);

impl PauseGenerator {
    pub(crate) fn new(config: &PfcConfig) -> PauseGenerator {
        let mut generator = PauseGenerator {
            xoff: 0,
            owed_xoff: 0,
            owed_xon: 0,
            told: 0,
            in_order: false,
            changes: VecDeque::new(),
            refresh: config.refresh,
            refresh_at: Picos::NEVER,
            quanta: config.pause_quanta,
            since: [Picos::ZERO; PRIORITIES],
            asked_ps: [0; PRIORITIES],
        };
        generator.reconfigure(config);
        generator
    }

    pub(crate) fn reconfigure(&mut self, config: &PfcConfig) {
        self.quanta = config.pause_quanta;
        self.refresh = config.refresh;
        let in_order = config.pauses != PauseModel::Timed;
        if in_order != self.in_order {
            // What was owed is said in the new way.
            self.in_order = in_order;
            self.changes.clear();
            let (off, on) = (self.xoff & !self.told, self.told & !self.xoff);
            (self.owed_xoff, self.owed_xon) = (0, 0);
            self.owe(on, false);
            self.owe(off, true);
            self.refresh_at = Picos::NEVER;
            if !in_order && self.xoff != 0 {
                self.owed_xoff |= self.xoff;
            }
        }
    }

    /// These priorities are to be told to stop, or to go on.
    fn owe(&mut self, priorities: u8, stop: bool) {
        if self.in_order {
            self.changes
                .extend(bits(priorities).map(|priority| (priority as u8, stop)));
            self.owed_xoff |= priorities;
        } else if stop {
            self.owed_xoff |= priorities;
            self.owed_xon &= !priorities;
        } else {
            self.owed_xoff &= !priorities;
            self.owed_xon |= priorities & self.told;
        }
    }

    /// Priorities asked to stop now.
    pub(crate) fn xoff_mask(&self) -> u8 {
        self.xoff
    }

    /// The groups behind these priorities have become congested.
    pub(crate) fn xoff(&mut self, now: Picos, priorities: u8) {
        let entering = priorities & !self.xoff;
        for n in bits(entering) {
            self.since[n] = now;
        }
        self.owe(entering, true);
        self.xoff |= priorities;
    }

    /// The groups behind these priorities have room again.
    pub(crate) fn xon(&mut self, now: Picos, priorities: u8) {
        let leaving = priorities & self.xoff;
        for n in bits(leaving) {
            self.asked_ps[n] += now.since(self.since[n]).0;
        }
        self.xoff &= !priorities;
        self.owe(leaving, false);
        if self.xoff == 0 {
            self.refresh_at = Picos::NEVER;
        }
    }

    /// The peer is gone: nothing is owed. What is congested will be said again by [`PauseGenerator::announce`].
    pub(crate) fn forget_peer(&mut self) {
        (self.owed_xoff, self.owed_xon, self.told) = (0, 0, 0);
        self.changes.clear();
        self.refresh_at = Picos::NEVER;
    }

    /// A peer has appeared: it is told what is congested.
    pub(crate) fn announce(&mut self) {
        self.owe(self.xoff, true);
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
        if self.in_order {
            return self.take_in_order();
        }
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

    /// The oldest change.
    fn take_in_order(&mut self) -> Option<PauseFrame> {
        let change = self.changes.pop_front();
        if self.changes.is_empty() {
            self.owed_xoff = 0;
        }
        let (priority, stop) = change?;
        let mut quanta = [0; PRIORITIES];
        let bit = 1 << priority;
        if stop {
            self.told |= bit;
            quanta[usize::from(priority)] = self.quanta;
        } else {
            self.told &= !bit;
        }
        Some((bit, quanta))
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
    use crate::config::GlobalPause;

    fn config(pauses: PauseModel) -> PfcConfig {
        let identity = std::array::from_fn(|n| n as u8);
        PfcConfig {
            enabled: 0xff,
            asymmetric: false,
            pause_quanta: 0xffff,
            refresh: Picos::from_millis(10),
            priority_to_queue: identity,
            priority_to_pg: identity,
            pauses,
            global: GlobalPause::default(),
        }
    }

    fn generator() -> PauseGenerator {
        PauseGenerator::new(&config(PauseModel::Timed))
    }

    #[test]
    fn in_order_each_change_is_a_frame_and_none_is_repeated() {
        let mut pfc = PauseGenerator::new(&config(PauseModel::UntilResumed { frame_bytes: 43 }));
        pfc.xoff(Picos::ZERO, 0b1_1000);
        pfc.xon(Picos::from_nanos(5), 1 << 3);
        pfc.xoff(Picos::from_nanos(6), 1 << 3);
        let mut frames = Vec::new();
        while pfc.owes() {
            let (enable, quanta) = pfc.take(Picos::from_nanos(7)).unwrap();
            frames.push((enable, quanta.iter().any(|q| *q > 0)));
        }
        let (three, four) = (1 << 3, 1 << 4);
        assert_eq!(
            frames,
            [(three, true), (four, true), (three, false), (three, true)]
        );
        assert_eq!(pfc.take(Picos::from_nanos(8)), None);
        assert_eq!(pfc.refresh_at(), Picos::NEVER);
        pfc.refresh_due(Picos::from_millis(1_000));
        assert!(!pfc.owes());
    }

    #[test]
    fn what_is_owed_survives_another_model_of_pauses() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        pfc.take(Picos::ZERO);
        pfc.xon(Picos::from_nanos(1), 1 << 3);
        pfc.xoff(Picos::from_nanos(2), 1 << 4);
        pfc.reconfigure(&config(PauseModel::UntilResumed { frame_bytes: 43 }));
        assert_eq!(pfc.take(Picos::from_nanos(3)), Some((1 << 3, [0; PRIORITIES])));
        assert_eq!(pfc.take(Picos::from_nanos(3)).unwrap().0, 1 << 4);
        assert!(!pfc.owes());
        pfc.reconfigure(&config(PauseModel::Timed));
        assert_eq!(
            pfc.take(Picos::from_nanos(4)).unwrap().0,
            1 << 4,
            "so that it does not expire"
        );
        assert_eq!(pfc.refresh_at(), Picos(Picos::from_millis(10).0 + 4_000));
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
