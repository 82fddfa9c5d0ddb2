//! Assigns hash buckets to members by their weights, with as few changes as possible.

use std::cmp::Reverse;

use crate::ids::NextHopId;

/// Share of a member in the buckets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemberShare {
    member: NextHopId,
    weight: u64,
    /// Number of buckets that the member claims.
    claimed_buckets: usize,
    /// Number of buckets that the member should have.
    quota: usize,
    /// Number of buckets that the member has received.
    given: usize,
}

/// The two members that can claim a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BucketCandidates {
    /// Home of the bucket: the member that the bucket prefers. This claim has priority.
    pub(super) home: Option<NextHopId>,
    /// Holder of the hash bucket: its present member. The holder keeps the bucket if the home, the member
    /// that the bucket prefers, is not among the members.
    pub(super) holder: Option<NextHopId>,
}

/// Assigns `claims.len()` hash buckets to `members` in proportion to the weights of the members. The number
/// of buckets of a member differs by at most one from the exact share of the member. Each member has at least
/// one bucket. `members` is sorted, not empty and not longer than `claims`.
///
/// A bucket can have a *home* (the member that it prefers) and a *holder* (its present member). A member
/// receives buckets of which it is the home or the holder, until it has its share. If `home_first` is true,
/// every bucket goes to its home, even if the home then exceeds its share by one bucket. The remaining
/// buckets are assigned to the members in turn. The shares determine the smallest number of buckets that must
/// move, and no further bucket moves.
pub(super) fn assign_buckets(
    members: &[(NextHopId, u16)],
    claims: &[BucketCandidates],
    home_first: bool,
) -> Vec<NextHopId> {
    let mut shares: Vec<_> = members
        .iter()
        .map(|&(member, weight)| MemberShare {
            member,
            weight: u64::from(weight),
            claimed_buckets: 0,
            quota: 0,
            given: 0,
        })
        .collect();
    // The member with the first claim, and whether it is the home of the bucket.
    let place = |id: Option<NextHopId>| members.binary_search_by_key(&id?, |&(member, _)| member).ok();
    let claimed: Vec<_> = claims
        .iter()
        .map(|claim| (place(claim.home), place(claim.holder)))
        .collect();
    for share in claimed.iter().filter_map(|&(home, holder)| home.or(holder)) {
        shares[share].claimed_buckets += 1;
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
        // The sum of the quotas is the number of buckets, so a member below its quota exists for each
        // remaining bucket.
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

/// Sets the quota of each member to its exact share, rounded down. Each of the remaining buckets goes to a
/// member that has lost a fraction of a bucket by rounding. Members that claim more buckets than their quota
/// come first. The remaining members follow, sorted by the lost fraction, largest first.
fn set_quotas(shares: &mut [MemberShare], buckets: usize) {
    let total: u64 = shares.iter().map(|share| share.weight).sum();
    let exact = |share: &MemberShare| share.weight * buckets as u64;
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
        (
            lost == 0,
            share.claimed_buckets <= share.quota,
            Reverse(lost),
            index,
        )
    });
    for index in order.into_iter().take(buckets.saturating_sub(sum)) {
        shares[index].quota += 1;
    }
    // Each member with a share below one bucket has received one bucket. The member with the largest quota
    // gives up a bucket for it.
    for _ in buckets..sum {
        if let Some(largest) = shares.iter_mut().rev().max_by_key(|share| share.quota) {
            largest.quota -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(weights: &[u64], claimed_buckets: &[usize], buckets: usize) -> Vec<usize> {
        let mut shares: Vec<_> = weights
            .iter()
            .zip(claimed_buckets)
            .map(|(&weight, &claimed_buckets)| MemberShare {
                member: NextHopId(0),
                weight,
                claimed_buckets,
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
    fn left_over_buckets_go_to_members_that_claim_them() {
        assert_eq!(quotas(&[1, 1, 1], &[21, 21, 22], 64), [21, 21, 22]);
        assert_eq!(
            quotas(&[2, 1, 1], &[64, 0, 0], 6),
            [3, 2, 1],
            "but not beyond the exact share"
        );
    }

    #[test]
    fn every_member_has_at_least_one_bucket() {
        assert_eq!(quotas(&[1, 1, 1_000], &[0; 3], 8), [1, 1, 6]);
        assert_eq!(quotas(&[1, 1, 1, 1_000], &[0; 4], 4), [1, 1, 1, 1]);
    }

    #[test]
    fn unclaimed_buckets_are_assigned_in_turn() {
        let (a, b) = (NextHopId(3), NextHopId(7));
        let given = assign_buckets(&[(a, 1), (b, 1)], &[BucketCandidates::default(); 6], false);
        assert_eq!(given, [a, b, a, b, a, b]);
    }

    #[test]
    fn claims_are_satisfied_up_to_the_share() {
        let (a, b, gone) = (NextHopId(3), NextHopId(7), NextHopId(9));
        let claim = |home, holder| BucketCandidates {
            home: Some(home),
            holder: Some(holder),
        };
        let claims = [claim(a, a), claim(a, a), claim(a, a), claim(gone, b)];
        assert_eq!(assign_buckets(&[(a, 1), (b, 1)], &claims, false), [a, a, b, b]);
    }
}
