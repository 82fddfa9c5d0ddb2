//! The interface of a network port and of a far host, for checks in real time.

use xoff_units::Picos;

use crate::far_host::{FarHostReply, FarHostRequest};
use crate::link_frame::Defect;

/// A frame that a network port received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedFrame {
    /// Time of the last bit, on the clock of [`PortAccess::now`].
    pub at: Picos,
    /// The frame without FCS.
    pub bytes: Vec<u8>,
}

/// A network port, a clock, and the far host on which the device under test is. The checks perform input and output
/// only through this trait.
pub trait PortAccess {
    /// Returns the time of a clock that never goes backwards.
    fn now(&mut self) -> Picos;

    /// Appends all received frames.
    ///
    /// # Errors
    /// The port does not exist any more, or its link is down. The text is the reason.
    fn receive(&mut self, frames: &mut Vec<ArrivedFrame>) -> Result<(), String>;

    /// Sends a frame without FCS. Returns the time at which the port has accepted it.
    ///
    /// # Errors
    /// As [`PortAccess::receive`].
    fn send(&mut self, frame: &[u8]) -> Result<Picos, String>;

    /// Waits until a frame or a reply arrives, or until `until`. May return earlier.
    fn wait(&mut self, until: Picos);

    /// Returns whether the port can send a frame with a defect.
    fn carries(&self, defect: Defect) -> bool;

    /// Returns the number of frames that the port has lost since the last call.
    fn count_lost_frames(&mut self) -> u64;

    /// Returns whether the user has interrupted the run.
    fn is_interrupted(&self) -> bool;

    /// Returns whether there is a far host that executes requests.
    fn has_far_host(&self) -> bool;

    /// Sends a request to the far host.
    ///
    /// # Errors
    /// The connection to the far host is lost. The text is the reason.
    fn send_request(&mut self, request: &FarHostRequest) -> Result<(), String>;

    /// Returns the reply of the far host if it has arrived.
    ///
    /// # Errors
    /// The connection to the far host is lost, or the far host sent no valid reply. The text is the reason.
    fn receive_reply(&mut self) -> Result<Option<FarHostReply>, String>;
}
