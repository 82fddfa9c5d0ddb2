//! The input files that are changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The largest file of the corpus in bytes. Larger files only make the run slower.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The kind of an input file. It decides the mutations and the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A lab file (`*.xoff.yml`).
    Lab,
    /// A configuration (`*.config_db.json`, `config_db.json`).
    Configuration,
    /// A capture (`*.pcap`, `*.pcapng`).
    Capture,
}

impl FileKind {
    /// Returns the kind of a file by its name. `None` for other files.
    fn of_name(name: &str) -> Option<FileKind> {
        if name.ends_with(".xoff.yml") {
            Some(FileKind::Lab)
        } else if name.ends_with("config_db.json") {
            Some(FileKind::Configuration)
        } else if name.ends_with(".pcap") || name.ends_with(".pcapng") {
            Some(FileKind::Capture)
        } else {
            None
        }
    }

    /// Returns the end of the names of mutants.
    pub fn extension(self) -> &'static str {
        match self {
            FileKind::Lab => "xoff.yml",
            FileKind::Configuration => "config_db.json",
            FileKind::Capture => "pcap",
        }
    }
}

/// A file of the corpus.
#[derive(Clone, Debug)]
pub struct CorpusFile {
    /// The path of the file. Relative paths in a mutant of a lab start at its folder.
    pub path: PathBuf,
    /// The kind of the file.
    pub kind: FileKind,
    /// The content of the file.
    pub bytes: Vec<u8>,
}

impl CorpusFile {
    /// Returns whether the file is a lab of `testbeds/scale`.
    pub(crate) fn describes_large_fabric(&self) -> bool {
        self.path
            .parent()
            .is_some_and(|folder| folder.ends_with("testbeds/scale"))
    }
}

/// The input files, sorted by path.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    files: Vec<CorpusFile>,
}

impl Corpus {
    /// Reads all labs, configurations and captures of a repository: `testbeds`, `tests` and the data of the
    /// crates.
    ///
    /// # Errors
    /// Fails if a folder or a file cannot be read, or if there is no file.
    pub fn of_repository(root: &Path) -> io::Result<Corpus> {
        let mut corpus = Corpus::default();
        for folder in ["testbeds", "tests", "crates"] {
            corpus.add_folder(&root.join(folder), 0)?;
        }
        corpus.files.extend(built_in_captures());
        corpus.files.sort_by(|a, b| a.path.cmp(&b.path));
        match corpus.files.is_empty() {
            true => Err(io::Error::other(format!("no input file in {}", root.display()))),
            false => Ok(corpus),
        }
    }

    fn add_folder(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        if depth > 8 {
            return Ok(());
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() && entry.file_name() != "target" {
                self.add_folder(&path, depth + 1)?;
                continue;
            }
            let name = entry.file_name();
            let kind = FileKind::of_name(&name.to_string_lossy());
            if let (Some(kind), true, true) = (kind, metadata.is_file(), metadata.len() <= FILE_BYTES_MAX) {
                let bytes = fs::read(&path)?;
                self.files.push(CorpusFile { path, kind, bytes });
            }
        }
        Ok(())
    }

    /// Returns the files in the order of their paths.
    pub fn files(&self) -> &[CorpusFile] {
        &self.files
    }

    /// Returns the files of one kind.
    pub fn of_kind(&self, kind: FileKind) -> Vec<&CorpusFile> {
        self.files.iter().filter(|file| file.kind == kind).collect()
    }
}

/// Returns small captures of both formats, with the frames of `crates/wire/tests/data/softroce.pcap` replaced by a few
/// bytes. The repository has only one capture.
fn built_in_captures() -> Vec<CorpusFile> {
    let frame: Vec<u8> = [
        &[
            0x02, 0x58, 0x4f, 0x46, 0, 2, 0x02, 0x58, 0x4f, 0x46, 0, 1, 0x08, 0x00,
        ][..],
        &[
            0x45, 0x02, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ],
        &[0xc0, 0, 0x12, 0xb7, 0, 40, 0, 0],
        &[10, 0, 0xff, 0xff, 0, 0, 0, 17, 0x80, 0, 0, 1, 0, 0, 0, 0],
        &[0; 16],
    ]
    .concat();
    let word = |number: u32| number.to_le_bytes();
    let len = frame.len() as u32;
    let mut pcap = Vec::new();
    pcap.extend([0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    pcap.extend([word(65_535), word(1)].concat());
    let mut pcapng = Vec::new();
    pcapng.extend([word(0x0a0d_0d0a), word(28), word(0x1a2b_3c4d), [1, 0, 0, 0]].concat());
    pcapng.extend([word(u32::MAX), word(u32::MAX), word(28)].concat());
    pcapng.extend([word(1), word(20), word(1), word(65_535), word(20)].concat());
    for number in 0..20 {
        pcap.extend([word(number), word(10 * number), word(len), word(len)].concat());
        pcap.extend(&frame);
        let padded = frame.len().next_multiple_of(4);
        let total = word(32 + padded as u32);
        pcapng.extend(
            [
                word(6),
                total,
                word(0),
                word(0),
                word(1000 * number),
                word(len),
                word(len),
            ]
            .concat(),
        );
        pcapng.extend(&frame);
        pcapng.resize(pcapng.len() + padded - frame.len(), 0);
        pcapng.extend(total);
    }
    [("built-in.pcap", pcap), ("built-in.pcapng", pcapng)]
        .into_iter()
        .map(|(name, bytes)| CorpusFile {
            path: PathBuf::from(name),
            kind: FileKind::Capture,
            bytes,
        })
        .collect()
}
