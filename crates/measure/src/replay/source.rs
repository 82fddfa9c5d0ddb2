//! Opens a capture so that it can be read more than once. Decompresses captures in gzip format.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::GzDecoder;

use xoff_capture::{ReadError, ReadErrorKind, Reader};
use xoff_telemetry::InputFile;
use xoff_telemetry::failure::Failure;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Number of bytes that are read from a pipe before its format is checked.
const FORMAT_CHECK_BYTES: u64 = 1 << 16;

/// The source of a capture.
#[derive(Clone, Debug)]
pub enum CaptureSource {
    /// A regular file. Each pass opens it again.
    File(PathBuf),
    /// A temporary file without a name. It contains the data of a source that can be read only once, such as
    /// standard input or a pipe.
    Spool(Arc<File>),
}

impl CaptureSource {
    /// Opens the capture at a path. The path `-` means standard input. If the file is not a regular file, its
    /// content is first copied to a temporary file, which has at most `spool_bytes_max` bytes. The function
    /// waits for the data of a pipe ([`InputFile`]).
    ///
    /// # Errors
    /// The capture cannot be opened or read, is not a capture, or is longer than `spool_bytes_max`.
    pub fn open(path: &Path, spool_bytes_max: u64) -> Result<CaptureSource, Failure> {
        let name = path.display().to_string();
        let unreadable = |error: io::Error| read_error_of(error).to_failure(&name);
        let input = InputFile::open(path).map_err(unreadable)?;
        if input.regular_bytes().is_some() && path != Path::new("-") {
            return Ok(CaptureSource::File(path.to_owned()));
        }
        spool_capture(input, &name, spool_bytes_max)
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
            CaptureSource::Spool(file) => {
                let file = Arc::clone(file);
                decompress(BufReader::with_capacity(1 << 18, SpoolReader { file, offset: 0 }))
            }
        }
    }
}

/// Copies an input to a temporary file without a name.
fn spool_capture(mut input: InputFile, name: &str, bytes_max: u64) -> Result<CaptureSource, Failure> {
    let unreadable = |error: ReadError| error.to_failure(name);
    let mut begin = Vec::new();
    (&mut input)
        .take(FORMAT_CHECK_BYTES)
        .read_to_end(&mut begin)
        .map_err(|error| unreadable(read_error_of(error)))?;
    // A device such as `/dev/zero` is refused here, before it fills the disk.
    if let Err(error) = decompress(Cursor::new(begin.clone())).and_then(Reader::new)
        && matches!(error.kind, ReadErrorKind::UnknownFormat(_) | ReadErrorKind::Empty)
    {
        return Err(unreadable(error));
    }
    let cannot_spool = |error: io::Error| {
        Failure::environment("the capture cannot be copied to a temporary file")
            .at(name)
            .because(error)
            .fix("set the variable TMPDIR to a folder with free space, or give a capture in a file")
    };
    let mut file = tempfile::tempfile_in(spool_folder()).map_err(cannot_spool)?;
    let mut chunk = begin;
    let mut spooled = 0;
    while !chunk.is_empty() {
        spooled += chunk.len() as u64;
        if spooled > bytes_max {
            return Err(
                Failure::configuration("the capture is too long for a temporary file")
                    .at(name)
                    .because(format!("the limit of --spool is {bytes_max} bytes"))
                    .fix("write the capture to a file first, or raise --spool"),
            );
        }
        file.write_all(&chunk).map_err(cannot_spool)?;
        chunk.resize(1 << 18, 0);
        let got = input
            .read(&mut chunk)
            .map_err(|error| unreadable(read_error_of(error)))?;
        chunk.truncate(got);
    }
    Ok(CaptureSource::Spool(Arc::new(file)))
}

/// Returns the folder of temporary files: the value of `TMPDIR`, or else `/var/tmp`, which is on a disk on most
/// machines, or else `/tmp`.
fn spool_folder() -> PathBuf {
    let large_files = Path::new("/var/tmp");
    match std::env::var_os("TMPDIR") {
        None if large_files.is_dir() => large_files.to_owned(),
        _ => std::env::temp_dir(),
    }
}

/// A pass over a temporary file. Several passes can read the same file.
struct SpoolReader {
    file: Arc<File>,
    offset: u64,
}

impl Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.offset)?;
        self.offset += got as u64;
        Ok(got)
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

    /// Returns a pcap file with `records` empty frames of Ethernet.
    fn pcap_file(records: usize) -> Vec<u8> {
        let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
        let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.resize(file.len() + 16 * records, 0);
        file
    }

    /// Passes data through a pipe and opens its other end as a capture.
    fn open_piped(data: Vec<u8>, spool_bytes_max: u64) -> Result<CaptureSource, Failure> {
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().unwrap();
        let feeder = std::thread::spawn(move || {
            // The reader may end early.
            let _ = writer.write_all(&data);
        });
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        let source = CaptureSource::open(&path, spool_bytes_max);
        drop(reader);
        feeder.join().unwrap();
        source
    }

    #[test]
    fn a_piped_capture_is_read_several_times() {
        let data = pcap_file(100_000);
        let source = open_piped(data.clone(), data.len() as u64).unwrap();
        for _ in 0..2 {
            let mut read = Vec::new();
            source.read().unwrap().read_to_end(&mut read).unwrap();
            assert!(read == data);
        }
    }

    #[test]
    fn a_piped_capture_stops_at_the_limit_of_the_spool() {
        let data = pcap_file(100_000);
        for limit in [0, 100_000, data.len() as u64 - 1] {
            let failure = open_piped(data.clone(), limit).unwrap_err();
            let why = failure.why.unwrap_or_default();
            assert_eq!(why, format!("the limit of --spool is {limit} bytes"));
            assert_eq!(failure.exit as u8, 4);
        }
    }

    #[test]
    fn a_device_that_is_no_capture_is_refused_before_it_is_copied() {
        let failure = CaptureSource::open(Path::new("/dev/zero"), u64::MAX).unwrap_err();
        assert!(failure.what.contains("not a capture"), "{failure}");
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
