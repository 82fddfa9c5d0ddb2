//! Builds a [`Fib`] from routes: sorts them, numbers next hops and groups, and builds the tries.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hashbrown::HashTable;
use ipnet::IpNet;

use super::groups::{GroupAssignment, group_lineages};
use super::lineage::path_set_hash;
use super::{
    Fib, FibEntry, FibError, MEMBERS_MAX, NEXT_HOPS_MAX, NextHop, ROUTES_MAX, Route, RoutePath, RouteTag,
    RouteTarget, WEIGHT_SUM_MAX,
};
use crate::ids::{GroupId, NextHopId};
use crate::route::lpm::{LpmTrie, TrieFull, TriePrefix};

/// Builds the generation of `routes` that follows `previous`.
pub(super) fn build(previous: &Fib, mut routes: Vec<Route>) -> Result<Fib, FibError> {
    for route in &mut routes {
        route.prefix = route.prefix.trunc();
    }
    routes.sort_by_key(|route| route.prefix);
    if let Some(pair) = routes.windows(2).find(|pair| pair[0].prefix == pair[1].prefix) {
        return Err(FibError::DuplicatePrefix(pair[0].prefix));
    }
    if let Some(route) = routes.get(ROUTES_MAX) {
        return Err(FibError::TooManyRoutes(route.prefix));
    }
    let sets = PathSets::of_routes(&routes)?;
    let next_hops = collect_next_hops(&routes, &sets)?;
    let pasts = group_lineages(previous, &routes, &sets);
    let groups = match GroupAssignment::assign(&sets, &pasts, false) {
        Ok(groups) => groups,
        // Too many histories. Routes with equal sets share one group again, and some flows move.
        Err(_) => GroupAssignment::assign(&sets, &pasts, true)
            .map_err(|route| FibError::TooManyGroups(routes[route].prefix))?,
    };
    let entries = fib_entries(&routes, &sets, &groups, &next_hops);
    Ok(Fib {
        v4: build_trie(&routes, &entries, |prefix| match prefix {
            IpNet::V4(net) => Some([u64::from(net.network().to_bits()) << 32]),
            IpNet::V6(_) => None,
        })?,
        v6: build_trie(&routes, &entries, |prefix| match prefix {
            IpNet::V4(_) => None,
            IpNet::V6(net) => Some(address_words(net.network().to_bits())),
        })?,
        groups: groups.next_hop_groups(previous, &sets, &next_hops),
        lineages: groups.list.iter().map(|&(_, lineage)| lineage).collect(),
        routes,
        entries,
        next_hops,
    })
}

/// Splits an IPv6 address into two words.
fn address_words(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// Builds the trie of one IP version. `address` returns `None` for prefixes of the other version.
fn build_trie<const WORDS: usize>(
    routes: &[Route],
    entries: &[FibEntry],
    address: impl Fn(&IpNet) -> Option<[u64; WORDS]>,
) -> Result<LpmTrie<WORDS>, FibError> {
    let mut last = None;
    let prefixes: Vec<_> = routes
        .iter()
        .zip(entries)
        .filter_map(|(route, entry)| {
            let address = address(&route.prefix)?;
            last = Some(route.prefix);
            Some(TriePrefix {
                address,
                len: u32::from(route.prefix.prefix_len()),
                leaf: entry.leaf(),
            })
        })
        .collect();
    LpmTrie::build(&prefixes).map_err(|TrieFull| FibError::TooManyRoutes(last.unwrap_or_default()))
}

/// The distinct sets of next hops.
pub(super) struct PathSets {
    /// Each set is sorted and has no duplicates. Weights are in lowest terms.
    pub(super) list: Vec<Vec<RoutePath>>,
    pub(super) tags: Vec<RouteTag>,
    pub(super) hashes: Vec<u64>,
    by_hash: HashTable<u32>,
    /// The set of each route with next hops.
    pub(super) by_route: Vec<Option<u32>>,
}

impl PathSets {
    /// Collects the sets of all routes.
    fn of_routes(routes: &[Route]) -> Result<PathSets, FibError> {
        let mut sets = PathSets {
            list: Vec::new(),
            tags: Vec::new(),
            hashes: Vec::new(),
            by_hash: HashTable::new(),
            by_route: Vec::with_capacity(routes.len()),
        };
        // Sets as the routes contain them. Most routes have a set that an earlier route had.
        let mut stated: HashTable<(u64, &Route, &[RoutePath], u32)> = HashTable::new();
        for route in routes {
            let RouteTarget::Via(paths) = &route.target else {
                sets.by_route.push(None);
                continue;
            };
            // A set of an IPv6 route may be invalid for an IPv4 route, so the IP version is part of the key.
            let key = path_set_hash(paths, route.tag) ^ u64::from(matches!(route.prefix, IpNet::V4(_)));
            let known = stated.find(key, |&(other, stated, known, _)| {
                other == key && known == paths && stated.tag == route.tag
            });
            let set = match known {
                Some(&(.., set)) => set,
                None => {
                    let set = sets.find_or_add_set(canonical_paths(route.prefix, paths)?, route.tag);
                    stated.insert_unique(key, (key, route, paths, set), |&(key, ..)| key);
                    set
                }
            };
            sets.by_route.push(Some(set));
        }
        Ok(sets)
    }

    /// Returns the index of a set, and adds it if necessary.
    fn find_or_add_set(&mut self, paths: Vec<RoutePath>, tag: RouteTag) -> u32 {
        let name = path_set_hash(&paths, tag);
        if let Some(set) = self.find_set(name, &paths, tag) {
            return set;
        }
        let set = self.list.len() as u32;
        self.list.push(paths);
        self.tags.push(tag);
        self.hashes.push(name);
        let hashes = &self.hashes;
        self.by_hash.insert_unique(name, set, |&set| hashes[set as usize]);
        set
    }

    /// The set with these paths and this tag. `hash` is their hash.
    pub(super) fn find_set(&self, hash: u64, paths: &[RoutePath], tag: RouteTag) -> Option<u32> {
        let same = |&set: &u32| self.list[set as usize] == paths && self.tags[set as usize] == tag;
        self.by_hash.find(hash, same).copied()
    }
}

/// Sorts the next hops of a route, merges duplicates and reduces the weights to lowest terms.
fn canonical_paths(prefix: IpNet, paths: &[RoutePath]) -> Result<Vec<RoutePath>, FibError> {
    if paths.is_empty() {
        return Err(FibError::NoNextHop(prefix));
    }
    for path in paths {
        let address = path.next_hop.address;
        if path.weight == 0 {
            return Err(FibError::ZeroWeight(prefix, address));
        }
        if let (IpNet::V6(_), IpAddr::V4(_)) = (prefix, address) {
            return Err(FibError::Family(prefix, address));
        }
    }
    let mut sorted: Vec<(NextHop, u64)> = paths
        .iter()
        .map(|path| (path.next_hop, u64::from(path.weight)))
        .collect();
    sorted.sort_unstable();
    sorted.dedup_by(|again, first| {
        let same = again.0 == first.0;
        if same {
            first.1 += again.1;
        }
        same
    });
    if sorted.len() > MEMBERS_MAX {
        return Err(FibError::TooManyMembers(prefix));
    }
    let divisor = sorted
        .iter()
        .fold(0, |divisor, &(_, weight)| gcd(weight, divisor));
    let sum = sorted.iter().map(|&(_, weight)| weight / divisor).sum();
    if sum > u64::from(WEIGHT_SUM_MAX) {
        return Err(FibError::WeightSum(prefix, sum));
    }
    let path = |&(next_hop, weight): &(NextHop, u64)| RoutePath {
        next_hop,
        weight: (weight / divisor) as u16,
    };
    Ok(sorted.iter().map(path).collect())
}

/// Greatest common divisor. The result for a number and 0 is the number.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// All next hops, sorted and without duplicates.
fn collect_next_hops(routes: &[Route], sets: &PathSets) -> Result<Vec<NextHop>, FibError> {
    let mut all: Vec<_> = sets.list.iter().flatten().map(|path| path.next_hop).collect();
    all.sort_unstable();
    all.dedup();
    if all.len() <= NEXT_HOPS_MAX {
        return Ok(all);
    }
    let mut seen = BTreeSet::new();
    for (route, set) in routes.iter().zip(&sets.by_route) {
        let paths = set.map_or(&[][..], |set| &sets.list[set as usize]);
        seen.extend(paths.iter().map(|path| path.next_hop));
        if seen.len() > NEXT_HOPS_MAX {
            return Err(FibError::TooManyNextHops(route.prefix));
        }
    }
    unreachable!("the routes have all the next hops that the sets have")
}

/// The look-up result of each route.
fn fib_entries(
    routes: &[Route],
    sets: &PathSets,
    groups: &GroupAssignment,
    next_hops: &[NextHop],
) -> Vec<FibEntry> {
    // A set with one element gives a next hop. The ids of other sets are not used.
    let single: Vec<_> = sets
        .list
        .iter()
        .map(|set| next_hop_id(next_hops, set[0].next_hop))
        .collect();
    let mut entries = Vec::with_capacity(routes.len());
    for (index, route) in routes.iter().enumerate() {
        entries.push(
            match (&route.target, groups.by_route[index], sets.by_route[index]) {
                (RouteTarget::Local, ..) => FibEntry::Local,
                (RouteTarget::Connected(interface), ..) => FibEntry::Connected(*interface),
                (RouteTarget::Via(_), Some(group), _) => FibEntry::Group(GroupId(group)),
                (RouteTarget::Via(_), None, Some(set)) => FibEntry::NextHop(single[set as usize]),
                (RouteTarget::Via(_), None, None) | (RouteTarget::Blackhole, ..) => FibEntry::Blackhole,
            },
        );
    }
    entries
}

/// The id of a next hop in the sorted list `next_hops`.
pub(super) fn next_hop_id(next_hops: &[NextHop], next_hop: NextHop) -> NextHopId {
    NextHopId(next_hops.partition_point(|other| *other < next_hop) as u32)
}
