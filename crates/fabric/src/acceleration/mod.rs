//! Acceleration: skips steps of jobs that repeat.
//!
//! The steps of a ring and the iterations of a collective often repeat: they take the same time, and the fabric is in
//! the same state after each of them. [`Acceleration`] simulates some steps, compares them, and then skips the steps
//! that would be equal. A skip changes no state of switches and hosts. It only renumbers the running steps of the jobs,
//! adds the counts of the skipped steps, and moves the clock of the results ([`Fabric::result_time`]). The clock of the
//! fabric does not change, so all timers and rates continue.
//!
//! An attempt has two parts:
//!
//! 1. Two adjacent windows of 1, 2, 4, ... steps take the same time. The time of a step is the mean over all ranks.
//! 2. During a further window, the fabric is observed from start to end: the number of steps, the queues, the rates,
//!    the pauses and the marks.

mod fabric_state;
mod summary;

use xoff_dataplane::Picos;
use xoff_workload::{StepMark, Workload};

use crate::engine::{CongestionEvents, Fabric, FabricCounts};
use crate::jobs::Jobs;
use fabric_state::{FabricState, is_close};
pub use summary::{AccelerationSummary, JobSkips};

/// Largest number of steps of a window.
const WINDOW_STEPS_MAX: u64 = 256;
/// Largest relative error of the completion time of a job, if a change of the step time between two windows continued
/// until the end of the job.
const DRIFT_MAX: f64 = 0.002;
/// Largest relative difference of marks and pauses between two windows.
const COUNT_TOLERANCE: f64 = 0.05;
/// Difference of marks and pauses that is always tolerated.
const COUNT_DIFFERENCE_MAX: f64 = 10.0;
/// Number of windows that are simulated after the first skip.
const FIRST_SKIP_REST_WINDOWS: u64 = 2;
/// Largest standard deviation of the estimated marks or pauses of a skip, relative to their number. The number of
/// random events in a window varies by its square root.
const EVENTS_DEVIATION_MAX: f64 = 0.05;
/// Standard deviation of the estimated marks or pauses of a skip that is always tolerated.
const EVENTS_DEVIATION_TOLERATED: f64 = 8.0;
/// Shortest interval between two looks at the jobs.
const INTERVAL_MIN: Picos = Picos::from_micros(1);

/// Decides when steps repeat, and skips them.
#[derive(Debug)]
pub struct Acceleration {
    phase: Phase,
    /// Time of the next call of [`Acceleration::act`], on the clock of the fabric.
    next_act: Picos,
    /// Time of the first call of [`Acceleration::act`].
    started: Option<Picos>,
    /// Smallest number of steps of the next window. It doubles after a window that was not steady.
    window_steps_min: u64,
    /// Congestion events of each step of the latest window, for the comparison with the next window.
    events_per_step: Option<[f64; 2]>,
    summary: AccelerationSummary,
    /// Time of a step of each job before its latest skip, in picoseconds, and the bytes of its iteration.
    step_before_skip: Vec<Option<(f64, u64)>>,
}

#[derive(Debug)]
enum Phase {
    /// Waits for windows of equal duration.
    Comparing,
    /// Observes a window.
    Observing(Box<Window>),
}

/// A window that is observed.
#[derive(Debug)]
struct Window {
    duration: Picos,
    /// The running jobs.
    jobs: Vec<SteadyJob>,
    /// Index in `jobs` of the job with the longest steps.
    leader: usize,
    counts: FabricCounts,
    state: FabricState,
    marks: Vec<StepMark>,
}

/// A job whose steps take the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SteadyJob {
    index: usize,
    /// Number of steps of a window.
    window_steps: u64,
    /// Mean time of a step in picoseconds.
    step_ps: f64,
    /// Whether the previous window took exactly the same time.
    is_constant: bool,
}

impl Acceleration {
    /// Creates the acceleration of a run. `job_count` is the number of jobs. The steps of the jobs must be recorded
    /// ([`Jobs::record_steps`]).
    pub fn new(job_count: usize) -> Acceleration {
        Acceleration {
            phase: Phase::Comparing,
            next_act: Picos::ZERO,
            started: None,
            window_steps_min: 1,
            events_per_step: None,
            summary: AccelerationSummary::new(job_count),
            step_before_skip: vec![None; job_count],
        }
    }

    /// Returns the steps that were skipped until now, and the estimate of the error.
    pub fn summary(&self) -> &AccelerationSummary {
        &self.summary
    }

    /// Ignores all earlier steps. The caller has restarted the recorded steps of the jobs.
    pub(crate) fn restart(&mut self, now: Picos) {
        self.phase = Phase::Comparing;
        self.next_act = now.saturating_add(INTERVAL_MIN);
        self.window_steps_min = 1;
        self.events_per_step = None;
        self.step_before_skip.fill(None);
    }

    /// Returns the time of the next call of [`Acceleration::act`], on the clock of the fabric.
    pub(crate) fn next_act(&self) -> Picos {
        self.next_act
    }

    /// Looks at the jobs and the fabric, and skips steps if they repeat. Called at [`Acceleration::next_act`]. `until`
    /// is the end of the run on the clock of the fabric, and no skip passes it.
    pub(crate) fn act(&mut self, fabric: &mut Fabric, jobs: &mut Jobs, until: Picos) {
        let now = fabric.now();
        match std::mem::replace(&mut self.phase, Phase::Comparing) {
            Phase::Comparing => self.compare_windows(fabric, jobs.workload(), now),
            Phase::Observing(window) => self.finish_window(window, fabric, jobs, until),
        }
    }

    /// Starts to observe a window if the latest steps of all running jobs took the same time.
    fn compare_windows(&mut self, fabric: &Fabric, workload: &Workload, now: Picos) {
        let elapsed = now.since(*self.started.get_or_insert(now));
        let Some(running) = workload.jobs_with_steps() else {
            self.next_act = now.saturating_add(INTERVAL_MIN.max(Picos(elapsed.0 / 8)));
            return;
        };
        let known = running.iter().filter_map(|job| workload.step_window(*job, 1, 0));
        let interval = known.min().map_or(Picos(elapsed.0 / 8), |step| Picos(step.0 / 2));
        self.next_act = now.saturating_add(interval.max(INTERVAL_MIN));
        let steady = running.iter().map(|job| self.find_steady_window(workload, *job));
        let Some(jobs) = steady.collect::<Option<Vec<SteadyJob>>>() else {
            return;
        };
        let by_step_time = |a: &&SteadyJob, b: &&SteadyJob| a.step_ps.total_cmp(&b.step_ps);
        let Some(leader) = jobs.iter().max_by(by_step_time).copied() else {
            return;
        };
        self.observe(fabric, workload, jobs, leader.index);
    }

    /// Starts to observe a window of the given jobs, at the current time.
    fn observe(&mut self, fabric: &Fabric, workload: &Workload, jobs: Vec<SteadyJob>, leader_job: usize) {
        let Some(leader) = jobs.iter().position(|job| job.index == leader_job) else {
            return;
        };
        let duration = jobs[leader].step_ps * jobs[leader].window_steps as f64;
        let duration = Picos(duration.round() as u64).max(Picos(1));
        self.next_act = fabric.now().saturating_add(duration);
        self.phase = Phase::Observing(Box::new(Window {
            duration,
            marks: jobs.iter().map(|job| workload.mark_steps(job.index)).collect(),
            jobs,
            leader,
            counts: FabricCounts::read(fabric),
            state: FabricState::read(fabric),
        }));
    }

    /// Returns the shortest window of a job that took the same time as the window before it.
    fn find_steady_window(&self, workload: &Workload, job: usize) -> Option<SteadyJob> {
        let complete = workload.complete_steps(job);
        let steps_left = workload.steps_left(job);
        let mut window_steps = self.window_steps_min;
        while 2 * window_steps < complete && 2 * window_steps <= steps_left {
            let latest = workload.step_window(job, window_steps, 0)?;
            let previous = workload.step_window(job, window_steps, window_steps)?;
            if drift(latest, previous, window_steps, steps_left) <= DRIFT_MAX {
                return Some(SteadyJob {
                    index: job,
                    window_steps,
                    step_ps: latest.0 as f64 / window_steps as f64,
                    is_constant: latest == previous,
                });
            }
            window_steps *= 2;
        }
        None
    }

    /// Skips steps after a window if the fabric was steady during the window.
    fn finish_window(&mut self, mut window: Box<Window>, fabric: &mut Fabric, jobs: &mut Jobs, until: Picos) {
        let counts = FabricCounts::read(fabric);
        let state = FabricState::read(fabric);
        let events = counts
            .congestion_events()
            .since(&window.counts.congestion_events());
        self.record_errors(jobs.workload());
        let change = self.find_change(&window, jobs.workload(), &state, events);
        let workload = jobs.workload();
        let running = workload.jobs_with_steps().unwrap_or_default();
        let is_same = running
            .iter()
            .copied()
            .eq(window.jobs.iter().map(|job| job.index));
        if let Some(reason) = change {
            self.window_steps_min = (2 * self.window_steps_min).min(WINDOW_STEPS_MAX);
            self.summary.count_rejected_window(reason);
            self.next_act = fabric.now().saturating_add(INTERVAL_MIN);
            return;
        }
        let steady = window
            .jobs
            .iter()
            .map(|job| self.find_steady_window(workload, job.index));
        let Some(steady) = steady.collect::<Option<Vec<_>>>().filter(|_| is_same) else {
            self.next_act = fabric.now().saturating_add(INTERVAL_MIN);
            return;
        };
        let limit = until.min(workload.next_unrepeated_start()).since(fabric.now());
        if needs_more_events(events, &window, workload) {
            window.extend();
            self.next_act = fabric.now().saturating_add(Picos(window.duration.0 / 2));
            self.phase = Phase::Observing(window);
            return;
        }
        if let Some(skip) = self.plan_skip(&steady, window.leader, workload, limit) {
            let times = skip.duration.0 as f64 / window.duration.0 as f64;
            let entries = steady.iter().zip(&skip.steps).zip(&window.marks);
            let entries: Vec<_> = entries
                .map(|((job, steps), mark)| (job.index, *steps, mark.clone()))
                .collect();
            for (job, steps) in steady.iter().zip(&skip.steps) {
                self.summary.add_skip(job.index, *steps);
                self.step_before_skip[job.index] = Some((job.step_ps, workload.iteration_bytes(job.index)));
            }
            self.summary.add_skipped_time(skip.duration);
            jobs.skip_steps(skip.duration, &entries);
            fabric.add_skip(skip.duration, &counts.repeated_since(&window.counts, times));
        }
        // The steps after the skip show its error, and they are the model for the next skip.
        let leader = steady[window.leader].index;
        self.observe(fabric, jobs.workload(), steady, leader);
    }

    /// Returns the reason why the fabric or a job changed during a window. Returns `None` if both were steady.
    fn find_change(
        &mut self,
        window: &Window,
        workload: &Workload,
        state: &FabricState,
        events: CongestionEvents,
    ) -> Option<&'static str> {
        if events.drops > 0 {
            return Some("frames are lost");
        }
        let leader = &window.jobs[window.leader];
        let made = workload.steps_since(leader.index, &window.marks[window.leader]);
        if (made - leader.window_steps as f64).abs() > 1.0 || made <= 0.0 {
            return Some("steps take longer or shorter");
        }
        let per_step = [events.marks, events.pauses].map(|count| count as f64 / made);
        let previous = self.events_per_step.replace(per_step);
        if let Some(change) = state.change_since(&window.state) {
            return Some(change);
        }
        let is_quiet = events == CongestionEvents::default();
        let same_counts = previous.map_or(is_quiet, |previous| {
            per_step.iter().zip(previous).all(|(count, previous)| {
                let difference = (count - previous).abs() * made;
                is_close(*count, previous, COUNT_TOLERANCE) || difference <= COUNT_DIFFERENCE_MAX
            })
        });
        (!same_counts).then_some("marks or pauses change")
    }

    /// Returns the largest allowed skip. After the first skip, enough steps are left to show its error.
    fn plan_skip(
        &self,
        jobs: &[SteadyJob],
        leader: usize,
        workload: &Workload,
        limit: Picos,
    ) -> Option<PlannedSkip> {
        let of_leader = jobs[leader];
        let is_first = self.step_before_skip[of_leader.index].is_none();
        let mut steps = workload.steps_left(of_leader.index);
        if is_first {
            // With a step time that changes, the first skip is shorter.
            let simulated = FIRST_SKIP_REST_WINDOWS * of_leader.window_steps;
            steps = match of_leader.is_constant {
                true => steps.saturating_sub(simulated),
                false => (steps / 2).min(steps.saturating_sub(simulated)),
            };
        }
        for job in jobs {
            let left = workload.steps_left(job.index) as f64;
            let of_leader = (left * job.step_ps / of_leader.step_ps).floor();
            steps = steps.min(of_leader as u64);
        }
        if limit != Picos::NEVER {
            // One step before the limit is simulated.
            let possible = (limit.0 as f64 / of_leader.step_ps).floor() - 1.0;
            steps = steps.min(possible.max(0.0) as u64);
        }
        let duration = Picos((steps as f64 * of_leader.step_ps).round() as u64);
        let steps_of = |job: &SteadyJob| {
            let steps = (duration.0 as f64 / job.step_ps).round() as u64;
            steps.min(workload.steps_left(job.index))
        };
        (steps > 0).then(|| PlannedSkip {
            duration,
            steps: jobs.iter().map(steps_of).collect(),
        })
    }

    /// Compares the steps after a skip with those before it.
    fn record_errors(&mut self, workload: &Workload) {
        for (job, before) in self.step_before_skip.iter().enumerate() {
            let after = workload.step_window(job, self.window_steps_min, 0);
            if let (Some((before, bytes)), Some(after)) = (before, after)
                && workload.iteration_bytes(job) == *bytes
            {
                let after = after.0 as f64 / self.window_steps_min as f64;
                self.summary
                    .record_step_error(job, (after - before).abs() / before);
            }
        }
    }
}

impl Window {
    /// Doubles the length of the window. It still begins at the same time.
    fn extend(&mut self) {
        self.duration = Picos(2 * self.duration.0);
        self.jobs.iter_mut().for_each(|job| job.window_steps *= 2);
    }
}

/// Returns whether a window has too few marks or pauses to estimate those of a skip, and a longer window is possible.
fn needs_more_events(events: CongestionEvents, window: &Window, workload: &Workload) -> bool {
    let leader = window.jobs[window.leader];
    let steps_left = workload.steps_left(leader.index);
    let is_possible = 2 * leader.window_steps <= WINDOW_STEPS_MAX && 8 * leader.window_steps <= steps_left;
    let times = steps_left as f64 / leader.window_steps as f64;
    let is_uncertain = |count: u64| {
        let estimate = count as f64 * times;
        let deviation = (count as f64).sqrt() * times;
        deviation > (estimate * EVENTS_DEVIATION_MAX).max(EVENTS_DEVIATION_TOLERATED)
    };
    is_possible && [events.marks, events.pauses].into_iter().any(is_uncertain)
}

/// A skip that is possible now.
#[derive(Debug)]
struct PlannedSkip {
    duration: Picos,
    /// Number of steps of each job.
    steps: Vec<u64>,
}

/// Returns the relative error of the completion time if the change between two windows continued for `steps_left`
/// steps.
fn drift(latest: Picos, previous: Picos, window_steps: u64, steps_left: u64) -> f64 {
    let change = latest.0.abs_diff(previous.0) as f64 / latest.0.max(1) as f64;
    // The windows are `window_steps` steps apart, and the mean step is in the middle.
    change / window_steps as f64 * steps_left as f64 / 2.0
}
