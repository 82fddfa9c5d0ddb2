//! The frames of a check, for captures and pictures.

use xoff_units::Picos;

use crate::traffic::class_of_frame;

/// Largest number of frames of a trace. Later frames are missing.
const FRAMES_MAX: usize = 300_000;
/// Number of bytes that are kept of each frame.
const STORED_BYTES_MAX: usize = 128;

/// A frame of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFrame {
    /// Time of the last bit, since the start of the check.
    pub end: Picos,
    /// True: the device sent the frame. False: the instrument sent it.
    pub is_from_device: bool,
    /// Class of a data frame by its DSCP, 0 to 7. `None` for other frames.
    pub class: Option<u8>,
    /// Length of the frame without FCS, in bytes.
    pub frame_len: u32,
    /// The first bytes of the frame, at most 128.
    pub bytes: Vec<u8>,
}

/// The frames of a check in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The frames in the order in which the instrument saw them.
    pub frames: Vec<TracedFrame>,
    /// Number of frames that the trace does not contain because it was full.
    pub missing_frames: u64,
}

impl Trace {
    pub(crate) fn add(&mut self, end: Picos, is_from_device: bool, bytes: &[u8]) {
        if self.frames.len() >= FRAMES_MAX {
            self.missing_frames += 1;
            return;
        }
        self.frames.push(TracedFrame {
            end,
            is_from_device,
            class: class_of_frame(bytes),
            frame_len: bytes.len() as u32,
            bytes: bytes[..bytes.len().min(STORED_BYTES_MAX)].to_vec(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_trace_counts_the_missing_frames() {
        let mut trace = Trace::default();
        for _ in 0..FRAMES_MAX + 3 {
            trace.add(Picos::ZERO, true, &[]);
        }
        assert_eq!((trace.frames.len(), trace.missing_frames), (FRAMES_MAX, 3));
    }
}
