//! What groups were before: names that hold over generations.
//!
//! A group's buckets, with resilient hashing, follow from its members and from the buckets of the group before it. So a
//! group is named by a hash of its members and of the name before it. Routes that went through the same changes have the
//! same name, and share a group, even if the changes reached them in different generations (a routing daemon hands on a
//! failure in batches). A name keeps its meaning if a generation is skipped.
//!
//! A collision of names costs nothing but flows that move without need.

use std::net::IpAddr;

use super::{Fib, Path, RouteTag};
use crate::ids::GroupId;

/// The name of a group, and the one of the group before the last change of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lineage {
    pub(super) own: u64,
    pub(super) parent: Option<u64>,
}

impl Lineage {
    /// A group of the members `set` without a past.
    pub(super) fn fresh(set: u64) -> Lineage {
        Lineage {
            own: set,
            parent: None,
        }
    }

    /// A group of the members `set` that takes over from the group `parent`.
    pub(super) fn after(parent: u64, set: u64) -> Lineage {
        Lineage {
            own: mix(parent, set),
            parent: Some(parent),
        }
    }
}

/// The groups of a generation by name.
pub(in crate::route) struct Lineages(Vec<(u64, GroupId)>);

impl Lineages {
    pub(in crate::route) fn of(fib: &Fib) -> Lineages {
        let mut names: Vec<_> = (0..)
            .zip(&fib.lineages)
            .map(|(group, lineage)| (lineage.own, GroupId(group)))
            .collect();
        names.sort_unstable();
        Lineages(names)
    }

    /// The group here whose flows go to the group `heir` of the generation `next`.
    pub(in crate::route) fn ancestor(&self, next: &Fib, heir: GroupId) -> Option<GroupId> {
        self.ancestor_of(next.lineages[heir.index()])
    }

    pub(super) fn ancestor_of(&self, heir: Lineage) -> Option<GroupId> {
        self.named(heir.own).or_else(|| self.named(heir.parent?))
    }

    fn named(&self, name: u64) -> Option<GroupId> {
        let at = self.0.partition_point(|&(other, _)| other < name);
        self.0
            .get(at)
            .filter(|&&(other, _)| other == name)
            .map(|&(_, group)| group)
    }
}

/// The name of a set of paths, which are in order, of routes with a tag. Where nothing is said of routes, names are of the paths alone.
pub(super) fn name_of(paths: &[Path], tag: RouteTag) -> u64 {
    let said = u64::from(tag.site) << 32 | tag.scheme.map_or(0, |scheme| u64::from(scheme) + 1) << 48;
    paths.iter().fold(paths.len() as u64 ^ said, |name, path| {
        let interface = u64::from(path.next_hop.interface.0);
        let (family, address) = match path.next_hop.address {
            IpAddr::V4(address) => (4, u128::from(address.to_bits())),
            IpAddr::V6(address) => (6, address.to_bits()),
        };
        let rest = u64::from(path.weight) << 32 | interface << 8 | family;
        mix(mix(mix(name, rest), address as u64), (address >> 64) as u64)
    })
}

/// A folded multiplication, as in the flow hash; the constants are digits of pi.
fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ 0x243f_6a88_85a3_08d3) * u128::from(word ^ 0x1319_8a2e_0370_7344);
    product as u64 ^ (product >> 64) as u64
}
