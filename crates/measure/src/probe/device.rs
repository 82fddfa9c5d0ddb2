//! What a probe sees of a switch.

use xoff_telemetry::failure::Failure;

/// How frames are kept in the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The tester pauses all priorities of the port they leave by, with PFC frames: needs nothing of the switch.
    Pause,
    /// The switch is told to hold the port back, as SONiC's tests do with a scheduler of 1 byte/s.
    Block,
}

/// What has come out of the switch since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bit *n*: a PFC frame on the sending port stopped priority *n*.
    pub xoff: u8,
    /// Bit *n*: a PFC frame on the sending port let priority *n* go.
    pub xon: u8,
    /// Numbers of the frames that came out whole, at any egress, in the order of their arrival. A trimmed frame is not whole.
    pub arrived: Vec<u32>,
}

/// A switch between ports of a tester: one that sends, and one or more that receive.
///
/// The tester does not obey the pauses that it receives. Whoever implements this sees to it that the switch knows where the
/// receiving stations are, and that nothing else passes.
pub trait Device {
    /// How many receiving ports there are.
    fn egresses(&self) -> usize;

    /// Bytes of a frame from destination address to FCS: what the switch charges.
    fn frame_bytes(&self) -> u32;

    /// Sends frames back to back to the station behind a receiving port. They are numbered from 0 since the last
    /// [`Device::restart`].
    ///
    /// # Errors
    /// What keeps the tester from sending.
    fn send(&mut self, egress: usize, frames: u32) -> Result<(), Failure>;

    /// Keeps frames from leaving by a receiving port, or lets them go. A pause is kept up until it is taken back.
    ///
    /// # Errors
    /// A way of holding that this device does not have.
    fn hold(&mut self, egress: usize, how: Hold, on: bool) -> Result<(), Failure>;

    /// Lets time pass until nothing moves any more: what could leave has left, what could be answered has been.
    ///
    /// # Errors
    /// It does not come to rest.
    fn wait(&mut self) -> Result<(), Failure>;

    /// What has come out since the last look.
    fn look(&mut self) -> Seen;

    /// Numbers begin with 0 again.
    fn restart(&mut self);
}
