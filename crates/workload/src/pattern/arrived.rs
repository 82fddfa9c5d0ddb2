//! What has arrived on an edge, for users who take it in order.

/// Numbers that have arrived. Several queue pairs of a connection may deliver out of order, rarely by much.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrived {
    /// All below this have.
    prefix: u64,
    /// Those beyond, sorted.
    beyond: Vec<u64>,
}

impl Arrived {
    /// Takes one number and gives how many have arrived without a gap.
    pub(super) fn insert(&mut self, sequence: u64) -> u64 {
        if sequence != self.prefix {
            if sequence > self.prefix
                && let Err(place) = self.beyond.binary_search(&sequence)
            {
                self.beyond.insert(place, sequence);
            }
            return self.prefix;
        }
        self.prefix += 1;
        let run = self
            .beyond
            .iter()
            .zip(self.prefix..)
            .take_while(|(have, next)| *have == next);
        let run = run.count();
        self.beyond.drain(..run);
        self.prefix += run as u64;
        self.prefix
    }

    /// How many have arrived without a gap.
    pub(super) fn prefix(&self) -> u64 {
        self.prefix
    }

    /// Nothing has.
    pub(super) fn clear(&mut self) {
        self.prefix = 0;
        self.beyond.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_hold_back_what_is_behind_them() {
        let mut arrived = Arrived::default();
        assert_eq!([2, 1, 4, 1, 0].map(|n| arrived.insert(n)), [0, 0, 0, 0, 3]);
        assert_eq!(arrived.insert(0), 3, "again");
        assert_eq!(arrived.insert(3), 5);
        assert!(arrived.beyond.is_empty());
    }
}
