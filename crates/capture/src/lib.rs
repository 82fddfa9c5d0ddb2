//! Capture files: pcap and pcapng in, pcapng out.
//!
//! [`Reader`] reads a file frame by frame. [`mod@write`] composes the blocks of a pcapng file and [`Writer`] writes them to a file; the
//! replay of a capture (`xoff replay`) and the recording of a running switch ([`live`]) use both.

mod block;
mod error;
mod interfaces;
pub mod live;
mod pcap;
mod read;
pub mod write;

pub use block::Interface;
pub use error::{ReadError, ReadErrorKind};
pub use read::{FRAME_BYTES_MAX, Reader, Record, Unusable};
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
