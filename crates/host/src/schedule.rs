//! Whose turn it is: classes share the link by bytes, flows share their class by frames.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use xoff_dataplane::ids::PRIORITIES;
use xoff_units::Picos;

/// The flows of one class: those whose next frame is due, in the order in which they became so, and the others.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassQueue {
    ready: VecDeque<u32>,
    waiting: BinaryHeap<Reverse<(Picos, u32)>>,
}

impl ClassQueue {
    /// Enters a flow whose next frame is due at `due`.
    pub(super) fn push(&mut self, due: Picos, flow: u32) {
        self.waiting.push(Reverse((due, flow)));
    }

    /// When this class first has something to send: in the past if it has.
    pub(super) fn earliest(&self) -> Picos {
        match (self.ready.is_empty(), self.waiting.peek()) {
            (false, _) => Picos::ZERO,
            (true, Some(Reverse((due, _)))) => *due,
            (true, None) => Picos::NEVER,
        }
    }

    /// Takes the flow whose turn it is at `start`.
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

    /// Forgets a flow.
    pub(super) fn remove(&mut self, flow: u32) {
        self.ready.retain(|ready| *ready != flow);
        self.waiting.retain(|Reverse((_, waiting))| *waiting != flow);
    }

    /// Forgets every flow.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.waiting.clear();
    }
}

/// Tags are bytes in this many parts, divided by a weight.
const TAG_SCALE: u64 = 1 << 16;

/// Start-time fair queueing (Goyal, Vin, Cheng 1996) over the classes: each gets its weight's share of the bytes, one
/// that was idle gets no credit for it.
#[derive(Clone, Debug)]
pub(super) struct FairShare {
    weights: [u8; PRIORITIES],
    /// Start tag of the frame sent last.
    virtual_time: u64,
    finish: [u64; PRIORITIES],
}

impl FairShare {
    pub(super) fn new(weights: [u8; PRIORITIES]) -> FairShare {
        FairShare {
            weights,
            virtual_time: 0,
            finish: [0; PRIORITIES],
        }
    }

    /// The class of `eligible` whose turn it is; on a tie the higher one.
    pub(super) fn choose(&self, eligible: u8) -> Option<usize> {
        (0..PRIORITIES)
            .rev()
            .filter(|class| eligible & (1 << class) != 0)
            .min_by_key(|class| self.start_tag(*class))
    }

    /// Charges a frame of `bytes` to its class.
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

    fn served(
        weights: [u8; PRIORITIES],
        lengths: [u32; PRIORITIES],
        eligible: u8,
        bytes: u64,
    ) -> [u64; PRIORITIES] {
        let mut share = FairShare::new(weights);
        let mut sum = [0; PRIORITIES];
        while sum.iter().sum::<u64>() < bytes {
            let class = share.choose(eligible).unwrap();
            share.charge(class, lengths[class]);
            sum[class] += u64::from(lengths[class]);
        }
        sum
    }

    #[test]
    fn classes_share_by_bytes_and_weight_whatever_their_frame_length() {
        let mut lengths = [1000; PRIORITIES];
        lengths[1] = 100;
        let sum = served([1; PRIORITIES], lengths, 0b11, 1_000_000);
        assert!(sum[0].abs_diff(sum[1]) <= 1000, "{sum:?}");
        let mut weights = [1; PRIORITIES];
        weights[5] = 3;
        let sum = served(weights, lengths, 0b10_0001, 1_000_000);
        assert!(sum[5].abs_diff(750_000) <= 1000, "{sum:?}");
        assert_eq!(FairShare::new([1; PRIORITIES]).choose(0), None);
    }

    #[test]
    fn an_idle_class_earns_no_credit() {
        let mut share = FairShare::new([1; PRIORITIES]);
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
        // Half of the turns, and one more because it comes in the middle of the other's.
        assert_eq!(turns.iter().filter(|c| **c == 1).count(), 4, "{turns:?}");
    }

    #[test]
    fn flows_of_a_class_take_turns_once_due() {
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
