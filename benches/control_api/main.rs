//! A lossless load next to hostile clients of the control API.
//!
//!     cargo bench --bench control_api
//!     cargo bench --bench control_api -- --seconds 5 --pairs 1
//!
//! The bench first searches for the fastest links without loss. A lab then sends at 80 % of this speed, in pairs of
//! runs with and without clients. The clients run at nice 19, one kind after the other (`clients.rs`). No run with
//! clients may lose a lossless frame, and `xoff show` must always answer within one second.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

#[path = "../soak/bed.rs"]
#[allow(dead_code, reason = "the soak bench uses more of the test bed")]
mod bed;
mod clients;
mod load;
#[path = "../soak/memory.rs"]
#[allow(dead_code, reason = "the soak bench uses more of the samples")]
mod memory;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use xoff_testing::{BenchOutcome, finish_bench};

use bed::{SoakRun, TestBed};
use load::{LoadResult, run_clients};
use memory::Memory;

/// The reason why the bench failed.
pub(crate) type Failure = String;

/// The slowest and the fastest link of the search, in Mb/s.
const SPEEDS_MBPS: (u32, u32) = (100, 20_000);
/// The search ends when its bounds are within this percentage of the upper one.
const WIDTH_PERCENT: u32 = 10;
/// Longest time until `xoff show` ends.
const SHOW_MAX: Duration = Duration::from_secs(1);
/// Smallest number of changes per second that take effect.
const CHANGES_MIN: f64 = 100.0;
/// Largest growth of memory after the first five seconds, in KiB.
const GROWTH_MAX_KIB: u64 = 5 * 1024;
/// Number of samples in the first five seconds.
const FIRST_SAMPLES: usize = 5;
/// Time of a lab before and after the clients.
const MARGIN: Duration = Duration::from_secs(8);
/// Time of a lab for the start and the end of the clients of a kind, on a loaded machine.
const KIND_MARGIN: Duration = Duration::from_secs(5);

/// Lossless load next to hostile clients of the control API.
#[derive(Debug, Parser)]
#[command(name = "control_api")]
struct Arguments {
    /// Duration of each kind of clients in seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Number of pairs of runs.
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Duration of a trial of the search in seconds.
    #[arg(long, default_value_t = 4.0)]
    trial_seconds: f64,
    /// Speed of the links in Mb/s; replaces the search.
    #[arg(long)]
    speed: Option<u32>,
    /// Option that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    if let Some(code) = clients::run_child() {
        return code;
    }
    let arguments = Arguments::parse();
    if !arguments.bench {
        println!("control_api: skipped: it takes minutes; run it with `cargo bench --bench control_api`");
        return ExitCode::SUCCESS;
    }
    let outcome = run(&arguments).map(BenchOutcome::from);
    finish_bench(outcome, &mut std::io::stdout(), &mut std::io::stderr())
}

/// Runs the bench and returns whether all conditions hold.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let bed = TestBed::new(1_082)?;
    let speed = match arguments.speed {
        Some(speed) => speed,
        None => search(&bed, Duration::from_secs_f64(arguments.trial_seconds))? * 8 / 10,
    };
    println!(
        "links of {speed} Mb/s, {} s for each kind of clients",
        arguments.seconds
    );
    let each = Duration::from_secs_f64(arguments.seconds);
    let time = (each + KIND_MARGIN) * clients::KINDS.len() as u32 + MARGIN;
    let (mut tainted, mut passed) = ([0, 0], true);
    for pair in 1..=arguments.pairs {
        let alone = bed.run(speed, time)?;
        print_run(pair, "without clients", &alone);
        let (with, load) = std::thread::scope(|scope| {
            let load = scope.spawn(|| run_clients(each));
            let with = bed.run(speed, time);
            (with, load.join())
        });
        let with = with?;
        let load = load.map_err(|_| "the thread of the clients died")??;
        print_run(pair, "with clients", &with);
        tainted[0] += u32::from(alone.is_tainted());
        tainted[1] += u32::from(with.is_tainted());
        passed &= check_run(&with, &load);
    }
    println!(
        "tainted runs: {} without clients, {} with clients",
        tainted[0], tainted[1]
    );
    Ok(passed && tainted[1] <= tainted[0])
}

/// Returns the fastest speed at which a run without clients loses nothing and is clean.
fn search(bed: &TestBed, time: Duration) -> Result<u32, Failure> {
    let (mut good, mut bad) = (SPEEDS_MBPS.0, SPEEDS_MBPS.1);
    while (bad - good) * 100 > bad * WIDTH_PERCENT {
        let speed = (good + bad) / 2;
        let run = bed.run(speed, time)?;
        let is_good = !run.is_tainted() && lost(&run) == 0 && run.utilisation() > 0.99;
        println!(
            "search: {speed} Mb/s {}",
            if is_good { "without loss" } else { "too fast" }
        );
        *(if is_good { &mut good } else { &mut bad }) = speed;
    }
    Ok(good)
}

/// Returns the number of lossless frames that the run lost.
fn lost(run: &SoakRun) -> u64 {
    let flows = run.report["flows"].as_array();
    let lost = flows
        .into_iter()
        .flatten()
        .filter_map(|flow| flow["lost_frames"].as_u64());
    let failures = run.report["failures"].as_array().map_or(0, Vec::len) as u64;
    lost.sum::<u64>().max(failures)
}

fn print_run(pair: u32, what: &str, run: &SoakRun) {
    let api = &run.report["environment"]["control_api"];
    println!(
        "pair {pair} {what}: {}, {} lossless frames lost, link {:.1} % busy, API: {} ms of CPU, {} requests, {} refused",
        run.report["verdict"].as_str().unwrap_or("?"),
        lost(run),
        run.utilisation() * 100.0,
        api["cpu_ns"].as_u64().unwrap_or(0) / 1_000_000,
        api["requests"],
        api["refused"],
    );
    for taint in run.report["taints"].as_array().into_iter().flatten() {
        println!("  tainted: {}", taint["cause"].as_str().unwrap_or("?"));
    }
}

/// Prints the conditions of a run with clients, and returns whether they hold.
fn check_run(run: &SoakRun, load: &LoadResult) -> bool {
    let samples = run.memory.samples_kib();
    let first = samples.iter().take(FIRST_SAMPLES).copied().max().unwrap_or(0);
    // The processes end during the last samples.
    let growth = samples.iter().copied().max().unwrap_or(0).saturating_sub(first);
    let conditions = [
        ("lossless frames lost", lost(run) as f64, lost(run) == 0),
        (
            "longest xoff show, ms",
            load.show_max.as_secs_f64() * 1e3,
            load.show_max < SHOW_MAX,
        ),
        (
            "failed xoff show",
            f64::from(load.failed_shows),
            load.failed_shows == 0,
        ),
        (
            "changes per second",
            load.changes_per_second,
            load.changes_per_second >= CHANGES_MIN,
        ),
        (
            "refused changes",
            load.refused_changes as f64,
            load.refused_changes > 0,
        ),
        ("memory growth, KiB", growth as f64, growth < GROWTH_MAX_KIB),
    ];
    for (name, value, holds) in &conditions {
        println!(
            "  {name}: {value:.0}{}",
            if *holds {
                ""
            } else {
                "  <- condition does not hold"
            }
        );
    }
    conditions.iter().all(|(_, _, holds)| *holds)
}
