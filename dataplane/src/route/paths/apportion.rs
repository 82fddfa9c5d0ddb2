//! Sharing out buckets: who is entitled to how many, and which ones stay where they are.

use std::cmp::Reverse;

use crate::ids::NextHopId;

/// A member's part of the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    member: NextHopId,
    weight: u64,
    /// Buckets that it has a claim to.
    held: usize,
    /// Buckets that it is entitled to.
    quota: usize,
    /// Buckets that it has been given.
    given: usize,
}

/// Who had a bucket before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    /// Whose home it is; comes first.
    pub(super) home: Option<NextHopId>,
    /// Who has it, and keeps it if its home is not among those that share.
    pub(super) holder: Option<NextHopId>,
}

/// Shares `claims.len()` buckets out to `members`, in proportion to their weights, exactly to one bucket, and at least one
/// each. Claims are met up to a member's share; with `home_first` those of homes even beyond it, by the one bucket that
/// rounding can make. What is left goes round in turn. As few buckets change hands as the shares allow. `members` are in
/// order, at least one, and not more than the buckets.
pub(super) fn share_out(members: &[(NextHopId, u16)], claims: &[Claims], home_first: bool) -> Vec<NextHopId> {
    let mut shares: Vec<_> = members
        .iter()
        .map(|&(member, weight)| Share {
            member,
            weight: u64::from(weight),
            held: 0,
            quota: 0,
            given: 0,
        })
        .collect();
    // The place among the members of whoever comes first, and whether the bucket is its home.
    let place = |id: Option<NextHopId>| members.binary_search_by_key(&id?, |&(member, _)| member).ok();
    let claimed: Vec<_> = claims
        .iter()
        .map(|claim| (place(claim.home), place(claim.holder)))
        .collect();
    for share in claimed.iter().filter_map(|&(home, holder)| home.or(holder)) {
        shares[share].held += 1;
    }
    set_quotas(&mut shares, claims.len());

    let mut given = vec![None; claims.len()];
    let mut give = |given: &mut Option<NextHopId>, share: Option<usize>, beyond: bool| {
        if let (None, Some(share)) = (*given, share)
            && (beyond || shares[share].given < shares[share].quota)
        {
            shares[share].given += 1;
            *given = Some(shares[share].member);
        }
    };
    for (given, &(home, _)) in given.iter_mut().zip(&claimed) {
        give(given, home, home_first);
    }
    for (given, &(_, holder)) in given.iter_mut().zip(&claimed) {
        give(given, holder, false);
    }
    let mut turn = 0;
    let mut next = || {
        // Quotas add up to the buckets, so somebody has room for each bucket that is left.
        while shares[turn].given >= shares[turn].quota {
            turn = (turn + 1) % shares.len();
        }
        shares[turn].given += 1;
        let member = shares[turn].member;
        turn = (turn + 1) % shares.len();
        member
    };
    given
        .into_iter()
        .map(|given| given.unwrap_or_else(&mut next))
        .collect()
}

/// How many of `buckets` each one is entitled to: its exact part, rounded down. What rounding leaves over goes to those
/// that lost by it: first to those that hold more than that already, then to those that lost most.
fn set_quotas(shares: &mut [Share], buckets: usize) {
    let total: u64 = shares.iter().map(|share| share.weight).sum();
    let exact = |share: &Share| share.weight * buckets as u64;
    for share in &mut *shares {
        share.quota = ((exact(share) / total) as usize).max(1);
    }
    let sum: usize = shares.iter().map(|share| share.quota).sum();
    let mut order: Vec<_> = (0..shares.len()).collect();
    order.sort_by_key(|&index| {
        let share = &shares[index];
        let lost = if exact(share) < total {
            0
        } else {
            exact(share) % total
        };
        (lost == 0, share.held <= share.quota, Reverse(lost), index)
    });
    for index in order.into_iter().take(buckets.saturating_sub(sum)) {
        shares[index].quota += 1;
    }
    // Those with less than one bucket were given one: at the cost of the largest.
    for _ in buckets..sum {
        if let Some(largest) = shares.iter_mut().rev().max_by_key(|share| share.quota) {
            largest.quota -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(weights: &[u64], held: &[usize], buckets: usize) -> Vec<usize> {
        let mut shares: Vec<_> = weights
            .iter()
            .zip(held)
            .map(|(&weight, &held)| Share {
                member: NextHopId(0),
                weight,
                held,
                quota: 0,
                given: 0,
            })
            .collect();
        set_quotas(&mut shares, buckets);
        shares.iter().map(|share| share.quota).collect()
    }

    #[test]
    fn quotas_are_exact_to_one_bucket_and_add_up() {
        assert_eq!(quotas(&[1, 1, 1, 1], &[0; 4], 64), [16; 4]);
        assert_eq!(quotas(&[1, 1, 1], &[0; 3], 64), [22, 21, 21]);
        assert_eq!(quotas(&[1, 2, 3], &[0; 3], 64), [11, 21, 32]);
    }

    #[test]
    fn what_rounding_leaves_goes_to_those_who_have_it() {
        assert_eq!(quotas(&[1, 1, 1], &[21, 21, 22], 64), [21, 21, 22]);
        assert_eq!(
            quotas(&[2, 1, 1], &[64, 0, 0], 6),
            [3, 2, 1],
            "but not beyond the exact share"
        );
    }

    #[test]
    fn the_lightest_member_has_a_bucket_at_the_cost_of_the_heaviest() {
        assert_eq!(quotas(&[1, 1, 1_000], &[0; 3], 8), [1, 1, 6]);
        assert_eq!(quotas(&[1, 1, 1, 1_000], &[0; 4], 4), [1, 1, 1, 1]);
    }

    #[test]
    fn without_claims_buckets_go_round_in_turn() {
        let (a, b) = (NextHopId(3), NextHopId(7));
        let given = share_out(&[(a, 1), (b, 1)], &[Claims::default(); 6], false);
        assert_eq!(given, [a, b, a, b, a, b]);
    }

    #[test]
    fn a_claim_is_met_up_to_the_share() {
        let (a, b, gone) = (NextHopId(3), NextHopId(7), NextHopId(9));
        let claim = |home, holder| Claims {
            home: Some(home),
            holder: Some(holder),
        };
        let claims = [claim(a, a), claim(a, a), claim(a, a), claim(gone, b)];
        assert_eq!(share_out(&[(a, 1), (b, 1)], &claims, false), [a, a, b, b]);
    }
}
