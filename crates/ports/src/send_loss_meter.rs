//! Counts the frames that the kernel drops instead of sending them.

use std::io;

use super::device_state::Device;
use super::drop_counts::KernelCounter;

/// Counts the frames that a network device drops instead of sending them. The device of a veth pair drops a frame if
/// the queue of the far end is full.
#[derive(Debug)]
pub struct SendLossMeter {
    device: Device,
    dropped: KernelCounter,
}

impl SendLossMeter {
    /// Opens the counter of the device `device` of the calling thread's namespace. Later calls work in any
    /// namespace.
    ///
    /// # Errors
    /// Returns an error if the device does not exist.
    pub fn open(device: &str) -> io::Result<SendLossMeter> {
        let mut device = Device::open(device)?;
        let dropped = KernelCounter::new(device.tx_dropped());
        Ok(SendLossMeter { device, dropped })
    }

    /// Returns the number of frames that the device has dropped since the last call, or since
    /// [`SendLossMeter::open`].
    pub fn take_lost_frames(&mut self) -> u64 {
        self.dropped.update(self.device.tx_dropped())
    }
}
