//! The header of a message, and its texts.

use crate::error::DecodeError;
use crate::limits::HEADER_BYTES;

/// The kind of a message, byte 4 of its header.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const FRAME: u8 = 2;
    pub(crate) const GRANT: u8 = 3;
    pub(crate) const RESET: u8 = 4;
    pub(crate) const REQUEST: u8 = 5;
    pub(crate) const REPLY: u8 = 6;
    pub(crate) const BYE: u8 = 7;
}

/// The header of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) payload_len: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) code: u16,
    pub(crate) a: u64,
    pub(crate) b: u64,
    pub(crate) c: u64,
}

impl Header {
    /// Returns the bytes of the header.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.flags;
        bytes[6..8].copy_from_slice(&self.code.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.a.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.b.to_le_bytes());
        bytes[24..].copy_from_slice(&self.c.to_le_bytes());
        bytes
    }

    /// Reads a header.
    pub(crate) fn read(bytes: &[u8; HEADER_BYTES]) -> Header {
        let field = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]));
        Header {
            payload_len: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            kind: bytes[4],
            flags: bytes[5],
            code: u16::from_le_bytes([bytes[6], bytes[7]]),
            a: field(8),
            b: field(16),
            c: field(24),
        }
    }
}

/// Reads a text of a payload.
pub(crate) fn read_text(payload: &[u8], field: &'static str) -> Result<String, DecodeError> {
    match std::str::from_utf8(payload) {
        Ok(text) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(DecodeError::Text { field }),
    }
}
