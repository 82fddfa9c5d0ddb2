//! `xoff bench core`: what a frame costs the switch, in time and in instructions.

use std::path::PathBuf;

use clap::Args;

use super::super::{output, signals};
use super::ResultArguments;
use xoff_measure::core::{GROWTH_PERCENT, Record, Workload, chosen, count, measure, sample, work, workloads};
use xoff_measure::result::BenchResult;
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::simple_table;

/// `xoff bench core`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchCore {
    /// What is put through the switch; several with commas; `default` is all but the largest, `all` is all
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "default"
    )]
    pub workload: Vec<String>,
    /// A switch of this configuration (config_db.json) instead: every port sends to the next one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "lab"])]
    pub config: Option<PathBuf>,
    /// A lab in virtual time instead
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub lab: Option<PathBuf>,
    /// Print the workloads there are
    #[arg(long)]
    pub list: bool,
    /// Samples of each workload, each a process of its own
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,
    /// Count instructions instead of nanoseconds; valgrind does it
    #[arg(long)]
    pub instructions: bool,
    /// Hold the instructions against this record: none may have grown by more than 3 %
    #[arg(long, value_name = "FILE", requires = "instructions")]
    pub record: Option<PathBuf>,
    /// Write the instructions into the record instead
    #[arg(long, requires = "record")]
    pub write: bool,
    /// Put so many frames through once, measure nothing, print how many it were: for profilers
    #[arg(long, value_name = "N", conflicts_with = "instructions", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub frames: Option<u64>,
    /// Print one sample of one workload
    #[arg(long, hide = true)]
    pub sample: bool,
    /// How the result is given.
    #[command(flatten)]
    pub result: ResultArguments,
}

pub(super) const HELP: &str = "\
Frames go round through a switch in memory, without ports: parse, classify, route, admit, queue, schedule,
mark, count. A figure is processor time a frame (`fabric`: a frame-hop in virtual time) in nanoseconds;
a sample is a process of its own, since where its memory lies changes what a program takes.

Instructions (--instructions) are the same on a busy machine and in every run. benches/instructions.json has
those of this repository, for a release build and for one of `cargo build`.

Exit codes: 0 measured, 1 a count has grown by more than 3 % or a load lost frames, 2 usage, 3 no valgrind,
4 the record is none or a configuration or lab is wrong, 5 the machine was disturbed while time was measured.

Examples:
  xoff bench core
  xoff bench core --workload ecmp,ecmp-large --rounds 30 --save before.json
  xoff bench core --instructions --record benches/instructions.json
  xoff bench core --instructions --record benches/instructions.json --write
  perf record -g xoff bench core --workload ecmp --frames 10000000";

pub(super) fn run(options: &BenchCore) -> Result<Exit, Failure> {
    if options.list {
        return list();
    }
    options.result.check()?;
    let loads = match (&options.config, &options.lab) {
        (Some(path), _) => vec![Workload::config(path)],
        (_, Some(path)) => vec![Workload::lab(path)],
        _ => chosen(&options.workload)?,
    };
    if options.sample {
        let nanos = sample(&mut *one(&loads)?.build()?)?;
        output::print(&format!("{nanos}\n"))?;
        return Ok(Exit::Ok);
    }
    if let Some(frames) = options.frames {
        output::print(&format!("{}\n", work(one(&loads)?, frames)?))?;
        return Ok(Exit::Ok);
    }
    if options.config.is_some() || options.lab.is_some() {
        // A mistake in a file is told at once and by itself, not as that of the process of a sample.
        one(&loads)?.build()?;
    }
    let stop = signals::watch()?;
    if !options.instructions {
        let result = measure(&loads, options.rounds.into(), &stop, output::note)?;
        return options.result.give(&result);
    }
    let result = count(&loads, &stop, output::note)?;
    let exit = options.result.give(&result)?;
    match &options.record {
        Some(path) => recorded(options, path, &result),
        None => Ok(exit),
    }
}

/// Profilers and samples are of one workload.
fn one(loads: &[Workload]) -> Result<&Workload, Failure> {
    match loads {
        [load] => Ok(load),
        _ => Err(Failure::usage("frames are put through one workload")
            .at("--workload")
            .fix("give one name, such as --workload ecmp; --list has all of them")),
    }
}

fn list() -> Result<Exit, Failure> {
    let row = |load: Workload| vec![load.name, load.per.to_owned(), load.about];
    let rows = workloads().into_iter().map(row).collect();
    output::print(&simple_table(&["Workload", "Per", "What"], 3, rows))?;
    Ok(Exit::Ok)
}

fn recorded(options: &BenchCore, path: &std::path::Path, result: &BenchResult) -> Result<Exit, Failure> {
    if options.write {
        let mut record = match path.exists() {
            true => Record::read(path)?,
            false => Record::new(),
        };
        record.take(result);
        record.write(path)?;
        output::note(&format!("{}: {} counts", path.display(), result.figures.len()));
        return Ok(Exit::Ok);
    }
    let complete = options.workload == ["default"];
    let (wrong, shrunk) = Record::read(path)?.check(result, complete);
    for line in &shrunk {
        output::note(&format!("less than recorded, record it to keep it: {line}"));
    }
    if wrong.is_empty() {
        let count = result.figures.len();
        output::note(&format!(
            "{count} counts within {GROWTH_PERCENT} % of {}",
            path.display()
        ));
        return Ok(Exit::Ok);
    }
    Err(Failure::new(Exit::CheckFailed, wrong.join("\n"))
        .at(format!("--record {}", path.display()))
        .because(format!(
            "more than {GROWTH_PERCENT} % above the record, or not in it"
        ))
        .fix("find what costs them, or record them with a word in the commit: the same command with --write"))
}
