//! The history of groups, stored as hashes that remain valid across generations of routes.
//!
//! With resilient hashing, the hash buckets of a group depend on its members and on the buckets of its
//! predecessor, the group before the last change. The identity of a group is therefore a hash of its members
//! and of the identity of its predecessor. Routes with equal histories have equal hashes and share a group,
//! even if their changes happen in different versions (generations) of the routes. An example is a routing
//! daemon that reports a failure in batches. The hashes remain valid if a version is skipped.
//!
//! If two hashes are equal by chance, the only effect is that some flows move unnecessarily.

use std::net::IpAddr;

use super::{Fib, RoutePath, RouteTag};
use crate::ids::GroupId;

/// The identity of a group (a hash), and its identity before the last change of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupIdentity {
    pub(super) own_hash: u64,
    pub(super) parent_hash: Option<u64>,
}

impl GroupIdentity {
    /// Returns the lineage of a group without a predecessor. `set_hash` is the hash of its members.
    pub(super) fn without_predecessor(set_hash: u64) -> GroupIdentity {
        GroupIdentity {
            own_hash: set_hash,
            parent_hash: None,
        }
    }

    /// Returns the lineage of a group that takes over the flows of the group `parent_hash`. `set_hash` is the
    /// hash of its members.
    pub(super) fn with_predecessor(parent_hash: u64, set_hash: u64) -> GroupIdentity {
        GroupIdentity {
            own_hash: multiply_and_fold(parent_hash, set_hash),
            parent_hash: Some(parent_hash),
        }
    }
}

/// The groups of a generation, sorted by their hashes.
pub(crate) struct GroupIdentityIndex(Vec<(u64, GroupId)>);

impl GroupIdentityIndex {
    /// Builds the index of a generation.
    pub(crate) fn new(fib: &Fib) -> GroupIdentityIndex {
        let mut hashes: Vec<_> = (0..)
            .zip(&fib.lineages)
            .map(|(group, lineage)| (lineage.own_hash, GroupId(group)))
            .collect();
        hashes.sort_unstable();
        GroupIdentityIndex(hashes)
    }

    /// Returns the predecessor of `heir`, which is a group in the next version `next` of the routes. The
    /// predecessor is the group in this version from which `heir` takes over the flows. Returns `None` if
    /// there is no predecessor.
    pub(crate) fn predecessor_of_group(&self, next: &Fib, heir: GroupId) -> Option<GroupId> {
        self.predecessor_of_lineage(next.lineages[heir.index()])
    }

    /// Returns the group in this version of the routes that has the same hash. If there is none, returns the
    /// group whose hash is the parent hash.
    pub(super) fn predecessor_of_lineage(&self, heir: GroupIdentity) -> Option<GroupId> {
        self.find_group(heir.own_hash)
            .or_else(|| self.find_group(heir.parent_hash?))
    }

    /// Returns the group with this hash, or `None`.
    fn find_group(&self, hash: u64) -> Option<GroupId> {
        let at = self.0.partition_point(|&(other, _)| other < hash);
        self.0
            .get(at)
            .filter(|&&(other, _)| other == hash)
            .map(|&(_, group)| group)
    }
}

/// Returns the hash of a list of next hops.
pub(super) fn path_list_hash(paths: &[RoutePath]) -> u64 {
    paths.iter().fold(paths.len() as u64, |hash, path| {
        let interface = u64::from(path.next_hop.interface.0);
        let (family, address) = match path.next_hop.address {
            IpAddr::V4(address) => (4, u128::from(address.to_bits())),
            IpAddr::V6(address) => (6, address.to_bits()),
        };
        let rest = u64::from(path.weight) << 32 | interface << 8 | family;
        multiply_and_fold(
            multiply_and_fold(multiply_and_fold(hash, rest), address as u64),
            (address >> 64) as u64,
        )
    })
}

/// Returns the hash of a set of next hops: a list with the hash `list_hash`, and a tag. An empty tag does not change
/// the hash.
pub(super) fn path_set_hash(list_hash: u64, tag: RouteTag) -> u64 {
    let tag = u64::from(tag.site) << 32 | tag.scheme.map_or(0, |scheme| u64::from(scheme) + 1) << 48;
    match tag {
        0 => list_hash,
        tag => multiply_and_fold(list_hash, tag),
    }
}

/// Multiplies two values and folds the product, as the flow hash does. The constants are digits of pi.
fn multiply_and_fold(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ 0x243f_6a88_85a3_08d3) * u128::from(word ^ 0x1319_8a2e_0370_7344);
    product as u64 ^ (product >> 64) as u64
}
