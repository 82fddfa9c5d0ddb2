//! Sequence numbers that have arrived on an edge.

/// The sequence numbers that have arrived. If a connection has several queue pairs, messages can arrive out
/// of order, usually by a few numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrivedSequences {
    /// All numbers below this one have arrived.
    contiguous: u64,
    /// Arrived numbers above a gap, sorted.
    beyond_gap: Vec<u64>,
}

impl ArrivedSequences {
    /// Adds a number. Returns how many numbers from 0 on have arrived without a gap.
    pub(super) fn insert(&mut self, sequence: u64) -> u64 {
        if sequence != self.contiguous {
            if sequence > self.contiguous
                && let Err(place) = self.beyond_gap.binary_search(&sequence)
            {
                self.beyond_gap.insert(place, sequence);
            }
            return self.contiguous;
        }
        self.contiguous += 1;
        let run = self
            .beyond_gap
            .iter()
            .zip(self.contiguous..)
            .take_while(|(have, next)| *have == next);
        let run = run.count();
        self.beyond_gap.drain(..run);
        self.contiguous += run as u64;
        self.contiguous
    }

    /// Returns how many numbers from 0 on have arrived without a gap.
    pub(super) fn contiguous_count(&self) -> u64 {
        self.contiguous
    }

    /// Adds `count` to all arrived numbers. The numbers below `count` have then arrived, too.
    pub(super) fn skip(&mut self, count: u64) {
        self.contiguous += count;
        self.beyond_gap.iter_mut().for_each(|number| *number += count);
    }

    /// Returns the arrived numbers above a gap.
    pub(super) fn beyond_gap(&self) -> &[u64] {
        &self.beyond_gap
    }

    /// Removes all numbers.
    pub(super) fn clear(&mut self) {
        self.contiguous = 0;
        self.beyond_gap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_after_a_gap_are_not_contiguous() {
        let mut arrived = ArrivedSequences::default();
        assert_eq!([2, 1, 4, 1, 0].map(|n| arrived.insert(n)), [0, 0, 0, 0, 3]);
        assert_eq!(arrived.insert(0), 3, "again");
        assert_eq!(arrived.insert(3), 5);
        assert!(arrived.beyond_gap.is_empty());
    }
}
