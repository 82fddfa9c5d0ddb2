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

    /// Takes the numbers of frames added and removed in the slice with this index.
    pub(super) fn take_slice(&mut self, index: usize) -> (u32, u32) {
        let slice = (&mut self.added[index], &mut self.removed[index]);
        (std::mem::take(slice.0), std::mem::take(slice.1))
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
        let changes: Vec<&FrameChanges> = changes.collect();
        let mut ahead = self.clone();
        ahead.settle_slices_before(self.first + SLICES as u64, |slice| {
            let slices = changes
                .iter()
                .map(|changes| (changes.added[slice], changes.removed[slice]));
            slices.fold((0, 0), |sum, slice| (sum.0 + slice.0, sum.1 + slice.1))
        });
        ahead.peak as usize
    }

    /// Returns whether [`FramesInFlight::settle`] has no effect.
    #[inline]
    pub(super) fn is_settled(&self, until: Picos) -> bool {
        until.0 >> self.slice_bits <= self.first
    }

    /// Makes the counts of all slices before the time `until` final. Later changes must not be earlier
    /// than `until`. `take_slice` takes the numbers of frames that all shards have added and removed in the slice with
    /// an index ([`FrameChanges::take_slice`]).
    pub(super) fn settle(&mut self, until: Picos, take_slice: impl FnMut(usize) -> (u32, u32)) {
        if !self.is_settled(until) {
            self.settle_slices_before(until.0 >> self.slice_bits, take_slice);
        }
    }

    /// Settles all slices before slice number `end`.
    fn settle_slices_before(&mut self, end: u64, mut take_slice: impl FnMut(usize) -> (u32, u32)) {
        for slice in self.first..end.min(self.first + SLICES as u64) {
            let (added, removed) = take_slice(slice as usize % SLICES);
            self.peak = self.peak.max(self.settled + i64::from(added));
            self.settled += i64::from(added) - i64::from(removed);
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

    fn take_slices(shards: &mut [FrameChanges; 2], slice: usize) -> (u32, u32) {
        let [one, other] = shards.each_mut().map(|shard| shard.take_slice(slice));
        (one.0 + other.0, one.1 + other.1)
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
            apart.settle(Picos(begin), |slice| take_slices(&mut shards, slice));
            for (at, more) in changes.iter().rev() {
                let shard = &mut shards[draw(2) as usize];
                shard.set_time(Picos(*at));
                match more {
                    true => shard.add(),
                    false => shard.remove(),
                }
            }
            apart.settle(Picos(begin + span), |slice| take_slices(&mut shards, slice));
            for (at, more) in changes {
                together.settle(Picos(at), |slice| alone.take_slice(slice));
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
