//! `xoff bench`: what a switch does and costs, and xoff held against what others have published.

mod ai;
mod compare;
mod core;
mod dut;
mod latency;
mod ndr;
mod placement;
mod probe;
mod result;
mod suite;
mod tune;

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) use self::compare::BenchCompare;
pub(crate) use self::core::BenchCore;
use super::output;
pub(crate) use ai::BenchAi;
pub(crate) use latency::BenchLatency;
pub(crate) use ndr::BenchNdr;
pub(crate) use placement::BenchPlacement;
pub(crate) use probe::BenchProbe;
pub(crate) use result::ResultArguments;
pub(crate) use suite::{BenchRfc2544, BenchRfc2889, BenchRfc8239};
pub(crate) use tune::BenchTuneBuffers;
use xoff_lab::ns3::Scenario;
use xoff_measure::oracle::{OracleReport, compare_scenario};
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff bench`
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Run scenarios of the HPCC model of ns-3 in virtual time, and hold the result against that model's
    #[command(after_help = "\
A folder holds topology.txt, flow.txt, parameters.txt (what was simulated), fct.csv and pfc.csv (what
came of it); docs/oracle.md describes them. xoff takes over that model's wire lengths, buffer rules and
pauses, runs the flows, and prints for each flow both completion times, and for each interface how often
it was paused. A second run has Ethernet's real lengths, beside what these lengths make of the reference.

Exit codes: 0 all within bounds; 1 a completion time differs by more than 0.5 % (5 % where DCQCN has a
part), or the transitions to paused by more than 10 % and more than 2; 4 a folder is wrong.

Examples:
  xoff bench oracle tests/oracles/incast8_pfc
  xoff bench oracle tests/oracles/*_* --json")]
    Oracle(BenchOracle),
    /// How long frames take through a switch at shares of its loss-free rate
    #[command(after_help = latency::HELP)]
    Latency(BenchLatency),
    /// The highest rates without loss, and with at most 0.5 % of it
    #[command(after_help = ndr::HELP)]
    Ndr(BenchNdr),
    /// Say whether one program, configuration, lab or saved result is slower than another
    #[command(after_help = self::compare::HELP)]
    Compare(BenchCompare),
    /// Measure what a frame costs the switch itself, in nanoseconds or in instructions
    #[command(after_help = self::core::HELP)]
    Core(BenchCore),
    /// Place queue pairs on a leaf's uplinks by its hash, over many seeds, and hold what is left against arithmetic
    #[command(after_help = placement::HELP)]
    Placement(BenchPlacement),
    /// Find a switch's XOFF, XON, drop and headroom thresholds from outside, and compare them with what is configured
    #[command(after_help = probe::HELP)]
    Probe(BenchProbe),
    /// Run collectives over a fabric in virtual time, and print the key figures of the AI-fabric benchmarking draft
    #[command(after_help = ai::HELP)]
    Ai(BenchAi),
    /// Find the smallest lossless buffers for a pattern of traffic, in virtual time, and prove them by runs
    #[command(after_help = tune::HELP)]
    TuneBuffers(BenchTuneBuffers),
    /// Throughput, latency, loss, bursts and recovery of a switch, by RFC 2544
    #[command(after_help = suite::HELP_2544)]
    Rfc2544(BenchRfc2544),
    /// Forwarding, congestion, addresses and broadcasts of a switch, by RFC 2889
    #[command(after_help = suite::HELP_2889)]
    Rfc2889(BenchRfc2889),
    /// Line rate, buffers, bursts and head-of-line blocking of a switch, by RFC 8239
    #[command(after_help = suite::HELP_8239)]
    Rfc8239(BenchRfc8239),
}

/// `xoff bench oracle`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchOracle {
    /// Folders of the reference
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,
    /// Print the result as JSON (docs/oracle.md)
    #[arg(long)]
    pub json: bool,
    /// Seed of every random decision: which packets are marked between two ECN thresholds
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

pub(super) fn run(command: &BenchCommand) -> Result<Exit, Failure> {
    match command {
        BenchCommand::Oracle(options) => oracle(options),
        BenchCommand::Latency(options) => latency::run(options),
        BenchCommand::Ndr(options) => ndr::run(options),
        BenchCommand::Compare(options) => self::compare::run(options),
        BenchCommand::Core(options) => self::core::run(options),
        BenchCommand::Placement(options) => placement::run(options),
        BenchCommand::Probe(options) => probe::run(options),
        BenchCommand::Ai(options) => ai::run_bench(options),
        BenchCommand::TuneBuffers(options) => tune::run(options),
        BenchCommand::Rfc2544(options) => suite::run_2544(options),
        BenchCommand::Rfc2889(options) => suite::run_2889(options),
        BenchCommand::Rfc8239(options) => suite::run_8239(options),
    }
}

fn oracle(options: &BenchOracle) -> Result<Exit, Failure> {
    // All are read before the first one runs, so that a mistake in the last one is told at once.
    let scenarios: Vec<Scenario> = options
        .folders
        .iter()
        .map(|path| Scenario::read(path))
        .collect::<Result<_, _>>()?;
    let mut comparisons = Vec::with_capacity(scenarios.len());
    for scenario in &scenarios {
        output::note(&format!("{}: {} flows", scenario.name, scenario.flows.len()));
        comparisons.push(compare_scenario(scenario, options.seed)?);
    }
    let report = OracleReport::new(comparisons, options.seed);
    if options.json {
        output::print_json(&report)?;
    } else {
        output::print(&report.render())?;
    }
    Ok(report.exit())
}
