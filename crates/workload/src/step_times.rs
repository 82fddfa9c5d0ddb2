//! Times at which the steps of a job were complete. They show whether the steps repeat with the same duration.

use std::collections::VecDeque;

use xoff_units::Picos;

/// Largest number of steps of a window ([`StepTimes::window`]).
pub(super) const WINDOW_STEPS_MAX: u64 = 256;
/// Number of complete steps that are stored: two windows, and the step before them.
const COMPLETE_STEPS_STORED: u64 = 2 * WINDOW_STEPS_MAX + 1;

/// Times of one step.
#[derive(Clone, Copy, Debug, Default)]
struct StepTime {
    /// Sum of the times at which the parts have completed the step, in picoseconds.
    sum_ps: u128,
    completed_parts: u32,
    latency_sum_ps: u128,
    latency_max_ps: u64,
}

/// Several steps of a job ([`Workload::step_window`](crate::Workload::step_window)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepWindow {
    /// Number of steps, at least 1.
    pub steps: u64,
    /// Duration of the steps, as the mean over all parts of the job.
    pub duration: Picos,
    /// Sum of the latencies of all messages, in picoseconds.
    pub latency_sum_ps: u128,
    /// Largest latency of a message.
    pub latency_max: Picos,
}

/// Times of the latest steps of a job. The parts of a job, such as the edges of a ring, complete a step at different
/// times. The mean over all parts hardly changes from step to step when the job is steady, even if a single part is
/// faster in one step and slower in the next.
///
/// Each part completes its steps in order. The results do not depend on the order in which different parts report.
#[derive(Clone, Debug)]
pub(super) struct StepTimes {
    parts: u32,
    /// Number of the first stored step.
    first: u64,
    /// The first entries are complete, in the order of the steps.
    steps: VecDeque<StepTime>,
    /// Number of stored steps that all parts have completed.
    complete: u64,
}

impl StepTimes {
    /// Creates the times of a job of `parts` parts, at least 1.
    pub(super) fn new(parts: u32) -> StepTimes {
        StepTimes {
            parts,
            first: 0,
            steps: VecDeque::new(),
            complete: 0,
        }
    }

    /// Removes all times. The next step that each part completes has the number `first`.
    pub(super) fn restart(&mut self, first: u64) {
        self.steps.clear();
        (self.first, self.complete) = (first, 0);
    }

    /// Records that a part has completed a step.
    pub(super) fn record(&mut self, step: u64, at: Picos) {
        let parts = self.parts;
        let Some(entry) = self.entry(step) else {
            return;
        };
        entry.sum_ps += u128::from(at.0);
        entry.completed_parts += 1;
        if entry.completed_parts != parts {
            return;
        }
        self.complete += 1;
        if self.complete > COMPLETE_STEPS_STORED {
            self.steps.pop_front();
            self.first += 1;
            self.complete -= 1;
        }
    }

    /// Records the latency of a message of a step. The step must not be complete.
    pub(super) fn record_latency(&mut self, step: u64, latency: Picos) {
        if let Some(entry) = self.entry(step) {
            entry.latency_sum_ps += u128::from(latency.0);
            entry.latency_max_ps = entry.latency_max_ps.max(latency.0);
        }
    }

    /// Returns the times of a step. Returns `None` if the step is not stored any more.
    fn entry(&mut self, step: u64) -> Option<&mut StepTime> {
        let index = step.checked_sub(self.first)? as usize;
        if self.steps.len() <= index {
            self.steps.resize(index + 1, StepTime::default());
        }
        self.steps.get_mut(index)
    }

    /// Adds `steps` to the numbers of all steps.
    pub(super) fn skip(&mut self, steps: u64) {
        self.first += steps;
    }

    /// Returns the number of complete steps that are stored.
    pub(super) fn complete_count(&self) -> u64 {
        self.complete
    }

    /// Returns a window of `steps` steps. The window ends `back` steps before the latest complete step. Returns `None`
    /// if the steps are not stored.
    pub(super) fn window(&self, steps: u64, back: u64) -> Option<StepWindow> {
        let end = self.complete.checked_sub(back + 1)?;
        let begin = end.checked_sub(steps)?;
        let entries = || self.steps.range(begin as usize + 1..=end as usize);
        let sum_ps = self.steps[end as usize].sum_ps - self.steps[begin as usize].sum_ps;
        let latency_max_ps = entries().map(|entry| entry.latency_max_ps).max().unwrap_or(0);
        Some(StepWindow {
            steps,
            duration: Picos((sum_ps / u128::from(self.parts)) as u64),
            latency_sum_ps: entries().map(|entry| entry.latency_sum_ps).sum(),
            latency_max: Picos(latency_max_ps),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(times: &StepTimes, steps: u64, back: u64) -> Option<Picos> {
        times.window(steps, back).map(|window| window.duration)
    }

    #[test]
    fn a_window_is_the_mean_over_all_parts_and_independent_of_the_order_of_reports() {
        let mut times = StepTimes::new(2);
        // Part 0 alternates between 10 and 30 ps, part 1 between 30 and 10 ps.
        let reports = [(0, 10), (1, 40), (2, 50), (3, 80), (0, 30), (1, 40), (2, 70)];
        for (step, at) in reports {
            times.record(step, Picos(at));
        }
        assert_eq!(times.complete_count(), 3, "part 1 has not completed step 3");
        assert_eq!(duration(&times, 1, 0), Some(Picos(20)));
        assert_eq!(duration(&times, 1, 1), Some(Picos(20)));
        assert_eq!(duration(&times, 2, 0), Some(Picos(40)));
        assert_eq!(duration(&times, 3, 0), None);
        assert_eq!(duration(&times, 2, 1), None);
        times.record(3, Picos(80));
        assert_eq!(duration(&times, 3, 0), Some(Picos(60)));
    }

    #[test]
    fn a_window_has_the_latencies_of_its_steps() {
        let mut times = StepTimes::new(1);
        for (step, latency) in [(0, 5), (1, 6), (1, 9), (2, 7)] {
            times.record_latency(step, Picos(latency));
        }
        (0..3).for_each(|step| times.record(step, Picos(10 * step)));
        let window = times.window(2, 0).expect("stored");
        assert_eq!((window.latency_sum_ps, window.latency_max), (22, Picos(9)));
        let window = times.window(1, 0).expect("stored");
        assert_eq!((window.latency_sum_ps, window.latency_max), (7, Picos(7)));
    }

    #[test]
    fn only_the_latest_steps_are_stored_and_skipped_steps_change_their_numbers() {
        let mut times = StepTimes::new(1);
        (0..10_000).for_each(|step| times.record(step, Picos(step * 7)));
        assert_eq!(times.complete_count(), COMPLETE_STEPS_STORED);
        times.skip(500);
        assert_eq!(duration(&times, 1, 0), Some(Picos(7)));
        times.record(10_500, Picos(10_000 * 7));
        assert_eq!(
            duration(&times, WINDOW_STEPS_MAX, 0),
            Some(Picos(7 * WINDOW_STEPS_MAX))
        );
        times.restart(0);
        assert_eq!(duration(&times, 1, 0), None);
    }
}
