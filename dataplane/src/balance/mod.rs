//! Load balancing: which member of a group a packet takes.
//!
//! A *group* is a set of equal-cost next hops or the members of a LAG. What decides is its *scheme*:
//!
//! | [`SchemeKind`](crate::config::SchemeKind) | decides for | by | state |
//! |---|---|---|---|
//! | `Hash` | a flow | its hash | none |
//! | `Flowlet` | a flow that was silent | quality, or at random | flow table |
//! | `PerPacket` | a packet | quality, or at random | none |
//! | `Fixed` | a new flow | quality | flow table |
//! | `RoundRobin` | a packet | whose turn it is | a counter for each member |
//! | `Drill` | a packet | the shortest of some queues | the best members of the last time |
//! | `Cluster` | a queue pair | how many each member has | table of queue pairs |
//! | `Own` | whatever it likes | | |
//!
//! Static hashing by the five-tuple is no scheme here: it is what the router does by itself ([`crate::route::PathTable`]).
//!
//! Whoever wants another scheme implements [`PathChoice`] (`examples/own-load-balancing/`). Built-in ones implement it too, but are
//! reached through an enum, so that a packet costs no indirect call.
//!
//! Quality is measured lazily ([`Loads`]): a departure adds to its port's sum, and whoever asks first after a sampling
//! interval has ended closes it. So an idle switch has no timers running, and runs are the same on every machine.
//!
//! Switches tell each other of the links beyond: what is told and when is in `advertise.rs`, what is heard in `remote.rs`.
//! Members whose switch has no way to where a packet goes are not usable, whatever the scheme.

mod advertise;
mod board;
mod cluster;
mod flow_map;
mod flowset;
mod group;
mod hash;
mod load;
mod order;
mod packet;
mod paths;
mod places;
mod random;
mod remote;
mod reorder;
mod scheme;
mod table;

pub use group::{Announced, GroupView, MemberView, Move, MoveReason, Whose};
pub use load::{BANDS, Loads, Quality};
pub(crate) use packet::pair_key;
pub use packet::{Packet, QueuePair};
pub use paths::{Member, Paths};
pub use random::Random;
pub use remote::RemoteWord;
pub(crate) use reorder::Reordering;
pub use reorder::{ReorderCounts, ReorderingView, StreamView};
pub(crate) use scheme::cluster::Announcement;
pub(crate) use table::{Asked, Balance, Lead, Said};

/// Chooses the path of each packet of one group. One value serves one group.
///
/// It sees nothing of the world but its arguments, and draws only from [`Paths::random`]: so runs repeat.
pub trait PathChoice: core::fmt::Debug + Send {
    /// The member that a packet takes: one of [`Paths::usable`], which has at least one. A choice of another one counts as one of
    /// the first.
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> Choice;

    /// Members have changed: `renumbered` has, for each member of before, what it is now, or `None` if it is no longer
    /// there. Also called, with every member in its place, when the usable ones change. Flows of members that stay are to stay.
    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>);

    /// How many flows it has a place for, and how many it knows, if it has a table.
    fn table(&self) -> Option<TableUse> {
        None
    }
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the member.
    pub member: u16,
    /// Set if the packet's flow was placed or moved by this packet.
    pub placed: Option<Placed>,
}

impl Choice {
    /// The member, as it was for this flow, or without a notion of flows.
    #[inline]
    pub const fn stay(member: u16) -> Choice {
        Choice { member, placed: None }
    }
}

/// Why a flow was placed, and where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Why.
    pub reason: MoveReason,
    /// The member it was on before.
    pub from: Option<u16>,
}

/// How full a table of flows is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableUse {
    /// Flows known.
    pub flows: u32,
    /// Most flows that can be known.
    pub flows_max: u32,
    /// Flows that found no place, and were hashed instead, packets of them counted.
    pub overflow_packets: u64,
}
