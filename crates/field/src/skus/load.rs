//! Loads one configuration with the program under test: a replay of one frame.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::CaseResult;

/// A pcap file of one Ethernet frame, little endian, microseconds.
const CAPTURE: &[u8] = &[
    0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0,
    0, // file header
    1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0, // record header
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0, 0, // frame of an experimental EtherType
];

/// Loads configurations that are files of one folder.
pub(super) struct Loader {
    program: PathBuf,
    folder: PathBuf,
}

impl Loader {
    pub(super) fn new(program: PathBuf, folder: &Path) -> Result<Loader, String> {
        let folder = folder.to_owned();
        let capture = folder.join("one.pcap");
        fs::write(&capture, CAPTURE).map_err(|error| format!("{}: {error}", capture.display()))?;
        Ok(Loader { program, folder })
    }

    pub(super) fn load_value(&self, tables: &Value) -> Result<CaseResult, String> {
        let file = self.folder.join("example.json");
        fs::write(&file, tables.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        self.load_file("example.json", None)
    }

    /// Loads a file of the folder, with a lookup file of the folder.
    pub(super) fn load_file(&self, config: &str, lookup: Option<&str>) -> Result<CaseResult, String> {
        let text =
            fs::read_to_string(self.folder.join(config)).map_err(|error| format!("{config}: {error}"))?;
        let tables: Value = serde_json::from_str(&text).map_err(|error| format!("{config}: {error}"))?;
        let ports = tables["PORT"].as_object();
        let port = ports
            .and_then(|ports| ports.keys().next())
            .map_or("Ethernet0", |port| port);
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder);
        command.args([
            "replay",
            "one.pcap",
            "--out",
            "/dev/null",
            "--config",
            config,
            "--ingress",
            port,
        ]);
        if let Some(lookup) = lookup {
            command.args(["--pg-profiles", lookup]);
        }
        let output = command
            .output()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        match output.status.code() {
            Some(0) => Ok(CaseResult::Loaded),
            Some(4) => Ok(CaseResult::Refused(error_lines(&String::from_utf8_lossy(
                &output.stderr,
            )))),
            code => Err(format!(
                "{config}: exit code {code:?} is neither 0 nor 4:\n{}",
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }
}

/// The problems of an error message, one a line, without its head and the file's name.
pub(super) fn error_lines(message: &str) -> Vec<String> {
    let lines = message
        .lines()
        .filter(|line| !line.starts_with("note:") && !line.starts_with("warning:"));
    let problems = lines.filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("why: ").unwrap_or(line);
        let (_, problem) = line.split_once(".json: ")?;
        Some(problem.to_owned())
    });
    problems.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_lose_their_file_and_notes_are_no_problems() {
        let message = "note: a.json: x\nerror: the configuration is invalid\n  where: a.json\n  \
                       why: a.json: BUFFER_POOL|p size \"0\": expected more\n    the command line + a.json: FIPS: no such table\n";
        assert_eq!(
            error_lines(message),
            ["BUFFER_POOL|p size \"0\": expected more", "FIPS: no such table"]
        );
    }

    #[test]
    fn the_capture_has_one_record_to_its_end() {
        assert_eq!(CAPTURE.len(), 24 + 16 + 16);
    }
}
