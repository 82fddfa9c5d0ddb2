//! Opens a capture so that it can be read more than once. Decompresses captures in gzip format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::GzDecoder;

use xoff_capture::{ReadError, ReadErrorKind};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The source of a capture.
#[derive(Clone, Debug)]
pub enum CaptureSource {
    /// A regular file. Each pass opens it again.
    File(PathBuf),
    /// The content of a source that can be read only once, such as standard input or a pipe.
    Memory(Arc<[u8]>),
}

impl CaptureSource {
    /// Opens the capture at a path. The path `-` means standard input. If the file is not a regular file, its
    /// whole content is read and kept in memory.
    ///
    /// # Errors
    /// The capture cannot be opened or read.
    pub fn open(path: &Path) -> Result<CaptureSource, ReadError> {
        let read = |mut from: Box<dyn Read>| {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes)
                .map(|_| CaptureSource::Memory(bytes.into()))
        };
        let source = if path == Path::new("-") {
            read(Box::new(io::stdin().lock()))
        } else {
            File::open(path).and_then(|file| match file.metadata()? {
                metadata if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
                metadata if metadata.is_file() => Ok(CaptureSource::File(path.to_owned())),
                _ => read(Box::new(file)),
            })
        };
        source.map_err(read_error_of)
    }

    /// Returns a reader that starts at the first byte of the capture. Data in gzip format is decompressed.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn read(&self) -> Result<Box<dyn Read>, ReadError> {
        match self {
            CaptureSource::File(path) => {
                let file = File::open(path).map_err(read_error_of)?;
                decompress(BufReader::with_capacity(1 << 18, file))
            }
            CaptureSource::Memory(bytes) => decompress(Cursor::new(Arc::clone(bytes))),
        }
    }
}

fn decompress(mut source: impl BufRead + 'static) -> Result<Box<dyn Read>, ReadError> {
    let begin = source.fill_buf().map_err(read_error_of)?;
    Ok(match begin.starts_with(&GZIP_MAGIC) {
        true => Box::new(GzipMembers {
            member: Some(GzDecoder::new(source)),
        }),
        false => Box::new(source),
    })
}

/// Reads the data of all members of a gzip file (RFC 1952, section 2.2). Zero bytes after a member
/// are ignored, as gzip does.
struct GzipMembers<R> {
    /// `None` at the end of the file.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let got = member.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
            let Some(mut source) = self.member.take().map(GzDecoder::into_inner) else {
                break;
            };
            self.member = match skip_zero_bytes(&mut source)? {
                None => None,
                Some(byte) if byte == GZIP_MAGIC[0] => Some(GzDecoder::new(source)),
                Some(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the data after a gzip member is not in gzip format",
                    ));
                }
            };
        }
        Ok(0)
    }
}

/// Skips zero bytes and returns the next byte without consuming it. Returns `None` at the end of
/// the file.
fn skip_zero_bytes(source: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
        let next = buffer.get(zeros).copied();
        source.consume(zeros);
        if next.is_some() {
            return Ok(next);
        }
    }
}

fn read_error_of(error: io::Error) -> ReadError {
    ReadError {
        kind: ReadErrorKind::Io(error),
        frame: 1,
        offset: 0,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip_member(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn read_capture(file: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let mut data = Vec::new();
        let mut source = decompress(Cursor::new(file.to_vec())).unwrap();
        let result = source.read_to_end(&mut data).map(|_| ());
        (data, result)
    }

    #[test]
    fn gzip_members_and_zero_padding_are_read() {
        let (one, two) = (gzip_member(b"one"), gzip_member(b"two"));
        for (file, data) in [
            (one.clone(), &b"one"[..]),
            ([&one[..], &two].concat(), b"onetwo"),
            ([&one[..], &[0; 100]].concat(), b"one"),
            ([&one[..], &[0; 7], &gzip_member(b""), &two].concat(), b"onetwo"),
            (b"plain".to_vec(), b"plain"),
        ] {
            let (read, result) = read_capture(&file);
            assert!(result.is_ok() && read == data, "{result:?}");
        }
    }

    #[test]
    fn data_after_the_last_gzip_member_is_an_error() {
        let one = gzip_member(b"one");
        for file in [[&one[..], b"junk"].concat(), one[..one.len() - 1].to_vec()] {
            let (data, result) = read_capture(&file);
            assert!(result.is_err() && data == b"one");
        }
    }
}
