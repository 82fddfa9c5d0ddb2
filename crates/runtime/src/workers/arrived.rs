//! What goes over the ring from an I/O worker to the switch's worker.

use xoff_dataplane::{FrameHandle, Picos, PortId};
use xoff_wire::parse::ParsedHeaders;

use xoff_ports::Received;

/// Entries of each ring between workers. Enough for a stall of some milliseconds at a million frames a second.
pub const RING: usize = 8_192;

/// A frame that an I/O worker has received, on its way to the switch's worker: as short as it can be, since every cache line of it goes
/// from one core to the other.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub(super) received_ns: u64,
    /// [`Picos::NEVER`]: not known.
    arrives: Picos,
    parsed: ParsedHeaders,
    pub(super) frame: FrameHandle,
    frame_len: u16,
    /// The port that received the frame.
    pub port: PortId,
}

const _: () = assert!(size_of::<Arrived>() == 40);

impl Arrived {
    #[inline]
    /// The entry for a frame that a port has received.
    pub fn new(port: PortId, received: &Received) -> Arrived {
        debug_assert!(received.frame_len <= u32::from(u16::MAX), "no slot is so long");
        Arrived {
            received_ns: received.received_ns,
            arrives: received.arrives.unwrap_or(Picos::NEVER),
            parsed: received.parsed,
            frame: received.frame,
            frame_len: received.frame_len as u16,
            port,
        }
    }

    #[inline]
    /// The received frame without its port.
    pub fn received(&self) -> Received {
        Received {
            frame: self.frame,
            frame_len: u32::from(self.frame_len),
            parsed: self.parsed,
            received_ns: self.received_ns,
            arrives: Some(self.arrives).filter(|at| *at != Picos::NEVER),
        }
    }
}
