//! A capture that can be read twice.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::capture::{ReadError, ReadErrorKind};

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
        true => Box::new(MultiGzDecoder::new(source)),
        false => Box::new(source),
    })
}

fn unreadable(error: io::Error) -> ReadError {
    ReadError {
        kind: ReadErrorKind::Io(error),
        frame: 1,
        offset: 0,
    }
}
