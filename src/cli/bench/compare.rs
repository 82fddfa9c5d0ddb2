//! `xoff bench compare`: compares two configurations, labs or saved results.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::{output, signals};
use xoff_measure::compare::{
    ComparedSide, ComparisonSettings, ComparisonSideArguments, compare_sides, parse_gate_percent,
    remove_json_options,
};
use xoff_telemetry::failure::{Exit, Failure};

/// `xoff bench compare`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchCompare {
    /// Baseline: a config_db.json, a lab file (.yml) or a saved result
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Candidate to compare with A: a config_db.json, a lab file (.yml) or a saved result
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Exit with code 1 if B is worse than A by at least this percentage, and with code 5 if the result
    /// is inconclusive
    #[arg(long, value_name = "PERCENT", value_parser = parse_gate_percent)]
    pub gate: Option<f64>,
    /// Quantity to compare
    #[arg(long, value_enum, value_name = "QUANTITY", default_value_t)]
    pub by: ComparedQuantity,
    /// Largest number of pairs. A pair is one process of each side [default: 64; 256 with a gate and no
    /// benchmark after --]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: Option<u16>,
    /// Seed of the random order of both sides within a pair
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print the result as JSON (docs/bench.md)
    #[arg(long)]
    pub json: bool,
    /// Another benchmark for both sides, with its arguments and without its file
    #[arg(last = true, value_name = "BENCH ARGUMENTS", conflicts_with = "by")]
    pub bench: Vec<String>,
}

/// The quantity that the default benchmark compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComparedQuantity {
    /// Processor time per frame
    #[default]
    Time,
    /// Instructions per frame, counted by valgrind, exact also on a busy machine
    Instructions,
}

pub(super) const HELP: &str = "\
Measures both sides in pairs. Each pair has one process of each side, in random order. A signed-rank test on the
pairs decides whether B is worse. Confidence intervals cover 99.9 % for all figures and all evaluations together.
With a gate, pairs are measured until the result is decided, at most --rounds pairs.

After --, name another benchmark without its file: core, ndr, latency, rfc2544, rfc2889, rfc8239 or tune-buffers,
or ai for labs. The configuration or lab of each side is inserted as the file.

B is worse by the gate if B is significantly worse and the estimate reaches the gate. B is within the gate if the
whole interval is below the gate. B is equal if the interval is also above minus the gate. Otherwise the result is
inconclusive. The result is also inconclusive if other programs or the hypervisor used too much processor time, or
if B lacks a figure of A.

`cargo run --release -p core-bench -- compare A B` compares two programs.

Exit codes: 0 not worse by the gate (or no gate), 1 worse by the gate, 2 usage or results of different benchmarks,
3 a side cannot run or fails, 4 a result, configuration or lab is invalid, 5 inconclusive.

Examples:
  xoff bench compare before.json after.json --gate 5
  xoff bench compare config_db.json tuned.json
  xoff bench compare config_db.json tuned.json --gate 1 -- ndr --sizes 64";

pub(super) fn run(options: &BenchCompare) -> Result<Exit, Failure> {
    let commands = ComparisonSideArguments {
        program_arguments: None,
        bench_arguments: Some(bench_arguments(options)?),
    };
    let a = ComparedSide::open("A", &options.a, &commands)?;
    let b = ComparedSide::open("B", &options.b, &commands)?;
    if let (ComparedSide::Saved { .. }, ComparedSide::Saved { .. }, [bench, ..]) =
        (&a, &b, &options.bench[..])
    {
        return Err(Failure::usage(
            "a benchmark after -- has no effect, because both sides are saved results",
        )
        .at(format!("-- {bench}"))
        .fix("remove the benchmark, or give configurations or labs"));
    }
    // A pair of samples of `bench core` takes a tenth of a second. A pair of another benchmark can
    // take minutes.
    let is_quick = options.gate.is_some() && options.bench.is_empty();
    let settings = ComparisonSettings {
        gate_percent: options.gate,
        pairs_max: options.rounds.unwrap_or(if is_quick { 256 } else { 64 }).into(),
        seed: options.seed,
    };
    let stop = signals::watch_stop_signals()?;
    let comparison = compare_sides([&a, &b], &settings, &stop, output::print_note)?.with_verdict();
    if options.json {
        output::print_json(&comparison);
    } else {
        output::print(&comparison.to_text());
    }
    Ok(comparison.exit())
}

/// Returns the arguments of the benchmark that measures both sides.
fn bench_arguments(options: &BenchCompare) -> Result<Vec<String>, Failure> {
    if !options.bench.is_empty() {
        return remove_json_options(&options.bench);
    }
    let default_arguments: &[&str] = match options.by {
        ComparedQuantity::Time => &["core", "--rounds", "1"],
        ComparedQuantity::Instructions => &["core", "--instructions"],
    };
    Ok(default_arguments
        .iter()
        .map(|argument| (*argument).to_owned())
        .collect())
}
