//! Scheduling of frames. Classes share the link in proportion to their bytes and weights. Flows of one class
//! send in turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_dataplane::ids::PRIORITIES;
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

/// Number of tag units per byte, for a weight of 1.
const TAG_SCALE: u64 = 1 << 16;

/// Start-time fair queueing of the classes (Goyal, Vin, Cheng 1996). Each class gets a share of the bytes in
/// proportion to its weight. A class collects no credit while it is idle.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct FairScheduler {
    /// Start tag of the last sent frame. A tag is a position in the service order.
    virtual_time: u64,
    weights: [u8; PRIORITIES],
    finish: [u64; PRIORITIES],
}

impl FairScheduler {
    pub(super) fn new(weights: [u8; PRIORITIES]) -> FairScheduler {
        FairScheduler {
            weights,
            virtual_time: 0,
            finish: [0; PRIORITIES],
        }
    }

    /// Selects a class from the bit map `eligible`. If classes are equal, the higher class is selected.
    /// Returns `None` if the bit map is 0.
    pub(super) fn choose(&self, eligible: u8) -> Option<usize> {
        (0..PRIORITIES)
            .rev()
            .filter(|class| eligible & (1 << class) != 0)
            .min_by_key(|class| self.start_tag(*class))
    }

    /// Charges a frame of `bytes` bytes to its class.
    pub(super) fn charge(&mut self, class: usize, bytes: u32) {
        let start = self.start_tag(class);
        self.virtual_time = start;
        self.finish[class] = start + u64::from(bytes) * TAG_SCALE / u64::from(self.weights[class].max(1));
    }

    fn start_tag(&self, class: usize) -> u64 {
        self.virtual_time.max(self.finish[class])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_per_class(
        weights: [u8; PRIORITIES],
        lengths: [u32; PRIORITIES],
        eligible: u8,
        bytes: u64,
    ) -> [u64; PRIORITIES] {
        let mut share = FairScheduler::new(weights);
        let mut sum = [0; PRIORITIES];
        while sum.iter().sum::<u64>() < bytes {
            let class = share.choose(eligible).unwrap();
            share.charge(class, lengths[class]);
            sum[class] += u64::from(lengths[class]);
        }
        sum
    }

    #[test]
    fn classes_share_the_link_by_bytes_and_weight() {
        let mut lengths = [1000; PRIORITIES];
        lengths[1] = 100;
        let sum = bytes_per_class([1; PRIORITIES], lengths, 0b11, 1_000_000);
        assert!(sum[0].abs_diff(sum[1]) <= 1000, "{sum:?}");
        let mut weights = [1; PRIORITIES];
        weights[5] = 3;
        let sum = bytes_per_class(weights, lengths, 0b10_0001, 1_000_000);
        assert!(sum[5].abs_diff(750_000) <= 1000, "{sum:?}");
        assert_eq!(FairScheduler::new([1; PRIORITIES]).choose(0), None);
    }

    #[test]
    fn an_idle_class_earns_no_credit() {
        let mut share = FairScheduler::new([1; PRIORITIES]);
        for _ in 0..100 {
            share.charge(0, 1000);
        }
        let turns: Vec<usize> = (0..6)
            .map(|_| {
                let class = share.choose(0b11).unwrap();
                share.charge(class, 1000);
                class
            })
            .collect();
        // Half of the frames, and one more because its turn falls into the middle of the other class.
        assert_eq!(turns.iter().filter(|c| **c == 1).count(), 4, "{turns:?}");
    }

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
