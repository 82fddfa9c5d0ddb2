//! Assigns routes to groups. The group of a route depends on its next hops and on its previous group.
//!
//! | previous target | new target | new group |
//! |---|---|---|
//! | several next hops | the same next hops | the previous group |
//! | several next hops | other next hops, at least one in common | a successor of the previous group |
//! | several next hops | next hops without a common one | any group with these members: every flow moves |
//! | one next hop, none, or a new route | several next hops | any group with these members |
//!
//! The last case moves no flow unnecessarily. Before the change, all flows of the route had the same next hop
//! or no next hop. In any group with the new members, this next hop keeps exactly its share of the flows.

use std::sync::Arc;

use hashbrown::HashTable;

use super::group_history::{GroupIdentity, GroupIdentityIndex, path_list_hash, path_set_hash};
use super::path_sets::{PathSets, next_hop_id};
use super::{Fib, FibEntry, GROUPS_MAX, NextHop, NextHopGroup, Route, RoutePath};

/// Returns the lineage (the history) of each route's group. A route has a lineage if it has several next hops
/// and had a group before. The group must still have a next hop in common.
pub(super) fn group_lineages(
    previous: &Fib,
    routes: &[Route],
    sets: &PathSets,
) -> Vec<Option<GroupIdentity>> {
    let before: Vec<_> = previous
        .groups
        .iter()
        .map(|group| PreviousGroup::new(previous, group, sets))
        .collect();
    let mut known = previous.routes.iter().zip(&previous.entries).peekable();
    let mut pasts = Vec::with_capacity(routes.len());
    for (route, set) in routes.iter().zip(&sets.by_route) {
        while known.next_if(|(other, _)| other.prefix < route.prefix).is_some() {}
        let entry = known.next_if(|(other, _)| other.prefix == route.prefix);
        let past = match (set, entry) {
            (Some(set), Some((_, FibEntry::Group(group)))) => {
                let lineage = previous.lineages[group.index()];
                let before = &before[group.index()];
                if before.set == Some(*set) {
                    Some(lineage)
                } else if before.shares_next_hop_with(&sets.list[*set as usize]) {
                    Some(GroupIdentity::with_predecessor(
                        lineage.own_hash,
                        sets.hashes[*set as usize],
                    ))
                } else {
                    None
                }
            }
            _ => None,
        };
        pasts.push(past);
    }
    pasts
}

/// A group of the previous generation.
struct PreviousGroup {
    /// Index of the set with the same next hops in the new version (generation) of the routes. `None` if no
    /// route has these next hops.
    set: Option<u32>,
    paths: Vec<RoutePath>,
}

impl PreviousGroup {
    fn new(previous: &Fib, group: &NextHopGroup, sets: &PathSets) -> PreviousGroup {
        let paths: Vec<_> = group
            .members
            .iter()
            .map(|&(id, weight)| RoutePath {
                next_hop: previous.next_hops[id.index()],
                weight,
            })
            .collect();
        PreviousGroup {
            set: sets.find_set(
                path_set_hash(path_list_hash(&paths), group.tag),
                &paths,
                group.tag,
            ),
            paths,
        }
    }

    /// Returns true if the two sorted lists have a common next hop.
    fn shares_next_hop_with(&self, paths: &[RoutePath]) -> bool {
        let mut ours = self.paths.iter().map(|path| path.next_hop).peekable();
        paths.iter().any(|path| {
            while ours.next_if(|our| *our < path.next_hop).is_some() {}
            ours.peek() == Some(&path.next_hop)
        })
    }
}

/// The groups of a generation.
pub(super) struct GroupAssignment {
    /// Set and lineage of each group.
    pub(super) list: Vec<(u32, GroupIdentity)>,
    by_hash: HashTable<u32>,
    /// The first group of each set.
    of_set: Vec<Option<u32>>,
    /// The group of each route. `None` for routes that do not have several next hops.
    pub(super) by_route: Vec<Option<u32>>,
}

impl GroupAssignment {
    /// Assigns groups to routes. If `ignore_history` is true, all routes with the same set of next hops share
    /// one group, even if their previous groups were different. The error is the index of the route that
    /// would exceed [`GROUPS_MAX`].
    pub(super) fn assign(
        sets: &PathSets,
        pasts: &[Option<GroupIdentity>],
        ignore_history: bool,
    ) -> Result<GroupAssignment, usize> {
        let mut groups = GroupAssignment {
            list: Vec::new(),
            by_hash: HashTable::new(),
            of_set: vec![None; sets.list.len()],
            by_route: vec![None; pasts.len()],
        };
        let several = |route: usize| sets.by_route[route].filter(|&set| sets.list[set as usize].len() > 1);
        for (route, past) in pasts.iter().enumerate() {
            if let (Some(set), Some(lineage)) = (several(route), past) {
                let group = match groups.of_set[set as usize] {
                    Some(group) if ignore_history => group,
                    _ => groups.find_or_add_group(set, *lineage).ok_or(route)?,
                };
                groups.by_route[route] = Some(group);
            }
        }
        for (route, past) in pasts.iter().enumerate() {
            if let (Some(set), None) = (several(route), past) {
                let group = match groups.of_set[set as usize] {
                    Some(group) => group,
                    None => groups
                        .find_or_add_group(set, GroupIdentity::without_predecessor(sets.hashes[set as usize]))
                        .ok_or(route)?,
                };
                groups.by_route[route] = Some(group);
            }
        }
        Ok(groups)
    }

    /// Returns the group with this set and lineage. If the group does not exist, it is added. Returns `None`
    /// if there are already [`GROUPS_MAX`] groups.
    fn find_or_add_group(&mut self, set: u32, lineage: GroupIdentity) -> Option<u32> {
        let list = &self.list;
        let found = self.by_hash.find(lineage.own_hash, |&group| {
            let (other, past) = list[group as usize];
            other == set && past.own_hash == lineage.own_hash
        });
        if let Some(&group) = found {
            return Some(group);
        }
        if self.list.len() == GROUPS_MAX {
            return None;
        }
        let group = self.list.len() as u32;
        self.list.push((set, lineage));
        let list = &self.list;
        self.by_hash
            .insert_unique(lineage.own_hash, group, |&group| list[group as usize].1.own_hash);
        self.of_set[set as usize].get_or_insert(group);
        Some(group)
    }

    /// Builds the list for [`Fib::groups`].
    pub(super) fn next_hop_groups(
        &self,
        previous: &Fib,
        sets: &PathSets,
        next_hops: &[NextHop],
    ) -> Vec<NextHopGroup> {
        let before = GroupIdentityIndex::new(previous);
        let mut shared: Vec<Option<Arc<[_]>>> = vec![None; sets.distinct_lists.len()];
        let group = |&(set, lineage): &(u32, GroupIdentity)| {
            let list = sets.list_indices[set as usize] as usize;
            let members = shared[list].get_or_insert_with(|| {
                let member = |path: &RoutePath| (next_hop_id(next_hops, path.next_hop), path.weight);
                sets.distinct_lists[list].iter().map(member).collect()
            });
            NextHopGroup {
                members: Arc::clone(members),
                tag: sets.tags[set as usize],
                predecessor: before.predecessor_of_lineage(lineage),
            }
        };
        self.list.iter().map(group).collect()
    }
}
