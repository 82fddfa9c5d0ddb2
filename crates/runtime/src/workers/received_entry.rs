//! The entries of the ring from an I/O worker to a switch worker.

use xoff_dataplane::{FrameHandle, Picos, PortId};
use xoff_wire::parse::ParsedHeaders;

use xoff_ports::PortFrame;

/// Number of entries of each ring between two workers. If the reading worker stalls at one million frames per
/// second, the ring is full after about 8 ms.
pub const RING_ENTRIES: usize = 8_192;

/// A received frame that an I/O worker passes to the switch worker. The cache lines of an entry move from one
/// core to another core. An entry is therefore small (40 bytes).
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
    /// Creates the entry of a frame that `port` has received. The frame is shorter than 64 KiB.
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

    /// Returns the received frame, without its port.
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
