//! The sender of pauses: decides when a port sends XOFF, repeats XOFF, and sends XON. A PFC pause applies to
//! a set of priorities. If no priority has PFC, an 802.3x pause applies to the [`WHOLE_PORT`].

use std::collections::VecDeque;

use crate::bits::iter_set_bits;
use crate::config::{PauseModel, PfcConfig};
use crate::ids::PRIORITIES;
use xoff_units::Picos;
use xoff_wire::mac_control::{MacControl, Pfc};

/// Bit of the 802.3x PAUSE in a mask of pauses. The lower eight bits of the mask are the priorities.
pub(crate) const WHOLE_PORT: u16 = 1 << PRIORITIES;
/// Number of bits in a mask of pauses: eight priorities and the whole port.
const SUBJECT_COUNT: usize = PRIORITIES + 1;

/// Decides which pause frames a port sends to its peer. A frame is built when the link is free, from the
/// state at that moment. If a change is reversed before the link is free, no frame is sent for the change.
#[derive(Clone, Debug)]
#[repr(C)] // what each departure reads comes first
pub(crate) struct PauseGenerator {
    /// Priorities in XOFF, and [`WHOLE_PORT`] if the port uses PAUSE.
    xoff: u16,
    /// Priorities for which an XOFF frame must be sent: a priority group has just started to pause its peer,
    /// or the repetition of the frame is due.
    pending_xoff: u16,
    /// Priorities for which an XON frame must be sent.
    pending_xon: u16,
    /// Priorities whose last frame to the peer was XOFF.
    last_sent_xoff: u16,
    /// True if the port sends a separate frame for each change ([`PauseModel::UntilResumed`]). In this mode,
    /// `pending_xoff` is nonzero while `changes` has entries.
    in_order: bool,
    /// The changes to send. Each entry consists of the priority and a flag, which is true for XOFF and false
    /// for XON. For each priority, XOFF and XON alternate, so the list stays short.
    changes: VecDeque<(u8, bool)>,
    refresh: Picos,
    refresh_at: Picos,
    quanta: u16,
    xoff_since: [Picos; SUBJECT_COUNT],
    paused_ps: [u64; SUBJECT_COUNT],
}

impl PauseGenerator {
    pub(crate) fn new(config: &PfcConfig) -> PauseGenerator {
        let mut generator = PauseGenerator {
            xoff: 0,
            pending_xoff: 0,
            pending_xon: 0,
            last_sent_xoff: 0,
            in_order: false,
            changes: VecDeque::new(),
            refresh: config.refresh,
            refresh_at: Picos::NEVER,
            quanta: config.pause_quanta,
            xoff_since: [Picos::ZERO; SUBJECT_COUNT],
            paused_ps: [0; SUBJECT_COUNT],
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
            let (off, on) = (self.xoff & !self.last_sent_xoff, self.last_sent_xoff & !self.xoff);
            (self.pending_xoff, self.pending_xon) = (0, 0);
            self.schedule_frames(on, false);
            self.schedule_frames(off, true);
            self.refresh_at = Picos::NEVER;
            if !in_order && self.xoff != 0 {
                self.pending_xoff |= self.xoff;
            }
        }
    }

    /// Schedules XOFF (`stop`) or XON frames for these priorities.
    fn schedule_frames(&mut self, priorities: u16, stop: bool) {
        if self.in_order {
            self.changes
                .extend(pause_target_numbers(priorities).map(|priority| (priority as u8, stop)));
            self.pending_xoff |= priorities;
        } else if stop {
            self.pending_xoff |= priorities;
            self.pending_xon &= !priorities;
        } else {
            self.pending_xoff &= !priorities;
            self.pending_xon |= priorities & self.last_sent_xoff;
        }
    }

    /// Returns the mask of priorities in XOFF.
    pub(crate) fn xoff_mask(&self) -> u16 {
        self.xoff
    }

    /// Puts these priorities into XOFF.
    pub(crate) fn enter_xoff(&mut self, now: Picos, priorities: u16) {
        let entering = priorities & !self.xoff;
        for n in pause_target_numbers(entering) {
            self.xoff_since[n] = now;
        }
        self.schedule_frames(entering, true);
        self.xoff |= priorities;
    }

    /// Puts these priorities into XON.
    pub(crate) fn leave_xoff(&mut self, now: Picos, priorities: u16) {
        let leaving = priorities & self.xoff;
        for n in pause_target_numbers(leaving) {
            self.paused_ps[n] += now.since(self.xoff_since[n]).0;
        }
        self.xoff &= !priorities;
        self.schedule_frames(leaving, false);
        if self.xoff == 0 {
            self.refresh_at = Picos::NEVER;
        }
    }

    /// Discards pending frames after the link went down. When the link comes up again,
    /// [`PauseGenerator::announce_xoff`] sends an XOFF frame for all priorities that must be paused.
    pub(crate) fn discard_pending(&mut self) {
        (self.pending_xoff, self.pending_xon, self.last_sent_xoff) = (0, 0, 0);
        self.changes.clear();
        self.refresh_at = Picos::NEVER;
    }

    /// Schedules XOFF frames for the current XOFF state after the link came up.
    pub(crate) fn announce_xoff(&mut self) {
        self.schedule_frames(self.xoff, true);
    }

    /// Schedules XOFF frames if the time of the refresh has come.
    pub(crate) fn schedule_refresh(&mut self, now: Picos) {
        if self.refresh_at <= now {
            self.pending_xoff |= self.xoff;
            self.refresh_at = Picos::NEVER;
        }
    }

    /// Returns the time at which XOFF must be repeated, or [`Picos::NEVER`].
    pub(crate) fn refresh_at(&self) -> Picos {
        self.refresh_at
    }

    pub(crate) fn has_pending_frames(&self) -> bool {
        self.pending_xoff | self.pending_xon != 0
    }

    /// Returns the frame to send now, or `None` if no frame is needed. An XOFF frame carries all priorities
    /// that the peer must pause, and renews the pause of all of them. An XON frame carries the priorities
    /// that resume. If PFC and PAUSE frames are both pending, the PFC frame is sent first. Both are pending
    /// at the same time only after a change of the configuration.
    pub(crate) fn next_frame(&mut self, now: Picos) -> Option<MacControl> {
        if self.in_order {
            return self.next_frame_in_order();
        }
        let pending = self.pending_xoff | self.pending_xon;
        let scope = match pending & !WHOLE_PORT {
            0 => WHOLE_PORT,
            _ => !WHOLE_PORT,
        };
        if self.pending_xoff & scope != 0 {
            let stopped = self.xoff & scope;
            self.pending_xoff &= !scope;
            self.last_sent_xoff |= stopped;
            self.refresh_at = now.saturating_add(self.refresh);
            return Some(build_pause_frame(stopped, self.quanta));
        }
        let resumed = self.pending_xon & scope;
        self.pending_xon &= !scope;
        self.last_sent_xoff &= !resumed;
        (resumed != 0).then(|| build_pause_frame(resumed, 0))
    }

    /// Returns a frame for the oldest change, or `None` if there is no change to send.
    fn next_frame_in_order(&mut self) -> Option<MacControl> {
        let change = self.changes.pop_front();
        if self.changes.is_empty() {
            self.pending_xoff = 0;
        }
        let (subject, stop) = change?;
        let bit = 1 << subject;
        match stop {
            true => self.last_sent_xoff |= bit,
            false => self.last_sent_xoff &= !bit,
        }
        Some(build_pause_frame(bit, if stop { self.quanta } else { 0 }))
    }

    /// Returns the time for which PFC has paused each priority of the peer until `now`, in picoseconds.
    pub(crate) fn peer_paused_ps(&self, now: Picos) -> [u64; PRIORITIES] {
        core::array::from_fn(|n| self.target_paused_ps(now, n))
    }

    /// Returns the time for which 802.3x PAUSE has paused the peer until `now`, in picoseconds.
    pub(crate) fn peer_port_paused_ps(&self, now: Picos) -> u64 {
        self.target_paused_ps(now, PRIORITIES)
    }

    fn target_paused_ps(&self, now: Picos, subject: usize) -> u64 {
        let running = match self.xoff & (1 << subject) != 0 {
            true => now.since(self.xoff_since[subject]).0,
            false => 0,
        };
        self.paused_ps[subject] + running
    }
}

/// Builds a pause frame with the same pause time for all `subjects`: a PAUSE frame for [`WHOLE_PORT`], else a
/// PFC frame.
fn build_pause_frame(subjects: u16, quanta: u16) -> MacControl {
    if subjects == WHOLE_PORT {
        return MacControl::Pause { quanta };
    }
    let enable = subjects as u8;
    MacControl::Pfc(Pfc {
        enable,
        quanta: core::array::from_fn(|n| if enable & (1 << n) != 0 { quanta } else { 0 }),
    })
}

/// Returns the numbers of the set bits, lowest first.
fn pause_target_numbers(mask: u16) -> impl Iterator<Item = usize> {
    let whole_port = (mask & WHOLE_PORT != 0).then_some(PRIORITIES);
    iter_set_bits(mask as u8).chain(whole_port)
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

    /// Returns the enable vector and the pause times of the next frame.
    fn next_pfc(pfc: &mut PauseGenerator, now: Picos) -> Option<(u8, [u16; PRIORITIES])> {
        match pfc.next_frame(now)? {
            MacControl::Pfc(Pfc { enable, quanta }) => Some((enable, quanta)),
            pause => panic!("{pause}"),
        }
    }

    #[test]
    fn until_resumed_model_sends_one_frame_per_change_without_refresh() {
        let mut pfc = PauseGenerator::new(&config(PauseModel::UntilResumed { frame_bytes: 43 }));
        pfc.enter_xoff(Picos::ZERO, 0b1_1000);
        pfc.leave_xoff(Picos::from_nanos(5), 1 << 3);
        pfc.enter_xoff(Picos::from_nanos(6), 1 << 3);
        let mut frames = Vec::new();
        while pfc.has_pending_frames() {
            let (enable, quanta) = next_pfc(&mut pfc, Picos::from_nanos(7)).unwrap();
            frames.push((enable, quanta.iter().any(|q| *q > 0)));
        }
        let (three, four) = (1 << 3, 1 << 4);
        assert_eq!(
            frames,
            [(three, true), (four, true), (three, false), (three, true)]
        );
        assert_eq!(next_pfc(&mut pfc, Picos::from_nanos(8)), None);
        assert_eq!(pfc.refresh_at(), Picos::NEVER);
        pfc.schedule_refresh(Picos::from_millis(1_000));
        assert!(!pfc.has_pending_frames());
    }

    #[test]
    fn pending_frames_survive_a_change_of_the_pause_model() {
        let mut pfc = generator();
        pfc.enter_xoff(Picos::ZERO, 1 << 3);
        next_pfc(&mut pfc, Picos::ZERO);
        pfc.leave_xoff(Picos::from_nanos(1), 1 << 3);
        pfc.enter_xoff(Picos::from_nanos(2), 1 << 4);
        pfc.reconfigure(&config(PauseModel::UntilResumed { frame_bytes: 43 }));
        assert_eq!(
            next_pfc(&mut pfc, Picos::from_nanos(3)),
            Some((1 << 3, [0; PRIORITIES]))
        );
        assert_eq!(next_pfc(&mut pfc, Picos::from_nanos(3)).unwrap().0, 1 << 4);
        assert!(!pfc.has_pending_frames());
        pfc.reconfigure(&config(PauseModel::Timed));
        assert_eq!(
            next_pfc(&mut pfc, Picos::from_nanos(4)).unwrap().0,
            1 << 4,
            "so that it does not expire"
        );
        assert_eq!(pfc.refresh_at(), Picos(Picos::from_millis(10).0 + 4_000));
    }

    #[test]
    fn xoff_is_refreshed_until_xon_and_xon_is_sent_once() {
        let mut pfc = generator();
        pfc.enter_xoff(Picos::ZERO, 1 << 3);
        let (enable, quanta) = next_pfc(&mut pfc, Picos::ZERO).unwrap();
        assert_eq!((enable, quanta[3]), (1 << 3, 0xffff));
        assert_eq!(next_pfc(&mut pfc, Picos::ZERO), None);
        assert_eq!(pfc.refresh_at(), Picos::from_millis(10));
        pfc.schedule_refresh(Picos::from_millis(10));
        assert!(next_pfc(&mut pfc, Picos::from_millis(10)).is_some());
        pfc.leave_xoff(Picos::from_millis(11), 1 << 3);
        assert_eq!(
            next_pfc(&mut pfc, Picos::from_millis(11)),
            Some((1 << 3, [0; PRIORITIES]))
        );
        assert_eq!(pfc.refresh_at(), Picos::NEVER);
        assert_eq!(
            pfc.peer_paused_ps(Picos::from_millis(20))[3],
            Picos::from_millis(11).0
        );
    }

    #[test]
    fn a_pause_that_ends_before_it_was_sent_causes_no_frame() {
        let mut pfc = generator();
        pfc.enter_xoff(Picos::ZERO, 1 << 3);
        pfc.leave_xoff(Picos::from_nanos(5), 1 << 3);
        assert!(!pfc.has_pending_frames());
    }

    #[test]
    fn a_pending_xon_is_cancelled_by_xoff() {
        let mut pfc = generator();
        pfc.enter_xoff(Picos::ZERO, 1 << 3);
        next_pfc(&mut pfc, Picos::ZERO);
        pfc.leave_xoff(Picos::from_nanos(1), 1 << 3);
        pfc.enter_xoff(Picos::from_nanos(2), 1 << 3);
        assert_eq!(next_pfc(&mut pfc, Picos::from_nanos(2)).unwrap().0, 1 << 3);
        assert!(!pfc.has_pending_frames());
    }

    #[test]
    fn xoff_of_a_second_priority_refreshes_the_first() {
        let mut pfc = generator();
        pfc.enter_xoff(Picos::ZERO, 1 << 3);
        next_pfc(&mut pfc, Picos::ZERO);
        pfc.enter_xoff(Picos::from_millis(1), 1 << 4);
        assert_eq!(next_pfc(&mut pfc, Picos::from_millis(1)).unwrap().0, 0b1_1000);
        assert_eq!(pfc.refresh_at(), Picos::from_millis(11));
    }

    #[test]
    fn the_whole_port_is_paused_by_pause_frames() {
        let mut port = generator();
        port.enter_xoff(Picos::ZERO, WHOLE_PORT);
        assert_eq!(
            port.next_frame(Picos::ZERO),
            Some(MacControl::Pause { quanta: 0xffff })
        );
        port.schedule_refresh(Picos::from_millis(10));
        assert_eq!(
            port.next_frame(Picos::from_millis(10)),
            Some(MacControl::Pause { quanta: 0xffff })
        );
        port.leave_xoff(Picos::from_millis(12), WHOLE_PORT);
        assert_eq!(
            port.next_frame(Picos::from_millis(12)),
            Some(MacControl::Pause { quanta: 0 })
        );
        assert!(!port.has_pending_frames());
        assert_eq!(port.peer_paused_ps(Picos::from_millis(20)), [0; PRIORITIES]);
        assert_eq!(
            port.peer_port_paused_ps(Picos::from_millis(20)),
            Picos::from_millis(12).0
        );
    }

    #[test]
    fn a_change_from_pfc_to_pause_sends_xon_before_pause() {
        let mut port = generator();
        port.enter_xoff(Picos::ZERO, 1 << 3);
        port.next_frame(Picos::ZERO);
        port.leave_xoff(Picos(1), 1 << 3);
        port.enter_xoff(Picos(1), WHOLE_PORT);
        assert_eq!(next_pfc(&mut port, Picos(2)), Some((1 << 3, [0; PRIORITIES])));
        assert_eq!(
            port.next_frame(Picos(3)),
            Some(MacControl::Pause { quanta: 0xffff })
        );
        assert!(!port.has_pending_frames());
    }
}
