//! The recorder of a running switch. A recording never delays the switch.
//!
//! The switch worker composes pcapng blocks in chunks of memory, and passes full chunks to a writer thread.
//! The writer thread writes the chunks to the files and returns the empty chunks. The number of chunks is
//! fixed. If a disk or a pipe is too slow, no chunk is free. The recorder then counts the frame as missed and
//! does not record it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};
use xoff_dataplane::PortId;
use xoff_dataplane::config::SwitchConfig;

use super::Direction;
use super::pcapng_writer::{self, InterfaceBlock, PacketBlock, max_packet_block_bytes};

/// Number of chunks that all files share, in addition to the current chunk of each file. These chunks have a
/// total size of 16 MiB.
const SHARED_CHUNKS: usize = 64;
/// Size of a chunk in bytes. A chunk holds many frames, so the cost of passing a chunk to the writer thread
/// is small for each frame.
const CHUNK_BYTES: usize = 256 << 10;

/// The recordings of a run (`--pcap`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcapOptions {
    /// The files to write. An empty list means no recording.
    pub requests: Vec<PcapRequest>,
    /// Largest number of bytes stored of each frame. The value 0 means no limit.
    pub snaplen: u32,
    /// Opens standard output for a file with the path `-`. `None` if the program does not offer standard
    /// output. Another process does not receive this value.
    #[serde(skip)]
    pub standard_output: Option<StandardOutput>,
}

/// A function of the program that opens standard output. Libraries do not open standard output themselves.
#[derive(Clone, Copy, Debug)]
pub struct StandardOutput(pub fn() -> Box<dyn Write + Send>);

impl PartialEq for StandardOutput {
    /// All values open the same output, so they are equal.
    fn eq(&self, _: &StandardOutput) -> bool {
        true
    }
}

impl Eq for StandardOutput {}

/// A capture file and the ports that it records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcapRequest {
    /// Name of the port to record. `None` records all ports. Each recorded port is an interface of the file.
    pub port: Option<String>,
    /// Path of the file. The path `-` is standard output.
    pub file: PathBuf,
}

/// The error of a recording that does not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot record to {}: {source}", file.display())]
pub struct PcapError {
    /// Path of the file.
    pub file: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// Composed blocks for one file.
struct CaptureChunk {
    file: usize,
    blocks: Vec<u8>,
}

/// The part of a recording that belongs to the switch worker. No method blocks.
#[derive(Debug)]
pub struct Recorder {
    /// Indexed by port. For each file that records the port: the index of the file, and the interface number
    /// of the port in this file.
    taps: Vec<Vec<(usize, u32)>>,
    /// Indexed by file. The chunk that is being filled. `None` if the file has no chunk yet.
    current_chunks: Vec<Option<Vec<u8>>>,
    to_writer: Sender<CaptureChunk>,
    empty_chunks: Receiver<Vec<u8>>,
    snaplen: usize,
    /// Number of frames that passed each recorded port.
    passed_frames: Vec<u64>,
    missed_frames: Vec<u64>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` at the start, in nanoseconds. The difference stays constant
    /// during a recording. The time stamps therefore stay in order even if somebody sets the system clock.
    real_less_monotonic_ns: i64,
}

/// The part of a recording that belongs to the writer thread.
pub struct RecordWriter {
    files: Vec<(PathBuf, Option<Box<dyn Write + Send>>)>,
    chunks: Receiver<CaptureChunk>,
    to_recorder: Sender<Vec<u8>>,
}

impl std::fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<&Path> = self.files.iter().map(|(path, _)| path.as_path()).collect();
        f.debug_struct("RecordWriter")
            .field("files", &files)
            .finish_non_exhaustive()
    }
}

/// Opens the files and writes their headers. `dilate` is the factor by which model time runs slower than wall
/// time. If the factor is above 1, a header notes it. `real_less_monotonic_ns` is `CLOCK_REALTIME` minus
/// `CLOCK_MONOTONIC` in nanoseconds. This difference converts the clock of the driver to the time of day.
///
/// # Errors
///
/// Returns an error for the first file that cannot be created or written. An unknown port name is not an
/// error. The file of an unknown port contains no frames.
pub fn open_recording(
    options: &PcapOptions,
    config: &SwitchConfig,
    dilate: u32,
    real_less_monotonic_ns: i64,
) -> Result<(Recorder, RecordWriter), PcapError> {
    let count = options.requests.len();
    // The channel has room for every chunk and for the statistics at the end of each file.
    let (to_writer, chunks) = bounded(SHARED_CHUNKS + 2 * count);
    let (to_recorder, empty_chunks) = bounded(SHARED_CHUNKS + count);
    for _ in 0..SHARED_CHUNKS + count {
        // The channel has room for all chunks, so this call does not fail.
        let _ = to_recorder.try_send(Vec::with_capacity(CHUNK_BYTES));
    }
    let mut taps = vec![Vec::new(); config.ports.len()];
    let mut files = Vec::with_capacity(count);
    for (number, request) in options.requests.iter().enumerate() {
        let header = build_file_header_blocks(number, request, options.snaplen, config, dilate, &mut taps);
        let error = |source| PcapError {
            file: request.file.clone(),
            source,
        };
        let mut file = open_output(&request.file, options.standard_output).map_err(error)?;
        file.write_all(&header).map_err(error)?;
        files.push((request.file.clone(), Some(file)));
    }
    let snaplen = match options.snaplen {
        0 => usize::MAX,
        snaplen => snaplen as usize,
    };
    let recorder = Recorder {
        current_chunks: (0..count).map(|_| None).collect(),
        to_writer,
        empty_chunks,
        snaplen,
        passed_frames: vec![0; taps.len()],
        missed_frames: vec![0; taps.len()],
        taps,
        real_less_monotonic_ns,
    };
    Ok((
        recorder,
        RecordWriter {
            files,
            chunks,
            to_recorder,
        },
    ))
}

fn open_output(file: &Path, standard_output: Option<StandardOutput>) -> io::Result<Box<dyn Write + Send>> {
    match (file == Path::new("-"), standard_output) {
        (true, Some(StandardOutput(open))) => Ok(open()),
        (true, None) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "no standard output is available",
        )),
        (false, _) => Ok(Box::new(xoff_telemetry::open_stream_file(file)?)),
    }
}

/// Returns the first blocks of a file. The function adds the recorded ports to `taps`.
fn build_file_header_blocks(
    file_number: usize,
    request: &PcapRequest,
    snaplen: u32,
    config: &SwitchConfig,
    dilate: u32,
    taps: &mut [Vec<(usize, u32)>],
) -> Vec<u8> {
    let mut comment = format!("frames of switch {}; stamps are of the wall clock", config.name);
    if dilate > 1 {
        comment.push_str(&format!(", model time ran {dilate} times slower"));
    }
    let mut header = Vec::new();
    pcapng_writer::append_section_header(&mut header, &comment);
    let wanted = |name: &str| request.port.as_deref().is_none_or(|port| port == name);
    let ports = config
        .ports
        .iter()
        .enumerate()
        .filter(|(_, port)| wanted(&port.name));
    for (interface, (index, port)) in ports.enumerate() {
        taps[index].push((file_number, interface as u32));
        let block = InterfaceBlock {
            name: &port.name,
            speed_mbps: port.link.speed_mbps,
            mac: Some(port.mac),
            snaplen,
        };
        pcapng_writer::append_interface(&mut header, &block);
    }
    header
}

impl Recorder {
    /// Records a frame that passes `port`. Does nothing if no file records this port. `monotonic_ns` is the
    /// time of the frame in nanoseconds of `CLOCK_MONOTONIC`. `frame` is the frame without FCS in two
    /// consecutive parts. The second part may be empty.
    ///
    /// A file stores only the first [`PcapOptions::snaplen`] bytes of the frame. If a file has no free chunk
    /// of memory, the frame is left out of this file and counted as missed (see [`Recorder::finish`]).
    pub fn record_frame(&mut self, port: PortId, direction: Direction, monotonic_ns: u64, frame: [&[u8]; 2]) {
        let port = port.index();
        if self.taps[port].is_empty() {
            return;
        }
        self.passed_frames[port] += 1;
        let [head, tail] = frame;
        let stored_head = &head[..head.len().min(self.snaplen)];
        let stored_tail = &tail[..tail.len().min(self.snaplen - stored_head.len())];
        let room = max_packet_block_bytes(stored_head.len() + stored_tail.len(), 0);
        let mut missed = false;
        for tap in 0..self.taps[port].len() {
            let (file, interface) = self.taps[port][tap];
            let packet = PacketBlock {
                interface,
                at_ns: monotonic_ns.saturating_add_signed(self.real_less_monotonic_ns),
                len: (head.len() + tail.len()) as u32,
                data: [stored_head, stored_tail],
                direction,
                queue: None,
                id: None,
                comment: "",
            };
            match self.chunk_with_room(file, room) {
                Some(blocks) => pcapng_writer::append_packet(blocks, &packet),
                None => missed = true,
            }
        }
        self.missed_frames[port] += u64::from(missed);
    }

    /// Passes all composed blocks to the writer thread. Readers of the file then see the latest frames.
    pub fn flush(&mut self) {
        (0..self.current_chunks.len()).for_each(|file| self.send_chunk(file));
    }

    /// Ends the recording and writes the counters of each recorded port (interface statistics blocks).
    /// `monotonic_ns` is the time of `CLOCK_MONOTONIC` in nanoseconds. Returns the number of missed frames
    /// for each port of the switch, in the order of the ports. A frame that is missing in several files
    /// counts once.
    pub fn finish(mut self, monotonic_ns: u64) -> Vec<u64> {
        let at_ns = monotonic_ns.saturating_add_signed(self.real_less_monotonic_ns);
        let mut statistics = vec![Vec::new(); self.current_chunks.len()];
        for port in 0..self.taps.len() {
            let (passed, missed) = (self.passed_frames[port], self.missed_frames[port]);
            for tap in 0..self.taps[port].len() {
                let (file, interface) = self.taps[port][tap];
                // The statistics use their own buffer, because they must be written even if no chunk is free.
                pcapng_writer::append_statistics(&mut statistics[file], interface, at_ns, passed, missed);
            }
        }
        self.flush();
        for (file, blocks) in statistics.into_iter().enumerate() {
            let _ = self.to_writer.try_send(CaptureChunk { file, blocks });
        }
        self.missed_frames
    }

    /// Returns the current chunk of a file. The chunk has at least `room` free bytes. Returns `None` if no
    /// chunk is free.
    fn chunk_with_room(&mut self, file: usize, room: usize) -> Option<&mut Vec<u8>> {
        let full = |blocks: &Vec<u8>| blocks.len() + room > CHUNK_BYTES;
        if self.current_chunks[file].as_ref().is_some_and(full) {
            self.send_chunk(file);
        }
        let current_chunk = &mut self.current_chunks[file];
        if current_chunk.is_none() {
            *current_chunk = self.empty_chunks.try_recv().ok();
        }
        current_chunk.as_mut()
    }

    fn send_chunk(&mut self, file: usize) {
        if let Some(blocks) = self.current_chunks[file].take_if(|blocks| !blocks.is_empty()) {
            // The channel has room for every chunk. A dead writer thread accepts no chunk and returns none.
            let _ = self.to_writer.try_send(CaptureChunk { file, blocks });
        }
    }
}

impl RecordWriter {
    /// Writes chunks until the recorder is dropped. Returns a message for each file that could not be written
    /// to its end. A broken pipe, such as the end of `head`, causes no message.
    pub fn run(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Ok(CaptureChunk { file, mut blocks }) = self.chunks.recv() {
            let (path, open) = &mut self.files[file];
            let result = match open {
                Some(file) => file.write_all(&blocks).and_then(|()| file.flush()),
                None => Ok(()),
            };
            if let Err(error) = result {
                *open = None;
                // A broken pipe is no error: the reader, such as `head`, has read enough.
                if error.kind() != io::ErrorKind::BrokenPipe {
                    let note = format!("the recording {} ends early: {error}", path.display());
                    log::warn!("{note}");
                    notes.push(note);
                }
            }
            blocks.clear();
            // A dropped recorder needs no chunks.
            let _ = self.to_recorder.try_send(blocks);
        }
        notes
    }
}
