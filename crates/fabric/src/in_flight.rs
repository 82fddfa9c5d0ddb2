//! Counts the frames in flight and their peak number. The results do not depend on the order in which
//! partitions are processed.
//!
//! Time is divided into short slices. For each slice, only the numbers of added and removed frames are
//! stored. The computed peak assumes that all frames of a slice are added before the first frame is removed.
//! The peak can therefore be too high. The error is at most the number of frames that are removed within one
//! slice of a few nanoseconds.

use xoff_units::Picos;

/// Number of stored slices. A window has fewer slices. The frames of older slices are already summed
/// up (settled).
const SLICES: usize = 512;

/// Number of frames in flight, and its peak.
#[derive(Clone, Debug)]
pub(super) struct FramesInFlight {
    /// The length of a slice is 2^`slice_bits` picoseconds.
    slice_bits: u32,
    /// Number of frames at the start of the first stored slice.
    settled: usize,
    /// Peak until the start of the first stored slice.
    peak: usize,
    /// Number of the first stored slice.
    first: u64,
    /// Time at which frames are currently added and removed.
    now: Picos,
    /// Frames added in each slice. A slice is stored at its number modulo [`SLICES`].
    added: Box<[u32; SLICES]>,
    /// Frames removed in each slice, stored in the same way.
    removed: Box<[u32; SLICES]>,
}

impl Default for FramesInFlight {
    fn default() -> FramesInFlight {
        FramesInFlight::new(Picos(SLICES as u64))
    }
}

impl FramesInFlight {
    /// Creates a count of zero. `window` is the longest time between the settled time (up to which the counts
    /// are final) and a change.
    pub(super) fn new(window: Picos) -> FramesInFlight {
        FramesInFlight {
            // A window can begin and end within a slice.
            slice_bits: (2 * window.0 / SLICES as u64).max(1).ilog2(),
            settled: 0,
            peak: 0,
            first: 0,
            now: Picos::ZERO,
            added: Box::new([0; SLICES]),
            removed: Box::new([0; SLICES]),
        }
    }

    /// Returns the current number of frames.
    pub(super) fn count(&self) -> usize {
        let sum = |counts: &[u32; SLICES]| counts.iter().map(|count| *count as usize).sum::<usize>();
        self.settled + sum(&self.added) - sum(&self.removed)
    }

    /// Returns the peak.
    pub(super) fn peak(&self) -> usize {
        let mut ahead = self.clone();
        ahead.finalise_slices_before(self.first + SLICES as u64);
        ahead.peak
    }

    /// Sets the time at which the next frames are added and removed. The time must not be before the settled
    /// time (up to which the counts are final), and at most one window after it.
    #[inline]
    pub(super) fn set_time(&mut self, at: Picos) {
        debug_assert!((at.0 >> self.slice_bits).wrapping_sub(self.first) < SLICES as u64);
        self.now = at;
    }

    /// Returns the index of the current slice.
    #[inline]
    fn current_slice(&self) -> usize {
        (self.now.0 >> self.slice_bits) as usize % SLICES
    }

    /// Adds a frame at the current time.
    #[inline]
    pub(super) fn add(&mut self) {
        self.added[self.current_slice()] += 1;
    }

    /// Removes a frame at the current time.
    #[inline]
    pub(super) fn remove(&mut self) {
        self.removed[self.current_slice()] += 1;
    }

    /// Makes the counts of all slices before the time `until` final. Later changes must not be earlier
    /// than `until`.
    #[inline]
    pub(super) fn settle(&mut self, until: Picos) {
        let slice = until.0 >> self.slice_bits;
        if slice > self.first {
            self.finalise_slices_before(slice);
        }
    }

    /// Settles all slices before slice number `end`.
    fn finalise_slices_before(&mut self, end: u64) {
        for slice in self.first..end.min(self.first + SLICES as u64) {
            let index = slice as usize % SLICES;
            let highest = self.settled + self.added[index] as usize;
            self.peak = self.peak.max(highest);
            self.settled = highest - self.removed[index] as usize;
            (self.added[index], self.removed[index]) = (0, 0);
        }
        self.first = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    /// Applies the changes of each window in reverse order, and compares the result with the result of the
    /// same changes in time order.
    #[test]
    fn the_order_within_a_window_does_not_matter() {
        let mut draw = random_generator(1);
        let longest = 1_048_576;
        let (mut apart, mut together) = (
            FramesInFlight::new(Picos(longest)),
            FramesInFlight::new(Picos(longest)),
        );
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
            apart.settle(Picos(begin));
            for (at, more) in changes.iter().rev() {
                apart.set_time(Picos(*at));
                if *more {
                    apart.add()
                } else {
                    apart.remove()
                };
            }
            apart.settle(Picos(begin + span));
            for (at, more) in changes {
                together.settle(Picos(at));
                together.set_time(Picos(at));
                if more {
                    together.add()
                } else {
                    together.remove()
                };
                exact = if more { exact + 1 } else { exact - 1 };
                highest = highest.max(exact);
            }
            assert_eq!(
                (apart.count(), apart.peak()),
                (together.count(), together.peak()),
                "{round}"
            );
            assert_eq!(apart.count() as i64, exact, "{round}");
            // Time can pass without changes.
            begin += span + if draw(4) == 0 { draw(1 << 30) } else { 0 };
        }
        let peak = apart.peak() as i64;
        assert!(
            (highest..highest + 5).contains(&peak),
            "{peak}, exactly {highest}"
        );
    }
}
