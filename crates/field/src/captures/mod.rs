//! Replays all captures in some folders, and compares the results with the frames that scapy reads from the
//! same captures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;
use tempfile::TempDir;

use self::replay_evaluation::{ListedCapture, ReplayFinding, ReplayOutput};
use self::result_table::{FolderResult, HEADER};
use crate::external_command;
use crate::git::{self, Repository};

mod replay_evaluation;
mod result_table;

/// Script that reads captures with scapy.
const SCAPY_SCRIPT: &str = include_str!("scapy_reader.py");
/// Version of scapy that the script supports.
const SCAPY: &str = "scapy==2.8.0";
/// Largest percentage of captures that xoff may refuse as damaged. With more damaged captures, the
/// command fails.
const DAMAGED_PERCENT_MAX: usize = 3;

/// Options of the sweep.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folders or bare git directories with captures. The newest commit of a git directory is used.
    /// `NAME=DIR` sets the name in the table.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<String>,
    /// Python interpreter with scapy. Without this option, scapy is installed into a temporary
    /// virtual environment.
    #[arg(long, value_name = "PYTHON")]
    python: Option<PathBuf>,
}

/// Replays all captures. Prints a Markdown table, the damaged files and the deviations. The exit code is 1 if
/// a result deviates or too many captures are damaged.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let program = crate::program::build_xoff()?;
    let scratch = TempDir::new().map_err(|error| format!("no temporary folder: {error}"))?;
    let python = match &arguments.python {
        Some(python) => python.clone(),
        None => external_command::create_python_environment(SCAPY, scratch.path())?,
    };
    let script = scratch.path().join("scapy_reader.py");
    fs::write(&script, SCAPY_SCRIPT).map_err(|error| format!("{}: {error}", script.display()))?;
    let sweep = CaptureSweep {
        program,
        python,
        script,
        scratch: scratch.path().to_owned(),
    };
    let mut results = Vec::new();
    print!("{HEADER}");
    for (number, argument) in arguments.folders.iter().enumerate() {
        let (name, folder) = split_name_and_folder(argument);
        let (name, files) = match git::is_bare_repository(folder) {
            true => {
                let extracted = scratch.path().join(format!("git{number}"));
                let repository = Repository::open(folder)?;
                repository.extract_files(&extracted, may_be_capture)?;
                (format!("{name} {}", &repository.commit()[..12]), extracted)
            }
            false => (name.to_owned(), folder.to_owned()),
        };
        let result = sweep.replay_folder(&files)?;
        println!("{}", result.table_row(&name));
        results.push(result);
    }
    if let [_, _, ..] = results[..] {
        let mut all = FolderResult::default();
        results.iter().for_each(|result| all.add(result));
        println!("{}", all.table_row("all"));
    }
    results
        .iter()
        .for_each(|result| print!("{}", result.list_damaged_and_deviating()));
    let sum = |of: fn(&FolderResult) -> usize| results.iter().map(of).sum::<usize>();
    let damaged = sum(|result| result.damaged.len());
    let is_good = sum(|result| result.deviating.len()) == 0
        && damaged * 100 <= sum(|result| result.captures) * DAMAGED_PERCENT_MAX;
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Splits `NAME=DIR` into a name and a folder. If there is no name, the name is the path of the folder.
fn split_name_and_folder(argument: &str) -> (&str, &Path) {
    match argument.split_once('=') {
        Some((name, folder)) if !Path::new(argument).exists() => (name, Path::new(folder)),
        _ => (argument, Path::new(argument)),
    }
}

/// Returns whether the first bytes of a file are those of pcap, pcapng or gzip.
fn may_be_capture(bytes: &[u8]) -> bool {
    const MAGICS: [[u8; 4]; 7] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xcd, 0x34],
        [0x34, 0xcd, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    bytes.starts_with(&[0x1f, 0x8b]) || MAGICS.iter().any(|magic| bytes.starts_with(magic))
}

/// The programs of a sweep, and a folder for temporary files.
struct CaptureSweep {
    program: PathBuf,
    python: PathBuf,
    script: PathBuf,
    scratch: PathBuf,
}

impl CaptureSweep {
    /// Replays all captures of a folder and evaluates each replay.
    fn replay_folder(&self, folder: &Path) -> Result<FolderResult, String> {
        let output = external_command::run_command(
            Command::new(&self.python)
                .arg(&self.script)
                .arg("list")
                .arg(folder),
        )?;
        let mut result = FolderResult::default();
        for line in String::from_utf8_lossy(&output).lines() {
            let row: Value = serde_json::from_str(line).map_err(|error| format!("scapy: {error}: {line}"))?;
            let capture =
                ListedCapture::parse(&row).ok_or_else(|| format!("scapy: not a description: {line}"))?;
            let finding = self.replay_capture(&capture)?;
            let file = capture.path.strip_prefix(folder).unwrap_or(&capture.path);
            result.add_finding(&capture, &file.display().to_string(), finding);
        }
        Ok(result)
    }

    /// Replays a capture at its original pace through the default switch, which is one bridge with an MTU of
    /// 9216 bytes. Returns the evaluation of the replay.
    fn replay_capture(&self, capture: &ListedCapture) -> Result<ReplayFinding, String> {
        let [out, drops, report] =
            ["out.pcapng", "drops.pcapng", "report.json"].map(|name| self.scratch.join(name));
        for file in [&out, &drops, &report] {
            let _ = fs::remove_file(file);
        }
        let mut replay = Command::new(&self.program);
        replay.arg("replay").arg(&capture.path);
        for (option, file) in [("--out", &out), ("--drops", &drops), ("--report", &report)] {
            replay.arg(option).arg(file);
        }
        let output = replay
            .output()
            .map_err(|error| format!("xoff cannot be started: {error}"))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let compared = match out.exists() && drops.exists() {
            true => self.compare(capture, &out, &drops)?,
            false => Value::Null,
        };
        let report = match fs::read_to_string(&report) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| format!("the report: {error}"))?,
            Err(_) => Value::Null,
        };
        Ok(replay_evaluation::evaluate_replay(
            capture,
            &ReplayOutput {
                exit: output.status.code(),
                stderr: &stderr,
                report: &report,
                compared: &compared,
            },
        ))
    }

    /// Runs the script that compares the sent and dropped frames of a replay with the frames of the input.
    fn compare(&self, capture: &ListedCapture, out: &Path, drops: &Path) -> Result<Value, String> {
        let compared = external_command::run_command(
            Command::new(&self.python)
                .arg(&self.script)
                .arg("compare")
                .args([&capture.path, out, drops]),
        )?;
        serde_json::from_slice(&compared).map_err(|error| format!("scapy: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_recognized_by_their_first_bytes() {
        for magic in [
            0xa1b2_c3d4_u32,
            0xa1b2_3c4d,
            0xa1b2_cd34,
            0x0a0d_0d0a,
            0x1f8b_0800,
        ] {
            assert!(may_be_capture(&magic.to_be_bytes()));
        }
        assert!(may_be_capture(&0xa1b2_c3d4_u32.to_le_bytes()));
        for other in [&b""[..], &[0xa1, 0xb2, 0xc3], b"PK\x03\x04", b"GIF89a"] {
            assert!(!may_be_capture(other), "{other:?}");
        }
    }

    #[test]
    fn folder_argument_may_have_a_name() {
        let name_and_folder = ("owner/name", Path::new("/nowhere/at=all"));
        assert_eq!(
            split_name_and_folder("owner/name=/nowhere/at=all"),
            name_and_folder
        );
        assert_eq!(
            split_name_and_folder("captures"),
            ("captures", Path::new("captures"))
        );
    }
}
