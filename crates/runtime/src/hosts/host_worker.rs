//! The thread that drives model hosts. In each turn, it receives frames, calls the application, sends frames
//! and waits.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use xoff_units::Picos;

use super::application::{Application, HostAccess};
use super::attachment::{AttachedHostState, WorkerTurnTimes};
use super::idle_policy::{HostIdleAction, HostIdlePolicy};
use super::{HostRunResult, HostThreadOptions, SharedThreadState, ThreadPhase};
use crate::workers::clock::{monotonic_ns, realtime_ns};
use crate::workers::pin::{bind_to_core, set_exact_timers};
use crate::workers::sleep_on;
use xoff_ports::ArenaStore;

/// Wall time between two checks for losses of devices, in nanoseconds.
const CHECK_INTERVAL_NS: u64 = 50_000_000;
/// Longest time between two clock readings that can be compared, in nanoseconds.
const CLOCKS_APART_NS_MAX: u64 = 20_000;
/// Smallest detected step of the real-time clock, in nanoseconds. A step changes the difference between the
/// real-time clock and the monotonic clock. Smaller changes of this difference are regarded as slewing, a
/// gradual correction of the clock.
const CLOCK_STEP_NS: u64 = 1_000_000;
/// Longest sleep of a thread that owns a port without a wake-up descriptor.
const POLLED_SLEEP_MAX: Duration = Duration::from_micros(100);

/// The state of the thread that drives model hosts.
pub(super) struct HostWorker<A> {
    attachments: Vec<AttachedHostState>,
    application: A,
    store: ArenaStore,
    shared: Arc<SharedThreadState>,
    options: HostThreadOptions,
    idle_policy: HostIdlePolicy,
    phase: ThreadPhase,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, in nanoseconds. `None` before the first reading.
    realtime_offset_ns: Option<u64>,
    last_check_ns: u64,
    /// Wall time at which the thread intended to end its wait, in nanoseconds of `CLOCK_MONOTONIC`.
    expected_ns: u64,
}

impl<A: Application> HostWorker<A> {
    pub(super) fn new(
        attachments: Vec<AttachedHostState>,
        application: A,
        store: ArenaStore,
        shared: Arc<SharedThreadState>,
        options: HostThreadOptions,
    ) -> HostWorker<A> {
        let catch_up = attachments
            .iter()
            .map(|attachment| attachment.host.catch_up_span())
            .min();
        let catch_up_ns = catch_up.map_or(u64::MAX, |span| options.clock.wall_span_ns(span));
        HostWorker {
            idle_policy: HostIdlePolicy::new(options.idle, catch_up_ns),
            attachments,
            application,
            store,
            shared,
            options,
            phase: ThreadPhase::Ready,
            realtime_offset_ns: None,
            last_check_ns: 0,
            expected_ns: u64::MAX,
        }
    }

    pub(super) fn run(mut self) -> (Vec<HostRunResult>, A) {
        set_exact_timers();
        if let Err(refused) = bind_to_core(self.options.core) {
            log::warn!("{refused}");
        }
        loop {
            let times = self.read_clocks();
            self.check_stall(&times);
            let requested_phase = self.shared.phase.load(Ordering::Acquire);
            if requested_phase == ThreadPhase::Stopped as u8 {
                return self.finish(&times);
            }
            self.enter_phase(requested_phase, &times);
            let received = self.receive_frames(&times);
            let served = self.serve_application(&times);
            let sent = self.transmit_frames(&times);
            self.publish_progress(&times, received > 0 || served);
            if times.monotonic_ns.saturating_sub(self.last_check_ns) >= CHECK_INTERVAL_NS {
                self.last_check_ns = times.monotonic_ns;
                for attachment in &mut self.attachments {
                    attachment.check_losses(&times, &self.options.ledger);
                }
            }
            self.wait_for_work(received + sent > 0);
        }
    }

    /// Reads the clocks at the start of a turn. If the real-time clock was set, measured latencies are wrong.
    /// The function then taints the run, which means that the run proves nothing.
    fn read_clocks(&mut self) -> WorkerTurnTimes {
        let (before, real, after) = (monotonic_ns(), realtime_ns(), monotonic_ns());
        let reading_ns = after - before;
        let offset_ns = real.saturating_sub(before + reading_ns / 2);
        let now = self.options.clock.model_time(after);
        let known = *self.realtime_offset_ns.get_or_insert(offset_ns);
        if reading_ns <= CLOCKS_APART_NS_MAX {
            if known.abs_diff(offset_ns) > CLOCK_STEP_NS {
                let by = known.abs_diff(offset_ns) / 1_000;
                self.options
                    .ledger
                    .add_taint(now.as_nanos(), format!("the wall clock was set (by {by} us)"));
            }
            self.realtime_offset_ns = Some(offset_ns);
        }
        let wall_ns = after.saturating_add(self.realtime_offset_ns.unwrap_or(offset_ns));
        WorkerTurnTimes {
            now,
            wall_ns,
            monotonic_ns: after,
        }
    }

    fn check_stall(&mut self, times: &WorkerTurnTimes) {
        let stalled_ns = times.monotonic_ns.saturating_sub(self.expected_ns);
        let counts = matches!(self.phase, ThreadPhase::Sending | ThreadPhase::Draining);
        if counts && u128::from(stalled_ns) > self.options.reaction_budget.as_nanos() {
            let (ms, budget) = (stalled_ns / 1_000_000, self.options.reaction_budget.as_millis());
            let name = &self.options.name;
            let cause =
                format!("the hosts' thread {name} stalled ({ms} ms, the reaction budget is {budget} ms)");
            self.options.ledger.add_taint(times.now.as_nanos(), cause);
        }
    }

    fn enter_phase(&mut self, requested_phase: u8, times: &WorkerTurnTimes) {
        if requested_phase <= self.phase as u8 {
            return;
        }
        let draining = requested_phase >= ThreadPhase::Draining as u8;
        let starts = self.phase == ThreadPhase::Ready;
        for attachment in &mut self.attachments {
            if draining {
                attachment.stop_sending(times, &self.options.ledger);
            } else {
                attachment.start_sending(times);
            }
        }
        self.phase = if draining {
            ThreadPhase::Draining
        } else {
            ThreadPhase::Sending
        };
        if starts && !draining {
            self.application.start(&mut HostAccess {
                now: times.now,
                attachments: &mut self.attachments,
            });
        }
        let working = !self.application.is_finished();
        self.shared.is_working.store(working, Ordering::Relaxed);
        self.shared.reached.store(self.phase as u8, Ordering::Release);
    }

    fn receive_frames(&mut self, times: &WorkerTurnTimes) -> usize {
        let (store, ledger) = (&mut self.store, &self.options.ledger);
        self.attachments
            .iter_mut()
            .map(|attachment| attachment.receive(times, store, ledger))
            .sum()
    }

    /// Calls the application if completions exist or its next start time is reached. Returns whether the
    /// start time is reached.
    fn serve_application(&mut self, times: &WorkerTurnTimes) -> bool {
        if self.phase == ThreadPhase::Ready {
            return false;
        }
        let due = self.application.next_start() <= times.now;
        if due || self.attachments.iter().any(|state| state.host.has_completions()) {
            self.application.serve(&mut HostAccess {
                now: times.now,
                attachments: &mut self.attachments,
            });
        }
        due
    }

    fn transmit_frames(&mut self, times: &WorkerTurnTimes) -> usize {
        let (store, ledger) = (&mut self.store, &self.options.ledger);
        self.attachments
            .iter_mut()
            .map(|attachment| attachment.transmit(times, store, ledger))
            .sum()
    }

    fn publish_progress(&self, times: &WorkerTurnTimes, has_activity: bool) {
        let hosts = || self.attachments.iter().map(|attachment| &attachment.host);
        let shared = &self.shared;
        shared
            .sent_frames
            .store(hosts().map(|host| host.sent_frames()).sum(), Ordering::Relaxed);
        shared.received_frames.store(
            hosts().map(|host| host.received_frames()).sum(),
            Ordering::Relaxed,
        );
        shared
            .is_sending
            .store(hosts().any(|host| host.is_sending()), Ordering::Relaxed);
        shared
            .is_working
            .store(!self.application.is_finished(), Ordering::Relaxed);
        let next_start_ns = match self.application.next_start() {
            Picos::NEVER => u64::MAX,
            start => self.options.clock.wall_ns(start),
        };
        shared.next_start_ns.store(next_start_ns, Ordering::Relaxed);
        let unresolved: usize = hosts().map(|host| host.unresolved().count()).sum();
        shared.unresolved.store(unresolved as u64, Ordering::Relaxed);
        if has_activity {
            shared
                .last_arrival_ns
                .store(times.monotonic_ns, Ordering::Relaxed);
        }
    }

    fn wait_for_work(&mut self, has_traffic: bool) {
        let usable = || {
            self.attachments
                .iter()
                .filter(|attachment| attachment.is_usable())
        };
        let deadline = usable().map(|attachment| attachment.host.next_deadline()).min();
        let starts = Some(self.application.next_start()).filter(|_| self.phase > ThreadPhase::Ready);
        let deadline = deadline.into_iter().chain(starts).min();
        let now_ns = monotonic_ns();
        let mut remaining_ns = deadline.map_or(u64::MAX, |deadline| {
            self.options.clock.wall_ns(deadline).saturating_sub(now_ns)
        });
        if usable().any(AttachedHostState::has_unsent_frames) {
            // The host has frames for a full device. The host's deadline has passed, and the time at which
            // the device has room is unknown.
            remaining_ns = POLLED_SLEEP_MAX.as_nanos() as u64;
        }
        let action = self.idle_policy.next_action(has_traffic, remaining_ns);
        let fds: Vec<BorrowedFd<'_>> = usable().filter_map(|attachment| attachment.port.fd()).collect();
        let polled = fds.len() < usable().count();
        match action {
            HostIdleAction::Poll => {}
            HostIdleAction::Pause(span) => thread::sleep(span),
            HostIdleAction::Sleep(span) if polled => thread::sleep(span.min(POLLED_SLEEP_MAX)),
            HostIdleAction::Sleep(span) => drop(sleep_on(fds.into_iter(), None, span)),
        }
        let span = match action {
            HostIdleAction::Poll => Duration::ZERO,
            HostIdleAction::Pause(span) | HostIdleAction::Sleep(span) => span,
        };
        // A frame may end a sleep early. Time after the intended end is a stall, and so is a long turn.
        let back_ns = monotonic_ns();
        self.expected_ns = back_ns.min(now_ns.saturating_add(span.as_nanos() as u64));
    }

    fn finish(mut self, times: &WorkerTurnTimes) -> (Vec<HostRunResult>, A) {
        self.application.finish(&mut HostAccess {
            now: times.now,
            attachments: &mut self.attachments,
        });
        let mut results = Vec::with_capacity(self.attachments.len());
        for attachment in self.attachments.drain(..) {
            results.push(attachment.finish(times, &mut self.store, &self.options.ledger));
        }
        (results, self.application)
    }
}
