//! The forwarding information base: an immutable generation that some source of routes builds.

mod build;
mod error;
mod groups;
mod lineage;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ipnet::IpNet;

pub(crate) use build::gcd;
pub use error::FibError;
use lineage::Lineage;
pub(super) use lineage::Lineages;

use super::lpm::Trie;
use crate::ids::{GroupId, InterfaceId, NextHopId};

/// Most routes of a [`Fib`].
pub const ROUTES_MAX: usize = 1 << 20;
/// Most next hops of a [`Fib`].
pub const NEXT_HOPS_MAX: usize = 1 << 16;
/// Most groups of a [`Fib`].
pub const GROUPS_MAX: usize = 1 << 12;
/// Most next hops of a route.
pub const MEMBERS_MAX: usize = 512;
/// Largest sum of the weights of a group, in lowest terms: 64 members of weight 256.
pub const WEIGHT_SUM_MAX: u32 = 1 << 14;

/// A neighbouring router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The interface behind which it is.
    pub interface: InterfaceId,
    /// Its address there.
    pub address: IpAddr,
}

/// A next hop as part of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// Where to.
    pub next_hop: NextHop,
    /// Its share relative to the route's other next hops, at least 1.
    pub weight: u16,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The switch itself has this address.
    Local,
    /// The network is behind this interface: every destination is its own next hop.
    Connected(InterfaceId),
    /// One or several routers; order has no meaning, and one that is there twice has the sum of its weights. IPv4
    /// prefixes may lead to IPv6 addresses (RFC 8950), not the other way round.
    Via(Vec<Path>),
    /// Nowhere: packets are dropped and counted.
    Blackhole,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Destinations; host bits are ignored.
    pub prefix: IpNet,
    /// Where to.
    pub target: Target,
    /// What load balancing is to know of it.
    pub tag: RouteTag,
}

/// What load balancing knows of a route. Routes with different tags share no group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteTag {
    /// Where its destinations are: all that is behind one leaf of a fabric is one site. 0: nothing is said.
    pub site: u16,
    /// How a group of its next hops chooses: an index into [`crate::config::BalancingConfig::schemes`]; `None`: by the rules there.
    pub scheme: Option<u16>,
}

/// What a look-up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// See [`Target::Local`].
    Local,
    /// See [`Target::Connected`].
    Connected(InterfaceId),
    /// One router.
    NextHop(NextHopId),
    /// Several.
    Group(GroupId),
    /// See [`Target::Blackhole`].
    Blackhole,
}

/// A group of equal-cost next hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its members, at least two, with their weights in lowest terms, in the order of next hop ids.
    pub members: Vec<(NextHopId, u16)>,
    /// The tag of its routes.
    pub tag: RouteTag,
    /// The group of the preceding generation whose flows it takes over.
    pub inherits: Option<GroupId>,
}

/// One generation of routes.
///
/// Ids of next hops and groups mean something in one generation only. Next hops are in the order of [`NextHop`], so the
/// same routes have the same ids, in whatever order they were given.
///
/// Routes with the same set of next hops share a group, unless their flows were spread by different groups before: with
/// resilient hashing ([`super::PathTable`]) a group's buckets depend on its past, and a route must not be handed to
/// buckets that would move flows of it without need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fib {
    /// In the order of address and length, IPv4 first; host bits are zero.
    routes: Vec<Route>,
    /// What each route's destinations find.
    entries: Vec<Entry>,
    next_hops: Vec<NextHop>,
    groups: Vec<Group>,
    /// The past of each group.
    lineages: Vec<Lineage>,
    v4: Trie<1>,
    v6: Trie<2>,
}

impl Fib {
    /// The first generation of these routes: its groups inherit nothing.
    pub fn build(routes: impl IntoIterator<Item = Route>) -> Result<Fib, FibError> {
        build::build(&Fib::default(), routes.into_iter().collect())
    }

    /// The generation that follows this one: its groups say which groups of this one carried their routes' flows.
    pub fn succeed(&self, routes: impl IntoIterator<Item = Route>) -> Result<Fib, FibError> {
        build::build(self, routes.into_iter().collect())
    }

    /// Where packets to `destination` go; `None`: no route.
    pub fn lookup(&self, destination: IpAddr) -> Option<Entry> {
        match destination {
            IpAddr::V4(address) => self.lookup_v4(address.to_bits()),
            IpAddr::V6(address) => self.lookup_v6(address.to_bits()),
        }
    }

    /// As [`Fib::lookup`], for an IPv4 address as a number.
    #[inline]
    pub fn lookup_v4(&self, destination: u32) -> Option<Entry> {
        self.find_v4(destination).entry()
    }

    /// As [`Fib::lookup`], for an IPv6 address as a number.
    #[inline]
    pub fn lookup_v6(&self, destination: u128) -> Option<Entry> {
        self.find_v6(destination).entry()
    }

    /// As [`Fib::lookup_v4`], of which only a part may be asked for.
    #[inline(always)]
    pub(crate) fn find_v4(&self, destination: u32) -> Leaf {
        Leaf(self.v4.find([u64::from(destination) << 32]))
    }

    /// As [`Fib::lookup_v6`], of which only a part may be asked for.
    #[inline(always)]
    pub(crate) fn find_v6(&self, destination: u128) -> Leaf {
        Leaf(self.v6.find([(destination >> 64) as u64, destination as u64]))
    }

    /// Every route with what its destinations find, IPv4 first, in the order of address and length; host bits are zero.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = (&Route, Entry)> {
        self.routes.iter().zip(self.entries.iter().copied())
    }

    /// Every next hop that some route has, once, in order.
    pub fn next_hops(&self) -> &[NextHop] {
        &self.next_hops
    }

    /// Every group that some route has.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Octets that the look-up structures occupy, for both families.
    pub fn lookup_bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }
}

/// Bits of a leaf below its kind.
const ID_BITS: u32 = 27;

/// What a look-up finds, as the tries keep it: an [`Entry`] or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf(u32);

/// What the routes of a switch say of a destination, looked up ahead of the packet: see
/// [`Switch::look_ahead`](crate::Switch::look_ahead).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteAhead(Leaf);

impl RouteAhead {
    /// Nothing has been looked up.
    pub const NONE: RouteAhead = RouteAhead(Leaf(u32::MAX));

    #[inline(always)]
    pub(crate) fn new(leaf: Leaf) -> RouteAhead {
        RouteAhead(leaf)
    }

    /// What was looked up; `None`: nothing was.
    #[inline(always)]
    pub(crate) fn leaf(self) -> Option<Leaf> {
        (self != RouteAhead::NONE).then_some(self.0)
    }
}

/// Kinds of leaves.
const LOCAL: u32 = 1;
const CONNECTED: u32 = 2;
const NEXT_HOP: u32 = 3;
const GROUP: u32 = 4;
const BLACKHOLE: u32 = 5;

impl Leaf {
    #[inline(always)]
    fn id(self) -> u32 {
        self.0 & ((1 << ID_BITS) - 1)
    }

    /// The group, if it is one.
    #[inline(always)]
    pub(crate) fn group(self) -> Option<GroupId> {
        (self.0 >> ID_BITS == GROUP).then_some(GroupId(self.id()))
    }

    /// The next hop, if it is one.
    #[inline(always)]
    pub(crate) fn next_hop(self) -> Option<NextHopId> {
        (self.0 >> ID_BITS == NEXT_HOP).then_some(NextHopId(self.id()))
    }

    /// The interface behind which the destination is, if it is.
    #[inline(always)]
    pub(crate) fn connected(self) -> Option<InterfaceId> {
        (self.0 >> ID_BITS == CONNECTED).then_some(InterfaceId(self.id() as u16))
    }

    /// Whatever it is; `None`: no route.
    #[inline]
    pub(crate) fn entry(self) -> Option<Entry> {
        match self.0 >> ID_BITS {
            LOCAL => Some(Entry::Local),
            CONNECTED => Some(Entry::Connected(InterfaceId(self.id() as u16))),
            NEXT_HOP => Some(Entry::NextHop(NextHopId(self.id()))),
            GROUP => Some(Entry::Group(GroupId(self.id()))),
            BLACKHOLE => Some(Entry::Blackhole),
            _ => None,
        }
    }
}

impl Entry {
    fn leaf(self) -> u32 {
        let (kind, id) = match self {
            Entry::Local => (LOCAL, 0),
            Entry::Connected(interface) => (CONNECTED, u32::from(interface.0)),
            Entry::NextHop(next_hop) => (NEXT_HOP, next_hop.0),
            Entry::Group(group) => (GROUP, group.0),
            Entry::Blackhole => (BLACKHOLE, 0),
        };
        kind << ID_BITS | id
    }
}

const _: () = assert!(NEXT_HOPS_MAX <= 1 << ID_BITS && GROUPS_MAX <= 1 << ID_BITS);
const _: () = assert!(7 << ID_BITS <= super::lpm::LEAF_MAX);
