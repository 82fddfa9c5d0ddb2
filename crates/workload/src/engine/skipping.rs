//! Skips repeated steps of jobs. The caller decides whether the steps repeat.

use xoff_units::Picos;

use super::{Job, JobRunner, Workload};
use crate::bulk::{BulkJob, StepUnit};
use crate::latency::LatencyHistogram;
use crate::step_times::StepWindow;

/// Counts of a job at one time ([`Workload::mark_steps`]).
#[derive(Clone, Debug)]
pub struct StepMark {
    arrived_transfers: u64,
    latencies: LatencyHistogram,
}

impl Job {
    fn bulk(&self) -> Option<&BulkJob> {
        match &self.runner {
            JobRunner::Bulk(bulk) => Some(bulk),
            JobRunner::List(_) => None,
        }
    }

    fn has_list_messages_in_flight(&self) -> bool {
        match &self.runner {
            JobRunner::Bulk(_) => false,
            JobRunner::List(list) => list.has_messages_in_flight(),
        }
    }

    fn has_ended(&self) -> bool {
        self.stopped || self.is_over()
    }
}

impl Workload {
    /// Forgets the times of all earlier steps. Steps that are running now do not count.
    pub fn restart_steps(&mut self) {
        for job in &mut self.jobs {
            if let JobRunner::Bulk(bulk) = &mut job.runner {
                bulk.restart_steps();
            }
        }
    }

    /// Returns the size of the running iteration of a job, or of its next one, in bytes. Returns 0 if there is none.
    pub fn iteration_bytes(&self, job: usize) -> u64 {
        let bulk = self.jobs.get(job).and_then(Job::bulk);
        bulk.map_or(0, BulkJob::iteration_bytes)
    }

    /// Returns the number of jobs.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Records the times of the steps of all jobs from now on, so that steps can be skipped. Call this method before
    /// [`Workload::start`].
    pub fn record_steps(&mut self) {
        for job in &mut self.jobs {
            if let JobRunner::Bulk(bulk) = &mut job.runner {
                bulk.record_steps();
            }
        }
    }

    /// Returns the jobs that are running, if all of them have recorded steps. Returns `None` if another job is running,
    /// such as a list of flows, or if no job is running. Jobs that start later are not running.
    pub fn jobs_with_steps(&self) -> Option<Vec<usize>> {
        let mut jobs = Vec::new();
        for (index, job) in self.jobs.iter().enumerate() {
            match job.bulk() {
                _ if job.has_ended() => {}
                Some(bulk) if bulk.has_begun() && bulk.step_unit().is_some() => jobs.push(index),
                Some(bulk) if !bulk.has_begun() => {}
                None if !job.has_list_messages_in_flight() => {}
                _ => return None,
            }
        }
        Some(jobs).filter(|jobs| !jobs.is_empty())
    }

    /// Returns the name of a job ([`JobSpec::name`](crate::JobSpec::name)). Returns an empty text if no job has this
    /// index.
    pub fn job_name(&self, job: usize) -> &str {
        self.jobs.get(job).map_or("", |job| &job.spec.name)
    }

    /// Returns the number of steps of a job that were not skipped. A step counts when all its transfers have arrived.
    pub fn simulated_steps(&self, job: usize) -> u64 {
        let bulk = self.jobs.get(job).and_then(Job::bulk);
        bulk.map_or(0, |bulk| {
            bulk.arrived_transfers() / bulk.transfers_per_step().max(1)
        })
    }

    /// Returns the unit of the steps of a job. Returns `None` if its steps are not recorded.
    pub fn step_unit(&self, job: usize) -> Option<StepUnit> {
        self.jobs.get(job)?.bulk()?.step_unit()
    }

    /// Returns the number of steps that all parts of a job have completed, at most the number of stored steps.
    pub fn complete_steps(&self, job: usize) -> u64 {
        let bulk = self.jobs.get(job).and_then(Job::bulk);
        let times = bulk.and_then(BulkJob::step_times);
        times.map_or(0, |times| times.complete_count())
    }

    /// Returns `steps` steps of a job. They end `back` steps before the latest complete step. Returns `None` if the
    /// steps are not stored.
    pub fn step_window(&self, job: usize, steps: u64, back: u64) -> Option<StepWindow> {
        self.jobs.get(job)?.bulk()?.step_times()?.window(steps, back)
    }

    /// Returns the number of messages that jobs without steps have posted and received.
    pub fn messages_without_steps(&self) -> u64 {
        let has_no_steps = |job: &&Job| job.bulk().is_none_or(|bulk| bulk.step_unit().is_none());
        let others = self.jobs.iter().filter(has_no_steps);
        let messages = others.map(|job| job.counts.posted_messages + job.counts.received_messages);
        messages.sum()
    }

    /// Returns the number of steps that a job can skip. Visits all edges of the job.
    pub fn steps_left(&self, job: usize) -> u64 {
        self.jobs
            .get(job)
            .and_then(Job::bulk)
            .map_or(0, BulkJob::steps_left)
    }

    /// Returns the counts of a job at the current time, for [`Workload::skip_steps`].
    pub fn mark_steps(&self, job: usize) -> StepMark {
        let job = &self.jobs[job];
        StepMark {
            arrived_transfers: job.bulk().map_or(0, BulkJob::arrived_transfers),
            latencies: job.counts.latencies.clone(),
        }
    }

    /// Returns the number of steps that a job has made since a mark. One step counts as completed if as many transfers
    /// have arrived as a step has.
    pub fn steps_since(&self, job: usize, mark: &StepMark) -> f64 {
        let Some(bulk) = self.jobs.get(job).and_then(Job::bulk) else {
            return 0.0;
        };
        let arrived = bulk.arrived_transfers() - mark.arrived_transfers;
        arrived as f64 / bulk.transfers_per_step().max(1) as f64
    }

    /// Returns the time of the next timer that is not part of a repeated step, on the clock of the driver: the start of
    /// a job or of a flow. Visits all timers.
    pub fn next_unrepeated_start(&self) -> Picos {
        let timers = self.queues.timers.iter();
        let times = timers
            .filter(|std::cmp::Reverse(entry)| !self.repeats_timers(entry.2 as usize))
            .map(|std::cmp::Reverse(entry)| entry.0);
        times.min().unwrap_or(Picos::NEVER)
    }

    /// Returns the time that skipped steps would have taken.
    pub fn skipped_time(&self) -> Picos {
        self.queues.skipped
    }

    /// Skips steps of jobs, which take the time `skipped`. Each entry of `jobs` contains the index of a job, the number
    /// of steps, and a mark ([`Workload::mark_steps`]). The steps since the mark are the model for the latencies of the
    /// skipped messages. Times of results contain the skipped time from now on. The clock of the driver does not
    /// change: timers of the running steps stay, and other timers are earlier by the skipped time.
    ///
    /// The caller must skip at most [`Workload::steps_left`] steps of each job, and no timer of
    /// [`Workload::next_unrepeated_start`] may lie within the skipped time.
    pub fn skip_steps(&mut self, skipped: Picos, jobs: &[(usize, u64, StepMark)]) {
        for (index, steps, mark) in jobs {
            let modelled = self.steps_since(*index, mark);
            let job = &mut self.jobs[*index];
            let JobRunner::Bulk(bulk) = &mut job.runner else {
                continue;
            };
            if *steps == 0 || modelled <= 0.0 {
                continue;
            }
            job.counts
                .latencies
                .repeat_since(&mark.latencies, *steps as f64 / modelled);
            bulk.skip_steps(
                (*index as u32, *steps),
                skipped,
                &mut job.counts,
                &mut self.queues,
            );
        }
        let repeated: Vec<bool> = (0..self.jobs.len()).map(|job| self.repeats_timers(job)).collect();
        self.queues.change_timers(|at, job, _| {
            if !repeated[job as usize] {
                *at = Picos(at.0.saturating_sub(skipped.0));
            }
        });
        self.queues.skipped = self.queues.skipped.saturating_add(skipped);
    }

    /// Returns a time of results from a time of the driver.
    pub(super) fn recorded_time(&self, now: Picos) -> Picos {
        now.saturating_add(self.queues.skipped)
    }

    /// Returns whether the timers of a job are part of its repeated steps.
    fn repeats_timers(&self, job: usize) -> bool {
        let bulk = self.jobs[job].bulk();
        bulk.is_some_and(|bulk| bulk.has_begun() && bulk.step_unit().is_some())
    }
}
