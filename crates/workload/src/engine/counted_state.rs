//! Counts the jobs by the hosts that their next completions can change.

use super::{Job, JobRunner, Workload};
use crate::completion_scope::CompletionScope;

/// Largest number of jobs that [`Workload::no_step_ends`] examines.
const STEPS_EXAMINED_MAX: usize = 16;

/// What a job can do after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedState {
    /// The job has ended or is stopped.
    Ended,
    /// See [`CompletionScope`].
    Running(CompletionScope),
}

impl CountedState {
    pub(super) const COUNT: usize = 4;

    pub(super) fn index(self) -> usize {
        match self {
            CountedState::Ended => 0,
            CountedState::Running(CompletionScope::AllHosts) => 1,
            CountedState::Running(CompletionScope::CompletingHost) => 2,
            CountedState::Running(CompletionScope::CompletingHostUntilStepEnds) => 3,
        }
    }
}

impl Job {
    /// Returns what the job can do after the next completions.
    pub(super) fn state(&self) -> CountedState {
        if self.stopped || self.is_over() {
            return CountedState::Ended;
        }
        CountedState::Running(match &self.runner {
            JobRunner::List(list) => list.completion_scope(),
            JobRunner::Bulk(bulk) => bulk.completion_scope(),
        })
    }
}

impl Workload {
    /// Returns which hosts the next completions can change. If all jobs have ended, the result is
    /// [`CompletionScope::AllHosts`]: the driver must then see when no message is left ([`Workload::is_finished`]).
    pub fn completion_scope(&self) -> CompletionScope {
        let count = |scope| self.jobs_by_state[CountedState::Running(scope).index()];
        let until_step_ends = count(CompletionScope::CompletingHostUntilStepEnds);
        if count(CompletionScope::AllHosts) > 0 || until_step_ends > STEPS_EXAMINED_MAX {
            CompletionScope::AllHosts
        } else if until_step_ends > 0 {
            CompletionScope::CompletingHostUntilStepEnds
        } else if count(CompletionScope::CompletingHost) > 0 {
            CompletionScope::CompletingHost
        } else {
            CompletionScope::AllHosts
        }
    }

    /// Returns whether no iteration of a job ends within some time. Called with
    /// [`CompletionScope::CompletingHostUntilStepEnds`]. `misses_messages` returns whether a host certainly receives
    /// fewer than a number of messages within this time, or `None` if the caller does not know the host. The method
    /// asks for a few known hosts of each job at most. `false` means that the end of an iteration is possible. Callers
    /// that know different hosts have different numbers `caller`, from 0.
    pub fn no_step_ends(
        &mut self,
        caller: usize,
        mut misses_messages: impl FnMut(u32, u64) -> Option<bool>,
    ) -> bool {
        let until_step_ends = CountedState::Running(CompletionScope::CompletingHostUntilStepEnds);
        let mut jobs = self.jobs.iter_mut().filter(|job| job.counted == until_step_ends);
        jobs.all(|job| match &mut job.runner {
            JobRunner::List(_) => false,
            JobRunner::Bulk(bulk) => bulk.iteration_continues(caller, &mut misses_messages),
        })
    }

    /// Counts a job by its state. Called after each change of the job.
    #[inline]
    pub(super) fn count_job(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        let state = job.state();
        let before = std::mem::replace(&mut job.counted, state);
        if before != state {
            self.jobs_by_state[before.index()] -= 1;
            self.jobs_by_state[state.index()] += 1;
        }
    }
}
