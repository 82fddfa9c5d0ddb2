//! Enhanced transmission selection (ETS, IEEE 802.1Q-2018 8.6.8.3): traffic classes with strict priority or with a share
//! of the bandwidth.

use super::scheduler::next_set_bit;
use crate::bits::iter_set_bits;
use crate::ids::PRIORITIES;
use xoff_wire::lldp::{EtsTables, SelectionAlgorithm};

/// Number of tag units per byte, for a weight of 1.
const TAG_SCALE: u64 = 1 << 16;
/// Weight of a queue whose frames do not count for the shares of other queues: the tag units of the longest frame
/// (65 535 bytes) divided by this weight are 0.
const UNCOUNTED_WEIGHT: u32 = u32::MAX;

/// Selects a queue of a port by its traffic class. Several queues can belong to one traffic class.
///
/// Three rules apply in this order:
///
/// 1. The highest traffic class with strict priority is served first.
/// 2. Traffic classes with a share of the bandwidth get the rest in proportion to their shares, in bytes. The algorithm
///    is start-time fair queueing (Goyal, Vin, Cheng 1996). A class collects no credit while it is idle.
/// 3. Queues with the share 0 %, and queues that carry no priority, are served in turn when no other queue has a frame.
///
/// The queues of one class send frames in turn.
#[derive(Clone, Debug)]
pub struct EtsScheduler {
    class_of_queue: [u8; PRIORITIES],
    /// Weight of the class of each queue, at least 1.
    weights: [u32; PRIORITIES],
    /// Start tag of the last sent frame. A tag is a position in the service order.
    virtual_time: u64,
    /// Finish tag of the last frame of each class.
    finish: [u64; PRIORITIES],
    /// Queues of the classes with strict priority. Bit *n* is queue *n*.
    strict_queues: u8,
    /// Queues of the classes with a share above 0 %.
    share_queues: u8,
    queues_of_class: [u8; PRIORITIES],
    /// Queue of each class that was selected last.
    latest_of_class: [u8; PRIORITIES],
    /// Queue of rule 3 that was selected last.
    latest_other: u8,
}

impl EtsScheduler {
    /// Creates a scheduler for the tables of an ETS configuration. `queue_of_priority` has the queue of each priority, 0
    /// to 7. The priorities of one queue must have one traffic class. Otherwise, the lowest of them decides.
    ///
    /// The port must support the algorithms of the classes: every algorithm that is not ETS counts as strict priority.
    pub fn new(tables: &EtsTables, queue_of_priority: &[u8; PRIORITIES]) -> EtsScheduler {
        let mut scheduler = EtsScheduler::without_classes();
        for (&class, &queue) in tables.traffic_class.iter().zip(queue_of_priority).rev() {
            let (class, queue) = (usize::from(class) % PRIORITIES, usize::from(queue) % PRIORITIES);
            scheduler
                .queues_of_class
                .iter_mut()
                .for_each(|queues| *queues &= !(1 << queue));
            scheduler.queues_of_class[class] |= 1 << queue;
            scheduler.class_of_queue[queue] = class as u8;
        }
        for class in 0..PRIORITIES {
            let queues = scheduler.queues_of_class[class];
            match (tables.algorithm[class], tables.bandwidth_percent[class]) {
                (SelectionAlgorithm::Ets, 0) => {}
                (SelectionAlgorithm::Ets, percent) => {
                    scheduler.share_queues |= queues;
                    iter_set_bits(queues).for_each(|queue| scheduler.weights[queue] = percent.into());
                }
                _ => scheduler.strict_queues |= queues,
            }
        }
        scheduler
    }

    /// Creates a scheduler in which each queue is a class of its own, with this weight. The smallest weight is 1.
    pub fn with_weights(weights: [u8; PRIORITIES]) -> EtsScheduler {
        EtsScheduler {
            class_of_queue: core::array::from_fn(|queue| queue as u8),
            queues_of_class: core::array::from_fn(|queue| 1 << queue),
            weights: weights.map(|weight| weight.max(1).into()),
            share_queues: 0xff,
            ..EtsScheduler::without_classes()
        }
    }

    /// Returns a scheduler whose queues have no class.
    fn without_classes() -> EtsScheduler {
        EtsScheduler {
            class_of_queue: [0; PRIORITIES],
            weights: [UNCOUNTED_WEIGHT; PRIORITIES],
            virtual_time: 0,
            finish: [0; PRIORITIES],
            strict_queues: 0,
            share_queues: 0,
            queues_of_class: [0; PRIORITIES],
            latest_of_class: [0; PRIORITIES],
            latest_other: 0,
        }
    }

    /// Selects a queue from the bit mask `eligible`. If classes are equal, the higher class is selected. Returns `None`
    /// if the mask is 0.
    pub fn choose(&mut self, eligible: u8) -> Option<usize> {
        let (strict_queues, share_queues) = (eligible & self.strict_queues, eligible & self.share_queues);
        let class = match strict_queues {
            0 => self.next_share_class(share_queues),
            queues => iter_set_bits(queues)
                .map(|queue| self.class_of_queue[queue])
                .max(),
        };
        let (queues, latest) = match class {
            Some(class) => {
                let class = usize::from(class) % PRIORITIES;
                (
                    eligible & self.queues_of_class[class],
                    &mut self.latest_of_class[class],
                )
            }
            None => (eligible, &mut self.latest_other),
        };
        if queues == 0 {
            return None;
        }
        let queue = next_set_bit(queues, usize::from(*latest));
        *latest = queue as u8;
        Some(queue)
    }

    /// Returns the class with the lowest start tag. Returns `None` if the mask `queues` is 0.
    fn next_share_class(&self, queues: u8) -> Option<u8> {
        (0..PRIORITIES as u8)
            .rev()
            .filter(|&class| queues & self.queues_of_class[usize::from(class)] != 0)
            .min_by_key(|&class| self.start_tag(usize::from(class)))
    }

    /// Charges a frame of `bytes` bytes to the class of its queue.
    #[inline]
    pub fn charge(&mut self, queue: usize, bytes: u32) {
        let queue = queue % PRIORITIES;
        let class = usize::from(self.class_of_queue[queue]) % PRIORITIES;
        let start = self.start_tag(class);
        self.virtual_time = start;
        self.finish[class] = start + u64::from(bytes) * TAG_SCALE / u64::from(self.weights[queue].max(1));
    }

    #[inline]
    fn start_tag(&self, class: usize) -> u64 {
        self.virtual_time.max(self.finish[class])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: [u8; PRIORITIES] = [0, 1, 2, 3, 4, 5, 6, 7];

    fn send(scheduler: &mut EtsScheduler, lengths: [u32; 8], eligible: u8, bytes: u64) -> [u64; PRIORITIES] {
        let mut sum = [0; PRIORITIES];
        while sum.iter().sum::<u64>() < bytes {
            let queue = scheduler.choose(eligible).expect("a queue is eligible");
            assert_ne!(eligible & 1 << queue, 0);
            scheduler.charge(queue, lengths[queue]);
            sum[queue] += u64::from(lengths[queue]);
        }
        sum
    }

    fn bytes_per_weight(weights: [u8; 8], lengths: [u32; 8], eligible: u8, bytes: u64) -> [u64; 8] {
        send(&mut EtsScheduler::with_weights(weights), lengths, eligible, bytes)
    }

    /// Returns tables with these classes and shares. `None` stands for strict priority.
    fn tables(traffic_class: [u8; 8], shares: &[Option<u8>]) -> EtsTables {
        let mut tables = EtsTables {
            traffic_class,
            ..EtsTables::default()
        };
        for (class, share) in shares.iter().enumerate() {
            if let Some(percent) = share {
                tables.algorithm[class] = SelectionAlgorithm::Ets;
                tables.bandwidth_percent[class] = *percent;
            }
        }
        tables
    }

    #[test]
    fn classes_share_the_link_by_bytes_and_weight() {
        let mut lengths = [1000; PRIORITIES];
        lengths[1] = 100;
        let sum = bytes_per_weight([1; PRIORITIES], lengths, 0b11, 1_000_000);
        assert!(sum[0].abs_diff(sum[1]) <= 1000, "{sum:?}");
        let mut weights = [1; PRIORITIES];
        weights[5] = 3;
        let sum = bytes_per_weight(weights, lengths, 0b10_0001, 1_000_000);
        assert!(sum[5].abs_diff(750_000) <= 1000, "{sum:?}");
        assert_eq!(EtsScheduler::with_weights([1; PRIORITIES]).choose(0), None);
    }

    #[test]
    fn an_idle_class_earns_no_credit() {
        let mut share = EtsScheduler::with_weights([1; PRIORITIES]);
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
    fn several_queues_of_a_class_have_one_share() {
        let tables = tables([0, 0, 0, 1, 0, 0, 0, 0], &[Some(20), Some(80)]);
        let lengths = [64, 1000, 1500, 9000, 1, 1, 1, 1];
        // One, two and three queues of class 0 compete with class 1.
        for eligible in [0b1001, 0b1011, 0b1111] {
            let mut scheduler = EtsScheduler::new(&tables, &IDENTITY);
            let sum = send(&mut scheduler, lengths, eligible, 10_000_000);
            assert!(sum[3].abs_diff(8_000_000) <= 20_000, "{eligible:#b}: {sum:?}");
            // The queues of a class send frame by frame.
            assert!(
                eligible & 2 == 0 || (sum[0] / 64).abs_diff(sum[1] / 1000) <= 1,
                "{sum:?}"
            );
        }
        // Without the other class, a class gets the whole link.
        let mut scheduler = EtsScheduler::new(&tables, &IDENTITY);
        assert_eq!(send(&mut scheduler, lengths, 0b1, 6_400)[0], 6_400);
    }

    #[test]
    fn strict_classes_are_first_and_do_not_change_the_shares_of_others() {
        // Class 2 has queues 1 and 5, class 3 has queue 0.
        let tables = tables([3, 2, 0, 1, 0, 2, 0, 0], &[Some(25), Some(75), None, None]);
        let mut scheduler = EtsScheduler::new(&tables, &IDENTITY);
        assert_eq!(scheduler.choose(0b0010_1111), Some(0));
        let turns = [(); 3].map(|()| scheduler.choose(0b0010_1110));
        assert_eq!(turns, [Some(1), Some(5), Some(1)]);
        let mut sum = [0_u64; PRIORITIES];
        for round in 0..40_000 {
            let strict = if round % 3 == 0 { 0b10 } else { 0 };
            let queue = scheduler.choose(0b1100 | strict).expect("a queue is eligible");
            scheduler.charge(queue, 1000);
            sum[queue] += 1000;
        }
        let rest = sum[2] + sum[3];
        assert_eq!(sum[1], 13_334_000);
        assert!(sum[3].abs_diff(rest * 3 / 4) <= 2000, "{sum:?}");
    }

    #[test]
    fn queues_without_a_share_wait_for_all_others() {
        // Priorities 0 to 6 use queues 0 to 3. Queue 7 carries no priority, and class 2 has 0 %.
        let tables = tables([0, 1, 2, 3, 3, 3, 3, 3], &[Some(40), Some(60), Some(0)]);
        let queue_of_priority = [0, 1, 2, 3, 3, 3, 3, 3];
        let mut scheduler = EtsScheduler::new(&tables, &queue_of_priority);
        let sum = send(&mut scheduler, [1000; 8], 0b1000_0111, 1_000_000);
        assert_eq!((sum[2], sum[7]), (0, 0));
        assert!(sum[1].abs_diff(600_000) <= 2000, "{sum:?}");
        let sum = send(&mut scheduler, [1000; 8], 0b1000_0100, 10_000);
        assert_eq!((sum[2], sum[7]), (5000, 5000));
        assert_eq!(scheduler.choose(0b1000_1111), Some(3));
    }
}
