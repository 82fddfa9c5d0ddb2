//! Configuration of router interfaces, routes and neighbours.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::fib::Fib;
use crate::ids::InterfaceId;

/// Layer 3 configuration of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingConfig {
    /// Router interfaces. An [`InterfaceId`] is an index in this list.
    pub interfaces: Vec<InterfaceConfig>,
    /// All routes, prepared for look-ups. The local and connected routes of the interfaces are included.
    pub fib: Arc<Fib>,
    /// Seed of the hash that selects equal-cost next hops and LAG members (`XOFF_SWITCH.hash_seed`). If two
    /// switches have the same seed, they select the same member for a flow, which leads to uneven load
    /// (hash polarisation).
    pub hash_seed: u64,
    /// Number of hash buckets of a resilient group (`XOFF_SWITCH.resilient_buckets`), at least 1. A change of
    /// members then moves only the flows of affected buckets. With `None`, hashing is not resilient, and a
    /// change may move any flow.
    pub resilient_buckets: Option<u16>,
    /// Largest number of neighbours (`XOFF_SWITCH.neighbours`), including static neighbours.
    pub neighbours_max: usize,
    /// Largest number of frames that wait for the link address of one
    /// neighbour (`XOFF_SWITCH.neighbour_hold`).
    pub hold_frames: usize,
    /// Neighbours with a configured MAC address (`NEIGH`).
    pub neighbours: Vec<StaticNeighbour>,
    /// Largest rate of ICMP errors of all kinds, in errors per second (`XOFF_SWITCH.icmp_rate`). This number
    /// is also the largest burst.
    pub icmp_errors_per_second: u32,
}

impl Default for RoutingConfig {
    fn default() -> RoutingConfig {
        RoutingConfig {
            interfaces: Vec::new(),
            fib: Arc::new(Fib::default()),
            hash_seed: 0,
            resilient_buckets: None,
            neighbours_max: 4_096,
            hold_frames: 16,
            neighbours: Vec::new(),
            icmp_errors_per_second: 100,
        }
    }
}

/// A router interface (`INTERFACE`, `VLAN_INTERFACE`, `PORTCHANNEL_INTERFACE`, `LOOPBACK_INTERFACE`). Two
/// interfaces have different ports, LAGs and VLANs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Name of the interface, such as `Ethernet0`, `Vlan100` or `Loopback0`.
    pub name: String,
    /// The port, LAG or VLAN of the interface.
    pub attachment: InterfaceAttachment,
    /// MAC address of the interface, for frames to and from the router. The address must not be a
    /// group address.
    pub mac: [u8; 6],
    /// Longest IP packet that the interface sends and receives, in bytes, 68 to 9216.
    pub mtu: u32,
    /// IP addresses of the interface with their prefix lengths. IPv6 link-local addresses are included.
    pub addresses: Vec<IpNet>,
}

/// The port, LAG or VLAN of a router interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceAttachment {
    /// A port, by its index in [`SwitchConfig::ports`](super::SwitchConfig::ports). The port does not bridge.
    Port(u16),
    /// A LAG, by its index in [`SwitchConfig::lags`](super::SwitchConfig::lags). The LAG does not bridge.
    Lag(u16),
    /// A VLAN, by its id. The ports of the VLAN bridge, and reach the router through its MAC address.
    Vlan(u16),
    /// A loopback interface, whose addresses are always reachable.
    Loopback,
}

/// A neighbour with a configured MAC address (`NEIGH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// The router interface behind which the neighbour is.
    pub interface: InterfaceId,
    /// IP address of the neighbour.
    pub address: IpAddr,
    /// MAC address of the neighbour, which is not a group address.
    pub mac: [u8; 6],
}
