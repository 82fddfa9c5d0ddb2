//! A thread that runs one switch, or several switches in turn.

use super::clock::monotonic_ns;
use super::idle::{IdleAction, IdlePolicy, sleep_on};
use super::pin::CoreBinding;
use super::switch_worker::SwitchWorker;
use xoff_ports::ThreadWaker;

/// A thread and the switches that it runs.
#[derive(Debug)]
pub(crate) struct SwitchThread {
    pub(crate) workers: Vec<SwitchWorker>,
    /// Wakes the thread when one of its switches has work.
    pub(crate) waker: ThreadWaker,
    pub(crate) idle: IdlePolicy,
    /// The binding of the thread to a core. `None` if the binding never changes.
    pub(crate) core_binding: Option<CoreBinding>,
}

impl SwitchThread {
    /// Runs until every switch has been asked to stop.
    pub(crate) fn run(mut self) {
        let mut last_turn_ns = monotonic_ns();
        while !self.workers.is_empty() {
            let began_ns = monotonic_ns();
            let turn_ns = began_ns - std::mem::replace(&mut last_turn_ns, began_ns);
            let mut work = 0;
            let mut stopped = false;
            for worker in &mut self.workers {
                // Only a turn with work counts. A turn without work may have slept.
                worker.add_busy_time(turn_ns);
                work += worker.run_once(began_ns);
                stopped |= worker.is_stopped();
            }
            if stopped {
                self.finish_stopped_workers();
            } else if work > 0 {
                self.idle.record_work(began_ns, work);
            } else {
                self.wait_for_work();
            }
        }
    }

    /// Finishes the workers of switches that have been asked to stop.
    fn finish_stopped_workers(&mut self) {
        for worker in self.workers.extract_if(.., |worker| worker.is_stopped()) {
            worker.finish();
        }
    }

    /// Waits for work as the idle policy decides. The thread polls again at once, yields its core, or sleeps.
    /// A sleep ends when a frame or a command arrives, or shortly before the next deadline.
    fn wait_for_work(&mut self) {
        let deadline_ns = self.workers.iter().filter_map(SwitchWorker::next_event_ns).min();
        let blocked = self.workers.iter().any(SwitchWorker::has_waiting_departures);
        let now_ns = monotonic_ns();
        let rest = self.idle.next_action(now_ns, deadline_ns);
        if let Some(core_binding) = &mut self.core_binding {
            core_binding.update(self.idle.is_core_contended(now_ns));
        }
        self.idle.update_sched_policy(now_ns);
        let limit = match rest {
            IdleAction::Sleep(limit) if !blocked => limit,
            IdleAction::KeepCore => return std::hint::spin_loop(),
            IdleAction::Sleep(_) | IdleAction::Yield => return std::thread::yield_now(),
        };
        self.waker.prepare_sleep();
        let mut was_woken = false;
        if !self.workers.iter().any(SwitchWorker::has_input) {
            let limit = match self
                .workers
                .iter()
                .all(|worker| worker.io.has_wakeup_for_all_ports())
            {
                true => limit,
                false => limit.min(super::POLLED_SLEEP_MAX),
            };
            let fds = self.workers.iter().flat_map(|worker| worker.io.fds());
            was_woken = sleep_on(fds, Some(self.waker.fd()), limit);
        }
        self.waker.finish_sleep(was_woken);
    }
}
