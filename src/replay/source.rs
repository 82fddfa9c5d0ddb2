//! A capture that can be read twice.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::capture::{ReadError, Trouble};

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

    /// The octets, from the first.
    ///
    /// # Errors
    /// The file is gone.
    pub fn read(&self) -> Result<Box<dyn Read>, ReadError> {
        Ok(match self {
            Source::File(path) => Box::new(BufReader::with_capacity(
                1 << 18,
                File::open(path).map_err(unreadable)?,
            )),
            Source::Memory(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
        })
    }
}

fn unreadable(error: io::Error) -> ReadError {
    ReadError {
        trouble: Trouble::Io(error),
        frame: 1,
        offset: 0,
    }
}
