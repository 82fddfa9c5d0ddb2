//! Headers of pcap files and of their records (draft-ietf-opsawg-pcap). A record has two lengths: the length
//! of the frame and the number of stored bytes. Old versions of the format store these lengths in reverse
//! order. This module handles old versions like `sf-pcap.c` of libpcap.

use super::pcapng_block::ByteOrder;

/// Length of the file header in bytes.
pub(super) const FILE_HEADER_LEN: usize = 24;
/// Bit in the link type field of a file header. If the bit is set, the highest four bits of this field
/// contain the number of 16-bit FCS words.
const FCS_PRESENT: u32 = 0x0400_0000;

/// Order of the two lengths in a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordLengthOrder {
    /// Stored length first, as in all versions since 2.4.
    StoredFirst,
    /// Original length first, as in versions before 2.3.
    OriginalFirst,
    /// Files of version 2.3 use both orders. The smaller length is the stored length.
    Either,
}

/// The contents of a pcap file header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PcapFormat {
    pub(super) order: ByteOrder,
    pub(super) has_nanoseconds: bool,
    /// Length of a record header in bytes.
    pub(super) record_header_len: usize,
    pub(super) snaplen: u32,
    pub(super) link_type: u32,
    /// Number of FCS bytes after each frame.
    pub(super) fcs_bytes: u32,
    length_order: RecordLengthOrder,
}

/// A version of pcap that is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnsupportedVersion {
    pub(super) major: u16,
    pub(super) minor: u16,
}

/// The contents of a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PcapRecord {
    pub(super) at_ns: i64,
    pub(super) stored_len: u32,
    pub(super) len: u32,
}

impl PcapFormat {
    /// Returns three properties of a file that starts with `magic`: the byte order, whether time stamps are
    /// in nanoseconds, and the length of the record headers. Returns `None` if `magic` is not the magic
    /// number of pcap.
    pub(super) fn parse_pcap_magic(magic: [u8; 4]) -> Option<(ByteOrder, bool, usize)> {
        let read = |value: u32| {
            Some(match value {
                0xa1b2_c3d4 => (false, 16),
                0xa1b2_3c4d => (true, 16),
                // "Modified" pcap: the record header also contains the interface number, the protocol and the
                // packet type.
                0xa1b2_cd34 => (false, 24),
                _ => return None,
            })
        };
        let little = read(u32::from_le_bytes(magic)).map(|(ns, len)| (ByteOrder::Little, ns, len));
        little.or_else(|| read(u32::from_be_bytes(magic)).map(|(ns, len)| (ByteOrder::Big, ns, len)))
    }

    /// Reads a file header. Returns `None` if its first four bytes are not the magic number of a pcap file.
    pub(super) fn parse(header: &[u8; FILE_HEADER_LEN]) -> Option<Result<PcapFormat, UnsupportedVersion>> {
        let (order, has_nanoseconds, record_header_len) =
            PcapFormat::parse_pcap_magic(*header.first_chunk()?)?;
        let (major, minor) = (order.read_u16(header, 4)?, order.read_u16(header, 6)?);
        let length_order = match (major, minor) {
            (2, 0..3) => RecordLengthOrder::OriginalFirst,
            (2, 3) => RecordLengthOrder::Either,
            (2, _) => RecordLengthOrder::StoredFirst,
            // The tcpdump of DG/UX.
            (543, _) => RecordLengthOrder::OriginalFirst,
            _ => return Some(Err(UnsupportedVersion { major, minor })),
        };
        let network = order.read_u32(header, 20)?;
        let fcs_words = match network & FCS_PRESENT {
            0 => 0,
            _ => network >> 28,
        };
        Some(Ok(PcapFormat {
            order,
            has_nanoseconds,
            record_header_len,
            snaplen: order.read_u32(header, 16)?,
            link_type: network & 0xffff,
            fcs_bytes: 2 * fcs_words,
            length_order,
        }))
    }

    /// Reads a record header. Returns `None` if `header` is shorter than 16 bytes.
    pub(super) fn parse_record_header(&self, header: &[u8]) -> Option<PcapRecord> {
        let word = |at| self.order.read_u32(header, at);
        let fraction_ns = if self.has_nanoseconds { 1 } else { 1_000 };
        let (first, second) = (word(8)?, word(12)?);
        let is_original_first = match self.length_order {
            RecordLengthOrder::StoredFirst => false,
            RecordLengthOrder::OriginalFirst => true,
            RecordLengthOrder::Either => first > second,
        };
        let (stored_len, len) = if is_original_first {
            (second, first)
        } else {
            (first, second)
        };
        Some(PcapRecord {
            at_ns: i64::from(word(0)?) * 1_000_000_000 + i64::from(word(4)?) * fraction_ns,
            stored_len,
            len,
        })
    }
}
