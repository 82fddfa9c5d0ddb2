//! The sender of pauses: decides when a port sends XOFF, repeats it, and sends XON. A pause is for a set of
//! priorities (PFC) or, if no priority has PFC, for the [`WHOLE_PORT`] (802.3x).

use std::collections::VecDeque;

use super::bits;
use crate::config::{PauseModel, PfcConfig};
use crate::ids::PRIORITIES;
use xoff_units::Picos;
use xoff_wire::mac_control::{MacControl, Pfc};

/// The bit for an 802.3x PAUSE of the whole port, next to the eight priorities.
pub(crate) const WHOLE_PORT: u16 = 1 << PRIORITIES;
/// Number of pausable subjects: eight priorities and the whole port.
const SUBJECTS: usize = PRIORITIES + 1;

/// Decides which pause frames a port sends to its peer. A frame is built when the link is free, from the
/// state at that moment. A change that is reversed before that time causes no frame.
#[derive(Clone, Debug)]
#[repr(C)] // what each departure reads comes first
pub(crate) struct PauseGenerator {
    /// Priorities in XOFF, and [`WHOLE_PORT`] if the port uses PAUSE.
    xoff: u16,
    /// Priorities for which an XOFF frame must be sent: new XOFF states, or a refresh.
    owed_xoff: u16,
    /// Priorities for which an XON frame must be sent.
    owed_xon: u16,
    /// Priorities whose last frame to the peer was XOFF.
    told: u16,
    /// True if each change is a frame of its own. `pending_xoff` is then nonzero while `changes` has entries.
    in_order: bool,
    /// The changes to send: priority, and true for XOFF. XOFF and XON alternate for each priority, so the
    /// list stays short.
    changes: VecDeque<(u8, bool)>,
    refresh: Picos,
    refresh_at: Picos,
    quanta: u16,
    since: [Picos; SUBJECTS],
    asked_ps: [u64; SUBJECTS],
}

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
            since: [Picos::ZERO; SUBJECTS],
            asked_ps: [0; SUBJECTS],
        };
        generator.reconfigure(config);
        generator
    }

    pub(crate) fn reconfigure(&mut self, config: &PfcConfig) {
        self.quanta = config.pause_quanta;
        self.refresh = config.refresh;
        let in_order = config.pauses != PauseModel::Timed;
        if in_order != self.in_order {
            // Pending frames are converted to the new pause model.
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

    /// Schedules XOFF (`stop`) or XON frames for these priorities.
    fn owe(&mut self, priorities: u16, stop: bool) {
        if self.in_order {
            self.changes
                .extend(subjects(priorities).map(|priority| (priority as u8, stop)));
            self.owed_xoff |= priorities;
        } else if stop {
            self.owed_xoff |= priorities;
            self.owed_xon &= !priorities;
        } else {
            self.owed_xoff &= !priorities;
            self.owed_xon |= priorities & self.told;
        }
    }

    /// Priorities in XOFF.
    pub(crate) fn xoff_mask(&self) -> u16 {
        self.xoff
    }

    /// Puts these priorities into XOFF.
    pub(crate) fn xoff(&mut self, now: Picos, priorities: u16) {
        let entering = priorities & !self.xoff;
        for n in subjects(entering) {
            self.since[n] = now;
        }
        self.owe(entering, true);
        self.xoff |= priorities;
    }

    /// Puts these priorities into XON.
    pub(crate) fn xon(&mut self, now: Picos, priorities: u16) {
        let leaving = priorities & self.xoff;
        for n in subjects(leaving) {
            self.asked_ps[n] += now.since(self.since[n]).0;
        }
        self.xoff &= !priorities;
        self.owe(leaving, false);
        if self.xoff == 0 {
            self.refresh_at = Picos::NEVER;
        }
    }

    /// Discards pending frames after the link went down. [`PauseGenerator::announce`] sends the XOFF state
    /// again.
    pub(crate) fn forget_peer(&mut self) {
        (self.owed_xoff, self.owed_xon, self.told) = (0, 0, 0);
        self.changes.clear();
        self.refresh_at = Picos::NEVER;
    }

    /// Schedules XOFF frames for the current XOFF state after the link came up.
    pub(crate) fn announce(&mut self) {
        self.owe(self.xoff, true);
    }

    /// Schedules the refresh, if its time has come.
    pub(crate) fn refresh_due(&mut self, now: Picos) {
        if self.refresh_at <= now {
            self.owed_xoff |= self.xoff;
            self.refresh_at = Picos::NEVER;
        }
    }

    /// Time at which XOFF must be repeated.
    pub(crate) fn refresh_at(&self) -> Picos {
        self.refresh_at
    }

    pub(crate) fn owes(&self) -> bool {
        self.owed_xoff | self.owed_xon != 0
    }

    /// Returns the frame to send now. An XOFF frame carries all priorities in XOFF and refreshes all of them.
    /// An XON frame carries the priorities that resume. PFC precedes PAUSE. Both are pending only after a
    /// change of the configuration.
    pub(crate) fn take(&mut self, now: Picos) -> Option<MacControl> {
        if self.in_order {
            return self.take_in_order();
        }
        let owed = self.owed_xoff | self.owed_xon;
        let scope = match owed & !WHOLE_PORT {
            0 => WHOLE_PORT,
            _ => !WHOLE_PORT,
        };
        if self.owed_xoff & scope != 0 {
            let stopped = self.xoff & scope;
            self.owed_xoff &= !scope;
            self.told |= stopped;
            self.refresh_at = now.saturating_add(self.refresh);
            return Some(frame(stopped, self.quanta));
        }
        let resumed = self.owed_xon & scope;
        self.owed_xon &= !scope;
        self.told &= !resumed;
        (resumed != 0).then(|| frame(resumed, 0))
    }

    /// Returns a frame for the oldest change.
    fn take_in_order(&mut self) -> Option<MacControl> {
        let change = self.changes.pop_front();
        if self.changes.is_empty() {
            self.owed_xoff = 0;
        }
        let (subject, stop) = change?;
        let bit = 1 << subject;
        match stop {
            true => self.told |= bit,
            false => self.told &= !bit,
        }
        Some(frame(bit, if stop { self.quanta } else { 0 }))
    }

    /// Time for which PFC paused each priority of the peer until `now`, in picoseconds.
    pub(crate) fn asked_ps(&self, now: Picos) -> [u64; PRIORITIES] {
        core::array::from_fn(|n| self.asked_one_ps(now, n))
    }

    /// Time for which PAUSE paused the peer until `now`, in picoseconds.
    pub(crate) fn asked_whole_port_ps(&self, now: Picos) -> u64 {
        self.asked_one_ps(now, PRIORITIES)
    }

    fn asked_one_ps(&self, now: Picos, subject: usize) -> u64 {
        let running = match self.xoff & (1 << subject) != 0 {
            true => now.since(self.since[subject]).0,
            false => 0,
        };
        self.asked_ps[subject] + running
    }
}

/// Builds a frame with the same pause time for all `subjects`.
fn frame(named: u16, quanta: u16) -> MacControl {
    if named == WHOLE_PORT {
        return MacControl::Pause { quanta };
    }
    let enable = named as u8;
    MacControl::Pfc(Pfc {
        enable,
        quanta: core::array::from_fn(|n| if enable & (1 << n) != 0 { quanta } else { 0 }),
    })
}

/// The numbers of the set bits, lowest first.
fn subjects(mask: u16) -> impl Iterator<Item = usize> {
    let whole_port = (mask & WHOLE_PORT != 0).then_some(PRIORITIES);
    bits(mask as u8).chain(whole_port)
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
            response_quanta: 0,
            global: GlobalPause::default(),
        }
    }

    fn generator() -> PauseGenerator {
        PauseGenerator::new(&config(PauseModel::Timed))
    }

    /// The enable vector and the pause times of the next frame.
    fn take(pfc: &mut PauseGenerator, now: Picos) -> Option<(u8, [u16; PRIORITIES])> {
        match pfc.take(now)? {
            MacControl::Pfc(Pfc { enable, quanta }) => Some((enable, quanta)),
            pause => panic!("{pause}"),
        }
    }

    #[test]
    fn in_order_each_change_is_a_frame_and_none_is_repeated() {
        let mut pfc = PauseGenerator::new(&config(PauseModel::UntilResumed { frame_bytes: 43 }));
        pfc.xoff(Picos::ZERO, 0b1_1000);
        pfc.xon(Picos::from_nanos(5), 1 << 3);
        pfc.xoff(Picos::from_nanos(6), 1 << 3);
        let mut frames = Vec::new();
        while pfc.owes() {
            let (enable, quanta) = take(&mut pfc, Picos::from_nanos(7)).unwrap();
            frames.push((enable, quanta.iter().any(|q| *q > 0)));
        }
        let (three, four) = (1 << 3, 1 << 4);
        assert_eq!(
            frames,
            [(three, true), (four, true), (three, false), (three, true)]
        );
        assert_eq!(take(&mut pfc, Picos::from_nanos(8)), None);
        assert_eq!(pfc.refresh_at(), Picos::NEVER);
        pfc.refresh_due(Picos::from_millis(1_000));
        assert!(!pfc.owes());
    }

    #[test]
    fn what_is_owed_survives_another_model_of_pauses() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        take(&mut pfc, Picos::ZERO);
        pfc.xon(Picos::from_nanos(1), 1 << 3);
        pfc.xoff(Picos::from_nanos(2), 1 << 4);
        pfc.reconfigure(&config(PauseModel::UntilResumed { frame_bytes: 43 }));
        assert_eq!(
            take(&mut pfc, Picos::from_nanos(3)),
            Some((1 << 3, [0; PRIORITIES]))
        );
        assert_eq!(take(&mut pfc, Picos::from_nanos(3)).unwrap().0, 1 << 4);
        assert!(!pfc.owes());
        pfc.reconfigure(&config(PauseModel::Timed));
        assert_eq!(
            take(&mut pfc, Picos::from_nanos(4)).unwrap().0,
            1 << 4,
            "so that it does not expire"
        );
        assert_eq!(pfc.refresh_at(), Picos(Picos::from_millis(10).0 + 4_000));
    }

    #[test]
    fn xoff_is_repeated_until_xon_and_xon_is_said_once() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        let (enable, quanta) = take(&mut pfc, Picos::ZERO).unwrap();
        assert_eq!((enable, quanta[3]), (1 << 3, 0xffff));
        assert_eq!(take(&mut pfc, Picos::ZERO), None);
        assert_eq!(pfc.refresh_at(), Picos::from_millis(10));
        pfc.refresh_due(Picos::from_millis(10));
        assert!(take(&mut pfc, Picos::from_millis(10)).is_some());
        pfc.xon(Picos::from_millis(11), 1 << 3);
        assert_eq!(
            take(&mut pfc, Picos::from_millis(11)),
            Some((1 << 3, [0; PRIORITIES]))
        );
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
        take(&mut pfc, Picos::ZERO);
        pfc.xon(Picos::from_nanos(1), 1 << 3);
        pfc.xoff(Picos::from_nanos(2), 1 << 3);
        assert_eq!(take(&mut pfc, Picos::from_nanos(2)).unwrap().0, 1 << 3);
        assert!(!pfc.owes());
    }

    #[test]
    fn a_second_class_refreshes_the_first() {
        let mut pfc = generator();
        pfc.xoff(Picos::ZERO, 1 << 3);
        take(&mut pfc, Picos::ZERO);
        pfc.xoff(Picos::from_millis(1), 1 << 4);
        assert_eq!(take(&mut pfc, Picos::from_millis(1)).unwrap().0, 0b1_1000);
        assert_eq!(pfc.refresh_at(), Picos::from_millis(11));
    }

    #[test]
    fn a_whole_port_is_paused_by_pause_frames() {
        let mut port = generator();
        port.xoff(Picos::ZERO, WHOLE_PORT);
        assert_eq!(port.take(Picos::ZERO), Some(MacControl::Pause { quanta: 0xffff }));
        port.refresh_due(Picos::from_millis(10));
        assert_eq!(
            port.take(Picos::from_millis(10)),
            Some(MacControl::Pause { quanta: 0xffff })
        );
        port.xon(Picos::from_millis(12), WHOLE_PORT);
        assert_eq!(
            port.take(Picos::from_millis(12)),
            Some(MacControl::Pause { quanta: 0 })
        );
        assert!(!port.owes());
        assert_eq!(port.asked_ps(Picos::from_millis(20)), [0; PRIORITIES]);
        assert_eq!(
            port.asked_whole_port_ps(Picos::from_millis(20)),
            Picos::from_millis(12).0
        );
    }

    #[test]
    fn a_port_that_changes_from_pfc_to_pause_resumes_before_it_stops() {
        let mut port = generator();
        port.xoff(Picos::ZERO, 1 << 3);
        port.take(Picos::ZERO);
        port.xon(Picos(1), 1 << 3);
        port.xoff(Picos(1), WHOLE_PORT);
        assert_eq!(take(&mut port, Picos(2)), Some((1 << 3, [0; PRIORITIES])));
        assert_eq!(port.take(Picos(3)), Some(MacControl::Pause { quanta: 0xffff }));
        assert!(!port.owes());
    }
}
