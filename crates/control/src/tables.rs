//! The types of the tables in responses: MAC addresses, neighbours, routes and interfaces.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A learned MAC address.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct MacEntry {
    /// VLAN id of the address. 0 if the switch bridges transparently. Such a switch ignores VLAN tags.
    pub vlan: u16,
    /// The address, such as `02:00:00:00:00:01`.
    pub mac: String,
    /// Name of the port or LAG behind which the address was learned.
    pub port: String,
    /// Type of the entry. Always `dynamic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time since the address was last seen, in nanoseconds of model time.
    pub age_ns: u64,
}

/// A neighbour of the router: an IP address on a connected network.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct Neighbour {
    /// IP address of the neighbour.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// MAC address of the neighbour. `None` if it is not known.
    pub mac: Option<String>,
    /// Name of the router interface of the neighbour.
    pub interface: String,
    /// VLAN id if the interface is a VLAN interface. Otherwise `None`.
    pub vlan: Option<u16>,
    /// Name of the port or LAG from which the neighbour was last heard. `None` if the neighbour was
    /// not heard.
    pub port: Option<String>,
    /// State of the entry: `unknown`, `incomplete`, `reachable`, `probe` or `static`.
    pub state: String,
    /// Time since the neighbour was last heard, in nanoseconds of model time. For a neighbour that was not
    /// heard, the time since model time 0.
    pub age_ns: u64,
    /// Number of frames that wait for the MAC address of the neighbour.
    pub held_frames: usize,
}

/// An IP address family, which selects the routes of a request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AddressFamily {
    /// The family IPv4.
    Ipv4,
    /// The family IPv6.
    Ipv6,
}

impl AddressFamily {
    /// Returns whether an address belongs to the family.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == AddressFamily::Ipv4)
    }
}

/// One route in the answer to the request `routes`. The answer also contains static routes that are not in
/// use: the switch prefers a different route to the same prefix.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct RouteEntry {
    /// Destination prefix, such as `10.1.0.0/24`.
    pub prefix: String,
    /// Source of the route: `local`, `connected` or `static`.
    pub protocol: String,
    /// Administrative distance: 0 for local and connected routes, and the configured value for static routes.
    /// Of several routes to a prefix, the route with the lowest distance is used.
    pub distance: u8,
    /// Whether the route is in use, which means that packets follow it.
    pub selected: bool,
    /// Whether the route drops its packets.
    pub blackhole: bool,
    /// Next hops of the route. Empty for a blackhole route.
    pub next_hops: Vec<RouteHop>,
    /// Wall time in seconds since the prefix got its present target. 0 if no route to the prefix is in use.
    pub age_s: u64,
}

/// A next hop of a route: a router, or an interface with a connected network.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct RouteHop {
    /// IP address of the next router. `None` if the destination is on a connected network or is the
    /// switch itself.
    #[schema(value_type = Option<String>)]
    pub address: Option<IpAddr>,
    /// Name of the egress interface. For a local route, the interface with the address.
    pub interface: String,
    /// Weight of the next hop (`XOFF_ROUTE.weight`), at least 1. Next hops share the flows of a route in
    /// proportion to their weights.
    pub weight: u16,
    /// Whether the egress interface is up.
    pub active: bool,
}

/// Ports, LAGs and router interfaces, with their states.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct Interfaces {
    /// Ports, in natural order.
    pub ports: Vec<PortStatus>,
    /// LAGs, in natural order.
    pub lags: Vec<LagStatus>,
    /// Router interfaces, in natural order.
    pub router_interfaces: Vec<RouterInterface>,
}

/// Configuration and operational state of a port.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct PortStatus {
    /// Name of the port, such as `Ethernet0`.
    pub name: String,
    /// The field `PORT.lanes`. `None` if it is not configured.
    pub lanes: Option<String>,
    /// The field `PORT.alias`. `None` if it is not configured.
    pub alias: Option<String>,
    /// Speed of the port in model time (`PORT.speed`), in Mb/s.
    pub speed_mbps: u32,
    /// MTU in use, in bytes: the smaller value of `PORT.mtu` and the MTU of the link.
    pub mtu: u32,
    /// Name of the LAG if the port is a member of a LAG. Otherwise `trunk` if the port is a member of a VLAN,
    /// `bridged` if the switch has no VLANs and no router interfaces, and otherwise `routed`.
    pub vlan: String,
    /// Whether the port is administratively up (`PORT.admin_status`).
    pub admin_up: bool,
    /// Whether the port is administratively up and its device has a carrier.
    pub oper_up: bool,
    /// Whether asymmetric PFC is on (`PORT.pfc_asym`).
    pub pfc_asym: bool,
}

/// Configuration and operational state of a LAG.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct LagStatus {
    /// Name of the LAG, such as `PortChannel1`.
    pub name: String,
    /// Sum of the speeds of all members in model time (`PORT.speed`), in Mb/s. Members that are down
    /// are included.
    pub speed_mbps: u32,
    /// Smallest MTU of the members in bytes. `None` if the LAG has no members.
    pub mtu: Option<u32>,
    /// `trunk` if the LAG is a member of a VLAN, `bridged` if the switch has no VLANs and no router interfaces,
    /// and otherwise `routed`.
    pub vlan: String,
    /// Whether the LAG is administratively up (`PORTCHANNEL.admin_status`).
    pub admin_up: bool,
    /// Whether the LAG is up, which means that enough of its members are up.
    pub oper_up: bool,
    /// Member ports of the LAG, in the order of the configuration.
    pub members: Vec<LagMember>,
}

/// A member port of a LAG.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct LagMember {
    /// Name of the port, such as `Ethernet0`.
    pub name: String,
    /// Whether the member port is up.
    pub up: bool,
}

/// A router interface: a port, LAG, VLAN or loopback interface with IP addresses.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct RouterInterface {
    /// Name of the interface, such as `Ethernet0` or `Vlan10`.
    pub name: String,
    /// MAC address of the interface, such as `02:00:00:00:00:01`.
    pub mac: String,
    /// MTU of the interface in bytes.
    pub mtu: u32,
    /// Addresses with prefix lengths, such as `10.0.0.1/24`, including link-local addresses.
    pub addresses: Vec<String>,
    /// Whether the port or LAG of the interface is administratively up. True for VLAN and
    /// loopback interfaces.
    pub admin_up: bool,
    /// Whether the port or LAG of the interface is up. A VLAN interface is up if a member of its VLAN is up.
    pub oper_up: bool,
}
