//! Pending events of a shard, in one order or separately for each partition (a switch or a group of hosts).
//!
//! A frame needs at least one link delay from one node to the next. The shortest link delay is the
//! *lookahead*, a term of conservative parallel simulation. The events of a node within the lookahead do not
//! depend on other nodes. Each partition can therefore process the events of a time window alone. The state,
//! tables and code of the partition stay in the caches, and few events are pending. The results do not
//! change. The events that observers want to see are recorded and sorted at the end of the window.
//!
//! If a completion may change any host, all hosts form one partition for this window.

use std::ops::Range;

use xoff_dataplane::route::RouteHint;
use xoff_units::{Picos, prefetch};

use super::event_queue::{Event, EventQueue, first_key_at};
use super::event_window::EventWindow;
use super::far_events::FarEvents;
use super::partition_calendar::{FROM_FAR, PartitionCalendar};

/// Pending events of a partition after its window, except the far events. The struct is in one cache line, because
/// every frame to another partition accesses such a struct.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct EventsAfterWindow {
    /// Time of the earliest event, including far events. [`Picos::NEVER`] if no event exists.
    first: Picos,
    /// Time of the earliest far event, so that most windows do not access the list of far events. [`Picos::NEVER`] if
    /// no far event exists.
    first_far: Picos,
    /// Events of the next windows, unsorted. Nearly all of these events are arrivals of frames. Each event is
    /// read once or twice. A heap would need several comparisons for each event.
    near: Vec<Event>,
}

const _: () = assert!(size_of::<EventsAfterWindow>() == 64);

impl EventsAfterWindow {
    const EMPTY: EventsAfterWindow = EventsAfterWindow {
        first: Picos::NEVER,
        first_far: Picos::NEVER,
        near: Vec::new(),
    };
}

/// Number of windows for which events are near. Later events are far.
const NEAR_WINDOWS: u64 = 4;
/// Number of frames of minimum length on the fastest link in the time after which an event is far from another one
/// ([`PendingEvents::is_far_from`]).
const FAR_FRAMES: u64 = 1_024;

/// Pending events of a shard.
#[derive(Clone, Debug)]
pub(super) struct PendingEvents {
    /// Events of all partitions if they are processed in one order. Empty otherwise.
    in_order: EventQueue,
    /// Events of the current window if partitions are processed separately.
    window: EventWindow,
    /// Near events of each partition, after the current window.
    later: Vec<EventsAfterWindow>,
    /// Partitions by the time of their earliest event. Empty if all events are processed in one order.
    calendar: PartitionCalendar,
    /// Far events of each partition.
    far: Vec<FarEvents>,
    /// Events before this time are near, and all other events are far.
    near_until: Picos,
    /// See [`PendingEvents::is_far_from`].
    far_after: Picos,
    is_partitioned: bool,
    /// Partitions whose window is being processed, usually one.
    open: Range<usize>,
    /// Event key at the end of the current window. Events below this key belong to the window.
    limit: u128,
}

impl PendingEvents {
    /// Creates an empty set for `partitions` partitions. `frame` is the time of the shortest frame on the
    /// fastest link. `lookahead` is the longest window that the links allow.
    pub(super) fn new(partitions: usize, frame: Picos, lookahead: Picos) -> PendingEvents {
        let window = EventWindow::new(frame, lookahead);
        PendingEvents {
            in_order: EventQueue::default(),
            calendar: PartitionCalendar::new(partitions, lookahead.min(window.span())),
            window,
            later: vec![EventsAfterWindow::EMPTY; partitions],
            far: vec![FarEvents::new(); partitions],
            near_until: Picos::ZERO,
            far_after: Picos(FAR_FRAMES << frame.0.max(1).ilog2().min(48)),
            is_partitioned: true,
            open: 0..0,
            limit: 0,
        }
    }

    /// Returns the longest possible window.
    pub(super) fn window_max(&self) -> Picos {
        self.window.span()
    }

    /// Returns the length of the intervals into which time is divided ([`PendingEvents::end_of_interval`]).
    pub(super) fn interval(&self) -> Picos {
        self.calendar.interval()
    }

    /// Selects one order for all events, instead of separate partitions.
    pub(super) fn use_one_order(&mut self) {
        self.is_partitioned = false;
        for (later, far) in self.later.iter_mut().zip(&mut self.far) {
            let events = later.near.drain(..).chain(far.remove_all());
            events.for_each(|event| self.in_order.push(event));
            (later.first, later.first_far) = (Picos::NEVER, Picos::NEVER);
        }
        self.calendar.clear();
    }

    /// Adds an event of a partition. This function is inlined because each caller nearly always takes the
    /// same branch.
    #[inline(always)]
    pub(super) fn push(&mut self, partition: usize, event: Event) {
        if event.key() < self.limit && self.open.contains(&partition) {
            self.window.push(event);
        } else if self.is_partitioned {
            self.push_after_window(partition, event);
        } else {
            self.in_order.push(event);
        }
    }

    #[inline(always)]
    fn push_after_window(&mut self, partition: usize, event: Event) {
        let later = &mut self.later[partition];
        if event.at < later.first {
            later.first = event.at;
            self.calendar.add(partition as u32, event.at);
        }
        match event.at < self.near_until {
            true => later.near.push(event),
            false => {
                later.first_far = later.first_far.min(event.at);
                self.far[partition].push(event);
            }
        }
    }

    /// Returns whether an event at `at` comes long after `now`. The result does not depend on the windows, so runs in
    /// one order and in windows have the same events.
    #[inline]
    pub(super) fn is_far_from(&self, now: Picos, at: Picos) -> bool {
        at >= now.saturating_add(self.far_after)
    }

    /// Removes all events and releases their memory.
    pub(super) fn discard_all(&mut self) {
        self.in_order = EventQueue::default();
        self.later.fill(EventsAfterWindow::EMPTY);
        self.far.fill(FarEvents::new());
        self.calendar.clear();
    }

    /// Removes all events of a partition for which `is_removed` is true, and returns them unsorted.
    pub(super) fn remove(&mut self, partition: usize, is_removed: impl Fn(Event) -> bool) -> Vec<Event> {
        let mut removed = Vec::new();
        let mut stays = |event: &Event| {
            let goes = is_removed(*event);
            if goes {
                removed.push(*event);
            }
            !goes
        };
        if !self.is_partitioned {
            let events = self.in_order.drain().into_iter();
            events.filter(stays).for_each(|event| self.in_order.push(event));
            return removed;
        }
        let (later, far) = (&mut self.later[partition], &mut self.far[partition]);
        later.near.retain(&mut stays);
        let events = far.remove_all().into_iter();
        events.filter(stays).for_each(|event| far.push(event));
        let near = later.near.iter().map(|event| event.at).min();
        later.first_far = far.first().at;
        later.first = near.unwrap_or(Picos::NEVER).min(later.first_far);
        self.rebuild_calendar();
        removed
    }

    /// Returns all events, unsorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let near = self.later.iter().flat_map(|later| later.near.iter().copied());
        let far = self.far.iter().flat_map(FarEvents::iter);
        self.in_order.iter().chain(near).chain(far)
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        match self.is_partitioned {
            true => {
                let near = self.later.iter().map(|later| later.near.len());
                near.chain(self.far.iter().map(FarEvents::len)).sum()
            }
            false => self.in_order.len(),
        }
    }

    /// Fetches the beginning of the memory of a partition, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self, partition: usize) {
        prefetch(&self.later[partition]);
    }

    /// Fetches the near events of a partition, without waiting for them.
    #[inline]
    pub(super) fn prefetch_events(&self, partition: usize) {
        if let Some(event) = self.later[partition].near.first() {
            prefetch(event);
        }
    }

    /// Returns the events of a partition, except far ones, unsorted.
    #[inline]
    pub(super) fn near_events(&self, partition: usize) -> &[Event] {
        &self.later[partition].near
    }

    /// Returns the time of the earliest event.
    pub(super) fn earliest(&self) -> Option<Picos> {
        match self.is_partitioned {
            true => Some(self.calendar.earliest()).filter(|at| *at != Picos::NEVER),
            false => self.in_order.earliest(),
        }
    }

    /// Fills the calendar again from all partitions. The earliest event of a partition can be later than before.
    fn rebuild_calendar(&mut self) {
        self.calendar.clear();
        for (partition, later) in self.later.iter().enumerate() {
            if later.first != Picos::NEVER {
                self.calendar.add(partition as u32, later.first);
            }
        }
    }

    /// Takes the partitions that have events in an interval into `partitions`, in ascending order. `end` is the end of
    /// the interval, and no event is in an earlier interval. The caller must open a window of each partition, or call
    /// [`PendingEvents::keep_if_due`]. Used only if partitions run separately.
    pub(super) fn take_partitions_before(&mut self, end: Picos, partitions: &mut Vec<u32>) {
        partitions.clear();
        if self.calendar.earliest() >= end {
            return;
        }
        let interval_end = self.calendar.take_earliest(partitions);
        debug_assert_eq!(interval_end, Some(end));
        partitions.retain_mut(|partition| {
            let is_from_far = *partition & FROM_FAR != 0;
            *partition &= !FROM_FAR;
            let first = self.later[*partition as usize].first;
            // The events of some partitions were processed with an earlier window.
            if first >= end && is_from_far && first != Picos::NEVER {
                self.calendar.add(*partition, first);
            }
            first < end
        });
        partitions.sort_unstable();
        partitions.dedup();
    }

    /// Returns whether a partition from [`PendingEvents::take_partitions_before`] can have an event with a key
    /// below `limit`. If not, the partition waits for the next call of that method.
    pub(super) fn keep_if_due(&mut self, partition: u32, limit: u128) -> bool {
        let first = self.later[partition as usize].first;
        let is_due = first_key_at(first) < limit;
        if !is_due && first != Picos::NEVER {
            self.calendar.add(partition, first);
        }
        is_due
    }

    /// Returns the end of the interval that contains the time `at`. A window never extends over the end of
    /// an interval.
    pub(super) fn end_of_interval(&self, at: Picos) -> Picos {
        self.calendar.end_of_interval(at)
    }

    /// Returns whether all events of a partition with a key below `limit` satisfy a condition. Used only if
    /// partitions run separately.
    pub(super) fn all_before(
        &self,
        partition: usize,
        limit: u128,
        mut condition: impl FnMut(Event) -> bool,
    ) -> bool {
        let later = &self.later[partition];
        let mut fits = |event: Event| event.key() >= limit || condition(event);
        let has_far_events = first_key_at(later.first_far) < limit;
        later.near.iter().all(|event| fits(*event))
            && (!has_far_events || self.far[partition].iter().all(fits))
    }

    /// Sets the time at which the next windows start. New events shortly after this time count as near
    /// events, and later events as far events.
    pub(super) fn begin_windows(&mut self, begin: Picos) {
        self.near_until = begin.saturating_add(Picos(NEAR_WINDOWS * self.window_max().0));
    }

    /// Opens a window of the partitions `open`. The window contains their events from the time `begin` up to
    /// the key `limit`. `filled` contains all partitions of `open` that have such events. A window lasts at most
    /// [`PendingEvents::window_max`]. The method first calls `prefetch` with each event. Then the method calls
    /// `route_hint` with each event and stores the results with the events. Used only if partitions run
    /// separately.
    pub(super) fn open_window(
        &mut self,
        (open, filled): (Range<usize>, &[u32]),
        begin: Picos,
        limit: u128,
        mut prefetch: impl FnMut(Event),
        route_hint: impl FnMut(Event) -> RouteHint,
    ) {
        (self.open, self.limit) = (open, limit);
        self.window.begin_at(begin);
        for partition in filled {
            self.fill_window(*partition as usize, &mut prefetch);
        }
        self.window.open(route_hint);
    }

    /// Moves the events that belong to the window from a partition into the window.
    fn fill_window(&mut self, partition: usize, prefetch: &mut impl FnMut(Event)) {
        let later = &mut self.later[partition];
        let near = &mut later.near;
        let (mut remaining, mut first_remaining) = (0, Picos::NEVER);
        for index in 0..near.len() {
            let event = near[index];
            if event.key() < self.limit {
                prefetch(event);
                self.window.fill(event);
            } else {
                near[remaining] = event;
                remaining += 1;
                first_remaining = first_remaining.min(event.at);
            }
        }
        near.truncate(remaining);
        if first_key_at(later.first_far) < self.limit {
            let far = &mut self.far[partition];
            while far.first().key() < self.limit {
                let event = far.first();
                prefetch(event);
                self.window.fill(event);
                far.remove_first();
            }
            later.first_far = far.first().at;
        }
        first_remaining = first_remaining.min(later.first_far);
        later.first = first_remaining;
        if first_remaining != Picos::NEVER {
            self.calendar.add(partition as u32, first_remaining);
        }
    }

    /// Returns the next event of the window, or [`Event::NONE`].
    #[inline]
    pub(super) fn next_in_window(&self) -> Event {
        self.window.earliest()
    }

    /// Takes the next event of the window, with its route hint. Returns `None` if the window is empty.
    #[inline]
    pub(super) fn take_event(&mut self) -> Option<(Event, RouteHint)> {
        self.window.take_earliest()
    }

    /// Closes the window. Events that were not taken remain pending. `partition_of` returns the partition of
    /// an event.
    pub(super) fn close_window(&mut self, partition_of: impl Fn(Event) -> usize) {
        (self.open, self.limit) = (0..0, 0);
        while let Some((left, _)) = self.window.take_earliest() {
            self.push_after_window(partition_of(left), left);
        }
    }

    /// Returns the earliest event of all partitions if the event is not later than `until`. Used only if all
    /// events are processed in one order. See [`EventQueue::peek`].
    #[inline]
    pub(super) fn peek(&mut self, until: Picos) -> Option<Event> {
        self.in_order.peek(until)
    }

    /// Removes the event that [`PendingEvents::peek`] has returned.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.in_order.pop();
    }
}
