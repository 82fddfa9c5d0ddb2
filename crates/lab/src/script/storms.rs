//! Pauses and other frames that hosts send again and again.

use xoff_dataplane::ids::PRIORITIES;
use xoff_units::Picos;
use xoff_wire::{MacControl, Pfc};

use super::super::plan::{InjectPlan, PausePlan};

/// What a host sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A pause.
    Control(MacControl),
    /// A frame as bytes.
    Bytes(Vec<u8>),
}

/// A frame that is repeated.
#[derive(Clone, Debug)]
struct Storm {
    host: usize,
    frame: Frame,
    every: Picos,
    next: Picos,
    /// The last one is not later than this.
    until: Picos,
    /// So many are still to come.
    left: u64,
}

/// All storms of a script. Times are of the fabric.
#[derive(Debug, Default)]
pub(super) struct Storms(Vec<Storm>);

/// The frame of a pause.
pub(super) fn frame(pause: &PausePlan) -> MacControl {
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

impl Storms {
    /// A host begins to pause: what it sent of the same kind before is over.
    pub(super) fn begin(&mut self, now: Picos, pause: &PausePlan) {
        self.0.retain(|storm| {
            let same = match (&storm.frame, pause.classes) {
                (Frame::Control(MacControl::Pfc(old)), Some(new)) => old.enable & new != 0,
                (Frame::Control(MacControl::Pause { .. }), None) => true,
                _ => false,
            };
            storm.host != pause.host || !same
        });
        let Some(every_ns) = pause.every_ns else { return };
        self.0.push(Storm {
            host: pause.host,
            frame: Frame::Control(frame(pause)),
            every: Picos::from_nanos(every_ns),
            next: now.saturating_add(Picos::from_nanos(every_ns)),
            until: pause
                .for_ns
                .map_or(Picos::NEVER, |ns| now.saturating_add(Picos::from_nanos(ns))),
            left: u64::MAX,
        });
    }

    /// A host has sent the first of some frames; the others follow, one each `own_time` unless they say otherwise.
    pub(super) fn follow(&mut self, now: Picos, inject: &InjectPlan, own_time: Picos) {
        let every = inject.every_ns.map_or(own_time, Picos::from_nanos);
        self.0.push(Storm {
            host: inject.host,
            frame: Frame::Bytes(inject.frame.clone()),
            every,
            next: now.saturating_add(every),
            until: Picos::NEVER,
            left: inject.frames - 1,
        });
        self.0.retain(|storm| storm.left > 0);
    }

    /// When the next frame is due, [`Picos::NEVER`] if none is.
    pub(super) fn next(&self) -> Picos {
        let due = |storm: &Storm| (storm.next <= storm.until).then_some(storm.next);
        self.0.iter().filter_map(due).min().unwrap_or(Picos::NEVER)
    }

    /// Takes the frames that are due by `now`, in the order of the script.
    pub(super) fn due(&mut self, now: Picos) -> Vec<(usize, Frame)> {
        let mut frames = Vec::new();
        for storm in &mut self.0 {
            while storm.left > 0 && storm.next <= now.min(storm.until) {
                frames.push((storm.host, storm.frame.clone()));
                storm.next = storm.next.saturating_add(storm.every);
                storm.left -= 1;
            }
        }
        self.0.retain(|storm| storm.left > 0 && storm.next <= storm.until);
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(classes: Option<u8>, quanta: u16, every_ns: Option<u64>, for_ns: Option<u64>) -> PausePlan {
        PausePlan {
            host: 1,
            classes,
            quanta,
            every_ns,
            for_ns,
        }
    }

    #[test]
    fn a_storm_repeats_until_its_end_or_another_pause() {
        let mut storms = Storms::default();
        let us = Picos::from_micros;
        storms.begin(us(1), &pause(Some(8), 9, Some(1_000), Some(3_000)));
        let mut times = Vec::new();
        while storms.next() != Picos::NEVER {
            let now = storms.next();
            assert_eq!(storms.due(now).len(), 1);
            times.push(now);
        }
        assert_eq!(times, [us(2), us(3), us(4)]);

        storms.begin(us(5), &pause(Some(8), 9, Some(1_000), None));
        storms.begin(us(5), &pause(None, 9, Some(1_000), None));
        assert_eq!(storms.due(us(6)).len(), 2);
        storms.begin(us(6), &pause(Some(0x18), 0, None, None));
        assert_eq!(
            storms.due(us(7)),
            [(1, Frame::Control(MacControl::Pause { quanta: 9 }))]
        );
    }

    #[test]
    fn injected_frames_are_counted() {
        let mut storms = Storms::default();
        let us = Picos::from_micros;
        let inject = |frames, every_ns| InjectPlan {
            host: 2,
            frame: vec![1, 2],
            frames,
            every_ns,
        };
        storms.follow(us(1), &inject(1, None), us(1));
        assert_eq!(storms.next(), Picos::NEVER);
        storms.follow(us(1), &inject(3, None), us(2));
        storms.begin(us(2), &pause(None, 9, None, None));
        assert_eq!(storms.due(us(3)), [(2, Frame::Bytes(vec![1, 2]))]);
        assert_eq!((storms.next(), storms.due(us(5)).len()), (us(5), 1));
        assert_eq!(storms.next(), Picos::NEVER);
        storms.follow(us(6), &inject(2, Some(500)), us(2));
        assert_eq!(storms.next(), Picos::from_nanos(6_500));
    }

    #[test]
    fn only_the_classes_that_are_meant_have_quanta() {
        let MacControl::Pfc(pfc) = frame(&pause(Some(0b101), 7, None, None)) else {
            panic!("no PFC frame");
        };
        assert_eq!((pfc.enable, pfc.quanta), (0b101, [7, 0, 7, 0, 0, 0, 0, 0]));
    }
}
