//! Windows in which all running jobs make a whole number of steps of constant duration.

use xoff_dataplane::Picos;
use xoff_workload::{StepUnit, StepWindow, Workload};

use super::WINDOW_STEPS_MAX;

/// Largest relative error of the completion time of a job, if a change of the step time continued until the end.
const DRIFT_MAX: f64 = 0.002;
/// Largest relative error of latencies, if their change continued until the end.
const LATENCY_DRIFT_MAX: f64 = 0.01;
/// A window of ring steps has at most so many steps at first. An edge of a ring can be a step early or late, which is
/// an error of its counters by one step of the window.
const RING_WINDOW_STEPS: u64 = 8;
/// A window of ring steps has at least one step for each so many remaining steps, up to [`RING_WINDOW_STEPS`].
const RING_STEPS_PER_WINDOW_STEP: u64 = 64;
/// Largest shift of two jobs against each other during a skip, in steps of the faster job.
const PHASE_SHIFT_MAX: f64 = 0.02;

/// A window in which each job makes a whole number of steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SteadyWindow {
    pub(super) duration: Picos,
    /// The running jobs. The first one has the longest steps.
    pub(super) jobs: Vec<SteadyJob>,
    /// Largest difference of the durations of the windows of all jobs, in steps of the fastest job.
    phase_shift: f64,
    /// Whether the compared windows took exactly the same time.
    is_constant: bool,
}

/// A job whose steps take the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SteadyJob {
    pub(super) index: usize,
    /// Number of steps in the window.
    pub(super) window_steps: u64,
}

/// Returns a window after which the latest steps of all running jobs repeated. Returns `None` if there is none.
pub(super) fn find_steady_window(workload: &Workload, running: &[usize]) -> Option<SteadyWindow> {
    let step = |job: &usize| workload.step_window(*job, 1, 0).map(|window| window.duration);
    let steps: Option<Vec<Picos>> = running.iter().map(step).collect();
    let longest = steps?.iter().enumerate().max_by_key(|(_, step)| **step)?.0;
    let mut order = running.to_vec();
    order.swap(0, longest);
    let leader = order[0];
    let mut window_steps = match workload.step_unit(leader)? {
        StepUnit::Iteration => 1,
        StepUnit::RingStep => {
            (workload.steps_left(leader) / RING_STEPS_PER_WINDOW_STEP).clamp(1, RING_WINDOW_STEPS)
        }
    };
    while window_steps <= WINDOW_STEPS_MAX && window_steps < workload.complete_steps(leader) {
        if let Some(window) = combine_windows(workload, &order, window_steps) {
            // The steps of a single job are compared in shorter windows. The observed window confirms them.
            let compared = match order.len() {
                1 => (window_steps / 4).max(1),
                _ => window_steps,
            };
            if let Some(is_constant) = window.is_steady(workload, compared) {
                return Some(SteadyWindow {
                    is_constant,
                    ..window
                });
            }
        }
        window_steps *= 2;
    }
    None
}

/// Returns the window in which the first job of `order` makes `window_steps` steps. Returns `None` if another job does
/// not make a whole number of steps.
fn combine_windows(workload: &Workload, order: &[usize], window_steps: u64) -> Option<SteadyWindow> {
    let duration = workload.step_window(order[0], window_steps, 0)?.duration;
    let mut window = SteadyWindow {
        duration,
        jobs: Vec::new(),
        phase_shift: 0.0,
        is_constant: false,
    };
    for job in order {
        let step_ps = workload.step_window(*job, 1, 0)?.duration.0.max(1);
        let steps = ((duration.0 + step_ps / 2) / step_ps).max(1);
        let own = workload.step_window(*job, steps, 0)?.duration;
        let shift = own.0.abs_diff(duration.0) as f64 / step_ps as f64;
        if shift > PHASE_SHIFT_MAX {
            return None;
        }
        window.phase_shift = window.phase_shift.max(shift);
        window.jobs.push(SteadyJob {
            index: *job,
            window_steps: steps,
        });
    }
    Some(window)
}

impl SteadyWindow {
    /// Returns whether the latest steps took the same time and had the same latencies as those before them.
    /// `Some(true)`: exactly the same time. `compared` is the number of compared steps of the first job.
    fn is_steady(&self, workload: &Workload, compared: u64) -> Option<bool> {
        let mut is_constant = true;
        for job in &self.jobs {
            let steps = match self.jobs.len() {
                1 => compared,
                _ => job.window_steps,
            };
            let latest = workload.step_window(job.index, steps, 0)?;
            let previous = workload.step_window(job.index, steps, steps)?;
            if !is_repeated(&latest, &previous, workload.steps_left(job.index)) {
                return None;
            }
            is_constant &= latest.duration == previous.duration;
        }
        Some(is_constant)
    }

    /// Returns the window with the latest duration, if the steps during the observed window repeated those before it.
    pub(super) fn confirm(&self, workload: &Workload) -> Option<SteadyWindow> {
        let order: Vec<usize> = self.jobs.iter().map(|job| job.index).collect();
        let window = combine_windows(workload, &order, self.jobs[0].window_steps)?;
        let mut is_constant = true;
        for job in &window.jobs {
            let stored = workload
                .complete_steps(job.index)
                .checked_sub(job.window_steps + 1)?;
            let before = stored.min(job.window_steps);
            if before == 0 {
                return None;
            }
            let latest = workload.step_window(job.index, job.window_steps, 0)?;
            let previous = workload.step_window(job.index, before, job.window_steps)?;
            if !is_repeated(&latest, &previous, workload.steps_left(job.index)) {
                return None;
            }
            is_constant &= step_change(&latest, &previous) == 0.0;
        }
        Some(SteadyWindow {
            is_constant,
            ..window
        })
    }

    /// Returns the number of windows that all jobs can skip within the time `limit`.
    pub(super) fn windows_left(&self, workload: &Workload, limit: Picos) -> u64 {
        let of_jobs = self
            .jobs
            .iter()
            .map(|job| workload.steps_left(job.index) / job.window_steps);
        let windows = of_jobs.min().unwrap_or(0);
        let windows = match limit {
            Picos::NEVER => windows,
            // One window before the limit is simulated.
            limit => windows.min((limit.0 / self.duration.0.max(1)).saturating_sub(1)),
        };
        match self.phase_shift > 0.0 {
            true => windows.min((PHASE_SHIFT_MAX / self.phase_shift) as u64),
            false => windows,
        }
    }

    /// Returns the number of windows that are skipped now. After the first skip, one window is left to show its error.
    pub(super) fn skipped_windows(&self, windows_left: u64, is_first: bool) -> u64 {
        match (is_first, self.is_constant) {
            (false, _) => windows_left,
            (true, true) => windows_left.saturating_sub(1),
            (true, false) => windows_left / 2,
        }
    }
}

/// Returns the relative change of the mean step time.
pub(super) fn step_change(latest: &StepWindow, previous: &StepWindow) -> f64 {
    relative_change(
        latest.duration.0 as f64,
        latest.steps,
        previous.duration.0 as f64,
        previous.steps,
    )
}

/// Returns whether a window repeats the window before it so well that `steps_left` steps can be estimated.
fn is_repeated(latest: &StepWindow, previous: &StepWindow, steps_left: u64) -> bool {
    // The middles of both windows are so many steps apart.
    let distance = (latest.steps + previous.steps) as f64 / 2.0;
    let times = steps_left as f64 / distance;
    let sums = [latest, previous].map(|window| window.latency_sum_ps as f64);
    let largest = [latest, previous].map(|window| window.latency_max.0 as f64);
    // The mean step of the rest is in its middle.
    step_change(latest, previous) * times / 2.0 <= DRIFT_MAX
        && relative_change(sums[0], latest.steps, sums[1], previous.steps) * times <= LATENCY_DRIFT_MAX
        && relative_change(largest[0], 1, largest[1], 1) * times <= LATENCY_DRIFT_MAX
}

/// Returns the relative difference of two values per step.
fn relative_change(latest: f64, latest_steps: u64, previous: f64, previous_steps: u64) -> f64 {
    let (latest, previous) = (latest * previous_steps as f64, previous * latest_steps as f64);
    match latest == previous {
        true => 0.0,
        false => (latest - previous).abs() / latest.max(previous),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(steps: u64, duration: u64, latency_max: u64) -> StepWindow {
        StepWindow {
            steps,
            duration: Picos(duration),
            latency_sum_ps: 10 * u128::from(steps),
            latency_max: Picos(latency_max),
        }
    }

    #[test]
    fn a_small_change_matters_if_many_steps_are_left() {
        let (latest, previous) = (window(1, 10_001, 70), window(1, 10_000, 70));
        assert!(is_repeated(&latest, &previous, 30));
        assert!(!is_repeated(&latest, &previous, 1_000));
        assert!(
            is_repeated(&latest, &window(4, 40_004, 70), 1_000),
            "the same step time"
        );
    }

    #[test]
    fn growing_latencies_are_not_steady() {
        assert!(is_repeated(&window(2, 50, 70_000), &window(2, 50, 70_000), 1_000));
        assert!(!is_repeated(
            &window(2, 50, 70_007),
            &window(2, 50, 70_000),
            1_000
        ));
    }

    #[test]
    fn one_window_is_left_after_the_first_skip() {
        let mut steady = SteadyWindow {
            duration: Picos(5),
            jobs: Vec::new(),
            phase_shift: 0.0,
            is_constant: true,
        };
        assert_eq!(
            [true, false].map(|is_first| steady.skipped_windows(10, is_first)),
            [9, 10]
        );
        steady.is_constant = false;
        assert_eq!(
            [true, false].map(|is_first| steady.skipped_windows(10, is_first)),
            [5, 10]
        );
    }
}
