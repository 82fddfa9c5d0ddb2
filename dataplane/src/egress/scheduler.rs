//! Egress scheduler: strict priority first, then deficit weighted round robin in bytes.

use core::hint::select_unpredictable;

use super::shaper::TokenBucket;
use crate::config::{QueueConfig, Schedule};
use crate::ids::PRIORITIES;
use crate::pfc::bits;
use xoff_units::Picos;

/// Bytes for each turn of the DWRR queue with the smallest weight. Other queues get more in proportion to
/// their weights. The quantum is about one frame, so that shares are even over short times too.
const QUANTUM_BYTES: u32 = 1_536;

/// The decision of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This queue may send its first frame now.
    Queue(usize),
    /// No queue may send before this time. [`Picos::NEVER`]: not before a queue changes.
    Wait(Picos),
}

/// Schedules the eight egress queues of a port.
#[derive(Clone, Debug)]
#[repr(C)] // what each departure reads comes first
pub struct Scheduler {
    strict: u8,
    shaped: u8,
    current: u8,
    deficit: [u32; PRIORITIES],
    quantum: [u32; PRIORITIES],
    shapers: [Option<TokenBucket>; PRIORITIES],
}

impl Scheduler {
    /// Creates a scheduler with empty deficits.
    pub fn new(queues: &[QueueConfig; PRIORITIES]) -> Scheduler {
        let mut scheduler = Scheduler {
            strict: 0,
            shaped: 0,
            shapers: [const { None }; PRIORITIES],
            quantum: [0; PRIORITIES],
            deficit: [0; PRIORITIES],
            current: 0,
        };
        scheduler.reconfigure(queues);
        scheduler
    }

    /// Applies new weights and shapers. Deficits and the state of the shapers are kept.
    pub(crate) fn reconfigure(&mut self, queues: &[QueueConfig; PRIORITIES]) {
        let weight = |q: &QueueConfig| match q.schedule {
            Schedule::Strict => None,
            Schedule::Dwrr { weight } => Some(u32::from(weight.max(1))),
        };
        let smallest = queues.iter().filter_map(weight).min().unwrap_or(1);
        (self.strict, self.shaped) = (0, 0);
        for (n, queue) in queues.iter().enumerate() {
            match weight(queue) {
                None => self.strict |= 1 << n,
                Some(weight) => self.quantum[n] = weight * QUANTUM_BYTES / smallest,
            }
            self.shapers[n] = match (self.shapers[n].take(), queue.shaper) {
                (_, None) => None,
                (None, Some(shaper)) => Some(TokenBucket::new(shaper)),
                (Some(mut bucket), Some(shaper)) => {
                    bucket.reconfigure(shaper);
                    Some(bucket)
                }
            };
            self.shaped |= u8::from(queue.shaper.is_some()) << n;
        }
    }

    /// Selects one of the queues in `candidates` (bit *n*: queue *n* has a frame that may leave). `head_len`
    /// returns the length of the first frame of a queue. If a DWRR queue is selected, its deficit is reduced
    /// at once.
    #[inline(always)]
    pub fn choose(&mut self, now: Picos, candidates: u8, head_len: impl Fn(usize) -> u32) -> Choice {
        let held = match candidates & self.shaped {
            0 => 0,
            shaped => self.held_by_shapers(now, shaped),
        };
        let open = candidates & !held;
        if open == 0 {
            return Choice::Wait(self.shapers_ready_at(held));
        }
        let strict = open & self.strict;
        if strict != 0 {
            return Choice::Queue(7 - strict.leading_zeros() as usize);
        }
        // No branch here, because the outcome is unpredictable. One quantum usually suffices for a frame.
        let current = usize::from(self.current) % PRIORITIES;
        let may_stay = open & 1 << current != 0;
        let stays = may_stay & (self.deficit[current] >= head_len(current));
        let mut n = select_unpredictable(stays, current, next_bit(open, current));
        self.deficit[n] += select_unpredictable(stays, 0, self.quantum[n]);
        // The loop ends because the deficit of every candidate grows by at least QUANTUM_BYTES a round.
        loop {
            if let Some(left) = self.deficit[n].checked_sub(head_len(n)) {
                self.deficit[n] = left;
                self.current = n as u8;
                return Choice::Queue(n);
            }
            n = next_bit(open, n);
            self.deficit[n] = self.deficit[n].saturating_add(self.quantum[n]);
        }
    }

    /// Records that a frame of `bytes` bytes of queue `n` has started. `emptied`: the queue is empty now.
    #[inline(always)]
    pub fn sent(&mut self, now: Picos, n: usize, bytes: u32, emptied: bool) {
        if self.shaped & 1 << n != 0 {
            self.spend(now, n, bytes);
        }
        if emptied {
            self.deficit[n] = 0;
        }
    }

    /// Records a frame that passed through an otherwise empty port: queue `n` was selected and emptied.
    #[inline(always)]
    pub(crate) fn passed_through(&mut self, n: usize) {
        if self.strict & 1 << n == 0 {
            self.current = n as u8;
        }
        self.deficit[n] = 0;
    }

    /// True if queue `n` has a shaper.
    #[inline(always)]
    pub(crate) fn shapes(&self, n: usize) -> bool {
        self.shaped & 1 << n != 0
    }

    #[inline(never)]
    fn spend(&mut self, now: Picos, n: usize, bytes: u32) {
        if let Some(shaper) = &mut self.shapers[n] {
            shaper.spend(now, bytes);
        }
    }

    /// Clears the deficit of a queue that was flushed.
    pub(crate) fn forget_deficit(&mut self, n: usize) {
        self.deficit[n] = 0;
    }

    /// Clears the deficits of all queues after a flush.
    pub(crate) fn forget_deficits(&mut self) {
        self.deficit = [0; PRIORITIES];
    }

    #[inline(never)]
    fn held_by_shapers(&self, now: Picos, shaped: u8) -> u8 {
        bits(shaped)
            .filter(|&n| self.shapers[n].as_ref().is_some_and(|s| s.ready_at() > now))
            .fold(0, |held, n| held | 1 << n)
    }

    fn shapers_ready_at(&self, held: u8) -> Picos {
        let ready = |n: usize| {
            let shaper = self.shapers[n].as_ref();
            shaper.map_or(Picos::NEVER, TokenBucket::ready_at)
        };
        bits(held).map(ready).min().unwrap_or(Picos::NEVER)
    }
}

/// The lowest set bit above `n`, cyclically. Returns `n` if no other bit is set.
fn next_bit(mask: u8, n: usize) -> usize {
    let above = mask.rotate_right(n as u32 + 1);
    (n + 1 + above.trailing_zeros() as usize) % PRIORITIES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Shaper;

    fn dwrr(weight: u8) -> QueueConfig {
        QueueConfig {
            profile: 0,
            schedule: Schedule::Dwrr { weight },
            shaper: None,
            wred: None,
        }
    }

    fn run(
        scheduler: &mut Scheduler,
        candidates: u8,
        lens: [u32; PRIORITIES],
        turns: usize,
    ) -> [u64; PRIORITIES] {
        let mut bytes = [0; PRIORITIES];
        for _ in 0..turns {
            let Choice::Queue(n) = scheduler.choose(Picos::ZERO, candidates, |n| lens[n]) else {
                panic!("nothing chosen")
            };
            bytes[n] += u64::from(lens[n]);
            scheduler.sent(Picos::ZERO, n, lens[n], false);
        }
        bytes
    }

    #[test]
    fn bytes_follow_weights_whatever_the_frame_lengths() {
        let mut queues = [dwrr(1); PRIORITIES];
        queues[3] = dwrr(3);
        let mut scheduler = Scheduler::new(&queues);
        let bytes = run(&mut scheduler, 0b1001, [64, 0, 0, 9_216, 0, 0, 0, 0], 200_000);
        let ratio = bytes[3] as f64 / bytes[0] as f64;
        assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn strict_goes_first_and_the_higher_number_before_the_lower() {
        let mut queues = [dwrr(1); PRIORITIES];
        queues[5].schedule = Schedule::Strict;
        queues[6].schedule = Schedule::Strict;
        let mut scheduler = Scheduler::new(&queues);
        assert_eq!(
            scheduler.choose(Picos::ZERO, 0b0110_0001, |_| 64),
            Choice::Queue(6)
        );
        assert_eq!(
            scheduler.choose(Picos::ZERO, 0b0010_0001, |_| 64),
            Choice::Queue(5)
        );
        assert_eq!(
            scheduler.choose(Picos::ZERO, 0b0000_0001, |_| 64),
            Choice::Queue(0)
        );
    }

    #[test]
    fn a_shaped_queue_waits_and_says_until_when() {
        let mut queues = [dwrr(1); PRIORITIES];
        queues[2].shaper = Some(Shaper {
            bytes_per_second: 1_000,
            burst_bytes: 0,
        });
        let mut scheduler = Scheduler::new(&queues);
        assert_eq!(scheduler.choose(Picos::ZERO, 0b100, |_| 100), Choice::Queue(2));
        scheduler.sent(Picos::ZERO, 2, 100, false);
        assert_eq!(
            scheduler.choose(Picos::ZERO, 0b100, |_| 100),
            Choice::Wait(Picos::from_millis(100))
        );
        assert_eq!(scheduler.choose(Picos::ZERO, 0b101, |_| 100), Choice::Queue(0));
    }

    #[test]
    fn an_empty_mask_waits_for_a_change() {
        let mut scheduler = Scheduler::new(&[dwrr(1); PRIORITIES]);
        assert_eq!(
            scheduler.choose(Picos::ZERO, 0, |_| 64),
            Choice::Wait(Picos::NEVER)
        );
    }
}
