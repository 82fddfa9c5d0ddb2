//! A soak run of ten minutes with real frames at 90 % of the capacity of this machine. The
//! senders honour PFC.
//!
//!     cargo bench --bench soak
//!     cargo bench --bench soak -- --minutes 60 --percent 90
//!
//! Two hosts send to a third one at the full speed of their links, so PFC pauses them all the time. The bench
//! first searches for the fastest link without loss. Then the hosts send for minutes at 90 % of that speed.
//! `verdict.rs` defines the conditions.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

mod bed;
mod memory;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use xoff_testing::{BenchOutcome, finish_bench};

use bed::{SoakRun, TestBed};
use memory::Memory;
use verdict::Condition;

/// The reason why the bench failed.
pub(crate) type Failure = String;

/// The slowest and the fastest link of the search, in Mb/s.
const SPEEDS_MBPS: (u32, u32) = (100, 40_000);
/// The search ends when its bounds are within this percentage of the upper one.
const WIDTH_PERCENT: u32 = 5;
/// Number of attempts of a trial in which the machine stalled.
const TRIES: u32 = 3;

/// Long run at a share of the loss-free rate of this machine.
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Arguments {
    /// Duration of the run in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Percentage of the loss-free rate at which the run sends.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=100))]
    percent: u32,
    /// Duration of a trial of the search in seconds.
    #[arg(long, default_value_t = 4.0)]
    trial_seconds: f64,
    /// Frame length in bytes, without FCS.
    #[arg(long, default_value_t = 1_082, value_parser = clap::value_parser!(u32).range(128..=1_514))]
    frame: u32,
    /// Speed of the links in Mb/s; replaces the search.
    #[arg(long)]
    speed: Option<u32>,
    /// File for the result as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("soak: skipped: it takes minutes; run it with `cargo bench --bench soak`");
        return ExitCode::SUCCESS;
    }
    let outcome = run(&arguments).map(BenchOutcome::from);
    finish_bench(outcome, &mut std::io::stdout(), &mut std::io::stderr())
}

fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let bed = TestBed::new(arguments.frame)?;
    let speed = match arguments.speed {
        Some(speed) => speed,
        None => find_loss_free_mbps(&bed, parse_seconds(arguments.trial_seconds)?)? * arguments.percent / 100,
    };
    eprintln!("{} minutes at {speed} Mb/s", arguments.minutes);
    let run = bed.run(speed, parse_seconds(arguments.minutes * 60.0)?)?;
    let findings = verdict::findings(&run);
    print_findings(speed, &run, &findings);
    if let Some(path) = &arguments.json {
        let text = json!({
            "schema": "xoff-soak/1",
            "speed_mbps": speed,
            "findings": findings.iter().map(Condition::json).collect::<Vec<_>>(),
            "memory_kib": run.memory.samples_kib(),
            "report": run.report,
        });
        std::fs::write(path, format!("{text:#}\n"))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(findings.iter().all(|finding| finding.kept))
}

fn parse_seconds(seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("a time of {seconds} s cannot be; give more than 0"))
}

/// Returns the speed of the fastest links without loss.
fn find_loss_free_mbps(bed: &TestBed, trial: Duration) -> Result<u32, Failure> {
    let (mut good, mut bad) = (0, SPEEDS_MBPS.1 + 1);
    let mut speed = 1_000;
    while good == 0 || (bad - good) * 100 > bad * WIDTH_PERCENT {
        match is_loss_free_at(bed, speed, trial)? {
            true => good = speed,
            false => bad = speed,
        }
        speed = match (good, bad) {
            (0, _) if bad <= SPEEDS_MBPS.0 => {
                return Err(format!("nothing is carried without a loss, not even {bad} Mb/s"));
            }
            (0, _) => (bad / 2).max(SPEEDS_MBPS.0),
            (_, bad) if bad > SPEEDS_MBPS.1 => match good {
                top if top == SPEEDS_MBPS.1 => return Ok(top),
                _ => (good * 3 / 2).min(SPEEDS_MBPS.1),
            },
            _ => good.midpoint(bad),
        };
    }
    Ok(good)
}

fn is_loss_free_at(bed: &TestBed, speed: u32, trial: Duration) -> Result<bool, Failure> {
    for _ in 0..TRIES {
        let run = bed.run(speed, trial)?;
        let full = verdict::is_full(&run);
        eprintln!(
            "{speed} Mb/s: {}, link {:.1} % busy",
            match (run.is_tainted(), full) {
                (true, _) => "tainted",
                (false, true) => "carried",
                (false, false) => "not carried",
            },
            100.0 * run.utilisation()
        );
        if !run.is_tainted() {
            return Ok(full);
        }
    }
    Ok(false)
}

fn print_findings(speed: u32, run: &SoakRun, findings: &[Condition]) {
    println!("{speed} Mb/s, link {:.2} % busy", 100.0 * run.utilisation());
    for finding in findings {
        let word = if finding.kept { "ok" } else { "FAIL" };
        println!("{word:<5} {}: {}", finding.what, finding.figures);
    }
}
