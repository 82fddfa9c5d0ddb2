//! A capture that can be read twice.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::GzDecoder;

use xoff_capture::{ReadError, ReadErrorKind};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Where a capture comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, opened for each pass.
    File(PathBuf),
    /// What came over a pipe.
    Memory(Arc<[u8]>),
}

impl Source {
    /// The capture at a path; `-` is standard input. What is no plain file is read to its end first.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> Result<Source, ReadError> {
        let read = |mut from: Box<dyn Read>| {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).map(|_| Source::Memory(bytes.into()))
        };
        let source = if path == Path::new("-") {
            read(Box::new(io::stdin().lock()))
        } else {
            File::open(path).and_then(|file| match file.metadata()? {
                metadata if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
                metadata if metadata.is_file() => Ok(Source::File(path.to_owned())),
                _ => read(Box::new(file)),
            })
        };
        source.map_err(unreadable)
    }

    /// The bytes of the capture from the first one, decompressed if they are compressed with gzip.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn read(&self) -> Result<Box<dyn Read>, ReadError> {
        match self {
            Source::File(path) => {
                let file = File::open(path).map_err(unreadable)?;
                decompressed(BufReader::with_capacity(1 << 18, file))
            }
            Source::Memory(bytes) => decompressed(Cursor::new(Arc::clone(bytes))),
        }
    }
}

fn decompressed(mut source: impl BufRead + 'static) -> Result<Box<dyn Read>, ReadError> {
    let begin = source.fill_buf().map_err(unreadable)?;
    Ok(match begin.starts_with(&GZIP_MAGIC) {
        true => Box::new(GzipMembers {
            member: Some(GzDecoder::new(source)),
        }),
        false => Box::new(source),
    })
}

/// The data of a gzip file: one member or several, which zeros may follow (RFC 1952, 2.2; gzip ignores padding of zeros).
struct GzipMembers<R> {
    /// `None` at the end.
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
            self.member = match next_after_zeros(&mut source)? {
                None => None,
                Some(byte) if byte == GZIP_MAGIC[0] => Some(GzDecoder::new(source)),
                Some(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "what follows is not compressed with gzip",
                    ));
                }
            };
        }
        Ok(0)
    }
}

/// The next byte that is not 0, which is not consumed; `None` at the end.
fn next_after_zeros(source: &mut impl BufRead) -> io::Result<Option<u8>> {
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

fn unreadable(error: io::Error) -> ReadError {
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

    fn member(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn read(file: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let mut data = Vec::new();
        let mut source = decompressed(Cursor::new(file.to_vec())).unwrap();
        let result = source.read_to_end(&mut data).map(|_| ());
        (data, result)
    }

    #[test]
    fn members_and_padding_of_zeros_are_read() {
        let (one, two) = (member(b"one"), member(b"two"));
        for (file, data) in [
            (one.clone(), &b"one"[..]),
            ([&one[..], &two].concat(), b"onetwo"),
            ([&one[..], &[0; 100]].concat(), b"one"),
            ([&one[..], &[0; 7], &member(b""), &two].concat(), b"onetwo"),
            (b"plain".to_vec(), b"plain"),
        ] {
            let (read, result) = read(&file);
            assert!(result.is_ok() && read == data, "{result:?}");
        }
    }

    #[test]
    fn what_follows_and_is_no_member_is_an_error_behind_the_data() {
        let one = member(b"one");
        for file in [[&one[..], b"junk"].concat(), one[..one.len() - 1].to_vec()] {
            let (data, result) = read(&file);
            assert!(result.is_err() && data == b"one");
        }
    }
}
