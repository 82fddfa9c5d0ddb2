//! Runs public configurations of the HPCC model of ns-3, and compares the completion times with the published
//! completion times.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;
use tempfile::TempDir;

use self::public_configurations::{CONFIGURATIONS, PublicConfiguration, RepositoryFile};
use self::result_table::RunRow;
use crate::git::Repository;

mod public_configurations;
mod result_table;

/// Settings of the ns-3 model that contain file names. The settings are removed, because the files of a run
/// have fixed names.
const FILE_SETTINGS: [&str; 7] = [
    "TOPOLOGY_FILE",
    "FLOW_FILE",
    "TRACE_FILE",
    "TRACE_OUTPUT_FILE",
    "FCT_OUTPUT_FILE",
    "PFC_OUTPUT_FILE",
    "QLEN_MON_FILE",
];

/// Options of the runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Bare git directories of the repositories, each as `OWNER/NAME=DIR`. Runs that need a repository
    /// without such a directory are left out.
    #[arg(value_name = "OWNER/NAME=DIR", required = true)]
    repositories: Vec<String>,
    /// Also run the configurations that take more than two minutes. In a release build, one such
    /// configuration takes up to half an hour.
    #[arg(long)]
    long: bool,
    /// Keep the result of each run in this folder. A run with a result in this folder is not repeated.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Write the table here as Markdown. Without this option, the table is printed.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Runs the configurations. The exit code is 1 if the completion times of a run differ by more than the bound
/// and no reason is known.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let program = crate::program::build_xoff()?;
    let mut folders = BTreeMap::new();
    for argument in &arguments.repositories {
        let (name, folder) = argument
            .split_once('=')
            .ok_or_else(|| format!("{argument}: expected OWNER/NAME=DIR"))?;
        folders.insert(name, Path::new(folder));
    }
    if let Some(folder) = &arguments.results {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let sweep = OracleSweep {
        program,
        folders,
        results: arguments.results.as_deref(),
    };
    let mut rows = Vec::new();
    for configuration in &CONFIGURATIONS {
        let is_given = |file: &RepositoryFile| sweep.folders.contains_key(file.repository);
        let files = [configuration.configuration, configuration.topology];
        if !files.iter().chain(&configuration.flows).all(is_given) {
            eprintln!("{}: left out, its repository is not given", configuration.name);
        } else if configuration.is_long && !arguments.long && !sweep.has_result(configuration) {
            eprintln!("{}: left out, it is long (--long)", configuration.name);
        } else {
            eprintln!("{}", configuration.name);
            let mode = congestion_mode(&sweep.read_text(configuration, configuration.configuration)?);
            rows.push(RunRow::new(
                configuration,
                mode,
                &sweep.result_of(configuration)?,
            )?);
        }
    }
    let text = result_table::render_markdown(&rows);
    match &arguments.markdown {
        None => print!("{text}"),
        Some(file) => fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?,
    }
    let unexplained: Vec<&RunRow> = rows.iter().filter(|row| row.is_unexplained()).collect();
    for row in &unexplained {
        eprintln!("{}: completion times differ by more than the bound", row.name());
    }
    Ok(ExitCode::from(u8::from(!unexplained.is_empty())))
}

struct OracleSweep<'a> {
    program: PathBuf,
    folders: BTreeMap<&'a str, &'a Path>,
    results: Option<&'a Path>,
}

impl OracleSweep<'_> {
    fn result_file(&self, configuration: &PublicConfiguration) -> Option<PathBuf> {
        let name = configuration.name.replace([' ', ',', '\''], "-");
        Some(self.results?.join(format!("{name}.json")))
    }

    fn has_result(&self, configuration: &PublicConfiguration) -> bool {
        self.result_file(configuration).is_some_and(|file| file.exists())
    }

    /// Returns the result of `xoff bench oracle --json`. If the folder of `--results` contains the result, it
    /// is read from there. Otherwise the configuration runs.
    fn result_of(&self, configuration: &PublicConfiguration) -> Result<Value, String> {
        let kept = self.result_file(configuration);
        let text = match &kept {
            Some(file) if file.exists() => {
                fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?
            }
            Some(file) => {
                let text = self.run(configuration)?;
                write_file(file, &text)?;
                text
            }
            None => self.run(configuration)?,
        };
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", configuration.name))
    }

    fn run(&self, configuration: &PublicConfiguration) -> Result<String, String> {
        let scratch = TempDir::new().map_err(|error| format!("no temporary folder: {error}"))?;
        let mut files = vec![
            ("config.txt", configuration.configuration),
            ("topology.txt", configuration.topology),
        ];
        files.extend(configuration.flows.map(|file| ("flow.txt", file)));
        files.extend(configuration.results.map(|file| ("fct.txt", file)));
        for (name, file) in files {
            let mut text = self.read_text(configuration, file)?;
            if name == "config.txt" {
                text = without_file_settings(&text);
            }
            if name == "fct.txt" && configuration.flows.is_none() {
                let flows =
                    flows_from_results(&text).ok_or_else(|| format!("{}: no results", configuration.name))?;
                write_file(&scratch.path().join("flow.txt"), &flows)?;
            }
            write_file(&scratch.path().join(name), &text)?;
        }
        let output = Command::new(&self.program)
            .args(["bench", "oracle", "--json"])
            .arg(scratch.path())
            .output()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        // With exit code 1, the run is complete and its differences exceed the bound.
        match output.status.code() {
            Some(0 | 1) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            _ => Err(format!(
                "{}: {}",
                configuration.name,
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }

    fn read_text(&self, configuration: &PublicConfiguration, file: RepositoryFile) -> Result<String, String> {
        let folder = self.folders.get(file.repository).copied();
        let folder = folder.ok_or_else(|| format!("{} is not given", file.repository))?;
        let commit = match file.repository == configuration.configuration.repository {
            true => configuration.commit,
            false => "HEAD",
        };
        Repository::open_at(folder, commit)?.read_text(file.path)
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the flows of a file of results as a flow file. A row of the results is `sip dip sport dport size
/// start fct standalone_fct`. The flows are sorted by start time, source port and sender, and all have
/// priority 3. Returns `None` if a row does not have this format.
fn flows_from_results(results: &str) -> Option<String> {
    let mut flows = Vec::new();
    for row in results.lines().filter(|row| !row.trim().is_empty()) {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let [source, destination, port, destination_port, bytes, start, ..] = fields[..] else {
            return None;
        };
        let node = |address: &str| Some(u32::from_str_radix(address, 16).ok()? >> 8 & 0xffff);
        let start_ns: u64 = start.parse().ok()?;
        let port: u16 = port.parse().ok()?;
        let (source, destination) = (node(source)?, node(destination)?);
        flows.push((start_ns, port, source, destination, destination_port, bytes));
    }
    flows.sort_unstable();
    let mut text = format!("{}\n", flows.len());
    for (start_ns, _, source, destination, port, bytes) in flows {
        let (seconds, rest) = (start_ns / 1_000_000_000, start_ns % 1_000_000_000);
        text.push_str(&format!(
            "{source} {destination} 3 {port} {bytes} {seconds}.{rest:09}\n"
        ));
    }
    Some(text)
}

/// Returns the `CC_MODE` (congestion control) of a configuration. If there are several settings, the last one
/// is valid. Without a setting, the result is 1, which is the default of the model.
fn congestion_mode(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let last = words.windows(2).rfind(|pair| pair[0] == "CC_MODE");
    last.map_or("1", |pair| pair[1]).to_owned()
}

/// Returns a configuration without its settings with file names.
fn without_file_settings(text: &str) -> String {
    let names_file = |line: &&str| {
        let name = line.split_whitespace().next().unwrap_or_default();
        FILE_SETTINGS.contains(&name)
    };
    let lines: Vec<&str> = text.lines().filter(|line| !names_file(line)).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_settings_are_removed() {
        let text = "CC_MODE 3\nFLOW_FILE mix/flow.txt\n\nHAS_WIN 1\n";
        assert_eq!(without_file_settings(text), "CC_MODE 3\n\nHAS_WIN 1\n");
    }

    #[test]
    fn last_congestion_mode_is_used() {
        assert_eq!(congestion_mode("CC_MODE 1\nRATE_AI 5Mb/s CC_MODE 3\n"), "3");
        assert_eq!(congestion_mode(""), "1");
    }

    #[test]
    fn flows_follow_from_results() {
        let results = "0b000501 0b000101 10001 100 50 2000000000 9 8\n0b000201 0b000101 10000 100 70 2000000007 9 8\n0b000501 0b000101 10000 100 50 2000000000 7 6\n";
        let flows = "3\n5 1 3 100 50 2.000000000\n5 1 3 100 50 2.000000000\n2 1 3 100 70 2.000000007\n";
        assert_eq!(flows_from_results(results).as_deref(), Some(flows));
        assert_eq!(flows_from_results("0b000501 x"), None);
    }

    #[test]
    fn names_of_configurations_are_unique() {
        let names: std::collections::BTreeSet<&str> = CONFIGURATIONS
            .iter()
            .map(|configuration| configuration.name)
            .collect();
        assert_eq!(names.len(), CONFIGURATIONS.len());
    }
}
