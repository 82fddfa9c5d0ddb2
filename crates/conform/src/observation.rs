//! The frames that the instrument has seen.

use xoff_units::Picos;
use xoff_wire::{ETHERTYPE_MAC_CONTROL, MacControl, PRIORITIES, Pfc};

use crate::trace::Trace;
use crate::traffic::identify_data_frame;

/// A kind of event for which a check can wait, as a bit of a mask. Bits 0 to 7 are data frames of the classes 0 to 7.
pub(crate) const CONTROL_EVENT: u16 = 1 << 8;
/// A scheduled frame of the instrument has left.
pub(crate) const SENT_EVENT: u16 = 1 << 9;

/// A data frame of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataFrame {
    /// Time of the first bit.
    pub(crate) start: Picos,
    /// Time of the last bit.
    pub(crate) end: Picos,
    /// Number of the frame in its class, counted from 0.
    pub(crate) sequence: u64,
}

/// A frame of the device with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CapturedFrame {
    /// Time of the last bit.
    pub(crate) end: Picos,
    /// The frame without FCS.
    pub(crate) bytes: Vec<u8>,
}

impl CapturedFrame {
    /// Returns the parameters of a PFC frame.
    pub(crate) fn pfc(&self) -> Option<Pfc> {
        match MacControl::parse(&self.bytes) {
            Ok(MacControl::Pfc(pfc)) => Some(pfc),
            _ => None,
        }
    }
}

/// All frames that the instrument has seen since the start of the check, in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    /// Data frames by class.
    pub(crate) data: [Vec<DataFrame>; PRIORITIES],
    /// MAC control frames.
    pub(crate) control: Vec<CapturedFrame>,
    /// All frames in both directions. `None`: they are not recorded.
    pub(crate) trace: Option<Trace>,
}

impl Observations {
    /// Records a frame of the instrument.
    pub(crate) fn record_sent(&mut self, end: Picos, bytes: &[u8]) {
        if let Some(trace) = &mut self.trace {
            trace.add(end, false, bytes);
        }
    }

    /// Records a data frame or a MAC control frame. Returns its kind as an event bit, 0 for all other frames.
    pub(crate) fn record(&mut self, start: Picos, end: Picos, bytes: Vec<u8>) -> u16 {
        if let Some(trace) = &mut self.trace {
            trace.add(end, true, &bytes);
        }
        if let Some((class, sequence)) = identify_data_frame(&bytes) {
            self.data[class].push(DataFrame { start, end, sequence });
            return 1 << class;
        }
        // A tagged MAC control frame is also one that the device should not send.
        let ethertypes = [bytes.get(12..14), bytes.get(16..18)];
        let is_control = ethertypes.contains(&Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes()));
        if !is_control {
            return 0;
        }
        self.control.push(CapturedFrame { end, bytes });
        CONTROL_EVENT
    }

    /// Returns the data frames of a class that start in a span of time. The end of the span is not included.
    pub(crate) fn started_between(&self, class: u8, from: Picos, until: Picos) -> &[DataFrame] {
        let frames = &self.data[usize::from(class)];
        let first = frames.partition_point(|frame| frame.start < from);
        let end = frames.partition_point(|frame| frame.start < until);
        &frames[first..end.max(first)]
    }

    /// Returns how many data frames of a class are missing, and how many arrived after a later frame.
    pub(crate) fn lost_and_reordered(&self, class: u8) -> (u64, u64) {
        let frames = &self.data[usize::from(class)];
        let numbers = || frames.iter().map(|frame| frame.sequence);
        let Some((first, last)) = numbers().min().zip(numbers().max()) else {
            return (0, 0);
        };
        let reordered = frames
            .windows(2)
            .filter(|pair| pair[1].sequence < pair[0].sequence);
        let expected = last - first + 1;
        (
            expected.saturating_sub(frames.len() as u64),
            reordered.count() as u64,
        )
    }

    /// Returns the MAC control frames that ended at `from` or later.
    pub(crate) fn control_since(&self, from: Picos) -> &[CapturedFrame] {
        let first = self.control.partition_point(|frame| frame.end < from);
        &self.control[first..]
    }
}
