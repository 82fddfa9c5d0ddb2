//! Entries of the ring from an I/O worker to a switch worker.

use xoff_dataplane::{FrameHandle, Picos, PortId};
use xoff_wire::parse::ParsedHeaders;

use xoff_ports::PortFrame;

/// Entries of each ring between two workers. One million frames per second fill a ring in about 8 ms.
pub const RING_ENTRIES: usize = 8_192;

/// A received frame on its way from an I/O worker to the switch worker. The entry is small because each cache
/// line of it moves from one core to another.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedEntry {
    pub(super) received_ns: u64,
    /// Model time of the arrival, or [`Picos::NEVER`] if it is unknown.
    arrives_at: Picos,
    parsed: ParsedHeaders,
    pub(super) frame: FrameHandle,
    frame_len: u16,
    /// The port that received the frame.
    pub port: PortId,
}

const _: () = assert!(size_of::<ReceivedEntry>() == 40);

impl ReceivedEntry {
    /// Creates the entry of a frame that `port` has received.
    #[inline]
    pub fn new(port: PortId, received: &PortFrame) -> ReceivedEntry {
        debug_assert!(
            received.frame_len <= u32::from(u16::MAX),
            "a frame slot is shorter than 64 KiB"
        );
        ReceivedEntry {
            received_ns: received.received_ns,
            arrives_at: received.arrival.unwrap_or(Picos::NEVER),
            parsed: received.parsed,
            frame: received.frame,
            frame_len: received.frame_len as u16,
            port,
        }
    }

    /// Returns the received frame without its port.
    #[inline]
    pub fn received(&self) -> PortFrame {
        PortFrame {
            frame: self.frame,
            frame_len: u32::from(self.frame_len),
            parsed: self.parsed,
            received_ns: self.received_ns,
            arrival: Some(self.arrives_at).filter(|at| *at != Picos::NEVER),
        }
    }
}
