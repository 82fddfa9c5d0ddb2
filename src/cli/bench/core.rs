//! `xoff bench core`: processor time or instructions of a switch for each frame.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};

use super::super::{output, signals};
use super::ResultArguments;
use xoff_measure::frame_cost::{
    Workload, count_instructions, measure_frame_ns, measure_time, run_workload_once,
};
use xoff_telemetry::failure::{Exit, Failure};
use xoff_telemetry::{InputLimit, reopenable_path};

/// `xoff bench core`
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("subject").args(["config", "lab"]).required(true))]
pub(crate) struct CoreBenchArguments {
    /// Configuration (config_db.json) of the switch. Each port sends to the next port
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Lab file. The lab runs in virtual time
    #[arg(long, value_name = "FILE")]
    pub lab: Option<PathBuf>,
    /// Number of samples. Each sample is a separate process
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,
    /// Count instructions with valgrind instead of measuring time
    #[arg(long)]
    pub instructions: bool,
    /// Send this number of frames without a measurement, for use with a profiler
    #[arg(long, value_name = "N", conflicts_with = "instructions", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub frames: Option<u64>,
    /// Print one sample
    #[arg(long, hide = true)]
    pub sample: bool,
    /// Output of the result.
    #[command(flatten)]
    pub result: ResultArguments,
}

pub(super) const HELP: &str = "\
Frames circulate through the switch in memory, without network devices. The switch parses, classifies, routes,
admits, queues, schedules, marks and counts each frame. The figure is the processor time of one frame in nanoseconds.
For a lab, the figure is the time of one frame over one link. Each sample is a separate process, because the memory
layout of a process changes its speed.

Instruction counts (--instructions) are equal in every run, also on a busy machine. The tool core-bench has built-in
workloads with recorded counts (benches/README.md).

Exit codes: 0 measured, 1 frames were lost, 2 usage, 3 valgrind is missing, 4 the configuration or lab is invalid,
5 other programs disturbed the measurement of time.

Examples:
  xoff bench core --config config_db.json
  xoff bench core --config config_db.json --rounds 30 --save before.json
  xoff bench core --lab fabric.xoff.yml --instructions
  perf record -g xoff bench core --config config_db.json --frames 10000000";

pub(super) fn run(options: &CoreBenchArguments) -> Result<Exit, Failure> {
    options.result.check()?;
    let workload = match (&options.config, &options.lab) {
        (Some(path), _) => Workload::of_configuration(&input_path(path, InputLimit::CONFIGURATION)?),
        (None, Some(path)) => Workload::of_lab(&input_path(path, InputLimit::LAB)?),
        (None, None) => unreachable!("clap requires one of both"),
    };
    if let Some(frames) = options.frames {
        output::print(&format!("{}\n", run_workload_once(&workload, frames)?));
        return Ok(Exit::Ok);
    }
    // This reports an invalid file before a process is started for each sample.
    let mut built = workload.build()?;
    if options.sample {
        output::print(&format!("{}\n", measure_frame_ns(&mut *built)?));
        return Ok(Exit::Ok);
    }
    drop(built);
    let stop = signals::watch_stop_signals()?;
    let workloads = [workload];
    let result = match options.instructions {
        true => count_instructions(&workloads, &stop, output::print_note)?,
        false => measure_time(&workloads, options.rounds.into(), &stop, output::print_note)?,
    };
    options.result.print_and_save(&result)
}

/// Returns the path of an input for the processes of the samples. A regular file keeps its path, which is part of
/// the result. The content of a pipe is stored.
fn input_path(path: &Path, limit: InputLimit) -> Result<PathBuf, Failure> {
    if path.is_file() {
        return Ok(path.to_owned());
    }
    reopenable_path(path, limit).map_err(|error| {
        Failure::configuration("the file cannot be read")
            .at(path.display().to_string())
            .because(error)
            .fix("give a readable config_db.json or lab file")
    })
}
