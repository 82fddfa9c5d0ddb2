//! Event queues of a switch in virtual time.

use std::cmp::Reverse;
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
        for deadline in deadlines.drain(..) {
            self.push(deadline.at, Event::Deadline(deadline.timer));
        }
    }
}

/// An event queue ordered by time. Events with equal times are handled in the order in which they were added.
#[derive(Debug)]
pub struct TimeOrderedQueue<E> {
    heap: BinaryHeap<Reverse<(Picos, u64, Event<E>)>>,
    added_events: u64,
}

impl<E: Ord> TimeOrderedQueue<E> {
    /// Creates an empty queue that can store `events` events before it allocates more memory.
    pub fn with_capacity(events: usize) -> TimeOrderedQueue<E> {
        TimeOrderedQueue {
            heap: BinaryHeap::with_capacity(events),
            added_events: 0,
        }
    }
}

impl<E: Ord> Default for TimeOrderedQueue<E> {
    fn default() -> Self {
        TimeOrderedQueue::with_capacity(0)
    }
}

impl<E: Ord> EventQueue<E> for TimeOrderedQueue<E> {
    fn push(&mut self, at: Picos, event: Event<E>) {
        self.added_events += 1;
        self.heap.push(Reverse((at, self.added_events, event)));
    }

    fn next_time(&self) -> Option<Picos> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    fn pop_until(&mut self, until: Picos) -> Option<(Picos, Event<E>)> {
        if self.next_time()? > until {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

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
}
