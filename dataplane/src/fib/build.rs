//! Builds a [`Fib`] from routes: sorts the routes, numbers next hops and groups, and builds the tries.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::groups::{GroupAssignment, group_lineages};
use super::lpm::{LpmTrie, TrieFull, TriePrefix};
use super::path_sets::{PathSets, next_hop_id};
use super::{Fib, FibEntry, FibError, NEXT_HOPS_MAX, NextHop, ROUTES_MAX, Route, RouteTarget};
use crate::ids::GroupId;

/// Builds the generation of `routes` that follows `previous`.
pub(super) fn build(previous: &Fib, mut routes: Vec<Route>) -> Result<Fib, FibError> {
    for route in &mut routes {
        route.prefix = route.prefix.trunc();
    }
    routes.sort_by_key(|route| route.prefix);
    routes.shrink_to_fit();
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
        // The histories of groups need too many groups. Now routes with equal sets share one group, and some
        // flows move.
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

/// Builds the trie for IPv4 or for IPv6. `address` returns `None` for a prefix that does not belong to this
/// IP version.
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

/// Returns all next hops of the routes, sorted and without duplicates.
fn collect_next_hops(routes: &[Route], sets: &PathSets) -> Result<Vec<NextHop>, FibError> {
    let lists = sets.distinct_lists.iter().flat_map(|list| &list[..]);
    let mut all: Vec<_> = lists.map(|path| path.next_hop).collect();
    all.sort_unstable();
    all.dedup();
    // Lists can have the same next hops, so the list was longer before.
    all.shrink_to_fit();
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

/// Returns the look-up result of each route.
fn fib_entries(
    routes: &[Route],
    sets: &PathSets,
    groups: &GroupAssignment,
    next_hops: &[NextHop],
) -> Vec<FibEntry> {
    // A set with one element gives a single next hop. The ids of other sets are not used.
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
