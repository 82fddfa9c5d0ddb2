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
//! 1. The latest steps of all running jobs took the same time (`steadiness.rs`). With several jobs, a window is a time
//!    in which each of them makes a whole number of steps.
//! 2. During one window, the fabric is observed from start to end: queues, rates, pauses, marks and lost frames.

mod fabric_state;
mod steadiness;
mod summary;

use xoff_dataplane::Picos;
use xoff_workload::{StepMark, StepWindow, Workload};

use crate::engine::{CongestionEvents, Fabric, FabricCounts};
use crate::jobs::Jobs;
use fabric_state::{FabricState, find_slow_state, is_close};
use steadiness::{SteadyWindow, find_steady_window, step_change};
pub use summary::{AccelerationSummary, JobSkips};

/// Largest number of steps of a window.
const WINDOW_STEPS_MAX: u64 = 256;
/// Largest relative difference of marks and pauses between two windows.
const COUNT_TOLERANCE: f64 = 0.05;
/// Difference of marks and pauses that is always tolerated.
const COUNT_DIFFERENCE_MAX: f64 = 10.0;
/// Largest standard deviation of the estimated marks or pauses of a skip, relative to their number. The number of
/// random events in a window varies by its square root.
const EVENTS_DEVIATION_MAX: f64 = 0.05;
/// Standard deviation of the estimated marks or pauses of a skip that is always tolerated.
const EVENTS_DEVIATION_TOLERATED: f64 = 8.0;
/// Smallest skip, in windows. The observation of a window reads all counters of the fabric.
const SKIPPED_WINDOWS_MIN: u64 = 3;
/// Smallest number of skipped events for each port and host, for the same reason.
const SKIPPED_EVENTS_MIN: usize = 50;
/// After each attempt without a skip, the time to the next attempt doubles, up to 2 to this power windows.
const BACKOFF_MAX: u32 = 10;
/// Shortest interval between two looks at the jobs.
const INTERVAL_MIN: Picos = Picos::from_micros(1);

/// Decides when steps repeat, and skips them.
#[derive(Debug)]
pub struct Acceleration {
    phase: Phase,
    /// Time of the next call of [`Acceleration::act`], on the clock of the fabric.
    next_act: Picos,
    /// Time of the first call of [`Acceleration::act`], and the number of events before. `None` before this call and
    /// after a change.
    started: Option<(Picos, u64)>,
    /// Number of attempts without a skip since the latest skip.
    failed_attempts: u32,
    /// Congestion events of each step of the latest window, for the comparison with the next window.
    events_per_step: Option<[f64; 2]>,
    /// Whether the fabric was checked for state that prevents skips ([`find_slow_state`]).
    has_checked_fabric: bool,
    /// The activity at the previous call of [`Acceleration::act`].
    activity: Option<Activity>,
    summary: AccelerationSummary,
    /// For each job: its window before the latest skip, and the bytes of its iteration.
    window_before_skip: Vec<Option<(StepWindow, u64)>>,
}

/// The jobs that are active. If they change, earlier steps say nothing about later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Activity {
    /// The running jobs ([`Workload::jobs_with_steps`]).
    jobs: Option<Vec<usize>>,
    /// Number of messages of other jobs ([`Workload::messages_without_steps`]).
    other_messages: u64,
}

#[derive(Debug)]
enum Phase {
    /// Waits for windows of equal duration.
    Comparing,
    /// Observes a window.
    Observing(Box<ObservedWindow>),
}

/// A window that is observed.
#[derive(Debug)]
struct ObservedWindow {
    steady: SteadyWindow,
    /// Number of windows that are observed together.
    count: u64,
    counts: FabricCounts,
    state: FabricState,
    /// One entry for each job of `steady`.
    marks: Vec<StepMark>,
}

impl Acceleration {
    /// Creates the acceleration of a run. `job_count` is the number of jobs. The steps of the jobs must be recorded
    /// ([`Jobs::record_steps`]).
    pub fn new(job_count: usize) -> Acceleration {
        Acceleration {
            phase: Phase::Comparing,
            next_act: Picos::ZERO,
            started: None,
            failed_attempts: 0,
            events_per_step: None,
            has_checked_fabric: false,
            activity: None,
            summary: AccelerationSummary::new(job_count),
            window_before_skip: vec![None; job_count],
        }
    }

    /// Returns the steps that were skipped until now, and the estimate of the error.
    pub fn summary(&self) -> &AccelerationSummary {
        &self.summary
    }

    /// Ignores all earlier steps after a change of the fabric. The caller has restarted the recorded steps of the jobs.
    pub(crate) fn restart(&mut self, now: Picos) {
        self.failed_attempts = 0;
        self.has_checked_fabric = false;
        self.forget_steps(now);
    }

    /// Ignores all earlier steps.
    fn forget_steps(&mut self, now: Picos) {
        self.phase = Phase::Comparing;
        self.next_act = now.saturating_add(INTERVAL_MIN);
        self.started = None;
        self.events_per_step = None;
        self.window_before_skip.fill(None);
    }

    /// Returns the time of the next call of [`Acceleration::act`], on the clock of the fabric.
    pub(crate) fn next_act(&self) -> Picos {
        self.next_act
    }

    /// Looks at the jobs and the fabric, and skips steps if they repeat. Called at [`Acceleration::next_act`]. `until`
    /// is the end of the run on the clock of the fabric, and no skip passes it.
    pub(crate) fn act(&mut self, fabric: &mut Fabric, jobs: &mut Jobs, until: Picos) {
        if !std::mem::replace(&mut self.has_checked_fabric, true)
            && let Some(reason) = find_slow_state(fabric)
        {
            self.summary.count_rejected_window(reason);
            // Only a change can allow skips, and it restarts the acceleration.
            self.next_act = Picos::NEVER;
            return;
        }
        let workload = jobs.workload();
        let activity = Activity {
            jobs: workload.jobs_with_steps(),
            other_messages: workload.messages_without_steps(),
        };
        if self.activity.as_ref() != Some(&activity) {
            self.activity = Some(activity);
            if let Phase::Observing(_) = self.phase {
                self.summary
                    .count_rejected_window("jobs start, end or send messages without steps");
            }
            jobs.restart_steps();
            self.forget_steps(fabric.now());
            let wait = INTERVAL_MIN.0 << self.failed_attempts.min(BACKOFF_MAX);
            self.failed_attempts += 1;
            self.next_act = fabric.now().saturating_add(Picos(wait));
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Comparing) {
            Phase::Comparing => self.compare_steps(fabric, jobs.workload(), until),
            Phase::Observing(window) => self.finish_window(window, fabric, jobs, until),
        }
    }

    /// Starts to observe a window if the latest steps of all running jobs took the same time.
    fn compare_steps(&mut self, fabric: &Fabric, workload: &Workload, until: Picos) {
        let now = fabric.now();
        let (started, first_event) = *self.started.get_or_insert((now, fabric.events()));
        let elapsed = now.since(started);
        let Some(running) = workload.jobs_with_steps() else {
            self.next_act = now.saturating_add(INTERVAL_MIN.max(Picos(elapsed.0 / 8)));
            return;
        };
        let known = running.iter().filter_map(|job| workload.step_window(*job, 1, 0));
        let shortest = known.map(|window| window.duration).min();
        let interval = shortest.map_or(Picos(elapsed.0 / 8), |step| Picos(step.0 / 2));
        self.next_act = now.saturating_add(interval.max(INTERVAL_MIN));
        let Some(steady) = find_steady_window(workload, &running) else {
            return;
        };
        let windows = steady.windows_left(workload, limit(fabric, workload, until));
        let rate = (fabric.events() - first_event) as f64 / elapsed.0.max(1) as f64;
        let skipped_events = rate * steady.duration.0 as f64 * windows as f64;
        let observed_nodes = fabric.port_count() + fabric.host_count();
        if windows > SKIPPED_WINDOWS_MIN && skipped_events > (SKIPPED_EVENTS_MIN * observed_nodes) as f64 {
            self.observe(fabric, workload, steady);
        }
    }

    /// Starts to observe a window at the current time.
    fn observe(&mut self, fabric: &Fabric, workload: &Workload, steady: SteadyWindow) {
        self.next_act = fabric.now().saturating_add(steady.duration);
        let marks = steady.jobs.iter().map(|job| workload.mark_steps(job.index));
        self.phase = Phase::Observing(Box::new(ObservedWindow {
            marks: marks.collect(),
            steady,
            count: 1,
            counts: FabricCounts::read(fabric),
            state: FabricState::read(fabric),
        }));
    }

    /// Skips steps after a window if the fabric was steady during the window.
    fn finish_window(
        &mut self,
        mut window: Box<ObservedWindow>,
        fabric: &mut Fabric,
        jobs: &mut Jobs,
        until: Picos,
    ) {
        let counts = FabricCounts::read(fabric);
        let earlier = window.counts.congestion_events();
        let events = counts.congestion_events().since(&earlier);
        let workload = jobs.workload();
        self.record_errors(&window.steady, workload);
        let change = find_change(&window, workload, &FabricState::read(fabric), events);
        let confirm = || {
            let steady = window.steady.confirm(workload);
            steady.ok_or("the time or the latency of steps changes")
        };
        let steady = match change.map_or_else(confirm, Err) {
            Ok(steady) => steady,
            Err(reason) => return self.reject(reason, &window.steady, fabric.now()),
        };
        let windows_left = steady.windows_left(workload, limit(fabric, workload, until));
        if needs_more_events(events, window.count, windows_left) {
            self.next_act = fabric
                .now()
                .saturating_add(Picos(window.count * steady.duration.0));
            window.count *= 2;
            self.phase = Phase::Observing(window);
            return;
        }
        let steps = (window.count * steady.jobs[0].window_steps) as f64;
        let per_step = [events.marks, events.pauses].map(|count| count as f64 / steps);
        let previous = self.events_per_step.replace(per_step);
        if !has_same_events(per_step, previous, events, steps) {
            if previous.is_some() {
                return self.reject("marks or pauses change", &steady, fabric.now());
            }
            return self.observe(fabric, jobs.workload(), steady);
        }
        self.skip(&window, &steady, &counts, windows_left, (fabric, jobs));
        // The steps after the skip show its error, and they are the model for the next skip.
        self.observe(fabric, jobs.workload(), steady);
    }

    /// Skips windows after an observed one, if enough of them are left.
    fn skip(
        &mut self,
        window: &ObservedWindow,
        steady: &SteadyWindow,
        counts: &FabricCounts,
        windows_left: u64,
        (fabric, jobs): (&mut Fabric, &mut Jobs),
    ) {
        let windows = steady.skipped_windows(
            windows_left,
            self.window_before_skip[steady.jobs[0].index].is_none(),
        );
        if windows < SKIPPED_WINDOWS_MIN {
            self.failed_attempts += 1;
            return;
        }
        let duration = Picos(windows * steady.duration.0);
        let workload = jobs.workload();
        let mut entries = Vec::new();
        for (job, mark) in steady.jobs.iter().zip(&window.marks) {
            let steps = windows * job.window_steps;
            self.summary.add_skip(job.index, steps);
            let latest = workload.step_window(job.index, job.window_steps, 0);
            let bytes = workload.iteration_bytes(job.index);
            self.window_before_skip[job.index] = latest.map(|latest| (latest, bytes));
            entries.push((job.index, steps, mark.clone()));
        }
        self.failed_attempts = 0;
        self.summary.add_skipped_time(duration);
        jobs.skip_steps(duration, &entries);
        let times = windows as f64 / window.count as f64;
        fabric.add_skip(duration, &counts.repeated_since(&window.counts, times));
    }

    /// Plans the next attempt after a window that was not steady.
    fn reject(&mut self, reason: &'static str, steady: &SteadyWindow, now: Picos) {
        self.summary.count_rejected_window(reason);
        self.events_per_step = None;
        let wait = steady
            .duration
            .0
            .saturating_mul(1 << self.failed_attempts.min(BACKOFF_MAX));
        self.failed_attempts += 1;
        self.next_act = now.saturating_add(Picos(wait).max(INTERVAL_MIN));
    }

    /// Compares the steps after a skip with those before it.
    fn record_errors(&mut self, steady: &SteadyWindow, workload: &Workload) {
        for job in &steady.jobs {
            let after = workload.step_window(job.index, job.window_steps, 0);
            if let (Some((before, bytes)), Some(after)) = (&self.window_before_skip[job.index], after)
                && workload.iteration_bytes(job.index) == *bytes
            {
                self.summary
                    .record_step_error(job.index, step_change(&after, before));
            }
        }
    }
}

/// Returns the time until which steps can be skipped.
fn limit(fabric: &Fabric, workload: &Workload, until: Picos) -> Picos {
    until.min(workload.next_unrepeated_start()).since(fabric.now())
}

/// Returns the reason why the fabric changed during a window. Returns `None` if it was steady.
fn find_change(
    window: &ObservedWindow,
    workload: &Workload,
    state: &FabricState,
    events: CongestionEvents,
) -> Option<&'static str> {
    if events.drops > 0 {
        return Some("frames are lost");
    }
    for (job, mark) in window.steady.jobs.iter().zip(&window.marks) {
        let made = workload.steps_since(job.index, mark);
        if (made - (window.count * job.window_steps) as f64).abs() > 1.0 {
            return Some("steps take longer or shorter");
        }
    }
    state.change_since(&window.state)
}

/// Returns whether windows have too few marks or pauses to estimate those of a skip, and more windows are possible.
fn needs_more_events(events: CongestionEvents, count: u64, windows_left: u64) -> bool {
    let is_possible = 2 * count <= WINDOW_STEPS_MAX && 8 * count <= windows_left;
    let times = windows_left as f64 / count as f64;
    let is_uncertain = |events: u64| {
        let estimate = events as f64 * times;
        let deviation = (events as f64).sqrt() * times;
        deviation > (estimate * EVENTS_DEVIATION_MAX).max(EVENTS_DEVIATION_TOLERATED)
    };
    is_possible && [events.marks, events.pauses].into_iter().any(is_uncertain)
}

/// Returns whether the marks and pauses of each step agree with those of the previous window. Without a previous
/// window, there must be none.
fn has_same_events(
    per_step: [f64; 2],
    previous: Option<[f64; 2]>,
    events: CongestionEvents,
    steps: f64,
) -> bool {
    let is_quiet = events == CongestionEvents::default();
    previous.map_or(is_quiet, |previous| {
        per_step.iter().zip(previous).all(|(count, previous)| {
            let difference = (count - previous).abs() * steps;
            is_close(*count, previous, COUNT_TOLERANCE) || difference <= COUNT_DIFFERENCE_MAX
        })
    })
}
