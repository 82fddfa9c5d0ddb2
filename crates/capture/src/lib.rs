//! Reads and writes capture files. This crate contains a reader of pcap and pcapng, a writer of pcapng, and
//! the recorder of a running switch.
//!
//! [`Reader`] returns the frames of a file one by one. [`Writer`] writes a pcapng file. The functions of
//! [`pcapng_writer`] compose single blocks in memory. The module [`recorder`] records the frames of a running
//! switch (`--pcap`).
//!
//! # Examples
//!
//! Write a pcapng file to memory, and read the frame back:
//!
//! ```
//! use xoff_capture::pcapng_writer::InterfaceBlock;
//! use xoff_capture::{Direction, PacketBlock, Reader, Writer};
//!
//! let interface = InterfaceBlock { name: "Ethernet0", speed_mbps: 100_000, mac: None, snaplen: 0 };
//! let frame = PacketBlock {
//!     interface: 0,
//!     at_ns: 1_000,
//!     len: 60,
//!     data: [&[0x55; 60][..], &[]],
//!     direction: Direction::Inbound,
//!     queue: None,
//!     id: None,
//!     comment: "",
//! };
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, "one frame", &[interface])?;
//! writer.write(&frame)?;
//! writer.finish()?;
//!
//! let mut reader = Reader::new(file.as_slice())?;
//! let read = reader.next_frame()?.expect("the file has a frame");
//! assert_eq!((read.at_ns, read.data.len()), (Some(1_000), 60));
//! assert!(reader.next_frame()?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod interfaces;
mod pcap_header;
mod pcapng_block;
pub mod pcapng_writer;
mod reader;
pub mod recorder;

pub use error::{ReadError, ReadErrorKind};
pub use pcapng_block::Interface;
pub use pcapng_writer::{PacketBlock, Writer};
pub use reader::{CapturedFrame, FRAME_BYTES_MAX, Reader, UnusableReason};

/// Link type number of Ethernet in pcap and pcapng files (`LINKTYPE_ETHERNET`).
pub const LINK_TYPE_ETHERNET: u32 = 1;

/// Direction of a frame at the captured interface (bits 0 and 1 of the pcapng option `epb_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The file does not state the direction. pcap files never state it.
    #[default]
    Unknown,
    /// The interface received the frame.
    Inbound,
    /// The interface sent the frame.
    Outbound,
}

#[cfg(test)]
mod tests;
