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
pub enum ComparisonRunMode {
    /// Virtual time. Several runs can execute at the same time.
    Virtual {
        /// Arguments of each run. The comparison uses only the file, the time limit and the event limit of
        /// these arguments.
        run: Box<VirtualRunArgs>,
        /// Number of runs that execute at the same time, at least 1. `None` means the number of CPUs that the
        /// process may use.
        jobs: Option<usize>,
    },
    /// Real time, one run after the other. The comparison ignores the seed and the report file in
    /// these options.
    RealTime(Box<LabOptions>),
}

impl ComparisonRunMode {
    pub(super) fn time_mode(&self) -> TimeMode {
        match self {
            ComparisonRunMode::Virtual { .. } => TimeMode::Virtual,
            ComparisonRunMode::RealTime(_) => TimeMode::RealTime,
        }
    }

    /// Returns the number of runs that execute at the same time, at least 1. In real time, this is 1.
    pub fn parallel_runs(&self) -> usize {
        match self {
            ComparisonRunMode::Virtual { jobs, .. } => {
                jobs.unwrap_or_else(|| xoff_telemetry::allowed_cpus().len().max(1))
            }
            ComparisonRunMode::RealTime(_) => 1,
        }
    }

    /// Runs a plan with a seed and returns the report. If `records_timeline` is true, a run in virtual time
    /// also returns its timeline (loads, queues and pauses over time).
    ///
    /// # Errors
    /// Fails if the lab cannot be set up. In real time, also fails if the user interrupts the run or the
    /// report is missing.
    pub fn run(
        &self,
        plan: LabPlan,
        seed: u64,
        records_timeline: bool,
    ) -> Result<(Report, Option<RunTimeline>), Failure> {
        match self {
            ComparisonRunMode::Virtual { run, .. } => {
                let arguments = VirtualRunArgs {
                    file: run.file.clone(),
                    seed,
                    until: run.until,
                    events_max: run.events_max,
                    memory: run.memory.divided_by(self.parallel_runs()),
                    quiet: true,
                    records_timeline,
                    ..VirtualRunArgs::default()
                };
                let FinishedRun { report, timeline, .. } = run_to_end(plan, &arguments)?;
                Ok((report, timeline))
            }
            ComparisonRunMode::RealTime(options) => {
                let options = LabOptions {
                    seed,
                    ..(**options).clone()
                };
                Ok((run_and_report(plan, &options)?, None))
            }
        }
    }
}
