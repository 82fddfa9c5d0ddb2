//! Counts the frames in flight and their peak number. The results do not depend on the order in which
//! partitions are processed, or on the number of shards.
//!
//! Time is divided into short slices. For each slice, only the numbers of added and removed frames are
//! stored. The computed peak assumes that all frames of a slice are added before the first frame is removed.
//! The peak can therefore be too high. The error is at most the number of frames that are removed within one
//! slice of a few nanoseconds.

use xoff_units::Picos;

/// Number of stored slices. A window has fewer slices. The frames of older slices are already summed
/// up (settled).
const SLICES: usize = 512;

/// Frames that were added and removed in each stored slice, by one shard.
#[derive(Clone, Debug)]
pub(super) struct FrameChanges {
    /// The length of a slice is 2^`slice_bits` picoseconds.
    slice_bits: u32,
    /// Index of the slice in which frames are currently added and removed.
    slice: usize,
    /// Frames added in each slice. A slice is stored at its number modulo [`SLICES`].
    added: Box<[u32; SLICES]>,
    /// Frames removed in each slice, stored in the same way.
    removed: Box<[u32; SLICES]>,
}

impl Default for FrameChanges {
    fn default() -> FrameChanges {
        FrameChanges::new(Picos(SLICES as u64))
    }
}

impl FrameChanges {
    /// Creates changes without frames. `window` is the longest time between the settled time (up to which the counts
    /// are final) and a change.
    pub(super) fn new(window: Picos) -> FrameChanges {
        FrameChanges {
            slice_bits: slice_bits(window),
            slice: 0,
            added: Box::new([0; SLICES]),
            removed: Box::new([0; SLICES]),
        }
    }

    /// Sets the time at which the next frames are added and removed. The time must not be before the settled
    /// time (up to which the counts are final), and at most one window after it.
    #[inline]
    pub(super) fn set_time(&mut self, at: Picos) {
        self.slice = (at.0 >> self.slice_bits) as usize % SLICES;
    }

    /// Adds a frame at the current time.
    #[inline]
    pub(super) fn add(&mut self) {
        self.added[self.slice % SLICES] += 1;
    }

    /// Removes a frame at the current time.
    #[inline]
    pub(super) fn remove(&mut self) {
        self.removed[self.slice % SLICES] += 1;
    }

    /// Moves the changes of another shard to this shard.
    pub(super) fn absorb(&mut self, other: &mut FrameChanges) {
        for (sum, count) in self.added.iter_mut().zip(&mut other.added[..]) {
            *sum += std::mem::take(count);
        }
        for (sum, count) in self.removed.iter_mut().zip(&mut other.removed[..]) {
            *sum += std::mem::take(count);
        }
    }

    /// Returns the number of added frames minus the number of removed frames in all stored slices.
    fn unsettled(&self) -> i64 {
        let sum = |counts: &[u32; SLICES]| counts.iter().map(|count| i64::from(*count)).sum::<i64>();
        sum(&self.added) - sum(&self.removed)
    }
}

/// Number of frames in flight in all shards, and its peak.
#[derive(Clone, Debug)]
pub(super) struct FramesInFlight {
    slice_bits: u32,
    /// Number of frames at the start of the first stored slice.
    settled: i64,
    /// Peak until the start of the first stored slice.
    peak: i64,
    /// Number of the first stored slice.
    first: u64,
}

impl FramesInFlight {
    /// Creates a count of zero. `window` has the same value as in [`FrameChanges::new`].
    pub(super) fn new(window: Picos) -> FramesInFlight {
        FramesInFlight {
            slice_bits: slice_bits(window),
            settled: 0,
            peak: 0,
            first: 0,
        }
    }

    /// Returns the current number of frames. `changes` contains the changes of each shard.
    pub(super) fn count<'a>(&self, changes: impl Iterator<Item = &'a FrameChanges>) -> usize {
        let unsettled: i64 = changes.map(FrameChanges::unsettled).sum();
        (self.settled + unsettled) as usize
    }

    /// Returns the peak. `changes` contains the changes of each shard.
    pub(super) fn peak<'a>(&self, changes: impl Iterator<Item = &'a FrameChanges>) -> usize {
        let mut changes = changes.cloned();
        let Some(mut all) = changes.next() else { return 0 };
        changes.for_each(|mut of_shard| all.absorb(&mut of_shard));
        let mut ahead = self.clone();
        ahead.settle_slices_before(self.first + SLICES as u64, &mut all);
        ahead.peak as usize
    }

    /// Returns whether [`FramesInFlight::settle`] has no effect.
    #[inline]
    pub(super) fn is_settled(&self, until: Picos) -> bool {
        until.0 >> self.slice_bits <= self.first
    }

    /// Makes the counts of all slices before the time `until` final. Later changes must not be earlier
    /// than `until`. `changes` contains the changes of all shards ([`FrameChanges::absorb`]).
    pub(super) fn settle(&mut self, until: Picos, changes: &mut FrameChanges) {
        if !self.is_settled(until) {
            self.settle_slices_before(until.0 >> self.slice_bits, changes);
        }
    }

    /// Settles all slices before slice number `end`.
    fn settle_slices_before(&mut self, end: u64, changes: &mut FrameChanges) {
        for slice in self.first..end.min(self.first + SLICES as u64) {
            let index = slice as usize % SLICES;
            let highest = self.settled + i64::from(changes.added[index]);
            self.peak = self.peak.max(highest);
            self.settled = highest - i64::from(changes.removed[index]);
            (changes.added[index], changes.removed[index]) = (0, 0);
        }
        self.first = end;
    }
}

/// Returns the binary logarithm of the length of a slice. A window can begin and end within a slice.
fn slice_bits(window: Picos) -> u32 {
    (2 * window.0 / SLICES as u64).max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    fn absorb_all(shards: &mut [FrameChanges; 2]) -> &mut FrameChanges {
        let [one, other] = shards;
        one.absorb(other);
        one
    }

    /// Applies the changes of each window in reverse order, and compares the result with the result of the
    /// same changes in time order.
    #[test]
    fn the_order_within_a_window_does_not_matter() {
        let mut draw = random_generator(1);
        let longest = 1_048_576;
        let new = || FramesInFlight::new(Picos(longest));
        let (mut apart, mut together) = (new(), new());
        // The changes are divided between two shards, and the frames change the shard.
        let mut shards = [
            FrameChanges::new(Picos(longest)),
            FrameChanges::new(Picos(longest)),
        ];
        let mut alone = FrameChanges::new(Picos(longest));
        let (mut begin, mut exact, mut highest) = (0, 0, 0);
        for round in 0..2_000 {
            let span = 1 + draw(longest);
            let mut times: Vec<u64> = (0..draw(60)).map(|_| begin + draw(span)).collect();
            times.sort_unstable();
            let mut changes: Vec<(u64, bool)> = Vec::new();
            let mut held = exact;
            for at in times {
                let more = held == 0 || draw(2) == 0;
                held = if more { held + 1 } else { held - 1 };
                changes.push((at, more));
            }
            apart.settle(Picos(begin), absorb_all(&mut shards));
            for (at, more) in changes.iter().rev() {
                let shard = &mut shards[draw(2) as usize];
                shard.set_time(Picos(*at));
                match more {
                    true => shard.add(),
                    false => shard.remove(),
                }
            }
            apart.settle(Picos(begin + span), absorb_all(&mut shards));
            for (at, more) in changes {
                together.settle(Picos(at), &mut alone);
                alone.set_time(Picos(at));
                match more {
                    true => alone.add(),
                    false => alone.remove(),
                }
                exact = if more { exact + 1 } else { exact - 1 };
                highest = highest.max(exact);
            }
            assert_eq!(
                (apart.count(shards.iter()), apart.peak(shards.iter())),
                (
                    together.count(std::iter::once(&alone)),
                    together.peak(std::iter::once(&alone))
                ),
                "{round}"
            );
            assert_eq!(apart.count(shards.iter()) as i64, exact, "{round}");
            // Time can pass without changes.
            begin += span + if draw(4) == 0 { draw(1 << 30) } else { 0 };
        }
        let peak = apart.peak(shards.iter()) as i64;
        assert!(
            (highest..highest + 5).contains(&peak),
            "{peak}, exactly {highest}"
        );
    }
}
