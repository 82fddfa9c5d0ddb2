//! `core-bench compare`: compares two programs by running them in turns.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};
use xoff_measure::compare::{
    ComparedSide, ComparisonSettings, ComparisonSideArguments, compare_sides, parse_gate_percent,
    remove_json_options,
};
use xoff_telemetry::failure::{Exit, Failure};

/// `core-bench compare`
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Program to compare with, or a result that `core-bench run --save` has written
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Program to judge, or a saved result
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Exit with code 1 if B is worse than A by at least this percentage, and with code 5 if the result
    /// is inconclusive
    #[arg(long, value_name = "PERCENT", value_parser = parse_gate_percent)]
    gate: Option<f64>,
    /// Quantity to compare
    #[arg(long, value_enum, value_name = "QUANTITY", default_value_t)]
    by: Quantity,
    /// Workloads of `core-bench run`, separated by commas
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "ecmp")]
    workload: Vec<String>,
    /// Largest number of pairs. A pair is one process of each side [default: 64; 256 with a gate
    /// and built-in workloads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: Option<u16>,
    /// Seed of the random order of both programs within a pair
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON (docs/bench.md)
    #[arg(long)]
    json: bool,
    /// Arguments that both programs get, such as `bench ndr config_db.json` for two builds of xoff
    #[arg(last = true, value_name = "ARGUMENTS", conflicts_with_all = ["by", "workload"])]
    arguments: Vec<String>,
}

/// Quantity to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Quantity {
    /// Processor time per frame
    #[default]
    Time,
    /// Instructions per frame, counted by valgrind, exact also on a busy machine
    Instructions,
}

pub(crate) const HELP: &str = "\
Both programs run in turns, in random order, one process for each sample. A signed-rank test on the pairs decides
whether B is worse. docs/bench.md describes the test and the exit codes; `xoff bench compare` applies the same test
to configurations, labs and saved results.

Without arguments after --, both programs are builds of core-bench. Otherwise they are programs that print a result
with schema \"xoff-bench/1\", such as xoff. `--json` is added to their arguments.

Exit codes: 0 not worse by the gate (or no gate), 1 worse by the gate, 2 usage, 3 a program cannot run or fails,
4 an invalid file, 5 inconclusive.

Examples:
  core-bench compare old/core-bench new/core-bench --gate 3
  core-bench compare old/core-bench new/core-bench --gate 3 --by instructions --workload ecmp,fabric
  core-bench compare old/xoff new/xoff -- bench ndr config_db.json --sizes 64";

pub(crate) fn run(arguments: &CompareArguments) -> Result<Exit, Failure> {
    let commands = ComparisonSideArguments {
        program_arguments: Some(program_arguments(arguments)?),
        bench_arguments: None,
    };
    let a = ComparedSide::open("A", &arguments.a, &commands)?;
    let b = ComparedSide::open("B", &arguments.b, &commands)?;
    let is_quick = arguments.gate.is_some() && arguments.arguments.is_empty();
    let pairs_max = arguments.rounds.unwrap_or(if is_quick { 256 } else { 64 });
    let settings = ComparisonSettings {
        gate_percent: arguments.gate,
        pairs_max: pairs_max.into(),
        seed: arguments.seed,
    };
    let stop = AtomicBool::new(false);
    let comparison =
        compare_sides([&a, &b], &settings, &stop, |progress| eprintln!("{progress}"))?.with_verdict();
    match arguments.json {
        true => println!("{:#}", serde_json::json!(comparison)),
        false => print!("{}", comparison.to_text()),
    }
    Ok(comparison.exit())
}

fn program_arguments(arguments: &CompareArguments) -> Result<Vec<String>, Failure> {
    if !arguments.arguments.is_empty() {
        return remove_json_options(&arguments.arguments);
    }
    let mut words = vec!["run"];
    match arguments.by {
        Quantity::Time => words.extend(["--rounds", "1"]),
        Quantity::Instructions => words.push("--instructions"),
    }
    let workloads = arguments.workload.join(",");
    words.extend(["--workload", &workloads]);
    Ok(words.into_iter().map(str::to_owned).collect())
}
