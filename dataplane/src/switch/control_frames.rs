//! The MAC control frames that a port sends ahead of all queues.

use std::collections::VecDeque;

use crate::config::PfcConfig;
use crate::frame::FrameHandle;
use crate::pfc::PauseGenerator;

/// Largest number of MAC control frames that wait for a port's link.
pub(crate) const CONTROL_FRAMES_MAX: usize = 64;

/// The pause frames that a port must send, and the other MAC control frames that wait for its link.
#[derive(Debug)]
pub(crate) struct ControlFrames {
    pub(crate) generator: PauseGenerator,
    /// Frames that are sent unchanged, after all pause frames.
    pub(crate) queue: VecDeque<FrameHandle>,
}

impl ControlFrames {
    pub(super) fn new(config: &PfcConfig) -> ControlFrames {
        ControlFrames {
            generator: PauseGenerator::new(config),
            queue: VecDeque::new(),
        }
    }

    /// Reserves the memory of all waiting frames.
    pub(super) fn reserve_memory(&mut self) {
        self.queue.reserve(CONTROL_FRAMES_MAX);
    }

    /// Returns true if a frame waits.
    pub(super) fn has_waiting_frames(&self) -> bool {
        self.generator.has_pending_frames() || !self.queue.is_empty()
    }
}
