//! Reading pcap and pcapng, either byte order, microseconds or nanoseconds or any other resolution.
//!
//! `pcap-parser` (0.17, the maintained one) takes blocks and options apart. Where blocks begin and end is found here, since
//! its readers keep neither the offset of what they refuse nor the error of the file; and time stamps are computed here,
//! since it refuses resolutions that are powers of two, and reads `if_tsoffset` in one byte order only.
//!
//! Nothing here panics on any input, and no more is stored than a frame may be long.

use std::io::{self, Read};

use pcap_parser::pcapng::Block;
use pcap_parser::{
    PcapHeader, parse_block_be, parse_block_le, parse_pcap_frame, parse_pcap_frame_be,
    parse_pcap_frame_modified, parse_pcap_header,
};

use super::block::{Found, Interface};
use super::{Direction, LINK_TYPE_ETHERNET, ReadError, Trouble};

/// Longest frame a capture may hold, captured or on the wire: libpcap's own limit. More is damage.
pub const FRAME_BYTES_MAX: u32 = 262_144;
/// Longest pcapng block: a frame of the longest kind with options, with room to spare.
const BLOCK_BYTES_MAX: u32 = 16 << 20;
/// Interfaces of one file.
const INTERFACES_MAX: usize = 4_096;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// The interface it was seen on: an index of [`Reader::interfaces`].
    pub interface: usize,
    /// When it was seen, in nanoseconds since 1970; `None` where the file does not say (simple packet blocks).
    pub at_ns: Option<i64>,
    /// What was stored of it, without FCS.
    pub data: Vec<u8>,
    /// Its length on the wire, without FCS.
    pub len: u32,
    /// Which way it went.
    pub direction: Direction,
}

#[derive(Debug)]
enum Format {
    Pcap(PcapHeader),
    Pcapng {
        big_endian: bool,
        /// Index of the first interface of the current section.
        first_interface: usize,
    },
}

/// A capture, frame by frame.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    format: Format,
    interfaces: Vec<Interface>,
    /// Octets of the source that are behind us.
    offset: u64,
    /// Frames read.
    frames: u64,
    /// The block in hand.
    block: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the file header.
    ///
    /// # Errors
    /// It is no capture, or not of Ethernet.
    pub fn new(source: R) -> Result<Reader<R>, ReadError> {
        let mut reader = Reader {
            source,
            format: Format::Pcapng {
                big_endian: false,
                first_interface: 0,
            },
            interfaces: Vec::new(),
            offset: 0,
            frames: 0,
            block: Vec::new(),
        };
        let magic = match reader.more(4)? {
            0 => return Err(reader.error(Trouble::Empty)),
            4 => [reader.block[0], reader.block[1], reader.block[2], reader.block[3]],
            got => {
                let mut magic = [0; 4];
                magic[..got].copy_from_slice(&reader.block);
                return Err(reader.error(Trouble::Magic(magic)));
            }
        };
        if u32::from_le_bytes(magic) == SECTION {
            reader.section_header()?;
            return Ok(reader);
        }
        let known = matches!(
            u32::from_le_bytes(magic),
            0xa1b2_c3d4 | 0xa1b2_3c4d | 0xa1b2_cd34 | 0xd4c3_b2a1 | 0x4d3c_b2a1
        );
        if !known {
            return Err(reader.error(Trouble::Magic(magic)));
        }
        reader.pcap_header()?;
        Ok(reader)
    }

    /// The interfaces met so far. A pcap file has one.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The next frame; `None` at the end of the file.
    ///
    /// # Errors
    /// The file ends in the middle of something, or says what cannot be. Nothing can be read after that.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        match &self.format {
            Format::Pcap(header) => {
                let header = header.clone();
                self.pcap_record(&header)
            }
            Format::Pcapng { .. } => loop {
                if !self.begin_block()? {
                    return Ok(None);
                }
                if let Some(record) = self.block_record()? {
                    return Ok(Some(record));
                }
            },
        }
    }

    fn pcap_header(&mut self) -> Result<(), ReadError> {
        if self.more(20)? < 20 {
            return Err(self.error(Trouble::HeaderCut));
        }
        let Ok((_, header)) = parse_pcap_header(&self.block) else {
            return Err(self.malformed("its file header makes no sense"));
        };
        if header.version_major != 2 {
            let why = format!(
                "version {}.{} of pcap",
                header.version_major, header.version_minor
            );
            return Err(self.malformed(why));
        }
        // The upper half says whether an FCS follows each frame, and of how many 16-bit words.
        let network = header.network.0 as u32;
        let fcs_words = if network & 0x0400_0000 != 0 {
            network >> 28
        } else {
            0
        };
        let nanoseconds = header.is_nanosecond_precision();
        self.interfaces.push(Interface {
            link_type: network & 0xffff,
            snaplen: header.snaplen,
            resolution: if nanoseconds { 9 } else { 6 },
            fcs_bytes: 2 * fcs_words,
            ..Interface::default()
        });
        self.check_link_type(0)?;
        self.format = Format::Pcap(header);
        self.end_block();
        Ok(())
    }

    fn pcap_record(&mut self, header: &PcapHeader) -> Result<Option<Record>, ReadError> {
        let header_len = if header.is_modified_format() { 24 } else { 16 };
        match self.more(header_len)? {
            0 => return Ok(None),
            got if got < header_len => return Err(self.cut(header_len - got)),
            _ => {}
        }
        let word = self.word(8, header.is_bigendian());
        self.check_length(word, "captured")?;
        self.need(word as usize)?;
        let parsed = match (header.is_modified_format(), header.is_bigendian()) {
            (true, _) => parse_pcap_frame_modified(&self.block),
            (false, true) => parse_pcap_frame_be(&self.block),
            (false, false) => parse_pcap_frame(&self.block),
        };
        let Ok((_, frame)) = parsed else {
            return Err(self.malformed("a frame header that makes no sense"));
        };
        let stamp = (frame.ts_sec, frame.ts_usec);
        let (len, data) = (frame.origlen, frame.data.to_vec());
        let unit: i64 = if self.interfaces[0].resolution == 9 {
            1
        } else {
            1_000
        };
        let at_ns = i64::from(stamp.0) * 1_000_000_000 + i64::from(stamp.1) * unit;
        self.record(0, Some(at_ns), data, len, 0).map(Some)
    }

    /// Reads the block that begins at the present offset, or the first one behind section headers; false at the end of
    /// the file.
    fn begin_block(&mut self) -> Result<bool, ReadError> {
        loop {
            match self.more(8)? {
                0 => return Ok(false),
                8 => {}
                got => return Err(self.cut(8 - got)),
            }
            if self.word(0, false) != SECTION {
                break;
            }
            self.section_header()?;
        }
        let Format::Pcapng { big_endian, .. } = self.format else {
            return Ok(false);
        };
        let len = self.word(4, big_endian);
        self.check_block_length(len)?;
        self.need(len as usize - 8)?;
        Ok(true)
    }

    /// The rest of a section header, of which four or eight octets are in hand: it says the byte order of what follows.
    fn section_header(&mut self) -> Result<(), ReadError> {
        let in_hand = self.block.len();
        let first = self.offset == 0;
        let got = self.more(12 - in_hand)?;
        if got < 12 - in_hand {
            let missing = 12 - in_hand - got;
            return Err(if first {
                self.error(Trouble::HeaderCut)
            } else {
                self.cut(missing)
            });
        }
        let big_endian = match (self.word(8, false), self.word(8, true)) {
            (BYTE_ORDER, _) => false,
            (_, BYTE_ORDER) => true,
            _ => return Err(self.malformed("a section whose byte order cannot be told")),
        };
        let len = self.word(4, big_endian);
        self.check_block_length(len)?;
        if len < 28 {
            return Err(self.malformed("a section header that is too short"));
        }
        let rest = len as usize - 12;
        let got = self.more(rest)?;
        if got < rest {
            return Err(if first {
                self.error(Trouble::HeaderCut)
            } else {
                self.cut(rest - got)
            });
        }
        self.format = Format::Pcapng {
            big_endian,
            first_interface: self.interfaces.len(),
        };
        self.end_block();
        Ok(())
    }

    /// What the block in hand means: a frame, or nothing that concerns us.
    fn block_record(&mut self) -> Result<Option<Record>, ReadError> {
        let Format::Pcapng {
            big_endian,
            first_interface,
        } = self.format
        else {
            return Ok(None);
        };
        let parse = if big_endian {
            parse_block_be
        } else {
            parse_block_le
        };
        let kind = self.word(0, big_endian);
        // Names, statistics and what is not known here need not be well formed.
        if !matches!(kind, 1 | 2 | 3 | 6) {
            self.end_block();
            return Ok(None);
        }
        let found = match parse(&self.block) {
            Ok((_, Block::InterfaceDescription(block))) => {
                Found::Interface(Interface::of(&block, big_endian))
            }
            Ok((_, Block::EnhancedPacket(block))) => Found::enhanced(&block, big_endian),
            Ok((_, Block::SimplePacket(block))) => Found::Frame {
                interface: 0,
                stamp: None,
                data: block.data.to_vec(),
                len: block.origlen,
                flags: 0,
            },
            _ if kind == 2 => return Err(self.malformed("an obsolete packet block (type 2)")),
            _ => return Err(self.malformed(format!("a block of type {kind} that contradicts itself"))),
        };
        match found {
            Found::Interface(_) if self.interfaces.len() >= INTERFACES_MAX => {
                Err(self.malformed(format!("more than {INTERFACES_MAX} interfaces")))
            }
            Found::Interface(interface) => {
                self.interfaces.push(interface);
                self.end_block();
                Ok(None)
            }
            Found::Frame {
                interface,
                stamp,
                mut data,
                len,
                flags,
            } => {
                let index = first_interface.saturating_add(interface as usize);
                let Some(described) = self.interfaces.get(index) else {
                    return Err(self.malformed(format!(
                        "a frame of interface {interface}, which is not described"
                    )));
                };
                if stamp.is_none() {
                    let snaplen = match described.snaplen {
                        0 => u32::MAX,
                        snaplen => snaplen,
                    };
                    data.truncate(len.min(snaplen) as usize);
                }
                let at_ns = stamp.map(|stamp| described.nanoseconds(stamp));
                self.check_link_type(index)?;
                self.record(index, at_ns, data, len, flags).map(Some)
            }
        }
    }

    /// A frame from its parts, with the FCS taken off.
    fn record(
        &mut self,
        interface: usize,
        at_ns: Option<i64>,
        mut data: Vec<u8>,
        len: u32,
        flags: u32,
    ) -> Result<Record, ReadError> {
        self.check_length(data.len() as u32, "captured")?;
        self.check_length(len, "on the wire")?;
        let fcs_bytes = match flags >> 5 & 0xf {
            0 => self.interfaces[interface].fcs_bytes,
            fcs_bytes => fcs_bytes,
        };
        let len = len.max(data.len() as u32).saturating_sub(fcs_bytes);
        data.truncate(len as usize);
        let record = Record {
            number: self.frames + 1,
            offset: self.offset,
            interface,
            at_ns,
            data,
            len,
            direction: match flags & 3 {
                1 => Direction::Inbound,
                2 => Direction::Outbound,
                _ => Direction::Unknown,
            },
        };
        self.frames += 1;
        self.end_block();
        Ok(record)
    }

    fn check_link_type(&self, interface: usize) -> Result<(), ReadError> {
        let Interface { name, link_type, .. } = &self.interfaces[interface];
        match *link_type {
            LINK_TYPE_ETHERNET => Ok(()),
            number => Err(self.error(Trouble::LinkType {
                number,
                interface: name.clone(),
            })),
        }
    }

    fn check_length(&self, len: u32, what: &str) -> Result<(), ReadError> {
        if len <= FRAME_BYTES_MAX {
            return Ok(());
        }
        Err(self.malformed(format!(
            "a frame of {len} octets {what}; {FRAME_BYTES_MAX} is the most there can be"
        )))
    }

    fn check_block_length(&self, len: u32) -> Result<(), ReadError> {
        match len {
            12..=BLOCK_BYTES_MAX if len.is_multiple_of(4) => Ok(()),
            _ => Err(self.malformed(format!("a block of {len} octets"))),
        }
    }

    /// A number of the block in hand, whose octets are known to be there.
    fn word(&self, at: usize, big_endian: bool) -> u32 {
        let octets = self.block[at..].first_chunk().copied().unwrap_or_default();
        match big_endian {
            true => u32::from_be_bytes(octets),
            false => u32::from_le_bytes(octets),
        }
    }

    /// Adds up to `count` octets of the source to the block in hand; how many came.
    fn more(&mut self, count: usize) -> Result<usize, ReadError> {
        let before = self.block.len();
        let read = io::Read::by_ref(&mut self.source)
            .take(count as u64)
            .read_to_end(&mut self.block);
        match read {
            Ok(_) => Ok(self.block.len() - before),
            Err(error) => Err(self.error(Trouble::Io(error))),
        }
    }

    /// Adds `count` octets, which have to be there.
    fn need(&mut self, count: usize) -> Result<(), ReadError> {
        match self.more(count)? {
            got if got < count => Err(self.cut(count - got)),
            _ => Ok(()),
        }
    }

    fn end_block(&mut self) {
        self.offset += self.block.len() as u64;
        self.block.clear();
    }

    fn error(&self, trouble: Trouble) -> ReadError {
        ReadError {
            trouble,
            frame: self.frames + 1,
            offset: self.offset,
        }
    }

    fn cut(&self, missing: usize) -> ReadError {
        self.error(Trouble::Cut {
            missing: missing as u64,
        })
    }

    fn malformed(&self, why: impl Into<String>) -> ReadError {
        self.error(Trouble::Malformed(why.into()))
    }
}
