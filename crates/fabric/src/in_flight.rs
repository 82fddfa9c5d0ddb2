//! Counts the frames in flight and their peak number. The results do not depend on the order in which
//! partitions are processed, or on the number of shards.
//!
//! Time is divided into short slices. For each slice, only the numbers of added and removed frames are
//! stored. The computed peak assumes that all frames of a slice are added before the first frame is removed.
//! The peak can therefore be too high. The error is at most the number of frames that are removed within one
//! slice of a few nanoseconds.

use xoff_units::Picos;

/// Division of model time into slices.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceSizes {
    /// The length of a slice is 2^`bits` picoseconds.
    bits: u32,
    /// Number of stored slices, a power of two. A slice is stored at its number modulo this number. The frames of
    /// older slices are already summed up (settled).
    stored: usize,
}

impl SliceSizes {
    /// Chooses slices of about the time of the shortest frame on the fastest link, which is `frame`. `window` is the
    /// longest time between the settled time (up to which the counts are final) and a change.
    pub(super) fn new(frame: Picos, window: Picos) -> SliceSizes {
        let bits = frame.0.max(8).ilog2().min(48);
        // A window can begin and end within a slice.
        let in_window = (window.0 >> bits).max(1);
        SliceSizes {
            bits,
            stored: 2 * in_window.next_power_of_two() as usize,
        }
    }
}

impl Default for SliceSizes {
    fn default() -> SliceSizes {
        SliceSizes::new(Picos(8), Picos(8))
    }
}

/// Frames that were added and removed in each stored slice, by one shard.
#[derive(Clone, Debug)]
pub(super) struct FrameChanges {
    slice_bits: u32,
    /// Index of the slice in which frames are currently added and removed.
    slice: usize,
    /// Frames added in each slice.
    added: Box<[u32]>,
    /// Frames removed in each slice, stored in the same way.
    removed: Box<[u32]>,
    /// Number of the first slice that is not closed.
    first_open: u64,
    /// Slices with changes that will not change again, in ascending order. Other shards have changes of the same
    /// slices, so these slices are not settled yet. Used only by a fabric with several shards.
    closed: Vec<ClosedSlice>,
}

/// Changes of a slice by one shard.
#[derive(Clone, Copy, Debug)]
struct ClosedSlice {
    slice: u64,
    added: u32,
    removed: u32,
}

impl Default for FrameChanges {
    fn default() -> FrameChanges {
        FrameChanges::new(SliceSizes::default())
    }
}

impl FrameChanges {
    /// Creates changes without frames.
    pub(super) fn new(sizes: SliceSizes) -> FrameChanges {
        FrameChanges {
            slice_bits: sizes.bits,
            slice: 0,
            added: vec![0; sizes.stored].into(),
            removed: vec![0; sizes.stored].into(),
            first_open: 0,
            closed: Vec::new(),
        }
    }

    /// Sets the time at which the next frames are added and removed. The time must not be before the settled
    /// time (up to which the counts are final), and at most one window after it.
    #[inline]
    pub(super) fn set_time(&mut self, at: Picos) {
        self.slice = (at.0 >> self.slice_bits) as usize & (self.added.len() - 1);
    }

    /// Adds a frame at the current time.
    #[inline]
    pub(super) fn add(&mut self) {
        self.added[self.slice] += 1;
    }

    /// Removes a frame at the current time.
    #[inline]
    pub(super) fn remove(&mut self) {
        self.removed[self.slice] += 1;
    }

    /// Closes all slices before the time `until`: no later change of the shard is earlier. Another thread then reads
    /// only the slices with changes ([`FramesInFlight::settle_closed`]), which are in few cache lines.
    pub(super) fn close_before(&mut self, until: Picos) {
        let (end, stored) = (until.0 >> self.slice_bits, self.added.len());
        for slice in self.first_open..end.min(self.first_open + stored as u64) {
            let index = slice as usize & (stored - 1);
            let (added, removed) = (self.added[index], self.removed[index]);
            if added | removed != 0 {
                (self.added[index], self.removed[index]) = (0, 0);
                self.closed.push(ClosedSlice {
                    slice,
                    added,
                    removed,
                });
            }
        }
        self.first_open = self.first_open.max(end);
    }

    /// Closes all slices.
    fn close_all(&mut self) {
        self.close_before(Picos(
            (self.first_open + self.added.len() as u64) << self.slice_bits,
        ));
    }

    /// Returns the number of added frames minus the number of removed frames in all slices that are not settled.
    fn unsettled(&self) -> i64 {
        let sum = |counts: &[u32]| counts.iter().map(|count| i64::from(*count)).sum::<i64>();
        let closed = self.closed.iter().map(|closed| closed.net()).sum::<i64>();
        sum(&self.added) - sum(&self.removed) + closed
    }
}

impl ClosedSlice {
    fn net(self) -> i64 {
        i64::from(self.added) - i64::from(self.removed)
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
    /// Creates a count of zero. `sizes` has the same value as in [`FrameChanges::new`].
    pub(super) fn new(sizes: SliceSizes) -> FramesInFlight {
        FramesInFlight {
            slice_bits: sizes.bits,
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
        let mut changes: Vec<FrameChanges> = changes.cloned().collect();
        for of_shard in &mut changes {
            of_shard.first_open = of_shard.first_open.max(self.first);
            of_shard.close_all();
        }
        let mut ahead = self.clone();
        ahead.settle_closed(&mut changes.iter_mut().collect::<Vec<_>>());
        ahead.peak as usize
    }

    /// Returns whether [`FramesInFlight::settle`] has no effect.
    #[inline]
    pub(super) fn is_settled(&self, until: Picos) -> bool {
        until.0 >> self.slice_bits <= self.first
    }

    /// Makes the counts of all slices before the time `until` final. Later changes must not be earlier
    /// than `until`. `changes` contains the changes of the only shard.
    pub(super) fn settle(&mut self, until: Picos, changes: &mut FrameChanges) {
        if !self.is_settled(until) {
            self.settle_slices_before(until.0 >> self.slice_bits, changes);
        }
    }

    /// Makes the counts of all closed slices final. `changes` contains the changes of all shards, which have closed the
    /// same slices ([`FrameChanges::close_before`]).
    pub(super) fn settle_closed(&mut self, changes: &mut [&mut FrameChanges]) {
        let added = |of_shard: &&mut FrameChanges| {
            let added = of_shard.closed.iter().map(|closed| i64::from(closed.added));
            added.sum::<i64>()
        };
        // In most windows, the peak is so far away that the order of the changes does not matter.
        if self.settled + changes.iter().map(added).sum::<i64>() <= self.peak {
            let closed = changes.iter().flat_map(|of_shard| &of_shard.closed);
            self.settled += closed.map(|closed| closed.net()).sum::<i64>();
        } else {
            self.settle_closed_in_order(changes);
        }
        for of_shard in changes {
            of_shard.closed.clear();
            self.first = self.first.max(of_shard.first_open);
        }
    }

    /// Settles the closed slices of all shards slice by slice.
    fn settle_closed_in_order(&mut self, changes: &[&mut FrameChanges]) {
        let mut lists: Vec<&[ClosedSlice]> = changes.iter().map(|of_shard| &of_shard.closed[..]).collect();
        while let Some(slice) = lists
            .iter()
            .filter_map(|list| list.first())
            .map(|closed| closed.slice)
            .min()
        {
            let mut net = 0;
            for list in &mut lists {
                if let Some((closed, later)) = list.split_first()
                    && closed.slice == slice
                {
                    self.settled += i64::from(closed.added);
                    net -= i64::from(closed.removed);
                    *list = later;
                }
            }
            self.peak = self.peak.max(self.settled);
            self.settled += net;
        }
    }

    /// Settles all slices before slice number `end`.
    fn settle_slices_before(&mut self, end: u64, changes: &mut FrameChanges) {
        let stored = changes.added.len();
        for slice in self.first..end.min(self.first + stored as u64) {
            let index = slice as usize & (stored - 1);
            let highest = self.settled + i64::from(changes.added[index]);
            self.peak = self.peak.max(highest);
            self.settled = highest - i64::from(changes.removed[index]);
            (changes.added[index], changes.removed[index]) = (0, 0);
        }
        self.first = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_testing::random_generator;

    /// Settles the changes of two shards before the time `until`.
    fn settle_both(count: &mut FramesInFlight, shards: &mut [FrameChanges; 2], until: u64) {
        let mut both = shards.each_mut();
        both.iter_mut()
            .for_each(|of_shard| of_shard.close_before(Picos(until)));
        count.settle_closed(&mut both);
    }

    /// Applies the changes of each window in reverse order, and compares the result with the result of the
    /// same changes in time order.
    #[test]
    fn the_order_within_a_window_does_not_matter() {
        let mut draw = random_generator(1);
        let longest = 1_048_576;
        let sizes = SliceSizes::new(Picos(4_096), Picos(longest));
        let new = || FramesInFlight::new(sizes);
        let (mut apart, mut together) = (new(), new());
        // The changes are divided between two shards, and the frames change the shard.
        let mut shards = [FrameChanges::new(sizes), FrameChanges::new(sizes)];
        let mut alone = FrameChanges::new(sizes);
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
            settle_both(&mut apart, &mut shards, begin);
            for (at, more) in changes.iter().rev() {
                let shard = &mut shards[draw(2) as usize];
                shard.set_time(Picos(*at));
                match more {
                    true => shard.add(),
                    false => shard.remove(),
                }
            }
            settle_both(&mut apart, &mut shards, begin + span);
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
