//! Scheduling of the flows of one class: they send in turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_units::Picos;

/// Flows of one class. The flows that may send are sorted by the time at which they became ready.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassQueue {
    ready: VecDeque<u32>,
    waiting: BinaryHeap<Reverse<(Picos, u32)>>,
}

impl ClassQueue {
    /// Queues a flow. Its next frame is due at `due`.
    pub(super) fn push(&mut self, due: Picos, flow: u32) {
        self.waiting.push(Reverse((due, flow)));
    }

    /// Returns the time of the next frame of this class. The time is 0 if a flow is ready, and
    /// [`Picos::NEVER`] if the class has no flow.
    pub(super) fn earliest(&self) -> Picos {
        match (self.ready.is_empty(), self.waiting.peek()) {
            (false, _) => Picos::ZERO,
            (true, Some(Reverse((due, _)))) => *due,
            (true, None) => Picos::NEVER,
        }
    }

    /// Takes the next flow that may send at `start`. Returns `None` if no flow may send.
    pub(super) fn pop(&mut self, start: Picos) -> Option<u32> {
        while let Some(&Reverse((due, flow))) = self.waiting.peek() {
            if due > start {
                break;
            }
            self.waiting.pop();
            self.ready.push_back(flow);
        }
        self.ready.pop_front()
    }

    /// Removes a flow.
    pub(super) fn remove(&mut self, flow: u32) {
        self.ready.retain(|ready| *ready != flow);
        self.waiting.retain(|Reverse((_, waiting))| *waiting != flow);
    }

    /// Removes all flows.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_flows_of_a_class_alternate() {
        let mut queue = ClassQueue::default();
        queue.push(Picos(10), 1);
        queue.push(Picos(5), 2);
        assert_eq!(queue.earliest(), Picos(5));
        assert_eq!(queue.pop(Picos(4)), None);
        assert_eq!(queue.pop(Picos(10)), Some(2));
        queue.push(Picos(6), 2);
        assert_eq!(queue.earliest(), Picos::ZERO);
        assert_eq!(queue.pop(Picos(10)), Some(1));
        assert_eq!(queue.pop(Picos(10)), Some(2));
        assert_eq!(queue.earliest(), Picos::NEVER);
    }
}
