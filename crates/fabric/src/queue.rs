//! The event queue: what happens next in the whole fabric.
//!
//! Events are totally ordered: by time, then by their source's number, which is fixed by the plan. No order depends on when an
//! event was put in, so a run is the same however its pieces were scheduled. Two events of one timer at one time are one
//! event twice, which its handler does not mind; no two frames arrive over one wire at one time. A fabric that reproduces a
//! simulator orders the events of one time by their insertion instead: it numbers them.
//!
//! Nearly all events lie a frame or a link's delay ahead, so they go into a wheel: a ring of very short spans of time, with an
//! event or two in each that has any. Each of these distances is a place that advances with time, so few parts of the
//! wheel are touched at once, large as it is. Only what lies beyond the wheel's turn (timeouts, refreshes of pauses) waits in a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use xoff_dataplane::{Picos, prefetch};

/// A span is 2^this picoseconds: half a nanosecond. Two hundred busy links of 100 Gb/s have two events in each.
const SPAN_BITS: u32 = 9;
/// Spans of the wheel: 33.5 us in all.
const SPANS: usize = 1 << 16;
/// Spans of the wheel in a cache line.
const SPANS_PER_LINE: usize = 16;
const WORDS: usize = SPANS / 64;
const GROUPS: usize = WORDS / 64;
/// No event: the end of a list.
const NONE: u32 = u32::MAX;
/// Later than all spans.
const NO_SPAN: u64 = u64::MAX;

/// When something happens, its rank among what happens at that time, and what it is: two words, so that it travels in two
/// registers. Three fields would be written apart and read as one, which has to wait for the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) at: Picos,
    /// Rank and what it is.
    ties: u64,
}

impl Event {
    /// None: behind all others.
    pub(super) const NONE: Event = Event {
        at: Picos::NEVER,
        ties: u64::MAX,
    };

    /// `rank`: the number of its source, or of its insertion. `what`: a frame that arrives, or a timer.
    #[inline]
    pub(super) fn new(at: Picos, rank: u32, what: u32) -> Event {
        Event {
            at,
            ties: u64::from(rank) << 32 | u64::from(what),
        }
    }

    #[inline]
    pub(super) fn rank(self) -> u32 {
        (self.ties >> 32) as u32
    }

    #[inline]
    pub(super) fn what(self) -> u32 {
        self.ties as u32
    }

    /// All as one number, so that a comparison is one comparison.
    #[inline]
    pub(super) fn key(self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.ties)
    }

    #[inline]
    fn span(self) -> u64 {
        self.at.0 >> SPAN_BITS
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

    // What is derived from the above takes three ways where one comparison is meant.
    #[inline]
    fn lt(&self, other: &Event) -> bool {
        self.key() < other.key()
    }

    #[inline]
    fn le(&self, other: &Event) -> bool {
        self.key() <= other.key()
    }
}

/// Keys of events before `at` are less, others are not.
pub(super) fn first_key_at(at: Picos) -> u128 {
    u128::from(at.0) << 64
}

/// Keys of events at `at` and before are less, others are not.
pub(super) fn first_key_behind(at: Picos) -> u128 {
    (u128::from(at.0) + 1) << 64
}

/// The earliest time that no key below `key` is of: events before it have keys below, if `key` is the first one at a time.
pub(super) fn time_of_key(key: u128) -> Picos {
    Picos((key >> 64) as u64)
}

/// Pending events, the earliest first.
#[derive(Clone, Debug)]
pub(super) struct EventQueue {
    /// The events of the current span, the earliest last.
    now: Vec<Event>,
    /// Number of the current span. No event lies in an earlier one.
    span: u64,
    /// The first of the events of each span behind the current one, in no order; a span's place is its number modulo [`SPANS`].
    wheel: Box<[u32; SPANS]>,
    /// The events of all spans, and the next one of the same span: few and used again, so that they stay in the cache.
    events: Vec<(Event, u32)>,
    /// First of the free places in `events`.
    free: u32,
    /// Which places of the wheel hold events.
    held: Box<[u64; WORDS]>,
    /// Which words of `held` are not zero.
    groups: [u64; GROUPS],
    /// Events beyond the wheel.
    far: BinaryHeap<Reverse<Event>>,
    /// The span of the first of them; [`NO_SPAN`] if there is none.
    far_span: u64,
    len: usize,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            now: Vec::new(),
            span: 0,
            wheel: filled(NONE),
            events: Vec::new(),
            free: NONE,
            held: filled(0),
            groups: [0; GROUPS],
            far: BinaryHeap::new(),
            far_span: NO_SPAN,
            len: 0,
        }
    }
}

/// An array that never lies on the stack.
fn filled<T: Copy, const N: usize>(item: T) -> Box<[T; N]> {
    match vec![item; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("it has N items"),
    }
}

impl EventQueue {
    /// How many events are pending.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        self.len += 1;
        let span = event.span();
        if span <= self.span {
            self.insert_now(event);
        } else if span - self.span < SPANS as u64 {
            self.insert_wheel(span as usize % SPANS, event);
        } else {
            self.far_span = self.far_span.min(span);
            self.far.push(Reverse(event));
        }
    }

    #[inline]
    fn insert_wheel(&mut self, place: usize, event: Event) {
        // Whoever pushes next lies as far ahead, a little later.
        prefetch(&self.wheel[(place + SPANS_PER_LINE) % SPANS]);
        self.held[place / 64] |= 1 << (place % 64);
        self.groups[place / 4096] |= 1 << (place / 64 % 64);
        let entry = (event, self.wheel[place]);
        self.wheel[place] = match self.events.get_mut(self.free as usize) {
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

    /// The events of a place of the wheel.
    fn held_at(&self, place: usize) -> impl Iterator<Item = Event> + '_ {
        let first = self.events.get(self.wheel[place] as usize);
        std::iter::successors(first, |(_, next)| self.events.get(*next as usize)).map(|(event, _)| *event)
    }

    /// Into the current span, at its place. A span has so few events that they are looked through.
    #[inline]
    fn insert_now(&mut self, event: Event) {
        let key = event.key();
        let behind = self
            .now
            .iter()
            .rev()
            .take_while(|other| other.key() < key)
            .count();
        self.now.insert(self.now.len() - behind, event);
    }

    /// The earliest event, if it is not later than `until`. Nothing may be added before `until` from then on, unless an event
    /// comes back.
    #[inline]
    pub(super) fn peek(&mut self, until: Picos) -> Option<Event> {
        if self.now.is_empty() {
            self.turn(until);
        }
        self.now.last().copied().filter(|event| event.at <= until)
    }

    /// The time of the earliest event. As [`EventQueue::peek`], for those who may only look.
    pub(super) fn earliest(&self) -> Option<Picos> {
        if let Some(event) = self.now.last() {
            return Some(event.at);
        }
        let near = match self.next_held() {
            NO_SPAN => None,
            span => self.held_at(span as usize % SPANS).min(),
        };
        let far = self.far.peek().map(|Reverse(event)| *event);
        near.into_iter().chain(far).min().map(|event| event.at)
    }

    /// All events, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let of_wheel = (0..SPANS).flat_map(|place| self.held_at(place));
        let far = self.far.iter().map(|Reverse(event)| *event);
        self.now.iter().copied().chain(of_wheel).chain(far)
    }

    /// Takes all events, in no order.
    pub(super) fn drain(&mut self) -> Vec<Event> {
        let events: Vec<Event> = self.iter().collect();
        debug_assert_eq!(events.len(), self.len);
        *self = EventQueue::default();
        events
    }

    /// Removes the event that [`EventQueue::peek`] has shown.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        let first = self.now.pop();
        self.len -= usize::from(first.is_some());
        first
    }

    /// Makes the next span that holds events the current one, if it begins by `until`. If it went further, all that is added
    /// until then would be sorted into one span.
    #[inline]
    fn turn(&mut self, until: Picos) {
        let near = self.next_held();
        let span = near.min(self.far_span);
        if span > until.0 >> SPAN_BITS {
            return;
        }
        self.span = span;
        if near == span {
            self.empty_place(span as usize % SPANS);
        }
        if self.far_span == span {
            self.take_far();
        }
        // Links of one speed keep step, so a span may hold an event of each of them.
        if self.now.len() > 1 {
            self.now.sort_unstable_by_key(|event| Reverse(event.key()));
        }
    }

    /// Moves all events of a place of the wheel to those of the current span.
    #[inline]
    fn empty_place(&mut self, place: usize) {
        let word = &mut self.held[place / 64];
        *word &= !(1 << (place % 64));
        if *word == 0 {
            self.groups[place / 4096] &= !(1 << (place / 64 % 64));
        }
        let mut index = std::mem::replace(&mut self.wheel[place], NONE);
        while let Some((event, next)) = self.events.get_mut(index as usize) {
            self.now.push(*event);
            let behind = std::mem::replace(next, self.free);
            self.free = std::mem::replace(&mut index, behind);
        }
    }

    /// As [`EventQueue::empty_place`], for events that lay beyond the wheel.
    #[cold]
    fn take_far(&mut self) {
        while let Some(Reverse(event)) = self.far.peek().copied() {
            if event.span() != self.span {
                self.far_span = event.span();
                return;
            }
            self.far.pop();
            self.now.push(event);
        }
        self.far_span = NO_SPAN;
    }

    /// The first span behind the current one whose place in the wheel holds events; [`NO_SPAN`] if none does.
    #[inline]
    fn next_held(&self) -> u64 {
        let start = (self.span as usize + 1) % SPANS;
        let bits = self.held[start / 64] >> (start % 64);
        if bits != 0 {
            return self.span + 1 + u64::from(bits.trailing_zeros());
        }
        match self.next_held_beyond(start / 64) {
            Some(place) => self.span + 1 + ((place + SPANS - start) % SPANS) as u64,
            None => NO_SPAN,
        }
    }

    /// The first place that holds events in the words behind `word`, which come round to `word` itself last.
    fn next_held_beyond(&self, word: usize) -> Option<usize> {
        let start = (word + 1) % WORDS;
        let group = |n: usize| {
            let index = (start / 64 + n) % GROUPS;
            let from_start = u64::MAX << (start % 64);
            // The first group counts twice: its high bits come first, its low bits last.
            let bits = match n {
                0 => self.groups[index] & from_start,
                GROUPS => self.groups[index] & !from_start,
                _ => self.groups[index],
            };
            (bits != 0).then(|| index * 64 + bits.trailing_zeros() as usize)
        };
        let word = (0..=GROUPS).find_map(group)?;
        Some(word * 64 + self.held[word].trailing_zeros() as usize)
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
    fn the_rank_decides_before_what_it_is() {
        let mut queue = EventQueue::default();
        for (order, source) in [(2, 1), (1, 9), (3, 0)] {
            queue.push(Event::new(Picos(5), order, source));
        }
        queue.push(Event::new(Picos(4), 4, 7));
        let sources: Vec<u32> = std::iter::from_fn(|| next(&mut queue)).map(Event::what).collect();
        assert_eq!(sources, [7, 9, 1, 0]);
    }

    fn next(queue: &mut EventQueue) -> Option<Event> {
        queue.peek(Picos::NEVER)?;
        queue.pop()
    }

    /// Events come out as from a heap, whether they lie in one span, in the wheel, or far behind it, and while others are
    /// added at times that are not past.
    #[test]
    fn comes_out_in_order_whatever_the_order_in() {
        for reach in [50, 1 << SPAN_BITS, 100_000, 40_000_000, 1 << 40] {
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
    fn an_event_at_the_current_time_comes_in_its_turn() {
        let mut queue = EventQueue::default();
        for source in [5, 3, 9] {
            queue.push(event(1_000_000, source));
        }
        assert_eq!(next(&mut queue), Some(event(1_000_000, 3)));
        queue.push(event(1_000_000, 4));
        queue.push(event(1_000_000, 5));
        let rest: Vec<u32> = std::iter::from_fn(|| next(&mut queue)).map(Event::what).collect();
        assert_eq!(rest, [4, 5, 5, 9]);
    }

    /// Whoever has looked no further than `until` may still add what comes right behind it, and that costs no more than ever.
    #[test]
    fn looking_ahead_to_a_time_turns_the_wheel_no_further() {
        let mut queue = EventQueue::default();
        queue.push(event(1 << 40, 1));
        assert_eq!(queue.peek(Picos(5_000_000)), None);
        for n in 0..1_000 {
            queue.push(event(5_000_000 + n * 10_000, 2));
        }
        assert!(queue.now.len() < 2, "{} in one span", queue.now.len());
        assert_eq!(next(&mut queue), Some(event(5_000_000, 2)));
        assert_eq!(queue.len(), 1_000);
    }
}
