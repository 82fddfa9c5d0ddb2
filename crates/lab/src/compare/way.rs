//! How one run of a comparison is made.

use super::super::options::LabOptions;
use super::super::plan::{LabPlan, TimeMode};
use super::super::run::measure;
use super::super::virtual_run::{Played, VirtualRunArgs, play};
use crate::plot::Watched;
use crate::report::Report;
use xoff_telemetry::failure::Failure;

/// Virtual time, or the wall clock.
#[derive(Clone, Debug)]
pub enum Way {
    /// Events: many runs at once.
    Virtual {
        /// What all runs have; seed, fields and files are not used.
        run: Box<VirtualRunArgs>,
        /// Runs at the same time; `None`: as many as there are cores.
        jobs: Option<usize>,
    },
    /// Namespaces, devices and frames of this machine: one run after the other. Seed and report are not used.
    RealTime(Box<LabOptions>),
}

impl Way {
    pub(super) fn time(&self) -> TimeMode {
        match self {
            Way::Virtual { .. } => TimeMode::Virtual,
            Way::RealTime(_) => TimeMode::RealTime,
        }
    }

    /// Runs at the same time.
    pub fn at_once(&self) -> usize {
        match self {
            Way::Virtual { jobs, .. } => jobs.unwrap_or_else(|| xoff_telemetry::allowed_cpus().len().max(1)),
            Way::RealTime(_) => 1,
        }
    }

    /// One run, and where it is `watched` and can be, what happened over time.
    ///
    /// # Errors
    /// What cannot be set up.
    pub fn run(&self, plan: LabPlan, seed: u64, watched: bool) -> Result<(Report, Option<Watched>), Failure> {
        match self {
            Way::Virtual { run, .. } => {
                let arguments = VirtualRunArgs {
                    file: run.file.clone(),
                    seed,
                    until: run.until,
                    events_max: run.events_max,
                    quiet: true,
                    watched,
                    ..VirtualRunArgs::default()
                };
                let Played { report, watched, .. } = play(plan, &arguments)?;
                Ok((report, watched))
            }
            Way::RealTime(options) => {
                let options = LabOptions {
                    seed,
                    ..(**options).clone()
                };
                Ok((measure(plan, &options)?, None))
            }
        }
    }
}
