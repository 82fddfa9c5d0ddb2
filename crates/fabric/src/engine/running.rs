//! The event loop. It processes a time window partition by partition, on one or several threads (see
//! [`pending`](crate::pending)), or it processes all events in one order.

use std::ops::ControlFlow;

use xoff_dataplane::Picos;
use xoff_dataplane::route::RouteHint;

use super::completions::{AccessibleShards, CompletionHandler, FabricHosts};
use super::handler_access::HandlerAccess;
use super::layout::Layout;
use super::mail_delivery::deliver_mail;
use super::shard::Shard;
use super::window::{HostWindow, PhaseResult, Window, WindowBatch, WindowPhase};
use super::workers::{Workers, with_workers};
use super::{Fabric, RunStopReason, SIMULTANEOUS_EVENTS_MAX};
use crate::event_queue::{Event, first_key_after};
use crate::observation::{EventRecords, pass_records_to};
use crate::observer::Observer;

/// Shortest lookahead with which partitions run separately. With a shorter lookahead (the length of a
/// window), many windows would contain no event.
pub(super) const LOOKAHEAD_MIN: Picos = Picos::from_nanos(100);

impl Fabric {
    /// Processes all events up to and including the time `until`.
    ///
    /// Returns earlier if a host has a completion, if no event is left, or if a limit is reached. After a
    /// completion, all earlier events have been processed, and all later events are pending.
    pub fn run(&mut self, until: Picos, observer: &mut dyn Observer) -> RunStopReason {
        self.run_with(until, &mut (), observer)
    }

    /// Processes all events up to and including the time `until`, like [`Fabric::run`]. `handler` handles the
    /// completions and acts on hosts at the times of its actions. The run ends after a completion only if the handler
    /// requests it.
    pub fn run_with(
        &mut self,
        until: Picos,
        handler: &mut dyn CompletionHandler,
        observer: &mut dyn Observer,
    ) -> RunStopReason {
        self.observe_for(observer);
        if !self.is_partitioned {
            return self.run_in_order(until, handler, observer);
        }
        let layout = std::mem::take(&mut self.layout);
        let (thread_start, shards) = (self.thread_start.clone(), self.shards.len());
        let run = |workers: &Workers<'_>, handler: HandlerAccess<'_, '_>| {
            WindowRun {
                fabric: self,
                workers,
                layout: &layout,
                handler,
                observer,
                until,
            }
            .run()
        };
        let reason = with_workers(shards, thread_start.as_ref(), &layout, handler, run);
        self.layout = layout;
        self.take_all_mail();
        reason
    }

    /// Processes events in the total order, with one shard.
    fn run_in_order(
        &mut self,
        until: Picos,
        handler: &mut dyn CompletionHandler,
        observer: &mut dyn Observer,
    ) -> RunStopReason {
        let mut simultaneous_events = 0;
        let mut target = until.min(handler.next_action());
        loop {
            let Some(event) = self.shards[0].pending.peek(target) else {
                let is_idle = self.shards[0].pending.len() == 0;
                if is_idle && handler.next_action() > until {
                    return RunStopReason::Idle;
                }
                self.advance_to(self.now.max(target));
                if handler.next_action() > self.now {
                    return RunStopReason::TimeReached;
                }
                handler.act(&mut self.all_hosts(observer));
                target = until.min(handler.next_action());
                continue;
            };
            simultaneous_events = if event.at > self.now {
                0
            } else {
                simultaneous_events + 1
            };
            if simultaneous_events > SIMULTANEOUS_EVENTS_MAX {
                return RunStopReason::Stuck;
            }
            if let Some(reason) = self.reached_limit(event.at) {
                return reason;
            }
            self.shards[0].pending.pop();
            self.advance_to(event.at);
            if self.shards[0].process_event(event, RouteHint::NONE, observer) {
                if handler
                    .handle_completions(&mut self.all_hosts(observer))
                    .is_break()
                {
                    return RunStopReason::Completion;
                }
                target = until.min(handler.next_action());
            }
        }
    }

    /// Returns all hosts, for a [`CompletionHandler`].
    fn all_hosts<'a>(&'a mut self, observer: &'a mut dyn Observer) -> FabricHosts<'a> {
        FabricHosts {
            layout: &self.layout,
            shards: AccessibleShards::All(&mut self.shards),
            now: self.now,
            observer,
        }
    }

    /// Returns the limit that has been reached before the next event, which is at the time `at`. Checks the limits only
    /// once for each window, so the result does not depend on the order of partitions.
    #[inline]
    fn reached_limit(&mut self, at: Picos) -> Option<RunStopReason> {
        if at < self.limits_checked_until {
            return None;
        }
        if self.events() >= self.events_max.min(self.step_end) {
            return Some(RunStopReason::EventLimit);
        }
        if self.frame_memory_bytes() > self.frame_memory_max_bytes {
            return Some(RunStopReason::FrameMemoryLimit);
        }
        self.limits_checked_until = self.shards[0].pending.end_of_interval(at);
        None
    }

    /// Makes the frames on links between shards pending events.
    pub(super) fn take_all_mail(&mut self) {
        deliver_mail(&mut self.shards);
        self.shards.iter_mut().for_each(|shard| shard.take_mail());
    }

    /// Tells all shards which events the observer wants to see.
    pub(super) fn observe_for(&mut self, observer: &dyn Observer) {
        let observed = observer.observed_events();
        self.shards.iter_mut().for_each(|shard| shard.observed = observed);
    }

    /// Advances model time to `at`. All later calls must have the same or a later time.
    #[inline]
    pub(super) fn advance_to(&mut self, at: Picos) {
        self.now = at;
        if !self.in_flight.is_settled(at) {
            self.settle_frames_in_flight(at);
        }
        self.shards.iter_mut().for_each(|shard| shard.set_time(at));
    }

    #[inline(never)]
    fn settle_frames_in_flight(&mut self, until: Picos) {
        if self.in_flight.is_settled(until) {
            return;
        }
        if let [only] = &mut self.shards[..] {
            return self.in_flight.settle(until, &mut only.store.changes);
        }
        for shard in &mut self.shards {
            shard.store.changes.close_before(until);
        }
        self.settle_closed_slices();
    }

    /// Counts the frames in flight until the time at which all shards have begun their last window.
    fn settle_closed_slices(&mut self) {
        let changes = self.shards.iter_mut().map(|shard| &mut shard.store.changes);
        self.in_flight.settle_closed(&mut changes.collect::<Vec<_>>());
    }
}

/// A run of [`Fabric::run_with`] window by window.
struct WindowRun<'a, 'h> {
    fabric: &'a mut Fabric,
    workers: &'a Workers<'a>,
    layout: &'a Layout,
    handler: HandlerAccess<'a, 'h>,
    observer: &'a mut dyn Observer,
    until: Picos,
}

impl WindowRun<'_, '_> {
    /// Does the work of [`Fabric::run_with`].
    fn run(mut self) -> RunStopReason {
        let reason = self.run_windows();
        self.fabric.advance_to(self.fabric.now);
        reason
    }

    fn run_windows(&mut self) -> RunStopReason {
        loop {
            deliver_mail(&mut self.fabric.shards);
            let target = self.until.min(self.next_action());
            let first = self.fabric.shards.iter().map(|shard| shard.earliest()).min();
            let first = first.unwrap_or(Picos::NEVER);
            if first == Picos::NEVER && self.next_action() > self.until {
                return RunStopReason::Idle;
            }
            if first > target {
                self.fabric.advance_to(self.fabric.now.max(target));
                if self.next_action() > self.fabric.now {
                    return RunStopReason::TimeReached;
                }
                self.act();
                continue;
            }
            if let Some(reason) = self.fabric.reached_limit(first) {
                return reason;
            }
            let window = Window::until(
                first,
                self.fabric.shards[0].pending.end_of_interval(first),
                target,
            );
            let stop = match self.fabric.shards.len() {
                1 => {
                    self.fabric.settle_frames_in_flight(first);
                    self.run_window(window)
                }
                _ => {
                    let stop = self.run_window_or_batch(window, target);
                    self.fabric.settle_closed_slices();
                    stop
                }
            };
            self.pass_records();
            if let Some(reason) = stop {
                return reason;
            }
        }
    }

    /// Processes a batch of windows up to the time `target`, or only the first one. Returns a reason if the run ends
    /// here. The batch can end early, so that completions in the next window act on all hosts.
    fn run_window_or_batch(&mut self, first: Window, target: Picos) -> Option<RunStopReason> {
        let windows = self.fabric.batch_windows();
        if windows < 2 || !self.fabric.shards[0].observed.is_none() || !self.completions_are_local(first) {
            return self.run_window(first);
        }
        let interval = self.fabric.shards[0].pending.interval();
        let result = self.run_phase(WindowPhase::Batch(WindowBatch {
            first,
            interval,
            target,
            windows,
        }));
        self.fabric.windows += u64::from(result.windows_with_events.count_ones());
        self.fabric.now = self.fabric.now.max(result.latest);
        result.is_stuck.then_some(RunStopReason::Stuck)
    }

    /// Processes a window. Returns a reason if the run ends here.
    fn run_window(&mut self, window: Window) -> Option<RunStopReason> {
        self.fabric.windows += 1;
        let (mut latest, mut stop, mut is_stuck) = (self.fabric.now, None, false);
        let result = if self.completions_are_local(window) {
            self.run_phase(WindowPhase::WholeWindow(window, HostWindow::WithLocalCompletions))
        } else if !self.fabric.hosts_linked
            && self
                .run_phase(WindowPhase::PrepareAndCheck(window))
                .has_no_completion
        {
            self.run_phase(WindowPhase::HostsAndSwitches(
                window,
                HostWindow::WithoutCompletions,
            ))
        } else {
            if self.fabric.hosts_linked {
                self.run_phase(WindowPhase::Prepare(window));
            }
            self.fabric.joint_windows += 1;
            let hosts = self.run_hosts_jointly(window);
            latest = latest.max(hosts.latest);
            is_stuck = hosts.is_stuck;
            let mut shortened = window;
            if let Some(key) = hosts.end {
                shortened.limit = key;
                stop = Some(RunStopReason::Completion);
            }
            self.run_phase(WindowPhase::Switches(shortened))
        };
        let latest = latest.max(result.latest);
        match self.fabric.shards.len() {
            1 => self.fabric.advance_to(latest),
            // Threads set the time of their shards.
            _ => self.fabric.now = latest,
        }
        match is_stuck || result.is_stuck {
            true => Some(RunStopReason::Stuck),
            false => stop,
        }
    }

    fn run_phase(&mut self, phase: WindowPhase) -> PhaseResult {
        let shards = &mut self.fabric.shards;
        self.workers
            .run_phase(shards, phase, self.layout, &mut self.handler)
    }

    /// Returns whether each completion of the window acts only on the host at which it occurs.
    fn completions_are_local(&mut self, window: Window) -> bool {
        // The order of requests is visible in their identifiers.
        if self.fabric.hosts_linked || self.fabric.shards[0].observed.completions {
            return false;
        }
        let (shards, layout) = (&self.fabric.shards, self.layout);
        let mut misses_messages = |host: usize, messages| {
            let position = layout.hosts[host];
            let shard = &shards[position.shard as usize];
            Some(shard.misses_messages(position.local as usize, messages, window.limit))
        };
        self.handler
            .with(|handler| handler.completions_are_local(0, &mut misses_messages))
    }

    fn next_action(&mut self) -> Picos {
        self.handler.with(|handler| handler.next_action())
    }

    /// Lets the handler act at the current model time, between two windows.
    fn act(&mut self) {
        let records = &mut self.fabric.joint_records;
        records.begin_partition();
        records.begin_event(first_key_after(self.fabric.now) - 1);
        let mut hosts = FabricHosts {
            layout: self.layout,
            shards: AccessibleShards::All(&mut self.fabric.shards),
            now: self.fabric.now,
            observer: records,
        };
        self.handler.with(|handler| handler.act(&mut hosts));
        self.pass_records();
    }

    /// Processes the events of all hosts in a window, in one order.
    fn run_hosts_jointly(&mut self, window: Window) -> JointHosts {
        let Fabric {
            shards,
            joint_records: records,
            ..
        } = &mut *self.fabric;
        let layout = self.layout;
        self.handler
            .with(|handler| run_joint_window(shards, layout, window, handler, records))
    }

    /// Passes the recorded events of the window to the observer.
    fn pass_records(&mut self) {
        let Fabric {
            shards,
            joint_records,
            record_order,
            ..
        } = &mut *self.fabric;
        if shards[0].observed.is_none() {
            debug_assert!(joint_records.is_empty() && shards.iter().all(|shard| shard.records.is_empty()));
            return;
        }
        let mut records = vec![joint_records];
        records.extend(shards.iter_mut().map(|shard| &mut shard.records));
        pass_records_to(self.observer, &mut records, record_order);
    }
}

/// The result of [`WindowRun::run_hosts_jointly`].
#[derive(Debug, Default)]
struct JointHosts {
    /// Time of the last event, or zero.
    latest: Picos,
    /// Key of the event after which the run ends.
    end: Option<u128>,
    is_stuck: bool,
}

/// Processes the events of all hosts in a window, in one order. The handler acts after each event with a completion.
fn run_joint_window(
    shards: &mut [Shard],
    layout: &Layout,
    window: Window,
    handler: &mut dyn CompletionHandler,
    records: &mut EventRecords,
) -> JointHosts {
    for shard in shards.iter_mut() {
        shard.open_joint_window(window);
    }
    records.begin_partition();
    let mut result = JointHosts::default();
    let mut simultaneous_events = 0;
    let mut action = handler.next_action();
    loop {
        let next = shards.iter().map(|shard| shard.pending.next_in_window());
        let Some((index, next)) = next.enumerate().min_by_key(|(_, event)| event.key()) else {
            break;
        };
        if action < next.at && first_key_after(action) < window.limit {
            records.begin_event(first_key_after(action) - 1);
            result.latest = action;
            handler.act(&mut FabricHosts {
                layout,
                shards: AccessibleShards::All(shards),
                now: action,
                observer: records,
            });
            action = handler.next_action();
            continue;
        }
        if next == Event::NONE {
            break;
        }
        simultaneous_events = match next.at > result.latest {
            true => 0,
            false => simultaneous_events + 1,
        };
        if simultaneous_events > SIMULTANEOUS_EVENTS_MAX {
            result.is_stuck = true;
            break;
        }
        result.latest = next.at;
        let shard = &mut shards[index];
        shard.pending.take_event();
        shard.set_time(next.at);
        records.begin_event(next.key());
        if !shard.process_event(next, RouteHint::NONE, records) {
            continue;
        }
        let flow = handler.handle_completions(&mut FabricHosts {
            layout,
            shards: AccessibleShards::All(shards),
            now: next.at,
            observer: records,
        });
        if flow == ControlFlow::Break(()) {
            result.end = Some(next.key());
            break;
        }
        action = handler.next_action();
    }
    for shard in shards.iter_mut() {
        shard.close_window();
    }
    result
}
