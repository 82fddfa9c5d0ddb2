//! Calendar of partitions: it returns the partitions that have events in the next time window.
//!
//! Time is divided into intervals of equal length. Each interval has a list of the partitions whose earliest
//! event is in it. The cost of a window is proportional to the number of its partitions, and does not depend
//! on the number of partitions of the fabric.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_units::Picos;

/// Number of intervals with a list of their own. Partitions without an event in these intervals wait in a heap.
const INTERVALS: usize = 1024;
const WORDS: usize = INTERVALS / 64;

/// Partitions whose earliest event is in one interval.
#[derive(Clone, Debug)]
struct Interval {
    /// Time of the earliest event, or [`Picos::NEVER`] if the list is empty.
    first: Picos,
    /// Partitions. A partition can occur several times, and its events can have been processed since.
    partitions: Vec<u32>,
}

impl Interval {
    const EMPTY: Interval = Interval {
        first: Picos::NEVER,
        partitions: Vec::new(),
    };
}

/// Partitions, sorted by the interval of their earliest event.
#[derive(Clone, Debug)]
pub(super) struct PartitionCalendar {
    /// Length of an interval, at least 1 ps.
    interval: Picos,
    /// Number of the earliest interval that can have partitions. Interval `n` begins at `n` times the length.
    first_interval: u64,
    /// Interval `n` is at the index `n` modulo [`INTERVALS`].
    intervals: Vec<Interval>,
    /// Bit map of the intervals that have partitions.
    occupied: [u64; WORDS],
    /// Partitions that are not in a list yet: interval, time of the earliest event, partition.
    far: BinaryHeap<Reverse<(u64, Picos, u32)>>,
    /// Time of the earliest entry of each partition in `far`, or [`Picos::NEVER`]. A partition often has a timer that
    /// is far away, and near events in each window. Without this table, `far` would get an entry in each window.
    far_at: Vec<Picos>,
}

/// Flag of a list entry that was in `far` before. See [`PartitionCalendar::take_earliest`].
pub(super) const FROM_FAR: u32 = 1 << 31;

impl PartitionCalendar {
    /// Creates an empty calendar of `partitions` partitions with intervals of the length `interval`.
    pub(super) fn new(partitions: usize, interval: Picos) -> PartitionCalendar {
        debug_assert!(partitions < FROM_FAR as usize);
        PartitionCalendar {
            interval: interval.max(Picos(1)),
            first_interval: 0,
            intervals: vec![Interval::EMPTY; INTERVALS],
            occupied: [0; WORDS],
            far: BinaryHeap::new(),
            far_at: vec![Picos::NEVER; partitions],
        }
    }

    /// Returns the length of an interval.
    pub(super) fn interval(&self) -> Picos {
        self.interval
    }

    /// Adds a partition whose earliest event is at the time `at`.
    #[inline(never)]
    pub(super) fn add(&mut self, partition: u32, at: Picos) {
        let interval = (at.0 / self.interval.0).max(self.first_interval);
        if interval - self.first_interval < INTERVALS as u64 {
            self.add_to_list(interval, partition, at);
        } else if at < self.far_at[partition as usize] {
            self.far_at[partition as usize] = at;
            self.far.push(Reverse((interval, at, partition)));
        }
    }

    fn add_to_list(&mut self, interval: u64, partition: u32, at: Picos) {
        let index = interval as usize % INTERVALS;
        self.occupied[index / 64] |= 1 << (index % 64);
        let list = &mut self.intervals[index];
        list.first = list.first.min(at);
        list.partitions.push(partition);
    }

    /// Returns the time of the earliest event of all partitions, or [`Picos::NEVER`].
    pub(super) fn earliest(&self) -> Picos {
        match self.first_occupied() {
            Some(interval) => self.intervals[interval as usize % INTERVALS].first,
            None => self.far.peek().map_or(Picos::NEVER, |Reverse((_, at, _))| *at),
        }
    }

    /// Takes the partitions of the earliest interval into `partitions`, which must be empty. Returns the end of
    /// the interval, or `None` if the calendar is empty. The caller must add each partition again that still has
    /// events and that belongs to the interval, or whose entry has the flag [`FROM_FAR`]: such an entry can represent
    /// later events too.
    pub(super) fn take_earliest(&mut self, partitions: &mut Vec<u32>) -> Option<Picos> {
        let interval = match self.first_occupied() {
            Some(interval) => interval,
            None => self.far.peek()?.0.0,
        };
        self.first_interval = interval;
        while let Some(Reverse((far, at, partition))) = self.far.peek().copied()
            && far - interval < INTERVALS as u64
        {
            self.far.pop();
            if self.far_at[partition as usize] == at {
                self.far_at[partition as usize] = Picos::NEVER;
            }
            self.add_to_list(far, partition | FROM_FAR, at);
        }
        let index = interval as usize % INTERVALS;
        self.occupied[index / 64] &= !(1 << (index % 64));
        let list = &mut self.intervals[index];
        list.first = Picos::NEVER;
        std::mem::swap(&mut list.partitions, partitions);
        Some(self.end_of(interval))
    }

    /// Returns the end of the interval that contains the time `at`.
    pub(super) fn end_of_interval(&self, at: Picos) -> Picos {
        self.end_of(at.0 / self.interval.0)
    }

    fn end_of(&self, interval: u64) -> Picos {
        Picos((interval + 1).saturating_mul(self.interval.0))
    }

    /// Returns the number of the first interval that has a list with partitions.
    fn first_occupied(&self) -> Option<u64> {
        let start = self.first_interval as usize % INTERVALS;
        // The first word occurs twice: first the bits from `start`, and at the end the bits before `start`.
        for step in 0..=WORDS {
            let word = (start / 64 + step) % WORDS;
            let mask = match step {
                0 => u64::MAX << (start % 64),
                WORDS => !(u64::MAX << (start % 64)),
                _ => u64::MAX,
            };
            let bits = self.occupied[word] & mask;
            if bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                let distance = (index + INTERVALS - start) % INTERVALS;
                return Some(self.first_interval + distance as u64);
            }
        }
        None
    }

    /// Removes all partitions.
    pub(super) fn clear(&mut self) {
        self.intervals.fill(Interval::EMPTY);
        self.occupied = [0; WORDS];
        self.far.clear();
        self.far_at.fill(Picos::NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use xoff_testing::random_generator;

    /// Partitions leave in the order of intervals, as from a sorted list.
    #[test]
    fn partitions_leave_by_interval() {
        let mut draw = random_generator(7);
        let width = 1_000;
        let mut calendar = PartitionCalendar::new(80_000, Picos(width));
        let (mut pending, mut now, mut partition) = (Vec::new(), 0, 0);
        for step in 0..20_000_u64 {
            for _ in 0..draw(4) {
                let bits = draw(24);
                let distance = draw(1 << bits);
                pending.push((now + distance, partition));
                calendar.add(partition, Picos(now + distance));
                partition += 1;
            }
            let earliest = pending.iter().map(|(at, _)| *at).min();
            assert_eq!(calendar.earliest().0, earliest.unwrap_or(u64::MAX), "{step}");
            let mut taken = Vec::new();
            let end = calendar.take_earliest(&mut taken);
            let Some(earliest) = earliest else {
                assert_eq!((end, taken), (None, vec![]));
                continue;
            };
            let expected_end = (earliest / width + 1) * width;
            assert_eq!(end, Some(Picos(expected_end)));
            taken.iter_mut().for_each(|partition| *partition &= !FROM_FAR);
            let mut expected: Vec<u32> = pending
                .iter()
                .filter(|(at, _)| *at < expected_end)
                .map(|(_, partition)| *partition)
                .collect();
            pending.retain(|(at, _)| *at >= expected_end);
            expected.sort_unstable();
            taken.sort_unstable();
            assert_eq!(taken, expected, "{step}");
            now = earliest;
        }
        assert!(now > 1_000_000);
    }

    /// A partition with a far timer and near events needs one entry for the timer.
    #[test]
    fn a_far_entry_is_stored_once() {
        let mut calendar = PartitionCalendar::new(2, Picos(10));
        let timer = Picos(1 << 30);
        for window in 0..1_000 {
            calendar.add(1, Picos(window * 10));
            calendar.add(1, timer);
            let mut taken = Vec::new();
            assert_eq!(calendar.take_earliest(&mut taken), Some(Picos(window * 10 + 10)));
            assert_eq!(taken, [1]);
        }
        assert_eq!(calendar.far.len(), 1);
        // An earlier timer needs an entry of its own.
        calendar.add(1, Picos(1 << 29));
        assert_eq!(calendar.far.len(), 2);
        let mut taken = Vec::new();
        calendar.take_earliest(&mut taken);
        assert_eq!(taken, [1 | FROM_FAR]);
    }

    #[test]
    fn a_cleared_calendar_is_empty() {
        let mut calendar = PartitionCalendar::new(3, Picos(10));
        calendar.add(1, Picos(5));
        calendar.add(2, Picos(1 << 40));
        calendar.clear();
        assert_eq!(calendar.earliest(), Picos::NEVER);
        assert_eq!(calendar.take_earliest(&mut Vec::new()), None);
    }
}
