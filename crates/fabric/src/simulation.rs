//! Simulates a fabric and its jobs until all jobs have ended or cannot continue.

use xoff_units::Picos;

use super::acceleration::{Acceleration, AccelerationSummary};
use super::deadlock::find_deadlock;
use super::deadlock_report::{Deadlock, LastingDeadlock};
use super::engine::{Fabric, RunStopReason};
use super::jobs::{Jobs, ObservedFabric};
use super::observer::Observer;

/// Interval of the checks for progress.
const CHECK_INTERVAL: Picos = Picos::from_millis(1);
/// If frames wait and no frame moves for this time, the simulation ends. At 10 Gb/s, three pauses of maximum
/// length fit into this time. At higher speeds, more pauses fit.
const STANDSTILL_TIME: Picos = Picos::from_millis(10);
/// Largest number of deadlocks that a simulation records. Later deadlocks are not recorded.
pub const DEADLOCKS_MAX: usize = 64;

/// Reason why [`Simulation::run`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulationEnd {
    /// The requested time has been reached, and jobs may still be running.
    TimeReached,
    /// All jobs are over or stopped. Frames such as acknowledgements can still be in flight.
    Finished,
    /// No event is left, but some jobs are not finished or have not been started.
    Idle,
    /// Frames wait in the queues of switches, and no frame has moved for at least 10 ms. The simulation waits
    /// longer if a PFC watchdog needs more time to act. The value is the deadlock that the last check found.
    /// `None`: no deadlock is the cause.
    Standstill(Option<Deadlock>),
    /// Model time does not advance (see [`RunStopReason::Stuck`]).
    Stuck,
    /// The limit of [`Fabric::set_events_max`] has been reached.
    EventLimit,
    /// The limit of [`Fabric::set_frame_memory_max`] has been exceeded.
    FrameMemoryLimit,
}

/// A fabric and the jobs on its hosts.
#[derive(Debug)]
pub struct Simulation {
    /// Switches, hosts and links in virtual time.
    pub fabric: Fabric,
    /// Jobs on the hosts of the fabric.
    pub jobs: Jobs,
    started: bool,
    /// Time of the last check for progress.
    checked_at: Picos,
    /// Number of moved frames when the last check found progress, and the time of this check.
    moved: (u64, Picos),
    deadlock_tracker: DeadlockTracker,
    acceleration: Option<Acceleration>,
}

/// Recorded deadlocks, and the deadlock of the last check.
#[derive(Debug, Default)]
struct DeadlockTracker {
    found: Vec<LastingDeadlock>,
    /// Deadlock that the last check found. It may be too short to be recorded.
    now: Option<LastingDeadlock>,
}

impl DeadlockTracker {
    /// Records the result of a check. When a deadlock has lasted for 10 ms, returns it once. Shorter
    /// deadlocks are not recorded, because pauses can form a cycle for a moment and then end without harm.
    fn record_check(&mut self, now: Picos, deadlock: Option<Deadlock>) -> Option<&LastingDeadlock> {
        let same = match (&self.now, &deadlock) {
            (Some(known), Some(deadlock)) => known.deadlock == *deadlock,
            (None, None) => true,
            _ => false,
        };
        if !same {
            if let Some(found) = self.found.last_mut().filter(|found| found.until.is_none()) {
                found.until = Some(now);
            }
            self.now = deadlock.map(|deadlock| LastingDeadlock {
                since: now,
                until: None,
                deadlock,
            });
            return None;
        }
        let lasting = self.now.as_ref()?;
        let known = self.found.last().is_some_and(|found| found.until.is_none());
        if known || now.since(lasting.since) < STANDSTILL_TIME || self.found.len() >= DEADLOCKS_MAX {
            return None;
        }
        self.found.push(lasting.clone());
        self.found.last()
    }
}

impl Simulation {
    /// Creates a simulation. The jobs start with [`Simulation::start`].
    pub fn new(fabric: Fabric, jobs: Jobs) -> Simulation {
        Simulation {
            fabric,
            jobs,
            started: false,
            checked_at: Picos::ZERO,
            moved: (0, Picos::ZERO),
            deadlock_tracker: DeadlockTracker::default(),
            acceleration: None,
        }
    }

    /// Skips steps of jobs that repeat, from now on. Call this method before [`Simulation::start`]. Observers do not
    /// see the skipped steps.
    pub fn accelerate(&mut self) {
        self.jobs.record_steps();
        self.acceleration = Some(Acceleration::new(self.jobs.job_count()));
    }

    /// Ignores all earlier steps for later skips. Call this method when a link, a configuration or a job changes.
    pub fn restart_acceleration(&mut self) {
        if let Some(acceleration) = &mut self.acceleration {
            self.jobs.restart_steps();
            acceleration.restart(self.fabric.now());
        }
    }

    /// Returns the steps that were skipped until now. Returns `None` without acceleration.
    pub fn acceleration(&self) -> Option<&AccelerationSummary> {
        self.acceleration.as_ref().map(Acceleration::summary)
    }

    /// Returns the deadlocks that lasted for at least 10 ms, at most [`DEADLOCKS_MAX`], in the order of
    /// their start.
    pub fn deadlocks(&self) -> &[LastingDeadlock] {
        &self.deadlock_tracker.found
    }

    /// Starts the jobs. The start time of each job counts from the current model time.
    pub fn start(&mut self, observer: &mut dyn Observer) {
        self.started = true;
        self.jobs.start(&mut ObservedFabric(&mut self.fabric, observer));
    }

    /// Runs until the model time `until`, which contains skipped time ([`Fabric::result_now`]). If `stop_when_finished`
    /// is true, the run ends earlier when all jobs have finished. Every millisecond of model time, the method checks
    /// for progress and for deadlocks.
    pub fn run(
        &mut self,
        until: Picos,
        stop_when_finished: bool,
        observer: &mut dyn Observer,
    ) -> SimulationEnd {
        loop {
            if stop_when_finished && self.started && self.jobs.is_finished() {
                return SimulationEnd::Finished;
            }
            // No check is necessary before the next activity, so long gaps cost nothing.
            let watch = self.checked_at.saturating_add(CHECK_INTERVAL);
            let watch = match self.next_activity() {
                Picos::NEVER => watch,
                activity => watch.max(activity),
            };
            // Skipped time is not part of the clock of the fabric.
            let fabric_until = Picos(until.0.saturating_sub(self.fabric.skipped_time().0));
            let accelerate = self
                .acceleration
                .as_ref()
                .map_or(Picos::NEVER, Acceleration::next_act);
            let accelerate = accelerate.max(self.fabric.now());
            let next = fabric_until.min(watch).min(accelerate);
            match self.fabric.run_with(next, &mut self.jobs, observer) {
                RunStopReason::Completion => self.jobs.withdraw_flows(&mut self.fabric, observer),
                RunStopReason::Stuck => return SimulationEnd::Stuck,
                RunStopReason::EventLimit => return SimulationEnd::EventLimit,
                RunStopReason::FrameMemoryLimit => return SimulationEnd::FrameMemoryLimit,
                RunStopReason::Idle => match self.jobs.next_start() {
                    Picos::NEVER if self.jobs.is_finished() && self.started => {
                        return SimulationEnd::Finished;
                    }
                    Picos::NEVER => return SimulationEnd::Idle,
                    start if start > fabric_until => {
                        self.fabric.advance_idle(fabric_until);
                        return SimulationEnd::TimeReached;
                    }
                    start => {
                        self.fabric.advance_idle(start);
                        self.jobs
                            .post_due(&mut ObservedFabric(&mut self.fabric, observer));
                    }
                },
                RunStopReason::TimeReached => {
                    if let Some(acceleration) = &mut self.acceleration
                        && acceleration.next_act() <= self.fabric.now()
                    {
                        acceleration.act(&mut self.fabric, &mut self.jobs, fabric_until);
                    }
                    if let Some(outcome) = self.handle_time_reached(until, observer) {
                        return outcome;
                    }
                }
            }
        }
    }

    /// Returns the time of the next event or of the next job start. Returns [`Picos::NEVER`] if
    /// neither exists.
    pub fn next_activity(&self) -> Picos {
        let event = self.fabric.next_event().unwrap_or(Picos::NEVER);
        event.min(self.jobs.next_start())
    }

    /// Checks for progress. Called when the fabric has reached the time of
    /// its run. Returns a result if the simulation ends here.
    fn handle_time_reached(&mut self, until: Picos, observer: &mut dyn Observer) -> Option<SimulationEnd> {
        let now = self.fabric.now();
        if now >= self.checked_at.saturating_add(CHECK_INTERVAL) {
            self.checked_at = now;
            let moves = self.fabric.frames_moved();
            let deadlock = find_deadlock(&self.fabric);
            if let Some(lasting) = self.deadlock_tracker.record_check(now, deadlock.clone()) {
                observer.deadlocked(now, lasting);
            }
            if moves != self.moved.0 || self.fabric.frames_queued() == 0 {
                self.moved = (moves, now);
            } else if now.since(self.moved.1) >= STANDSTILL_TIME.max(self.fabric.watchdog_reaction_time()) {
                return Some(SimulationEnd::Standstill(deadlock));
            }
        }
        (self.fabric.result_now() >= until).then_some(SimulationEnd::TimeReached)
    }
}
