//! The captures that a replay writes.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use xoff_dataplane::config::SwitchConfig;
use xoff_wire::MacControl;

use super::player::{Lost, Sent, Sink};
use super::store::Origin;
use xoff_capture::write::InterfaceBlock;
use xoff_capture::{Direction, PacketBlock, Writer};

/// Where a capture goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file.
    File(PathBuf),
    /// Standard output.
    Output,
}

impl Destination {
    /// `-` is standard output.
    pub fn of(path: &Path) -> Destination {
        match path == Path::new("-") {
            true => Destination::Output,
            false => Destination::File(path.to_owned()),
        }
    }

    fn open(&self) -> io::Result<Box<dyn Write>> {
        Ok(match self {
            Destination::File(path) => Box::new(BufWriter::with_capacity(1 << 18, File::create(path)?)),
            Destination::Output => Box::new(BufWriter::new(io::stdout())),
        })
    }
}

type OutFile = Writer<Box<dyn Write>>;

/// One capture of all ports: what left by them; and, where asked for, one of what was dropped.
pub struct CaptureFiles {
    sent: OutFile,
    lost: Option<OutFile>,
    ports: Vec<String>,
    /// Model time zero, in nanoseconds since 1970.
    zero_ns: u64,
    /// The comment in hand.
    comment: String,
}

impl std::fmt::Debug for CaptureFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureFiles")
            .field("ports", &self.ports)
            .finish_non_exhaustive()
    }
}

impl CaptureFiles {
    /// Begins the files: an interface for each port of the switch. Model time begins at `first_ns`, nanoseconds since
    /// 1970, so that output and input can be compared frame by frame; without a stamp at 1970.
    ///
    /// # Errors
    /// The place that cannot be written, and why.
    pub fn create(
        config: &SwitchConfig,
        first_ns: Option<i64>,
        name: &str,
        sent: &Destination,
        lost: Option<&Destination>,
    ) -> Result<CaptureFiles, (Destination, io::Error)> {
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
        let begin = |to: &Destination, what: &str| {
            let comment = format!("xoff replay of {name}: {what}");
            to.open()
                .and_then(|file| Writer::new(file, &comment, &interfaces))
                .map_err(|error| (to.clone(), error))
        };
        Ok(CaptureFiles {
            sent: begin(sent, "what left the switch")?,
            lost: lost.map(|to| begin(to, "what the switch dropped")).transpose()?,
            ports: config.ports.iter().map(|port| port.name.clone()).collect(),
            zero_ns: first_ns.map_or(0, |first_ns| u64::try_from(first_ns).unwrap_or(0)),
            comment: String::new(),
        })
    }

    /// Completes the files.
    ///
    /// # Errors
    /// Those of the files.
    pub fn finish(self) -> io::Result<()> {
        self.sent.finish()?;
        self.lost.map_or(Ok(()), Writer::finish)
    }

    fn say_origin(&mut self, origin: &Origin) {
        self.comment.clear();
        let Origin { number, tc, pg, .. } = origin;
        let port = &self.ports[origin.port.index()];
        let _ = write!(self.comment, "frame {number} from {port}, tc {tc}, pg {pg}");
    }
}

impl Sink for CaptureFiles {
    fn sent(&mut self, sent: &Sent<'_>) -> io::Result<()> {
        match (sent.origin, sent.queue) {
            (Some(origin), Some(queue)) => {
                self.say_origin(origin);
                let _ = write!(self.comment, ", queue {queue}");
                self.comment
                    .push_str(if sent.marked { ", CE marked" } else { "" });
            }
            _ => self.comment = own(sent.data),
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

    fn lost(&mut self, lost: &Lost<'_>) -> io::Result<()> {
        if self.lost.is_none() {
            return Ok(());
        }
        self.say_origin(lost.origin);
        let port = &self.ports[lost.port.index()];
        let (reason, why) = (lost.reason.name(), lost.reason.describe());
        let _ = write!(self.comment, ", dropped at {port}: {reason}: {why}");
        if let Some(limit) = lost.refusal {
            let _ = write!(self.comment, " {limit}.");
        }
        let Some(file) = &mut self.lost else {
            return Ok(());
        };
        file.write(&PacketBlock {
            interface: u32::from(lost.port.0),
            at_ns: self.zero_ns.saturating_add(lost.at.as_nanos()),
            len: lost.origin.len,
            data: [&lost.origin.data, &[]],
            // As it came in: what is dropped on its way out is shown before any edit, too.
            direction: Direction::Inbound,
            queue: None,
            id: Some(lost.origin.number),
            comment: &self.comment,
        })
    }
}

/// What a frame is that the switch made.
fn own(data: &[u8]) -> String {
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
