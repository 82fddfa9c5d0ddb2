//! Reading pcap and pcapng: either byte order, any resolution of time stamps, any number of sections.
//!
//! A frame that cannot be used ([`Unusable`]) is counted, and reading goes on behind it. Only damage that hides where the next frame
//! begins ends a capture; the frames before it have been read. No input panics, and no more is stored of a frame than
//! [`FRAME_BYTES_MAX`].

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::block::{ByteOrder, Description, Interface, PacketBlock};
use super::interfaces::{InterfaceTable, SectionInterface};
use super::pcap::{FILE_HEADER_LEN, PcapFormat};
use super::{Direction, LINK_TYPE_ETHERNET, ReadError, ReadErrorKind};

/// Longest usable frame, stored or on the wire: libpcap's own limit.
pub const FRAME_BYTES_MAX: u32 = 262_144;
/// Longest pcapng block that is read: a frame of the longest kind with options, with room to spare. Longer ones are passed over.
const BLOCK_BYTES_MAX: u32 = 16 << 20;
/// Major version of pcapng.
const PCAPNG_MAJOR: u16 = 1;

/// Type of a section header block, the same in both byte orders.
const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Bytes of a block in front of its body: type and length.
const BLOCK_HEAD_LEN: usize = 8;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// The interface it was captured on: an index of [`Reader::interfaces`].
    pub interface: usize,
    /// Time stamp in nanoseconds since 1970; `None` where the file has none (simple packet blocks).
    pub at_ns: Option<i64>,
    /// The stored bytes, without FCS.
    pub data: Vec<u8>,
    /// Length on the wire in bytes, without FCS.
    pub len: u32,
    /// Which way it passed the interface.
    pub direction: Direction,
}

/// Why a frame of a capture cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unusable {
    /// Its link type is not Ethernet.
    LinkType,
    /// It is longer than [`FRAME_BYTES_MAX`].
    TooLong,
    /// No interface description precedes it, or none that can be read.
    UnknownInterface,
    /// Its block contradicts itself.
    Malformed,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    Pcap(PcapFormat),
    Pcapng(ByteOrder),
}

/// A frame before its interface is looked up.
#[derive(Clone, Copy, Debug)]
struct FrameFields {
    interface: u32,
    stamp: Option<FrameStamp>,
    len: u32,
    flags: u32,
}

#[derive(Clone, Copy, Debug)]
enum FrameStamp {
    Nanoseconds(i64),
    /// In units of the interface's resolution.
    Units(u64),
}

/// A capture, frame by frame.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    format: Format,
    interfaces: InterfaceTable,
    /// Bytes of the source before the current block.
    offset: u64,
    /// Frames met, usable or not.
    frames: u64,
    unusable: BTreeMap<Unusable, u64>,
    /// The bytes of the current block read so far.
    block: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the file header.
    ///
    /// # Errors
    /// The source is no capture.
    pub fn new(source: R) -> Result<Reader<R>, ReadError> {
        let mut reader = Reader {
            source,
            format: Format::Pcapng(ByteOrder::Little),
            interfaces: InterfaceTable::default(),
            offset: 0,
            frames: 0,
            unusable: BTreeMap::new(),
            block: Vec::new(),
        };
        let mut magic = [0; 4];
        let got = reader.read_up_to(4)?;
        magic[..got].copy_from_slice(&reader.block);
        if got == 0 {
            return Err(reader.error(ReadErrorKind::Empty));
        } else if u32::from_le_bytes(magic) == SECTION {
            reader.section_header()?;
        } else if got == 4 && PcapFormat::of_magic(magic).is_some() {
            reader.pcap_header()?;
        } else {
            return Err(reader.error(ReadErrorKind::Magic(magic)));
        }
        Ok(reader)
    }

    /// The interfaces met so far. A pcap file has one.
    pub fn interfaces(&self) -> &[Interface] {
        self.interfaces.all()
    }

    /// Frames met so far that cannot be used, by reason.
    pub fn unusable(&self) -> &BTreeMap<Unusable, u64> {
        &self.unusable
    }

    /// The next usable frame; `None` at the end of the file.
    ///
    /// # Errors
    /// The file ends inside a block, or the begin of the next frame cannot be found. Nothing can be read after that.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let found = match self.format {
                Format::Pcap(format) => match self.pcap_record(&format)? {
                    Some(found) => found,
                    None => return Ok(None),
                },
                Format::Pcapng(_) => match self.begin_block()? {
                    Some((kind, order)) => self.packet_of_block(kind, order)?,
                    None => return Ok(None),
                },
            };
            self.end_block();
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Checks that there is an interface of Ethernet, or none at all.
    ///
    /// # Errors
    /// All interfaces have other link types.
    pub fn check_link_types(&self) -> Result<(), ReadError> {
        let is_ethernet = |interface: &Interface| interface.link_type == LINK_TYPE_ETHERNET;
        match self.interfaces().first() {
            Some(first) if !self.interfaces().iter().any(is_ethernet) => {
                Err(self.error(ReadErrorKind::LinkType {
                    number: first.link_type,
                    interface: first.name.clone(),
                }))
            }
            _ => Ok(()),
        }
    }

    fn pcap_header(&mut self) -> Result<(), ReadError> {
        self.read_up_to(FILE_HEADER_LEN - 4)?;
        let Some(header) = self.block.first_chunk() else {
            return Err(self.error(ReadErrorKind::HeaderCut));
        };
        let format = match PcapFormat::parse(header) {
            Some(Ok(format)) => format,
            Some(Err(version)) => {
                let why = format!("version {}.{} of pcap", version.major, version.minor);
                return Err(self.malformed(why));
            }
            None => return Err(self.malformed("its file header makes no sense")),
        };
        self.interfaces.add(Some(Description {
            interface: Interface {
                link_type: format.link_type,
                snaplen: format.snaplen,
                ..Interface::default()
            },
            fcs_bytes: format.fcs_bytes,
            ..Description::default()
        }));
        self.format = Format::Pcap(format);
        self.end_block();
        Ok(())
    }

    /// Reads the next record: `None` at the end of the file, `Some(None)` for an unusable frame.
    fn pcap_record(&mut self, format: &PcapFormat) -> Result<Option<Option<Record>>, ReadError> {
        let header_len = format.record_header_len;
        match self.read_up_to(header_len)? {
            0 => return Ok(None),
            got if got < header_len => return Err(self.cut(header_len - got)),
            _ => {}
        }
        let Some(header) = format.record(&self.block) else {
            return Err(self.cut(0));
        };
        if header.stored > FRAME_BYTES_MAX {
            self.skip(header.stored, "frame")?;
            return Ok(Some(self.leave_out(Unusable::TooLong)));
        }
        self.read_exactly(header.stored as usize)?;
        let data = self.block.split_off(header_len);
        let fields = FrameFields {
            interface: 0,
            stamp: Some(FrameStamp::Nanoseconds(header.at_ns)),
            len: header.len,
            flags: 0,
        };
        let found = self.record(fields, data);
        self.offset += u64::from(header.stored);
        Ok(Some(found))
    }

    /// Reads the next block that is no section header: its type, and the byte order it is written in. `None` at the end of the file.
    fn begin_block(&mut self) -> Result<Option<(u32, ByteOrder)>, ReadError> {
        loop {
            match self.read_up_to(BLOCK_HEAD_LEN)? {
                0 => return Ok(None),
                BLOCK_HEAD_LEN => {}
                got => return Err(self.cut(BLOCK_HEAD_LEN - got)),
            }
            let Format::Pcapng(order) = self.format else {
                return Ok(None);
            };
            match self.word(0, order) {
                SECTION => self.section_header()?,
                kind if self.word(4, order) > BLOCK_BYTES_MAX => self.pass_over_block(kind, order)?,
                kind => {
                    self.block_behind_head(order, false)?;
                    return Ok(Some((kind, order)));
                }
            }
        }
    }

    /// Passes over a block that is too long to be stored; its type and length are read.
    fn pass_over_block(&mut self, kind: u32, order: ByteOrder) -> Result<(), ReadError> {
        let len = self.word(4, order);
        self.skip(
            len.saturating_add(3) / 4 * 4 - (BLOCK_HEAD_LEN + 4) as u32,
            "block",
        )?;
        self.read_exactly(4)?;
        if self.word(BLOCK_HEAD_LEN, order) != len {
            return Err(self.malformed(format!(
                "a block that begins with the length {len} and ends with another"
            )));
        }
        match kind {
            1 => self.interfaces.add(None),
            2 | 3 | 6 => {
                self.leave_out(Unusable::TooLong);
            }
            _ => {}
        }
        self.end_block();
        Ok(())
    }

    /// Reads the rest of a section header, of which four or eight bytes are read: it has the byte order of what follows.
    fn section_header(&mut self) -> Result<(), ReadError> {
        let first = self.offset == 0;
        let missing = BLOCK_HEAD_LEN + 4 - self.block.len();
        let got = self.read_up_to(missing)?;
        if got < missing {
            return Err(match first {
                true => self.error(ReadErrorKind::HeaderCut),
                false => self.cut(missing - got),
            });
        }
        let order = match [ByteOrder::Little, ByteOrder::Big].map(|order| self.word(8, order)) {
            [BYTE_ORDER_MAGIC, _] => ByteOrder::Little,
            [_, BYTE_ORDER_MAGIC] => ByteOrder::Big,
            _ => return Err(self.malformed("a section whose byte order cannot be told")),
        };
        if self.word(4, order) < 28 {
            return Err(self.malformed("a section header that is too short"));
        }
        self.block_behind_head(order, first)?;
        let [major, minor] = [12, 14].map(|at| order.u16(&self.block, at).unwrap_or_default());
        if major != PCAPNG_MAJOR {
            return Err(self.malformed(format!("version {major}.{minor} of pcapng")));
        }
        self.format = Format::Pcapng(order);
        self.interfaces.begin_section();
        self.end_block();
        Ok(())
    }

    /// Reads a block to its end; its type and length are read. Some writers leave the padding out of the length.
    fn block_behind_head(&mut self, order: ByteOrder, is_file_header: bool) -> Result<(), ReadError> {
        let len = self.word(4, order);
        if !(12..=BLOCK_BYTES_MAX).contains(&len) {
            return Err(self.malformed(format!("a block of {len} bytes")));
        }
        let len = len as usize;
        let missing = len - self.block.len();
        let got = self.read_up_to(missing)?;
        if got < missing {
            return Err(match is_file_header {
                true => self.error(ReadErrorKind::HeaderCut),
                false => self.cut(missing - got),
            });
        }
        let ends_with_length = |reader: &Self| reader.word(reader.block.len() - 4, order) as usize == len;
        if !ends_with_length(self) {
            self.read_up_to(len.next_multiple_of(4) - len)?;
            if !ends_with_length(self) {
                return Err(self.malformed(format!(
                    "a block that begins with the length {len} and ends with another"
                )));
            }
        }
        Ok(())
    }

    /// The frame in the current block; `None` if there is none, or no usable one.
    fn packet_of_block(&mut self, kind: u32, order: ByteOrder) -> Result<Option<Record>, ReadError> {
        let body = &self.block[BLOCK_HEAD_LEN..self.block.len() - 4];
        let packet = match kind {
            1 => {
                let description = Description::parse(body, order);
                self.interfaces.add(description);
                return Ok(None);
            }
            2 => PacketBlock::obsolete(body, order),
            3 => PacketBlock::simple(body, order),
            6 => PacketBlock::enhanced(body, order),
            // Names, statistics, and blocks that are not known here.
            _ => return Ok(None),
        };
        let Some(packet) = packet else {
            return Ok(self.leave_out(Unusable::Malformed));
        };
        let mut data = body[packet.stored].to_vec();
        if packet.stamp.is_none() {
            // The body of a simple packet block ends with its padding.
            let first = self.interfaces.first_of_section();
            let snaplen = first.map_or(0, |first| first.description.interface.snaplen);
            let limit = if snaplen == 0 { u32::MAX } else { snaplen };
            data.truncate(packet.len.min(limit) as usize);
        }
        let fields = FrameFields {
            interface: packet.interface,
            stamp: packet.stamp.map(FrameStamp::Units),
            len: packet.len,
            flags: packet.flags,
        };
        Ok(self.record(fields, data))
    }

    /// The frame of the current block with the FCS taken off; `None` if it cannot be used.
    fn record(&mut self, fields: FrameFields, mut data: Vec<u8>) -> Option<Record> {
        let Some(SectionInterface { description, index }) = self.interfaces.of_section(fields.interface)
        else {
            return self.leave_out(Unusable::UnknownInterface);
        };
        if description.interface.link_type != LINK_TYPE_ETHERNET {
            return self.leave_out(Unusable::LinkType);
        }
        // Some writers leave the length on the wire 0; it is at least what was stored.
        let len = fields.len.max(data.len() as u32);
        if len > FRAME_BYTES_MAX {
            return self.leave_out(Unusable::TooLong);
        }
        let fcs_bytes = match fields.flags >> 5 & 0xf {
            0 => description.fcs_bytes,
            fcs_bytes => fcs_bytes,
        };
        let len = len.saturating_sub(fcs_bytes);
        data.truncate(len as usize);
        self.frames += 1;
        Some(Record {
            number: self.frames,
            offset: self.offset,
            interface: *index,
            at_ns: fields.stamp.map(|stamp| match stamp {
                FrameStamp::Nanoseconds(at_ns) => at_ns,
                FrameStamp::Units(stamp) => description.nanoseconds(stamp),
            }),
            data,
            len,
            direction: match fields.flags & 3 {
                1 => Direction::Inbound,
                2 => Direction::Outbound,
                _ => Direction::Unknown,
            },
        })
    }

    /// Counts a frame that cannot be used.
    fn leave_out(&mut self, reason: Unusable) -> Option<Record> {
        self.frames += 1;
        *self.unusable.entry(reason).or_default() += 1;
        None
    }

    /// A number of the current block, whose bytes are known to be there.
    fn word(&self, at: usize, order: ByteOrder) -> u32 {
        order.u32(&self.block, at).unwrap_or_default()
    }

    /// Adds up to `count` bytes of the source to the current block, and returns how many there were.
    fn read_up_to(&mut self, count: usize) -> Result<usize, ReadError> {
        let before = self.block.len();
        let read = io::Read::by_ref(&mut self.source)
            .take(count as u64)
            .read_to_end(&mut self.block);
        match read {
            Ok(_) => Ok(self.block.len() - before),
            Err(error) => Err(self.read_error(error)),
        }
    }

    /// Adds `count` bytes to the current block.
    fn read_exactly(&mut self, count: usize) -> Result<(), ReadError> {
        match self.read_up_to(count)? {
            got if got < count => Err(self.cut(count - got)),
            _ => Ok(()),
        }
    }

    /// Passes over what is too long to be stored, a frame or the rest of a block.
    fn skip(&mut self, count: u32, what: &str) -> Result<(), ReadError> {
        let mut skipped = io::Read::by_ref(&mut self.source).take(u64::from(count));
        match io::copy(&mut skipped, &mut io::sink()) {
            Ok(got) if got < u64::from(count) => Err(self.malformed(format!(
                "a {what} of {count} stored bytes, of which the file has {got}"
            ))),
            Ok(got) => {
                self.offset += got;
                Ok(())
            }
            Err(error) => Err(self.read_error(error)),
        }
    }

    fn end_block(&mut self) {
        self.offset += self.block.len() as u64;
        self.block.clear();
    }

    /// What a failed read means: a decompressor reports damaged data with these kinds, a file never does.
    fn read_error(&self, error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                self.malformed(format!("the compressed data cannot be read on: {error}"))
            }
            _ => self.error(ReadErrorKind::Io(error)),
        }
    }

    fn error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError {
            kind,
            frame: self.frames + 1,
            offset: self.offset,
        }
    }

    fn cut(&self, missing: usize) -> ReadError {
        self.error(ReadErrorKind::Cut {
            missing: missing as u64,
        })
    }

    fn malformed(&self, why: impl Into<String>) -> ReadError {
        self.error(ReadErrorKind::Malformed(why.into()))
    }
}
