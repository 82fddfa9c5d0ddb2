//! Bounded reads of input files.
//!
//! Each kind of input has a named limit. The limit protects the memory of the machine from devices that never
//! end, such as `/dev/zero`. An input can also be a pipe, for example from a process substitution of a shell,
//! or standard input (the path `-`).

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write, stdin};
use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::libc::{O_NOCTTY, O_NONBLOCK};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Time without data after which a read from a pipe logs a message, in milliseconds.
const WAIT_MESSAGE_AFTER_MS: u16 = 2_000;

/// The limit of a kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputLimit {
    /// The kind of input with its article, such as `a configuration`. Error messages contain it.
    pub kind: &'static str,
    /// Largest accepted size in bytes.
    pub bytes_max: u64,
}

impl InputLimit {
    /// Configuration of a switch (`config_db.json`).
    pub const CONFIGURATION: InputLimit = InputLimit::of_mebibytes("a configuration", 128);
    /// Lookup file of lossless buffer profiles (`pg_profile_lookup.ini`).
    pub const LOOKUP_FILE: InputLimit = InputLimit::of_mebibytes("a lookup file", 16);
    /// Lab file, including its script.
    pub const LAB: InputLimit = InputLimit::of_mebibytes("a lab file", 128);
    /// File with the flows or the sizes of a workload.
    pub const WORKLOAD: InputLimit = InputLimit::of_mebibytes("a workload file", 256);
    /// File of a recorded simulation of ns-3.
    pub const SIMULATION: InputLimit = InputLimit::of_mebibytes("a file of a simulation", 256);
    /// Report or result that xoff has written.
    pub const RESULT: InputLimit = InputLimit::of_mebibytes("a result", 256);

    const fn of_mebibytes(kind: &'static str, mebibytes: u64) -> InputLimit {
        InputLimit {
            kind,
            bytes_max: mebibytes << 20,
        }
    }

    /// Returns the error of an input that is longer than this limit.
    fn exceeded(self) -> io::Error {
        let (size, unit) = match self.bytes_max {
            bytes if bytes % (1 << 20) == 0 => (bytes >> 20, "MiB"),
            bytes => (bytes, "bytes"),
        };
        let text = format!("it is longer than the limit of {}, {size} {unit}", self.kind);
        io::Error::new(ErrorKind::FileTooLarge, text)
    }
}

/// Reads an input completely. The path `-` means standard input. The function waits for the data of a pipe
/// ([`InputFile`]).
///
/// # Errors
/// The input cannot be read, or it is longer than the limit. In the second case, at most the limit plus one
/// byte is read.
pub fn read_input(path: &Path, limit: InputLimit) -> io::Result<Vec<u8>> {
    read_opened_input(InputFile::open(path)?, limit)
}

/// Reads an open input completely.
fn read_opened_input(input: InputFile, limit: InputLimit) -> io::Result<Vec<u8>> {
    if input.regular_bytes().is_some_and(|bytes| bytes > limit.bytes_max) {
        return Err(limit.exceeded());
    }
    let data = match input.pipe_id() {
        None => read_to_limit(input, limit)?,
        Some(id) => {
            let mut contents = PIPE_CONTENTS.lock().unwrap_or_else(PoisonError::into_inner);
            match contents.get(&id) {
                Some(data) => data.clone(),
                None => {
                    let data = read_to_limit(input, limit)?;
                    contents.insert(id, data.clone());
                    data
                }
            }
        }
    };
    match data.len() as u64 > limit.bytes_max {
        true => Err(limit.exceeded()),
        false => Ok(data),
    }
}

/// Returns a path through which other processes, and later reads of this process, can read an input. For a
/// regular file, this is its absolute path. The content of another input, such as a pipe, is stored in memory
/// until the end of this process, and the path names this memory.
///
/// # Errors
/// The input cannot be read, or it is longer than the limit.
pub fn reopenable_path(path: &Path, limit: InputLimit) -> io::Result<PathBuf> {
    // The path is not opened here: the data of a pipe is lost when its reader closes it.
    if path != Path::new("-") && path.metadata()?.is_file() {
        return path.canonicalize();
    }
    let mut memory = File::from(memfd_create(c"xoff-input", MFdFlags::MFD_CLOEXEC)?);
    memory.write_all(&read_input(path, limit)?)?;
    // The descriptor stays open until the end of the process.
    Ok(PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        memory.into_raw_fd()
    )))
}

/// The contents of the pipes that this process has read. A pipe can be read only once, but some commands read
/// a lab or a configuration for each of their runs.
static PIPE_CONTENTS: Mutex<BTreeMap<PipeId, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// The device number and the inode number of a pipe.
type PipeId = (u64, u64);

/// Reads an input to its end, or one byte beyond the limit.
fn read_to_limit(input: InputFile, limit: InputLimit) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    input.take(limit.bytes_max + 1).read_to_end(&mut data)?;
    Ok(data)
}

/// Reads an input like [`read_input`] and checks that it is UTF-8.
///
/// # Errors
/// The errors of [`read_input`], and text that is not UTF-8.
pub fn read_input_text(path: &Path, limit: InputLimit) -> io::Result<String> {
    read_owned_input_text(path, limit).map(|(text, _)| text)
}

/// Reads an input like [`read_input_text`]. Returns the text and the number of the user who owns the file. The number
/// belongs to the file that was read, so that nobody can replace the file between a check and the read.
///
/// # Errors
/// The errors of [`read_input_text`].
pub fn read_owned_input_text(path: &Path, limit: InputLimit) -> io::Result<(String, u32)> {
    let input = InputFile::open(path)?;
    let owner_uid = input.metadata.uid();
    let data = read_opened_input(input, limit)?;
    match String::from_utf8(data) {
        Ok(text) => Ok((text, owner_uid)),
        Err(_) => Err(io::Error::new(ErrorKind::InvalidData, "it is not text in UTF-8")),
    }
}

/// Whether a signal has ended a wait for data.
static WAIT_WAS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns whether a signal with a handler has ended a wait for the data of an input in this process.
pub fn was_input_wait_interrupted() -> bool {
    WAIT_WAS_INTERRUPTED.load(Ordering::Relaxed)
}

/// An open input: a regular file, a device, a pipe or standard input.
///
/// A read from a pipe waits for data. After 2 s without data, a message is logged once. A signal with a
/// handler ends the wait with [`ErrorKind::Interrupted`] as the kind of the error, and a signal without a
/// handler ends the program as usual. The file is opened without waiting for a writer, so the wait for a
/// writer can be interrupted, too.
#[derive(Debug)]
pub struct InputFile {
    file: File,
    metadata: Metadata,
    name: String,
    is_standard_input: bool,
    has_reported_wait: bool,
}

impl InputFile {
    /// Opens the input at a path. The path `-` means standard input.
    ///
    /// # Errors
    /// The file does not exist, cannot be read, or is a folder.
    pub fn open(path: &Path) -> io::Result<InputFile> {
        let is_standard_input = path == Path::new("-");
        let (file, name) = match is_standard_input {
            true => (
                File::from(stdin().as_fd().try_clone_to_owned()?),
                "standard input".to_owned(),
            ),
            false => {
                let file = OpenOptions::new()
                    .read(true)
                    .custom_flags(O_NONBLOCK | O_NOCTTY)
                    .open(path)?;
                (file, path.display().to_string())
            }
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(InputFile {
            file,
            metadata,
            name,
            is_standard_input,
            has_reported_wait: false,
        })
    }

    /// Returns the size of a regular file in bytes. `None` for all other inputs, whose size is not known.
    pub fn regular_bytes(&self) -> Option<u64> {
        self.metadata.is_file().then_some(self.metadata.len())
    }

    /// Returns the identity of an input that can be read only once: a pipe or standard input. `None` for all
    /// other inputs.
    fn pipe_id(&self) -> Option<PipeId> {
        let is_read_once = self.metadata.file_type().is_fifo() || self.is_standard_input;
        is_read_once.then(|| (self.metadata.dev(), self.metadata.ino()))
    }

    /// Waits until a read returns without blocking.
    fn wait_for_data(&mut self) -> io::Result<()> {
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        if !self.has_reported_wait {
            if poll(&mut fds, PollTimeout::from(WAIT_MESSAGE_AFTER_MS))? > 0 {
                return Ok(());
            }
            log::info!("waiting for data from {}", self.name);
            self.has_reported_wait = true;
        }
        poll(&mut fds, PollTimeout::NONE)?;
        Ok(())
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.metadata.is_file() {
                // `read_to_end` repeats reads with the error kind `Interrupted`, so another kind is necessary.
                self.wait_for_data().map_err(|error| match error.kind() {
                    ErrorKind::Interrupted => {
                        WAIT_WAS_INTERRUPTED.store(true, Ordering::Relaxed);
                        io::Error::other("interrupted while waiting for data")
                    }
                    _ => error,
                })?;
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nix::sys::stat::Mode;

    use super::*;

    /// A limit of ten bytes.
    const TEN_BYTES: InputLimit = InputLimit {
        kind: "a test",
        bytes_max: 10,
    };

    #[test]
    fn a_device_without_an_end_stops_at_the_limit() {
        let error = read_input(Path::new("/dev/zero"), TEN_BYTES)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "it is longer than the limit of a test, 10 bytes");
        let error = InputLimit::CONFIGURATION.exceeded().to_string();
        assert_eq!(error, "it is longer than the limit of a configuration, 128 MiB");
        assert_eq!(read_input(Path::new("/dev/null"), TEN_BYTES).unwrap(), b"");
    }

    #[test]
    fn the_limit_is_the_largest_accepted_size() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(read_input_text(file.path(), TEN_BYTES).unwrap(), "0123456789");
        file.write_all(b"0").unwrap();
        assert!(read_input(file.path(), TEN_BYTES).is_err());
    }

    #[test]
    fn a_named_pipe_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let name = path.clone();
        let writer = std::thread::spawn(move || {
            // Opening the pipe waits for its reader.
            let mut pipe = OpenOptions::new().write(true).open(name).unwrap();
            pipe.write_all(b"01234").unwrap();
            pipe.write_all(b"56789").unwrap();
        });
        for _ in 0..2 {
            // A second read returns the same data.
            assert_eq!(read_input_text(&path, TEN_BYTES).unwrap(), "0123456789");
        }
        writer.join().unwrap();
    }

    #[test]
    fn a_pipe_whose_writer_has_ended_is_read_through_its_number() {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"text").unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read_input_text(Path::new(&path), TEN_BYTES).unwrap(), "text");
    }

    #[test]
    fn a_pipe_gets_a_path_that_can_be_read_again() {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"text").unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        let again = reopenable_path(&path, TEN_BYTES).unwrap();
        for _ in 0..2 {
            assert_eq!(std::fs::read(&again).unwrap(), b"text");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let same = reopenable_path(file.path(), TEN_BYTES).unwrap();
        assert_eq!(same, file.path().canonicalize().unwrap());
    }

    #[test]
    fn folders_and_binary_data_are_refused() {
        assert!(read_input(Path::new("/"), TEN_BYTES).is_err());
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[0xff]).unwrap();
        let error = read_input_text(file.path(), TEN_BYTES).unwrap_err().to_string();
        assert!(error.contains("UTF-8"), "{error}");
    }
}
