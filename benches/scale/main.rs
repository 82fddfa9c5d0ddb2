//! Cost of a frame-hop in large fabrics in virtual time, and the time and memory to build them.
//!
//!     cargo bench --bench scale                                  # the labs that the ratios need
//!     cargo bench --bench scale -- --labs fat-tree-k32,fat-tree-k64
//!     cargo bench --bench scale -- --program OTHER/xoff          # another build, for a comparison
//!     cargo bench --bench scale -- --threads                     # two threads, see threads.rs
//!
//! Each lab of testbeds/scale runs three times in every round: until 1 ns of model time, which builds the fabric, until
//! 1 ns with a report in a file and another one as printed JSON, and to its end. All times are processor time of the
//! whole process. The peak memory is the largest of the three runs. The lab `permutation` of testbeds/fabrics is the
//! reference: a machine that runs it at another rate than 10 million frame-hops per second has other absolute times.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a bench")]

mod threads;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use wait4::Wait4;
use xoff_testing::{BenchOutcome, finish_bench, repository_root};

/// The labs that run by default, in the order of a round.
const LABS: [&str; 5] = [
    "fat-tree-k8",
    "fat-tree-k8-chunks",
    "fat-tree-k24",
    "rail-16",
    "rail-1024",
];
/// Rate of the reference lab for which absolute times are stated, in frame-hops per second.
const REFERENCE_RATE: f64 = 10e6;

/// A lower limit of the ratio of two rates.
struct RatioLimit {
    lab: &'static str,
    base: &'static str,
    /// Whether the rates include the time to build the fabric.
    is_with_start: bool,
    limit: f64,
}

const RATIO_LIMITS: [RatioLimit; 3] = [
    RatioLimit {
        lab: "fat-tree-k24",
        base: "fat-tree-k8",
        is_with_start: true,
        limit: 0.5,
    },
    RatioLimit {
        lab: "fat-tree-k24",
        base: "fat-tree-k8-chunks",
        is_with_start: false,
        limit: 0.6,
    },
    RatioLimit {
        lab: "rail-1024",
        base: "rail-16",
        is_with_start: true,
        limit: 0.8,
    },
];

/// Cost of a frame-hop in large fabrics.
#[derive(Debug, Parser)]
#[command(name = "scale")]
struct Arguments {
    /// Number of rounds. The result is the median round of each lab.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Compare one run with two threads with two runs with one thread.
    #[arg(long)]
    threads: bool,
    /// Names of labs in testbeds/scale, without `.xoff.yml`. With `--threads`, names of the results.
    #[arg(long, value_delimiter = ',')]
    labs: Vec<String>,
    /// The program to measure.
    #[arg(long, default_value = env!("CARGO_BIN_EXE_xoff"))]
    program: PathBuf,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Which part of a lab runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunKind {
    /// Until 1 ns of model time.
    Start,
    /// As [`RunKind::Start`], with a report in a file and another one as printed JSON.
    StartWithReports,
    /// To its end.
    Complete,
}

/// One run of a lab.
#[derive(Clone, Copy, Debug)]
struct Run {
    cpu_s: f64,
    peak_bytes: u64,
    frame_hops: u64,
}

/// The runs of a lab in a round.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    start: Run,
    /// As `start`, with both reports.
    reports: Run,
    complete: Run,
}

impl Measurement {
    /// Returns the number of frame-hops per second of processor time.
    fn rate(self, is_with_start: bool) -> f64 {
        let start_s = if is_with_start { 0.0 } else { self.start.cpu_s };
        self.complete.frame_hops as f64 / (self.complete.cpu_s - start_s).max(1e-9)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("scale: skipped: it takes minutes; run it with `cargo bench --bench scale`");
        return ExitCode::SUCCESS;
    }
    let result = match arguments.threads {
        true => threads::run(&arguments.program, arguments.rounds, &arguments.labs),
        false => run(&arguments),
    };
    let outcome = result.map(BenchOutcome::from);
    finish_bench(outcome, &mut std::io::stdout(), &mut std::io::stderr())
}

/// Runs all labs and prints the results. Returns whether all ratios are within their limits.
fn run(arguments: &Arguments) -> Result<bool, String> {
    let root = repository_root();
    let reference = root.join("testbeds/fabrics/permutation.xoff.yml");
    let labs: Vec<String> = match arguments.labs.is_empty() {
        true => LABS.map(str::to_owned).to_vec(),
        false => arguments.labs.clone(),
    };
    let (mut references, mut rounds) = (Vec::new(), vec![Vec::new(); labs.len()]);
    for _ in 0..arguments.rounds {
        references.push(measure(&arguments.program, &reference)?);
        for (lab, results) in labs.iter().zip(&mut rounds) {
            let file = root.join("testbeds/scale").join(format!("{lab}.xoff.yml"));
            results.push(measure(&arguments.program, &file)?);
        }
    }
    let reference = median(&mut references, |one| one.rate(true)).rate(true);
    println!("reference: {:.2} million frame-hops per second", reference / 1e6);
    println!(
        "{:<20} {:>12} {:>9} {:>9} {:>9} {:>9} {:>14} {:>14} {:>9}",
        "lab", "frame-hops", "start", "reports", "all", "scaled", "Mhops/s", "without start", "peak"
    );
    let results: Vec<Measurement> = rounds
        .iter_mut()
        .map(|rounds| median(rounds, |one| one.complete.cpu_s))
        .collect();
    for (lab, result) in labs.iter().zip(&results) {
        let (start, complete) = (result.start, result.complete);
        println!(
            "{lab:<20} {:>12} {:>7.2} s {:>7.2} s {:>7.2} s {:>7.2} s {:>14.2} {:>14.2} {:>6} MB",
            complete.frame_hops,
            start.cpu_s,
            result.reports.cpu_s - start.cpu_s,
            complete.cpu_s,
            complete.cpu_s * reference / REFERENCE_RATE,
            result.rate(true) / 1e6,
            result.rate(false) / 1e6,
            complete.peak_bytes.max(result.reports.peak_bytes) / 1_000_000
        );
    }
    Ok(print_ratios(&labs, &results))
}

/// Prints the ratios of the labs that ran. Returns whether all of them are within their limits.
fn print_ratios(labs: &[String], results: &[Measurement]) -> bool {
    let result_of = |name: &str| Some(results[labs.iter().position(|lab| lab == name)?]);
    let mut all_within = true;
    for ratio in RATIO_LIMITS {
        let (Some(result), Some(base)) = (result_of(ratio.lab), result_of(ratio.base)) else {
            continue;
        };
        let value = result.rate(ratio.is_with_start) / base.rate(ratio.is_with_start);
        let is_within = value >= ratio.limit;
        all_within &= is_within;
        println!(
            "{} / {}, {} start: {value:.2}, at least {}{}",
            ratio.lab,
            ratio.base,
            if ratio.is_with_start { "with" } else { "without" },
            ratio.limit,
            if is_within { "" } else { "  <- too low" }
        );
    }
    all_within
}

/// Returns the measurement with the median of a value.
fn median(rounds: &mut [Measurement], value: impl Fn(&Measurement) -> f64) -> Measurement {
    rounds.sort_by(|a, b| value(a).total_cmp(&value(b)));
    rounds[rounds.len() / 2]
}

fn measure(program: &Path, lab: &Path) -> Result<Measurement, String> {
    Ok(Measurement {
        start: run_lab(program, lab, RunKind::Start)?,
        reports: run_lab(program, lab, RunKind::StartWithReports)?,
        complete: run_lab(program, lab, RunKind::Complete)?,
    })
}

/// Runs a lab and waits for its end.
fn run_lab(program: &Path, lab: &Path, kind: RunKind) -> Result<Run, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let printed = folder.path().join("stdout");
    let output = File::create(&printed).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["lab", "run", "--virtual"]).arg(lab);
    if kind != RunKind::Complete {
        command.args(["--until", "1ns"]);
    }
    if kind == RunKind::StartWithReports {
        command.args(["--format", "json", "--report"]);
        command.arg(folder.path().join("report.json"));
    }
    let child = command
        .stdout(Stdio::from(output))
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let usage = child.wait4().map_err(|error| error.to_string())?;
    // A run until 1 ns ends before its jobs.
    let is_expected = usage.status.success() || kind != RunKind::Complete && usage.status.code() == Some(1);
    if !is_expected {
        return Err(format!("{}: {}", lab.display(), usage.status));
    }
    let frame_hops = match kind {
        RunKind::StartWithReports => 0,
        RunKind::Start | RunKind::Complete => read_frame_hops(&printed)?,
    };
    Ok(Run {
        cpu_s: (usage.rusage.utime + usage.rusage.stime).as_secs_f64(),
        peak_bytes: usage.rusage.maxrss,
        frame_hops,
    })
}

/// Reads the number of frame-hops from the printed summary of a run, such as `12 ns of model time: 5 events, 1,234
/// frame-hops`.
///
/// The report also has it, but the reports of large fabrics have a gigabyte. Linux counts the peak memory of this
/// program as the peak of its children, so this program must stay small.
fn read_frame_hops(printed: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(printed).map_err(|error| format!("{}: {error}", printed.display()))?;
    text.split_once(" frame-hops")
        .and_then(|(before, _)| before.split_whitespace().next_back())
        .and_then(|number| number.replace(',', "").parse().ok())
        .ok_or_else(|| "the run printed no number of frame-hops".to_owned())
}
