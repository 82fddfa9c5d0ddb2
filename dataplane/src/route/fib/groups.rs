//! Which group a route has: its set of next hops, and where its flows come from.
//!
//! | the route led before to | and leads now to | its group |
//! |---|---|---|
//! | several next hops | the same ones | the one it had |
//! | several | others, at least one of which is the same | one that takes over from the one it had |
//! | several | all others | any with these members: every flow moves |
//! | one, or none, or it is new | several | any with these members |
//!
//! The last line moves no flow without need either: all flows were on one next hop, or nowhere, and in any group of
//! these members that next hop keeps exactly its share of them.

use hashbrown::HashTable;

use super::build::{Sets, id_of};
use super::lineage::{Lineage, Lineages, name_of};
use super::{Entry, Fib, GROUPS_MAX, Group, NextHop, Path, Route};

/// For each route that leads via several next hops: the lineage of its group, if it has a past.
pub(super) fn pasts(previous: &Fib, routes: &[Route], sets: &Sets) -> Vec<Option<Lineage>> {
    let before: Vec<_> = previous
        .groups
        .iter()
        .map(|group| Before::of(previous, group, sets))
        .collect();
    let mut known = previous.routes.iter().zip(&previous.entries).peekable();
    let mut pasts = Vec::with_capacity(routes.len());
    for (route, set) in routes.iter().zip(&sets.of_route) {
        while known.next_if(|(other, _)| other.prefix < route.prefix).is_some() {}
        let entry = known.next_if(|(other, _)| other.prefix == route.prefix);
        let past = match (set, entry) {
            (Some(set), Some((_, Entry::Group(group)))) => {
                let lineage = previous.lineages[group.index()];
                let before = &before[group.index()];
                if before.set == Some(*set) {
                    Some(lineage)
                } else if before.overlaps(&sets.list[*set as usize]) {
                    Some(Lineage::after(lineage.own, sets.names[*set as usize]))
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

/// A group of the preceding generation.
struct Before {
    /// The set of this generation that has the same paths.
    set: Option<u32>,
    paths: Vec<Path>,
}

impl Before {
    fn of(previous: &Fib, group: &Group, sets: &Sets) -> Before {
        let paths: Vec<_> = group
            .members
            .iter()
            .map(|&(id, weight)| Path {
                next_hop: previous.next_hops[id.index()],
                weight,
            })
            .collect();
        Before {
            set: sets.find(name_of(&paths, group.tag), &paths, group.tag),
            paths,
        }
    }

    /// Whether some next hop is in both; both are in order.
    fn overlaps(&self, paths: &[Path]) -> bool {
        let mut ours = self.paths.iter().map(|path| path.next_hop).peekable();
        paths.iter().any(|path| {
            while ours.next_if(|our| *our < path.next_hop).is_some() {}
            ours.peek() == Some(&path.next_hop)
        })
    }
}

/// The groups of a generation.
pub(super) struct Groups {
    /// Set and lineage of each.
    pub(super) list: Vec<(u32, Lineage)>,
    by_name: HashTable<u32>,
    /// The first group of each set.
    of_set: Vec<Option<u32>>,
    /// For each route that leads via several next hops, its group.
    pub(super) of_route: Vec<Option<u32>>,
}

impl Groups {
    /// `alike`: routes with the same set share a group whatever their past. Fails with the route that has one group too
    /// many.
    pub(super) fn assign(sets: &Sets, pasts: &[Option<Lineage>], alike: bool) -> Result<Groups, usize> {
        let mut groups = Groups {
            list: Vec::new(),
            by_name: HashTable::new(),
            of_set: vec![None; sets.list.len()],
            of_route: vec![None; pasts.len()],
        };
        let several = |route: usize| sets.of_route[route].filter(|&set| sets.list[set as usize].len() > 1);
        for (route, past) in pasts.iter().enumerate() {
            if let (Some(set), Some(lineage)) = (several(route), past) {
                let group = match groups.of_set[set as usize] {
                    Some(group) if alike => group,
                    _ => groups.intern(set, *lineage).ok_or(route)?,
                };
                groups.of_route[route] = Some(group);
            }
        }
        for (route, past) in pasts.iter().enumerate() {
            if let (Some(set), None) = (several(route), past) {
                let group = match groups.of_set[set as usize] {
                    Some(group) => group,
                    None => groups
                        .intern(set, Lineage::fresh(sets.names[set as usize]))
                        .ok_or(route)?,
                };
                groups.of_route[route] = Some(group);
            }
        }
        Ok(groups)
    }

    /// The group with this set and lineage; `None` if there is no room for it.
    fn intern(&mut self, set: u32, lineage: Lineage) -> Option<u32> {
        let list = &self.list;
        let found = self.by_name.find(lineage.own, |&group| {
            let (other, past) = list[group as usize];
            other == set && past.own == lineage.own
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
        self.by_name
            .insert_unique(lineage.own, group, |&group| list[group as usize].1.own);
        self.of_set[set as usize].get_or_insert(group);
        Some(group)
    }

    /// The groups as the generation shows them.
    pub(super) fn describe(&self, previous: &Fib, sets: &Sets, next_hops: &[NextHop]) -> Vec<Group> {
        let before = Lineages::of(previous);
        let group = |&(set, lineage): &(u32, Lineage)| Group {
            members: sets.list[set as usize]
                .iter()
                .map(|path| (id_of(next_hops, path.next_hop), path.weight))
                .collect(),
            tag: sets.tags[set as usize],
            inherits: before.ancestor_of(lineage),
        };
        self.list.iter().map(group).collect()
    }
}
