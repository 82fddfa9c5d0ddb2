//! A run: a fabric, its jobs, and whoever watches; until everything is done, or cannot be.

use xoff_units::Picos;

use super::diagnosis::{Deadlock, diagnose};
use super::engine::{Fabric, Halt};
use super::jobs::{Jobs, Watched};
use super::observer::Observer;

/// How often it is asked whether anything still moves.
const WATCH: Picos = Picos::from_millis(1);
/// So long nothing may move while frames wait: three pauses of the longest kind at 10 Gb/s, and more at higher speeds.
const STANDSTILL: Picos = Picos::from_millis(10);
/// Most circles of pauses that are kept of a run.
pub const DEADLOCKS_MAX: usize = 64;

/// How far a run came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The time it was given has come.
    Time,
    /// All jobs are done. Frames may still be under way.
    Finished,
    /// Nothing will happen any more, and not everything is done.
    Idle,
    /// Frames wait and nothing moves; the circle of pauses, if that is why.
    Standstill(Option<Deadlock>),
    /// Time does not go on.
    Stuck,
    /// It has handled as many events as it may.
    Spent,
}

/// A fabric and its jobs.
#[derive(Debug)]
pub struct Simulation {
    /// The fabric.
    pub fabric: Fabric,
    /// Its jobs.
    pub jobs: Jobs,
    started: bool,
    watched_at: Picos,
    /// Moves up to the last time they were seen to grow, and when that was.
    moved: (u64, Picos),
    circles: Circles,
}

/// A circle of pauses that lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastingDeadlock {
    /// When it was first seen.
    pub since: Picos,
    /// When it was first seen to be gone; `None`: it is still there, as far as was looked.
    pub until: Option<Picos>,
    /// The circle.
    pub deadlock: Deadlock,
}

/// Circles that lasted, and the one that is looked at.
#[derive(Debug, Default)]
struct Circles {
    found: Vec<LastingDeadlock>,
    now: Option<LastingDeadlock>,
}

impl Circles {
    /// Enters the circle that is there now, if one is; the one that has just come to count. Pauses that pass by may close a circle for a moment: one counts when it
    /// has stood for as long as a standstill takes.
    fn look(&mut self, now: Picos, circle: Option<Deadlock>) -> Option<&LastingDeadlock> {
        let same = match (&self.now, &circle) {
            (Some(known), Some(circle)) => known.deadlock == *circle,
            (None, None) => true,
            _ => false,
        };
        if !same {
            if let Some(found) = self.found.last_mut().filter(|found| found.until.is_none()) {
                found.until = Some(now);
            }
            self.now = circle.map(|deadlock| LastingDeadlock {
                since: now,
                until: None,
                deadlock,
            });
            return None;
        }
        let lasting = self.now.as_ref()?;
        let known = self.found.last().is_some_and(|found| found.until.is_none());
        if known || now.since(lasting.since) < STANDSTILL || self.found.len() >= DEADLOCKS_MAX {
            return None;
        }
        self.found.push(lasting.clone());
        self.found.last()
    }
}

impl Simulation {
    /// A run that has not started its jobs yet.
    pub fn new(fabric: Fabric, jobs: Jobs) -> Simulation {
        Simulation {
            fabric,
            jobs,
            started: false,
            watched_at: Picos::ZERO,
            moved: (0, Picos::ZERO),
            circles: Circles::default(),
        }
    }

    /// The circles of pauses that lasted for 10 ms or more, in the order in which they closed; at most
    /// [`DEADLOCKS_MAX`].
    pub fn deadlocks(&self) -> &[LastingDeadlock] {
        &self.circles.found
    }

    /// Starts the jobs; their times count from now.
    pub fn start(&mut self, observer: &mut impl Observer) {
        self.started = true;
        self.jobs.start(&mut Watched(&mut self.fabric, observer));
    }

    /// Runs until `until`, or until the jobs are done where `stop_when_finished`. Deadlocks are looked for all the time.
    pub fn run(&mut self, until: Picos, stop_when_finished: bool, observer: &mut impl Observer) -> Outcome {
        loop {
            if stop_when_finished && self.started && self.jobs.is_finished() {
                return Outcome::Finished;
            }
            // While nothing happens there is nothing to watch: long gaps cost nothing.
            let watch = self.watched_at.saturating_add(WATCH);
            let watch = watch.max(self.fabric.next_event().unwrap_or(watch));
            let next = until.min(self.jobs.next_start()).min(watch);
            match self.fabric.run(next, observer) {
                Halt::Completion => {
                    self.jobs.complete(&mut Watched(&mut self.fabric, observer));
                    self.jobs.withdraw(&mut self.fabric, observer);
                }
                Halt::Stuck => return Outcome::Stuck,
                Halt::Spent => return Outcome::Spent,
                Halt::Idle => match self.jobs.next_start() {
                    Picos::NEVER if self.jobs.is_finished() && self.started => {
                        return Outcome::Finished;
                    }
                    Picos::NEVER => return Outcome::Idle,
                    start if start > until => {
                        self.fabric.wait(until);
                        return Outcome::Time;
                    }
                    start => {
                        self.fabric.wait(start);
                        self.jobs.advance(&mut Watched(&mut self.fabric, observer));
                    }
                },
                Halt::Time => {
                    if let Some(outcome) = self.pause(until, observer) {
                        return outcome;
                    }
                }
            }
        }
    }

    /// When something happens next, in the fabric or by a job; [`Picos::NEVER`] if nothing does by itself.
    pub fn next_activity(&self) -> Picos {
        let event = self.fabric.next_event().unwrap_or(Picos::NEVER);
        event.min(self.jobs.next_start())
    }

    /// The time asked for has come: work that is due, a look whether anything moves, or the end.
    fn pause(&mut self, until: Picos, observer: &mut impl Observer) -> Option<Outcome> {
        let now = self.fabric.now();
        if self.jobs.next_start() <= now {
            self.jobs.advance(&mut Watched(&mut self.fabric, observer));
        }
        if now >= self.watched_at.saturating_add(WATCH) {
            self.watched_at = now;
            let moves = self.fabric.moves();
            let circle = diagnose(&self.fabric);
            if let Some(lasting) = self.circles.look(now, circle.clone()) {
                observer.deadlocked(now, lasting);
            }
            if moves != self.moved.0 || self.fabric.frames_queued() == 0 {
                self.moved = (moves, now);
            } else if now.since(self.moved.1) >= STANDSTILL.max(self.fabric.watchdog_patience()) {
                return Some(Outcome::Standstill(circle));
            }
        }
        (now >= until).then_some(Outcome::Time)
    }
}
