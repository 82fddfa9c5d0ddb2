//! Decides when a stream port may read the next frame: no faster than its link, and not while it is paused.

use xoff_dataplane::LinkTiming;
use xoff_wire::PRIORITIES;
use xoff_wire::mac_control::MacControl;

/// Link time that a port may catch up after it was not read in time, in nanoseconds of wall time. The headroom must
/// cover the frames of this time, because they can arrive at once.
const CATCH_UP_NS: u64 = 500_000;
/// The index of 802.3x pauses in [`ReadGate::paused_until_ns`].
const GLOBAL_PAUSE: usize = PRIORITIES;

/// The link of a stream port.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLink {
    /// Speed and framing of the link in model time.
    pub(super) timing: LinkTiming,
    /// Factor by which model time is slower than wall time, at least 1.
    pub(super) dilation: u64,
}

impl StreamLink {
    /// Converts a duration in model time to nanoseconds of wall time.
    fn wall_ns(self, duration: xoff_dataplane::Picos) -> u64 {
        duration.0.saturating_mul(self.dilation) / 1_000
    }
}

/// The pauses and the speed that limit the reading of a stream. All times are in nanoseconds of the same wall clock.
#[derive(Debug, Default)]
pub(super) struct ReadGate {
    /// Without a link, the gate is always open.
    link: Option<StreamLink>,
    /// The time at which the link has carried all frames so far.
    next_free_ns: u64,
    /// The end of the pause of each priority, and of the 802.3x pause.
    paused_until_ns: [u64; PRIORITIES + 1],
    /// The start of the current stop, or of its part that was not reported yet. `None` without a stop.
    stopped_since_ns: Option<u64>,
    stops: u64,
    stopped_ns: u64,
}

impl ReadGate {
    pub(super) fn link(&self) -> Option<StreamLink> {
        self.link
    }

    pub(super) fn set_link(&mut self, link: StreamLink) {
        self.link = Some(link);
    }

    /// Applies a pause that the switch asked for at the time `now_ns`. Pause times restart, and quanta of 0 end a
    /// pause.
    pub(super) fn apply_pause(&mut self, now_ns: u64, pause: MacControl) {
        let Some(link) = self.link else { return };
        self.end_expired_stop(now_ns);
        let until_ns = |quanta| now_ns.saturating_add(link.wall_ns(link.timing.pause_duration(quanta)));
        match pause {
            MacControl::Pause { quanta } => self.paused_until_ns[GLOBAL_PAUSE] = until_ns(quanta),
            MacControl::Pfc(pfc) => {
                for priority in (0..PRIORITIES).filter(|n| pfc.enable & 1 << n != 0) {
                    self.paused_until_ns[priority] = until_ns(pfc.quanta[priority]);
                }
            }
        }
        if self.pause_end_ns() > now_ns && self.stopped_since_ns.is_none() {
            self.stopped_since_ns = Some(now_ns);
            self.stops += 1;
        }
        self.end_expired_stop(now_ns);
    }

    /// Returns the end of the last pause.
    fn pause_end_ns(&self) -> u64 {
        self.paused_until_ns.into_iter().max().unwrap_or(0)
    }

    fn end_expired_stop(&mut self, now_ns: u64) {
        let end_ns = self.pause_end_ns();
        if end_ns <= now_ns
            && let Some(since_ns) = self.stopped_since_ns.take()
        {
            self.stopped_ns += end_ns.saturating_sub(since_ns);
        }
    }

    /// Returns the time from which on the next frame may be read. It is not after `now_ns` if the frame may be read
    /// now.
    pub(super) fn next_read_ns(&self) -> u64 {
        match self.link {
            None => 0,
            Some(_) => self.next_free_ns.max(self.pause_end_ns()),
        }
    }

    /// Records that a frame is read at `now_ns`. Returns the time at which the frame arrives over the link.
    pub(super) fn record_frame(&mut self, now_ns: u64, frame_len: u32) -> u64 {
        let Some(link) = self.link else { return now_ns };
        let arrives_ns = self.next_free_ns.max(now_ns.saturating_sub(CATCH_UP_NS));
        let mac_len = link.timing.mac_len(frame_len);
        let occupied_ns = link.wall_ns(link.timing.duration(link.timing.wire_len(mac_len)));
        self.next_free_ns = arrives_ns.saturating_add(occupied_ns);
        arrives_ns.min(now_ns)
    }

    /// Returns the number of stops and the stopped time in nanoseconds since the last call. A stop is a time in which
    /// at least one pause was in effect.
    pub(super) fn take_stops(&mut self, now_ns: u64) -> (u64, u64) {
        self.end_expired_stop(now_ns);
        if let Some(since_ns) = &mut self.stopped_since_ns {
            self.stopped_ns += now_ns.saturating_sub(*since_ns);
            *since_ns = now_ns.max(*since_ns);
        }
        (
            std::mem::take(&mut self.stops),
            std::mem::take(&mut self.stopped_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_wire::mac_control::Pfc;

    /// 512 bit times at 1 Gb/s are 512 ns.
    fn gate(dilation: u64) -> ReadGate {
        let mut gate = ReadGate::default();
        gate.set_link(StreamLink {
            timing: LinkTiming::ethernet(1_000),
            dilation,
        });
        gate
    }

    fn pfc(priority: usize, quanta: u16) -> MacControl {
        let mut pfc = Pfc {
            enable: 1 << priority,
            ..Pfc::default()
        };
        pfc.quanta[priority] = quanta;
        MacControl::Pfc(pfc)
    }

    #[test]
    fn the_gate_is_closed_while_a_class_is_paused() {
        let mut gate = gate(1);
        gate.apply_pause(1_000, pfc(3, 100));
        assert_eq!(gate.next_read_ns(), 1_000 + 51_200);
        // A new pause time replaces the old one.
        gate.apply_pause(2_000, pfc(3, 10));
        assert_eq!(gate.next_read_ns(), 2_000 + 5_120);
        gate.apply_pause(2_000, pfc(5, 20));
        assert_eq!(gate.next_read_ns(), 2_000 + 10_240);
        gate.apply_pause(3_000, pfc(5, 0));
        assert_eq!(gate.next_read_ns(), 2_000 + 5_120, "priority 3 is still paused");
        gate.apply_pause(4_000, pfc(3, 0));
        assert_eq!(gate.next_read_ns(), 4_000);
        assert_eq!(
            gate.take_stops(9_000),
            (1, 3_000),
            "one stop, from 1000 to 4000 ns"
        );
    }

    #[test]
    fn an_802_3x_pause_closes_the_gate_and_a_pfc_frame_does_not_end_it() {
        let mut gate = gate(1);
        gate.apply_pause(0, MacControl::Pause { quanta: 1_000 });
        gate.apply_pause(10, pfc(0, 0));
        assert_eq!(gate.next_read_ns(), 512_000);
        gate.apply_pause(20, MacControl::Pause { quanta: 0 });
        assert_eq!(gate.next_read_ns(), 20);
    }

    #[test]
    fn a_pause_expires_and_its_time_is_reported_in_parts() {
        let mut gate = gate(10);
        gate.apply_pause(0, pfc(3, 100));
        assert_eq!(gate.next_read_ns(), 512_000, "ten times slower");
        assert_eq!(gate.take_stops(200_000), (1, 200_000));
        assert_eq!(gate.take_stops(800_000), (0, 312_000));
        assert_eq!(gate.take_stops(900_000), (0, 0));
        gate.apply_pause(1_000_000, pfc(3, 1));
        gate.apply_pause(2_000_000, pfc(3, 1));
        assert_eq!(gate.take_stops(3_000_000), (2, 2 * 5_120));
    }

    #[test]
    fn frames_are_read_at_the_speed_of_the_link_with_a_limited_catch_up() {
        // A frame of 1226 bytes occupies the link for 1250 bytes: 10 us at 1 Gb/s.
        let mut gate = gate(1);
        let frame_len = 1_226;
        let start_ns = 5_000_000;
        let first_ns = gate.record_frame(start_ns, frame_len);
        assert_eq!(first_ns, start_ns - CATCH_UP_NS);
        let mut frames = 1;
        while gate.next_read_ns() <= start_ns {
            gate.record_frame(start_ns, frame_len);
            frames += 1;
        }
        assert_eq!(frames, CATCH_UP_NS / 10_000 + 1);
        assert_eq!(gate.next_read_ns(), start_ns + 10_000);
        assert_eq!(gate.record_frame(start_ns + 10_000, frame_len), start_ns + 10_000);
    }

    #[test]
    fn without_a_link_the_gate_is_open() {
        let mut gate = ReadGate::default();
        gate.apply_pause(0, pfc(3, 65_535));
        assert_eq!(gate.record_frame(7, 60), 7);
        assert_eq!(gate.next_read_ns(), 0);
        assert_eq!(gate.take_stops(10), (0, 0));
    }
}
