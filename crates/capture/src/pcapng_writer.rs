//! Composes pcapng blocks (draft-ietf-opsawg-pcapng) with little-endian numbers and time stamps
//! in nanoseconds.
//!
//! This module uses no crate for the format, because the recorder must compose blocks in existing buffers.
//! The crate `pcap-parser` writes only blocks that it has read, and the crate `pcap-file` has had no release
//! since early 2023. xoff needs only four kinds of blocks and a dozen options. The tests read the written
//! blocks with `pcap-parser`.

use std::io::{self, Write};

use bytes::BufMut;

use super::{Direction, LINK_TYPE_ETHERNET};

const SECTION_HEADER_BLOCK: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION_BLOCK: u32 = 1;
const INTERFACE_STATISTICS_BLOCK: u32 = 5;
const ENHANCED_PACKET_BLOCK: u32 = 6;
/// Code and length of the option that ends the options of a block (`opt_endofopt`).
const END_OF_OPTIONS: u32 = 0;
/// Number of bytes of the fixed fields and options in an enhanced packet block. The frame and the comment
/// option are not included.
const PACKET_BLOCK_OVERHEAD: usize = 32 + 8 + 12 + 8 + 4;

/// The contents of an interface description block (draft-ietf-opsawg-pcapng).
#[derive(Clone, Copy, Debug)]
pub struct InterfaceBlock<'a> {
    /// Name of the interface (`if_name`).
    pub name: &'a str,
    /// Speed of the interface in Mb/s (`if_speed`).
    pub speed_mbps: u32,
    /// MAC address of the interface (`if_MACaddr`). With `None`, the option is not written.
    pub mac: Option<[u8; 6]>,
    /// Largest number of bytes that the file stores of each frame. The value 0 means no limit.
    pub snaplen: u32,
}

/// The contents of an enhanced packet block (draft-ietf-opsawg-pcapng): one frame.
#[derive(Clone, Copy, Debug)]
pub struct PacketBlock<'a> {
    /// Number of the interface: its position among the interface description blocks of the section, from 0
    /// (pcapng Interface ID).
    pub interface: u32,
    /// Time stamp in nanoseconds since 1970-01-01 00:00 UTC.
    pub at_ns: u64,
    /// Original length of the frame in bytes, without FCS.
    pub len: u32,
    /// The stored bytes of the frame in two slices, because a frame in memory can be split. A slice may
    /// be empty.
    pub data: [&'a [u8]; 2],
    /// Direction of the frame at the interface (`epb_flags`).
    pub direction: Direction,
    /// Number of the queue (`epb_queue`). With `None`, the option is not written.
    pub queue: Option<u32>,
    /// Identifier of the frame (`epb_packetid`). All copies of a frame have the same identifier. With `None`,
    /// the option is not written.
    pub id: Option<u64>,
    /// Comment for people who read the file (`opt_comment`), at most 65 535 bytes. An empty text means
    /// no comment.
    pub comment: &'a str,
}

/// Returns the largest number of bytes that [`append_packet`] appends. `stored_len` is the number of stored
/// bytes of the frame, and `comment_len` is the length of the comment in bytes.
pub fn max_packet_block_bytes(stored_len: usize, comment_len: usize) -> usize {
    let options = match comment_len {
        0 => 0,
        comment_len => 4 + comment_len.next_multiple_of(4),
    };
    PACKET_BLOCK_OVERHEAD + stored_len.next_multiple_of(4) + options
}

/// Appends a section header block. `comment` is for people who read the file, and may be empty.
pub fn append_section_header(out: &mut Vec<u8>, comment: &str) {
    append_block(out, SECTION_HEADER_BLOCK, |out| {
        out.put_u32_le(0x1a2b_3c4d);
        out.put_slice(&[1, 0, 0, 0]);
        // The length of the section is unknown.
        out.put_bytes(0xff, 8);
        append_option(out, 1, comment.as_bytes());
        append_option(out, 4, concat!("xoff ", env!("CARGO_PKG_VERSION")).as_bytes());
        out.put_u32_le(END_OF_OPTIONS);
    });
}

/// Appends an interface description block.
pub fn append_interface(out: &mut Vec<u8>, interface: &InterfaceBlock<'_>) {
    append_block(out, INTERFACE_DESCRIPTION_BLOCK, |out| {
        out.put_u32_le(LINK_TYPE_ETHERNET);
        out.put_u32_le(interface.snaplen);
        append_option(out, 2, interface.name.as_bytes());
        if let Some(mac) = interface.mac {
            append_option(out, 6, &mac);
        }
        append_option(
            out,
            8,
            &(u64::from(interface.speed_mbps) * 1_000_000).to_le_bytes(),
        );
        append_option(out, 9, &[9]);
        out.put_u32_le(END_OF_OPTIONS);
    });
}

/// Appends an enhanced packet block.
#[inline]
pub fn append_packet(out: &mut Vec<u8>, packet: &PacketBlock<'_>) {
    append_block(out, ENHANCED_PACKET_BLOCK, |out| {
        let [head, tail] = packet.data;
        out.put_u32_le(packet.interface);
        out.put_u32_le((packet.at_ns >> 32) as u32);
        out.put_u32_le(packet.at_ns as u32);
        out.put_u32_le((head.len() + tail.len()) as u32);
        out.put_u32_le(packet.len);
        out.put_slice(head);
        out.put_slice(tail);
        append_padding(out, head.len() + tail.len());
        append_option(out, 1, packet.comment.as_bytes());
        let direction = match packet.direction {
            Direction::Unknown => 0_u32,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        append_option(out, 2, &direction.to_le_bytes());
        if let Some(id) = packet.id {
            append_option(out, 5, &id.to_le_bytes());
        }
        if let Some(queue) = packet.queue {
            append_option(out, 6, &queue.to_le_bytes());
        }
        out.put_u32_le(END_OF_OPTIONS);
    });
}

/// Appends an interface statistics block. `interface` is the number of the interface, and `at_ns` is the time
/// in nanoseconds since 1970. `passed` is the number of frames that passed the interface (`isb_ifrecv`).
/// `missing` is the number of passed frames that are missing in the file (`isb_ifdrop`).
pub fn append_statistics(out: &mut Vec<u8>, interface: u32, at_ns: u64, passed: u64, missing: u64) {
    append_block(out, INTERFACE_STATISTICS_BLOCK, |out| {
        out.put_u32_le(interface);
        out.put_u32_le((at_ns >> 32) as u32);
        out.put_u32_le(at_ns as u32);
        append_option(out, 4, &passed.to_le_bytes());
        append_option(out, 5, &missing.to_le_bytes());
        out.put_u32_le(END_OF_OPTIONS);
    });
}

/// Appends a block: the type, the length, the body, and the length again.
#[inline]
fn append_block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.put_u32_le(kind);
    out.put_u32_le(0);
    body(out);
    let len = (out.len() - begin + 4) as u32;
    out[begin + 4..begin + 8].copy_from_slice(&len.to_le_bytes());
    out.put_u32_le(len);
}

/// Appends an option. An empty value appends nothing.
#[inline]
fn append_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    // The format limits the length of an option to 65 535 bytes. A longer value is cut.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.put_u16_le(code);
    out.put_u16_le(value.len() as u16);
    out.put_slice(value);
    append_padding(out, value.len());
}

#[inline]
fn append_padding(out: &mut Vec<u8>, len: usize) {
    out.put_bytes(0, len.next_multiple_of(4) - len);
}

/// A writer of a pcapng file with one section. Each call writes one block to `out`.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the section header and the interface descriptions. The number of an interface is its index in
    /// `interfaces`. An empty `comment` means no comment.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn new(out: W, comment: &str, interfaces: &[InterfaceBlock<'_>]) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            block: Vec::new(),
        };
        append_section_header(&mut writer.block, comment);
        interfaces
            .iter()
            .for_each(|interface| append_interface(&mut writer.block, interface));
        writer.out.write_all(&writer.block)?;
        Ok(writer)
    }

    /// Appends a frame as an enhanced packet block.
    ///
    /// # Errors
    ///
    /// Returns the error of the output.
    pub fn write(&mut self, frame: &PacketBlock<'_>) -> io::Result<()> {
        self.block.clear();
        append_packet(&mut self.block, frame);
        self.out.write_all(&self.block)
    }

    /// Flushes the output and returns it. A writer that is dropped without this call does not flush.
    ///
    /// # Errors
    ///
    /// Returns the error of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
