//! The trait of loads, which send frames through the data plane.

use super::BURST_FRAMES;

/// A source of frames that sends through the data plane in memory, without ports.
pub trait FrameLoad {
    /// Sends at least `frames` frames and returns the number of sent frames.
    ///
    /// The number is below `frames` only if the traffic of the load ends, such as the jobs of a lab.
    fn run(&mut self, frames: u64) -> u64;

    /// Checks that the traffic so far was as intended. For example, no frame was lost, and every link
    /// was used.
    ///
    /// # Errors
    /// A description of the deviation.
    fn check(&self) -> Result<(), String>;
}

/// Calls `send_burst` until at least `frames` frames are sent, and returns the number of sent frames.
/// `send_burst` must send [`BURST_FRAMES`] frames.
pub fn run_bursts(frames: u64, mut send_burst: impl FnMut()) -> u64 {
    let bursts = frames.div_ceil(BURST_FRAMES as u64);
    (0..bursts).for_each(|_| send_burst());
    bursts * BURST_FRAMES as u64
}
