//! Replays every capture of some folders and compares the result with what scapy reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;
use tempfile::TempDir;

use crate::bare_git;

/// The script that reads captures with scapy.
const SCAPY_SCRIPT: &str = include_str!("captures.py");
/// Share of the captures that may be refused as damaged, in percent.
const DAMAGED_PERCENT_MAX: usize = 3;

/// Options of the sweep.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folders, or bare git directories of which the newest commit is read.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Python interpreter that has scapy; without it scapy is installed into a temporary virtual environment.
    #[arg(long, value_name = "PYTHON")]
    python: Option<PathBuf>,
}

/// A capture that scapy reads, as the script describes it.
#[derive(Debug)]
struct Capture {
    path: PathBuf,
    /// All its frames.
    frames: u64,
    /// Those with the link type Ethernet.
    ethernet: u64,
}

/// What a replay of a capture gave.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    /// Every frame is accounted for, and those that left have the bytes they came with.
    Agrees(Counts),
    /// xoff says that the file is damaged.
    Damaged(String),
    /// Anything else.
    Deviates(String),
}

/// Frames of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    frames: u64,
    /// Frames that left by at least one port.
    sent: u64,
    dropped: u64,
    /// Flow control and frames for the switch's own protocols.
    consumed: u64,
    /// By reason.
    left_out: BTreeMap<String, u64>,
}

/// The findings of a folder.
#[derive(Debug, Default)]
struct FolderResult {
    captures: usize,
    sums: Counts,
    damaged: Vec<(String, String)>,
    deviating: Vec<(String, String)>,
}

/// Runs the sweep.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let program = crate::program::build()?;
    let scratch = TempDir::new().map_err(|error| format!("no temporary folder: {error}"))?;
    let python = match &arguments.python {
        Some(python) => python.clone(),
        None => install_scapy(scratch.path())?,
    };
    let script = scratch.path().join("captures.py");
    write(&script, SCAPY_SCRIPT)?;
    let sweep = Sweep {
        program,
        python,
        script,
        scratch: scratch.path().to_owned(),
    };
    let (mut captures, mut damaged, mut deviating) = (0, 0, 0);
    println!("| folder | captures | frames | sent | dropped | consumed | left out | damaged | deviating |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut lists = String::new();
    for (number, folder) in arguments.folders.iter().enumerate() {
        let (name, files) = match bare_git::is_bare(folder) {
            true => {
                let extracted = scratch.path().join(format!("git{number}"));
                let commit = bare_git::extract(folder, &extracted, is_capture)?;
                (format!("{} at {}", folder.display(), &commit[..12]), extracted)
            }
            false => (folder.display().to_string(), folder.clone()),
        };
        let result = sweep.folder(&files)?;
        println!("{}", result.row(&name));
        for (kind, list) in [("damaged", &result.damaged), ("deviates", &result.deviating)] {
            for (file, why) in list {
                lists.push_str(&format!("{kind}: {name}: {file}: {why}\n"));
            }
        }
        captures += result.captures;
        damaged += result.damaged.len();
        deviating += result.deviating.len();
    }
    print!("{lists}");
    let is_good = deviating == 0 && damaged * 100 <= captures * DAMAGED_PERCENT_MAX;
    Ok(ExitCode::from(u8::from(!is_good)))
}

/// Whether a file may be a capture, by its first bytes: pcap, pcapng or gzip.
fn is_capture(bytes: &[u8]) -> bool {
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

/// A Python interpreter with scapy in a virtual environment of its own.
fn install_scapy(scratch: &Path) -> Result<PathBuf, String> {
    let venv = scratch.join("venv");
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    succeed(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "scapy"]))?;
    Ok(venv.join("bin/python"))
}

struct Sweep {
    program: PathBuf,
    python: PathBuf,
    script: PathBuf,
    scratch: PathBuf,
}

impl Sweep {
    /// Replays every capture of a folder that scapy reads as Ethernet.
    fn folder(&self, folder: &Path) -> Result<FolderResult, String> {
        let mut result = FolderResult::default();
        for capture in self.captures(folder)? {
            result.captures += 1;
            let file = capture.path.strip_prefix(folder).unwrap_or(&capture.path);
            let file = file.display().to_string();
            match self.replay(&capture)? {
                Finding::Agrees(counts) => result.sums.add(&counts),
                Finding::Damaged(why) => result.damaged.push((file, why)),
                Finding::Deviates(why) => result.deviating.push((file, why)),
            }
        }
        Ok(result)
    }

    /// The captures of a folder with at least one Ethernet frame, or without frames and with that link type.
    fn captures(&self, folder: &Path) -> Result<Vec<Capture>, String> {
        let output = succeed(
            Command::new(&self.python)
                .arg(&self.script)
                .arg("list")
                .arg(folder),
        )?;
        let text = String::from_utf8_lossy(&output);
        text.lines()
            .map(|line| {
                let row: Value =
                    serde_json::from_str(line).map_err(|error| format!("scapy: {error}: {line}"))?;
                let number = |key: &str| {
                    row[key]
                        .as_u64()
                        .ok_or_else(|| format!("scapy: no {key}: {line}"))
                };
                Ok(Capture {
                    path: PathBuf::from(row["path"].as_str().unwrap_or_default()),
                    frames: number("frames")?,
                    ethernet: number("ethernet")?,
                })
            })
            .collect()
    }

    /// Replays a capture through the default switch, one bridge with the largest MTU, at the pace of its stamps.
    fn replay(&self, capture: &Capture) -> Result<Finding, String> {
        let out = self.scratch.join("out.pcapng");
        let report = self.scratch.join("report.json");
        let _ = fs::remove_file(&report);
        let output = Command::new(&self.program)
            .arg("replay")
            .arg(&capture.path)
            .arg("--out")
            .arg(&out)
            .arg("--report")
            .arg(&report)
            .output()
            .map_err(|error| format!("xoff cannot be started: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or_default().to_owned();
        if output.status.code() != Some(0) {
            let is_damaged = said.contains("damaged") || said.contains("ends in the middle");
            return Ok(match is_damaged && matches!(output.status.code(), Some(3 | 5)) {
                true => Finding::Damaged(said),
                false => Finding::Deviates(format!("{}: {said}", output.status)),
            });
        }
        let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
        let report: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", report.display()))?;
        let compared = succeed(
            Command::new(&self.python)
                .arg(&self.script)
                .arg("compare")
                .arg(&capture.path)
                .arg(&out),
        )?;
        let compared: Value = serde_json::from_slice(&compared).map_err(|error| format!("scapy: {error}"))?;
        Ok(judge(capture, &report, &compared))
    }
}

/// Compares a report with the frames that scapy reads before and after.
fn judge(capture: &Capture, report: &Value, compared: &Value) -> Finding {
    let frames = &report["frames"];
    let number = |key: &str| frames[key].as_u64().unwrap_or(0);
    let left_out: BTreeMap<String, u64> = frames["skipped"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(reason, count)| (reason.clone(), count.as_u64().unwrap_or(0)))
        .collect();
    let counts = Counts {
        frames: capture.frames,
        sent: compared["sent"].as_u64().unwrap_or(0),
        // Copies of flooded frames are dropped one by one; the frame is dropped if no copy left.
        dropped: number("offered")
            .saturating_sub(compared["sent"].as_u64().unwrap_or(0) + number("control") + number("punted")),
        consumed: number("control") + number("punted"),
        left_out,
    };
    let accounted = counts.sent + counts.dropped + counts.consumed + counts.left_out.values().sum::<u64>();
    if let Some(wrong) = compared["wrong"].as_array().and_then(|wrong| wrong.first()) {
        return Finding::Deviates(format!("frame {wrong} left with other bytes"));
    }
    let left_before = number("received") + number("flood_copies") + number("own");
    let left_after =
        number("sent") + number("dropped") + number("punted") + number("queued") + number("held");
    if accounted != capture.frames || report["capture"]["frames"] != capture.frames {
        return Finding::Deviates(format!(
            "{accounted} frames accounted for, scapy reads {}",
            capture.frames
        ));
    }
    if number("offered") != number("received") + number("control") || left_before != left_after {
        return Finding::Deviates("the sums of the report do not agree".to_owned());
    }
    if counts.dropped > number("dropped") {
        return Finding::Deviates(format!(
            "{} frames did not leave, the report has {} dropped",
            counts.dropped,
            number("dropped")
        ));
    }
    if counts.left_out.get("other_link_type").copied().unwrap_or(0) != capture.frames - capture.ethernet {
        return Finding::Deviates("not the frames of other link types were left out".to_owned());
    }
    Finding::Agrees(counts)
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.frames += other.frames;
        self.sent += other.sent;
        self.dropped += other.dropped;
        self.consumed += other.consumed;
        for (reason, count) in &other.left_out {
            *self.left_out.entry(reason.clone()).or_default() += count;
        }
    }
}

impl FolderResult {
    fn row(&self, name: &str) -> String {
        let left_out = self
            .sums
            .left_out
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"));
        let left_out: Vec<String> = left_out.collect();
        format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
            self.captures,
            self.sums.frames,
            self.sums.sent,
            self.sums.dropped,
            self.sums.consumed,
            left_out.join(", "),
            self.damaged.len(),
            self.deviating.len()
        )
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command that has to succeed, and returns its standard output.
fn succeed(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_frame_that_is_missing_or_changed_deviates() {
        let capture = Capture {
            path: PathBuf::new(),
            frames: 3,
            ethernet: 3,
        };
        let report = |frames: u64, dropped: u64| json!({"capture": {"frames": frames}, "frames": {"offered": 3, "received": 3, "sent": 3 - dropped, "dropped": dropped}});
        let agrees = |report: &Value, compared: &Value| {
            matches!(judge(&capture, report, compared), Finding::Agrees(_))
        };
        assert!(agrees(&report(3, 0), &json!({"sent": 3, "wrong": []})));
        assert!(agrees(&report(3, 1), &json!({"sent": 2, "wrong": []})));
        assert!(
            !agrees(&report(3, 0), &json!({"sent": 2, "wrong": []})),
            "one vanished"
        );
        assert!(
            !agrees(&report(3, 0), &json!({"sent": 3, "wrong": [2]})),
            "one changed"
        );
        assert!(
            !agrees(&report(4, 0), &json!({"sent": 3, "wrong": []})),
            "one too many"
        );
    }
}
