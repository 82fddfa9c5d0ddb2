//! The forwarding information base: an immutable generation that some source of routes builds.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::ids::{GroupId, InterfaceId, NextHopId};

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
    /// One or several routers; order has no meaning.
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
    /// Its members with their weights, in the order of next hop ids.
    pub members: Vec<(NextHopId, u16)>,
    /// The group of the preceding generation whose flows it takes over.
    pub inherits: Option<GroupId>,
}

/// Why routes cannot be built into a [`Fib`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FibError {}

/// One generation of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fib {
    routes: Vec<Route>,
    next_hops: Vec<NextHop>,
    groups: Vec<Group>,
}

impl Fib {
    pub(crate) fn lookup_v4(&self, _: u32) -> Option<Entry> {
        None
    }
    pub(crate) fn lookup_v6(&self, _: u128) -> Option<Entry> {
        None
    }
    /// Every next hop that some route has, once.
    pub fn next_hops(&self) -> &[NextHop] {
        &self.next_hops
    }

    /// Every group that some route has.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
}
