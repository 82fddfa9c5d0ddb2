//! Messages in a stream of bytes.

use crate::error::DecodeError;
use crate::message::{HEADER_BYTES, Header, Message, PAYLOAD_MAX};

/// The bytes of a stream that are no complete message yet.
#[derive(Debug, Default)]
pub struct MessageDecoder {
    bytes: Vec<u8>,
    /// Start of the first message that was not returned.
    start: usize,
}

impl MessageDecoder {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns whether the stream ends within a message.
    pub fn is_within_message(&self) -> bool {
        self.start < self.bytes.len()
    }

    /// Returns the next message. `None`: its end is missing.
    ///
    /// # Errors
    /// The bytes are no message. The stream cannot be read any further.
    pub fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        let unread = &self.bytes[self.start..];
        let Some(header) = unread.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = Header::read(header);
        let payload_len = header.payload_len as usize;
        if payload_len > PAYLOAD_MAX {
            return Err(DecodeError::PayloadLength(header.payload_len));
        }
        let Some(payload) = unread.get(HEADER_BYTES..HEADER_BYTES + payload_len) else {
            return Ok(None);
        };
        let message = Message::read(&header, payload)?;
        self.start += HEADER_BYTES + payload_len;
        Ok(Some(message))
    }
}
