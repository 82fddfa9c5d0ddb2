//! Routes into a [`Fib`]: sort, give numbers to next hops and groups, build the tries.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hashbrown::HashTable;
use ipnet::IpNet;

use super::groups::{Groups, pasts};
use super::lineage::name_of;
use super::{
    Entry, Fib, FibError, MEMBERS_MAX, NEXT_HOPS_MAX, NextHop, Path, ROUTES_MAX, Route, RouteTag, Target,
    WEIGHT_SUM_MAX,
};
use crate::ids::{GroupId, NextHopId};
use crate::route::lpm::{Overfull, Prefix, Trie};

/// The generation of `routes` that follows `previous`.
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
    let sets = Sets::of(&routes)?;
    let next_hops = next_hops(&routes, &sets)?;
    let pasts = pasts(previous, &routes, &sets);
    let groups = match Groups::assign(&sets, &pasts, false) {
        Ok(groups) => groups,
        // Too many pasts: routes with the same set share one group again, and some flows move.
        Err(_) => Groups::assign(&sets, &pasts, true)
            .map_err(|route| FibError::TooManyGroups(routes[route].prefix))?,
    };
    let entries = entries(&routes, &sets, &groups, &next_hops);
    Ok(Fib {
        v4: trie(&routes, &entries, |prefix| match prefix {
            IpNet::V4(net) => Some([u64::from(net.network().to_bits()) << 32]),
            IpNet::V6(_) => None,
        })?,
        v6: trie(&routes, &entries, |prefix| match prefix {
            IpNet::V4(_) => None,
            IpNet::V6(net) => Some(words(net.network().to_bits())),
        })?,
        groups: groups.describe(previous, &sets, &next_hops),
        lineages: groups.list.iter().map(|&(_, lineage)| lineage).collect(),
        routes,
        entries,
        next_hops,
    })
}

fn words(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// The trie of one family: `address` knows which routes are of it.
fn trie<const WORDS: usize>(
    routes: &[Route],
    entries: &[Entry],
    address: impl Fn(&IpNet) -> Option<[u64; WORDS]>,
) -> Result<Trie<WORDS>, FibError> {
    let mut last = None;
    let prefixes: Vec<_> = routes
        .iter()
        .zip(entries)
        .filter_map(|(route, entry)| {
            let address = address(&route.prefix)?;
            last = Some(route.prefix);
            Some(Prefix {
                address,
                len: u32::from(route.prefix.prefix_len()),
                leaf: entry.leaf(),
            })
        })
        .collect();
    Trie::build(&prefixes).map_err(|Overfull| FibError::TooManyRoutes(last.unwrap_or_default()))
}

/// The different sets of paths that routes have.
pub(super) struct Sets {
    /// Each in order, no next hop twice, weights in lowest terms.
    pub(super) list: Vec<Vec<Path>>,
    pub(super) tags: Vec<RouteTag>,
    pub(super) names: Vec<u64>,
    by_name: HashTable<u32>,
    /// For each route that leads via next hops, its set.
    pub(super) of_route: Vec<Option<u32>>,
}

impl Sets {
    fn of(routes: &[Route]) -> Result<Sets, FibError> {
        let mut sets = Sets {
            list: Vec::new(),
            tags: Vec::new(),
            names: Vec::new(),
            by_name: HashTable::new(),
            of_route: Vec::with_capacity(routes.len()),
        };
        // As routes state them. Most routes state what another one has stated.
        let mut stated: HashTable<(u64, &Route, &[Path], u32)> = HashTable::new();
        for route in routes {
            let Target::Via(paths) = &route.target else {
                sets.of_route.push(None);
                continue;
            };
            // What an IPv6 route may state is not what an IPv4 route may.
            let key = name_of(paths, route.tag) ^ u64::from(matches!(route.prefix, IpNet::V4(_)));
            let known = stated.find(key, |&(other, stated, known, _)| {
                other == key && known == paths && stated.tag == route.tag
            });
            let set = match known {
                Some(&(.., set)) => set,
                None => {
                    let set = sets.intern(canonical(route.prefix, paths)?, route.tag);
                    stated.insert_unique(key, (key, route, paths, set), |&(key, ..)| key);
                    set
                }
            };
            sets.of_route.push(Some(set));
        }
        Ok(sets)
    }

    fn intern(&mut self, paths: Vec<Path>, tag: RouteTag) -> u32 {
        let name = name_of(&paths, tag);
        if let Some(set) = self.find(name, &paths, tag) {
            return set;
        }
        let set = self.list.len() as u32;
        self.list.push(paths);
        self.tags.push(tag);
        self.names.push(name);
        let names = &self.names;
        self.by_name.insert_unique(name, set, |&set| names[set as usize]);
        set
    }

    /// The set with these paths of routes with this tag; `name` is theirs.
    pub(super) fn find(&self, name: u64, paths: &[Path], tag: RouteTag) -> Option<u32> {
        let same = |&set: &u32| self.list[set as usize] == paths && self.tags[set as usize] == tag;
        self.by_name.find(name, same).copied()
    }
}

/// The paths of a route in order, no next hop twice, weights in lowest terms.
fn canonical(prefix: IpNet, paths: &[Path]) -> Result<Vec<Path>, FibError> {
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
    let path = |&(next_hop, weight): &(NextHop, u64)| Path {
        next_hop,
        weight: (weight / divisor) as u16,
    };
    Ok(sorted.iter().map(path).collect())
}

/// Greatest common divisor; of a number and 0 it is the number.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Every next hop once, in order.
fn next_hops(routes: &[Route], sets: &Sets) -> Result<Vec<NextHop>, FibError> {
    let mut all: Vec<_> = sets.list.iter().flatten().map(|path| path.next_hop).collect();
    all.sort_unstable();
    all.dedup();
    if all.len() <= NEXT_HOPS_MAX {
        return Ok(all);
    }
    let mut seen = BTreeSet::new();
    for (route, set) in routes.iter().zip(&sets.of_route) {
        let paths = set.map_or(&[][..], |set| &sets.list[set as usize]);
        seen.extend(paths.iter().map(|path| path.next_hop));
        if seen.len() > NEXT_HOPS_MAX {
            return Err(FibError::TooManyNextHops(route.prefix));
        }
    }
    unreachable!("the routes have all the next hops that the sets have")
}

/// What each route's destinations find.
fn entries(routes: &[Route], sets: &Sets, groups: &Groups, next_hops: &[NextHop]) -> Vec<Entry> {
    // A set of one is a next hop; for others the id is not used.
    let single: Vec<_> = sets
        .list
        .iter()
        .map(|set| id_of(next_hops, set[0].next_hop))
        .collect();
    let mut entries = Vec::with_capacity(routes.len());
    for (index, route) in routes.iter().enumerate() {
        entries.push(
            match (&route.target, groups.of_route[index], sets.of_route[index]) {
                (Target::Local, ..) => Entry::Local,
                (Target::Connected(interface), ..) => Entry::Connected(*interface),
                (Target::Via(_), Some(group), _) => Entry::Group(GroupId(group)),
                (Target::Via(_), None, Some(set)) => Entry::NextHop(single[set as usize]),
                (Target::Via(_), None, None) | (Target::Blackhole, ..) => Entry::Blackhole,
            },
        );
    }
    entries
}

/// `next_hop` is among `next_hops`.
pub(super) fn id_of(next_hops: &[NextHop], next_hop: NextHop) -> NextHopId {
    NextHopId(next_hops.partition_point(|other| *other < next_hop) as u32)
}
