//! The sets of next hops that the routes have. Equal sets are stored once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashTable;
use ipnet::IpNet;

use super::group_history::{path_list_hash, path_set_hash};
use super::{FibError, MEMBERS_MAX, NextHop, Route, RoutePath, RouteTag, RouteTarget, WEIGHT_SUM_MAX};
use crate::ids::NextHopId;

/// The distinct sets of next hops of all routes. A set consists of a list of next hops and a tag. In a large fabric,
/// many sets have the same list and differ only in the site of their tag.
#[derive(Default)]
pub(super) struct PathSets {
    /// The list of each set. The list is sorted and has no duplicates. Weights are in lowest terms.
    pub(super) list: Vec<Arc<[RoutePath]>>,
    pub(super) tags: Vec<RouteTag>,
    pub(super) hashes: Vec<u64>,
    by_hash: HashTable<u32>,
    /// The distinct lists of all sets.
    pub(super) distinct_lists: Vec<Arc<[RoutePath]>>,
    /// Index of the list of each set in `distinct_lists`.
    pub(super) list_indices: Vec<u32>,
    /// Index of the set of each route. `None` for routes without next hops.
    pub(super) by_route: Vec<Option<u32>>,
}

impl PathSets {
    /// Collects the sets of all routes.
    pub(super) fn of_routes(routes: &[Route]) -> Result<PathSets, FibError> {
        let mut sets = PathSets {
            by_route: Vec::with_capacity(routes.len()),
            ..PathSets::default()
        };
        let mut lists = StatedLists::default();
        for route in routes {
            let RouteTarget::Via(paths) = &route.target else {
                sets.by_route.push(None);
                continue;
            };
            let list = lists.index_of(&mut sets.distinct_lists, route.prefix, paths)?;
            let set = sets.find_or_add_set(list, lists.hashes[list as usize], route.tag);
            sets.by_route.push(Some(set));
        }
        Ok(sets)
    }

    /// Returns the index of the set with a list and a tag. If the set does not exist, it is added.
    fn find_or_add_set(&mut self, list: u32, list_hash: u64, tag: RouteTag) -> u32 {
        let hash = path_set_hash(list_hash, tag);
        let same = |&set: &u32| self.list_indices[set as usize] == list && self.tags[set as usize] == tag;
        if let Some(&set) = self.by_hash.find(hash, same) {
            return set;
        }
        let set = self.list.len() as u32;
        self.list.push(Arc::clone(&self.distinct_lists[list as usize]));
        self.list_indices.push(list);
        self.tags.push(tag);
        self.hashes.push(hash);
        let hashes = &self.hashes;
        self.by_hash.insert_unique(hash, set, |&set| hashes[set as usize]);
        set
    }

    /// Returns the index of the set with these paths and this tag. Returns `None` if no such set exists.
    /// `hash` is the hash of the paths and the tag.
    pub(super) fn find_set(&self, hash: u64, paths: &[RoutePath], tag: RouteTag) -> Option<u32> {
        let same = |&set: &u32| self.tags[set as usize] == tag && *self.list[set as usize] == *paths;
        self.by_hash.find(hash, same).copied()
    }
}

/// The lists of next hops in the form in which routes contain them, and the index of the same list in canonical form.
/// Most routes have the same list as an earlier route, and many share its memory.
#[derive(Default)]
struct StatedLists<'a> {
    /// By address and length of the list, and whether the route is an IPv4 route. A list of an IPv6 route may be
    /// invalid for an IPv4 route.
    by_address: HashMap<(usize, usize, bool), u32>,
    by_content: HashTable<(u64, &'a [RoutePath], u32)>,
    /// Index of each canonical list by its hash.
    canonical: HashTable<u32>,
    /// Hash of each canonical list.
    hashes: Vec<u64>,
}

impl<'a> StatedLists<'a> {
    /// Returns the index of the canonical form of a list in `lists`. Adds the canonical form if it is new.
    fn index_of(
        &mut self,
        lists: &mut Vec<Arc<[RoutePath]>>,
        prefix: IpNet,
        paths: &'a [RoutePath],
    ) -> Result<u32, FibError> {
        let is_ipv4 = matches!(prefix, IpNet::V4(_));
        let address = (paths.as_ptr() as usize, paths.len(), is_ipv4);
        if let Some(list) = self.by_address.get(&address) {
            return Ok(*list);
        }
        let key = path_list_hash(paths) ^ u64::from(is_ipv4);
        let known = self
            .by_content
            .find(key, |&(other, stated, _)| other == key && stated == paths);
        let list = match known {
            Some(&(.., list)) => list,
            None => {
                let list = self.add_canonical(lists, canonical_paths(prefix, paths)?);
                self.by_content
                    .insert_unique(key, (key, paths, list), |&(key, ..)| key);
                list
            }
        };
        self.by_address.insert(address, list);
        Ok(list)
    }

    /// Returns the index of a list in canonical form. Adds the list if it is new.
    fn add_canonical(&mut self, lists: &mut Vec<Arc<[RoutePath]>>, paths: Vec<RoutePath>) -> u32 {
        let hash = path_list_hash(&paths);
        if let Some(&list) = self.canonical.find(hash, |&list| *lists[list as usize] == *paths) {
            return list;
        }
        let list = lists.len() as u32;
        lists.push(paths.into());
        self.hashes.push(hash);
        let hashes = &self.hashes;
        self.canonical
            .insert_unique(hash, list, |&list| hashes[list as usize]);
        list
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
