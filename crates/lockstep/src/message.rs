//! The messages, and their bytes.

use crate::error::DecodeError;
use crate::header::{Header, kind, read_text};
use crate::limits::{FRAME_BYTES_MAX, MAGIC};
use crate::request::{HostRequest, Reply};

/// Flag of a frame: the receiver must discard it.
const ERROR_FLAG: u8 = 1;

/// The first message of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u16,
    /// [`BARE_MAC_FLAG`](crate::BARE_MAC_FLAG), [`SHARED_MEMORY_FLAG`](crate::SHARED_MEMORY_FLAG).
    pub flags: u8,
    /// Speed of the link in bits per second. 0: the side accepts any speed.
    pub speed_bps: u64,
    /// Name of the program or device for reports.
    pub name: String,
}

/// A frame on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Time of the first bit of the preamble, in picoseconds.
    pub first_bit_ps: u64,
    /// Time of the last bit of the FCS, in picoseconds.
    pub last_bit_ps: u64,
    /// True: the PHY signals an error, and the receiver must discard the frame.
    pub has_error: bool,
    /// The bytes from the destination address to the FCS.
    pub bytes: Vec<u8>,
}

/// A promise about all later frames of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// No first bit is before this time, in picoseconds.
    pub first_bit_ps: u64,
    /// No last bit is before this time, in picoseconds.
    pub last_bit_ps: u64,
    /// Number of frames, requests and replies that the sender has received since the last reset. Reactions to later
    /// ones may start at the last bit of the frame, or at the time of the request or reply.
    pub received: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Version, name and speed.
    Hello(Hello),
    /// A frame.
    Frame(Frame),
    /// A promise.
    Grant(Grant),
    /// Bring the device to its initial state. Frames that have not arrived are lost.
    Reset {
        /// Time of the reset in picoseconds.
        time_ps: u64,
        /// Speed of the link in bits per second.
        speed_bps: u64,
        /// Name of a mutant of the model device. Empty for all other devices.
        mutant: String,
    },
    /// A request to the host of the device.
    Request {
        /// Time of the request in picoseconds.
        time_ps: u64,
        /// The operation.
        request: HostRequest,
    },
    /// The answer to a reset or a request.
    Reply(Reply),
    /// The sender closes the connection. The text is the reason if the sender has found an error.
    Bye {
        /// Why the sender cannot continue. Empty: it is done.
        reason: String,
    },
}

impl Message {
    /// Returns the name of the kind in error messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Message::Hello(_) => "HELLO",
            Message::Frame(_) => "FRAME",
            Message::Grant(_) => "GRANT",
            Message::Reset { .. } => "RESET",
            Message::Request { .. } => "REQUEST",
            Message::Reply(_) => "REPLY",
            Message::Bye { .. } => "BYE",
        }
    }

    /// Appends the bytes of the message.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let (header, payload) = self.parts();
        let payload: &[u8] = match (&payload, self) {
            (_, Message::Frame(frame)) => &frame.bytes,
            (payload, _) => payload,
        };
        let payload_len = payload.len() as u32;
        let header = Header {
            payload_len,
            ..header
        };
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(payload);
    }

    /// Returns the header without the length of the payload, and the payload. The payload of a frame is left out.
    fn parts(&self) -> (Header, Vec<u8>) {
        let empty = Header::default();
        match self {
            Message::Hello(hello) => (
                Header {
                    kind: kind::HELLO,
                    flags: hello.flags,
                    code: hello.version,
                    a: hello.speed_bps,
                    c: MAGIC,
                    ..empty
                },
                hello.name.as_bytes().to_vec(),
            ),
            Message::Frame(frame) => (
                Header {
                    kind: kind::FRAME,
                    flags: if frame.has_error { ERROR_FLAG } else { 0 },
                    a: frame.first_bit_ps,
                    b: frame.last_bit_ps,
                    ..empty
                },
                Vec::new(),
            ),
            Message::Grant(grant) => (
                Header {
                    kind: kind::GRANT,
                    a: grant.first_bit_ps,
                    b: grant.last_bit_ps,
                    c: grant.received,
                    ..empty
                },
                Vec::new(),
            ),
            Message::Reset {
                time_ps,
                speed_bps,
                mutant,
            } => (
                Header {
                    kind: kind::RESET,
                    a: *time_ps,
                    b: *speed_bps,
                    ..empty
                },
                mutant.as_bytes().to_vec(),
            ),
            Message::Request { time_ps, request } => request.parts(*time_ps),
            Message::Reply(reply) => reply.parts(),
            Message::Bye { reason } => (
                Header {
                    kind: kind::BYE,
                    ..empty
                },
                reason.as_bytes().to_vec(),
            ),
        }
    }

    /// Reads a message from its header and its payload.
    pub(crate) fn read(header: &Header, payload: &[u8]) -> Result<Message, DecodeError> {
        let message = match header.kind {
            kind::HELLO => {
                if header.c != MAGIC {
                    return Err(DecodeError::Magic);
                }
                Message::Hello(Hello {
                    version: header.code,
                    flags: header.flags,
                    speed_bps: header.a,
                    name: read_text(payload, "name")?,
                })
            }
            kind::FRAME => {
                if payload.is_empty() || payload.len() > FRAME_BYTES_MAX {
                    return Err(DecodeError::FrameLength(payload.len()));
                }
                Message::Frame(Frame {
                    first_bit_ps: header.a,
                    last_bit_ps: header.b,
                    has_error: header.flags & ERROR_FLAG != 0,
                    bytes: payload.to_vec(),
                })
            }
            kind::GRANT => Message::Grant(Grant {
                first_bit_ps: header.a,
                last_bit_ps: header.b,
                received: header.c,
            }),
            kind::RESET => Message::Reset {
                time_ps: header.a,
                speed_bps: header.b,
                mutant: read_text(payload, "mutant")?,
            },
            kind::REQUEST => Message::Request {
                time_ps: header.a,
                request: HostRequest::read(header, payload)?,
            },
            kind::REPLY => Message::Reply(Reply::read(header, payload)?),
            kind::BYE => Message::Bye {
                reason: read_text(payload, "reason")?,
            },
            other => return Err(DecodeError::Kind(other)),
        };
        Ok(message)
    }
}
