//! Event queues of a switch in virtual time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use xoff_dataplane::{Deadline, Picos, TimerId};

/// An event of a [`VirtualSwitch`](crate::VirtualSwitch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event<E> {
    /// A timer that the switch has requested expires.
    Deadline(TimerId),
    /// An event that the caller has scheduled.
    Scheduled(E),
}

/// The pending events of a virtual switch. An implementation decides the order of events with equal times.
pub trait EventQueue<E> {
    /// Adds an event at a model time.
    fn push(&mut self, at: Picos, event: Event<E>);

    /// Returns the model time of the next event. Returns `None` if no event is pending.
    fn next_time(&self) -> Option<Picos>;

    /// Removes and returns the next event and its time, if the time is at most `until`. Otherwise
    /// returns `None`.
    fn pop_until(&mut self, until: Picos) -> Option<(Picos, Event<E>)>;

    /// Moves the deadlines that the switch has requested to the queue. `deadlines` is then empty.
    #[inline]
    fn push_deadlines(&mut self, deadlines: &mut Vec<Deadline>) {
        for deadline in deadlines.iter() {
            self.push(deadline.at, Event::Deadline(deadline.timer));
        }
        deadlines.clear();
    }
}

/// An event queue ordered by time. Events with equal times are handled in the order in which they were added.
///
/// A switch under steady load has one pending event most of the time: the end of the current transmission. The
/// queue keeps its earliest event outside the heap, so such a switch does not use the heap.
#[derive(Debug)]
pub struct TimeOrderedQueue<E> {
    /// The earliest event. If the value is `None`, the earliest event is in the heap.
    earliest: Option<Entry<E>>,
    heap: BinaryHeap<Entry<E>>,
    added_events: u64,
}

/// A pending event. The largest entry is the event that is handled first, because [`BinaryHeap`] returns the
/// largest element.
#[derive(Debug)]
struct Entry<E> {
    at: Picos,
    /// Number of the event in the order in which events were added.
    number: u64,
    event: Event<E>,
}

impl<E> TimeOrderedQueue<E> {
    /// Creates an empty queue that can store `events` events before it allocates more memory.
    pub fn with_capacity(events: usize) -> TimeOrderedQueue<E> {
        TimeOrderedQueue {
            earliest: None,
            heap: BinaryHeap::with_capacity(events),
            added_events: 0,
        }
    }

    fn first_entry(&self) -> Option<&Entry<E>> {
        self.earliest.as_ref().or_else(|| self.heap.peek())
    }
}

impl<E> Default for TimeOrderedQueue<E> {
    fn default() -> Self {
        TimeOrderedQueue::with_capacity(0)
    }
}

impl<E> EventQueue<E> for TimeOrderedQueue<E> {
    #[inline]
    fn push(&mut self, at: Picos, event: Event<E>) {
        self.added_events += 1;
        let entry = Entry {
            at,
            number: self.added_events,
            event,
        };
        if self.first_entry().is_some_and(|first| entry < *first) {
            self.heap.push(entry);
        } else {
            self.heap.extend(self.earliest.replace(entry));
        }
    }

    #[inline]
    fn next_time(&self) -> Option<Picos> {
        self.first_entry().map(|entry| entry.at)
    }

    #[inline]
    fn pop_until(&mut self, until: Picos) -> Option<(Picos, Event<E>)> {
        if self.next_time()? > until {
            return None;
        }
        let entry = self.earliest.take().or_else(|| self.heap.pop())?;
        Some((entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_keep_the_order_in_which_they_were_added() {
        let mut queue = TimeOrderedQueue::default();
        queue.push(Picos(5), Event::Scheduled("later"));
        queue.push(Picos(3), Event::Scheduled("second"));
        queue.push(Picos(3), Event::Deadline(TimerId(0)));
        queue.push(Picos(1), Event::Scheduled("first"));
        assert_eq!(queue.next_time(), Some(Picos(1)));
        let due: Vec<_> = std::iter::from_fn(|| queue.pop_until(Picos(4))).collect();
        assert_eq!(
            due,
            [
                (Picos(1), Event::Scheduled("first")),
                (Picos(3), Event::Scheduled("second")),
                (Picos(3), Event::Deadline(TimerId(0))),
            ]
        );
        assert_eq!(queue.next_time(), Some(Picos(5)));
    }

    #[test]
    fn an_earlier_event_overtakes_the_event_outside_the_heap() {
        let mut queue = TimeOrderedQueue::default();
        for at in [7, 4, 9, 4, 2] {
            queue.push(Picos(at), Event::Scheduled(at));
        }
        assert_eq!(queue.pop_until(Picos(2)), Some((Picos(2), Event::Scheduled(2))));
        // The heap now holds the earliest event, and a later event stays behind it.
        queue.push(Picos(8), Event::Scheduled(8));
        queue.push(Picos(3), Event::Scheduled(3));
        let times: Vec<_> = std::iter::from_fn(|| queue.pop_until(Picos::NEVER))
            .map(|(at, _)| at.0)
            .collect();
        assert_eq!(times, [3, 4, 4, 7, 8, 9]);
        assert_eq!(queue.pop_until(Picos::NEVER), None);
    }
}
