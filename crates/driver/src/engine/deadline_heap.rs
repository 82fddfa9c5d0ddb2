//! The event queue of the real-time engine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_dataplane::{Deadline, Picos};

/// Pending events, ordered by time and then by timer id.
///
/// The handling of an event usually adds one new event, such as the next departure of a port. The new event
/// replaces the handled event in the heap. The heap therefore moves entries once for both events, instead of
/// once for each event.
#[derive(Debug)]
pub(super) struct EventHeap {
    heap: BinaryHeap<Reverse<Deadline>>,
    /// Whether the first event of the heap was already returned. A returned event stays in the heap until the
    /// next call.
    is_first_taken: bool,
}

impl EventHeap {
    pub(super) fn with_capacity(events: usize) -> EventHeap {
        EventHeap {
            heap: BinaryHeap::with_capacity(events),
            is_first_taken: false,
        }
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, event: Deadline) {
        if std::mem::take(&mut self.is_first_taken)
            && let Some(mut first) = self.heap.peek_mut()
        {
            *first = Reverse(event);
            return;
        }
        self.heap.push(Reverse(event));
    }

    /// Returns and removes the first event if its time is at most `now`.
    #[inline]
    pub(super) fn take_due(&mut self, now: Picos) -> Option<Deadline> {
        if std::mem::take(&mut self.is_first_taken) {
            self.heap.pop();
        }
        let Reverse(first) = *self.heap.peek()?;
        self.is_first_taken = first.at <= now;
        self.is_first_taken.then_some(first)
    }

    /// Returns the first pending event without removing it.
    #[inline]
    pub(super) fn first(&self) -> Option<Deadline> {
        let first = match (self.is_first_taken, self.heap.as_slice()) {
            (false, events) => events.first(),
            // The root is taken. The next event is one of its two children.
            (true, [_, below @ ..]) => below.iter().take(2).max(),
            (true, []) => None,
        };
        first.map(|Reverse(event)| *event)
    }
}

#[cfg(test)]
mod tests {
    use xoff_dataplane::TimerId;

    use super::*;
    use xoff_testing::random_generator;

    #[test]
    fn events_are_taken_in_order_while_events_are_added() {
        let mut queue = EventHeap::with_capacity(4);
        let mut pending: Vec<Deadline> = Vec::new();
        let mut random = random_generator(1);
        let mut now = 0;
        for _ in 0..20_000 {
            assert_eq!(queue.first(), pending.iter().min().copied());
            match random(3) {
                0 => {
                    let event = Deadline {
                        at: Picos(now + random(20)),
                        timer: TimerId(random(8) as u32),
                    };
                    queue.push(event);
                    pending.push(event);
                }
                1 => now += random(5),
                _ => {
                    let due = pending
                        .iter()
                        .filter(|event| event.at <= Picos(now))
                        .min()
                        .copied();
                    assert_eq!(queue.take_due(Picos(now)), due);
                    if let Some(due) = due {
                        let index = pending
                            .iter()
                            .position(|event| *event == due)
                            .expect("the event is pending");
                        pending.swap_remove(index);
                    }
                }
            }
        }
    }
}
