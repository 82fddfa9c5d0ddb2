//! Capture files: pcap and pcapng in, pcapng out.
//!
//! [`Reader`] walks through a file frame by frame and says of what it cannot read which frame it is and where it lies.
//! [`mod@write`] composes the blocks of a pcapng file; [`Writer`] puts them in a file. Both are used twice: by the replay of a
//! capture (`crate::replay`), and, from [`live`], by what records the frames of a switch that runs.

mod block;
mod error;
pub mod live;
mod read;
pub mod write;

pub use block::Interface;
pub use error::{ReadError, Trouble};
pub use read::{FRAME_BYTES_MAX, Reader, Record};
pub use write::{Packet, Writer};

/// `LINKTYPE_ETHERNET`: the only one a switch has ports for.
pub const LINK_TYPE_ETHERNET: u32 = 1;

/// Which way a frame passed the place of the capture (`epb_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

#[cfg(test)]
mod tests;
