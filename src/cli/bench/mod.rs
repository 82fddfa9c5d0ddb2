//! `xoff bench`: measures switches and compares xoff with published results.

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
pub(crate) use self::core::CoreBenchArguments;
use super::output;
pub(crate) use ai::BenchAi;
pub(crate) use latency::BenchLatency;
pub(crate) use ndr::BenchNdr;
pub(crate) use placement::PlacementBenchArguments;
pub(crate) use probe::ProbeBenchArguments;
pub(crate) use result::ResultArguments;
pub(crate) use suite::{BenchRfc2544, BenchRfc2889, BenchRfc8239};
pub(crate) use tune::BenchTuneBuffers;
use xoff_lab::ns3::Scenario;
use xoff_measure::oracle::{OracleReport, compare_scenario};
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff bench`
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Run scenarios of the ns-3 HPCC model in virtual time, and compare the results with those of the model
    #[command(after_help = "\
A folder has a scenario (topology.txt, flow.txt and parameters.txt) and the results of the model (fct.csv and
pfc.csv). docs/oracle.md describes these files. xoff runs the flows with the frame lengths, buffer rules and pauses
of the model, and prints both completion times of each flow and both numbers of pauses of each interface. A second
run uses real Ethernet lengths. Its results are compared with scaled values of the model.

Exit codes: 0 all differences are within the bounds, 1 a completion time differs by more than 0.5 % (5 % with DCQCN)
or the number of pauses by more than 10 % and more than 2, 4 a folder is invalid.

Examples:
  xoff bench oracle tests/oracles/incast8_pfc
  xoff bench oracle tests/oracles/*_* --json")]
    Oracle(BenchOracle),
    /// Measure the latency of frames at percentages of the loss-free rate of a switch
    #[command(after_help = latency::HELP)]
    Latency(BenchLatency),
    /// Find the highest rates without loss, and with at most 0.5 % loss
    #[command(after_help = ndr::HELP)]
    Ndr(BenchNdr),
    /// Compare two configurations, labs or saved results, and report whether the second is worse
    #[command(after_help = self::compare::HELP)]
    Compare(BenchCompare),
    /// Measure the processor time or the instructions of a switch for each frame
    #[command(after_help = self::core::HELP)]
    Core(CoreBenchArguments),
    /// Measure the utilisation of the uplinks of a leaf with ECMP, and compare it with random placement
    #[command(after_help = placement::HELP)]
    Placement(PlacementBenchArguments),
    /// Find the XOFF, XON, drop and headroom thresholds of a switch by probing, and compare them
    /// with the configuration
    #[command(after_help = probe::HELP)]
    Probe(ProbeBenchArguments),
    /// Run collectives over a fabric in virtual time, and print the key figures of the
    /// AI-fabric benchmarking draft
    #[command(after_help = ai::HELP)]
    Ai(BenchAi),
    /// Find the smallest lossless buffers for a traffic pattern in virtual time
    #[command(after_help = tune::HELP)]
    TuneBuffers(BenchTuneBuffers),
    /// Measure throughput, latency, loss, bursts and recovery of a switch (RFC 2544)
    #[command(after_help = suite::HELP_2544)]
    Rfc2544(BenchRfc2544),
    /// Measure forwarding rates, congestion control, address cache and broadcasts of a switch (RFC 2889)
    #[command(after_help = suite::HELP_2889)]
    Rfc2889(BenchRfc2889),
    /// Measure line rate, buffers, bursts and head-of-line blocking of a switch (RFC 8239)
    #[command(after_help = suite::HELP_8239)]
    Rfc8239(BenchRfc8239),
}

/// `xoff bench oracle`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchOracle {
    /// Folders of reference scenarios
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,
    /// Print the result as JSON (docs/oracle.md)
    #[arg(long)]
    pub json: bool,
    /// Seed of the random ECN marks between the two thresholds
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Runs a command of `xoff bench`.
pub(super) fn run(command: &BenchCommand) -> Result<Exit, Failure> {
    match command {
        BenchCommand::Oracle(options) => run_oracle(options),
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

/// Runs `xoff bench oracle`.
fn run_oracle(options: &BenchOracle) -> Result<Exit, Failure> {
    // All folders are read before the first run, so an error in any folder is reported immediately.
    let scenarios: Vec<Scenario> = options
        .folders
        .iter()
        .map(|path| Scenario::read(path))
        .collect::<Result<_, _>>()?;
    let mut comparisons = Vec::with_capacity(scenarios.len());
    for scenario in &scenarios {
        output::print_note(&format!(
            "{}: {}",
            scenario.name,
            xoff_telemetry::count_noun(scenario.flows.len() as u64, "flow")
        ));
        comparisons.push(compare_scenario(scenario, options.seed)?);
    }
    let report = OracleReport::new(comparisons, options.seed);
    if options.json {
        output::print_json(&report);
    } else {
        output::print(&report.render());
    }
    Ok(report.exit())
}
