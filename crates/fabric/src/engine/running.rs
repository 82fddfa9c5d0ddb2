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

/// Shortest lookahead with which partitions run separately. With a shorter lookahead (the length of a
/// window), many windows would contain no event.
const LOOKAHEAD_MIN: Picos = Picos::from_nanos(100);

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
        let partitioned = self.lookahead >= LOOKAHEAD_MIN
            && self.insertions.is_none()
            && self.events_max == u64::MAX
            && !observer.needs_total_order();
        let (partitions, directions) = (self.partitions, &self.directions);
        self.pending.set_partitioned(partitioned, |event| {
            partition_of_source(partitions, directions, event.rank())
        });
        match partitioned {
            true => self.run_partitioned(until, observer),
            false => self.run_in_order(until, observer),
        }
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
            if self.events >= self.events_max {
                return RunStopReason::EventLimit;
            }
            self.pending.pop();
            self.advance_to(event.at);
            if self.process_event(event, RouteHint::NONE, observer) {
                return RunStopReason::Completion;
            }
        }
    }

    /// Does the work of [`Fabric::run`] window by window. In each window, one partition after the other
    /// processes its events (see [`super::pending`]).
    fn run_partitioned(&mut self, until: Picos, observer: &mut impl Observer) -> RunStopReason {
        loop {
            let Some(first) = self.pending.earliest() else {
                return RunStopReason::Idle;
            };
            if first > until {
                self.advance_to(self.now.max(until));
                return RunStopReason::TimeReached;
            }
            self.store.in_flight.settle(first);
            self.pending.begin_windows(first);
            // Frames that leave for another partition from now on arrive after the lookahead.
            let span = self.lookahead.min(self.pending.window_max());
            let mut limit = first_key_at(first.saturating_add(span)).min(first_key_after(until));
            let mut latest = self.now;
            let mut halt = None;
            let groups = self.partitions.host_group_count();
            let hosts_are_separate = self.no_completion_before(limit);
            let mut partition = 0;
            while partition < self.pending.partition_count() {
                let partitions = match partition < groups && !hosts_are_separate {
                    true => partition..groups,
                    false => partition..partition + 1,
                };
                partition = partitions.end;
                if !partitions
                    .clone()
                    .any(|partition| self.pending.has_before(partition, limit))
                {
                    continue;
                }
                match self.run_partitions(partitions, first, limit, observer) {
                    Ok(at) => latest = latest.max(at),
                    Err(PartitionStopReason::Stuck) => halt = Some(RunStopReason::Stuck),
                    Err(PartitionStopReason::Completed(event)) => {
                        debug_assert!(!hosts_are_separate, "{event:?} has completed something");
                        (limit, latest) = (event.key(), event.at);
                        halt = Some(RunStopReason::Completion);
                    }
                }
            }
            self.advance_to(latest);
            if let Some(halt) = halt {
                return halt;
            }
        }
    }

    /// Returns whether no event before `limit` can cause a completion at a host. All frames that arrive
    /// before `limit` are already pending, because they left at least one link delay ago. An acknowledgement
    /// in this window therefore belongs to a packet that was sent before the window.
    fn no_completion_before(&self, limit: u128) -> bool {
        let until = time_of_key(limit);
        let causes_no_completion = |event: Event| {
            !is_arrival(event) || self.store.completes_no_message(FrameHandle(event.payload()))
        };
        let mut groups =
            (0..self.partitions.host_group_count()).filter(|group| self.pending.has_before(*group, limit));
        !self.hosts_linked
            && groups.all(|group| {
                let hosts = &self.hosts[self.partitions.hosts_in_group(group, self.hosts.len())];
                hosts
                    .iter()
                    .all(|node| node.host.completes_no_message_before(until))
                    && self.pending.all_before(group, limit, causes_no_completion)
            })
    }

    /// Processes the events of some partitions, from the time `begin` up to the key `limit`. Returns the time
    /// of the last event, or the reason why the partitions did not process the whole window.
    fn run_partitions(
        &mut self,
        partitions: Range<usize>,
        begin: Picos,
        limit: u128,
        observer: &mut impl Observer,
    ) -> Result<Picos, PartitionStopReason> {
        let (mut at, mut simultaneous_events) = (Picos::ZERO, 0);
        let mut result = Ok(());
        let is_host_group = partitions.start < self.partitions.host_group_count();
        let store = &self.store;
        let prefetch = |event| {
            if is_arrival(event) {
                store.prefetch(FrameHandle(event.payload()), is_host_group);
            }
        };
        let switch = match is_host_group {
            true => None,
            false => self
                .switches
                .get(partitions.start - self.partitions.host_group_count()),
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
            .open_window(partitions, begin, limit, prefetch, route_hint);
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
                result = Err(PartitionStopReason::Completed(event));
                break;
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
