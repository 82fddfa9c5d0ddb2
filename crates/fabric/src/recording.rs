//! Records the frames of a link as pcapng, in both directions.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;
use xoff_units::Picos;

use super::observer::{FrameView, ObservedEvents, Observer};
use super::plan::{FabricPlan, LinkEnd};
use xoff_capture::Direction;
use xoff_capture::pcapng_writer::{
    InterfaceBlock, PacketBlock, append_interface, append_packet, append_section_header,
};
use xoff_telemetry::StreamFile;

/// Number of bytes per write.
const CHUNK_BYTES: usize = 1 << 16;

/// Reason why the recording of a link failed.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The file cannot be created or written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        error: std::io::Error,
    },
}

/// Observer that records the frames of one link. A frame is recorded with the time at which it starts to
/// leave an end of the link, in nanoseconds. In the recording, interface 0 is the first end of the link in
/// the plan and interface 1 is the second end. Frames of queue pairs are recorded without payload, because
/// virtual time stores only their headers.
#[derive(Debug)]
pub struct LinkRecording {
    path: PathBuf,
    ends: [LinkEnd; 2],
    file: BufWriter<StreamFile>,
    chunk: Vec<u8>,
    error: Option<std::io::Error>,
}

impl LinkRecording {
    /// Creates the file `path` for the recording of a link. An existing file is overwritten. `link` is an
    /// index in [`FabricPlan::links`].
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    ///
    /// # Panics
    /// Panics if the plan has no such link or if an end of the link does not exist.
    pub fn new(plan: &FabricPlan, link: usize, path: &Path) -> Result<LinkRecording, RecordingError> {
        let file = xoff_telemetry::open_stream_file(path).map_err(|error| RecordingError::Write {
            path: path.to_owned(),
            error,
        })?;
        let link = &plan.links[link];
        let mut chunk = Vec::with_capacity(2 * CHUNK_BYTES);
        append_section_header(
            &mut chunk,
            &format!("link {} in virtual time, from 1970-01-01", link.name),
        );
        for end in link.ends {
            let (name, speed_mbps, mac) = match end {
                LinkEnd::Host(host) => {
                    let host = &plan.hosts[host as usize];
                    (host.name.clone(), host.nic.link.speed_mbps, host.mac)
                }
                LinkEnd::Switch { switch, port } => {
                    let switch = &plan.switches[switch as usize];
                    let port = &switch.ports[usize::from(port)];
                    (
                        format!("{}:{}", switch.name, port.name),
                        port.link.speed_mbps,
                        port.mac,
                    )
                }
            };
            append_interface(
                &mut chunk,
                &InterfaceBlock {
                    name: &name,
                    speed_mbps,
                    mac: Some(mac),
                    snaplen: 0,
                },
            );
        }
        Ok(LinkRecording {
            path: path.to_owned(),
            ends: link.ends,
            file: BufWriter::new(file),
            chunk,
            error: None,
        })
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.file.write_all(&self.chunk).err();
        }
        self.chunk.clear();
    }

    /// Writes the remaining frames and closes the recording.
    ///
    /// # Errors
    /// Returns the first write error. Frames after this error are missing in the file.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        self.flush();
        let error = self.error.take().or_else(|| self.file.flush().err());
        error.map_or(Ok(()), |error| {
            Err(RecordingError::Write {
                path: self.path,
                error,
            })
        })
    }
}

impl Observer for LinkRecording {
    fn observed_events(&self) -> ObservedEvents {
        ObservedEvents {
            frames: true,
            ..ObservedEvents::NONE
        }
    }

    fn frame_departed(&mut self, at: Picos, _: Picos, from: LinkEnd, frame: FrameView<'_>) {
        let Some(index) = self.ends.iter().position(|end| *end == from) else {
            return;
        };
        append_packet(
            &mut self.chunk,
            &PacketBlock {
                interface: index as u32,
                at_ns: at.as_nanos(),
                len: frame.frame_len,
                data: [frame.prefix, &[]],
                direction: Direction::Outbound,
                queue: None,
                id: None,
                comment: "",
            },
        );
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush();
        }
    }
}

/// Records several links.
impl Observer for Vec<LinkRecording> {
    fn observed_events(&self) -> ObservedEvents {
        let events = self.iter().map(LinkRecording::observed_events);
        events.fold(ObservedEvents::NONE, ObservedEvents::union)
    }

    fn frame_departed(&mut self, at: Picos, until: Picos, from: LinkEnd, frame: FrameView<'_>) {
        for recording in self {
            recording.frame_departed(at, until, from, frame);
        }
    }
}
