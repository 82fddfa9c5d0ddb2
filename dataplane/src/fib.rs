//! The forwarding information base (FIB): one generation of routes, which never changes.

mod build;
mod error;
mod group_history;
mod groups;
mod lpm;
mod path_sets;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

pub use error::FibError;
use group_history::GroupIdentity;
pub(super) use group_history::GroupIdentityIndex;
pub(crate) use path_sets::gcd;

use crate::ids::{GroupId, InterfaceId, NextHopId};
use lpm::LpmTrie;

/// Largest number of routes of a [`Fib`], 2^20.
pub const ROUTES_MAX: usize = 1 << 20;
/// Largest number of next hops of a [`Fib`], 2^16.
pub const NEXT_HOPS_MAX: usize = 1 << 16;
/// Largest number of groups of a [`Fib`], 4096.
pub const GROUPS_MAX: usize = 1 << 12;
/// Largest number of next hops of a route.
pub const MEMBERS_MAX: usize = 512;
/// Largest sum of the weights of a group, after division by their greatest common divisor. For example, 64
/// members can each have weight 256.
pub const WEIGHT_SUM_MAX: u32 = 1 << 14;

/// A neighbouring router to which packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// Router interface through which the neighbouring router is reached.
    pub interface: InterfaceId,
    /// IP address of the neighbouring router on this interface.
    pub address: IpAddr,
}

/// A next hop of a route with its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutePath {
    /// The neighbouring router.
    pub next_hop: NextHop,
    /// Weight relative to the other next hops of the route, at least 1.
    pub weight: u16,
}

/// Destination of the packets that a route matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteTarget {
    /// The switch itself owns this address, and receives the packets.
    Local,
    /// The network is connected to this interface. The destination address of each packet is its next hop.
    Connected(InterfaceId),
    /// One or more next hops, in any order. If a next hop occurs twice, its weights are added. IPv4 prefixes
    /// may have IPv6 next hops (RFC 8950). IPv6 prefixes may not have IPv4 next hops. Routes with the same next hops
    /// can share the list.
    Via(Arc<[RoutePath]>),
    /// Packets are dropped and counted ([`BlackholeRoute`](crate::DropReason::BlackholeRoute)).
    Blackhole,
}

/// A route from a prefix to its target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Destination prefix. Host bits are ignored.
    pub prefix: IpNet,
    /// Destination of the packets that the route matches.
    pub target: RouteTarget,
    /// Site and load-balancing scheme of the route. Routes with different tags do not share a group.
    pub tag: RouteTag,
}

/// Site and load-balancing scheme of a route. Routes with different tags do not share a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteTag {
    /// Number of the site to which the route leads. A site consists of all destinations behind one leaf of a
    /// fabric. 0 means that the route has no site.
    pub site: u16,
    /// Scheme of the group: an index in [`crate::config::BalancingConfig::schemes`]. With `None`, the group
    /// uses the scheme of its members or the default scheme of the switch.
    pub scheme: Option<u16>,
}

/// Result of a look-up in a [`Fib`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FibEntry {
    /// The switch itself owns the address ([`RouteTarget::Local`]).
    Local,
    /// The network is connected to this interface ([`RouteTarget::Connected`]).
    Connected(InterfaceId),
    /// The route has a single next hop: an index in [`Fib::next_hops`].
    NextHop(NextHopId),
    /// The route has several next hops, which form a group: an index in [`Fib::groups`].
    Group(GroupId),
    /// Packets are dropped ([`RouteTarget::Blackhole`]).
    Blackhole,
}

/// A group of equal-cost next hops, which one or more routes use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopGroup {
    /// At least two members with their weights, in the order of next hop ids. The weights have no
    /// common divisor. Groups with the same members share the list.
    pub members: Arc<[(NextHopId, u16)]>,
    /// Tag of the routes of the group.
    pub tag: RouteTag,
    /// The group in the previous version (generation) of the routes from which this group takes over the
    /// flows. `None` if there is no such group.
    pub predecessor: Option<GroupId>,
}

/// One generation of routes.
///
/// The ids of next hops and groups are valid in one version (generation) of the routes only. Next hops are
/// sorted, so their ids do not depend on the order in which routes were inserted.
///
/// Routes with equal sets of next hops share a group. There is one exception: routes whose flows were in
/// different groups before may get different groups. With resilient hashing
/// ([`PathTable`](crate::route::PathTable)), the assignment of hash values to next hops depends on the
/// history of a group. A route does not join a group if this would move flows of the route unnecessarily.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fib {
    /// Sorted by address and length, IPv4 first. Host bits are zero.
    routes: Vec<Route>,
    /// Look-up result of each route.
    entries: Vec<FibEntry>,
    next_hops: Vec<NextHop>,
    groups: Vec<NextHopGroup>,
    /// History of each group.
    lineages: Vec<GroupIdentity>,
    v4: LpmTrie<1>,
    v6: LpmTrie<2>,
}

impl Fib {
    /// Builds a first generation of routes. Its groups have no predecessor.
    ///
    /// # Errors
    /// Returns the first rule of [`FibError`] that the routes violate.
    pub fn build(routes: impl IntoIterator<Item = Route>) -> Result<Fib, FibError> {
        build::build(&Fib::default(), routes.into_iter().collect())
    }

    /// Builds the next version (generation) of the routes. Each group of the next version refers to the group
    /// of this version that had the same flows ([`NextHopGroup::predecessor`]).
    ///
    /// # Errors
    /// Returns the first rule of [`FibError`] that the routes violate.
    pub fn build_successor(&self, routes: impl IntoIterator<Item = Route>) -> Result<Fib, FibError> {
        build::build(self, routes.into_iter().collect())
    }

    /// Returns the entry of the longest prefix that contains `destination`. Returns `None` if no
    /// route matches.
    pub fn lookup(&self, destination: IpAddr) -> Option<FibEntry> {
        match destination {
            IpAddr::V4(address) => self.lookup_v4(address.to_bits()),
            IpAddr::V6(address) => self.lookup_v6(address.to_bits()),
        }
    }

    /// Like [`Fib::lookup`], but for an IPv4 address as a number: 10.0.0.1 is `0x0a000001`.
    #[inline]
    pub fn lookup_v4(&self, destination: u32) -> Option<FibEntry> {
        self.find_leaf_v4(destination).entry()
    }

    /// Like [`Fib::lookup`], but for an IPv6 address as a number.
    #[inline]
    pub fn lookup_v6(&self, destination: u128) -> Option<FibEntry> {
        self.find_leaf_v6(destination).entry()
    }

    /// Like [`Fib::lookup_v4`], without decoding the result.
    #[inline(always)]
    pub(crate) fn find_leaf_v4(&self, destination: u32) -> FibLeaf {
        FibLeaf(self.v4.find([u64::from(destination) << 32]))
    }

    /// Like [`Fib::lookup_v6`], without decoding the result.
    #[inline(always)]
    pub(crate) fn find_leaf_v6(&self, destination: u128) -> FibLeaf {
        FibLeaf(self.v6.find([(destination >> 64) as u64, destination as u64]))
    }

    /// Returns all routes with their look-up results. IPv4 routes come first, and routes are sorted by
    /// address and prefix length. Host bits are zero.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = (&Route, FibEntry)> {
        self.routes.iter().zip(self.entries.iter().copied())
    }

    /// Returns all next hops, sorted and without duplicates. A [`NextHopId`] is an index in this list.
    pub fn next_hops(&self) -> &[NextHop] {
        &self.next_hops
    }

    /// Returns all groups. A [`GroupId`] is an index in this list.
    pub fn groups(&self) -> &[NextHopGroup] {
        &self.groups
    }

    /// Returns the memory of the look-up structures (tries) of both IP versions, in bytes.
    pub fn lookup_memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes()
    }
}

/// Number of bits of a leaf below its kind.
const ID_BITS: u32 = 27;

/// Encoded look-up result: a [`FibEntry`], or 0 for no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FibLeaf(u32);

/// Result of an early route look-up ([`Switch::lookup_route_hint`](crate::Switch::lookup_route_hint)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteHint(FibLeaf);

impl RouteHint {
    /// The hint of a packet without an early look-up.
    pub const NONE: RouteHint = RouteHint(FibLeaf(u32::MAX));

    /// Stores the result of a look-up.
    #[inline(always)]
    pub(crate) fn new(leaf: FibLeaf) -> RouteHint {
        RouteHint(leaf)
    }

    /// Returns the result. Returns `None` if no look-up was made.
    #[inline(always)]
    pub(crate) fn leaf(self) -> Option<FibLeaf> {
        (self != RouteHint::NONE).then_some(self.0)
    }
}

/// Kind of a leaf for a local address.
const LOCAL: u32 = 1;
/// Kind of a leaf for a connected network.
const CONNECTED: u32 = 2;
/// Kind of a leaf for a single next hop.
const NEXT_HOP: u32 = 3;
/// Kind of a leaf for a group.
const GROUP: u32 = 4;
/// Kind of a leaf for a blackhole route.
const BLACKHOLE: u32 = 5;

impl FibLeaf {
    #[inline(always)]
    fn id(self) -> u32 {
        self.0 & ((1 << ID_BITS) - 1)
    }

    /// Returns the group. Returns `None` if the leaf is of another kind.
    #[inline(always)]
    pub(crate) fn group(self) -> Option<GroupId> {
        (self.0 >> ID_BITS == GROUP).then_some(GroupId(self.id()))
    }

    /// Returns the next hop. Returns `None` if the leaf is not a single next hop.
    #[inline(always)]
    pub(crate) fn next_hop(self) -> Option<NextHopId> {
        (self.0 >> ID_BITS == NEXT_HOP).then_some(NextHopId(self.id()))
    }

    /// Returns the interface. Returns `None` if the leaf is not a connected network.
    #[inline(always)]
    pub(crate) fn connected(self) -> Option<InterfaceId> {
        (self.0 >> ID_BITS == CONNECTED).then_some(InterfaceId(self.id() as u16))
    }

    /// Decodes the leaf. Returns `None` if no route matched.
    #[inline]
    pub(crate) fn entry(self) -> Option<FibEntry> {
        match self.0 >> ID_BITS {
            LOCAL => Some(FibEntry::Local),
            CONNECTED => Some(FibEntry::Connected(InterfaceId(self.id() as u16))),
            NEXT_HOP => Some(FibEntry::NextHop(NextHopId(self.id()))),
            GROUP => Some(FibEntry::Group(GroupId(self.id()))),
            BLACKHOLE => Some(FibEntry::Blackhole),
            _ => None,
        }
    }
}

impl FibEntry {
    /// Encodes the entry.
    fn leaf(self) -> u32 {
        let (kind, id) = match self {
            FibEntry::Local => (LOCAL, 0),
            FibEntry::Connected(interface) => (CONNECTED, u32::from(interface.0)),
            FibEntry::NextHop(next_hop) => (NEXT_HOP, next_hop.0),
            FibEntry::Group(group) => (GROUP, group.0),
            FibEntry::Blackhole => (BLACKHOLE, 0),
        };
        kind << ID_BITS | id
    }
}

const _: () = assert!(NEXT_HOPS_MAX <= 1 << ID_BITS && GROUPS_MAX <= 1 << ID_BITS);
const _: () = assert!(7 << ID_BITS <= lpm::LEAF_MAX);
