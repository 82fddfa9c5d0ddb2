//! What is to happen and when: the engine's event queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_dataplane::{Deadline, Picos};

/// Pending events, the earliest first; of two at one time the one with the smaller timer id.
///
/// Handling an event nearly always asks for one more: the next frame of a wire, the next departure of a port. So its place stays
/// open until then, and the heap is put in order once instead of twice.
#[derive(Debug)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Deadline>>,
    /// The first of the heap is being handled, and pending no more.
    open: bool,
}

impl Agenda {
    pub(super) fn with_capacity(events: usize) -> Agenda {
        Agenda {
            heap: BinaryHeap::with_capacity(events),
            open: false,
        }
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, event: Deadline) {
        if std::mem::take(&mut self.open)
            && let Some(mut first) = self.heap.peek_mut()
        {
            *first = Reverse(event);
            return;
        }
        self.heap.push(Reverse(event));
    }

    /// Takes the first event if it is due by `now`.
    #[inline]
    pub(super) fn take_due(&mut self, now: Picos) -> Option<Deadline> {
        if std::mem::take(&mut self.open) {
            self.heap.pop();
        }
        let Reverse(first) = *self.heap.peek()?;
        self.open = first.at <= now;
        self.open.then_some(first)
    }

    /// The first event.
    #[inline]
    pub(super) fn first(&self) -> Option<Deadline> {
        let first = match (self.open, self.heap.as_slice()) {
            (false, events) => events.first(),
            // The two below the root of the heap.
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
    fn events_come_in_order_whatever_is_added_meanwhile() {
        let mut agenda = Agenda::with_capacity(4);
        let mut pending: Vec<Deadline> = Vec::new();
        let mut dice = random_generator(1);
        let mut now = 0;
        for _ in 0..20_000 {
            assert_eq!(agenda.first(), pending.iter().min().copied());
            match dice(3) {
                0 => {
                    let event = Deadline {
                        at: Picos(now + dice(20)),
                        timer: TimerId(dice(8) as u32),
                    };
                    agenda.push(event);
                    pending.push(event);
                }
                1 => now += dice(5),
                _ => {
                    let due = pending
                        .iter()
                        .filter(|event| event.at <= Picos(now))
                        .min()
                        .copied();
                    assert_eq!(agenda.take_due(Picos(now)), due);
                    if let Some(due) = due {
                        let place = pending
                            .iter()
                            .position(|event| *event == due)
                            .expect("it was found");
                        pending.swap_remove(place);
                    }
                }
            }
        }
    }
}
