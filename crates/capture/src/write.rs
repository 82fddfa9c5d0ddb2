//! Writing pcapng: little-endian, stamps in nanoseconds.
//!
//! Composed here rather than by a crate: `pcap-parser` only re-writes what it has read, the release of `pcap-file` is of
//! early 2023, and what records a running switch has to compose blocks in buffers that exist already. Four kinds of blocks
//! and a dozen options are all that is needed. `pcap-parser` reads them back in the tests.

use std::io::{self, Write};

use super::{Direction, LINK_TYPE_ETHERNET};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Octets of an enhanced packet block beside the frame: header, both lengths, and every option but the comment.
const PACKET_OVERHEAD: usize = 32 + 8 + 12 + 8 + 4;

/// What an interface description says.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceBlock<'a> {
    /// `if_name`.
    pub name: &'a str,
    /// `if_speed`, in Mb/s.
    pub speed_mbps: u32,
    /// `if_macaddr`.
    pub mac: Option<[u8; 6]>,
    /// Octets stored of each frame at most; 0: no limit.
    pub snaplen: u32,
}

/// A frame to write.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The interface, by the order of the descriptions.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Length on the wire, without FCS.
    pub len: u32,
    /// What is stored of it, in two parts, since a frame may lie in two places.
    pub data: [&'a [u8]; 2],
    /// Which way it went.
    pub direction: Direction,
    /// `epb_queue`.
    pub queue: Option<u32>,
    /// `epb_packetid`: the same for all copies of a frame.
    pub id: Option<u64>,
    /// `opt_comment`; empty for none.
    pub comment: &'a str,
}

/// Octets that [`packet`] appends at most for a frame of which `stored` octets are kept.
pub fn packet_bytes_max(stored: usize, comment: usize) -> usize {
    let options = match comment {
        0 => 0,
        comment => 4 + comment.next_multiple_of(4),
    };
    PACKET_OVERHEAD + stored.next_multiple_of(4) + options
}

/// Appends a section header. The comment is for whoever opens the file.
pub fn section(out: &mut Vec<u8>, comment: &str) {
    block(out, SECTION, |out| {
        put32(out, 0x1a2b_3c4d);
        out.extend_from_slice(&[1, 0, 0, 0]);
        // The length of the section is not known yet.
        out.extend_from_slice(&[0xff; 8]);
        option(out, 1, comment.as_bytes());
        option(out, 4, concat!("xoff ", env!("CARGO_PKG_VERSION")).as_bytes());
        end_of_options(out);
    });
}

/// Appends the description of an interface.
pub fn interface(out: &mut Vec<u8>, is: &InterfaceBlock<'_>) {
    block(out, INTERFACE, |out| {
        put32(out, LINK_TYPE_ETHERNET);
        put32(out, is.snaplen);
        option(out, 2, is.name.as_bytes());
        if let Some(mac) = is.mac {
            option(out, 6, &mac);
        }
        option(out, 8, &(u64::from(is.speed_mbps) * 1_000_000).to_le_bytes());
        option(out, 9, &[9]);
        end_of_options(out);
    });
}

/// Appends a frame.
#[inline]
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    block(out, PACKET, |out| {
        let [head, tail] = packet.data;
        put32(out, packet.interface);
        put32(out, (packet.at_ns >> 32) as u32);
        put32(out, packet.at_ns as u32);
        put32(out, (head.len() + tail.len()) as u32);
        put32(out, packet.len);
        out.extend_from_slice(head);
        out.extend_from_slice(tail);
        pad(out, head.len() + tail.len());
        option(out, 1, packet.comment.as_bytes());
        let direction = match packet.direction {
            Direction::Unknown => 0_u32,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        option(out, 2, &direction.to_le_bytes());
        if let Some(id) = packet.id {
            option(out, 5, &id.to_le_bytes());
        }
        if let Some(queue) = packet.queue {
            option(out, 6, &queue.to_le_bytes());
        }
        end_of_options(out);
    });
}

/// Appends what was counted on an interface: frames seen, and frames of them that are not in the file.
pub fn statistics(out: &mut Vec<u8>, interface: u32, at_ns: u64, seen: u64, missing: u64) {
    block(out, STATISTICS, |out| {
        put32(out, interface);
        put32(out, (at_ns >> 32) as u32);
        put32(out, at_ns as u32);
        option(out, 4, &seen.to_le_bytes());
        option(out, 5, &missing.to_le_bytes());
        end_of_options(out);
    });
}

/// A block: its type, its length before and behind its body.
#[inline]
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    put32(out, kind);
    put32(out, 0);
    body(out);
    let len = (out.len() - begin + 4) as u32;
    out[begin + 4..begin + 8].copy_from_slice(&len.to_le_bytes());
    put32(out, len);
}

/// An option; without a value, none.
#[inline]
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    // Texts here are sentences; a longer one than the format can say is cut.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

#[inline]
fn end_of_options(out: &mut Vec<u8>) {
    put32(out, 0);
}

#[inline]
fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&[0; 3][..len.next_multiple_of(4) - len]);
}

#[inline]
fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A pcapng file that is written frame by frame.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file with these interfaces.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, comment: &str, interfaces: &[InterfaceBlock<'_>]) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            block: Vec::new(),
        };
        section(&mut writer.block, comment);
        interfaces.iter().for_each(|is| interface(&mut writer.block, is));
        writer.out.write_all(&writer.block)?;
        Ok(writer)
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&mut self, frame: &Packet<'_>) -> io::Result<()> {
        self.block.clear();
        packet(&mut self.block, frame);
        self.out.write_all(&self.block)
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// Those of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
