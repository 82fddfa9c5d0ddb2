//! Times at which the steps of a job were complete. They show whether the steps repeat with the same duration.

use std::collections::VecDeque;

use xoff_units::Picos;

/// Largest number of steps of a window ([`StepTimes::window_duration`]).
pub(super) const WINDOW_STEPS_MAX: u64 = 256;
/// Number of complete steps that are stored: two windows, and the step before them.
const COMPLETE_STEPS_STORED: u64 = 2 * WINDOW_STEPS_MAX + 1;

/// Times of one step.
#[derive(Clone, Copy, Debug, Default)]
struct StepTime {
    /// Sum of the times at which the parts have completed the step, in picoseconds.
    sum_ps: u128,
    completed_parts: u32,
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
        let Some(index) = step.checked_sub(self.first) else {
            return;
        };
        let index = index as usize;
        if self.steps.len() <= index {
            self.steps.resize(index + 1, StepTime::default());
        }
        let entry = &mut self.steps[index];
        entry.sum_ps += u128::from(at.0);
        entry.completed_parts += 1;
        if entry.completed_parts != self.parts {
            return;
        }
        self.complete += 1;
        if self.complete > COMPLETE_STEPS_STORED {
            self.steps.pop_front();
            self.first += 1;
            self.complete -= 1;
        }
    }

    /// Adds `steps` to the numbers of all steps.
    pub(super) fn skip(&mut self, steps: u64) {
        self.first += steps;
    }

    /// Returns the number of complete steps that are stored.
    pub(super) fn complete_count(&self) -> u64 {
        self.complete
    }

    /// Returns the duration of a window of `steps` steps, as the mean over all parts. The window ends `back` steps
    /// before the latest complete step. Returns `None` if the steps are not stored.
    pub(super) fn window_duration(&self, steps: u64, back: u64) -> Option<Picos> {
        let end = self.complete.checked_sub(back + 1)?;
        let begin = end.checked_sub(steps)?;
        let sum_ps = self.steps[end as usize].sum_ps - self.steps[begin as usize].sum_ps;
        Some(Picos((sum_ps / u128::from(self.parts)) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_mean_over_all_parts_and_independent_of_the_order_of_reports() {
        let mut times = StepTimes::new(2);
        // Part 0 alternates between 10 and 30 ps, part 1 between 30 and 10 ps.
        let reports = [(0, 10), (1, 40), (2, 50), (3, 80), (0, 30), (1, 40), (2, 70)];
        for (step, at) in reports {
            times.record(step, Picos(at));
        }
        assert_eq!(times.complete_count(), 3, "part 1 has not completed step 3");
        assert_eq!(times.window_duration(1, 0), Some(Picos(20)));
        assert_eq!(times.window_duration(1, 1), Some(Picos(20)));
        assert_eq!(times.window_duration(2, 0), Some(Picos(40)));
        assert_eq!(times.window_duration(3, 0), None);
        assert_eq!(times.window_duration(2, 1), None);
        times.record(3, Picos(80));
        assert_eq!(times.window_duration(3, 0), Some(Picos(60)));
    }

    #[test]
    fn only_the_latest_steps_are_stored_and_skipped_steps_change_their_numbers() {
        let mut times = StepTimes::new(1);
        (0..10_000).for_each(|step| times.record(step, Picos(step * 7)));
        assert_eq!(times.complete_count(), COMPLETE_STEPS_STORED);
        times.skip(500);
        assert_eq!(times.window_duration(1, 0), Some(Picos(7)));
        times.record(10_500, Picos(10_000 * 7));
        assert_eq!(
            times.window_duration(WINDOW_STEPS_MAX, 0),
            Some(Picos(7 * WINDOW_STEPS_MAX))
        );
        times.restart(0);
        assert_eq!(times.window_duration(1, 0), None);
    }
}
