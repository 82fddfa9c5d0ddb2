//! Weighted round robin over packets.

use crate::balance::{MemberChoice, Packet, PathChoice, Paths};

/// Smooth weighted round robin. For each packet, the credit of every member grows by the weight of the
/// member. The packet uses the member with the largest credit, and the credit of this member falls by the sum
/// of all weights. Members with equal weights are used in turn.
#[derive(Debug, Default)]
pub(crate) struct RoundRobinScheme {
    /// Credit of each member. Members that are not usable keep their credit.
    credit: Vec<i64>,
    /// Index of the next usable member, for equal weights.
    next: usize,
}

impl PathChoice for RoundRobinScheme {
    #[inline]
    fn choose(&mut self, _: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice {
        if paths.has_equal_weights() {
            let usable = paths.usable();
            let turn = if self.next < usable.len() { self.next } else { 0 };
            self.next = turn + 1;
            return MemberChoice::unchanged(usable[turn]);
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
        MemberChoice::unchanged(best)
    }

    fn members_changed(&mut self, _: &[Option<u16>], paths: &mut Paths<'_>) {
        self.next = 0;
        self.credit.clear();
        self.credit.resize(paths.members().len(), 0);
    }
}
