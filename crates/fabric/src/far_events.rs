//! Events of a partition that are later than the next windows.
//!
//! Nearly all far events are timeouts. When a host sends a packet, it moves its timeout, and the earlier event stays
//! until its time, when it has no effect. Thousands of such events can be pending for each host. The events of a host
//! have increasing times and differ in nothing else, so a list stores only the time from one event to the next. An
//! event takes four bytes instead of the 16 bytes of an entry of a heap, and a push writes to the end of a list.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_units::{Picos, prefetch};

use super::event_queue::Event;

/// Largest number of lists of a partition. Two hosts with timers of several lengths need fewer.
const LISTS_MAX: usize = 8;
/// Number of lists that are fetched. A list is of a host, and a group has two hosts.
const PREFETCHED_LISTS_MAX: usize = 2;
/// A word of a list that is followed by the upper and the lower half of a long time.
const LONG: u32 = u32::MAX;

/// Far events of a partition.
#[derive(Clone, Debug)]
pub(super) struct FarEvents {
    /// The earliest event, or [`Event::NONE`].
    first: Event,
    lists: Vec<TimerList>,
    /// Events that continue no list.
    others: BinaryHeap<Reverse<Event>>,
}

impl FarEvents {
    /// Creates an empty set.
    pub(super) const fn new() -> FarEvents {
        FarEvents {
            first: Event::NONE,
            lists: Vec::new(),
            others: BinaryHeap::new(),
        }
    }

    /// Adds an event.
    pub(super) fn push(&mut self, event: Event) {
        self.first = self.first.min(event);
        if let Some(list) = self.lists.iter_mut().find(|list| list.continues_with(event)) {
            list.push(event);
        } else if let Some(list) = self.lists.iter_mut().find(|list| list.is_empty()) {
            list.restart(event);
        } else if self.lists.len() < LISTS_MAX {
            let mut list = TimerList::EMPTY;
            list.restart(event);
            self.lists.push(list);
        } else {
            self.others.push(Reverse(event));
        }
    }

    /// Returns the earliest event, or [`Event::NONE`].
    #[inline(always)]
    pub(super) fn first(&self) -> Event {
        self.first
    }

    /// Fetches the lists, without waiting for them.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.lists.iter().take(PREFETCHED_LISTS_MAX).for_each(prefetch);
    }

    /// Removes the earliest event. Does nothing if there is no event.
    pub(super) fn remove_first(&mut self) {
        let first = self.first;
        match self.lists.iter_mut().find(|list| list.first == first) {
            Some(list) => list.remove_first(),
            None => {
                self.others.pop();
            }
        }
        let others = self.others.peek().map_or(Event::NONE, |Reverse(event)| *event);
        let lists = self.lists.iter().map(|list| list.first);
        self.first = lists.fold(others, Event::min);
    }

    /// Returns all events, unsorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let others = self.others.iter().map(|Reverse(event)| *event);
        self.lists.iter().flat_map(TimerList::iter).chain(others)
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        let lists = self.lists.iter().map(|list| list.len);
        lists.sum::<usize>() + self.others.len()
    }

    /// Removes all events and returns them, sorted.
    pub(super) fn remove_all(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.iter().collect();
        events.sort_unstable();
        *self = FarEvents::new();
        events
    }
}

/// Events with equal rank and payload, sorted by time. One cache line without the gaps.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct TimerList {
    /// The earliest event, or [`Event::NONE`] if the list is empty.
    first: Event,
    /// Time of the last event.
    last_at: Picos,
    len: usize,
    /// For each event after the first: the time since the event before, in picoseconds. A time that does not fit into a
    /// word has three words: [`LONG`], the upper half and the lower half.
    gaps: VecDeque<u32>,
}

impl TimerList {
    const EMPTY: TimerList = TimerList {
        first: Event::NONE,
        last_at: Picos::ZERO,
        len: 0,
        gaps: VecDeque::new(),
    };

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether an event can follow the last event.
    #[inline(always)]
    fn continues_with(&self, event: Event) -> bool {
        event.at >= self.last_at && event.has_source_of(self.first)
    }

    /// Adds an event for which [`TimerList::continues_with`] is true.
    #[inline(always)]
    fn push(&mut self, event: Event) {
        let gap = event.at.0 - self.last_at.0;
        match u32::try_from(gap) {
            Ok(gap) if gap != LONG => self.gaps.push_back(gap),
            _ => self.gaps.extend([LONG, (gap >> 32) as u32, gap as u32]),
        }
        self.last_at = event.at;
        self.len += 1;
    }

    /// Adds the first event of an empty list.
    fn restart(&mut self, event: Event) {
        (self.first, self.last_at, self.len) = (event, event.at, 1);
    }

    fn remove_first(&mut self) {
        self.len -= 1;
        let mut gaps = std::iter::from_fn(|| self.gaps.pop_front());
        self.first = match next_gap(&mut gaps) {
            Some(gap) => self.first.later_by(gap),
            None => Event::NONE,
        };
    }

    fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let mut gaps = self.gaps.iter().copied();
        let first = Some(self.first).filter(|_| !self.is_empty());
        std::iter::successors(first, move |event| {
            next_gap(&mut gaps).map(|gap| event.later_by(gap))
        })
    }
}

/// Reads the next time from the words of a list.
fn next_gap(words: &mut impl Iterator<Item = u32>) -> Option<Picos> {
    match words.next()? {
        LONG => {
            let (upper, lower) = (words.next()?, words.next()?);
            Some(Picos(u64::from(upper) << 32 | u64::from(lower)))
        }
        gap => Some(Picos(u64::from(gap))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    #[test]
    fn events_leave_in_the_order_of_a_heap() {
        let mut below = random_generator(3);
        for round in 0..40 {
            let (mut far, mut heap) = (FarEvents::new(), BinaryHeap::new());
            let sources = 1 + below(12);
            let mut now = 0;
            for _ in 0..3_000 {
                let bits = below(34);
                now += below(1 << bits);
                for _ in 0..below(4) {
                    let short = below(1 << 36);
                    let delay = [1_000, 55_000_000, 4_000_000_000, 1 << 34, short][below(5) as usize];
                    let source = below(sources) as u32;
                    let event = Event::new(Picos(now + delay), source, source + 7);
                    far.push(event);
                    heap.push(Reverse(event));
                }
                while far.first().at.0 <= now {
                    assert_eq!(heap.pop(), Some(Reverse(far.first())), "{round}");
                    far.remove_first();
                }
                assert_eq!(
                    heap.peek().map_or(Event::NONE, |Reverse(event)| *event),
                    far.first()
                );
                assert_eq!(far.len(), heap.len());
            }
            let mut events: Vec<Event> = far.iter().collect();
            events.sort_unstable();
            assert_eq!(far.remove_all(), events);
            let mut expected: Vec<Event> = heap.into_iter().map(|Reverse(event)| event).collect();
            expected.sort_unstable();
            assert_eq!(events, expected);
            assert_eq!((far.len(), far.first()), (0, Event::NONE));
        }
    }

    #[test]
    fn outdated_timeouts_of_a_host_take_four_bytes_each() {
        let mut far = FarEvents::new();
        for sent in 0..1_000 {
            far.push(Event::new(Picos(4_000_000_000 + sent * 400_000), 1, 1));
        }
        assert!(far.others.is_empty());
        assert_eq!(far.lists.len(), 1);
        assert_eq!(far.lists[0].gaps.len(), 999);
    }
}
