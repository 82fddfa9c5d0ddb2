//! The fields of pcapng blocks that matter to a reader of frames.
//!
//! Blocks are taken apart here rather than by `pcap-parser`, which refuses a whole block for one malformed option, a resolution that
//! is a power of two and obsolete packet blocks. Source of all layouts: draft-ietf-opsawg-pcapng.

use std::ops::Range;

/// `if_name`.
const IF_NAME: u16 = 2;
/// `if_MACaddr`.
const IF_MAC: u16 = 6;
/// `if_tsresol`.
const IF_TSRESOL: u16 = 9;
/// `if_fcslen`.
const IF_FCSLEN: u16 = 13;
/// `if_tsoffset`.
const IF_TSOFFSET: u16 = 14;
/// `epb_flags` of enhanced packet blocks, `pack_flags` of obsolete ones.
const PACKET_FLAGS: u16 = 2;
/// Resolution of interfaces without `if_tsresol`: microseconds.
const RESOLUTION_DEFAULT: u8 = 6;

/// Byte order of a file or a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    fn i64(self, bytes: &[u8]) -> Option<i64> {
        let bytes = *bytes.first_chunk()?;
        Some(match self {
            ByteOrder::Little => i64::from_le_bytes(bytes),
            ByteOrder::Big => i64::from_be_bytes(bytes),
        })
    }
}

/// An interface of a capture.
///
/// Sections that describe the same interface (name, hardware address and link type) share one. Interfaces without a name are the same
/// if they also have the same position in their sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// `if_name`.
    pub name: Option<String>,
    /// `if_MACaddr`.
    pub mac: Option<[u8; 6]>,
    /// `LINKTYPE_` number.
    pub link_type: u32,
    /// Bytes stored of each frame at most; 0: no limit.
    pub snaplen: u32,
}

/// An interface as one section describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) interface: Interface,
    /// `if_tsresol` as it is in the file.
    pub(super) resolution: u8,
    /// Seconds to add to every time stamp.
    pub(super) offset_s: i64,
    /// Bytes of frame check sequence that the capture holds behind each frame.
    pub(super) fcs_bytes: u32,
}

impl Description {
    /// Reads the body of an interface description block; `None` if it is shorter than its fixed fields. Malformed options and those
    /// behind them are ignored.
    pub(super) fn parse(body: &[u8], order: ByteOrder) -> Option<Description> {
        let mut description = Description {
            interface: Interface {
                link_type: u32::from(order.u16(body, 0)?),
                snaplen: order.u32(body, 4)?,
                ..Interface::default()
            },
            resolution: RESOLUTION_DEFAULT,
            ..Description::default()
        };
        let interface = &mut description.interface;
        for (code, value) in options(&body[8..], order) {
            match code {
                IF_NAME if !value.is_empty() => {
                    let name = String::from_utf8_lossy(value);
                    interface.name = Some(name.trim_end_matches('\0').to_owned());
                }
                IF_MAC => interface.mac = value.first_chunk().copied(),
                IF_TSRESOL => description.resolution = value.first().copied().unwrap_or(RESOLUTION_DEFAULT),
                IF_TSOFFSET => description.offset_s = order.i64(value).unwrap_or(0),
                IF_FCSLEN => description.fcs_bytes = value.first().map_or(0, |length| fcs_bytes(*length)),
                _ => {}
            }
        }
        Some(description)
    }

    /// A time stamp in nanoseconds since 1970, rounded down and limited to what 64 bits hold.
    pub(super) fn nanoseconds(&self, stamp: u64) -> i64 {
        let power = u32::from(self.resolution & 0x7f);
        let stamp = u128::from(stamp);
        let ns = match self.resolution & 0x80 != 0 {
            // A stamp has 64 bits: in units of 2^-94 seconds and less it is below a nanosecond.
            true => (stamp * 1_000_000_000).checked_shr(power).unwrap_or(0),
            false if power <= 9 => stamp * 10_u128.pow(9 - power),
            false => 10_u128.checked_pow(power - 9).map_or(0, |unit| stamp / unit),
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// `if_fcslen` in bytes. The format leaves its unit open (pcapng issue 60), and writers use both. No FCS is shorter than a byte, so a
/// value below 8 counts bytes, and one of 8 and more counts bits.
fn fcs_bytes(length: u8) -> u32 {
    match u32::from(length) {
        bytes @ 0..8 => bytes,
        bits => bits / 8,
    }
}

/// A frame as its block describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PacketBlock {
    /// As numbered in the section.
    pub(super) interface: u32,
    /// In units of the interface's resolution; `None` if the block has no time stamp.
    pub(super) stamp: Option<u64>,
    /// Where the stored bytes are in the body. In a simple packet block they include the padding.
    pub(super) stored: Range<usize>,
    /// Length on the wire.
    pub(super) len: u32,
    /// `epb_flags`; 0 if absent.
    pub(super) flags: u32,
}

impl PacketBlock {
    /// Reads the body of an enhanced packet block (type 6); `None` if it contradicts itself.
    pub(super) fn enhanced(body: &[u8], order: ByteOrder) -> Option<PacketBlock> {
        PacketBlock::with_stamp(order.u32(body, 0)?, body, order)
    }

    /// Reads the body of an obsolete packet block (type 2): it differs by an interface number of 16 bits and a drop counter.
    pub(super) fn obsolete(body: &[u8], order: ByteOrder) -> Option<PacketBlock> {
        PacketBlock::with_stamp(u32::from(order.u16(body, 0)?), body, order)
    }

    fn with_stamp(interface: u32, body: &[u8], order: ByteOrder) -> Option<PacketBlock> {
        const FRAME_AT: usize = 20;
        let word = |at| order.u32(body, at);
        let stored = FRAME_AT..FRAME_AT.checked_add(word(12)? as usize)?;
        body.get(stored.clone())?;
        let options_at = stored.end.checked_next_multiple_of(4)?;
        let flags = options(body.get(options_at..).unwrap_or_default(), order)
            .find(|(code, _)| *code == PACKET_FLAGS)
            .and_then(|(_, value)| order.u32(value, 0));
        Some(PacketBlock {
            interface,
            stamp: Some(u64::from(word(4)?) << 32 | u64::from(word(8)?)),
            stored,
            len: word(16)?,
            flags: flags.unwrap_or(0),
        })
    }

    /// Reads the body of a simple packet block (type 3), which belongs to the section's first interface.
    pub(super) fn simple(body: &[u8], order: ByteOrder) -> Option<PacketBlock> {
        Some(PacketBlock {
            interface: 0,
            stamp: None,
            stored: 4..body.len(),
            len: order.u32(body, 0)?,
            flags: 0,
        })
    }
}

/// The options of a block, up to the end marker or the first malformed one.
fn options(mut bytes: &[u8], order: ByteOrder) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, len) = (order.u16(bytes, 0)?, usize::from(order.u16(bytes, 2)?));
        let value = bytes.get(4..4 + len).filter(|_| code != 0)?;
        bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}
