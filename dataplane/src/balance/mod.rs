//! Load balancing: selects the member of a group that a packet takes.
//!
//! A *group* is a set of equal-cost next hops or the set of ports of a LAG. A *member* is one of these next
//! hops or ports. The *scheme* of the group selects the member for each packet:
//!
//! | [`SchemeKind`](crate::config::SchemeKind) | selects for | by | state |
//! |---|---|---|---|
//! | `Hash` | a flow | its hash | none |
//! | `Flowlet` | a flow after a gap | quality, or at random | flow table |
//! | `PerPacket` | a packet | quality, or at random | none |
//! | `Fixed` | a new flow | quality | flow table |
//! | `RoundRobin` | a packet | weighted round robin | a counter for each member |
//! | `Drill` | a packet | the shortest of a few queues | the best members of the last packet |
//! | `Cluster` | a queue pair | the number of queue pairs of each member | table of queue pairs |
//! | `Custom` | defined by its implementation | | |
//!
//! In a group with static hashing by the five-tuple, the router itself selects the next hop
//! ([`crate::route::PathTable`]). Such a group has no scheme object.
//!
//! A scheme from outside xoff implements [`PathChoice`], as in `examples/load_balancer.rs`. Built-in schemes
//! implement the same trait. The switch calls built-in schemes through an enum, so they need no virtual call.
//!
//! [`PortLoads`] samples the quality of ports without timers. Each departing frame adds its bytes to the sum
//! of its port. The first access after the end of a sampling interval computes the averages. An idle switch
//! therefore needs no timer, and runs are reproducible on every machine.
//!
//! Switches send link quality messages to their neighbours. `advertise.rs` builds these messages, and
//! `remote.rs` stores the received messages. While a neighbour advertises that it has no path to the site of
//! a packet (the destination leaf), the member that leads to this neighbour is not usable. This rule applies
//! to every scheme.

mod advertise;
mod balancer;
mod cluster;
pub(crate) mod config;
mod exact_flow_table;
mod flow_map;
mod flow_table;
mod group;
mod hash;
mod load;
mod member;
mod member_order;
mod member_scores;
mod move_reason;
mod packet;
mod paths;
mod random;
mod remote;
mod reorder;
mod scheme;
mod selection_input;
mod site_paths;

pub(crate) use balancer::{LoadBalancer, PathDecision};
pub use group::{AnnounceResult, FlowMove, GroupKey, GroupView, MemberView};
pub use hash::seeded_hash;
pub use load::{BANDS, PortLoads, Quality};
pub use member::Member;
pub use move_reason::MoveReason;
pub(crate) use packet::queue_pair_key;
pub use packet::{Packet, QueuePair};
pub use paths::Paths;
pub use random::RandomStream;
pub use remote::RemoteAdvertisement;
pub(crate) use reorder::ReorderTracker;
pub use reorder::{ReorderCounts, ReorderingView, StreamView};
pub(crate) use scheme::cluster::QueuePairAnnouncement;
pub(crate) use selection_input::{LookupContext, MemberState};

/// Selects the member for each packet of a group. Each group has its own instance of the scheme. To keep
/// runs reproducible, an implementation must use only its arguments, and must take random numbers only
/// from [`Paths::random`].
pub trait PathChoice: core::fmt::Debug + Send {
    /// Returns the member for a packet. The member must be one of [`Paths::usable`], which is never
    /// empty here. If an implementation returns a member that is not usable, the switch uses the first
    /// usable member.
    fn choose(&mut self, packet: &Packet<'_>, paths: &mut Paths<'_>) -> MemberChoice;

    /// Informs the scheme that the members or the usable members have changed. `renumbered[old]` is the new
    /// index of a member, or `None` if the member was removed. Flows on the remaining members must keep
    /// their member.
    fn members_changed(&mut self, renumbered: &[Option<u16>], paths: &mut Paths<'_>);

    /// Returns the size and use of the flow table. Returns `None` if the scheme has no table (the default).
    fn flow_table_use(&self) -> Option<FlowTableUse> {
        None
    }
}

/// The member that a scheme has selected for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberChoice {
    /// Index of the member in [`Paths::members`].
    pub member: u16,
    /// The reason, if this packet placed or moved its flow. `None` if the flow stays on its member.
    pub placed: Option<FlowPlacement>,
}

impl MemberChoice {
    /// Creates the choice for a packet whose flow stays on its member. A scheme that stores no flows also
    /// returns this choice.
    #[inline]
    pub const fn unchanged(member: u16) -> MemberChoice {
        MemberChoice { member, placed: None }
    }
}

/// Reason of a placement or move of a flow, and the previous member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPlacement {
    /// Reason of the placement or move.
    pub reason: MoveReason,
    /// Index of the previous member of the flow. `None` if the flow had no member.
    pub from: Option<u16>,
}

/// Size and use of the flow table of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTableUse {
    /// Number of flows in the table now.
    pub flows: u32,
    /// Largest number of flows that fit into the table.
    pub flows_max: u32,
    /// Number of packets whose flow found no free entry in the flow table. The hash selected the member for
    /// these packets.
    pub overflow_packets: u64,
}
