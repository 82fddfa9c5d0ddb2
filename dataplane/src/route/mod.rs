//! Layer-3 forwarding: which way a packet goes, who is next, and how it is reached.

mod adjacency;
mod fib;
mod limit;
mod lpm;
mod neighbour;
pub(crate) mod packet;
mod paths;
mod rib;
mod router;
mod solicit;

pub(crate) use fib::gcd;
pub use fib::{
    Entry, Fib, FibError, GROUPS_MAX, Group, MEMBERS_MAX, NEXT_HOPS_MAX, NextHop, Path, ROUTES_MAX, Route,
    RouteAhead, RouteTag, Target, WEIGHT_SUM_MAX,
};
pub(crate) use neighbour::{Due, Held, NeighbourId};
pub use neighbour::{
    HELD_FRAMES_MAX, NeighbourEntry, NeighbourState, REACHABLE, RETRANSMIT, SOLICITATIONS_MAX,
};
pub use paths::{PathTable, RESILIENT_BUCKETS, seeded};
pub use rib::{DISTANCE_CONNECTED, DISTANCE_STATIC, Rib, Source};
pub(crate) use router::{Hop, Router};
pub(crate) use solicit::{Talk, read_arp, read_discovery};
