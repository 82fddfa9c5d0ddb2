//! Selects a next hop of a group for a flow. The table contains the state of the groups of a [`Fib`]: which
//! next hops are up, and which flows they have.

mod apportion;

use std::collections::BTreeMap;
use std::sync::Arc;

use apportion::{BucketCandidates, assign_buckets};

use crate::fib::{Fib, GroupIdentityIndex, gcd};
use crate::ids::{GroupId, NextHopId};

/// Default number of hash buckets (ranges of the flow hash, each with one next hop) of a group with resilient
/// hashing. The share of each member differs by at most one bucket from its exact share. For 32 members, this
/// error is at most 0.8 %. With 1024 buckets, the error would be 2.9 % for 31 members.
pub const RESILIENT_BUCKETS: u16 = 4_096;

/// Position of a group's buckets in [`PathTable::buckets`].
#[derive(Clone, Copy, Debug, Default)]
struct BucketRange {
    first: u32,
    /// Number of buckets in use. 0 means that no member is usable.
    active: u32,
    /// Number of buckets of the group.
    size: u32,
}

/// The next hop of each hash bucket, for all groups of a [`Fib`]. The members of a group are its next hops.
/// The hash of a flow, scaled to the number of buckets, is the bucket number.
///
/// **Normal hashing** divides the weights of the usable members by their greatest common divisor. The number
/// of hash buckets is the sum of the divided weights, so shares are exact. A change of the members or of
/// their state may move any flow.
///
/// **Resilient hashing** uses a fixed number of hash buckets. Each bucket prefers one member, its *home*. The
/// number of buckets of a member differs by at most one from the exact share of the member.
///
/// - If a member fails, its buckets go to the usable members in proportion to their weights. The buckets of
///   the usable members do not move.
/// - If the member recovers, its buckets return to it. When all members are usable, every bucket is at its
///   home (the member that it prefers).
/// - If some members are still down at this time, the recovered member also receives its share of the buckets
///   of those members.
/// - If the members of a route change, the remaining members keep their buckets up to their new share. Only
///   surplus buckets and the buckets of removed members move.
///
/// If a group has more members than the configured number of buckets, each member has one bucket,
/// regardless of the weights. In such a group, every member has traffic, but flows move when the number of
/// members changes.
#[derive(Clone, Debug, Default)]
#[repr(C)] // the fields that each frame uses come first
pub struct PathTable {
    ranges: Vec<BucketRange>,
    buckets: Vec<NextHopId>,
    resilient: Option<u16>,
    /// Preferred member (home) of each bucket. Empty for normal hashing.
    homes: Vec<NextHopId>,
    /// For each next hop: true if it was usable at the last assignment of buckets.
    live: Vec<bool>,
}

impl PathTable {
    /// Creates the table for the first version (generation) of the routes. `resilient_buckets` is
    /// [`crate::config::RoutingConfig::resilient_buckets`], where 0 is treated as 1. `live` returns true if a
    /// next hop is usable.
    pub fn new(fib: &Fib, resilient_buckets: Option<u16>, live: impl Fn(NextHopId) -> bool) -> PathTable {
        let mut table = PathTable::default();
        table.switch_to_fib(&Fib::default(), fib, resilient_buckets, live);
        table
    }

    /// Changes the table from the version `previous` of the routes to the version `next`. `live` returns true
    /// if a next hop of `next` is usable. Flows keep their members if `next` has the same groups, or if
    /// `next` was built as a successor of `previous` or of an earlier version.
    pub fn switch_to_fib(
        &mut self,
        previous: &Fib,
        next: &Fib,
        resilient_buckets: Option<u16>,
        live: impl Fn(NextHopId) -> bool,
    ) {
        let before = std::mem::take(self);
        self.resilient = resilient_buckets;
        self.live = live_next_hops(next, live);
        let Some(buckets) = resilient_buckets else {
            self.rebuild_all_groups(next);
            return;
        };
        let lineages = GroupIdentityIndex::new(previous);
        let renamed: Vec<_> = previous
            .next_hops()
            .iter()
            .map(|old| next.next_hops().binary_search(old).ok())
            .map(|place| place.map(|place| NextHopId(place as u32)))
            .collect();
        for (index, group) in (0..).zip(next.groups()) {
            let size = usize::from(buckets).max(group.members.len());
            let claims = match lineages.predecessor_of_group(next, GroupId(index)) {
                Some(ancestor) => before.bucket_claims(ancestor, &renamed, size),
                None => vec![BucketCandidates::default(); size],
            };
            let homes = assign_buckets(&group.members, &claims, false);
            self.ranges.push(BucketRange {
                first: self.buckets.len() as u32,
                active: size as u32,
                size: size as u32,
            });
            // A bucket without a holder goes to its home, unless the home is not usable.
            let now = claims
                .iter()
                .zip(&homes)
                .map(|(claim, home)| claim.holder.unwrap_or(*home));
            self.buckets.extend(now);
            self.homes.extend(homes);
            self.reassign_buckets(index as usize, &group.members);
        }
    }

    /// Updates which next hops are usable. Groups without a changed member are not modified if hashing
    /// is resilient.
    pub fn set_live(&mut self, fib: &Fib, live: impl Fn(NextHopId) -> bool) {
        let before = std::mem::replace(&mut self.live, live_next_hops(fib, live));
        if before == self.live {
            return;
        }
        if self.resilient.is_none() {
            self.rebuild_all_groups(fib);
            return;
        }
        for (index, group) in fib.groups().iter().enumerate() {
            if group
                .members
                .iter()
                .any(|&(id, _)| before[id.index()] != self.live[id.index()])
            {
                self.reassign_buckets(index, &group.members);
            }
        }
    }

    /// Returns the next hop for a flow with this hash (see [`seeded_hash`](crate::route::seeded_hash)).
    /// Returns `None` if no next hop of the group is usable. Panics if the group does not exist.
    #[inline(always)]
    pub fn select(&self, group: GroupId, hash: u32) -> Option<NextHopId> {
        let group_range = self.ranges[group.index()];
        if group_range.active == 0 {
            return None;
        }
        let bucket = (u64::from(hash) * u64::from(group_range.active)) >> 32;
        Some(self.buckets[group_range.first as usize + bucket as usize])
    }

    /// Returns the next hop of each hash bucket of a group, for `show` commands and tests. The list is empty
    /// if no next hop is usable.
    pub fn buckets(&self, group: GroupId) -> &[NextHopId] {
        let group_range = self.ranges[group.index()];
        &self.buckets[group_range.first as usize..][..group_range.active as usize]
    }

    /// Rebuilds all groups for normal hashing.
    fn rebuild_all_groups(&mut self, fib: &Fib) {
        self.ranges.clear();
        self.buckets.clear();
        // Groups with the same members share their buckets.
        let mut known = BTreeMap::new();
        for group in fib.groups() {
            if let Some(range) = known.get(&Arc::as_ptr(&group.members)) {
                self.ranges.push(*range);
                continue;
            }
            let first = self.buckets.len();
            let living = || group.members.iter().filter(|(id, _)| self.live[id.index()]);
            let divisor = living()
                .fold(0, |divisor, &(_, weight)| gcd(u64::from(weight), divisor))
                .max(1);
            for &(id, weight) in living() {
                self.buckets
                    .extend(std::iter::repeat_n(id, (u64::from(weight) / divisor) as usize));
            }
            let size = (self.buckets.len() - first) as u32;
            let range = BucketRange {
                first: first as u32,
                active: size,
                size,
            };
            known.insert(Arc::as_ptr(&group.members), range);
            self.ranges.push(range);
        }
    }

    /// Returns for each hash bucket of a group the members that claim the bucket. The buckets are scaled to
    /// `size` buckets. `renamed` contains the new id of each next hop, or `None` if the next hop was removed.
    fn bucket_claims(
        &self,
        group: GroupId,
        renamed: &[Option<NextHopId>],
        size: usize,
    ) -> Vec<BucketCandidates> {
        let group_range = self.ranges[group.index()];
        let range = group_range.first as usize..(group_range.first + group_range.size) as usize;
        let buckets = &self.buckets[range.clone()];
        // A table with normal hashing has no homes, and no buckets while no member is usable.
        let homes = self.homes.get(range).unwrap_or(buckets);
        let claim = |bucket: usize| {
            let from = bucket * buckets.len() / size;
            BucketCandidates {
                home: homes.get(from).and_then(|home| renamed[home.index()]),
                holder: buckets.get(from).and_then(|holder| renamed[holder.index()]),
            }
        };
        (0..size).map(claim).collect()
    }

    /// Moves each bucket to its home (the member that the bucket prefers) if the home is usable. A bucket
    /// without a usable home stays at its present member if that member is usable and its share permits this.
    /// All remaining buckets are distributed.
    fn reassign_buckets(&mut self, group: usize, members: &[(NextHopId, u16)]) {
        let group_range = self.ranges[group];
        let living: Vec<_> = members
            .iter()
            .copied()
            .filter(|(id, _)| self.live[id.index()])
            .collect();
        if living.is_empty() {
            self.ranges[group].active = 0;
            return;
        }
        self.ranges[group].active = group_range.size;
        let range = group_range.first as usize..(group_range.first + group_range.size) as usize;
        let (homes, buckets) = (&self.homes[range.clone()], &mut self.buckets[range]);
        let claim = |(home, holder): (&NextHopId, &NextHopId)| BucketCandidates {
            home: Some(*home),
            holder: Some(*holder),
        };
        let claims: Vec<_> = homes.iter().zip(&*buckets).map(claim).collect();
        buckets.copy_from_slice(&assign_buckets(&living, &claims, true));
    }
}

/// Returns for each next hop whether it is usable.
fn live_next_hops(fib: &Fib, live: impl Fn(NextHopId) -> bool) -> Vec<bool> {
    (0..fib.next_hops().len() as u32)
        .map(|id| live(NextHopId(id)))
        .collect()
}
