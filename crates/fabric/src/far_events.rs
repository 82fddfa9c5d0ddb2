//! Events of a partition that are later than the next windows: mostly timeouts, a few for each host.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event_queue::Event;

/// Far events of a partition.
#[derive(Clone, Debug)]
pub(super) struct FarEvents {
    /// The earliest event, or [`Event::NONE`].
    first: Event,
    /// All other events.
    rest: BinaryHeap<Reverse<Event>>,
}

impl FarEvents {
    /// Creates an empty set.
    pub(super) const fn new() -> FarEvents {
        FarEvents {
            first: Event::NONE,
            rest: BinaryHeap::new(),
        }
    }

    /// Adds an event.
    pub(super) fn push(&mut self, event: Event) {
        let later = match event < self.first {
            true => std::mem::replace(&mut self.first, event),
            false => event,
        };
        if later != Event::NONE {
            self.rest.push(Reverse(later));
        }
    }

    /// Returns the earliest event, or [`Event::NONE`].
    #[inline]
    pub(super) fn first(&self) -> Event {
        self.first
    }

    /// Removes the earliest event. Does nothing if there is no event.
    pub(super) fn remove_first(&mut self) {
        self.first = self.rest.pop().map_or(Event::NONE, |Reverse(event)| event);
    }

    /// Returns all events, unsorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let first = Some(self.first).filter(|first| *first != Event::NONE);
        first
            .into_iter()
            .chain(self.rest.iter().map(|Reverse(event)| *event))
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        usize::from(self.first != Event::NONE) + self.rest.len()
    }

    /// Removes all events and returns them, sorted.
    pub(super) fn remove_all(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = self.iter().collect();
        events.sort_unstable();
        *self = FarEvents::new();
        events
    }
}

#[cfg(test)]
mod tests {
    use xoff_units::Picos;

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
}
