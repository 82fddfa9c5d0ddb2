//! Accuracy and speed of `--accelerate`: each lab runs exactly and with acceleration.
//!
//!     cargo bench --bench acceleration
//!     cargo bench --bench acceleration -- --labs ring-hpcc,tree
//!
//! The completion time of each job and the 99th percentile of its messages must agree within 1 %, marks and pauses
//! within 5 % or 10 events. Steps must be skipped in at least twelve of the labs, and rings of at least 1000 steps must
//! need 30 times fewer events.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a bench")]

mod labs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use serde_json::Value;
use xoff_testing::{BenchOutcome, finish_bench};

use labs::{BenchLab, LABS};

/// Largest difference of completion times and latencies, in percent.
const TIME_PERCENT_MAX: f64 = 1.0;
/// Largest difference of marks and pauses, in percent.
const COUNT_PERCENT_MAX: f64 = 5.0;
/// Difference of marks and pauses that is always allowed.
const COUNT_DIFFERENCE_MAX: u64 = 10;
/// Number of labs in which steps must be skipped.
const LABS_WITH_SKIPS_MIN: usize = 12;
/// A ring with at least so many steps needs [`EVENTS_RATIO_MIN`] times fewer events.
const LONG_RING_STEPS: u64 = 1_000;
const EVENTS_RATIO_MIN: f64 = 30.0;

/// Accuracy and speed of `--accelerate`.
#[derive(Debug, Parser)]
#[command(name = "acceleration")]
struct Arguments {
    /// Names of labs. By default, all labs run.
    #[arg(long, value_delimiter = ',')]
    labs: Vec<String>,
    /// The program to measure.
    #[arg(long, default_value = env!("CARGO_BIN_EXE_xoff"))]
    program: PathBuf,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Differences between an exact and an accelerated run.
#[derive(Debug, Default)]
struct Comparison {
    events_ratio: f64,
    skipped_steps: u64,
    simulated_steps: u64,
    /// Largest difference of the completion time of a job, in percent.
    jct_percent: f64,
    /// Largest difference of the 99th percentile of messages, in percent.
    p99_percent: f64,
    /// ECN marks: exact and accelerated.
    marks: [u64; 2],
    /// Pauses of switch ports: exact and accelerated.
    pauses: [u64; 2],
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    finish_bench(run(&arguments), &mut std::io::stdout(), &mut std::io::stderr())
}

fn run(arguments: &Arguments) -> Result<BenchOutcome, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let chosen =
        |lab: &&BenchLab| arguments.labs.is_empty() || arguments.labs.iter().any(|name| name == lab.name);
    let mut misses = Vec::new();
    let (mut with_skips, mut count) = (0, 0);
    println!(
        "{:22} {:>8} {:>9} {:>9} {:>8} {:>8}  {:>15}  {:>13}",
        "lab", "events/", "skipped", "simulated", "JCT %", "P99 %", "marks", "pauses"
    );
    for lab in LABS.iter().filter(chosen) {
        let [exact, estimate] = run_both(&arguments.program, folder.path(), lab)?;
        let result = compare(&exact, &estimate)?;
        println!(
            "{:22} {:>8.1} {:>9} {:>9} {:>8.3} {:>8.3}  {:>7} {:>7}  {:>6} {:>6}",
            lab.name,
            result.events_ratio,
            result.skipped_steps,
            result.simulated_steps,
            result.jct_percent,
            result.p99_percent,
            result.marks[0],
            result.marks[1],
            result.pauses[0],
            result.pauses[1],
        );
        misses.extend(find_misses(lab.name, &result));
        with_skips += usize::from(result.skipped_steps > 0);
        count += 1;
    }
    println!("steps were skipped in {with_skips} of {count} labs");
    if arguments.labs.is_empty() && with_skips < LABS_WITH_SKIPS_MIN {
        misses.push(format!("steps were skipped in {with_skips} labs only"));
    }
    misses.iter().for_each(|miss| println!("missed: {miss}"));
    Ok(misses.is_empty().into())
}

/// Runs a lab exactly and with acceleration, one after the other, and returns both reports.
fn run_both(program: &Path, folder: &Path, lab: &BenchLab) -> Result<[Value; 2], String> {
    let file = folder.join("lab.xoff.yml");
    fs::write(&file, lab.text()).map_err(|error| error.to_string())?;
    let command = match lab.script {
        [] => "run",
        _ => "check",
    };
    let mut reports = Vec::new();
    for options in [&[][..], &["--accelerate"]] {
        let report = folder.join("report.json");
        let output = Command::new(program)
            .args(["lab", command, "--virtual"])
            .arg(&file)
            .arg("--report")
            .arg(&report)
            .args(options)
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}: {stderr}", lab.name, output.status));
        }
        let text = fs::read(&report).map_err(|error| error.to_string())?;
        reports.push(serde_json::from_slice(&text).map_err(|error| error.to_string())?);
    }
    <[Value; 2]>::try_from(reports).map_err(|_| "two reports are expected".to_owned())
}

fn compare(exact: &Value, estimate: &Value) -> Result<Comparison, String> {
    let jobs = |report: &Value| report.pointer("/jobs/jobs").and_then(Value::as_array).cloned();
    let (Some(exact_jobs), Some(estimated_jobs)) = (jobs(exact), jobs(estimate)) else {
        return Err("a report has no jobs".to_owned());
    };
    let mut result = Comparison {
        events_ratio: number(exact, "/virtual_time/events") / number(estimate, "/virtual_time/events"),
        marks: [exact, estimate].map(|report| sum_of_ports(report, "ecn_marked")),
        pauses: [exact, estimate].map(|report| sum_of_ports(report, "pfc_on2off_rx")),
        ..Comparison::default()
    };
    for (exact, estimate) in exact_jobs.iter().zip(&estimated_jobs) {
        let percent = |pointer: &str| {
            let (exact, estimate) = (number(exact, pointer), number(estimate, pointer));
            match exact > 0.0 {
                true => ((estimate - exact) / exact * 100.0).abs(),
                false => 0.0,
            }
        };
        result.jct_percent = result.jct_percent.max(percent("/jct_ns"));
        let p99 = percent("/message_latency_ns/p99").max(percent("/flows/completion_ns/p99"));
        result.p99_percent = result.p99_percent.max(p99);
    }
    let skips = estimate
        .pointer("/virtual_time/acceleration/jobs")
        .and_then(Value::as_array);
    for job in skips.into_iter().flatten() {
        result.skipped_steps += number(job, "/skipped_steps") as u64;
        result.simulated_steps += number(job, "/simulated_steps") as u64;
    }
    Ok(result)
}

/// Returns the limits that a comparison misses.
fn find_misses(lab: &str, result: &Comparison) -> Vec<String> {
    let mut misses = Vec::new();
    if result.jct_percent > TIME_PERCENT_MAX {
        misses.push(format!(
            "{lab}: the completion time differs by {:.3} %",
            result.jct_percent
        ));
    }
    if result.p99_percent > TIME_PERCENT_MAX {
        misses.push(format!(
            "{lab}: the latency differs by {:.3} %",
            result.p99_percent
        ));
    }
    for (name, [exact, estimate]) in [("marks", result.marks), ("pauses", result.pauses)] {
        let limit = (exact as f64 * COUNT_PERCENT_MAX / 100.0) as u64;
        if exact.abs_diff(estimate) > limit.max(COUNT_DIFFERENCE_MAX) {
            misses.push(format!("{lab}: {estimate} {name} instead of {exact}"));
        }
    }
    let steps = result.skipped_steps + result.simulated_steps;
    if lab.starts_with("ring") && steps >= LONG_RING_STEPS && result.events_ratio < EVENTS_RATIO_MIN {
        misses.push(format!(
            "{lab}: only {:.1} times fewer events",
            result.events_ratio
        ));
    }
    misses
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
}

/// Sums a counter, or an array of counters, over all switch ports.
fn sum_of_ports(report: &Value, counter: &str) -> u64 {
    let switches = report["switches"].as_array().into_iter().flatten();
    let ports = switches.flat_map(|switch| switch["ports"].as_array().into_iter().flatten());
    let values = ports.map(|port| match &port[counter] {
        Value::Array(values) => values.iter().filter_map(Value::as_u64).sum(),
        value => value.as_u64().unwrap_or(0),
    });
    values.sum()
}
