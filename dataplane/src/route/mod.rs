//! Layer-3 forwarding: routes, next hops, and the link addresses of neighbours.

mod adjacency;
pub(crate) mod ip_header;
mod neighbour;
mod on_link_cache;
mod path_table;
mod rate_limit;
mod rib;
mod router;

pub use crate::balance::seeded_hash;
pub use crate::fib::{
    Fib, FibEntry, FibError, GROUPS_MAX, MEMBERS_MAX, NEXT_HOPS_MAX, NextHop, NextHopGroup, ROUTES_MAX,
    Route, RouteHint, RoutePath, RouteTag, RouteTarget, WEIGHT_SUM_MAX,
};
pub use neighbour::{
    HELD_FRAMES_MAX, NeighbourEntry, NeighbourState, REACHABLE_TIME, RETRANSMIT_INTERVAL, SOLICITATIONS_MAX,
};
pub(crate) use neighbour::{HeldFrame, NeighbourAction, NeighbourId};
pub use path_table::{PathTable, RESILIENT_BUCKETS};
pub use rib::{DISTANCE_CONNECTED, DISTANCE_STATIC, Rib, RouteSource};
pub(crate) use router::{ResolvedHop, Router};
