//! Headers of pcap files and of their records. Source: draft-ietf-opsawg-pcap; lengths of old versions: libpcap's `sf-pcap.c`.

use super::block::ByteOrder;

/// Length of the file header.
pub(super) const FILE_HEADER_LEN: usize = 24;
/// Bit of the link type field that says that the number of FCS words is valid.
const FCS_PRESENT: u32 = 0x0400_0000;

/// In which order a record header has its two lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthOrder {
    /// Stored length first, as in all versions since 2.4.
    StoredFirst,
    /// Length on the wire first, as in versions before 2.3.
    WireFirst,
    /// Version 2.3 has files of both kinds: the smaller one is what was stored.
    Either,
}

/// What a pcap file header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PcapFormat {
    pub(super) order: ByteOrder,
    pub(super) nanoseconds: bool,
    /// Length of a record header.
    pub(super) record_header_len: usize,
    pub(super) snaplen: u32,
    pub(super) link_type: u32,
    /// Bytes of frame check sequence behind each frame.
    pub(super) fcs_bytes: u32,
    lengths: LengthOrder,
}

/// Version of a format that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownVersion {
    pub(super) major: u16,
    pub(super) minor: u16,
}

/// A record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PcapRecord {
    pub(super) at_ns: i64,
    pub(super) stored: u32,
    pub(super) len: u32,
}

impl PcapFormat {
    /// Byte order, resolution and length of the record headers; `None`: these are not the first bytes of a pcap file.
    pub(super) fn of_magic(magic: [u8; 4]) -> Option<(ByteOrder, bool, usize)> {
        let read = |value: u32| {
            Some(match value {
                0xa1b2_c3d4 => (false, 16),
                0xa1b2_3c4d => (true, 16),
                // "Modified" pcap: with number, protocol and packet type of the interface.
                0xa1b2_cd34 => (false, 24),
                _ => return None,
            })
        };
        let little = read(u32::from_le_bytes(magic)).map(|(ns, len)| (ByteOrder::Little, ns, len));
        little.or_else(|| read(u32::from_be_bytes(magic)).map(|(ns, len)| (ByteOrder::Big, ns, len)))
    }

    /// Reads a file header whose first four bytes [`PcapFormat::of_magic`] knows.
    pub(super) fn parse(header: &[u8; FILE_HEADER_LEN]) -> Option<Result<PcapFormat, UnknownVersion>> {
        let (order, nanoseconds, record_header_len) = PcapFormat::of_magic(*header.first_chunk()?)?;
        let (major, minor) = (order.u16(header, 4)?, order.u16(header, 6)?);
        let lengths = match (major, minor) {
            (2, 0..3) => LengthOrder::WireFirst,
            (2, 3) => LengthOrder::Either,
            (2, _) => LengthOrder::StoredFirst,
            // DG/UX's tcpdump.
            (543, _) => LengthOrder::WireFirst,
            _ => return Some(Err(UnknownVersion { major, minor })),
        };
        let network = order.u32(header, 20)?;
        let fcs_words = match network & FCS_PRESENT {
            0 => 0,
            _ => network >> 28,
        };
        Some(Ok(PcapFormat {
            order,
            nanoseconds,
            record_header_len,
            snaplen: order.u32(header, 16)?,
            link_type: network & 0xffff,
            fcs_bytes: 2 * fcs_words,
            lengths,
        }))
    }

    /// Reads a record header; `None` if it is shorter than 16 bytes.
    pub(super) fn record(&self, header: &[u8]) -> Option<PcapRecord> {
        let word = |at| self.order.u32(header, at);
        let fraction_ns = if self.nanoseconds { 1 } else { 1_000 };
        let (first, second) = (word(8)?, word(12)?);
        let wire_first = match self.lengths {
            LengthOrder::StoredFirst => false,
            LengthOrder::WireFirst => true,
            LengthOrder::Either => first > second,
        };
        let (stored, len) = if wire_first {
            (second, first)
        } else {
            (first, second)
        };
        Some(PcapRecord {
            at_ns: i64::from(word(0)?) * 1_000_000_000 + i64::from(word(4)?) * fraction_ns,
            stored,
            len,
        })
    }
}
