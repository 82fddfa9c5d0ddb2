//! Calendar queue for the events of one short time window.
//!
//! The window is divided into very short time slots, so few slots contain more than one event. The whole
//! queue has a few kilobytes and stays in the first-level cache. If an event is alone in its slot, it is
//! added and taken without a comparison with other events.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use xoff_dataplane::route::RouteHint;
use xoff_units::Picos;

use super::event_queue::Event;

const SLOTS: usize = 2_048;
const WORDS: usize = SLOTS / 64;
const _: () = assert!(WORDS == u32::BITS as usize);
/// Binary logarithm of the largest number of slots in the time of the shortest frame on the fastest link. The smallest
/// number is 1.
const SLOTS_PER_FRAME_BITS: u32 = 3;
/// End of a list of events.
const NONE: u32 = u32::MAX;
/// Number of entries at which the entries of taken events are reused for the first time.
const ENTRIES_MAX: usize = 1 << 14;

/// An event, the index of the next event of its slot, and the prefetched route of the event.
#[derive(Clone, Copy, Debug)]
struct Entry {
    event: Event,
    next: u32,
    /// Index of the last event of the slot. Only valid in the first entry of a slot.
    last: u32,
    route_hint: RouteHint,
}

const _: () = assert!(size_of::<Entry>() == 32);

/// Largest number of events of a slot that an insertion passes. Further events wait in a heap. Without this limit, the
/// insertion of many events with equal times would be quadratic.
const STEPS_MAX: usize = 32;

/// An event of [`EventWindow::crowded`].
#[derive(Clone, Copy, Debug)]
struct CrowdedEvent {
    event: Event,
    route_hint: RouteHint,
}

impl Ord for CrowdedEvent {
    fn cmp(&self, other: &CrowdedEvent) -> Ordering {
        self.event.cmp(&other.event)
    }
}

impl PartialOrd for CrowdedEvent {
    fn partial_cmp(&self, other: &CrowdedEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CrowdedEvent {
    fn eq(&self, other: &CrowdedEvent) -> bool {
        self.event == other.event
    }
}

impl Eq for CrowdedEvent {}

/// Pending events of a window, sorted by time. After an event has been taken, no earlier event may be added.
#[derive(Clone, Debug)]
pub(super) struct EventWindow {
    /// The earliest event, or [`Event::NONE`]. The queue finds this event while the caller processes the
    /// previous event. The search takes five dependent loads and a branch that cannot be predicted. Without
    /// this overlap, it would delay the next event.
    next: Event,
    /// Route hint of the earliest event.
    route_hint: RouteHint,
    begin: Picos,
    /// The length of a slot is 2^`slot_bits` picoseconds.
    slot_bits: u32,
    /// Bit map of the slots. A bit is set if the slot has events.
    occupied: [u64; WORDS],
    /// Bit map of the words of `occupied`. A bit is set if the word is not 0.
    words: u32,
    /// Index in `entries` of the first event of each slot that has events.
    first: Box<[u32; SLOTS]>,
    /// Events in the order of insertion. The entry of a taken event stays in the list, but is not used again.
    entries: Vec<Entry>,
    /// Length of `entries` at which the entries of taken events are removed.
    entries_max: usize,
    /// Events of slots with many events, which are not in the lists of their slots.
    crowded: BinaryHeap<Reverse<CrowdedEvent>>,
}

impl EventWindow {
    /// Creates an empty window. `frame` is the time of the shortest frame on the fastest link. The window can cover the
    /// time `wanted` if its slots need not be longer than this frame.
    pub(super) fn new(frame: Picos, wanted: Picos) -> EventWindow {
        let shortest_bits = (frame.0 >> SLOTS_PER_FRAME_BITS).max(1).ilog2().min(48);
        let wanted_bits = (wanted.0.saturating_sub(1) / SLOTS as u64)
            .checked_ilog2()
            .map_or(0, |bits| bits + 1);
        EventWindow {
            next: Event::NONE,
            route_hint: RouteHint::NONE,
            begin: Picos::ZERO,
            slot_bits: wanted_bits.clamp(shortest_bits, shortest_bits + SLOTS_PER_FRAME_BITS),
            occupied: [0; WORDS],
            words: 0,
            first: Box::new([NONE; SLOTS]),
            entries: Vec::new(),
            entries_max: ENTRIES_MAX,
            crowded: BinaryHeap::new(),
        }
    }

    /// Returns the longest time that the window can cover.
    pub(super) fn span(&self) -> Picos {
        Picos((SLOTS as u64) << self.slot_bits)
    }

    /// Starts a new window at the time `at`. The window must be empty.
    pub(super) fn begin_at(&mut self, at: Picos) {
        debug_assert!(self.words == 0 && self.next == Event::NONE && self.crowded.is_empty());
        self.begin = at;
        self.entries.clear();
    }

    /// Adds an event to a window that is not open yet. [`EventWindow::open`] must follow.
    #[inline(always)]
    pub(super) fn fill(&mut self, event: Event) {
        debug_assert!(self.contains_time_of(event) && self.next == Event::NONE);
        self.insert(event, RouteHint::NONE);
    }

    /// Opens the filled window. `route_hint` returns the hint (a route that was looked up early) that is
    /// stored with each event.
    #[inline(always)]
    pub(super) fn open(&mut self, mut route_hint: impl FnMut(Event) -> RouteHint) {
        for entry in &mut self.entries {
            entry.route_hint = route_hint(entry.event);
        }
        // A crowded event needs no hint: the switch looks up its route.
        (self.next, self.route_hint) = self.take_first();
    }

    fn contains_time_of(&self, event: Event) -> bool {
        event.at >= self.begin && event.at.since(self.begin) < self.span()
    }

    /// Adds an event to the open window.
    #[inline(never)]
    pub(super) fn push(&mut self, event: Event) {
        debug_assert!(self.contains_time_of(event));
        let (mut second, mut route_hint) = (event, RouteHint::NONE);
        if event < self.next {
            second = std::mem::replace(&mut self.next, event);
            route_hint = std::mem::replace(&mut self.route_hint, RouteHint::NONE);
            if second == Event::NONE {
                return;
            }
        }
        self.insert(second, route_hint);
    }

    /// Inserts an event into the calendar.
    #[inline(always)]
    fn insert(&mut self, event: Event, route_hint: RouteHint) {
        let slot = (event.at.0.wrapping_sub(self.begin.0) >> self.slot_bits) as usize % SLOTS;
        if self.entries.len() >= self.entries_max {
            self.compact_entries();
        }
        let index = self.entries.len() as u32;
        self.entries.push(Entry {
            event,
            next: NONE,
            last: index,
            route_hint,
        });
        self.words |= 1 << (slot / 64);
        let (word, bit) = (&mut self.occupied[slot / 64], 1 << (slot % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.first[slot] = index;
            return;
        }
        // Most events come in their order: frames of a symmetric fabric arrive at equal times, and their senders are
        // processed in the order of their numbers.
        let first = self.first[slot] as usize;
        let last = self.entries[first].last as usize;
        if self.entries[last].event <= event {
            self.entries[last].next = index;
            self.entries[first].last = index;
        } else {
            self.insert_before_last(slot, index);
        }
    }

    /// Removes the unused entries of taken events.
    #[cold]
    fn compact_entries(&mut self) {
        let mut left = Vec::new();
        while let (event, route_hint) = self.take_first()
            && event != Event::NONE
        {
            left.push((event, route_hint));
        }
        self.entries.clear();
        // If nearly all events are still pending, the vector grows.
        self.entries_max = ENTRIES_MAX.max(2 * left.len());
        left.into_iter()
            .for_each(|(event, route_hint)| self.insert(event, route_hint));
    }

    /// Inserts an event into a slot that has a later event.
    #[inline(never)]
    fn insert_before_last(&mut self, slot: usize, index: u32) {
        let Entry {
            event, route_hint, ..
        } = self.entries[index as usize];
        let last = self.entries[self.first[slot] as usize].last;
        let mut before = NONE;
        let mut behind = self.first[slot];
        let mut steps = 0;
        while let Some(other) = self.entries.get(behind as usize)
            && other.event <= event
        {
            (before, behind) = (behind, other.next);
            steps += 1;
            if steps == STEPS_MAX {
                self.entries.pop();
                return self.crowded.push(Reverse(CrowdedEvent { event, route_hint }));
            }
        }
        self.entries[index as usize].next = behind;
        match self.entries.get_mut(before as usize) {
            Some(before) => before.next = index,
            None => {
                self.first[slot] = index;
                self.entries[index as usize].last = last;
            }
        }
    }

    /// Returns the earliest event, or [`Event::NONE`] if the window is empty.
    #[inline]
    pub(super) fn earliest(&self) -> Event {
        self.next
    }

    /// Takes the earliest event and its route hint.
    #[inline]
    pub(super) fn take_earliest(&mut self) -> Option<(Event, RouteHint)> {
        let second = self.take_first();
        let first = (self.next, self.route_hint);
        (self.next, self.route_hint) = second;
        (first.0 != Event::NONE).then_some(first)
    }

    /// Takes the earliest event of the calendar, or [`Event::NONE`].
    #[inline]
    fn take_first(&mut self) -> (Event, RouteHint) {
        if !self.crowded.is_empty() {
            return self.take_first_or_crowded();
        }
        self.take_first_of_slots()
    }

    /// Takes the earliest event if some events are in the heap.
    #[inline(never)]
    fn take_first_or_crowded(&mut self) -> (Event, RouteHint) {
        let in_slots = match self.words {
            0 => Event::NONE,
            _ => self.entries[self.first[self.first_slot()] as usize].event,
        };
        match self.crowded.peek() {
            Some(Reverse(crowded)) if crowded.event < in_slots => {}
            _ => return self.take_first_of_slots(),
        }
        match self.crowded.pop() {
            Some(Reverse(crowded)) => (crowded.event, crowded.route_hint),
            None => (Event::NONE, RouteHint::NONE),
        }
    }

    /// Returns the first slot with events. At least one slot must have events.
    #[inline]
    fn first_slot(&self) -> usize {
        let word = self.words.trailing_zeros() as usize % WORDS;
        word * 64 + self.occupied[word].trailing_zeros() as usize % 64
    }

    #[inline]
    fn take_first_of_slots(&mut self) -> (Event, RouteHint) {
        if self.words == 0 {
            return (Event::NONE, RouteHint::NONE);
        }
        let word = self.words.trailing_zeros() as usize % WORDS;
        let slot = word * 64 + self.occupied[word].trailing_zeros() as usize % 64;
        let entry = self.entries[self.first[slot] as usize];
        match entry.next {
            NONE => {
                self.occupied[word] &= self.occupied[word] - 1;
                // Branchless, because the branch could not be predicted.
                self.words &= !(u32::from(self.occupied[word] == 0) << word);
            }
            behind => {
                self.first[slot] = behind;
                self.entries[behind as usize].last = entry.last;
            }
        }
        (entry.event, entry.route_hint)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use xoff_testing::random_generator;

    /// Events leave the window in the same order as from a heap. Some events are alone in their slots and
    /// others share a slot. New events are added between removals.
    #[test]
    fn events_leave_in_order() {
        let mut draw = random_generator(1);
        let mut window = EventWindow::new(Picos(6_720), Picos(1_000_000));
        assert_eq!(window.span(), Picos(2_048 << 9));
        for round in 0..300 {
            let begin = draw(1 << 40);
            let span = window.span().0 >> draw(12);
            window.begin_at(Picos(begin));
            let (mut heap, mut now) = (BinaryHeap::new(), begin);
            for _ in 0..draw(40) {
                let event = Event::new(Picos(begin + draw(span)), draw(20) as u32, 0);
                window.fill(event);
                heap.push(Reverse(event));
            }
            window.open(|_| RouteHint::NONE);
            for step in 0..200 {
                let at = Picos(now + draw(begin + span - now));
                let event = Event::new(at, draw(20) as u32, 0);
                window.push(event);
                heap.push(Reverse(event));
                if step % 3 == 2 {
                    let expected = heap.pop().map(|Reverse(event)| event);
                    let taken = window.take_earliest().map(|(event, _)| event);
                    assert_eq!(taken, expected, "{round} {step}");
                    now = expected.map_or(now, |event| event.at.0);
                }
            }
            while let Some(Reverse(event)) = heap.pop() {
                let taken = window.take_earliest().map(|(event, _)| event);
                assert_eq!(taken, Some(event), "{round}");
            }
            assert_eq!(window.take_earliest(), None);
        }
    }

    /// Thousands of events with equal times leave in the order of their sources. Each insertion passes only a few.
    #[test]
    fn many_events_of_one_time_leave_in_order() {
        let mut draw = random_generator(3);
        let mut window = EventWindow::new(Picos(6_720), Picos(1_000_000));
        window.begin_at(Picos(5));
        let mut sources: Vec<u32> = (0..5_000).collect();
        for index in (1..sources.len()).rev() {
            sources.swap(index, draw(index as u64 + 1) as usize);
        }
        let (early, late) = sources.split_at(2_500);
        early
            .iter()
            .for_each(|source| window.fill(Event::new(Picos(9), *source, 0)));
        window.open(|_| RouteHint::NONE);
        late.iter()
            .for_each(|source| window.push(Event::new(Picos(9), *source, 0)));
        assert!(window.crowded.len() > 4_000);
        let taken: Vec<u32> = std::iter::from_fn(|| window.take_earliest())
            .map(|(event, _)| event.rank())
            .collect();
        assert_eq!(taken, (0..5_000).collect::<Vec<u32>>());
    }

    /// The window processes far more events than it has entries, so entries must be reused.
    #[test]
    fn entries_are_reused() {
        let mut window = EventWindow::new(Picos(6_720), Picos(1_000_000));
        window.begin_at(Picos::ZERO);
        for n in 0..40 {
            window.fill(Event::new(Picos(n % 3), n as u32, 0));
        }
        window.open(|_| RouteHint::NONE);
        let mut before = Event::new(Picos::ZERO, 0, 0);
        for n in 40..6 * ENTRIES_MAX as u64 {
            let (event, _) = window.take_earliest().expect("forty are always there");
            assert!(before <= event, "{n}: {before:?} {event:?}");
            before = event;
            window.push(Event::new(event.at.max(Picos(n / 4)), n as u32, 0));
            assert!(window.entries.len() <= ENTRIES_MAX);
        }
        let left = std::iter::from_fn(|| window.take_earliest()).count();
        assert_eq!(left, 40);
    }
}
