//! Packets in turn over the members.

use crate::balance::{Choice, Packet, PathChoice, Paths};

/// Smooth weighted round robin: each packet gives every member its weight, and takes the one that has most, which pays the
/// sum of all weights for it. With equal weights that is one after the other.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    /// What each member has saved; of those that are not usable it stays.
    credit: Vec<i64>,
    /// Whose turn it is where all have the same weight: an index into the usable ones.
    next: usize,
}

impl PathChoice for RoundRobin {
    #[inline]
    fn choose(&mut self, _: &Packet<'_>, paths: &mut Paths<'_>) -> Choice {
        if paths.is_even() {
            let usable = paths.usable();
            let turn = if self.next < usable.len() { self.next } else { 0 };
            self.next = turn + 1;
            return Choice::stay(usable[turn]);
        }
        let members = paths.members();
        if self.credit.len() != members.len() {
            self.credit.resize(members.len(), 0);
        }
        let mut sum = 0;
        let mut best = paths.usable()[0];
        for &member in paths.usable() {
            let weight = i64::from(members[usize::from(member)].weight);
            sum += weight;
            self.credit[usize::from(member)] += weight;
            if self.credit[usize::from(member)] > self.credit[usize::from(best)] {
                best = member;
            }
        }
        self.credit[usize::from(best)] -= sum;
        Choice::stay(best)
    }

    fn members_changed(&mut self, _: &[Option<u16>], paths: &mut Paths<'_>) {
        self.next = 0;
        self.credit.clear();
        self.credit.resize(paths.members().len(), 0);
    }
}
