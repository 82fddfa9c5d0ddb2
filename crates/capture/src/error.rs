//! What is wrong with a capture file, and where.

use std::fmt;
use std::io;

use super::LINK_TYPE_ETHERNET;
use xoff_telemetry::failure::Failure;

/// Why a capture file cannot be read on.
#[derive(Debug)]
pub struct ReadError {
    /// What is wrong.
    pub kind: ReadErrorKind,
    /// The number of the frame that would have come next, from 1.
    pub frame: u64,
    /// Where in the file, in bytes, the thing begins that cannot be read.
    pub offset: u64,
}

/// What is wrong with a capture file.
#[derive(Debug)]
pub enum ReadErrorKind {
    /// The file cannot be read at all.
    Io(io::Error),
    /// It has no byte.
    Empty,
    /// It is no pcap and no pcapng file: its first bytes.
    Magic([u8; 4]),
    /// It ends inside its own header.
    HeaderCut,
    /// It ends inside a frame or a block: so many bytes are missing.
    Cut {
        /// Bytes that should still be there.
        missing: u64,
    },
    /// It says something that cannot be.
    Malformed(String),
    /// All its interfaces have other link types than Ethernet.
    LinkType {
        /// `LINKTYPE_` number.
        number: u32,
        /// Name of the interface, where the file has one.
        interface: Option<String>,
    },
}

impl ReadError {
    /// Whether the capture ends early: the frames before the error were read and are right.
    pub fn ends_capture(&self) -> bool {
        matches!(self.kind, ReadErrorKind::Cut { .. } | ReadErrorKind::Malformed(_))
    }

    /// Whether the bytes contradict themselves, beyond the mere lack of an end.
    pub fn is_damage(&self) -> bool {
        matches!(self.kind, ReadErrorKind::Malformed(_))
    }

    /// The error as a user meets it.
    pub fn failure(&self, file: &str) -> Failure {
        let place = match self.kind {
            ReadErrorKind::Io(_)
            | ReadErrorKind::Empty
            | ReadErrorKind::Magic(_)
            | ReadErrorKind::LinkType { .. } => file.to_owned(),
            _ => format!("{file}, frame {}, at byte {}", self.frame, self.offset),
        };
        let failure = Failure::environment(self.what()).at(place);
        match &self.kind {
            ReadErrorKind::Io(error) => failure
                .because(error)
                .fix("give a file that exists and that you may read"),
            ReadErrorKind::Empty => {
                failure.fix("capture again; `tcpdump -w` writes its first bytes when it begins")
            }
            ReadErrorKind::Magic(magic) => failure.because(begins(*magic)).fix(decompress(*magic)),
            ReadErrorKind::HeaderCut | ReadErrorKind::Cut { .. } => {
                failure.fix("copy the file again, or capture again and end the capture with SIGINT")
            }
            ReadErrorKind::Malformed(why) => {
                failure.because(why).fix("copy the file again, or capture again")
            }
            ReadErrorKind::LinkType { number, interface } => failure
                .because(link_type(*number, interface.as_deref()))
                .fix("capture on an Ethernet device: `tcpdump -i DEV`, not `-i any`"),
        }
    }

    fn what(&self) -> &'static str {
        match self.kind {
            ReadErrorKind::Io(_) => "the capture cannot be read",
            ReadErrorKind::Empty => "the capture is empty: not even a file header is in it",
            ReadErrorKind::Magic(_) => "this is no capture: neither pcap nor pcapng",
            ReadErrorKind::HeaderCut => "the capture ends inside its file header",
            ReadErrorKind::Cut { .. } => "the capture ends in the middle of a frame",
            ReadErrorKind::Malformed(_) => "the capture is damaged",
            ReadErrorKind::LinkType { .. } => "the capture is not of Ethernet frames",
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what())?;
        if !matches!(self.kind, ReadErrorKind::LinkType { .. }) {
            write!(f, ": frame {}, at byte {}", self.frame, self.offset)?;
        }
        match &self.kind {
            ReadErrorKind::Io(error) => write!(f, ": {error}"),
            ReadErrorKind::Magic(magic) => write!(f, ": {}", begins(*magic)),
            ReadErrorKind::Cut { missing } => write!(f, ", {missing} bytes of it are missing"),
            ReadErrorKind::Malformed(why) => write!(f, ": {why}"),
            ReadErrorKind::LinkType { number, interface } => {
                write!(f, ": {}", link_type(*number, interface.as_deref()))
            }
            ReadErrorKind::Empty | ReadErrorKind::HeaderCut => Ok(()),
        }
    }
}

impl std::error::Error for ReadError {}

fn begins(magic: [u8; 4]) -> String {
    let [a, b, c, d] = magic;
    format!("it begins with the bytes {a:02x} {b:02x} {c:02x} {d:02x}")
}

fn decompress(magic: [u8; 4]) -> &'static str {
    match magic {
        [0x28, 0xb5, 0x2f, 0xfd] => "it is compressed: `zstdcat FILE | xoff replay - ...`",
        [0xfd, b'7', b'z', b'X'] => "it is compressed: `xzcat FILE | xoff replay - ...`",
        _ => {
            "give a file that tcpdump, Wireshark or xoff has written; `editcap` turns other formats into pcapng"
        }
    }
}

fn link_type(number: u32, interface: Option<&str>) -> String {
    let name = match number {
        LINK_TYPE_ETHERNET => "Ethernet",
        0 => "BSD loopback",
        101 | 228 | 229 => "raw IP",
        105 | 127 => "802.11",
        113 => "Linux cooked capture",
        247 => "InfiniBand",
        276 => "Linux cooked capture v2",
        _ => "see www.tcpdump.org/linktypes.html",
    };
    match interface {
        Some(interface) => format!("the link type of its interface {interface} is {number} ({name})"),
        None => format!("its link type is {number} ({name})"),
    }
}
