//! The thread: turn by turn, receive, send, rest.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use xoff_units::Picos;

use super::application::{Application, HostsAt};
use super::attachment::{Attachment, Moment};
use super::nap::{Naps, Rest};
use super::{HostOutcome, Phase, RuntimeOptions, Shared};
use crate::workers::clock::{monotonic_ns, realtime_ns};
use crate::workers::pin::{bind_to_core, set_exact_timers};
use crate::workers::sleep_on;
use xoff_ports::ArenaStore;

/// Losses of devices are asked for this often.
const WATCH_NS: u64 = 50_000_000;
/// Two readings of the clocks belong together if they lie no further apart.
const CLOCKS_APART_NS_MAX: u64 = 20_000;
/// Real time that runs away from monotonic time by more than this between two turns was set, not slewed.
const CLOCK_STEP_NS: u64 = 1_000_000;
/// Rest of a thread with a port that nothing wakes it for.
const POLLED_REST: Duration = Duration::from_micros(100);

pub(super) struct Worker<A> {
    attachments: Vec<Attachment>,
    application: A,
    store: ArenaStore,
    shared: Arc<Shared>,
    options: RuntimeOptions,
    naps: Naps,
    phase: Phase,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    real_ahead_ns: Option<u64>,
    watched_ns: u64,
    /// When the thread meant to be back from its rest.
    expected_ns: u64,
}

impl<A: Application> Worker<A> {
    pub(super) fn new(
        attachments: Vec<Attachment>,
        application: A,
        store: ArenaStore,
        shared: Arc<Shared>,
        options: RuntimeOptions,
    ) -> Worker<A> {
        let catch_up = attachments
            .iter()
            .map(|attachment| attachment.host.catch_up_span())
            .min();
        let catch_up_ns = catch_up.map_or(u64::MAX, |span| options.clock.wall_span_ns(span));
        Worker {
            naps: Naps::new(options.idle, catch_up_ns),
            attachments,
            application,
            store,
            shared,
            options,
            phase: Phase::Ready,
            real_ahead_ns: None,
            watched_ns: 0,
            expected_ns: u64::MAX,
        }
    }

    pub(super) fn run(mut self) -> (Vec<HostOutcome>, A) {
        set_exact_timers();
        if let Err(refused) = bind_to_core(self.options.core) {
            eprintln!("warning: {refused}");
        }
        loop {
            let moment = self.moment();
            self.note_stall(&moment);
            let wanted = self.shared.phase.load(Ordering::Acquire);
            if wanted == Phase::Stopped as u8 {
                return self.finish(&moment);
            }
            self.enter_phase(wanted, &moment);
            let received = self.receive(&moment);
            let served = self.serve(&moment);
            let sent = self.transmit(&moment);
            self.publish(&moment, received > 0 || served);
            if moment.monotonic_ns.saturating_sub(self.watched_ns) >= WATCH_NS {
                self.watched_ns = moment.monotonic_ns;
                for attachment in &mut self.attachments {
                    attachment.watch(&moment, &self.options.ledger);
                }
            }
            self.rest(received + sent > 0);
        }
    }

    /// Reads the clocks. A wall clock that was set makes latencies wrong.
    fn moment(&mut self) -> Moment {
        let (before, real, after) = (monotonic_ns(), realtime_ns(), monotonic_ns());
        let apart = after - before;
        let ahead = real.saturating_sub(before + apart / 2);
        let now = self.options.clock.model_time(after);
        let known = *self.real_ahead_ns.get_or_insert(ahead);
        if apart <= CLOCKS_APART_NS_MAX {
            if known.abs_diff(ahead) > CLOCK_STEP_NS {
                let by = known.abs_diff(ahead) / 1_000;
                self.options
                    .ledger
                    .add_taint(now.as_nanos(), format!("the wall clock was set (by {by} us)"));
            }
            self.real_ahead_ns = Some(ahead);
        }
        let wall_ns = after.saturating_add(self.real_ahead_ns.unwrap_or(ahead));
        Moment {
            now,
            wall_ns,
            monotonic_ns: after,
        }
    }

    fn note_stall(&mut self, moment: &Moment) {
        let stalled_ns = moment.monotonic_ns.saturating_sub(self.expected_ns);
        let counts = matches!(self.phase, Phase::Sending | Phase::Draining);
        if counts && u128::from(stalled_ns) > self.options.reaction_budget.as_nanos() {
            let (ms, budget) = (stalled_ns / 1_000_000, self.options.reaction_budget.as_millis());
            let name = &self.options.name;
            let cause =
                format!("the hosts' thread {name} stalled ({ms} ms, the reaction budget is {budget} ms)");
            self.options.ledger.add_taint(moment.now.as_nanos(), cause);
        }
    }

    fn enter_phase(&mut self, wanted: u8, moment: &Moment) {
        if wanted <= self.phase as u8 {
            return;
        }
        let draining = wanted >= Phase::Draining as u8;
        let starts = self.phase == Phase::Ready;
        for attachment in &mut self.attachments {
            if draining {
                attachment.host.stop();
            } else {
                attachment.host.start(moment.now);
            }
        }
        self.phase = if draining { Phase::Draining } else { Phase::Sending };
        if starts && !draining {
            self.application.start(&mut HostsAt {
                now: moment.now,
                attachments: &mut self.attachments,
            });
        }
        let working = !self.application.is_finished();
        self.shared.is_working.store(working, Ordering::Relaxed);
        self.shared.reached.store(self.phase as u8, Ordering::Release);
    }

    fn receive(&mut self, moment: &Moment) -> usize {
        let (store, ledger) = (&mut self.store, &self.options.ledger);
        self.attachments
            .iter_mut()
            .map(|attachment| attachment.receive(moment, store, ledger))
            .sum()
    }

    /// Lets the application do what follows from what has arrived, or from the time; whether it was the time.
    fn serve(&mut self, moment: &Moment) -> bool {
        if self.phase == Phase::Ready {
            return false;
        }
        let due = self.application.next_start() <= moment.now;
        if due || self.attachments.iter().any(|at| at.host.has_completions()) {
            self.application.serve(&mut HostsAt {
                now: moment.now,
                attachments: &mut self.attachments,
            });
        }
        due
    }

    fn transmit(&mut self, moment: &Moment) -> usize {
        let (store, ledger) = (&mut self.store, &self.options.ledger);
        self.attachments
            .iter_mut()
            .map(|attachment| attachment.transmit(moment, store, ledger))
            .sum()
    }

    fn publish(&self, moment: &Moment, moved: bool) {
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
            at => self.options.clock.wall_ns(at),
        };
        shared.next_start_ns.store(next_start_ns, Ordering::Relaxed);
        let unresolved: usize = hosts().map(|host| host.unresolved().count()).sum();
        shared.unresolved.store(unresolved as u64, Ordering::Relaxed);
        if moved {
            shared
                .last_arrival_ns
                .store(moment.monotonic_ns, Ordering::Relaxed);
        }
    }

    fn rest(&mut self, busy: bool) {
        let usable = || {
            self.attachments
                .iter()
                .filter(|attachment| attachment.is_usable())
        };
        let deadline = usable().map(|attachment| attachment.host.next_deadline()).min();
        let starts = Some(self.application.next_start()).filter(|_| self.phase > Phase::Ready);
        let deadline = deadline.into_iter().chain(starts).min();
        let now_ns = monotonic_ns();
        let mut ahead_ns = deadline.map_or(u64::MAX, |at| {
            self.options.clock.wall_ns(at).saturating_sub(now_ns)
        });
        if usable().any(Attachment::is_blocked) {
            // The host has frames for a device that is full: its deadline is over, the device's is unknown.
            ahead_ns = POLLED_REST.as_nanos() as u64;
        }
        let rest = self.naps.after(busy, ahead_ns);
        let fds: Vec<BorrowedFd<'_>> = usable().filter_map(|attachment| attachment.port.fd()).collect();
        let polled = fds.len() < usable().count();
        match rest {
            Rest::None => {}
            Rest::Nap(span) => thread::sleep(span),
            Rest::Sleep(span) if polled => thread::sleep(span.min(POLLED_REST)),
            Rest::Sleep(span) => drop(sleep_on(fds.into_iter(), None, span)),
        }
        let span = match rest {
            Rest::None => Duration::ZERO,
            Rest::Nap(span) | Rest::Sleep(span) => span,
        };
        // Frames may end a sleep early; what goes beyond it is a stall, and so is a turn that takes long.
        let back_ns = monotonic_ns();
        self.expected_ns = back_ns.min(now_ns.saturating_add(span.as_nanos() as u64));
    }

    fn finish(mut self, moment: &Moment) -> (Vec<HostOutcome>, A) {
        self.application.finish(&mut HostsAt {
            now: moment.now,
            attachments: &mut self.attachments,
        });
        let mut outcomes = Vec::with_capacity(self.attachments.len());
        for attachment in self.attachments.drain(..) {
            outcomes.push(attachment.finish(moment, &mut self.store, &self.options.ledger));
        }
        (outcomes, self.application)
    }
}
