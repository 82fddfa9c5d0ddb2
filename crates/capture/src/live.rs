//! Recording the frames of a switch that runs, without ever making it wait.
//!
//! The switch's worker composes blocks in a chunk of memory and hands full chunks to a thread that writes them; written
//! ones come back. There are a fixed number of chunks. When none is left, because a disk or a pipe is too slow, frames are
//! not recorded, and counted: a recording may have gaps, the switch has none.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};
use xoff_dataplane::PortId;
use xoff_dataplane::config::SwitchConfig;

use super::Direction;
use super::write::{self, InterfaceBlock, Packet, packet_bytes_max};

/// Chunks of all files together, beside the one each file has in hand: 16 MiB.
const CHUNKS: usize = 64;
/// Octets of a chunk: some hundred frames, so that handing it over costs nothing per frame.
const CHUNK_BYTES: usize = 256 << 10;

/// What is to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcapOptions {
    /// The files.
    pub requests: Vec<PcapRequest>,
    /// Octets stored of each frame at most; 0: all.
    pub snaplen: u32,
}

/// A file, and what goes into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcapRequest {
    /// One port; `None`: all of them, each an interface of the file.
    pub port: Option<String>,
    /// The file; `-` is standard output.
    pub file: PathBuf,
}

/// A file that cannot be recorded to.
#[derive(Debug, thiserror::Error)]
#[error("cannot record to {}: {source}", file.display())]
pub struct PcapError {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Composed blocks for one file.
struct Chunk {
    file: usize,
    blocks: Vec<u8>,
}

/// The worker's end. It never waits.
#[derive(Debug)]
pub struct Recorder {
    /// For each port, the files it is recorded to, and its number there.
    taps: Vec<Vec<(usize, u32)>>,
    /// Of each file, the chunk in hand.
    in_hand: Vec<Option<Vec<u8>>>,
    to_writer: Sender<Chunk>,
    written: Receiver<Vec<u8>>,
    snaplen: usize,
    /// Frames that passed each port, and those of them that are not in every file they belong to.
    passed: Vec<u64>,
    missed: Vec<u64>,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, at the start: a clock that is set must not tear a recording apart.
    real_less_monotonic_ns: i64,
}

/// The thread's end.
pub struct RecordWriter {
    files: Vec<(PathBuf, Option<Box<dyn Write + Send>>)>,
    chunks: Receiver<Chunk>,
    back: Sender<Vec<u8>>,
}

impl std::fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let files: Vec<&Path> = self.files.iter().map(|(path, _)| path.as_path()).collect();
        f.debug_struct("RecordWriter")
            .field("files", &files)
            .finish_non_exhaustive()
    }
}

/// Opens the files and begins them. `real_less_monotonic_ns` turns the driver's clock into time of day.
///
/// # Errors
/// The first file that cannot be written. A port that does not exist is recorded to a file without frames.
pub fn record(
    options: &PcapOptions,
    config: &SwitchConfig,
    dilate: u32,
    real_less_monotonic_ns: i64,
) -> Result<(Recorder, RecordWriter), PcapError> {
    let count = options.requests.len();
    // Room for every chunk, and for the last words of each file.
    let (to_writer, chunks) = bounded(CHUNKS + 2 * count);
    let (back, written) = bounded(CHUNKS + count);
    for _ in 0..CHUNKS + count {
        // The channel has room for all of them.
        let _ = back.try_send(Vec::with_capacity(CHUNK_BYTES));
    }
    let mut taps = vec![Vec::new(); config.ports.len()];
    let mut files = Vec::with_capacity(count);
    for (number, request) in options.requests.iter().enumerate() {
        let header = begin(number, request, options.snaplen, config, dilate, &mut taps);
        let error = |source| PcapError {
            file: request.file.clone(),
            source,
        };
        let mut file = open(&request.file).map_err(error)?;
        file.write_all(&header).map_err(error)?;
        files.push((request.file.clone(), Some(file)));
    }
    let snaplen = match options.snaplen {
        0 => usize::MAX,
        snaplen => snaplen as usize,
    };
    let recorder = Recorder {
        in_hand: (0..count).map(|_| None).collect(),
        to_writer,
        written,
        snaplen,
        passed: vec![0; taps.len()],
        missed: vec![0; taps.len()],
        taps,
        real_less_monotonic_ns,
    };
    Ok((recorder, RecordWriter { files, chunks, back }))
}

fn open(file: &Path) -> io::Result<Box<dyn Write + Send>> {
    match file == Path::new("-") {
        true => Ok(Box::new(io::stdout())),
        false => Ok(Box::new(File::create(file)?)),
    }
}

/// The first blocks of a file; its ports are noted in `taps`.
fn begin(
    number: usize,
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
    write::section(&mut header, &comment);
    let wanted = |name: &str| request.port.as_deref().is_none_or(|port| port == name);
    let ports = config
        .ports
        .iter()
        .enumerate()
        .filter(|(_, port)| wanted(&port.name));
    for (interface, (index, port)) in ports.enumerate() {
        taps[index].push((number, interface as u32));
        let block = InterfaceBlock {
            name: &port.name,
            speed_mbps: port.link.speed_mbps,
            mac: Some(port.mac),
            snaplen,
        };
        write::interface(&mut header, &block);
    }
    header
}

impl Recorder {
    /// Records a frame that passes a port at a time of CLOCK_MONOTONIC. The frame may lie in two parts.
    pub fn record(&mut self, port: PortId, direction: Direction, monotonic_ns: u64, frame: [&[u8]; 2]) {
        let port = port.index();
        if self.taps[port].is_empty() {
            return;
        }
        self.passed[port] += 1;
        let [head, tail] = frame;
        let stored_head = &head[..head.len().min(self.snaplen)];
        let stored_tail = &tail[..tail.len().min(self.snaplen - stored_head.len())];
        let room = packet_bytes_max(stored_head.len() + stored_tail.len(), 0);
        let mut missed = false;
        for tap in 0..self.taps[port].len() {
            let (file, interface) = self.taps[port][tap];
            let packet = Packet {
                interface,
                at_ns: monotonic_ns.saturating_add_signed(self.real_less_monotonic_ns),
                len: (head.len() + tail.len()) as u32,
                data: [stored_head, stored_tail],
                direction,
                queue: None,
                id: None,
                comment: "",
            };
            match self.chunk(file, room) {
                Some(blocks) => write::packet(blocks, &packet),
                None => missed = true,
            }
        }
        self.missed[port] += u64::from(missed);
    }

    /// Hands what was composed so far to the writer, so that whoever follows the file sees it.
    pub fn flush(&mut self) {
        (0..self.in_hand.len()).for_each(|file| self.hand_over(file));
    }

    /// The end: the counts go into the files. Frames of each port that were missed.
    pub fn finish(mut self, monotonic_ns: u64) -> Vec<u64> {
        let at_ns = monotonic_ns.saturating_add_signed(self.real_less_monotonic_ns);
        let mut last_words = vec![Vec::new(); self.in_hand.len()];
        for port in 0..self.taps.len() {
            let (passed, missed) = (self.passed[port], self.missed[port]);
            for tap in 0..self.taps[port].len() {
                let (file, interface) = self.taps[port][tap];
                // Not a chunk: there may be none left, and these are to be in the file all the same.
                write::statistics(&mut last_words[file], interface, at_ns, passed, missed);
            }
        }
        self.flush();
        for (file, blocks) in last_words.into_iter().enumerate() {
            let _ = self.to_writer.try_send(Chunk { file, blocks });
        }
        self.missed
    }

    /// The chunk in hand of a file, with room for so much more; `None` if there is none.
    fn chunk(&mut self, file: usize, room: usize) -> Option<&mut Vec<u8>> {
        let full = |blocks: &Vec<u8>| blocks.len() + room > CHUNK_BYTES;
        if self.in_hand[file].as_ref().is_some_and(full) {
            self.hand_over(file);
        }
        let in_hand = &mut self.in_hand[file];
        if in_hand.is_none() {
            *in_hand = self.written.try_recv().ok();
        }
        in_hand.as_mut()
    }

    fn hand_over(&mut self, file: usize) {
        if let Some(blocks) = self.in_hand[file].take_if(|blocks| !blocks.is_empty()) {
            // The channel has room for every chunk there is; a writer that has died takes none, and none comes back.
            let _ = self.to_writer.try_send(Chunk { file, blocks });
        }
    }
}

impl RecordWriter {
    /// Writes until the recorder is gone. What could not be written, in words.
    pub fn run(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        while let Ok(Chunk { file, mut blocks }) = self.chunks.recv() {
            let (path, open) = &mut self.files[file];
            let result = match open {
                Some(file) => file.write_all(&blocks).and_then(|()| file.flush()),
                None => Ok(()),
            };
            if let Err(error) = result {
                *open = None;
                // A reader that has seen enough (`| head`) is no fault.
                if error.kind() != io::ErrorKind::BrokenPipe {
                    let note = format!("the recording {} ends early: {error}", path.display());
                    eprintln!("warning: {note}");
                    notes.push(note);
                }
            }
            blocks.clear();
            // A recorder that is gone needs no chunks.
            let _ = self.back.try_send(blocks);
        }
        notes
    }
}
