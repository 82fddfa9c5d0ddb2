//! Indices of ports, queues, priority groups, interfaces, next hops and timers.

/// Number of priority groups, PFC priorities and egress queues of a port.
pub use xoff_wire::PRIORITIES;
/// Number of traffic classes. The `tc` of SONiC is 0 to 15.
pub const TRAFFIC_CLASSES: usize = 16;

/// Traffic class, priority group and queue of RoCE frames in most configurations. Only fetching ahead uses this number.
pub(crate) const ROCE_CLASS: usize = 3;

/// A port of a switch: an index in [`crate::config::SwitchConfig::ports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

impl PortId {
    /// Returns the value as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A logical port: a port or a LAG, as bridging and routing use it (SAI: bridge port). Port *n* has number
/// *n*. LAG *n* has the number of ports plus *n*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalPort(pub u16);

impl LogicalPort {
    /// Returns the value as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A priority group of a port. Its number is `port * 8 + group`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId(pub u16);

/// An egress queue of a port. Its number is `port * 8 + queue`.
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
            /// Returns the value as an array index, over all ports.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
per_port_of_eight!(PgId, "priority group");
per_port_of_eight!(QueueId, "queue");

/// A router interface: an index in [`crate::config::RoutingConfig::interfaces`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u16);

impl InterfaceId {
    /// Returns the value as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A next hop of a [`crate::route::Fib`]: an index in [`crate::route::Fib::next_hops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// Returns the value as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A next-hop group of a [`crate::route::Fib`]: an index in [`crate::route::Fib::groups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// Returns the value as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A timer of the switch. When a deadline is due, the driver passes its timer to [`crate::Switch::expire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);
