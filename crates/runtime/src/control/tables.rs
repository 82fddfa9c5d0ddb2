//! Tables of a switch in responses: MAC addresses, neighbours, routes and interfaces.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// An entry of the MAC table.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct MacEntry {
    /// VLAN id. 0 in transparent bridging, which ignores VLAN tags.
    pub vlan: u16,
    /// The address, such as `02:00:00:00:00:01`.
    pub mac: String,
    /// Port or LAG.
    pub port: String,
    /// Type of the entry: `dynamic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time since the address was last seen, in nanoseconds of model time.
    pub age_ns: u64,
}

/// A neighbour of the router.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Neighbour {
    /// IP address.
    pub address: IpAddr,
    /// MAC address, if it is known.
    pub mac: Option<String>,
    /// Interface of the neighbour.
    pub interface: String,
    /// VLAN id if the interface is a VLAN interface.
    pub vlan: Option<u16>,
    /// Port or LAG from which the neighbour was last heard.
    pub port: Option<String>,
    /// `unknown`, `incomplete`, `reachable`, `probe` or `static`.
    pub state: String,
    /// Time since the neighbour was last heard, in nanoseconds of model time.
    pub age_ns: u64,
    /// Frames that wait for the MAC address of the neighbour.
    pub held_frames: usize,
}

/// Address family.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AddressFamily {
    /// Routes or neighbours of IPv4.
    Ipv4,
    /// Routes or neighbours of IPv6.
    Ipv6,
}

impl AddressFamily {
    /// Returns whether an address belongs to the family.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == AddressFamily::Ipv4)
    }
}

/// A route of the switch.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RouteEntry {
    /// Destination prefix.
    pub prefix: String,
    /// Source of the route: `local`, `connected` or `static`.
    pub protocol: String,
    /// Administrative distance. The route with the lowest distance to a prefix is used.
    pub distance: u8,
    /// Whether the route is in use.
    pub selected: bool,
    /// Whether packets of the route are dropped.
    pub blackhole: bool,
    /// Next hops. Empty for a blackhole route.
    pub next_hops: Vec<RouteHop>,
    /// Age of the route in seconds of wall time.
    pub age_s: u64,
}

/// A next hop of a route.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RouteHop {
    /// Address of the next router. None if the destination is on the link itself.
    pub address: Option<IpAddr>,
    /// Egress interface.
    pub interface: String,
    /// Weight relative to the other next hops of the route.
    pub weight: u16,
    /// Whether the interface is up.
    pub active: bool,
}

/// Ports, LAGs and router interfaces, and which of them are up.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Interfaces {
    /// Ports, in natural order.
    pub ports: Vec<PortStatus>,
    /// LAGs, in natural order.
    pub lags: Vec<LagStatus>,
    /// Router interfaces, in natural order.
    pub router_interfaces: Vec<RouterInterface>,
}

/// Configuration and operational state of a port.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PortStatus {
    /// Name of the port.
    pub name: String,
    /// The field `PORT.lanes`.
    pub lanes: Option<String>,
    /// The field `PORT.alias`.
    pub alias: Option<String>,
    /// Model speed in Mb/s.
    pub speed_mbps: u32,
    /// The field `PORT.mtu`.
    pub mtu: u32,
    /// `trunk` if the port is a member of a VLAN, the name of the LAG if the port is a member of a LAG, and
    /// otherwise `routed`.
    pub vlan: String,
    /// The field `PORT.admin_status`.
    pub admin_up: bool,
    /// Whether the port is configured up and its device has a carrier.
    pub oper_up: bool,
    /// The field `PORT.pfc_asym`.
    pub pfc_asym: bool,
}

/// Configuration and operational state of a LAG.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LagStatus {
    /// Name of the LAG.
    pub name: String,
    /// Sum of the speeds of the members in Mb/s.
    pub speed_mbps: u32,
    /// Smallest MTU of the members. None without members.
    pub mtu: Option<u32>,
    /// `trunk` for a member of a VLAN, otherwise `routed`.
    pub vlan: String,
    /// The field `PORTCHANNEL.admin_status`.
    pub admin_up: bool,
    /// Whether enough members are up.
    pub oper_up: bool,
    /// Member ports.
    pub members: Vec<LagMember>,
}

/// A member of a LAG.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LagMember {
    /// Name of the port.
    pub name: String,
    /// Whether the member is up.
    pub up: bool,
}

/// A router interface.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RouterInterface {
    /// Name of the interface.
    pub name: String,
    /// MAC address of the interface.
    pub mac: String,
    /// MTU in bytes.
    pub mtu: u32,
    /// Addresses with prefix lengths, including link-local addresses.
    pub addresses: Vec<String>,
    /// Whether the port, LAG or VLAN of the interface is configured up.
    pub admin_up: bool,
    /// Whether the port, LAG or VLAN of the interface is up.
    pub oper_up: bool,
}
