//! Captures for the tests. The writer is independent of xoff, and the reader is the one of pcap-parser.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};
use serde_json::Value;

/// A frame of an input capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputFrame {
    pub(crate) at_ns: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) len: u32,
}

/// A frame of a capture that xoff wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputFrame {
    pub(crate) interface: u32,
    pub(crate) at_ns: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) len: u32,
    pub(crate) comment: String,
    /// Direction: 1 inbound, 2 outbound.
    pub(crate) flags: u32,
    /// The number of the frame in the input capture.
    pub(crate) id: Option<u64>,
    pub(crate) queue: Option<u32>,
}

/// Returns the path of the Soft-RoCE capture of the repository.
pub(crate) fn softroce_capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/wire/tests/data/softroce.pcap")
}

/// Reads the frames of a little-endian pcap file with microsecond timestamps.
pub(crate) fn read_pcap(file: &Path) -> Vec<InputFrame> {
    let bytes = std::fs::read(file).expect("a file of the repository");
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four octets"));
    assert_eq!(number(0), 0xa1b2_c3d4);
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let stored = number(at + 8) as usize;
        frames.push(InputFrame {
            at_ns: u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4)) * 1_000,
            data: bytes[at + 16..at + 16 + stored].to_vec(),
            len: number(at + 12),
        });
        at += 16 + stored;
    }
    frames
}

/// Writes a pcap file with nanosecond timestamps.
pub(crate) fn write_pcap(file: &Path, frames: &[InputFrame]) {
    let mut bytes = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1]
        .map(u32::to_le_bytes)
        .concat();
    for frame in frames {
        let header = [
            (frame.at_ns / 1_000_000_000) as u32,
            (frame.at_ns % 1_000_000_000) as u32,
            frame.data.len() as u32,
            frame.len,
        ];
        bytes.extend(header.map(u32::to_le_bytes).concat());
        bytes.extend(&frame.data);
    }
    std::fs::write(file, bytes).expect("a folder of ours");
}

/// Reads the interfaces and frames of a pcapng file.
pub(crate) fn read_pcapng(file: &Path) -> (Vec<String>, Vec<OutputFrame>) {
    let file = File::open(file).expect("xoff has written it");
    let mut reader = PcapNGReader::new(1 << 20, file).expect("a section header");
    let (mut interfaces, mut frames) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            Ok((len, block)) => {
                match block {
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                        assert_eq!(interface.if_tsresol, 9);
                        interfaces.push(interface.if_name().expect("a name").expect("text").to_owned());
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let option = |code: u16| {
                            let option = packet.options.iter().find(|option| option.code.0 == code);
                            option.map(|option| option.as_bytes().expect("a length").to_vec())
                        };
                        let number = |code| Some(u32::from_le_bytes(option(code)?[..4].try_into().ok()?));
                        frames.push(OutputFrame {
                            interface: packet.if_id,
                            at_ns: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                            data: packet.packet_data().to_vec(),
                            len: packet.origlen,
                            comment: option(1)
                                .map_or(String::new(), |text| String::from_utf8(text).expect("text")),
                            flags: number(2).expect("a direction"),
                            id: option(5).map(|id| u64::from_le_bytes(id.try_into().expect("eight octets"))),
                            queue: number(6),
                        });
                    }
                    _ => {}
                }
                reader.consume(len);
            }
            Err(PcapError::Eof) => return (interfaces, frames),
            Err(PcapError::Incomplete(_)) => reader.refill().expect("a readable file"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A folder with the input and output files of a replay.
#[derive(Debug)]
pub(crate) struct ReplayFolder(tempfile::TempDir);

impl ReplayFolder {
    pub(crate) fn new() -> ReplayFolder {
        ReplayFolder(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write_file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("a folder of ours");
    }

    /// Runs `xoff replay` in the folder.
    pub(crate) fn replay(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xoff"))
            .current_dir(self.0.path())
            .arg("replay")
            .args(arguments)
            .output()
            .expect("the program starts")
    }

    /// Runs [`ReplayFolder::replay`] with `--out out.pcapng`, which must succeed. Returns its
    /// report and frames.
    pub(crate) fn replay_successfully(&self, arguments: &[&str]) -> (Value, Vec<OutputFrame>) {
        let output = self.replay(&[arguments, &["--out", "out.pcapng", "--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report = serde_json::from_slice(&output.stdout).expect("JSON");
        (report, read_pcapng(&self.path("out.pcapng")).1)
    }
}
