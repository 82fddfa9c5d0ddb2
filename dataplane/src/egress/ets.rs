//! Enhanced transmission selection (ETS, IEEE 802.1Q-2018 8.6.8.3): traffic classes with strict priority or with a
//! share of the bandwidth.

use std::mem::offset_of;

use crate::bits::{iter_set_bits, next_set_bit};
use crate::ids::{PRIORITIES, ROCE_CLASS};
use xoff_units::prefetch;
use xoff_wire::lldp::{EtsTables, SelectionAlgorithm};

/// Number of tag units per byte, for a weight of 1.
const TAG_SCALE: u64 = 1 << 16;
/// Weight of a queue whose frames do not count for the shares of other queues: the tag units of the longest frame
/// (65 535 bytes) divided by this weight are 0.
const UNCOUNTED_WEIGHT: u32 = u32::MAX;
/// Number of classes of a scheduler: the traffic classes, and a class for each queue without a priority.
const CLASSES: usize = 2 * PRIORITIES;
/// Smallest share of a class in percent, so that no class starves.
const SHARE_MIN_PERCENT: u8 = 1;

/// Selects a queue of a port by its traffic class. Several queues can belong to one traffic class.
///
/// The highest traffic class with strict priority is served first. The other classes get the rest in proportion to
/// their shares, in bytes. The algorithm is start-time fair queueing (Goyal, Vin, Cheng 1996). A class collects no
/// credit while it is idle. The queues of one class send frames in turn.
///
/// A share of 0 % counts as 1 %. A queue that carries no priority is a class of its own with the share 1 %. The switch
/// sends its own frames, such as LLDP and ARP, through queue 7, also if no priority uses this queue.
///
/// A frame uses the first cache line and the line of its class.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct EtsScheduler {
    /// Start tag of the last sent frame. A tag is a position in the service order.
    virtual_time: u64,
    /// Queues of the classes with strict priority. Bit *n* is queue *n*.
    strict_queues: u8,
    class_of_queue: [u8; PRIORITIES],
    /// Weight of the class of each queue, at least 1.
    weights: [u32; PRIORITIES],
    classes: [Class; CLASSES],
}

const _: () = assert!(offset_of!(EtsScheduler, classes) <= 64);

/// State of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    /// Finish tag of the last frame.
    finish: u64,
    /// Queues of the class. Bit *n* is queue *n*.
    queues: u8,
    /// The queue that was selected last.
    latest_queue: u8,
}

impl EtsScheduler {
    /// Creates a scheduler for the tables of an ETS configuration. `queue_of_priority` has the queue of each priority,
    /// 0 to 7. The priorities of one queue must have one traffic class. Otherwise, the lowest of them decides.
    ///
    /// The port must support the algorithms of the classes: every algorithm that is not ETS counts as strict priority.
    pub fn new(tables: &EtsTables, queue_of_priority: &[u8; PRIORITIES]) -> EtsScheduler {
        let own_class = |queue: usize| (PRIORITIES + queue) as u8;
        let mut class_of_queue = core::array::from_fn(own_class);
        for (&class, &queue) in tables.traffic_class.iter().zip(queue_of_priority).rev() {
            class_of_queue[usize::from(queue) % PRIORITIES] = class % PRIORITIES as u8;
        }
        let percent_of = |class: u8| {
            let class = usize::from(class);
            match tables.algorithm.get(class) {
                None => Some(SHARE_MIN_PERCENT),
                Some(SelectionAlgorithm::Ets) => Some(tables.bandwidth_percent[class].max(SHARE_MIN_PERCENT)),
                Some(_) => None,
            }
        };
        EtsScheduler::with_classes(class_of_queue, class_of_queue.map(percent_of))
    }

    /// Creates a scheduler in which each queue is a class of its own, with this weight. The smallest weight is 1.
    pub fn with_weights(weights: [u8; PRIORITIES]) -> EtsScheduler {
        EtsScheduler::with_classes(core::array::from_fn(|queue| queue as u8), weights.map(Some))
    }

    /// `weights` has the weight of the class of each queue. `None` stands for strict priority.
    fn with_classes(class_of_queue: [u8; PRIORITIES], weights: [Option<u8>; PRIORITIES]) -> EtsScheduler {
        let mut classes = [Class::default(); CLASSES];
        let mut strict_queues = 0;
        for (queue, &class) in class_of_queue.iter().enumerate() {
            classes[usize::from(class) % CLASSES].queues |= 1 << queue;
            strict_queues |= u8::from(weights[queue].is_none()) << queue;
        }
        EtsScheduler {
            virtual_time: 0,
            strict_queues,
            class_of_queue,
            weights: weights.map(|weight| weight.map_or(UNCOUNTED_WEIGHT, |weight| weight.max(1).into())),
            classes,
        }
    }

    /// Selects a queue from the bit mask `eligible`. If classes are equal, the higher class is selected. Returns `None`
    /// if the mask is 0.
    pub fn choose(&mut self, eligible: u8) -> Option<usize> {
        let class = match eligible & self.strict_queues {
            0 => (0..CLASSES)
                .rev()
                .filter(|&class| eligible & self.classes[class].queues != 0)
                .min_by_key(|&class| self.start_tag(class))?,
            queues => {
                let classes = iter_set_bits(queues).map(|queue| usize::from(self.class_of_queue[queue]));
                classes.max()? % CLASSES
            }
        };
        let class = &mut self.classes[class];
        let queue = next_set_bit(eligible & class.queues, usize::from(class.latest_queue));
        class.latest_queue = queue as u8;
        Some(queue)
    }

    /// Charges a frame of `bytes` bytes to the class of its queue.
    #[inline]
    pub fn charge(&mut self, queue: usize, bytes: u32) {
        let queue = queue % PRIORITIES;
        let class = usize::from(self.class_of_queue[queue]) % CLASSES;
        let start = self.start_tag(class);
        self.virtual_time = start;
        let tags = u64::from(bytes) * TAG_SCALE;
        self.classes[class].finish = start
            + match self.weights[queue] {
                // Without a configuration, all weights are 1.
                0 | 1 => tags,
                weight => tags / u64::from(weight),
            };
    }

    /// Fetches the memory that a frame uses if its queue is a class of its own, without waiting for it.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self);
        prefetch(&self.classes[ROCE_CLASS]);
    }

    #[inline]
    fn start_tag(&self, class: usize) -> u64 {
        self.virtual_time.max(self.classes[class].finish)
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
    fn classes_without_a_share_and_queues_without_a_priority_get_one_percent() {
        // Queues 0 to 3 carry priorities, and class 2 has 0 %. Queue 7 carries no priority.
        let tables = tables([0, 1, 2, 3, 3, 3, 3, 3], &[Some(40), Some(60), Some(0)]);
        let queue_of_priority = [0, 1, 2, 3, 3, 3, 3, 3];
        let mut scheduler = EtsScheduler::new(&tables, &queue_of_priority);
        let sum = send(&mut scheduler, [1000; 8], 0b1000_0111, 102_000_000);
        for (queue, percent) in [(0, 40), (1, 60), (2, 1), (7, 1)] {
            assert!(sum[queue].abs_diff(percent * 1_000_000) <= 2000, "{sum:?}");
        }
        assert_eq!(scheduler.choose(0b1000_1111), Some(3));
    }
}
