//! `core-bench run`: processor time or instructions per frame of built-in workloads.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use core_bench::{GROWTH_MAX_PERCENT, InstructionRecord, RINGS, select_workloads};
use xoff_measure::frame_cost::{
    Workload, count_instructions, measure_frame_ns, measure_time, run_workload_once,
};
use xoff_measure::result::{BenchResult, ResultFormat};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::write_result_file;

/// Largest difference between the instructions of a frame-hop in fabrics of different sizes.
const COST_BY_SIZE_MAX_PERCENT: f64 = 10.0;

/// `core-bench run`
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Workloads, separated by commas. `all` means all workloads, and `default` all workloads without a
    /// long set-up
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "default"
    )]
    workload: Vec<String>,
    /// Samples of each workload; each sample is a separate process
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// Count instructions with valgrind instead of measuring time
    #[arg(long)]
    instructions: bool,
    /// Compare the instruction counts with the counts in this file. Growth of more than 3 % is an error
    #[arg(long, value_name = "FILE", requires = "instructions")]
    record: Option<PathBuf>,
    /// Write the instruction counts to the file of --record instead
    #[arg(long, requires = "record")]
    write: bool,
    /// Send this number of frames without a measurement, for use with a profiler
    #[arg(long, value_name = "N", conflicts_with = "instructions", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    frames: Option<u64>,
    /// Print one sample of one workload
    #[arg(long, hide = true)]
    sample: bool,
    /// Print the result as JSON (docs/bench.md)
    #[arg(long)]
    json: bool,
    /// Also save the result as JSON; `xoff bench compare` reads it
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

pub(crate) const HELP: &str = "\
Frames circulate through a switch in memory, without ports: parse, classify, route, admit, queue, schedule,
mark, count. A figure is the processor time of one frame in nanoseconds (`fabric`: of one frame over one link).
Each sample is a separate process, because the memory layout of a process changes its speed.

Instruction counts (--instructions) are equal in every run, also on a busy machine. benches/instructions.json
holds the counts of this repository for a release build and for a dev build.

Exit codes: 0 measured, 1 a count has grown by more than 3 % or frames were lost, 2 usage, 3 valgrind is missing,
4 the record is invalid, 5 other programs disturbed the measurement of time.

Examples:
  core-bench run
  core-bench run --workload ecmp,ecmp-large --rounds 30 --save before.json
  core-bench run --instructions --record benches/instructions.json
  core-bench run --instructions --record benches/instructions.json --write
  perf record -g core-bench run --workload ecmp --frames 10000000";

pub(crate) fn run(arguments: &RunArguments) -> Result<Exit, Failure> {
    let workloads = select_workloads(&arguments.workload)?;
    if arguments.sample {
        let nanoseconds = measure_frame_ns(&mut *single(&workloads)?.build()?)?;
        println!("{nanoseconds}");
        return Ok(Exit::Ok);
    }
    if let Some(frames) = arguments.frames {
        println!("{}", run_workload_once(single(&workloads)?, frames)?);
        return Ok(Exit::Ok);
    }
    // The terminal sends SIGINT to all processes of a measurement, so the default handler is sufficient.
    let stop = AtomicBool::new(false);
    let result = match arguments.instructions {
        true => count_instructions(&workloads, &stop, |progress| eprintln!("{progress}"))?,
        false => measure_time(&workloads, arguments.rounds.into(), &stop, |progress| {
            eprintln!("{progress}")
        })?,
    };
    let form = if arguments.json {
        ResultFormat::Json
    } else {
        ResultFormat::Table
    };
    print!("{}", result.to_text(form));
    if let Some(path) = &arguments.save {
        write_result_file("--save", path, &result.to_text(ResultFormat::Json))?;
    }
    if arguments.instructions && !arguments.write {
        check_cost_by_size(&result)?;
    }
    match &arguments.record {
        Some(path) if arguments.write => write_record(path, &result),
        Some(path) => check_record(path, &result, arguments.workload == ["default"]),
        None => Ok(result.exit()),
    }
}

/// Returns the only workload. `--frames` and `--sample` need exactly one workload.
fn single(workloads: &[Workload]) -> Result<&Workload, Failure> {
    match workloads {
        [workload] => Ok(workload),
        _ => Err(Failure::usage("--frames and --sample need exactly one workload")
            .at("--workload")
            .fix("give one name, such as --workload ecmp; `core-bench list` prints all names")),
    }
}

/// Checks that a frame-hop costs the same in a small and in a large fabric ([`RINGS`]).
///
/// # Errors
/// The largest count exceeds the smallest one by more than [`COST_BY_SIZE_MAX_PERCENT`].
fn check_cost_by_size(result: &BenchResult) -> Result<(), Failure> {
    let count = |name: &str| {
        let figure = result.figure(&format!("{name}/instructions"))?;
        Some((name.to_owned(), figure.spread().median))
    };
    let mut counts: Vec<(String, f64)> = RINGS.iter().filter_map(|(name, _)| count(name)).collect();
    counts.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(least), Some(most)) = (counts.first(), counts.last()) else {
        return Ok(());
    };
    let growth = (most.1 / least.1 - 1.0) * 100.0;
    if growth <= COST_BY_SIZE_MAX_PERCENT {
        return Ok(());
    }
    let what = format!(
        "a frame-hop needs {:.0} instructions in {}, and {:.0} in {}",
        least.1, least.0, most.1, most.0
    );
    Err(Failure::new(Exit::CheckFailed, what)
        .because(format!(
            "{growth:.1} % more, at most {COST_BY_SIZE_MAX_PERCENT} % are allowed: some work per event grows with the fabric"
        ))
        .fix("compare both workloads in a profile: `perf record -g core-bench run --workload NAME --frames 1000000`"))
}

fn write_record(path: &Path, result: &BenchResult) -> Result<Exit, Failure> {
    let mut record = match path.exists() {
        true => InstructionRecord::read(path)?,
        false => InstructionRecord::new(),
    };
    record.update(result);
    record.write(path)?;
    eprintln!("{}: {} counts written", path.display(), result.figures.len());
    Ok(Exit::Ok)
}

/// Compares the counts with a record. If `is_complete` is true, a recorded workload without a count is
/// an error.
fn check_record(path: &Path, result: &BenchResult, is_complete: bool) -> Result<Exit, Failure> {
    let (grown, reduced) = InstructionRecord::read(path)?.check(result, is_complete);
    for line in &reduced {
        eprintln!("below the record; write it again to keep the gain: {line}");
    }
    if grown.is_empty() {
        let count = result.figures.len();
        eprintln!(
            "{count} counts within {GROWTH_MAX_PERCENT} % of {}",
            path.display()
        );
        return Ok(Exit::Ok);
    }
    Err(Failure::new(Exit::CheckFailed, grown.join("\n"))
        .at(format!("--record {}", path.display()))
        .because(format!(
            "more than {GROWTH_MAX_PERCENT} % above the record, or missing from it"
        ))
        .fix("find the cause, or repeat the command with --write and give the reason in the commit message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use xoff_measure::result::{BenchFigure, ImprovementDirection};

    #[test]
    fn a_cost_that_grows_with_the_fabric_is_an_error() {
        let check = |counts: &[(&str, f64)]| {
            let mut result = BenchResult::new("core", "x", 1);
            let figure = |&(name, count): &(&str, f64)| {
                let name = format!("{name}/instructions");
                BenchFigure::new(name, "instructions", ImprovementDirection::Smaller, vec![count])
            };
            result.figures = counts.iter().map(figure).collect();
            check_cost_by_size(&result)
        };
        assert_eq!(check(&[("ecmp", 100.0), ("fabric-k6", 1000.0)]), Ok(()));
        assert_eq!(check(&[("fabric-k6", 1000.0), ("fabric-k12", 1099.0)]), Ok(()));
        let failure = check(&[
            ("fabric-k6", 1000.0),
            ("fabric-k12", 1050.0),
            ("fabric-k24", 1101.0),
        ]);
        let failure = failure.expect_err("10.1 % more");
        assert_eq!(
            failure.what,
            "a frame-hop needs 1000 instructions in fabric-k6, and 1101 in fabric-k24"
        );
    }
}
