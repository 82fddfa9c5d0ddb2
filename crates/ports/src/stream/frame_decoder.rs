//! Splits a byte stream into frames: each frame follows its length, a big-endian number of 4 bytes.

/// Number of bytes of a length.
pub(super) const LENGTH_BYTES: usize = 4;
/// The largest length of a frame in bytes: the size of QEMU's buffer for one frame (`NET_BUFSIZE`). After a larger
/// length, or the length 0, the position of the next frame is unknown.
pub(super) const STREAM_FRAME_BYTES_MAX: usize = 4_096 + 65_536;
/// Size of the buffer in bytes: one frame of the largest length, and space to read the next frames with it.
const BUFFER_BYTES: usize = 2 * (LENGTH_BYTES + STREAM_FRAME_BYTES_MAX);

/// A length that no frame can have: 0, or more than [`STREAM_FRAME_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongLength(pub(super) u32);

/// The received bytes of a stream that have not been delivered as frames yet.
#[derive(Debug)]
pub(super) struct FrameDecoder {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl FrameDecoder {
    pub(super) fn new() -> FrameDecoder {
        FrameDecoder {
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
        }
    }

    /// Returns the first frame. Returns `None` if its last byte has not arrived yet.
    ///
    /// # Errors
    /// Returns the length of the frame if no frame can have this length.
    pub(super) fn first_frame(&self) -> Result<Option<&[u8]>, WrongLength> {
        let bytes = &self.buffer[self.start..self.end];
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length);
        match length as usize {
            0 => Err(WrongLength(0)),
            frame_len if frame_len > STREAM_FRAME_BYTES_MAX => Err(WrongLength(length)),
            frame_len => Ok(rest.get(..frame_len)),
        }
    }

    /// Removes the first frame, which has `frame_len` bytes.
    pub(super) fn remove_frame(&mut self, frame_len: usize) {
        self.start += LENGTH_BYTES + frame_len;
        debug_assert!(self.start <= self.end, "only a complete frame is removed");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Returns the space for further bytes of the stream. The space is never empty if no complete frame waits. The
    /// caller reports the bytes that it has written with [`FrameDecoder::add_bytes`].
    pub(super) fn free_space(&mut self) -> &mut [u8] {
        // The bytes of an incomplete frame move to the start of the buffer.
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// Adds `count` bytes that the caller has written to the start of [`FrameDecoder::free_space`].
    pub(super) fn add_bytes(&mut self, count: usize) {
        self.end += count;
        debug_assert!(self.end <= self.buffer.len(), "the bytes fit into the free space");
    }

    /// Returns the number of bytes that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.end - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a stream with frames of these lengths.
    fn stream(lengths: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, length) in lengths.iter().enumerate() {
            bytes.extend((*length as u32).to_be_bytes());
            bytes.extend((0..*length).map(|at| (at * 7 + number) as u8));
        }
        bytes
    }

    /// Adds bytes to the decoder, and returns the complete frames.
    fn decode(decoder: &mut FrameDecoder, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            while let Some(frame) = decoder.first_frame().expect("valid lengths") {
                let frame = frame.to_vec();
                decoder.remove_frame(frame.len());
                frames.push(frame);
            }
            if bytes.is_empty() {
                return frames;
            }
            let space = decoder.free_space();
            assert!(!space.is_empty());
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            decoder.add_bytes(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn frames_are_complete_wherever_the_stream_is_split() {
        let lengths = [60, 1, 4, 61, 300];
        let bytes = stream(&lengths);
        let expected = decode(&mut FrameDecoder::new(), &bytes);
        assert_eq!(expected.iter().map(Vec::len).collect::<Vec<_>>(), lengths);
        for split in 0..=bytes.len() {
            let mut decoder = FrameDecoder::new();
            let mut frames = decode(&mut decoder, &bytes[..split]);
            frames.extend(decode(&mut decoder, &bytes[split..]));
            assert_eq!(frames, expected, "split at byte {split}");
            assert_eq!(decoder.waiting_bytes(), 0);
        }
        let mut decoder = FrameDecoder::new();
        let single_bytes = bytes.iter().flat_map(|byte| decode(&mut decoder, &[*byte]));
        assert_eq!(single_bytes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_longest_frames_fit_into_the_buffer() {
        let lengths = [
            STREAM_FRAME_BYTES_MAX,
            1,
            STREAM_FRAME_BYTES_MAX,
            STREAM_FRAME_BYTES_MAX,
        ];
        let frames = decode(&mut FrameDecoder::new(), &stream(&lengths));
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), lengths);
    }

    #[test]
    fn a_length_of_zero_or_above_the_limit_is_an_error() {
        for length in [0, STREAM_FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
            let mut decoder = FrameDecoder::new();
            decoder.free_space()[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
            decoder.add_bytes(LENGTH_BYTES - 1);
            assert_eq!(decoder.first_frame(), Ok(None));
            decoder.add_bytes(1);
            assert_eq!(decoder.first_frame(), Err(WrongLength(length)));
        }
    }
}
