//! The mode of the runs of a comparison: virtual time or real time.

use super::super::commands::run_and_report;
use super::super::options::LabOptions;
use super::super::plan::{LabPlan, TimeMode};
use super::super::virtual_run::{FinishedRun, VirtualRunArgs, run_to_end};
use crate::plot::RunTimeline;
use crate::report::Report;
use xoff_telemetry::failure::Failure;

/// The mode of the runs of a comparison.
#[derive(Clone, Debug)]
pub enum RunMode {
    /// Runs in virtual time. Several runs can execute at the same time.
    Virtual {
        /// Arguments of each run. The comparison ignores the seed, the field values and the output files in
        /// these arguments.
        run: Box<VirtualRunArgs>,
        /// Number of runs that execute at the same time. `None` means the number of CPUs that the
        /// process may use.
        jobs: Option<usize>,
    },
    /// Runs in real time, one after the other. The comparison ignores the seed and the report file
    /// in these options.
    RealTime(Box<LabOptions>),
}

impl RunMode {
    pub(super) fn time_mode(&self) -> TimeMode {
        match self {
            RunMode::Virtual { .. } => TimeMode::Virtual,
            RunMode::RealTime(_) => TimeMode::RealTime,
        }
    }

    /// Returns the number of runs at the same time.
    pub fn parallel_runs(&self) -> usize {
        match self {
            RunMode::Virtual { jobs, .. } => {
                jobs.unwrap_or_else(|| xoff_telemetry::allowed_cpus().len().max(1))
            }
            RunMode::RealTime(_) => 1,
        }
    }

    /// Runs a plan with a seed and returns the report. In virtual time with `records_timeline`, it also
    /// returns the timeline.
    ///
    /// # Errors
    /// Fails if the lab cannot be set up.
    pub fn run(
        &self,
        plan: LabPlan,
        seed: u64,
        records_timeline: bool,
    ) -> Result<(Report, Option<RunTimeline>), Failure> {
        match self {
            RunMode::Virtual { run, .. } => {
                let arguments = VirtualRunArgs {
                    file: run.file.clone(),
                    seed,
                    until: run.until,
                    events_max: run.events_max,
                    quiet: true,
                    records_timeline,
                    ..VirtualRunArgs::default()
                };
                let FinishedRun { report, timeline, .. } = run_to_end(plan, &arguments)?;
                Ok((report, timeline))
            }
            RunMode::RealTime(options) => {
                let options = LabOptions {
                    seed,
                    ..(**options).clone()
                };
                Ok((run_and_report(plan, &options)?, None))
            }
        }
    }
}
