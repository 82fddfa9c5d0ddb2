//! The event queue: what happens next in the whole fabric.
//!
//! Events are totally ordered: by time, then by their source's number, which is fixed by the plan. No order depends on when an
//! event was put in, so a run is the same however its pieces were scheduled. Two events of one source at one time are one
//! event twice, which its handler does not mind.

use xoff_dataplane::Picos;

/// Children of a node: four fit into a cache line, and the heap is half as deep as a binary one.
const ARITY: usize = 4;

/// Where an event comes from: a number of its own for each wire, host and timer of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Source(pub(super) u32);

/// A time and a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) at: Picos,
    pub(super) source: Source,
}

impl Event {
    /// Time and source as one number, so that a comparison is one comparison.
    #[inline]
    fn key(self) -> u128 {
        u128::from(self.at.0) << 32 | u128::from(self.source.0)
    }
}

/// A heap of events, the earliest first.
#[derive(Clone, Debug, Default)]
pub(super) struct EventQueue {
    heap: Vec<Event>,
}

impl EventQueue {
    pub(super) fn with_capacity(events: usize) -> EventQueue {
        EventQueue {
            heap: Vec::with_capacity(events),
        }
    }

    /// How many events are pending.
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The earliest event.
    #[inline]
    pub(super) fn peek(&self) -> Option<Event> {
        self.heap.first().copied()
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        let mut hole = self.heap.len();
        self.heap.push(event);
        let key = event.key();
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent].key() <= key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = event;
    }

    /// Removes the earliest event.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        let first = *self.heap.first()?;
        // The heap is not empty.
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sink(last);
        }
        Some(first)
    }

    /// Replaces the earliest event: cheaper than to remove it and to add the other.
    #[inline]
    pub(super) fn replace(&mut self, event: Event) {
        debug_assert!(!self.heap.is_empty());
        self.sink(event);
    }

    /// Puts `event` where the root was.
    #[inline]
    fn sink(&mut self, event: Event) {
        let (key, len) = (event.key(), self.heap.len());
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            if first >= len {
                break;
            }
            let mut least = first;
            let mut least_key = self.heap[first].key();
            for child in first + 1..(first + ARITY).min(len) {
                let child_key = self.heap[child].key();
                if child_key < least_key {
                    (least, least_key) = (child, child_key);
                }
            }
            if key <= least_key {
                break;
            }
            self.heap[hole] = self.heap[least];
            hole = least;
        }
        self.heap[hole] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: u64, source: u32) -> Event {
        Event {
            at: Picos(at),
            source: Source(source),
        }
    }

    #[test]
    fn comes_out_in_order_whatever_the_order_in() {
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 40
        };
        let (mut queue, mut expected) = (EventQueue::default(), Vec::new());
        let mut out = Vec::new();
        for _ in 0..5_000 {
            let event = event(draw() % 500, draw() as u32 % 50);
            queue.push(event);
            expected.push(event);
        }
        while let Some(event) = queue.pop() {
            out.push(event);
        }
        expected.sort_unstable();
        assert_eq!(out, expected);
    }

    #[test]
    fn replacing_is_popping_and_pushing() {
        let (mut one, mut other) = (EventQueue::default(), EventQueue::default());
        for n in 0..100 {
            one.push(event(n * 7 % 31, n as u32));
            other.push(event(n * 7 % 31, n as u32));
        }
        for n in 0..200 {
            let next = event(n * 13 % 97, n as u32);
            other.pop();
            other.push(next);
            one.replace(next);
            assert_eq!(one.peek(), other.peek());
        }
        assert_eq!(one.len(), other.len());
    }
}
