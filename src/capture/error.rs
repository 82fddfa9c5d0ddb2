//! What is wrong with a capture file, and where.

use std::fmt;
use std::io;

use super::LINK_TYPE_ETHERNET;
use crate::failure::Failure;

/// Why a capture file cannot be read on.
#[derive(Debug)]
pub struct ReadError {
    /// What is wrong.
    pub trouble: Trouble,
    /// The number of the frame that would have come next, from 1.
    pub frame: u64,
    /// Where in the file, in octets, the thing begins that cannot be read.
    pub offset: u64,
}

/// What is wrong with a capture file.
#[derive(Debug)]
pub enum Trouble {
    /// The file cannot be read at all.
    Io(io::Error),
    /// It has no octet.
    Empty,
    /// It is no pcap and no pcapng file: its first octets.
    Magic([u8; 4]),
    /// It ends inside its own header.
    HeaderCut,
    /// It ends inside a frame or a block: so many octets are missing.
    Cut {
        /// Octets that should still be there.
        missing: u64,
    },
    /// It says something that cannot be.
    Malformed(String),
    /// A frame is not of Ethernet.
    LinkType {
        /// `LINKTYPE_` number.
        number: u32,
        /// Name of the interface, where the file has one.
        interface: Option<String>,
    },
}

impl ReadError {
    /// Whether the file only lacks its end: what was read of it before is right.
    pub fn is_cut(&self) -> bool {
        matches!(self.trouble, Trouble::Cut { .. })
    }

    /// The error as a user meets it.
    pub fn failure(&self, file: &str) -> Failure {
        let place = match self.trouble {
            Trouble::Io(_) | Trouble::Empty | Trouble::Magic(_) => file.to_owned(),
            _ => format!("{file}, frame {}, at octet {}", self.frame, self.offset),
        };
        let failure = Failure::environment(self.what()).at(place);
        match &self.trouble {
            Trouble::Io(error) => failure
                .because(error)
                .fix("give a file that exists and that you may read"),
            Trouble::Empty => {
                failure.fix("capture again; `tcpdump -w` writes its first octets when it begins")
            }
            Trouble::Magic(magic) => failure.because(begins(*magic)).fix(decompress(*magic)),
            Trouble::HeaderCut | Trouble::Cut { .. } => {
                failure.fix("copy the file again, or capture again and end the capture with SIGINT")
            }
            Trouble::Malformed(why) => failure
                .because(why)
                .fix("`editcap FILE NEW` of Wireshark writes what can still be read"),
            Trouble::LinkType { number, interface } => failure
                .because(link_type(*number, interface.as_deref()))
                .fix("capture on an Ethernet device: `tcpdump -i DEV`, not `-i any`"),
        }
    }

    fn what(&self) -> &'static str {
        match self.trouble {
            Trouble::Io(_) => "the capture cannot be read",
            Trouble::Empty => "the capture is empty: not even a file header is in it",
            Trouble::Magic(_) => "this is no capture: neither pcap nor pcapng",
            Trouble::HeaderCut => "the capture ends inside its file header",
            Trouble::Cut { .. } => "the capture ends in the middle of a frame",
            Trouble::Malformed(_) => "the capture is damaged",
            Trouble::LinkType { .. } => "the capture is not of Ethernet frames",
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: frame {}, at octet {}",
            self.what(),
            self.frame,
            self.offset
        )?;
        match &self.trouble {
            Trouble::Io(error) => write!(f, ": {error}"),
            Trouble::Magic(magic) => write!(f, ": {}", begins(*magic)),
            Trouble::Cut { missing } => write!(f, ", {missing} octets of it are missing"),
            Trouble::Malformed(why) => write!(f, ": {why}"),
            Trouble::LinkType { number, interface } => {
                write!(f, ": {}", link_type(*number, interface.as_deref()))
            }
            Trouble::Empty | Trouble::HeaderCut => Ok(()),
        }
    }
}

impl std::error::Error for ReadError {}

fn begins(magic: [u8; 4]) -> String {
    let [a, b, c, d] = magic;
    format!("it begins with the octets {a:02x} {b:02x} {c:02x} {d:02x}")
}

fn decompress(magic: [u8; 4]) -> &'static str {
    match magic {
        [0x1f, 0x8b, ..] => "it is compressed: `gunzip -c FILE | xoff replay - ...`",
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
