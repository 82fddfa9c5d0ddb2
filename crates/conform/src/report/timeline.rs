//! The frames of a check in bins, and the pauses that they imply, for a picture.

use xoff_units::{LinkTiming, Picos};
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl, PRIORITIES};

use crate::trace::{Trace, TracedFrame};

/// Number of bins of a picture.
pub(super) const BINS: usize = 400;

/// The data frames of one sender.
#[derive(Clone, Debug)]
pub(super) struct SenderTimeline {
    /// Number of data frames in each bin, by class.
    pub(super) frames: [Vec<u32>; PRIORITIES],
    /// The implied pauses of each class, as start and end.
    pub(super) pauses: [Vec<(Picos, Picos)>; PRIORITIES],
    /// MAC control frames.
    pub(super) control: Vec<ControlMark>,
}

/// A MAC control frame, or several of them in a bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ControlMark {
    pub(super) at: Picos,
    /// True: no class or only resumed classes.
    pub(super) is_xon: bool,
    /// The form of the first frame.
    pub(super) text: String,
    /// Number of frames.
    pub(super) count: u32,
}

/// The frames of a check in both directions.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// Length of the picture.
    pub(super) duration: Picos,
    pub(super) device: SenderTimeline,
    pub(super) instrument: SenderTimeline,
}

impl SenderTimeline {
    fn new() -> SenderTimeline {
        SenderTimeline {
            frames: std::array::from_fn(|_| vec![0; BINS]),
            pauses: std::array::from_fn(|_| Vec::new()),
            control: Vec::new(),
        }
    }

    /// Returns the classes with frames or pauses.
    pub(super) fn classes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..PRIORITIES).filter(|class| {
            !self.pauses[*class].is_empty() || self.frames[*class].iter().any(|count| *count > 0)
        })
    }

    /// Pauses a class until a time, or resumes it if the time is `at`.
    fn pause(&mut self, class: usize, at: Picos, until: Picos) {
        let pauses = &mut self.pauses[class];
        match pauses.last_mut() {
            Some(last) if last.1 >= at => last.1 = until,
            _ if until > at => pauses.push((at, until)),
            _ => {}
        }
    }

    fn mark(&mut self, bin_width: u64, mark: ControlMark) {
        match self.control.last_mut() {
            Some(last) if last.at.0 / bin_width == mark.at.0 / bin_width && last.is_xon == mark.is_xon => {
                last.count += 1;
            }
            _ => self.control.push(mark),
        }
    }
}

impl Timeline {
    pub(super) fn new(trace: &Trace, duration: Picos, link: &LinkTiming) -> Timeline {
        let last = trace.frames.iter().map(|frame| frame.end).max();
        let duration = last.unwrap_or_default().max(duration).max(Picos(BINS as u64));
        let mut timeline = Timeline {
            duration,
            device: SenderTimeline::new(),
            instrument: SenderTimeline::new(),
        };
        trace.frames.iter().for_each(|frame| timeline.add(frame, link));
        timeline
    }

    fn bin_width(&self) -> u64 {
        self.duration.0 / BINS as u64 + 1
    }

    fn add(&mut self, frame: &TracedFrame, link: &LinkTiming) {
        let bin_width = self.bin_width();
        let (sender, receiver) = match frame.is_from_device {
            true => (&mut self.device, &mut self.instrument),
            false => (&mut self.instrument, &mut self.device),
        };
        if frame.bytes.get(12..14) != Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes()) {
            if let Some(class) = frame.class {
                let bin = (frame.end.0 / bin_width) as usize;
                sender.frames[usize::from(class)][bin.min(BINS - 1)] += 1;
            }
            return;
        }
        let (text, is_xon) = match MacControl::parse(&frame.bytes) {
            Ok(MacControl::Pfc(pfc)) => {
                let enabled = (0..PRIORITIES).filter(|class| pfc.enable & (1 << class) != 0);
                for class in enabled {
                    let until = frame.end + link.pause_duration(pfc.quanta[class]);
                    receiver.pause(class, frame.end, until);
                }
                let text = format!("PFC, vector {:#04x}, quanta {:?}", pfc.enable, pfc.quanta);
                (text, !pfc.is_xoff())
            }
            Ok(MacControl::Pause { quanta }) => (format!("802.3x PAUSE, quanta {quanta}"), quanta == 0),
            _ => ("other MAC control frame".to_owned(), true),
        };
        let mark = ControlMark {
            at: frame.end,
            is_xon,
            text,
            count: 1,
        };
        sender.mark(bin_width, mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_wire::Pfc;

    const GIGABIT: LinkTiming = LinkTiming::ethernet(1_000);

    fn pfc_frame(at: Picos, quanta: u16) -> TracedFrame {
        let mut times = [0; PRIORITIES];
        times[3] = quanta;
        let pfc = Pfc {
            enable: 8,
            quanta: times,
        };
        let bytes = MacControl::Pfc(pfc).to_frame([2; 6]).to_vec();
        TracedFrame {
            end: at,
            is_from_device: false,
            class: None,
            frame_len: bytes.len() as u32,
            bytes,
        }
    }

    #[test]
    fn pauses_are_refreshed_ended_and_expire() {
        let millis = Picos::from_millis;
        let trace = Trace {
            frames: vec![
                pfc_frame(millis(1), 4_000),
                pfc_frame(millis(2), 4_000),
                pfc_frame(millis(3), 0),
                pfc_frame(millis(5), 1_000),
                pfc_frame(millis(9), 0),
            ],
            missing_frames: 0,
        };
        let timeline = Timeline::new(&trace, millis(10), &GIGABIT);
        let pauses = &timeline.device.pauses[3];
        let expired = millis(5) + GIGABIT.pause_duration(1_000);
        assert_eq!(pauses, &[(millis(1), millis(3)), (millis(5), expired)]);
        assert_eq!(timeline.device.classes().collect::<Vec<_>>(), [3]);
        assert_eq!(timeline.instrument.control.len(), 5);
        assert!(timeline.instrument.control[2].is_xon);
    }

    #[test]
    fn control_frames_of_one_bin_are_one_mark() {
        let frames = (0..1_000).map(|at| pfc_frame(Picos::from_nanos(at), 1)).collect();
        let trace = Trace {
            frames,
            missing_frames: 0,
        };
        let timeline = Timeline::new(&trace, Picos::from_millis(10), &GIGABIT);
        assert_eq!(timeline.instrument.control.len(), 1);
        assert_eq!(timeline.instrument.control[0].count, 1_000);
    }
}
