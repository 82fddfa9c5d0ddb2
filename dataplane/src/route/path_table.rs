//! Selects the member of a next-hop group for a flow. The table holds the mutable state of the groups
//! of a [`Fib`].

mod apportion;

use apportion::{BucketClaim, assign_buckets};

use crate::fib::{Fib, LineageIndex, gcd};
use crate::ids::{GroupId, NextHopId};

/// Default number of buckets of a group with resilient hashing. The share of each member is exact to one
/// bucket. For 32 members, the error is therefore at most 0.8 %. With 1024 buckets, the error would be 2.9 %
/// for 31 members.
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

/// The member of each bucket of all groups of a [`Fib`]. The bucket number of a flow is its hash, scaled to
/// the number of buckets.
///
/// **Normal hashing** divides the weights of the usable members by their greatest common divisor. The number
/// of buckets is the sum of these weights, so shares are exact. A change of the members or of their state may
/// move any flow.
///
/// **Resilient hashing** uses a fixed number of buckets. Each bucket prefers one member, its *home*. Shares
/// are exact to one bucket.
///
/// - If a member fails, its buckets go to the usable members in proportion to their weights. No other bucket
///   moves.
/// - If the member recovers, its buckets return. When all members are usable, every bucket is at its home.
/// - If other members are still down when a member recovers, the recovered member also receives its share of
///   their buckets.
/// - If the route changes, remaining members keep their buckets up to their new share. Only surplus buckets
///   and the buckets of removed members move.
///
/// A group with more members than configured buckets has one bucket per member, regardless of the weights. In
/// such a group no member is idle, but flows move when the size of the group changes.
#[derive(Clone, Debug, Default)]
pub struct PathTable {
    resilient: Option<u16>,
    ranges: Vec<BucketRange>,
    buckets: Vec<NextHopId>,
    /// Home of each bucket. Empty for normal hashing.
    homes: Vec<NextHopId>,
    /// State of each next hop at the last assignment of buckets.
    live: Vec<bool>,
}

impl PathTable {
    /// Creates the table of a first generation. `resilient_buckets` is
    /// [`crate::config::RoutingConfig::resilient_buckets`], where 0 is treated as 1. `live` returns whether a
    /// next hop is usable.
    pub fn new(fib: &Fib, resilient_buckets: Option<u16>, live: impl Fn(NextHopId) -> bool) -> PathTable {
        let mut table = PathTable::default();
        table.change_generation(&Fib::default(), fib, resilient_buckets, live);
        table
    }

    /// Changes the table from the generation `previous` to `next`. `next` may be any generation. Flows keep
    /// their members if `next` has the same groups, or if `next` was built as a successor of `previous` or of
    /// an earlier generation.
    pub fn change_generation(
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
        let lineages = LineageIndex::new(previous);
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
                None => vec![BucketClaim::default(); size],
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

    /// Updates the state of next hops. Groups without a changed member are not modified.
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

    /// Returns the member for a flow with this hash (see [`seeded_hash`](crate::route::seeded_hash)). Returns
    /// `None` if no member is usable.
    #[inline(always)]
    pub fn select(&self, group: GroupId, hash: u32) -> Option<NextHopId> {
        let group_range = self.ranges[group.index()];
        if group_range.active == 0 {
            return None;
        }
        let bucket = (u64::from(hash) * u64::from(group_range.active)) >> 32;
        Some(self.buckets[group_range.first as usize + bucket as usize])
    }

    /// Returns the member of each bucket of a group, for `show` commands and tests. The list is empty if no
    /// member is usable.
    pub fn buckets(&self, group: GroupId) -> &[NextHopId] {
        let group_range = self.ranges[group.index()];
        &self.buckets[group_range.first as usize..][..group_range.active as usize]
    }

    /// Rebuilds all groups for normal hashing.
    fn rebuild_all_groups(&mut self, fib: &Fib) {
        self.ranges.clear();
        self.buckets.clear();
        for group in fib.groups() {
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
            self.ranges.push(BucketRange {
                first: first as u32,
                active: size,
                size,
            });
        }
    }

    /// Returns which members claim which buckets of a group, scaled to `size` buckets. `renamed` is the new
    /// id of each next hop.
    fn bucket_claims(&self, group: GroupId, renamed: &[Option<NextHopId>], size: usize) -> Vec<BucketClaim> {
        let group_range = self.ranges[group.index()];
        let range = group_range.first as usize..(group_range.first + group_range.size) as usize;
        let buckets = &self.buckets[range.clone()];
        // A plain table has no homes, and no buckets while no member lives.
        let homes = self.homes.get(range).unwrap_or(buckets);
        let claim = |bucket: usize| {
            let from = bucket * buckets.len() / size;
            BucketClaim {
                home: homes.get(from).and_then(|home| renamed[home.index()]),
                holder: buckets.get(from).and_then(|holder| renamed[holder.index()]),
            }
        };
        (0..size).map(claim).collect()
    }

    /// Moves each bucket to its home (the member that the bucket prefers) if the home is usable, and
    /// distributes the other buckets. These buckets stay at their present member if it is usable and its
    /// share permits this.
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
        let claim = |(home, holder): (&NextHopId, &NextHopId)| BucketClaim {
            home: Some(*home),
            holder: Some(*holder),
        };
        let claims: Vec<_> = homes.iter().zip(&*buckets).map(claim).collect();
        buckets.copy_from_slice(&assign_buckets(&living, &claims, true));
    }
}

/// Returns the state of each next hop.
fn live_next_hops(fib: &Fib, live: impl Fn(NextHopId) -> bool) -> Vec<bool> {
    (0..fib.next_hops().len() as u32)
        .map(|id| live(NextHopId(id)))
        .collect()
}
