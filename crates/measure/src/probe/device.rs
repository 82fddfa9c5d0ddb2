//! The interface between the threshold probe and a switch.

use xoff_telemetry::failure::Failure;

/// The method that holds frames in the switch, so that the buffer fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressHoldMethod {
    /// The tester pauses all priorities of the egress port with PFC frames. The switch needs no
    /// extra function for this method.
    Pause,
    /// The switch blocks its egress port. The tests of SONiC use the same method, with a scheduler
    /// of 1 byte/s.
    Block,
}

/// The frames that a switch has sent since the previous call of [`ProbeDevice::take_output`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOutput {
    /// Bit *n* is set if the switch sent XOFF for priority *n* to the sending port.
    pub xoff: u8,
    /// Bit *n* is set if the switch sent XON for priority *n* to the sending port.
    pub xon: u8,
    /// Numbers of the complete frames that left the switch at a receiving port, in the order of departure.
    /// Trimmed frames are left out.
    pub arrived: Vec<u32>,
}

/// A switch between the ports of a tester. One port sends, and one or more ports receive.
///
/// The tester does not honour the pauses that it receives. Implementations must ensure two conditions: the
/// switch has learned the receiving stations, and only frames of the tester pass the switch.
pub trait ProbeDevice {
    /// Returns the number of receiving ports.
    fn egress_count(&self) -> usize;

    /// Returns the length of a frame in bytes, with FCS.
    fn frame_bytes(&self) -> u32;

    /// Sends `frames` frames back to back to the station at a receiving port. `egress` is the index of the
    /// receiving port, below [`ProbeDevice::egress_count`]. Frame numbers start at 0 after
    /// [`ProbeDevice::reset_numbering`] and continue from call to call.
    ///
    /// # Errors
    /// The tester cannot send.
    fn send_frames(&mut self, egress: usize, frames: u32) -> Result<(), Failure>;

    /// Holds the frames for a receiving port in the switch, or releases them. `egress` is the index of the
    /// receiving port. Held frames stay in the switch until a call with `is_held` false releases them.
    ///
    /// # Errors
    /// The device does not support this method.
    fn set_hold(&mut self, egress: usize, method: EgressHoldMethod, is_held: bool) -> Result<(), Failure>;

    /// Waits until the switch is idle. The switch is idle when it has sent all frames that are not held, and
    /// the tester has received all PFC frames.
    ///
    /// # Errors
    /// The switch does not become idle.
    fn wait_until_idle(&mut self) -> Result<(), Failure>;

    /// Returns the PFC frames and data frames that the switch has sent since the previous call.
    fn take_output(&mut self) -> DeviceOutput;

    /// Restarts the numbers of the frames at 0.
    fn reset_numbering(&mut self);
}
