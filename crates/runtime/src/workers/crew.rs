//! A thread that drives switches, one after the other: one switch, or as many as share a core.

use super::clock::monotonic_ns;
use super::idle::{IdlePolicy, Rest, sleep_on};
use super::pin::CoreBinding;
use super::worker::Worker;
use xoff_ports::Bell;

/// The switches of a thread.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) workers: Vec<Worker>,
    /// Rung for any of them.
    pub(crate) bell: Bell,
    pub(crate) idle: IdlePolicy,
    /// Its core, if that may change.
    pub(crate) core_binding: Option<CoreBinding>,
}

impl Crew {
    /// Runs until every switch has been told to stop.
    pub(crate) fn run(mut self) {
        let mut before_ns = monotonic_ns();
        while !self.workers.is_empty() {
            let began_ns = monotonic_ns();
            let turn_ns = began_ns - std::mem::replace(&mut before_ns, began_ns);
            let mut work = 0;
            let mut stopped = false;
            for worker in &mut self.workers {
                // Of a turn with work: one without may have slept.
                worker.account(turn_ns);
                work += worker.step(began_ns);
                stopped |= worker.is_stopped();
            }
            if stopped {
                self.dismiss();
            } else if work > 0 {
                self.idle.worked(began_ns, work);
            } else {
                self.rest();
            }
        }
    }

    /// Lets those go that have been told to stop.
    fn dismiss(&mut self) {
        for worker in self.workers.extract_if(.., |worker| worker.is_stopped()) {
            worker.finish();
        }
    }

    /// Nothing to do: looks again at once, or sleeps until a frame, a command or the next deadline.
    fn rest(&mut self) {
        let deadline_ns = self.workers.iter().filter_map(Worker::next_event_ns).min();
        let blocked = self.workers.iter().any(Worker::is_blocked);
        let now_ns = monotonic_ns();
        let rest = self.idle.rest(now_ns, deadline_ns);
        if let Some(core_binding) = &mut self.core_binding {
            core_binding.update(self.idle.is_crowded(now_ns));
        }
        self.idle.give_way(now_ns);
        let limit = match rest {
            Rest::Sleep(limit) if !blocked => limit,
            Rest::Look => return std::hint::spin_loop(),
            Rest::Sleep(_) | Rest::Yield => return std::thread::yield_now(),
        };
        self.bell.about_to_sleep();
        let mut rung = false;
        if !self.workers.iter().any(Worker::is_wanted) {
            let limit = match self.workers.iter().all(|worker| worker.io.all_wake()) {
                true => limit,
                false => limit.min(super::POLLED_SLEEP),
            };
            let fds = self.workers.iter().flat_map(|worker| worker.io.fds());
            rung = sleep_on(fds, Some(self.bell.fd()), limit);
        }
        self.bell.awake(rung);
    }
}
