//! The sets of next hops that the routes have. Equal sets are stored once.

use std::net::IpAddr;

use hashbrown::HashTable;
use ipnet::IpNet;

use super::group_history::path_set_hash;
use super::{FibError, MEMBERS_MAX, NextHop, Route, RoutePath, RouteTag, RouteTarget, WEIGHT_SUM_MAX};
use crate::ids::NextHopId;

/// The distinct sets of next hops of all routes.
pub(super) struct PathSets {
    /// Each set is sorted and has no duplicates. Weights are in lowest terms.
    pub(super) list: Vec<Vec<RoutePath>>,
    pub(super) tags: Vec<RouteTag>,
    pub(super) hashes: Vec<u64>,
    by_hash: HashTable<u32>,
    /// Index of the set of each route. `None` for routes without next hops.
    pub(super) by_route: Vec<Option<u32>>,
}

impl PathSets {
    /// Collects the sets of all routes.
    pub(super) fn of_routes(routes: &[Route]) -> Result<PathSets, FibError> {
        let mut sets = PathSets {
            list: Vec::new(),
            tags: Vec::new(),
            hashes: Vec::new(),
            by_hash: HashTable::new(),
            by_route: Vec::with_capacity(routes.len()),
        };
        // Sets in the form in which routes contain them. Most routes have the same set as an earlier route.
        let mut stated: HashTable<(u64, &Route, &[RoutePath], u32)> = HashTable::new();
        for route in routes {
            let RouteTarget::Via(paths) = &route.target else {
                sets.by_route.push(None);
                continue;
            };
            let paths = &paths[..];
            // A set of next hops of an IPv6 route may be invalid for an IPv4 route, so the IP version is part
            // of the key.
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

    /// Returns the index of a set. If the set does not exist, it is added.
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

    /// Returns the index of the set with these paths and this tag. Returns `None` if no such set exists.
    /// `hash` is the hash of the paths and the tag.
    pub(super) fn find_set(&self, hash: u64, paths: &[RoutePath], tag: RouteTag) -> Option<u32> {
        let same = |&set: &u32| self.list[set as usize] == paths && self.tags[set as usize] == tag;
        self.by_hash.find(hash, same).copied()
    }
}

/// Sorts the next hops of a route, merges duplicates and divides the weights by their
/// greatest common divisor.
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

/// Returns the greatest common divisor. The result for a number and 0 is the number.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the id of a next hop in the sorted list `next_hops`.
pub(super) fn next_hop_id(next_hops: &[NextHop], next_hop: NextHop) -> NextHopId {
    NextHopId(next_hops.partition_point(|other| *other < next_hop) as u32)
}
