//! Egress scheduler: strict priority queues first, then deficit weighted round robin (DWRR) in bytes. While a
//! negotiated ETS configuration is in operation, [`EtsScheduler`] selects the queue instead.

use core::hint::select_unpredictable;

use super::config::{QueueConfig, SchedulingMode};
use super::ets::EtsScheduler;
use super::shaper::TokenBucket;
use crate::bits::{iter_set_bits, next_set_bit};
use crate::ids::PRIORITIES;
use xoff_units::Picos;

/// DWRR quantum: the number of bytes that the queue with the smallest weight may send in each turn. A queue
/// with a larger weight has a larger quantum, in proportion to its weight. The quantum is about one frame
/// long, so that shares are also correct over short times.
const QUANTUM_BYTES: u32 = 1_536;

/// The decision of the scheduler about the next frame of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerDecision {
    /// This queue (0 to 7) may send its first frame now.
    Queue(usize),
    /// No queue may send before this time. [`Picos::NEVER`]: no queue may send until a queue changes.
    Wait(Picos),
}

/// Scheduler of the eight egress queues of a port.
#[derive(Clone, Debug)]
#[repr(C)] // what each departure reads comes first
pub struct Scheduler {
    strict_queues: u8,
    /// Queues with a shaper. All queues if `ets` selects the queue.
    restricted_queues: u8,
    current_queue: u8,
    /// The deficit of an empty queue is 0.
    deficits: [u32; PRIORITIES],
    quanta: [u32; PRIORITIES],
    shapers: [Option<Box<TokenBucket>>; PRIORITIES],
    /// Strict queues of the configuration.
    configured_strict_queues: u8,
    /// Selects the queue instead of strict priority and DWRR. It is called only for `restricted_queues`, so ports
    /// without ETS need no additional step.
    ets: Option<Box<EtsScheduler>>,
}

impl Scheduler {
    /// Size of the fields that a frame uses if it did not wait in a queue. They are at the start.
    pub(crate) const HEAD_BYTES: usize = std::mem::offset_of!(Scheduler, deficits);

    /// Creates a scheduler for these queues. All deficits are zero.
    pub fn new(queues: &[QueueConfig; PRIORITIES]) -> Scheduler {
        let mut scheduler = Scheduler {
            strict_queues: 0,
            restricted_queues: 0,
            shapers: [const { None }; PRIORITIES],
            quanta: [0; PRIORITIES],
            deficits: [0; PRIORITIES],
            current_queue: 0,
            configured_strict_queues: 0,
            ets: None,
        };
        scheduler.reconfigure(queues);
        scheduler
    }

    /// Applies new weights and shapers. Deficits, the state of the shapers and ETS are kept.
    pub(crate) fn reconfigure(&mut self, queues: &[QueueConfig; PRIORITIES]) {
        let weight = |q: &QueueConfig| match q.schedule {
            SchedulingMode::Strict => None,
            SchedulingMode::Dwrr { weight } => Some(u32::from(weight.max(1))),
        };
        let smallest = queues.iter().filter_map(weight).min().unwrap_or(1);
        self.configured_strict_queues = 0;
        for (n, queue) in queues.iter().enumerate() {
            match weight(queue) {
                None => self.configured_strict_queues |= 1 << n,
                Some(weight) => self.quanta[n] = weight * QUANTUM_BYTES / smallest,
            }
            self.shapers[n] = match (self.shapers[n].take(), queue.shaper) {
                (_, None) => None,
                (None, Some(shaper)) => Some(Box::new(TokenBucket::new(shaper))),
                (Some(mut bucket), Some(shaper)) => {
                    bucket.reconfigure(shaper);
                    Some(bucket)
                }
            };
        }
        self.update_masks();
    }

    /// Lets `ets` select the queues. `None` restores strict priority and DWRR of the configuration. Shapers apply in
    /// both cases.
    pub(crate) fn set_ets(&mut self, ets: Option<EtsScheduler>) {
        self.ets = ets.map(Box::new);
        self.update_masks();
    }

    fn update_masks(&mut self) {
        let shaped = |n: usize| u8::from(self.shapers[n].is_some()) << n;
        let shaped_queues = (0..PRIORITIES).fold(0, |mask, n| mask | shaped(n));
        // With ETS, only one queue is left for the rules of `select_queue`. As a strict queue, it needs no deficit.
        (self.strict_queues, self.restricted_queues) = match self.ets {
            Some(_) => (0xff, 0xff),
            None => (self.configured_strict_queues, shaped_queues),
        };
    }

    /// Selects one of the queues in `candidates`. Bit *n* of this mask is set if queue *n* has a frame that
    /// may leave. `head_len` returns the length of the first frame of a queue in bytes. If a DWRR queue is
    /// selected, its deficit is reduced at once.
    #[inline(always)]
    pub fn select_queue(
        &mut self,
        now: Picos,
        candidates: u8,
        head_len: impl Fn(usize) -> u32,
    ) -> SchedulerDecision {
        let held = match candidates & self.restricted_queues {
            0 => 0,
            restricted_queues => self.held_queues(now, restricted_queues),
        };
        let open = candidates & !held;
        if open == 0 {
            return SchedulerDecision::Wait(self.shapers_ready_at(held));
        }
        let strict_queues = open & self.strict_queues;
        if strict_queues != 0 {
            return SchedulerDecision::Queue(7 - strict_queues.leading_zeros() as usize);
        }
        // No branch here, because a branch could not be predicted. One quantum is usually sufficient for
        // a frame.
        let current_queue = usize::from(self.current_queue) % PRIORITIES;
        let may_stay = open & 1 << current_queue != 0;
        let stays = may_stay & (self.deficits[current_queue] >= head_len(current_queue));
        let mut n = select_unpredictable(stays, current_queue, next_set_bit(open, current_queue));
        self.deficits[n] += select_unpredictable(stays, 0, self.quanta[n]);
        // The loop ends because the deficit of every candidate grows by at least QUANTUM_BYTES in each round.
        loop {
            if let Some(left) = self.deficits[n].checked_sub(head_len(n)) {
                self.deficits[n] = left;
                self.current_queue = n as u8;
                return SchedulerDecision::Queue(n);
            }
            n = next_set_bit(open, n);
            self.deficits[n] = self.deficits[n].saturating_add(self.quanta[n]);
        }
    }

    /// Records that the transmission of a frame from queue `queue` has started. `bytes` is the length of the
    /// frame (`mac_len`). `emptied` is true if the queue is now empty.
    #[inline(always)]
    pub fn record_sent(&mut self, now: Picos, queue: usize, bytes: u32, emptied: bool) {
        if self.restricted_queues & 1 << queue != 0 {
            self.charge_restricted(now, queue, bytes);
        }
        if emptied {
            self.deficits[queue] = 0;
        }
    }

    /// Records a frame that an idle port sends without queueing. The result is the same as if queue `queue`
    /// had been selected and emptied.
    #[inline(always)]
    pub(crate) fn record_unqueued_frame(&mut self, queue: usize) {
        debug_assert_eq!(self.deficits[queue], 0, "the queue is empty");
        if self.strict_queues & 1 << queue == 0 {
            self.current_queue = queue as u8;
        }
    }

    /// Returns the queues of which each frame counts for a shaper or for ETS.
    pub(crate) fn restricted_queues(&self) -> u8 {
        self.restricted_queues
    }

    #[inline(never)]
    fn charge_restricted(&mut self, now: Picos, queue: usize, bytes: u32) {
        if let Some(shaper) = &mut self.shapers[queue] {
            shaper.charge(now, bytes);
        }
        if let Some(ets) = &mut self.ets {
            ets.charge(queue, bytes);
        }
    }

    /// Clears the deficit of a queue that was flushed.
    pub(crate) fn clear_deficit(&mut self, queue: usize) {
        self.deficits[queue] = 0;
    }

    /// Clears the deficits of all queues after a flush.
    pub(crate) fn clear_deficits(&mut self) {
        self.deficits = [0; PRIORITIES];
    }

    /// Returns the queues that a shaper holds, and with ETS all queues that are not selected.
    #[inline(never)]
    fn held_queues(&mut self, now: Picos, restricted_queues: u8) -> u8 {
        let held = iter_set_bits(restricted_queues)
            .filter(|&n| self.shapers[n].as_ref().is_some_and(|s| s.ready_at() > now))
            .fold(0, |held, n| held | 1 << n);
        let selected = self
            .ets
            .as_mut()
            .and_then(|ets| ets.choose(restricted_queues & !held));
        match selected {
            Some(queue) => restricted_queues & !(1 << queue),
            None => held,
        }
    }

    fn shapers_ready_at(&self, held: u8) -> Picos {
        let ready = |n: usize| {
            let shaper = self.shapers[n].as_ref();
            shaper.map_or(Picos::NEVER, |shaper| shaper.ready_at())
        };
        iter_set_bits(held).map(ready).min().unwrap_or(Picos::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::config::ShaperConfig;

    fn dwrr(weight: u8) -> QueueConfig {
        QueueConfig {
            profile: 0,
            schedule: SchedulingMode::Dwrr { weight },
            shaper: None,
            wred: None,
        }
    }

    fn send_turns(
        scheduler: &mut Scheduler,
        candidates: u8,
        lens: [u32; PRIORITIES],
        turns: usize,
    ) -> [u64; PRIORITIES] {
        let mut bytes = [0; PRIORITIES];
        for _ in 0..turns {
            let SchedulerDecision::Queue(n) = scheduler.select_queue(Picos::ZERO, candidates, |n| lens[n])
            else {
                panic!("nothing chosen")
            };
            bytes[n] += u64::from(lens[n]);
            scheduler.record_sent(Picos::ZERO, n, lens[n], false);
        }
        bytes
    }

    #[test]
    fn dwrr_shares_bytes_by_weight_for_all_frame_lengths() {
        let mut queues = [dwrr(1); PRIORITIES];
        queues[3] = dwrr(3);
        let mut scheduler = Scheduler::new(&queues);
        let bytes = send_turns(&mut scheduler, 0b1001, [64, 0, 0, 9_216, 0, 0, 0, 0], 200_000);
        let ratio = bytes[3] as f64 / bytes[0] as f64;
        assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn strict_queues_are_served_first_from_highest_to_lowest() {
        let mut queues = [dwrr(1); PRIORITIES];
        queues[5].schedule = SchedulingMode::Strict;
        queues[6].schedule = SchedulingMode::Strict;
        let mut scheduler = Scheduler::new(&queues);
        assert_eq!(
            scheduler.select_queue(Picos::ZERO, 0b0110_0001, |_| 64),
            SchedulerDecision::Queue(6)
        );
        assert_eq!(
            scheduler.select_queue(Picos::ZERO, 0b0010_0001, |_| 64),
            SchedulerDecision::Queue(5)
        );
        assert_eq!(
            scheduler.select_queue(Picos::ZERO, 0b0000_0001, |_| 64),
            SchedulerDecision::Queue(0)
        );
    }

    #[test]
    fn a_shaped_queue_waits_until_its_shaper_permits_a_frame() {
        let mut queues = [dwrr(1); PRIORITIES];
        queues[2].shaper = Some(ShaperConfig {
            bytes_per_second: 1_000,
            burst_bytes: 0,
        });
        let mut scheduler = Scheduler::new(&queues);
        assert_eq!(
            scheduler.select_queue(Picos::ZERO, 0b100, |_| 100),
            SchedulerDecision::Queue(2)
        );
        scheduler.record_sent(Picos::ZERO, 2, 100, false);
        assert_eq!(
            scheduler.select_queue(Picos::ZERO, 0b100, |_| 100),
            SchedulerDecision::Wait(Picos::from_millis(100))
        );
        assert_eq!(
            scheduler.select_queue(Picos::ZERO, 0b101, |_| 100),
            SchedulerDecision::Queue(0)
        );
    }

    #[test]
    fn ets_replaces_strict_priority_and_dwrr_until_it_ends() {
        let mut queues = [dwrr(1); PRIORITIES];
        queues[5].schedule = SchedulingMode::Strict;
        let mut scheduler = Scheduler::new(&queues);
        let mut weights = [1; PRIORITIES];
        weights[0] = 4;
        scheduler.set_ets(Some(EtsScheduler::with_weights(weights)));
        let lens = [1000; PRIORITIES];
        let bytes = send_turns(&mut scheduler, 0b10_0001, lens, 1_000);
        assert!(bytes[0].abs_diff(800_000) <= 2_000, "{bytes:?}");
        // A new configuration keeps ETS, and a shaper holds the queue that ETS would select.
        queues[0].shaper = Some(ShaperConfig {
            bytes_per_second: 1_000,
            burst_bytes: 0,
        });
        scheduler.reconfigure(&queues);
        let bytes = send_turns(&mut scheduler, 0b10_0001, lens, 10);
        assert_eq!(bytes[0], 1000);
        assert_eq!(scheduler.restricted_queues(), 0xff);
        scheduler.set_ets(None);
        assert_eq!(scheduler.restricted_queues(), 1);
        assert_eq!(send_turns(&mut scheduler, 0b10_0010, lens, 10)[5], 10_000);
        queues[5] = dwrr(1);
        scheduler.reconfigure(&queues);
        assert_eq!(send_turns(&mut scheduler, 0b10_0010, lens, 1_000)[5], 500_000);
    }

    #[test]
    fn no_candidate_queue_waits_without_a_deadline() {
        let mut scheduler = Scheduler::new(&[dwrr(1); PRIORITIES]);
        assert_eq!(
            scheduler.select_queue(Picos::ZERO, 0, |_| 64),
            SchedulerDecision::Wait(Picos::NEVER)
        );
    }
}
