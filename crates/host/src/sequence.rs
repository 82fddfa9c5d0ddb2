//! Which frames of a flow have arrived.

/// Frames that are told apart behind the newest one. One that arrives later than that counts as lost and reordered:
/// whether it is a duplicate can no longer be known.
pub const REORDER_WINDOW_FRAMES: u64 = 16_384;

const WORDS: usize = (REORDER_WINDOW_FRAMES / 64) as usize;

/// What an arrival is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Newer than all before it.
    Newest,
    /// It fills a gap: something sent later has arrived before.
    Reordered,
    /// It had arrived.
    Duplicate,
    /// Behind the window.
    TooOld,
}

/// A sliding bitmap over the sequence numbers of a flow.
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

    /// Newest sequence number plus one: how many frames were sent at least.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn note(&mut self, sequence: u64) -> Order {
        if sequence >= self.next {
            self.forget(self.next, sequence);
            self.next = sequence.saturating_add(1);
            self.mark(sequence);
            return Order::Newest;
        }
        if self.next - sequence > REORDER_WINDOW_FRAMES {
            return Order::TooOld;
        }
        if self.mark(sequence) {
            Order::Duplicate
        } else {
            Order::Reordered
        }
    }

    /// Sets the bit of `sequence` and says whether it was set.
    fn mark(&mut self, sequence: u64) -> bool {
        let word = &mut self.seen[(sequence / 64) as usize % WORDS];
        let bit = 1 << (sequence % 64);
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    /// Clears the bits of `from..=to`, which still say what was a window ago.
    fn forget(&mut self, from: u64, to: u64) {
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
        fn the_window_agrees_with_a_set(steps in proptest::collection::vec((0_u64..40_000, any::<bool>()), 1..400)) {
            let mut window = SequenceWindow::new();
            let mut seen = HashSet::new();
            let mut newest: Option<u64> = None;
            let mut base = 0;
            for (offset, advance) in steps {
                let sequence = base + offset;
                let expected = match newest {
                    Some(n) if sequence <= n && n + 1 - sequence > REORDER_WINDOW_FRAMES => Order::TooOld,
                    Some(n) if sequence <= n && seen.contains(&sequence) => Order::Duplicate,
                    Some(n) if sequence <= n => Order::Reordered,
                    _ => Order::Newest,
                };
                prop_assert_eq!(window.note(sequence), expected);
                seen.insert(sequence);
                newest = newest.max(Some(sequence));
                if advance {
                    base += 5_000;
                }
            }
        }
    }

    #[test]
    fn the_largest_sequence_number_does_no_harm() {
        let mut window = SequenceWindow::new();
        assert_eq!(window.note(u64::MAX), Order::Newest);
        assert_eq!(window.note(0), Order::TooOld);
        assert_eq!(window.note(u64::MAX - 1), Order::Reordered);
    }
}
