//! Parses the pcapng blocks that describe interfaces and frames (draft-ietf-opsawg-pcapng).
//!
//! The crate `pcap-parser` cannot be used here, because it rejects blocks that xoff must accept: blocks with
//! a malformed option, interfaces with a resolution that is a power of two, and obsolete packet blocks.

use std::ops::Range;

/// Option with the name of an interface (`if_name`).
const IF_NAME: u16 = 2;
/// Option with the MAC address of an interface (`if_MACaddr`).
const IF_MAC: u16 = 6;
/// Option with the resolution of time stamps (`if_tsresol`).
const IF_TSRESOL: u16 = 9;
/// Option with the length of the FCS (`if_fcslen`).
const IF_FCSLEN: u16 = 13;
/// Option with the offset of time stamps in seconds (`if_tsoffset`).
const IF_TSOFFSET: u16 = 14;
/// Option with the flags of a frame: `epb_flags` in enhanced packet blocks, and `pack_flags` in obsolete
/// packet blocks.
const PACKET_FLAGS: u16 = 2;
/// Resolution of time stamps if the option `if_tsresol` is missing: 10^-6 seconds.
const RESOLUTION_DEFAULT: u8 = 6;

/// Byte order of a pcap file or a pcapng section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    pub(super) fn read_u16(self, bytes: &[u8], offset: usize) -> Option<u16> {
        let bytes = *bytes.get(offset..)?.first_chunk()?;
        Some(match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(super) fn read_u32(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let bytes = *bytes.get(offset..)?.first_chunk()?;
        Some(match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    fn read_i64(self, bytes: &[u8]) -> Option<i64> {
        let bytes = *bytes.first_chunk()?;
        Some(match self {
            ByteOrder::Little => i64::from_le_bytes(bytes),
            ByteOrder::Big => i64::from_be_bytes(bytes),
        })
    }
}

/// An interface of a capture file.
///
/// Several sections of a file can describe the same interface. Two descriptions belong to the same interface
/// if their names, MAC addresses and link types are equal. If the interfaces have no name, they must also
/// have the same position in their sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface (`if_name`). `None` in pcap files, and if the option is missing.
    pub name: Option<String>,
    /// MAC address of the interface (`if_MACaddr`). `None` in pcap files, and if the option is missing.
    pub mac: Option<[u8; 6]>,
    /// Link type number (`LINKTYPE_` in pcap), such as [`LINK_TYPE_ETHERNET`](crate::LINK_TYPE_ETHERNET).
    pub link_type: u32,
    /// Largest number of bytes that the file stores of each frame. The value 0 means no limit.
    pub snaplen: u32,
}

/// The description of an interface in one section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InterfaceDescription {
    pub(super) interface: Interface,
    /// Resolution of time stamps in the encoding of `if_tsresol`.
    pub(super) resolution: u8,
    /// Number of seconds to add to every time stamp.
    pub(super) offset_s: i64,
    /// Number of FCS bytes that the capture stores after each frame (`if_fcslen`). The value 0 means no FCS.
    pub(super) fcs_bytes: u32,
}

impl InterfaceDescription {
    /// Parses the body of an interface description block. Returns `None` if the body is shorter than the
    /// fixed fields. Options after a malformed option are ignored.
    pub(super) fn parse(body: &[u8], order: ByteOrder) -> Option<InterfaceDescription> {
        let mut description = InterfaceDescription {
            interface: Interface {
                link_type: u32::from(order.read_u16(body, 0)?),
                snaplen: order.read_u32(body, 4)?,
                ..Interface::default()
            },
            resolution: RESOLUTION_DEFAULT,
            ..InterfaceDescription::default()
        };
        let interface = &mut description.interface;
        for (code, value) in parse_options(&body[8..], order) {
            match code {
                IF_NAME if !value.is_empty() => {
                    let name = String::from_utf8_lossy(value);
                    interface.name = Some(name.trim_end_matches('\0').to_owned());
                }
                IF_MAC => interface.mac = value.first_chunk().copied(),
                IF_TSRESOL => description.resolution = value.first().copied().unwrap_or(RESOLUTION_DEFAULT),
                IF_TSOFFSET => description.offset_s = order.read_i64(value).unwrap_or(0),
                IF_FCSLEN => {
                    description.fcs_bytes = value.first().map_or(0, |length| fcs_length_in_bytes(*length))
                }
                _ => {}
            }
        }
        Some(description)
    }

    /// Converts a time stamp to nanoseconds since 1970. The result is rounded down and limited to 64 bits.
    pub(super) fn stamp_to_ns(&self, stamp: u64) -> i64 {
        let power = u32::from(self.resolution & 0x7f);
        let stamp = u128::from(stamp);
        let ns = match self.resolution & 0x80 != 0 {
            // If the unit is 2^-94 seconds or less, every 64-bit time stamp is less than a nanosecond.
            true => (stamp * 1_000_000_000).checked_shr(power).unwrap_or(0),
            false if power <= 9 => stamp * 10_u128.pow(9 - power),
            false => 10_u128.checked_pow(power - 9).map_or(0, |unit| stamp / unit),
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Converts `if_fcslen` to bytes. The format does not define the unit of this option (pcapng issue 60).
/// Some writers use bytes, and others use bits. Values below 8 are taken as bytes, and values of 8 or more
/// as bits.
fn fcs_length_in_bytes(length: u8) -> u32 {
    match u32::from(length) {
        bytes @ 0..8 => bytes,
        bits => bits / 8,
    }
}

/// The fields of a parsed packet block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedPacketBlock {
    /// Number of the interface in its section, from 0.
    pub(super) interface: u32,
    /// Time stamp in units of the resolution of the interface. The value is `None` if the block has
    /// no time stamp.
    pub(super) stamp: Option<u64>,
    /// Range of the stored bytes in the body. In a simple packet block, this range includes the padding.
    pub(super) stored_range: Range<usize>,
    /// Original length of the frame in bytes. The value can include the FCS.
    pub(super) len: u32,
    /// Flags of the frame (`epb_flags`). The value is 0 if the option is missing.
    pub(super) flags: u32,
}

impl ParsedPacketBlock {
    /// Parses the body of an enhanced packet block (type 6). Returns `None` if the block is malformed.
    pub(super) fn parse_enhanced(body: &[u8], order: ByteOrder) -> Option<ParsedPacketBlock> {
        ParsedPacketBlock::parse_with_time_stamp(order.read_u32(body, 0)?, body, order)
    }

    /// Parses the body of an obsolete packet block (type 2). The layout is that of an enhanced packet block,
    /// except that the interface number has 16 bits, and a drop counter follows it. Returns `None` if the
    /// block is malformed.
    pub(super) fn parse_obsolete(body: &[u8], order: ByteOrder) -> Option<ParsedPacketBlock> {
        ParsedPacketBlock::parse_with_time_stamp(u32::from(order.read_u16(body, 0)?), body, order)
    }

    fn parse_with_time_stamp(interface: u32, body: &[u8], order: ByteOrder) -> Option<ParsedPacketBlock> {
        const FRAME_OFFSET: usize = 20;
        let word = |at| order.read_u32(body, at);
        let stored_range = FRAME_OFFSET..FRAME_OFFSET.checked_add(word(12)? as usize)?;
        body.get(stored_range.clone())?;
        let options_offset = stored_range.end.checked_next_multiple_of(4)?;
        let flags = parse_options(body.get(options_offset..).unwrap_or_default(), order)
            .find(|(code, _)| *code == PACKET_FLAGS)
            .and_then(|(_, value)| order.read_u32(value, 0));
        Some(ParsedPacketBlock {
            interface,
            stamp: Some(u64::from(word(4)?) << 32 | u64::from(word(8)?)),
            stored_range,
            len: word(16)?,
            flags: flags.unwrap_or(0),
        })
    }

    /// Parses the body of a simple packet block (type 3). The frame of such a block belongs to the first
    /// interface of the section. Returns `None` if the block is malformed.
    pub(super) fn parse_simple(body: &[u8], order: ByteOrder) -> Option<ParsedPacketBlock> {
        Some(ParsedPacketBlock {
            interface: 0,
            stamp: None,
            stored_range: 4..body.len(),
            len: order.read_u32(body, 0)?,
            flags: 0,
        })
    }
}

/// Returns the code and the value of each option in a block, up to the end marker or the first
/// malformed option.
fn parse_options(mut bytes: &[u8], order: ByteOrder) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, len) = (order.read_u16(bytes, 0)?, usize::from(order.read_u16(bytes, 2)?));
        let value = bytes.get(4..4 + len).filter(|_| code != 0)?;
        bytes = bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}
