//! The capture files that a replay writes.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use xoff_dataplane::config::SwitchConfig;
use xoff_wire::MacControl;

use super::replay_run::{DroppedFrame, FrameSink, SentFrame};
use super::store::FrameOrigin;
use xoff_capture::pcapng_writer::InterfaceBlock;
use xoff_capture::{Direction, PacketBlock, Writer};
use xoff_telemetry::ResultFile;

/// The destination of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureDestination {
    /// A file at this path.
    File(PathBuf),
    /// Standard output.
    Output,
}

impl CaptureDestination {
    /// Returns the destination for a path. The path `-` means standard output.
    pub fn of(path: &Path) -> CaptureDestination {
        match path == Path::new("-") {
            true => CaptureDestination::Output,
            false => CaptureDestination::File(path.to_owned()),
        }
    }

    fn create_writer(&self, standard_output: fn() -> Box<dyn Write + Send>) -> io::Result<CaptureOutput> {
        let output = match self {
            CaptureDestination::File(path) => CaptureOutput::File(ResultFile::create(path)?),
            CaptureDestination::Output => CaptureOutput::Standard(standard_output()),
        };
        Ok(output)
    }
}

/// The destinations of the captures of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayDestinations<'a> {
    /// The capture of the frames that leave the switch.
    pub sent: &'a CaptureDestination,
    /// The capture of the dropped frames. `None`: no capture.
    pub dropped: Option<&'a CaptureDestination>,
    /// Opens standard output for [`CaptureDestination::Output`].
    pub standard_output: fn() -> Box<dyn Write + Send>,
}

/// An open capture file.
enum CaptureOutput {
    /// A file that gets its name at the end.
    File(ResultFile),
    /// Standard output.
    Standard(Box<dyn Write + Send>),
}

impl CaptureOutput {
    /// Completes the file.
    fn commit(self) -> io::Result<()> {
        match self {
            CaptureOutput::File(file) => file.commit(),
            CaptureOutput::Standard(_) => Ok(()),
        }
    }
}

impl Write for CaptureOutput {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            CaptureOutput::File(file) => file.write(data),
            CaptureOutput::Standard(output) => output.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            CaptureOutput::File(file) => file.flush(),
            CaptureOutput::Standard(output) => output.flush(),
        }
    }
}

type CaptureWriter = Writer<BufWriter<CaptureOutput>>;

/// Writes the frames that leave the switch to a capture file (pcapng). An optional second file receives the
/// dropped frames.
pub struct ReplayCaptureFiles {
    sent: CaptureWriter,
    lost: Option<CaptureWriter>,
    ports: Vec<String>,
    /// Time stamp of model time 0, in nanoseconds since 1970.
    zero_ns: u64,
    /// Buffer for the comment of the current frame.
    comment: String,
}

impl std::fmt::Debug for ReplayCaptureFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayCaptureFiles")
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}

impl ReplayCaptureFiles {
    /// Creates the files with one interface for each port of the switch. `name` is the name of the replayed
    /// capture, for the comment of the file. `first_ns` is the time stamp of model time 0, in nanoseconds
    /// since 1970. With the first time stamp of the input as `first_ns`, a user can compare output and input
    /// frame by frame. If `first_ns` is `None` or negative, time stamps start at 1970.
    ///
    /// # Errors
    /// Returns the destination that cannot be written, with the error.
    pub fn create(
        config: &SwitchConfig,
        first_ns: Option<i64>,
        name: &str,
        destinations: &ReplayDestinations<'_>,
    ) -> Result<ReplayCaptureFiles, (CaptureDestination, io::Error)> {
        let interfaces: Vec<InterfaceBlock<'_>> = config
            .ports
            .iter()
            .map(|port| InterfaceBlock {
                name: &port.name,
                speed_mbps: port.link.speed_mbps,
                mac: Some(port.mac),
                snaplen: 0,
            })
            .collect();
        let begin = |to: &CaptureDestination, what: &str| {
            let comment = format!("xoff replay of {name}: {what}");
            to.create_writer(destinations.standard_output)
                .and_then(|file| Writer::new(BufWriter::with_capacity(1 << 18, file), &comment, &interfaces))
                .map_err(|error| (to.clone(), error))
        };
        Ok(ReplayCaptureFiles {
            sent: begin(destinations.sent, "frames that left the switch")?,
            lost: destinations
                .dropped
                .map(|to| begin(to, "frames that the switch dropped"))
                .transpose()?,
            ports: config.ports.iter().map(|port| port.name.clone()).collect(),
            zero_ns: first_ns.map_or(0, |first_ns| u64::try_from(first_ns).unwrap_or(0)),
            comment: String::new(),
        })
    }

    /// Writes buffered data and completes the files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn finish(self) -> io::Result<()> {
        finish_capture(self.sent)?;
        self.lost.map_or(Ok(()), finish_capture)
    }

    fn write_origin_comment(&mut self, origin: &FrameOrigin) {
        self.comment.clear();
        let FrameOrigin { number, tc, pg, .. } = origin;
        let port = &self.ports[origin.port.index()];
        let _ = write!(self.comment, "frame {number} from {port}, tc {tc}, pg {pg}");
    }
}

/// Writes buffered data and completes a file.
fn finish_capture(capture: CaptureWriter) -> io::Result<()> {
    let buffer = capture.finish()?;
    buffer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .commit()
}

impl FrameSink for ReplayCaptureFiles {
    fn write_sent(&mut self, sent: &SentFrame<'_>) -> io::Result<()> {
        match (sent.origin, sent.queue) {
            (Some(origin), Some(queue)) => {
                self.write_origin_comment(origin);
                let _ = write!(self.comment, ", queue {queue}");
                self.comment
                    .push_str(if sent.marked { ", CE marked" } else { "" });
            }
            _ => self.comment = describe_switch_frame(sent.data),
        }
        self.sent.write(&PacketBlock {
            interface: u32::from(sent.port.0),
            at_ns: self.zero_ns.saturating_add(sent.at.as_nanos()),
            len: sent.len,
            data: [sent.data, &[]],
            direction: Direction::Outbound,
            queue: sent.queue.map(u32::from),
            id: sent.origin.map(|origin| origin.number),
            comment: &self.comment,
        })
    }

    fn write_dropped(&mut self, dropped: &DroppedFrame<'_>) -> io::Result<()> {
        if self.lost.is_none() {
            return Ok(());
        }
        self.write_origin_comment(dropped.origin);
        let port = &self.ports[dropped.port.index()];
        let (reason, why) = (dropped.reason.name(), dropped.reason.describe());
        let _ = write!(self.comment, ", dropped at {port}: {reason}: {why}");
        if let Some(limit) = dropped.refusal {
            let _ = write!(self.comment, " {limit}.");
        }
        let Some(file) = &mut self.lost else {
            return Ok(());
        };
        file.write(&PacketBlock {
            interface: u32::from(dropped.port.0),
            at_ns: self.zero_ns.saturating_add(dropped.at.as_nanos()),
            len: dropped.origin.len,
            data: [&dropped.origin.data, &[]],
            // A dropped frame is written with its received content, even if it was dropped at egress.
            direction: Direction::Inbound,
            queue: None,
            id: Some(dropped.origin.number),
            comment: &self.comment,
        })
    }
}

/// Returns a comment for a frame that the switch created.
fn describe_switch_frame(data: &[u8]) -> String {
    let Ok(MacControl::Pfc(pfc)) = MacControl::parse(data) else {
        return "sent by the switch itself".to_owned();
    };
    let words = |on: bool| {
        let classes = (0..8).filter(|n| pfc.enable & 1 << n != 0 && (pfc.quanta[*n] > 0) == on);
        classes.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
    };
    let mut text = "PFC of the switch".to_owned();
    for (word, classes) in [("XOFF", words(true)), ("XON", words(false))] {
        if !classes.is_empty() {
            let _ = write!(text, ", {word} {classes}");
        }
    }
    text
}
