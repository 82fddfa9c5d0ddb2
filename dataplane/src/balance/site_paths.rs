//! The paths to the sites that a switch advertises. A path is a next hop of the routes to a site.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::member::Member;
use super::selection_input::MemberState;
use crate::fib::{Fib, NextHop, RoutePath};

/// A next hop of the routes, which is a path to one or more sites.
#[derive(Clone, Debug)]
pub(super) struct SitePath {
    pub(super) next_hop: NextHop,
    pub(super) member: Member,
    pub(super) live: bool,
}

/// Index of a list in [`SitePaths::lists`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathListId(u32);

/// The paths to all sites. In a large fabric, most sites are behind the same next hops, so sites share the lists of
/// their paths.
#[derive(Clone, Debug, Default)]
pub(super) struct SitePaths {
    /// One element for each next hop of the routes, by [`NextHopId`].
    hops: Vec<SitePath>,
    /// Lists of indices in `hops`, without duplicates. The first list is empty.
    lists: Vec<Box<[u32]>>,
}

impl SitePaths {
    /// The list of a site without paths.
    pub(super) const EMPTY: PathListId = PathListId(0);

    /// Returns the paths of a list.
    pub(super) fn of_list(&self, list: PathListId) -> impl Iterator<Item = &SitePath> {
        let list = self.lists.get(list.0 as usize).map_or(&[][..], |list| list);
        list.iter().map(|hop| &self.hops[*hop as usize])
    }

    /// Updates the link state of all next hops.
    pub(super) fn update_live(&mut self, live: impl Fn(NextHop) -> bool) {
        for path in &mut self.hops {
            path.live = live(path.next_hop);
        }
    }
}

/// Collects the paths to the sites of a [`Fib`].
pub(super) struct SitePathCollector<'a> {
    fib: &'a Fib,
    lists: BTreeMap<Box<[u32]>, u32>,
    /// The list of the routes that share the next hops at this address.
    of_shared: BTreeMap<*const RoutePath, PathListId>,
}

impl<'a> SitePathCollector<'a> {
    /// Creates a collector without lists.
    pub(super) fn new(fib: &'a Fib) -> SitePathCollector<'a> {
        SitePathCollector {
            fib,
            lists: BTreeMap::from([(Box::default(), SitePaths::EMPTY.0)]),
            of_shared: BTreeMap::new(),
        }
    }

    /// Returns the list of the next hops of a route.
    pub(super) fn list_of_route(&mut self, paths: &Arc<[RoutePath]>) -> PathListId {
        let address = Arc::as_ptr(paths).cast();
        if let Some(list) = self.of_shared.get(&address) {
            return *list;
        }
        let list = self.list_of(
            paths
                .iter()
                .map(|path| next_hop_id(self.fib, path.next_hop))
                .collect(),
        );
        self.of_shared.insert(address, list);
        list
    }

    /// Returns the list with the elements of two lists.
    pub(super) fn union(&mut self, a: PathListId, b: PathListId) -> PathListId {
        if a == b || b == SitePaths::EMPTY {
            return a;
        }
        if a == SitePaths::EMPTY {
            return b;
        }
        let both = self.lists.iter().filter(|(_, id)| **id == a.0 || **id == b.0);
        let all = both.flat_map(|(list, _)| list.iter().copied()).collect();
        self.list_of(all)
    }

    fn list_of(&mut self, mut hops: Vec<u32>) -> PathListId {
        hops.sort_unstable();
        hops.dedup();
        let next = self.lists.len() as u32;
        PathListId(*self.lists.entry(hops.into()).or_insert(next))
    }

    /// Returns the collected lists, with all next hops of the routes. `state_of` returns the member state of a
    /// next hop.
    pub(super) fn into_paths(self, state_of: impl Fn(NextHop) -> MemberState) -> SitePaths {
        let site_path = |next_hop: &NextHop| {
            let MemberState { member, live, .. } = state_of(*next_hop);
            SitePath {
                next_hop: *next_hop,
                member,
                live,
            }
        };
        let mut lists: Vec<_> = self.lists.into_iter().collect();
        lists.sort_unstable_by_key(|(_, id)| *id);
        SitePaths {
            hops: self.fib.next_hops().iter().map(site_path).collect(),
            lists: lists.into_iter().map(|(list, _)| list).collect(),
        }
    }
}

fn next_hop_id(fib: &Fib, next_hop: NextHop) -> u32 {
    fib.next_hops().partition_point(|other| *other < next_hop) as u32
}
