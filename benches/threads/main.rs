//! Results with several threads: each lab of `testbeds` and `tests/sonic` gives the same bytes with 1, 2, 3 and 8
//! threads.
//!
//!     cargo bench --bench threads
//!     cargo bench --bench threads -- --files testbeds/fabrics/fat-tree.xoff.yml --until 1ms
//!
//! Compared are the event log with all frames, the recording of the first switch, the time series, and the report
//! without `environment`. Labs of one switch have one thread, whatever the option is.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a bench")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use serde_json::Value;
use xoff_testing::{BenchOutcome, finish_bench, repository_root};

/// Numbers of threads of the runs. All others are compared with the first.
const THREADS: [usize; 4] = [1, 2, 3, 8];
/// Exit codes of a run that has a result. 4: the lab cannot run in virtual time.
const RESULT_CODES: [i32; 3] = [0, 1, 5];

/// Results with several threads.
#[derive(Debug, Parser)]
#[command(name = "threads")]
struct Arguments {
    /// Lab files. By default, all labs of testbeds and tests/sonic.
    #[arg(long, value_delimiter = ',')]
    files: Vec<PathBuf>,
    /// Model time of each run.
    #[arg(long, default_value = "50us")]
    until: String,
    /// The program to test.
    #[arg(long, default_value = env!("CARGO_BIN_EXE_xoff"))]
    program: PathBuf,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The output of a run.
#[derive(PartialEq)]
struct RunOutput {
    /// Names and contents of the written files, and the report without its description of the threads.
    files: Vec<(String, Vec<u8>)>,
    exit_code: i32,
}

/// A run and what its threads did.
struct Run {
    output: RunOutput,
    /// Name of the first switch.
    switch: String,
    /// Number of events of each thread.
    events: Vec<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    finish_bench(run(&arguments), &mut std::io::stdout(), &mut std::io::stderr())
}

fn run(arguments: &Arguments) -> Result<BenchOutcome, String> {
    let root = repository_root();
    let mut files: Vec<PathBuf> = arguments.files.iter().map(|file| root.join(file)).collect();
    if files.is_empty() {
        find_labs(&root.join("testbeds"), &mut files)?;
        find_labs(&root.join("tests/sonic"), &mut files)?;
    }
    let (mut compared, mut divided, mut differing, mut skipped) = (0, 0, Vec::new(), Vec::new());
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).display().to_string();
        match compare_threads(arguments, file)? {
            Comparison::NoVirtualTime(why) => skipped.push(format!("{name}: {why}")),
            Comparison::Equal { threads_max } => {
                compared += 1;
                divided += usize::from(threads_max > 1);
                println!("{name}: equal, {threads_max} threads");
            }
            Comparison::Different(what) => {
                println!("{name}: {what}");
                differing.push(name);
            }
        }
    }
    skipped.iter().for_each(|lab| println!("skipped: {lab}"));
    println!(
        "{compared} labs with equal results, {divided} of them with several threads; {} labs differ, {} cannot run in \
         virtual time",
        differing.len(),
        skipped.len()
    );
    Ok((differing.is_empty() && compared > 0).into())
}

/// Adds the lab files of a folder and of its folders, sorted.
fn find_labs(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            find_labs(&path, files)?;
        } else if path.to_string_lossy().ends_with(".xoff.yml") {
            files.push(path);
        }
    }
    Ok(())
}

/// The result for a lab.
enum Comparison {
    /// All runs are equal. One of them used `threads_max` threads.
    Equal {
        threads_max: usize,
    },
    Different(String),
    NoVirtualTime(String),
}

fn compare_threads(arguments: &Arguments, file: &Path) -> Result<Comparison, String> {
    let first = match run_lab(arguments, file, THREADS[0], None)? {
        Ok(run) => run,
        Err(why) => return Ok(Comparison::NoVirtualTime(why)),
    };
    let record = Some(first.switch.as_str());
    let mut expected: Option<RunOutput> = None;
    let mut threads_max = 1;
    for threads in THREADS {
        let run = match run_lab(arguments, file, threads, record)? {
            Ok(run) => run,
            Err(why) => return Ok(Comparison::Different(format!("{threads} threads: {why}"))),
        };
        let total: u64 = run.events.iter().sum();
        if total >= 1_000 && run.events.contains(&0) {
            return Ok(Comparison::Different(format!(
                "{threads} threads: a thread had no event: {:?}",
                run.events
            )));
        }
        threads_max = threads_max.max(run.events.len());
        match &expected {
            None => expected = Some(run.output),
            Some(expected) if *expected == run.output => {}
            Some(expected) => {
                let differs = find_difference(expected, &run.output);
                return Ok(Comparison::Different(format!("{threads} threads: {differs}")));
            }
        }
    }
    Ok(Comparison::Equal { threads_max })
}

/// Returns what is different in two outputs.
fn find_difference(expected: &RunOutput, other: &RunOutput) -> String {
    if expected.exit_code != other.exit_code {
        return format!("exit code {} instead of {}", other.exit_code, expected.exit_code);
    }
    let pairs = expected.files.iter().zip(&other.files);
    let mut names = pairs
        .filter(|(one, two)| one != two)
        .map(|(one, _)| one.0.as_str());
    names
        .next()
        .map_or("other files".to_owned(), |name| format!("{name} differs"))
}

/// Runs a lab in a new folder. Returns why it cannot run in virtual time otherwise.
fn run_lab(
    arguments: &Arguments,
    file: &Path,
    threads: usize,
    record: Option<&str>,
) -> Result<Result<Run, String>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = Command::new(&arguments.program);
    command
        .current_dir(folder.path())
        .args(["lab", "run", "--virtual", "--no-exec", "--events-frames"])
        .args(["--events", "events.jsonl", "--series", "series"])
        .args(["--report", "report.json", "--until", &arguments.until])
        .args(["--threads", &threads.to_string()])
        .args(record.map(|switch| format!("--pcap={switch}=switch.pcapng")))
        .arg(file);
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", arguments.program.display()))?;
    let exit_code = output.status.code().unwrap_or(-1);
    if !RESULT_CODES.contains(&exit_code) {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let why = stderr.lines().next().unwrap_or("no message").to_owned();
        return Ok(Err(format!("exit code {exit_code}: {why}")));
    }
    let mut files = Vec::new();
    read_files(folder.path(), "", &mut files)?;
    let report = files.iter_mut().find(|(name, _)| name == "report.json");
    let Some((_, text)) = report else {
        return Err(format!("{}: no report", file.display()));
    };
    let mut report: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let environment = report
        .as_object_mut()
        .and_then(|report| report.remove("environment"));
    *text = report.to_string().into_bytes();
    let switch = report.pointer("/switches/0/name").and_then(Value::as_str);
    let switch = switch.unwrap_or_default().to_owned();
    let events = environment
        .as_ref()
        .and_then(|text| text.pointer("/threads/events"));
    let events = events.and_then(Value::as_array).into_iter().flatten();
    Ok(Ok(Run {
        output: RunOutput { files, exit_code },
        switch,
        events: events.filter_map(Value::as_u64).collect(),
    }))
}

/// Adds the files of a folder and of its folders, with their names relative to the first folder.
fn read_files(folder: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            read_files(&path, &format!("{name}/"), files)?;
        } else {
            let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            files.push((name, bytes));
        }
    }
    Ok(())
}
