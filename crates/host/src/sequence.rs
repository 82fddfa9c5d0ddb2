//! Detects lost, reordered and duplicate frames of a flow.

/// Size of the reorder window in frames: the receiver records which of the last frames have arrived. A frame
/// that is older than the window is counted as lost and reordered: the receiver cannot know whether the frame
/// is late or a duplicate.
pub const REORDER_WINDOW_FRAMES: u64 = 16_384;

const WORDS: usize = (REORDER_WINDOW_FRAMES / 64) as usize;

/// Order of an arriving frame among the frames of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalOrder {
    /// The frame is newer than all earlier arrivals.
    Newest,
    /// The frame arrives after a frame that was sent later.
    Reordered,
    /// The frame has already arrived.
    Duplicate,
    /// The frame is older than the reorder window.
    TooOld,
}

/// Sliding bit map of the sequence numbers of a flow that have arrived.
#[derive(Clone, Debug)]
pub(super) struct SequenceWindow {
    /// Newest sequence number plus one.
    next: u64,
    seen: Box<[u64; WORDS]>,
}

impl SequenceWindow {
    pub(super) fn new() -> SequenceWindow {
        SequenceWindow {
            next: 0,
            seen: Box::new([0; WORDS]),
        }
    }

    /// Returns the newest sequence number plus one. The sender has sent at least this number of frames.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn record(&mut self, sequence: u64) -> ArrivalOrder {
        if sequence >= self.next {
            self.clear_range(self.next, sequence);
            self.next = sequence.saturating_add(1);
            self.mark(sequence);
            return ArrivalOrder::Newest;
        }
        if self.next - sequence > REORDER_WINDOW_FRAMES {
            return ArrivalOrder::TooOld;
        }
        if self.mark(sequence) {
            ArrivalOrder::Duplicate
        } else {
            ArrivalOrder::Reordered
        }
    }

    /// Sets the bit of `sequence`. Returns whether the bit was already set.
    fn mark(&mut self, sequence: u64) -> bool {
        let word = &mut self.seen[(sequence / 64) as usize % WORDS];
        let bit = 1 << (sequence % 64);
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// Clears the bits of `from..=to`. They still contain values of older sequence numbers.
    fn clear_range(&mut self, from: u64, to: u64) {
        if to - from >= REORDER_WINDOW_FRAMES {
            self.seen.fill(0);
            return;
        }
        for sequence in from..=to {
            self.seen[(sequence / 64) as usize % WORDS] &= !(1 << (sequence % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::HashSet;

    use super::*;

    proptest! {
        #[test]
        fn the_window_matches_a_set(steps in proptest::collection::vec((0_u64..40_000, any::<bool>()), 1..400)) {
            let mut window = SequenceWindow::new();
            let mut seen = HashSet::new();
            let mut newest: Option<u64> = None;
            let mut base = 0;
            for (offset, advance) in steps {
                let sequence = base + offset;
                let expected = match newest {
                    Some(n) if sequence <= n && n + 1 - sequence > REORDER_WINDOW_FRAMES => ArrivalOrder::TooOld,
                    Some(n) if sequence <= n && seen.contains(&sequence) => ArrivalOrder::Duplicate,
                    Some(n) if sequence <= n => ArrivalOrder::Reordered,
                    _ => ArrivalOrder::Newest,
                };
                prop_assert_eq!(window.record(sequence), expected);
                seen.insert(sequence);
                newest = newest.max(Some(sequence));
                if advance {
                    base += 5_000;
                }
            }
        }
    }

    #[test]
    fn the_largest_sequence_number_is_accepted() {
        let mut window = SequenceWindow::new();
        assert_eq!(window.record(u64::MAX), ArrivalOrder::Newest);
        assert_eq!(window.record(0), ArrivalOrder::TooOld);
        assert_eq!(window.record(u64::MAX - 1), ArrivalOrder::Reordered);
    }
}
