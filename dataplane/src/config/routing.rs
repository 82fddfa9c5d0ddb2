//! Router interfaces, routes and neighbours.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::ids::InterfaceId;
use crate::route::Fib;

/// Layer 3 of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingConfig {
    /// Router interfaces; an [`InterfaceId`] is an index here.
    pub interfaces: Vec<InterfaceConfig>,
    /// Routes of all kinds, ready to be looked up. Local and connected routes of the interfaces are among them.
    pub fib: Arc<Fib>,
    /// Seed of the choice among equal-cost next hops and members of a LAG: switches with the same seed choose alike
    /// (hash polarisation).
    pub hash_seed: u64,
    /// Buckets of a group whose flows stay where they are when other members come and go; `None`: plain hashing, where
    /// a change moves any flow.
    pub resilient_buckets: Option<u16>,
    /// Most neighbours known at once, static ones included.
    pub neighbours_max: usize,
    /// Most frames that wait for one neighbour to be resolved.
    pub hold_frames: usize,
    /// Neighbours that are told (`NEIGH`).
    pub neighbours: Vec<StaticNeighbour>,
    /// Most ICMP errors per second, of all kinds together; also the burst.
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

/// A router interface (`INTERFACE`, `VLAN_INTERFACE`, `PORTCHANNEL_INTERFACE`, `LOOPBACK_INTERFACE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Name, such as `Ethernet0`, `Vlan100` or `Loopback0`.
    pub name: String,
    /// What it stands on.
    pub attachment: Attachment,
    /// Its address on the link.
    pub mac: [u8; 6],
    /// Largest packet it sends and takes, in octets, 68 to 9216.
    pub mtu: u32,
    /// Its addresses with the lengths of their networks. IPv6 link-local addresses are among them.
    pub addresses: Vec<IpNet>,
}

/// What a router interface stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A port, by its index. It bridges nothing.
    Port(u16),
    /// A LAG, by its index. It bridges nothing.
    Lag(u16),
    /// A VLAN, by its id.
    Vlan(u16),
    /// Nothing: addresses that are always there.
    Loopback,
}

/// A neighbour that is told instead of found (`NEIGH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticNeighbour {
    /// The interface behind which it is.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its address on the link.
    pub mac: [u8; 6],
}
