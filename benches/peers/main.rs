//! Comparison of xoff with other forwarders on this machine, in turns with the same namespaces, cables,
//! generator and sink. Separate measurements of xoff with real frames show its idle cost, the cost of its
//! worker with I/O workers, its reaction times and its start.
//!
//!     cargo bench --bench peers
//!     cargo bench --bench peers -- --rounds 12 --sizes 1082 --only xoff-packet,testpmd-packet --save peers.json
//!     cargo bench --bench peers -- --only xoff-packet,earlier-packet --earlier PATH
//!     cargo bench --bench peers -- idle
//!     cargo bench --bench peers -- workers
//!     cargo bench --bench peers -- reaction
//!     cargo bench --bench peers -- footprint
//!     cargo bench --bench peers -- api
//!
//! Forwarders that are not installed, or that cannot carry a frame length, are skipped with a note.
//! benches/README.md describes the measurements.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its results"
)]

mod api_load;
mod bed;
mod child;
mod footprint;
mod forwarders;
mod idle;
mod measure;
mod ping;
mod reaction;
mod results;
mod soaker;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};
use xoff_measure::result::{BenchResult, MachineMeter, ResultFormat, TaintLimits};
use xoff_measure::traffic::SendMethod;

use bed::TestBed;
use forwarders::Forwarder;
use measure::{MeasurementPlan, measure};
use results::RoundResults;

/// The reason why a measurement failed.
pub(crate) type Failure = String;

/// Comparison of xoff with other forwarders between two veth pairs.
#[derive(Debug, Parser)]
#[command(name = "peers")]
struct Arguments {
    /// Measurement of xoff alone; by default, all forwarders are measured.
    #[command(subcommand)]
    alone: Option<XoffMeasurement>,
    /// Number of rounds; each round measures everything once.
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Frame lengths in bytes, without FCS.
    #[arg(long, value_delimiter = ',', default_value = "64,1082,4200", value_parser = clap::value_parser!(u32).range(60..=9_000))]
    sizes: Vec<u32>,
    /// Forwarders to measure; by default all.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<Forwarder>,
    /// Duration of each trial in seconds.
    #[arg(long, global = true, default_value_t = 2.0)]
    seconds: f64,
    /// Another xoff program, such as a build of the previous state. It is measured in turns with this one.
    #[arg(long, value_name = "PATH")]
    earlier: Option<PathBuf>,
    /// Number of pings in each measurement.
    #[arg(long, default_value_t = 200)]
    pings: u16,
    /// Let the kernel create the frames (XDP live frames) for the measurements of rate and cost.
    #[arg(long)]
    live: bool,
    /// Output format of the result.
    #[arg(long, global = true, default_value = "table")]
    format: ResultFormat,
    /// Also save the result as JSON.
    #[arg(long, global = true)]
    save: Option<PathBuf>,
    /// Forward with pnet; for the process that this benchmark starts.
    #[arg(long, hide = true)]
    pnet_loop: bool,
    /// Send requests to this control socket; for the process that this benchmark starts.
    #[arg(long, hide = true)]
    api_clients: Option<PathBuf>,
    /// Option that `cargo bench` adds.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum XoffMeasurement {
    /// Processor time of a switch without traffic, and the loss-free rate of an adaptive one beside
    /// one that spins
    Idle,
    /// Time of the switch's worker for a frame where I/O workers own the ports
    Workers,
    /// From the crossing of a threshold to XOFF, from PFC to the last data frame, and what forwarding adds
    Reaction,
    /// Time from the start of the program to the first frame it could forward, and memory, with 2, 8
    /// and 32 ports
    Footprint,
    /// Time of the switch's worker for a frame with and without clients of the control API
    Api,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.pnet_loop {
        return match forwarders::forward_by_pnet() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => exit_with_failure(&failure),
        };
    }
    if let Some(socket) = &arguments.api_clients {
        println!("{}", api_load::run_clients(socket, arguments.seconds));
        return ExitCode::SUCCESS;
    }
    if !arguments.bench {
        println!("peers: skipped: it takes minutes; run it with `cargo bench --bench peers`");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(code) => code,
        Err(failure) => exit_with_failure(&failure),
    }
}

fn exit_with_failure(failure: &str) -> ExitCode {
    eprintln!("error: {failure}");
    ExitCode::from(3)
}

/// The common state of all measurements.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) bed: &'a TestBed,
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    /// Set by SIGINT and SIGTERM.
    stop: Arc<AtomicBool>,
}

impl Run<'_> {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn watch_stop_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| format!("cannot watch signals: {error}"))?;
    }
    Ok(stop)
}

fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if !(0.2..=60.0).contains(&arguments.seconds) {
        return Err("--seconds: a trial takes 0.2 to 60 seconds".to_owned());
    }
    let mut bed = TestBed::enter()?;
    bed.earlier_xoff.clone_from(&arguments.earlier);
    let run = Run {
        bed: &bed,
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        stop: watch_stop_signals()?,
    };
    let meter = MachineMeter::start();
    let mut result = BenchResult::new("peers", "forwarders between two veths", 0);
    match arguments.alone {
        None => measure_forwarders(&run, arguments, &mut result)?,
        Some(XoffMeasurement::Idle) => idle::measure(&run, &mut result)?,
        Some(XoffMeasurement::Workers) => workers::measure(&run, &mut result)?,
        Some(XoffMeasurement::Reaction) => reaction::measure(&run, &mut result)?,
        Some(XoffMeasurement::Footprint) => footprint::measure(&run, &mut result)?,
        Some(XoffMeasurement::Api) => api_load::measure(&run, &mut result)?,
    }
    if run.is_interrupted() {
        return Ok(ExitCode::from(130));
    }
    let (environment, tainted) = meter.finish(&TaintLimits::default());
    result.environment = Some(environment);
    result.tainted = tainted;
    print!("{}", result.to_text(arguments.format));
    if let Some(path) = &arguments.save {
        std::fs::write(path, result.to_text(ResultFormat::Json))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(ExitCode::from(result.exit() as u8))
}

/// Measures all forwarders in turns.
fn measure_forwarders(run: &Run<'_>, arguments: &Arguments, result: &mut BenchResult) -> Result<(), Failure> {
    let chosen: Vec<Forwarder> = match &arguments.only[..] {
        [] => clap::ValueEnum::value_variants()
            .iter()
            .copied()
            .filter(|forwarder: &Forwarder| arguments.earlier.is_some() || !forwarder.is_earlier())
            .collect(),
        only => only.to_vec(),
    };
    let plan = MeasurementPlan {
        seconds: run.seconds,
        pings: arguments.pings,
        method: if arguments.live {
            SendMethod::KernelFrames
        } else {
            SendMethod::PacketSocket
        },
    };
    let mut rounds = RoundResults::default();
    for round in 0..run.rounds {
        for &frame_bytes in &arguments.sizes {
            // Each forwarder is first in some round, so that a drift of the machine affects all of them.
            let first = round as usize % chosen.len();
            for &forwarder in chosen[first..].iter().chain(&chosen[..first]) {
                let subject = format!("round {}: {frame_bytes}/{}", round + 1, forwarder.name());
                match measure(run.bed, forwarder, frame_bytes, plan) {
                    Ok(measured) => {
                        let (rate, cpu) = (measured.rate_fps, measured.cpu_ns);
                        eprintln!("{subject}: {rate:.0} frames/s, {cpu:.0} ns/frame");
                        rounds.add(frame_bytes, forwarder, round, measured);
                    }
                    Err(why) => {
                        eprintln!("{subject}: skipped: {why}");
                        rounds.skip(frame_bytes, forwarder, why);
                    }
                }
                if run.is_interrupted() {
                    return Ok(());
                }
            }
        }
    }
    rounds.add_to_result(result);
    Ok(())
}
