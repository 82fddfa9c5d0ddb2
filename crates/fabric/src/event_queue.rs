//! Event queue of the whole fabric, used if all events are processed in one order.
//!
//! Events are ordered by time and then by the number of their source. The plan gives each source (a link
//! direction, a host or a timer of a switch) its number. The order therefore does not depend on the order of
//! insertion. A timer may have two events of equal time. The second event then has no effect. Two frames
//! never arrive over the same link direction at the same time. In comparisons with ns-3, insertion numbers
//! replace the source numbers.
//!
//! Nearly all events are inserted one frame time or one link delay before they are due. These events are
//! stored in a wheel: a ring of very short time slots with one or two events each. The wheel is large, but at
//! any time only a few neighbouring slots are accessed, so few cache lines are in use. Later events, such as
//! timeouts, are stored in a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use xoff_dataplane::{Picos, prefetch};

/// The length of a slot is 2^9 ps, half a nanosecond. With 200 busy links of 100 Gb/s, a slot has two events
/// on average.
const SLOT_BITS: u32 = 9;
/// Number of slots of the wheel. All slots together last 33.5 us.
const SLOTS: usize = 1 << 16;
/// Number of slots in a cache line.
const SLOTS_PER_LINE: usize = 16;
const WORDS: usize = SLOTS / 64;
const GROUPS: usize = WORDS / 64;
/// End of a list of events.
const NONE: u32 = u32::MAX;
/// Slot number after all slots, for "no slot".
const NO_SLOT: u64 = u64::MAX;

/// An event: its time, its rank among events of equal time, and its payload. The payload is an arriving frame
/// or a timer.
///
/// An event has two 64-bit words, so a call passes it in two registers. With three fields, the processor
/// would write them separately and stall when it reads them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) at: Picos,
    /// The rank in the upper 32 bits, the payload in the lower 32 bits.
    rank_and_payload: u64,
}

impl Event {
    /// No event. It is later than all other events.
    pub(super) const NONE: Event = Event {
        at: Picos::NEVER,
        rank_and_payload: u64::MAX,
    };

    /// Creates an event. `rank` is the number of the source or of the insertion. `payload` is the handle of
    /// an arriving frame or the number of a timer source.
    #[inline]
    pub(super) fn new(at: Picos, rank: u32, payload: u32) -> Event {
        Event {
            at,
            rank_and_payload: u64::from(rank) << 32 | u64::from(payload),
        }
    }

    #[inline]
    pub(super) fn rank(self) -> u32 {
        (self.rank_and_payload >> 32) as u32
    }

    #[inline]
    pub(super) fn payload(self) -> u32 {
        self.rank_and_payload as u32
    }

    /// Returns all fields as one number, so one comparison orders two events.
    #[inline]
    pub(super) fn key(self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.rank_and_payload)
    }

    #[inline]
    fn slot(self) -> u64 {
        self.at.0 >> SLOT_BITS
    }
}

impl Ord for Event {
    #[inline]
    fn cmp(&self, other: &Event) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Event {
    #[inline]
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    // The derived operators would compare in three steps.
    #[inline]
    fn lt(&self, other: &Event) -> bool {
        self.key() < other.key()
    }

    #[inline]
    fn le(&self, other: &Event) -> bool {
        self.key() <= other.key()
    }
}

/// Returns the key that separates events before `at` from events at `at` and later.
pub(super) fn first_key_at(at: Picos) -> u128 {
    u128::from(at.0) << 64
}

/// Returns the key that separates events up to and including `at` from later events.
pub(super) fn first_key_after(at: Picos) -> u128 {
    (u128::from(at.0) + 1) << 64
}

/// Returns the time of a key from [`first_key_at`] or [`first_key_after`].
pub(super) fn time_of_key(key: u128) -> Picos {
    Picos((key >> 64) as u64)
}

/// Pending events, sorted by time.
#[derive(Clone, Debug)]
pub(super) struct EventQueue {
    /// Events of the current slot. The earliest event is the last entry.
    now: Vec<Event>,
    /// Number of the current slot. No pending event is in an earlier slot.
    slot: u64,
    /// Index in `events` of the first event of each slot, or [`NONE`]. The events of a slot are a linked list
    /// and not sorted. A slot is stored at its number modulo [`SLOTS`].
    wheel: Box<[u32; SLOTS]>,
    /// Events of all slots of the wheel. Each entry contains an event and the index of the next event of the
    /// same slot. Free entries are reused, so they stay in the cache.
    events: Vec<(Event, u32)>,
    /// Index of the first free entry of `events`, or [`NONE`].
    free: u32,
    /// Bit map of the slots of the wheel. A bit is set if the slot has events.
    occupied: Box<[u64; WORDS]>,
    /// Bit map of the words of `occupied`. A bit is set if the word is not 0.
    groups: [u64; GROUPS],
    /// Events after the last slot of the wheel.
    far: BinaryHeap<Reverse<Event>>,
    /// Slot number of the earliest event in `far`, or [`NO_SLOT`].
    far_slot: u64,
    len: usize,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            now: Vec::new(),
            slot: 0,
            wheel: new_boxed_array(NONE),
            events: Vec::new(),
            free: NONE,
            occupied: new_boxed_array(0),
            groups: [0; GROUPS],
            far: BinaryHeap::new(),
            far_slot: NO_SLOT,
            len: 0,
        }
    }
}

/// Creates an array directly on the heap.
fn new_boxed_array<T: Copy, const N: usize>(item: T) -> Box<[T; N]> {
    match vec![item; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("it has N items"),
    }
}

impl EventQueue {
    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        self.len += 1;
        let slot = event.slot();
        if slot <= self.slot {
            self.insert_in_current_slot(event);
        } else if slot - self.slot < SLOTS as u64 {
            self.insert_in_wheel(slot as usize % SLOTS, event);
        } else {
            self.far_slot = self.far_slot.min(slot);
            self.far.push(Reverse(event));
        }
    }

    #[inline]
    fn insert_in_wheel(&mut self, index_in_wheel: usize, event: Event) {
        // The next insertion is probably at the same distance, a little later.
        prefetch(&self.wheel[(index_in_wheel + SLOTS_PER_LINE) % SLOTS]);
        self.occupied[index_in_wheel / 64] |= 1 << (index_in_wheel % 64);
        self.groups[index_in_wheel / 4096] |= 1 << (index_in_wheel / 64 % 64);
        let entry = (event, self.wheel[index_in_wheel]);
        self.wheel[index_in_wheel] = match self.events.get_mut(self.free as usize) {
            Some(free) => {
                let index = self.free;
                self.free = free.1;
                *free = entry;
                index
            }
            None => {
                self.events.push(entry);
                self.events.len() as u32 - 1
            }
        };
    }

    /// Returns the events of a slot of the wheel.
    fn events_in_slot(&self, index_in_wheel: usize) -> impl Iterator<Item = Event> + '_ {
        let first = self.events.get(self.wheel[index_in_wheel] as usize);
        std::iter::successors(first, |(_, next)| self.events.get(*next as usize)).map(|(event, _)| *event)
    }

    /// Inserts an event at its place among the sorted events of the current slot. A slot has few events, so a
    /// linear search is sufficient.
    #[inline]
    fn insert_in_current_slot(&mut self, event: Event) {
        let key = event.key();
        let behind = self
            .now
            .iter()
            .rev()
            .take_while(|other| other.key() < key)
            .count();
        self.now.insert(self.now.len() - behind, event);
    }

    /// Returns the earliest event if the event is not later than `until`. If the result is `None`, the caller
    /// must not add an event before `until` afterwards.
    #[inline]
    pub(super) fn peek(&mut self, until: Picos) -> Option<Event> {
        if self.now.is_empty() {
            self.advance_wheel(until);
        }
        self.now.last().copied().filter(|event| event.at <= until)
    }

    /// Returns the time of the earliest event. Does not change the queue.
    pub(super) fn earliest(&self) -> Option<Picos> {
        if let Some(event) = self.now.last() {
            return Some(event.at);
        }
        let near = match self.next_occupied_slot() {
            NO_SLOT => None,
            slot => self.events_in_slot(slot as usize % SLOTS).min(),
        };
        let far = self.far.peek().map(|Reverse(event)| *event);
        near.into_iter().chain(far).min().map(|event| event.at)
    }

    /// Returns all events, unsorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let of_wheel = (0..SLOTS).flat_map(|index_in_wheel| self.events_in_slot(index_in_wheel));
        let far = self.far.iter().map(|Reverse(event)| *event);
        self.now.iter().copied().chain(of_wheel).chain(far)
    }

    /// Removes and returns all events, unsorted.
    pub(super) fn drain(&mut self) -> Vec<Event> {
        let events: Vec<Event> = self.iter().collect();
        debug_assert_eq!(events.len(), self.len);
        *self = EventQueue::default();
        events
    }

    /// Removes the event that [`EventQueue::peek`] has returned.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        let first = self.now.pop();
        self.len -= usize::from(first.is_some());
        first
    }

    /// Finds the next slot with events. If this slot starts at `until` or earlier, the slot becomes the
    /// current slot. A slot after `until` must not become current: the queue would then sort later insertions
    /// into this slot, even if their time is before the slot.
    #[inline]
    fn advance_wheel(&mut self, until: Picos) {
        let near = self.next_occupied_slot();
        let slot = near.min(self.far_slot);
        if slot > until.0 >> SLOT_BITS {
            return;
        }
        self.slot = slot;
        if near == slot {
            self.empty_slot(slot as usize % SLOTS);
        }
        if self.far_slot == slot {
            self.move_far_events_to_current_slot();
        }
        // Links of equal speed often have events at equal times, so a slot can contain one event of
        // each link.
        if self.now.len() > 1 {
            self.now.sort_unstable_by_key(|event| Reverse(event.key()));
        }
    }

    /// Moves all events of a slot of the wheel to the current slot.
    #[inline]
    fn empty_slot(&mut self, index_in_wheel: usize) {
        let word = &mut self.occupied[index_in_wheel / 64];
        *word &= !(1 << (index_in_wheel % 64));
        if *word == 0 {
            self.groups[index_in_wheel / 4096] &= !(1 << (index_in_wheel / 64 % 64));
        }
        let mut index = std::mem::replace(&mut self.wheel[index_in_wheel], NONE);
        while let Some((event, next)) = self.events.get_mut(index as usize) {
            self.now.push(*event);
            let behind = std::mem::replace(next, self.free);
            self.free = std::mem::replace(&mut index, behind);
        }
    }

    /// Moves the events of the current slot from `far` to `now`.
    #[cold]
    fn move_far_events_to_current_slot(&mut self) {
        while let Some(Reverse(event)) = self.far.peek().copied() {
            if event.slot() != self.slot {
                self.far_slot = event.slot();
                return;
            }
            self.far.pop();
            self.now.push(event);
        }
        self.far_slot = NO_SLOT;
    }

    /// Returns the number of the next slot with events after the current slot, or [`NO_SLOT`].
    #[inline]
    fn next_occupied_slot(&self) -> u64 {
        let start = (self.slot as usize + 1) % SLOTS;
        let bits = self.occupied[start / 64] >> (start % 64);
        if bits != 0 {
            return self.slot + 1 + u64::from(bits.trailing_zeros());
        }
        match self.next_occupied_after_word(start / 64) {
            Some(index_in_wheel) => self.slot + 1 + ((index_in_wheel + SLOTS - start) % SLOTS) as u64,
            None => NO_SLOT,
        }
    }

    /// Returns the index of the first slot with events after the word `word` of the bit map. The search
    /// continues at the start of the bit map and ends with `word` itself.
    fn next_occupied_after_word(&self, word: usize) -> Option<usize> {
        let start = (word + 1) % WORDS;
        let group = |n: usize| {
            let index = (start / 64 + n) % GROUPS;
            let from_start = u64::MAX << (start % 64);
            // The first group is visited twice: its high bits first, its low bits last.
            let bits = match n {
                0 => self.groups[index] & from_start,
                GROUPS => self.groups[index] & !from_start,
                _ => self.groups[index],
            };
            (bits != 0).then(|| index * 64 + bits.trailing_zeros() as usize)
        };
        let word = (0..=GROUPS).find_map(group)?;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    fn event(at: u64, source: u32) -> Event {
        Event::new(Picos(at), source, source)
    }

    #[test]
    fn events_of_one_time_are_ordered_by_rank() {
        let mut queue = EventQueue::default();
        for (order, source) in [(2, 1), (1, 9), (3, 0)] {
            queue.push(Event::new(Picos(5), order, source));
        }
        queue.push(Event::new(Picos(4), 4, 7));
        let sources: Vec<u32> = std::iter::from_fn(|| next(&mut queue))
            .map(Event::payload)
            .collect();
        assert_eq!(sources, [7, 9, 1, 0]);
    }

    fn next(queue: &mut EventQueue) -> Option<Event> {
        queue.peek(Picos::NEVER)?;
        queue.pop()
    }

    /// Events leave the queue in the same order as from a heap. The test stores events in one slot, in many
    /// slots and in the heap, and adds events between removals.
    #[test]
    fn events_leave_in_order() {
        for reach in [50, 1 << SLOT_BITS, 100_000, 40_000_000, 1 << 40] {
            let mut draw = random_generator(reach);
            let (mut queue, mut heap) = (EventQueue::default(), BinaryHeap::new());
            let mut now = 0;
            for round in 0..4_000 {
                for _ in 0..draw(4) {
                    let event = event(now + draw(reach), draw(50) as u32);
                    queue.push(event);
                    heap.push(Reverse(event));
                }
                assert_eq!(queue.len(), heap.len(), "{reach} {round}");
                if round % 3 != 0 {
                    let expected = heap.pop().map(|Reverse(event)| event);
                    assert_eq!(
                        queue.earliest(),
                        expected.map(|event| event.at),
                        "{reach} {round}"
                    );
                    assert_eq!(queue.peek(Picos::NEVER), expected, "{reach} {round}");
                    assert_eq!(next(&mut queue), expected, "{reach} {round}");
                    now = expected.map_or(now, |event| event.at.0);
                }
            }
            while let Some(event) = next(&mut queue) {
                assert_eq!(heap.pop(), Some(Reverse(event)));
            }
            assert!(heap.is_empty());
        }
    }

    #[test]
    fn an_event_at_the_current_time_is_inserted_in_order() {
        let mut queue = EventQueue::default();
        for source in [5, 3, 9] {
            queue.push(event(1_000_000, source));
        }
        assert_eq!(next(&mut queue), Some(event(1_000_000, 3)));
        queue.push(event(1_000_000, 4));
        queue.push(event(1_000_000, 5));
        let rest: Vec<u32> = std::iter::from_fn(|| next(&mut queue))
            .map(Event::payload)
            .collect();
        assert_eq!(rest, [4, 5, 5, 9]);
    }

    /// After a search up to `until`, events shortly after `until` can still be added at the usual cost.
    #[test]
    fn peek_does_not_advance_the_wheel_beyond_its_limit() {
        let mut queue = EventQueue::default();
        queue.push(event(1 << 40, 1));
        assert_eq!(queue.peek(Picos(5_000_000)), None);
        for n in 0..1_000 {
            queue.push(event(5_000_000 + n * 10_000, 2));
        }
        assert!(queue.now.len() < 2, "{} in one slot", queue.now.len());
        assert_eq!(next(&mut queue), Some(event(5_000_000, 2)));
        assert_eq!(queue.len(), 1_000);
    }
}
