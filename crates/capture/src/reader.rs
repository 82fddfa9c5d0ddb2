//! The reader of pcap and pcapng files. The reader accepts both byte orders, any resolution of time stamps
//! and any number of sections.
//!
//! If the reader cannot use a frame, it counts the frame ([`UnusableReason`]) and continues with the next
//! frame. The reader stops only if it cannot find the start of the next frame, because the file is damaged or
//! ends too early. All usable frames before this point are returned. No input causes a panic. The reader
//! returns no frame with more than [`FRAME_BYTES_MAX`] bytes.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::interfaces::{InterfaceTable, SectionInterface};
use super::pcap_header::{FILE_HEADER_LEN, PcapFormat};
use super::pcapng_block::{ByteOrder, Interface, InterfaceDescription, ParsedPacketBlock};
use super::{Direction, LINK_TYPE_ETHERNET, ReadError, ReadErrorKind};

/// Length of the longest usable frame in bytes (`MAXIMUM_SNAPLEN` of libpcap). The limit applies to the
/// stored length and to the original length. Longer frames are counted as [`UnusableReason::TooLong`].
pub const FRAME_BYTES_MAX: u32 = 262_144;
/// Size of the largest pcapng block that is read, in bytes. The largest frame and its options fit into such a
/// block. Longer blocks are skipped.
const BLOCK_BYTES_MAX: u32 = 16 << 20;
/// Major version of pcapng.
const PCAPNG_MAJOR: u16 = 1;

/// Type of a section header block. The number is the same in both byte orders.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Length of the type and length fields before the body of a block, in bytes.
const BLOCK_HEADER_LEN: usize = 8;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Number of the frame in the file, counted from 1 as in Wireshark. Unusable frames are also counted.
    pub number: u64,
    /// Offset of the record or block of the frame, in bytes from the start of the file.
    pub offset: u64,
    /// Index of the interface in [`Reader::interfaces`].
    pub interface: usize,
    /// Time stamp in nanoseconds since 1970-01-01 00:00 UTC. `None` if the frame is in a simple packet block,
    /// which has no time stamp.
    pub at_ns: Option<i64>,
    /// The stored bytes of the frame, without FCS. A capture with a snap length stores only the start of a
    /// long frame.
    pub data: Vec<u8>,
    /// Original length of the frame in bytes, without FCS. This length is at least the length of `data`.
    pub len: u32,
    /// Direction of the frame at the captured interface.
    pub direction: Direction,
}

/// The reason for which the reader cannot use a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnusableReason {
    /// The link type of the interface is not Ethernet.
    LinkType,
    /// The frame is longer than [`FRAME_BYTES_MAX`], or its pcapng block is longer than 16 MiB.
    TooLong,
    /// The description of the interface is missing or unreadable.
    UnknownInterface,
    /// The packet block of the frame is malformed.
    Malformed,
}

#[derive(Clone, Copy, Debug)]
enum FileFormat {
    Pcap(PcapFormat),
    Pcapng(ByteOrder),
}

/// The fields of a frame whose interface has not been looked up yet.
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
    /// Time stamp in the resolution of the interface (`if_tsresol`).
    Units(u64),
}

/// A reader of pcap and pcapng files. It returns the frames in the order of the file.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    format: FileFormat,
    interfaces: InterfaceTable,
    /// Number of bytes of the source before the current block.
    offset: u64,
    /// Number of frames read so far, usable or not.
    frames: u64,
    unusable: BTreeMap<UnusableReason, u64>,
    /// The bytes of the current block that have been read.
    block: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the file header and creates a reader of the frames.
    ///
    /// # Errors
    ///
    /// Returns an error if the source is empty, is neither pcap nor pcapng, or has a damaged or truncated
    /// header, or if the source cannot be read.
    pub fn new(source: R) -> Result<Reader<R>, ReadError> {
        let mut reader = Reader {
            source,
            format: FileFormat::Pcapng(ByteOrder::Little),
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
            return Err(reader.error_at_current_frame(ReadErrorKind::Empty));
        } else if u32::from_le_bytes(magic) == SECTION_HEADER {
            reader.read_section_header()?;
        } else if got == 4 && PcapFormat::parse_pcap_magic(magic).is_some() {
            reader.read_pcap_header()?;
        } else {
            return Err(reader.error_at_current_frame(ReadErrorKind::UnknownFormat(magic)));
        }
        Ok(reader)
    }

    /// Returns the interfaces that the reader has found so far. A pcap file has exactly one interface. A
    /// pcapng file can add interfaces at any place.
    pub fn interfaces(&self) -> &[Interface] {
        self.interfaces.all()
    }

    /// Returns the number of unusable frames so far, by reason. Reasons without a frame are missing.
    pub fn unusable(&self) -> &BTreeMap<UnusableReason, u64> {
        &self.unusable
    }

    /// Returns the next usable frame, or `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file ends inside a record or block, if the start of the next frame cannot be
    /// found, or if the source cannot be read. After an error, nothing more can be read.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame>, ReadError> {
        loop {
            let found = match self.format {
                FileFormat::Pcap(format) => match self.read_pcap_record(&format)? {
                    Some(found) => found,
                    None => return Ok(None),
                },
                FileFormat::Pcapng(_) => match self.read_block()? {
                    Some((kind, order)) => self.frame_in_block(kind, order)?,
                    None => return Ok(None),
                },
            };
            self.end_block();
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Checks that at least one interface found so far has the link type Ethernet. A file without interfaces
    /// passes the check.
    ///
    /// # Errors
    ///
    /// Returns [`ReadErrorKind::NoEthernet`] if all interfaces have other link types.
    pub fn check_link_types(&self) -> Result<(), ReadError> {
        let is_ethernet = |interface: &Interface| interface.link_type == LINK_TYPE_ETHERNET;
        match self.interfaces().first() {
            Some(first) if !self.interfaces().iter().any(is_ethernet) => {
                Err(self.error_at_current_frame(ReadErrorKind::NoEthernet {
                    number: first.link_type,
                    interface: first.name.clone(),
                }))
            }
            _ => Ok(()),
        }
    }

    fn read_pcap_header(&mut self) -> Result<(), ReadError> {
        self.read_up_to(FILE_HEADER_LEN - 4)?;
        let Some(header) = self.block.first_chunk() else {
            return Err(self.error_at_current_frame(ReadErrorKind::TruncatedHeader));
        };
        let format = match PcapFormat::parse(header) {
            Some(Ok(format)) => format,
            Some(Err(version)) => {
                let why = format!("version {}.{} of pcap", version.major, version.minor);
                return Err(self.malformed_error(why));
            }
            None => return Err(self.malformed_error("its file header is not valid")),
        };
        self.interfaces.add_to_section(Some(InterfaceDescription {
            interface: Interface {
                link_type: format.link_type,
                snaplen: format.snaplen,
                ..Interface::default()
            },
            fcs_bytes: format.fcs_bytes,
            ..InterfaceDescription::default()
        }));
        self.format = FileFormat::Pcap(format);
        self.end_block();
        Ok(())
    }

    /// Reads the next record of a pcap file. Returns `None` at the end of the file, and `Some(None)` for an
    /// unusable frame.
    fn read_pcap_record(&mut self, format: &PcapFormat) -> Result<Option<Option<CapturedFrame>>, ReadError> {
        let header_len = format.record_header_len;
        match self.read_up_to(header_len)? {
            0 => return Ok(None),
            got if got < header_len => return Err(self.truncated_error(header_len - got)),
            _ => {}
        }
        let Some(header) = format.parse_record_header(&self.block) else {
            return Err(self.truncated_error(0));
        };
        if header.stored_len > FRAME_BYTES_MAX {
            self.skip_bytes(header.stored_len, "frame")?;
            return Ok(Some(self.count_unusable(UnusableReason::TooLong)));
        }
        self.read_exactly(header.stored_len as usize)?;
        let data = self.block.split_off(header_len);
        let fields = FrameFields {
            interface: 0,
            stamp: Some(FrameStamp::Nanoseconds(header.at_ns)),
            len: header.len,
            flags: 0,
        };
        let found = self.finish_frame(fields, data);
        self.offset += u64::from(header.stored_len);
        Ok(Some(found))
    }

    /// Reads the next block that is neither a section header nor too long. Returns the type of the block and
    /// its byte order, or `None` at the end of the file.
    fn read_block(&mut self) -> Result<Option<(u32, ByteOrder)>, ReadError> {
        loop {
            match self.read_up_to(BLOCK_HEADER_LEN)? {
                0 => return Ok(None),
                BLOCK_HEADER_LEN => {}
                got => return Err(self.truncated_error(BLOCK_HEADER_LEN - got)),
            }
            let FileFormat::Pcapng(order) = self.format else {
                return Ok(None);
            };
            match self.read_u32(0, order) {
                SECTION_HEADER => self.read_section_header()?,
                kind if self.read_u32(4, order) > BLOCK_BYTES_MAX => self.skip_block(kind, order)?,
                kind => {
                    self.read_rest_of_block(order, false)?;
                    return Ok(Some((kind, order)));
                }
            }
        }
    }

    /// Skips the rest of a block that is too long. The type and the length of the block have already
    /// been read.
    fn skip_block(&mut self, kind: u32, order: ByteOrder) -> Result<(), ReadError> {
        let len = self.read_u32(4, order);
        self.skip_bytes(
            len.saturating_add(3) / 4 * 4 - (BLOCK_HEADER_LEN + 4) as u32,
            "block",
        )?;
        self.read_exactly(4)?;
        if self.read_u32(BLOCK_HEADER_LEN, order) != len {
            return Err(self.malformed_error(format!(
                "a block with the length {len} at its start and another length at its end"
            )));
        }
        match kind {
            1 => self.interfaces.add_to_section(None),
            2 | 3 | 6 => {
                self.count_unusable(UnusableReason::TooLong);
            }
            _ => {}
        }
        self.end_block();
        Ok(())
    }

    /// Reads the rest of a section header after its first four or eight bytes. The header determines
    /// the byte order.
    fn read_section_header(&mut self) -> Result<(), ReadError> {
        let first = self.offset == 0;
        let missing = BLOCK_HEADER_LEN + 4 - self.block.len();
        let got = self.read_up_to(missing)?;
        if got < missing {
            return Err(match first {
                true => self.error_at_current_frame(ReadErrorKind::TruncatedHeader),
                false => self.truncated_error(missing - got),
            });
        }
        let order = match [ByteOrder::Little, ByteOrder::Big].map(|order| self.read_u32(8, order)) {
            [BYTE_ORDER_MAGIC, _] => ByteOrder::Little,
            [_, BYTE_ORDER_MAGIC] => ByteOrder::Big,
            _ => return Err(self.malformed_error("a section with an unknown byte order")),
        };
        if self.read_u32(4, order) < 28 {
            return Err(self.malformed_error("a section header that is too short"));
        }
        self.read_rest_of_block(order, first)?;
        let [major, minor] = [12, 14].map(|at| order.read_u16(&self.block, at).unwrap_or_default());
        if major != PCAPNG_MAJOR {
            return Err(self.malformed_error(format!("version {major}.{minor} of pcapng")));
        }
        self.format = FileFormat::Pcapng(order);
        self.interfaces.begin_section();
        self.end_block();
        Ok(())
    }

    /// Reads the rest of a block after its type and length. Some writers leave the padding out of the length.
    /// For such a block, the padding is read too.
    fn read_rest_of_block(&mut self, order: ByteOrder, is_file_header: bool) -> Result<(), ReadError> {
        let len = self.read_u32(4, order);
        if !(12..=BLOCK_BYTES_MAX).contains(&len) {
            return Err(self.malformed_error(format!("a block with a length of {len}")));
        }
        let len = len as usize;
        let missing = len - self.block.len();
        let got = self.read_up_to(missing)?;
        if got < missing {
            return Err(match is_file_header {
                true => self.error_at_current_frame(ReadErrorKind::TruncatedHeader),
                false => self.truncated_error(missing - got),
            });
        }
        let ends_with_length = |reader: &Self| reader.read_u32(reader.block.len() - 4, order) as usize == len;
        if !ends_with_length(self) {
            self.read_up_to(len.next_multiple_of(4) - len)?;
            if !ends_with_length(self) {
                return Err(self.malformed_error(format!(
                    "a block with the length {len} at its start and another length at its end"
                )));
            }
        }
        Ok(())
    }

    /// Returns the frame in the current block. Returns `None` if the block contains no frame, or an
    /// unusable frame.
    fn frame_in_block(&mut self, kind: u32, order: ByteOrder) -> Result<Option<CapturedFrame>, ReadError> {
        let body = &self.block[BLOCK_HEADER_LEN..self.block.len() - 4];
        let packet = match kind {
            1 => {
                let description = InterfaceDescription::parse(body, order);
                self.interfaces.add_to_section(description);
                return Ok(None);
            }
            2 => ParsedPacketBlock::parse_obsolete(body, order),
            3 => ParsedPacketBlock::parse_simple(body, order),
            6 => ParsedPacketBlock::parse_enhanced(body, order),
            // Name resolution, statistics and unknown blocks.
            _ => return Ok(None),
        };
        let Some(packet) = packet else {
            return Ok(self.count_unusable(UnusableReason::Malformed));
        };
        let mut data = body[packet.stored_range].to_vec();
        if packet.stamp.is_none() {
            // The body of a simple packet block includes padding after the frame.
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
        Ok(self.finish_frame(fields, data))
    }

    /// Removes the FCS and returns the frame. Returns `None` if the frame is unusable.
    fn finish_frame(&mut self, fields: FrameFields, mut data: Vec<u8>) -> Option<CapturedFrame> {
        let Some(SectionInterface { description, index }) = self.interfaces.of_section(fields.interface)
        else {
            return self.count_unusable(UnusableReason::UnknownInterface);
        };
        if description.interface.link_type != LINK_TYPE_ETHERNET {
            return self.count_unusable(UnusableReason::LinkType);
        }
        // Some writers set the original length to 0. The true length is at least the stored length.
        let len = fields.len.max(data.len() as u32);
        if len > FRAME_BYTES_MAX {
            return self.count_unusable(UnusableReason::TooLong);
        }
        let fcs_bytes = match fields.flags >> 5 & 0xf {
            0 => description.fcs_bytes,
            fcs_bytes => fcs_bytes,
        };
        let len = len.saturating_sub(fcs_bytes);
        data.truncate(len as usize);
        self.frames += 1;
        Some(CapturedFrame {
            number: self.frames,
            offset: self.offset,
            interface: *index,
            at_ns: fields.stamp.map(|stamp| match stamp {
                FrameStamp::Nanoseconds(at_ns) => at_ns,
                FrameStamp::Units(stamp) => description.stamp_to_ns(stamp),
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

    /// Counts an unusable frame. The result is always `None`.
    fn count_unusable(&mut self, reason: UnusableReason) -> Option<CapturedFrame> {
        self.frames += 1;
        *self.unusable.entry(reason).or_default() += 1;
        None
    }

    /// Reads the number at offset `at` of the current block. The caller has checked the length of the block.
    fn read_u32(&self, at: usize, order: ByteOrder) -> u32 {
        order.read_u32(&self.block, at).unwrap_or_default()
    }

    /// Appends up to `count` bytes of the source to the current block. Returns the number of appended bytes.
    /// The number is smaller than `count` only at the end of the file.
    fn read_up_to(&mut self, count: usize) -> Result<usize, ReadError> {
        let before = self.block.len();
        let read = io::Read::by_ref(&mut self.source)
            .take(count as u64)
            .read_to_end(&mut self.block);
        match read {
            Ok(_) => Ok(self.block.len() - before),
            Err(error) => Err(self.convert_io_error(error)),
        }
    }

    /// Appends exactly `count` bytes of the source to the current block. Returns an error if the file
    /// ends earlier.
    fn read_exactly(&mut self, count: usize) -> Result<(), ReadError> {
        match self.read_up_to(count)? {
            got if got < count => Err(self.truncated_error(count - got)),
            _ => Ok(()),
        }
    }

    /// Skips `count` bytes of a frame or block that is too long. `subject` is `frame` or `block`, for the
    /// error message.
    fn skip_bytes(&mut self, count: u32, subject: &str) -> Result<(), ReadError> {
        let mut skipped = io::Read::by_ref(&mut self.source).take(u64::from(count));
        match io::copy(&mut skipped, &mut io::sink()) {
            Ok(got) if got < u64::from(count) => Err(self.malformed_error(format!(
                "the stored length of a {subject} is {count}, and the file has only {got} of these bytes"
            ))),
            Ok(got) => {
                self.offset += got;
                Ok(())
            }
            Err(error) => Err(self.convert_io_error(error)),
        }
    }

    fn end_block(&mut self) {
        self.offset += self.block.len() as u64;
        self.block.clear();
    }

    /// Converts an error of the source. `UnexpectedEof`, `InvalidData` and `InvalidInput` mean damaged
    /// compressed data: a decompressor reports them, but an uncompressed file never does.
    fn convert_io_error(&self, error: io::Error) -> ReadError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                self.malformed_error(format!("the compressed data is damaged: {error}"))
            }
            _ => self.error_at_current_frame(ReadErrorKind::Io(error)),
        }
    }

    fn error_at_current_frame(&self, kind: ReadErrorKind) -> ReadError {
        ReadError {
            kind,
            frame: self.frames + 1,
            offset: self.offset,
        }
    }

    fn truncated_error(&self, missing: usize) -> ReadError {
        self.error_at_current_frame(ReadErrorKind::Truncated {
            missing: missing as u64,
        })
    }

    fn malformed_error(&self, why: impl Into<String>) -> ReadError {
        self.error_at_current_frame(ReadErrorKind::Malformed(why.into()))
    }
}
