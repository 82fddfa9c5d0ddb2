//! Layer-3 forwarding: which way a packet goes, who is next, and how it is reached.

mod fib;
mod limit;
mod neighbour;
pub(crate) mod packet;
mod paths;
mod router;
mod solicit;

pub use fib::{Entry, Fib, FibError, Group, NextHop, Path, Route, Target};
pub(crate) use neighbour::{Due, Held, NeighbourId};
pub use neighbour::{NeighbourEntry, NeighbourState, REACHABLE, RETRANSMIT, SOLICITATIONS_MAX};
pub use paths::seeded;
pub(crate) use router::{Hop, Router};
pub(crate) use solicit::{Talk, read_arp, read_discovery};
