//! The event loop. It processes all events in one order, or it processes a time window for one partition
//! after the other (see [`pending`](crate::pending)).

use std::ops::Range;

use xoff_dataplane::route::RouteHint;
use xoff_dataplane::{FrameHandle, Picos};

use super::{
    Fabric, HOST_FLAG, HOST_INDEX_MASK, RunStopReason, SIMULTANEOUS_EVENTS_MAX, SWITCH_FLAG, TIMER_BITS,
    is_arrival,
};
use crate::event_queue::{Event, first_key_after, first_key_at, time_of_key};
use crate::link_direction::LinkDirection;
use crate::observer::Observer;
use crate::partitions::Partitions;
use crate::plan::LinkEnd;
pub use xoff_workload::CompletionScope;

/// Shortest lookahead with which partitions run separately. With a shorter lookahead (the length of a
/// window), many windows would contain no event.
const LOOKAHEAD_MIN: Picos = Picos::from_nanos(100);

/// Handles the completions of hosts during [`Fabric::run_with`].
pub trait CompletionHandler {
    /// Returns the effect of completions in the next window. A window is shorter than the time of a frame from one host
    /// to another.
    fn scope(&self) -> CompletionScope;

    /// Returns whether no step of a job ends in the next window. Called only with
    /// [`CompletionScope::CompletingHostUntilStepEnds`]. `misses_messages` returns whether a host certainly receives
    /// fewer than a number of messages in the window. One such host for each job is enough. `false` means that the
    /// end is possible.
    fn no_step_ends(&mut self, misses_messages: impl FnMut(usize, u64) -> bool) -> bool;

    /// Takes the completions ([`Fabric::take_completions`]) and acts on them. Called during a window in which
    /// completions act only on the host at which they occur.
    fn handle_completions(&mut self, fabric: &mut Fabric, observer: &mut impl Observer);
}

/// Handles no completion: the run ends at each completion.
impl CompletionHandler for () {
    fn scope(&self) -> CompletionScope {
        CompletionScope::AllHosts
    }

    fn no_step_ends(&mut self, _misses_messages: impl FnMut(usize, u64) -> bool) -> bool {
        false
    }

    fn handle_completions(&mut self, _fabric: &mut Fabric, _observer: &mut impl Observer) {}
}

/// How the hosts process a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostWindow {
    /// No completion can occur. Each group of hosts is a partition.
    WithoutCompletions,
    /// Each group of hosts is a partition. The handler acts on completions at once.
    WithLocalCompletions,
    /// A completion can act on any host. All hosts form one partition, which stops after a completion.
    Joint,
}

/// A time window that some partitions process.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Picos,
    /// Key of the first event after the window.
    limit: u128,
    hosts: HostWindow,
}

/// Reason why a partition has not processed its whole window.
enum PartitionStopReason {
    /// This event has completed a request of a host.
    Completed(Event),
    /// See [`RunStopReason::Stuck`].
    Stuck,
}

impl Fabric {
    /// Processes all events up to and including the time `until`.
    ///
    /// Returns earlier if a host has a completion, if no event is left, or if a limit is reached. After a
    /// completion, all earlier events have been processed, and all later events are pending.
    pub fn run(&mut self, until: Picos, observer: &mut impl Observer) -> RunStopReason {
        self.run_with(until, &mut (), observer)
    }

    /// Processes all events up to and including the time `until`, like [`Fabric::run`]. Completions that act
    /// only on their host do not end the run: `handler` handles them.
    pub fn run_with(
        &mut self,
        until: Picos,
        handler: &mut impl CompletionHandler,
        observer: &mut impl Observer,
    ) -> RunStopReason {
        let partitioned =
            self.lookahead >= LOOKAHEAD_MIN && self.insertions.is_none() && !observer.needs_total_order();
        let (partitions, directions) = (self.partitions, &self.directions);
        self.pending.set_partitioned(partitioned, |event| {
            partition_of_source(partitions, directions, event.rank())
        });
        if !partitioned {
            return self.run_in_order(until, observer);
        }
        let mut due = std::mem::take(&mut self.due_partitions);
        let reason = self.run_partitioned(until, &mut due, handler, observer);
        self.due_partitions = due;
        reason
    }

    /// Does the work of [`Fabric::run`] in the total order of events.
    fn run_in_order(&mut self, until: Picos, observer: &mut impl Observer) -> RunStopReason {
        let mut simultaneous_events = 0;
        loop {
            let Some(event) = self.pending.peek(until) else {
                if self.pending.len() == 0 {
                    return RunStopReason::Idle;
                }
                self.advance_to(self.now.max(until));
                return RunStopReason::TimeReached;
            };
            simultaneous_events = if event.at > self.now {
                0
            } else {
                simultaneous_events + 1
            };
            if simultaneous_events > SIMULTANEOUS_EVENTS_MAX {
                return RunStopReason::Stuck;
            }
            if self.has_reached_event_limit(event.at) {
                return RunStopReason::EventLimit;
            }
            self.pending.pop();
            self.advance_to(event.at);
            if self.process_event(event, RouteHint::NONE, observer) {
                return RunStopReason::Completion;
            }
        }
    }

    /// Returns whether the limit of events has been reached before the next event, which is at the time `at`.
    /// Checks the limit only once for each window, so the result does not depend on the order of partitions.
    #[inline]
    fn has_reached_event_limit(&mut self, at: Picos) -> bool {
        if at < self.events_checked_until {
            return false;
        }
        if self.events >= self.events_max {
            return true;
        }
        self.events_checked_until = self.pending.end_of_interval(at);
        false
    }

    /// Does the work of [`Fabric::run_with`] window by window. In each window, one partition after the other
    /// processes its events (see [`super::pending`]). `due` is a buffer for the partitions of a window.
    fn run_partitioned(
        &mut self,
        until: Picos,
        due: &mut Vec<u32>,
        handler: &mut impl CompletionHandler,
        observer: &mut impl Observer,
    ) -> RunStopReason {
        loop {
            let Some(first) = self.pending.earliest() else {
                return RunStopReason::Idle;
            };
            if first > until {
                self.advance_to(self.now.max(until));
                return RunStopReason::TimeReached;
            }
            if self.has_reached_event_limit(first) {
                return RunStopReason::EventLimit;
            }
            self.store.in_flight.settle(first);
            self.pending.begin_windows(first);
            // Frames that leave for another partition from now on arrive after the end of the interval.
            let end = self.pending.take_next_partitions(due);
            let limit = first_key_at(end).min(first_key_after(until));
            let pending = &mut self.pending;
            due.retain(|partition| pending.keep_if_due(*partition, limit));
            if let Some(reason) = self.run_window(first, limit, due, handler, observer) {
                return reason;
            }
        }
    }

    /// Processes a window, which begins at the time `begin` and ends before the key `limit`. `due` contains
    /// the partitions with events in the window, in ascending order. Returns a reason if the run ends here.
    fn run_window(
        &mut self,
        begin: Picos,
        limit: u128,
        due: &[u32],
        handler: &mut impl CompletionHandler,
        observer: &mut impl Observer,
    ) -> Option<RunStopReason> {
        let groups = self.partitions.host_group_count();
        let host_groups = due.partition_point(|partition| (*partition as usize) < groups);
        let completions_are_local = !self.hosts_linked
            && match handler.scope() {
                CompletionScope::AllHosts => false,
                CompletionScope::CompletingHost => true,
                CompletionScope::CompletingHostUntilStepEnds => {
                    handler.no_step_ends(|host, messages| self.misses_messages(host, messages, limit))
                }
            };
        self.windows += 1;
        let hosts = if completions_are_local {
            HostWindow::WithLocalCompletions
        } else if self.no_completion_before(limit, &due[..host_groups]) {
            HostWindow::WithoutCompletions
        } else {
            self.joint_windows += 1;
            HostWindow::Joint
        };
        let mut window = Window { begin, limit, hosts };
        let (mut latest, mut stop) = (self.now, None);
        let mut next = 0;
        while let Some(partition) = due.get(next).map(|partition| *partition as usize) {
            let (open, count) = match partition < groups && hosts == HostWindow::Joint {
                true => (0..groups, host_groups),
                false => (partition..partition + 1, 1),
            };
            let filled = &due[next..next + count];
            next += count;
            // After a completion, the window ends earlier.
            if window.limit != limit && !self.pending.keep_if_due(partition as u32, window.limit) {
                continue;
            }
            match self.run_partitions((open, filled), window, handler, observer) {
                Ok(at) => latest = latest.max(at),
                Err(PartitionStopReason::Stuck) => stop = Some(RunStopReason::Stuck),
                Err(PartitionStopReason::Completed(event)) => {
                    debug_assert_eq!(hosts, HostWindow::Joint, "{event:?} has completed something");
                    (window.limit, latest) = (event.key(), event.at);
                    stop = Some(RunStopReason::Completion);
                }
            }
        }
        self.advance_to(latest);
        stop
    }

    /// Returns whether no event before `limit` can cause a completion at a host. All frames that arrive
    /// before `limit` are already pending, because they left at least one link delay ago. An acknowledgement
    /// in this window therefore belongs to a packet that was sent before the window. `host_groups` contains the
    /// groups of hosts that have events before `limit`.
    fn no_completion_before(&self, limit: u128, host_groups: &[u32]) -> bool {
        let until = time_of_key(limit);
        let causes_no_completion = |event: Event| {
            !is_arrival(event) || self.store.completes_no_message(FrameHandle(event.payload()))
        };
        !self.hosts_linked
            && host_groups.iter().all(|group| {
                let group = *group as usize;
                let hosts = &self.hosts[self.partitions.hosts_in_group(group, self.hosts.len())];
                hosts
                    .iter()
                    .all(|node| node.host.completes_no_message_before(until))
                    && self.pending.all_before(group, limit, causes_no_completion)
            })
    }

    /// Returns whether a host certainly receives fewer than `messages` messages before `limit`. All frames that arrive
    /// before `limit` are already pending, and only last packets complete messages. If a queue pair stores packets
    /// behind a gap, any packet can complete messages, and the result is `false`.
    fn misses_messages(&self, host: usize, messages: u64, limit: u128) -> bool {
        if !self.hosts[host].host.endpoint().receives_messages_in_order() {
            return false;
        }
        let mut last_packets = 0;
        let to = LinkEnd::Host(host as u32);
        self.pending
            .all_before(self.partitions.host_partition(host), limit, |event| {
                let may_complete = is_arrival(event)
                    && self.directions[event.rank() as usize].to == to
                    && !self.store.completes_no_message(FrameHandle(event.payload()));
                last_packets += u64::from(may_complete);
                last_packets < messages
            })
    }

    /// Processes the events of the partitions `open` in a window. `filled` contains all partitions of `open`
    /// that have events in the window. Returns the time of the last event, or the reason why the partitions did
    /// not process the whole window.
    fn run_partitions(
        &mut self,
        (open, filled): (Range<usize>, &[u32]),
        window: Window,
        handler: &mut impl CompletionHandler,
        observer: &mut impl Observer,
    ) -> Result<Picos, PartitionStopReason> {
        let (mut at, mut simultaneous_events) = (Picos::ZERO, 0);
        let mut result = Ok(());
        let is_host_group = open.start < self.partitions.host_group_count();
        let store = &self.store;
        let prefetch = |event| {
            if is_arrival(event) {
                store.prefetch(FrameHandle(event.payload()), is_host_group);
            }
        };
        let switch = match is_host_group {
            true => None,
            false => self.switches.get(open.start - self.partitions.host_group_count()),
        };
        // A window contains many frames to few destinations.
        let mut cached = [(0, RouteHint::NONE); CACHED_ROUTES];
        let route_hint = |event| {
            let arrival = switch.filter(|_| is_arrival(event));
            let (Some(node), Some(to)) = (arrival, store.destination(FrameHandle(event.payload()))) else {
                return RouteHint::NONE;
            };
            let slot = &mut cached[route_cache_slot(to)];
            if slot.0 != to || slot.1 == RouteHint::NONE {
                *slot = (to, node.switch.lookup_route_hint(to));
            }
            slot.1
        };
        self.pending
            .open_window((open, filled), window.begin, window.limit, prefetch, route_hint);
        while let Some((event, route_hint)) = self.pending.take_event() {
            simultaneous_events = if event.at > at { 0 } else { simultaneous_events + 1 };
            if simultaneous_events > SIMULTANEOUS_EVENTS_MAX {
                result = Err(PartitionStopReason::Stuck);
                break;
            }
            at = event.at;
            self.now = at;
            self.store.in_flight.set_time(at);
            if self.process_event(event, route_hint, observer) {
                if window.hosts != HostWindow::WithLocalCompletions {
                    result = Err(PartitionStopReason::Completed(event));
                    break;
                }
                handler.handle_completions(self, observer);
            }
        }
        let (partitions, directions) = (self.partitions, &self.directions);
        self.pending
            .close_window(|event| partition_of_source(partitions, directions, event.rank()));
        result.map(|()| at)
    }

    /// Advances model time to `at`. All later calls must have the same or a later time.
    #[inline]
    pub(super) fn advance_to(&mut self, at: Picos) {
        self.now = at;
        self.store.in_flight.settle(at);
        self.store.in_flight.set_time(at);
    }
}

/// Number of destinations whose routes are cached while a window is opened.
const CACHED_ROUTES: usize = 64;

/// Returns the cache slot of a destination address. The address is multiplied by the golden ratio, so
/// neighbouring addresses have different slots.
#[inline]
fn route_cache_slot(destination: u32) -> usize {
    (destination.wrapping_mul(0x9e37_79b9) >> (u32::BITS - CACHED_ROUTES.ilog2())) as usize % CACHED_ROUTES
}

/// Returns the partition that processes the events of a source.
fn partition_of_source(partitions: Partitions, directions: &[LinkDirection], source: u32) -> usize {
    if source & SWITCH_FLAG != 0 {
        partitions.switch_partition(((source & !SWITCH_FLAG) >> TIMER_BITS) as usize)
    } else if source & HOST_FLAG != 0 {
        partitions.host_partition((source & HOST_INDEX_MASK) as usize)
    } else {
        directions[source as usize].to_partition as usize
    }
}
