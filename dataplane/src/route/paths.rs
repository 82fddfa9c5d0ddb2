//! Which member of a group a flow goes to: the mutable side of a [`Fib`]'s groups.

mod apportion;

use apportion::{Claims, share_out};

use super::fib::{Fib, Lineages, gcd};
use crate::ids::{GroupId, NextHopId};

/// Buckets of a group with resilient hashing unless told otherwise. Shares are exact to one bucket: with 32 members to
/// 0.8 %, where 1 024 buckets would already give 31 members 2.9 %.
pub const RESILIENT_BUCKETS: u16 = 4_096;

/// Mixes the hash of a flow with the seed of a switch. Switches with different seeds choose independently of each other;
/// if they did not, each tier of a fabric would find its flows already sorted by the tier before (hash polarisation).
///
/// One step of splitmix64 (Steele, Lea and Flood 2014): the hash picks the place in the sequence, the seed where it starts.
#[inline]
pub fn seeded(hash: u32, seed: u64) -> u32 {
    let mut mixed = seed.wrapping_add(u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 32) as u32
}

/// The buckets of a group: what lies where in [`PathTable::buckets`].
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: u32,
    /// Buckets that are chosen from; 0: no member lives.
    open: u32,
    /// Buckets there are.
    size: u32,
}

/// For every group of a [`Fib`], the member of each bucket. A flow's bucket is its hash, scaled to the number of buckets.
///
/// **Plain**: as many buckets as the weights of the living members add up to in lowest terms, so shares are exact. A change
/// of the members, or of what lives, may move any flow.
///
/// **Resilient**: a fixed number of buckets, each with a *home* among the members. Shares are exact to one bucket.
/// - A member is lost: its buckets go to the living ones, in proportion to their weights; no other bucket moves.
/// - It returns: its buckets return. When everybody lives, every bucket is at home.
/// - While others are still missing, it also takes its share of their buckets.
/// - The route changes: members that stay keep their buckets up to their new share; only the surplus and the buckets of
///   members that left move.
///
/// A group with more members than the configured buckets has one bucket for each member, whatever the weights, so that no
/// member is idle; when such a group changes its size, flows move.
#[derive(Clone, Debug, Default)]
pub struct PathTable {
    resilient: Option<u16>,
    spans: Vec<Span>,
    buckets: Vec<NextHopId>,
    /// The home of each bucket; empty with plain hashing.
    homes: Vec<NextHopId>,
    /// Which next hops lived when buckets were last settled.
    live: Vec<bool>,
}

impl PathTable {
    /// The table of a first generation. `resilient_buckets`: see [`crate::config::RoutingConfig::resilient_buckets`];
    /// 0 counts as 1. `live`: whether a next hop can be used.
    pub fn new(fib: &Fib, resilient_buckets: Option<u16>, live: impl Fn(NextHopId) -> bool) -> PathTable {
        let mut table = PathTable::default();
        table.succeed(&Fib::default(), fib, resilient_buckets, live);
        table
    }

    /// The table goes from `previous`, whose table it is, to `next`. Any generation may follow any other; flows stay where
    /// they are as far as `next` was built to succeed `previous` (or one before it), or has the same groups.
    pub fn succeed(
        &mut self,
        previous: &Fib,
        next: &Fib,
        resilient_buckets: Option<u16>,
        live: impl Fn(NextHopId) -> bool,
    ) {
        let before = std::mem::take(self);
        self.resilient = resilient_buckets;
        self.live = live_list(next, live);
        let Some(buckets) = resilient_buckets else {
            self.spread_all(next);
            return;
        };
        let lineages = Lineages::of(previous);
        let renamed: Vec<_> = previous
            .next_hops()
            .iter()
            .map(|old| next.next_hops().binary_search(old).ok())
            .map(|place| place.map(|place| NextHopId(place as u32)))
            .collect();
        for (index, group) in (0..).zip(next.groups()) {
            let size = usize::from(buckets).max(group.members.len());
            let claims = match lineages.ancestor(next, GroupId(index)) {
                Some(ancestor) => before.claims(ancestor, &renamed, size),
                None => vec![Claims::default(); size],
            };
            let homes = share_out(&group.members, &claims, false);
            self.spans.push(Span {
                first: self.buckets.len() as u32,
                open: size as u32,
                size: size as u32,
            });
            // What nobody had is at home, unless nobody lives there.
            let now = claims
                .iter()
                .zip(&homes)
                .map(|(claim, home)| claim.holder.unwrap_or(*home));
            self.buckets.extend(now);
            self.homes.extend(homes);
            self.settle(index as usize, &group.members);
        }
    }

    /// Looks again which next hops live. Groups none of whose members changed are left alone.
    pub fn set_live(&mut self, fib: &Fib, live: impl Fn(NextHopId) -> bool) {
        let before = std::mem::replace(&mut self.live, live_list(fib, live));
        if before == self.live {
            return;
        }
        if self.resilient.is_none() {
            self.spread_all(fib);
            return;
        }
        for (index, group) in fib.groups().iter().enumerate() {
            if group
                .members
                .iter()
                .any(|&(id, _)| before[id.index()] != self.live[id.index()])
            {
                self.settle(index, &group.members);
            }
        }
    }

    /// The member of a group that a flow goes to, by its hash (see [`seeded`]); `None`: no member lives.
    #[inline(always)]
    pub fn select(&self, group: GroupId, hash: u32) -> Option<NextHopId> {
        let span = self.spans[group.index()];
        if span.open == 0 {
            return None;
        }
        let bucket = (u64::from(hash) * u64::from(span.open)) >> 32;
        Some(self.buckets[span.first as usize + bucket as usize])
    }

    /// The member of each bucket of a group, none if no member lives: `show` and tests look at it.
    pub fn buckets(&self, group: GroupId) -> &[NextHopId] {
        let span = self.spans[group.index()];
        &self.buckets[span.first as usize..][..span.open as usize]
    }

    /// All groups anew, plainly.
    fn spread_all(&mut self, fib: &Fib) {
        self.spans.clear();
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
            self.spans.push(Span {
                first: first as u32,
                open: size,
                size,
            });
        }
    }

    /// Who has a claim to a group's buckets, scaled to `size` of them; `renamed` has the present ids of next hops.
    fn claims(&self, group: GroupId, renamed: &[Option<NextHopId>], size: usize) -> Vec<Claims> {
        let span = self.spans[group.index()];
        let range = span.first as usize..(span.first + span.size) as usize;
        let buckets = &self.buckets[range.clone()];
        // A plain table has no homes, and no buckets while no member lives.
        let homes = self.homes.get(range).unwrap_or(buckets);
        let claim = |bucket: usize| {
            let from = bucket * buckets.len() / size;
            Claims {
                home: homes.get(from).and_then(|home| renamed[home.index()]),
                holder: buckets.get(from).and_then(|holder| renamed[holder.index()]),
            }
        };
        (0..size).map(claim).collect()
    }

    /// Moves buckets home where home lives, and shares out the others: those already lent to a living member stay there
    /// if its share allows.
    fn settle(&mut self, group: usize, members: &[(NextHopId, u16)]) {
        let span = self.spans[group];
        let living: Vec<_> = members
            .iter()
            .copied()
            .filter(|(id, _)| self.live[id.index()])
            .collect();
        if living.is_empty() {
            self.spans[group].open = 0;
            return;
        }
        self.spans[group].open = span.size;
        let range = span.first as usize..(span.first + span.size) as usize;
        let (homes, buckets) = (&self.homes[range.clone()], &mut self.buckets[range]);
        let claim = |(home, holder): (&NextHopId, &NextHopId)| Claims {
            home: Some(*home),
            holder: Some(*holder),
        };
        let claims: Vec<_> = homes.iter().zip(&*buckets).map(claim).collect();
        buckets.copy_from_slice(&share_out(&living, &claims, true));
    }
}

fn live_list(fib: &Fib, live: impl Fn(NextHopId) -> bool) -> Vec<bool> {
    (0..fib.next_hops().len() as u32)
        .map(|id| live(NextHopId(id)))
        .collect()
}
