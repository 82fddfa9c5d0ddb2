//! Messages in a stream of bytes.

use crate::error::DecodeError;
use crate::header::Header;
use crate::limits::{HEADER_BYTES, PAYLOAD_MAX};
use crate::message::Message;

/// Smallest room for the next bytes of a stream.
const ROOM_BYTES: usize = 65_536;

/// The bytes of a stream that are no complete message yet.
#[derive(Debug, Default)]
pub struct MessageDecoder {
    bytes: Vec<u8>,
    /// Start of the first message that was not returned.
    start: usize,
    /// End of the bytes of the stream.
    end: usize,
}

impl MessageDecoder {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Adds the bytes that `read` writes to its argument. `read` returns their number, which this function returns.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn fill<E>(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        let count = read(self.room(ROOM_BYTES))?;
        self.end = self.bytes.len().min(self.end + count);
        Ok(count)
    }

    /// Returns memory for at least `least` bytes after the bytes of the stream.
    fn room(&mut self, least: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.len() - self.end < least {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.bytes.resize(self.bytes.len().max(self.end + least), 0);
        }
        &mut self.bytes[self.end..]
    }

    /// Returns the number of bytes that belong to no returned message.
    pub fn unread_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Returns whether the stream ends within a message.
    pub fn is_within_message(&self) -> bool {
        self.start < self.end
    }

    /// Returns the next message. `None`: its end is missing.
    ///
    /// # Errors
    /// The bytes are no message. The stream cannot be read any further.
    pub fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        let unread = &self.bytes[self.start..self.end];
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
