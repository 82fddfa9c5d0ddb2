//! What an accelerated run has skipped.

use std::collections::BTreeMap;

use xoff_dataplane::Picos;

/// The skipped steps of a run, and an estimate of the error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccelerationSummary {
    /// Model time of all skipped steps.
    pub skipped_time: Picos,
    /// Number of skips.
    pub skips: u64,
    /// One entry for each job, in the order of the workload.
    pub jobs: Vec<JobSkips>,
    /// Number of windows after which no step was skipped, by reason.
    pub rejected_windows: BTreeMap<&'static str, u64>,
}

/// The skipped steps of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobSkips {
    /// Number of skipped steps.
    pub skipped_steps: u64,
    /// Largest relative difference between the time of a step after a skip and before it. It is an estimate of the
    /// error of the skipped time and no bound. `None`: no step was simulated after a skip.
    pub step_time_error: Option<f64>,
}

impl AccelerationSummary {
    pub(super) fn new(job_count: usize) -> AccelerationSummary {
        AccelerationSummary {
            jobs: vec![JobSkips::default(); job_count],
            ..AccelerationSummary::default()
        }
    }

    pub(super) fn add_skip(&mut self, job: usize, steps: u64) {
        self.jobs[job].skipped_steps += steps;
    }

    pub(super) fn add_skipped_time(&mut self, duration: Picos) {
        self.skips += 1;
        self.skipped_time = self.skipped_time.saturating_add(duration);
    }

    pub(super) fn count_rejected_window(&mut self, reason: &'static str) {
        *self.rejected_windows.entry(reason).or_default() += 1;
    }

    pub(super) fn record_step_error(&mut self, job: usize, error: f64) {
        let largest = &mut self.jobs[job].step_time_error;
        *largest = Some(largest.map_or(error, |largest| largest.max(error)));
    }
}
