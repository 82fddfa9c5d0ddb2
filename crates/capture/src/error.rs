//! Errors of reading a capture file.

use std::fmt;
use std::io;

use super::LINK_TYPE_ETHERNET;
use xoff_telemetry::failure::Failure;

/// An error that ends the reading of a capture file.
#[derive(Debug)]
pub struct ReadError {
    /// The cause of the error.
    pub kind: ReadErrorKind,
    /// Number of the frame at which reading ended, counted from 1. All frames before it were read.
    pub frame: u64,
    /// Offset of the unreadable block or record in bytes, from the start of the file.
    pub offset: u64,
}

/// The kind of an error in a capture file.
#[derive(Debug)]
pub enum ReadErrorKind {
    /// The operating system reported an error while the file was read.
    Io(io::Error),
    /// The file is empty.
    Empty,
    /// The file is neither pcap nor pcapng. The value contains the first four bytes of the file. Missing
    /// bytes are 0.
    UnknownFormat([u8; 4]),
    /// The file ends inside its file header.
    TruncatedHeader,
    /// The file ends inside a frame or a block.
    Truncated {
        /// Number of bytes that the frame or block still needed.
        missing: u64,
    },
    /// The contents of the file are not valid. The text describes the defect.
    Malformed(String),
    /// No interface of the file has the link type Ethernet. The fields describe the first interface.
    NoEthernet {
        /// Link type number (`LINKTYPE_`).
        number: u32,
        /// Name of the interface. `None` if the file does not contain a name.
        interface: Option<String>,
    },
}

impl ReadError {
    /// Returns whether the error only ends the capture early, so that the frames before the error can be
    /// used. This is the case if the file ends inside a frame, or if the contents of the file are not valid
    /// from the error position on.
    pub fn ends_capture(&self) -> bool {
        matches!(
            self.kind,
            ReadErrorKind::Truncated { .. } | ReadErrorKind::Malformed(_)
        )
    }

    /// Returns whether the contents of the file are not valid ([`ReadErrorKind::Malformed`]). The result is
    /// false if the only error is that the file ends too early.
    pub fn is_invalid_content(&self) -> bool {
        matches!(self.kind, ReadErrorKind::Malformed(_))
    }

    /// Converts the error to the error message of a command, with the exit code 3 (`Environment`). `file` is
    /// the name of the file in the message.
    pub fn to_failure(&self, file: &str) -> Failure {
        let place = match self.kind {
            ReadErrorKind::Io(_)
            | ReadErrorKind::Empty
            | ReadErrorKind::UnknownFormat(_)
            | ReadErrorKind::NoEthernet { .. } => file.to_owned(),
            _ => format!("{file}, frame {}, at byte {}", self.frame, self.offset),
        };
        let failure = Failure::environment(self.summary()).at(place);
        match &self.kind {
            ReadErrorKind::Io(error) => failure
                .because(error)
                .fix("give a file that exists and that you may read"),
            ReadErrorKind::Empty => {
                failure.fix("capture again; `tcpdump -w` writes its first bytes when it begins")
            }
            ReadErrorKind::UnknownFormat(magic) => {
                failure.because(describe_magic(*magic)).fix(suggest_fix(*magic))
            }
            ReadErrorKind::TruncatedHeader | ReadErrorKind::Truncated { .. } => {
                failure.fix("copy the file again, or capture again and end the capture with SIGINT")
            }
            ReadErrorKind::Malformed(why) => {
                failure.because(why).fix("copy the file again, or capture again")
            }
            ReadErrorKind::NoEthernet { number, interface } => failure
                .because(describe_link_type(*number, interface.as_deref()))
                .fix("capture on an Ethernet device: `tcpdump -i DEV`, not `-i any`"),
        }
    }

    fn summary(&self) -> &'static str {
        match self.kind {
            ReadErrorKind::Io(_) => "the capture cannot be read",
            ReadErrorKind::Empty => "the capture is empty: it has no file header",
            ReadErrorKind::UnknownFormat(_) => "the file is not a capture: it is neither pcap nor pcapng",
            ReadErrorKind::TruncatedHeader => "the capture ends inside its file header",
            ReadErrorKind::Truncated { .. } => "the capture ends in the middle of a frame",
            ReadErrorKind::Malformed(_) => "the capture is damaged",
            ReadErrorKind::NoEthernet { .. } => "the capture has no Ethernet frames",
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary())?;
        if !matches!(self.kind, ReadErrorKind::NoEthernet { .. }) {
            write!(f, ": frame {}, at byte {}", self.frame, self.offset)?;
        }
        match &self.kind {
            ReadErrorKind::Io(error) => write!(f, ": {error}"),
            ReadErrorKind::UnknownFormat(magic) => write!(f, ": {}", describe_magic(*magic)),
            ReadErrorKind::Truncated { missing } => {
                let missing = xoff_telemetry::count_noun(*missing, "byte");
                write!(f, ", without the last {missing} of it")
            }
            ReadErrorKind::Malformed(why) => write!(f, ": {why}"),
            ReadErrorKind::NoEthernet { number, interface } => {
                write!(f, ": {}", describe_link_type(*number, interface.as_deref()))
            }
            ReadErrorKind::Empty | ReadErrorKind::TruncatedHeader => Ok(()),
        }
    }
}

impl std::error::Error for ReadError {}

fn describe_magic(magic: [u8; 4]) -> String {
    let [a, b, c, d] = magic;
    format!("it begins with the bytes {a:02x} {b:02x} {c:02x} {d:02x}")
}

fn suggest_fix(magic: [u8; 4]) -> &'static str {
    match magic {
        [0x28, 0xb5, 0x2f, 0xfd] => "it is compressed: `zstdcat FILE | xoff replay - ...`",
        [0xfd, b'7', b'z', b'X'] => "it is compressed: `xzcat FILE | xoff replay - ...`",
        _ => {
            "give a file that tcpdump, Wireshark or xoff has written; `editcap` turns other formats into pcapng"
        }
    }
}

fn describe_link_type(number: u32, interface: Option<&str>) -> String {
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
