//! Small numbers with a meaning.

/// Priority groups per port, PFC priorities, and egress queues per port: eight of each.
pub use xoff_wire::PRIORITIES;
/// Traffic classes: SONiC's `tc` runs from 0 to 15.
pub const TRAFFIC_CLASSES: usize = 16;

/// A port of a switch: an index into [`crate::config::SwitchConfig::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

impl PortId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port or a LAG, as bridging and routing see it (SAI: a bridge port): port *n* is *n*, LAG *n* comes after all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalPort(pub u16);

impl LogicalPort {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A priority group of a port (ingress buffer accounting).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId(pub u16);

/// An egress queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u16);

macro_rules! per_port_of_eight {
    ($name:ident, $what:literal) => {
        impl $name {
            #[doc = concat!("The ", $what, " of `port` with number `number` (0 to 7).")]
            pub const fn new(port: PortId, number: u8) -> $name {
                $name(port.0 * PRIORITIES as u16 + number as u16)
            }
            #[doc = concat!("The port of this ", $what, ".")]
            pub const fn port(self) -> PortId {
                PortId(self.0 / PRIORITIES as u16)
            }
            #[doc = concat!("The number of this ", $what, " on its port, 0 to 7.")]
            pub const fn number(self) -> u8 {
                (self.0 % PRIORITIES as u16) as u8
            }
            /// As an index over all ports.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
per_port_of_eight!(PgId, "priority group");
per_port_of_eight!(QueueId, "queue");

/// A router interface: an index into [`crate::config::RoutingConfig::interfaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A next hop of a [`crate::route::Fib`]: an index into [`crate::route::Fib::next_hops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A group of equal-cost next hops of a [`crate::route::Fib`]: an index into [`crate::route::Fib::groups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A deadline the core has asked for. It comes back to [`crate::Switch::expire`] as it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);
