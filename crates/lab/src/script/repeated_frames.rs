//! Pause frames and injected frames that hosts send repeatedly.

use xoff_dataplane::ids::PRIORITIES;
use xoff_units::Picos;
use xoff_wire::{MacControl, Pfc};

use super::super::plan::{InjectPlan, PausePlan};

/// A frame that a script lets a host send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptFrame {
    /// A PFC or 802.3x PAUSE frame.
    Control(MacControl),
    /// The bytes of a frame without FCS.
    Bytes(Vec<u8>),
}

/// A frame that a host sends at a constant interval.
#[derive(Clone, Debug)]
struct RepeatedFrame {
    host: usize,
    frame: ScriptFrame,
    interval: Picos,
    /// The time of the next frame.
    next: Picos,
    /// The latest time of a frame.
    until: Picos,
    /// The number of frames that are left.
    left: u64,
}

/// All repeated frames of a script. Times are on the clock of the fabric, not relative to the start of
/// the workload.
#[derive(Debug, Default)]
pub(super) struct RepeatedFrames(Vec<RepeatedFrame>);

/// Builds the frame of a `pause` step.
pub(super) fn build_pause_frame(pause: &PausePlan) -> MacControl {
    match pause.classes {
        None => MacControl::Pause { quanta: pause.quanta },
        Some(enable) => MacControl::Pfc(Pfc {
            enable,
            quanta: std::array::from_fn::<u16, PRIORITIES, _>(|n| match enable >> n & 1 {
                1 => pause.quanta,
                _ => 0,
            }),
        }),
    }
}

impl RepeatedFrames {
    /// Adds the repeated pause frames of a `pause` step, after the first frame, which the caller has sent.
    /// Repeated pauses of earlier steps for the same host and class end.
    pub(super) fn add_pause(&mut self, now: Picos, pause: &PausePlan) {
        self.0.retain(|repeated| {
            let is_replaced = match (&repeated.frame, pause.classes) {
                (ScriptFrame::Control(MacControl::Pfc(old)), Some(new)) => old.enable & new != 0,
                (ScriptFrame::Control(MacControl::Pause { .. }), None) => true,
                _ => false,
            };
            repeated.host != pause.host || !is_replaced
        });
        let Some(every_ns) = pause.every_ns else { return };
        self.0.push(RepeatedFrame {
            host: pause.host,
            frame: ScriptFrame::Control(build_pause_frame(pause)),
            interval: Picos::from_nanos(every_ns),
            next: now.saturating_add(Picos::from_nanos(every_ns)),
            until: pause
                .for_ns
                .map_or(Picos::NEVER, |ns| now.saturating_add(Picos::from_nanos(ns))),
            left: u64::MAX,
        });
    }

    /// Adds the repeated frames of an `inject` step, after the first frame, which the caller has sent.
    /// Without an interval, the frames are sent back to back. `frame_time` is the time for which a frame
    /// occupies the link.
    pub(super) fn add_injected_frames(&mut self, now: Picos, inject: &InjectPlan, frame_time: Picos) {
        let interval = inject.every_ns.map_or(frame_time, Picos::from_nanos);
        self.0.push(RepeatedFrame {
            host: inject.host,
            frame: ScriptFrame::Bytes(inject.frame.clone()),
            interval,
            next: now.saturating_add(interval),
            until: Picos::NEVER,
            left: inject.frames - 1,
        });
        self.0.retain(|repeated| repeated.left > 0);
    }

    /// Returns the time of the next frame. Returns [`Picos::NEVER`] if no frame is left.
    pub(super) fn next_time(&self) -> Picos {
        let next_time = |repeated: &RepeatedFrame| (repeated.next <= repeated.until).then_some(repeated.next);
        self.0.iter().filter_map(next_time).min().unwrap_or(Picos::NEVER)
    }

    /// Removes and returns all frames that are due at `now`, in the order of the script.
    pub(super) fn take_due_frames(&mut self, now: Picos) -> Vec<(usize, ScriptFrame)> {
        let mut frames = Vec::new();
        for repeated in &mut self.0 {
            while repeated.left > 0 && repeated.next <= now.min(repeated.until) {
                frames.push((repeated.host, repeated.frame.clone()));
                repeated.next = repeated.next.saturating_add(repeated.interval);
                repeated.left -= 1;
            }
        }
        self.0
            .retain(|repeated| repeated.left > 0 && repeated.next <= repeated.until);
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_pause(classes: Option<u8>, quanta: u16, every_ns: Option<u64>, for_ns: Option<u64>) -> PausePlan {
        PausePlan {
            host: 1,
            classes,
            quanta,
            every_ns,
            for_ns,
        }
    }

    #[test]
    fn pauses_repeat_until_their_end_or_another_pause() {
        let mut frames = RepeatedFrames::default();
        let us = Picos::from_micros;
        frames.add_pause(us(1), &new_pause(Some(8), 9, Some(1_000), Some(3_000)));
        let mut times = Vec::new();
        while frames.next_time() != Picos::NEVER {
            let now = frames.next_time();
            assert_eq!(frames.take_due_frames(now).len(), 1);
            times.push(now);
        }
        assert_eq!(times, [us(2), us(3), us(4)]);

        frames.add_pause(us(5), &new_pause(Some(8), 9, Some(1_000), None));
        frames.add_pause(us(5), &new_pause(None, 9, Some(1_000), None));
        assert_eq!(frames.take_due_frames(us(6)).len(), 2);
        frames.add_pause(us(6), &new_pause(Some(0x18), 0, None, None));
        assert_eq!(
            frames.take_due_frames(us(7)),
            [(1, ScriptFrame::Control(MacControl::Pause { quanta: 9 }))]
        );
    }

    #[test]
    fn injected_frames_repeat_as_often_as_requested() {
        let mut frames = RepeatedFrames::default();
        let us = Picos::from_micros;
        let inject = |frames, every_ns| InjectPlan {
            host: 2,
            frame: vec![1, 2],
            frames,
            every_ns,
        };
        frames.add_injected_frames(us(1), &inject(1, None), us(1));
        assert_eq!(frames.next_time(), Picos::NEVER);
        frames.add_injected_frames(us(1), &inject(3, None), us(2));
        frames.add_pause(us(2), &new_pause(None, 9, None, None));
        assert_eq!(
            frames.take_due_frames(us(3)),
            [(2, ScriptFrame::Bytes(vec![1, 2]))]
        );
        assert_eq!(
            (frames.next_time(), frames.take_due_frames(us(5)).len()),
            (us(5), 1)
        );
        assert_eq!(frames.next_time(), Picos::NEVER);
        frames.add_injected_frames(us(6), &inject(2, Some(500)), us(2));
        assert_eq!(frames.next_time(), Picos::from_nanos(6_500));
    }

    #[test]
    fn only_enabled_classes_have_pause_times() {
        let MacControl::Pfc(pfc) = build_pause_frame(&new_pause(Some(0b101), 7, None, None)) else {
            panic!("no PFC frame");
        };
        assert_eq!((pfc.enable, pfc.quanta), (0b101, [7, 0, 7, 0, 0, 0, 0, 0]));
    }
}
