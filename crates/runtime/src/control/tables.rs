//! What the tables of a switch hold, as responses carry it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A MAC address and where it was learnt.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct MacEntry {
    /// VLAN; 0 in the bridge that does not look at tags.
    pub vlan: u16,
    /// The address, such as `02:00:00:00:00:01`.
    pub mac: String,
    /// Port or LAG.
    pub port: String,
    /// How it got there: `dynamic`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Since it was last seen, in nanoseconds of model time.
    pub age_ns: u64,
}

/// A neighbour of the router.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address, once known.
    pub mac: Option<String>,
    /// The interface behind which it is.
    pub interface: String,
    /// The VLAN, if that is what the interface stands on.
    pub vlan: Option<u16>,
    /// The port or LAG behind which it was heard.
    pub port: Option<String>,
    /// `unknown`, `incomplete`, `reachable`, `probe` or `static`.
    pub state: String,
    /// Since it was last heard, in nanoseconds of model time.
    pub age_ns: u64,
    /// Frames that wait for it.
    pub held_frames: usize,
}

/// Which addresses.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Whether an address is of it.
    pub fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Family::Ipv4)
    }
}

/// A route.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RouteEntry {
    /// Destinations.
    pub prefix: String,
    /// Who offers it: `local`, `connected` or `static`.
    pub protocol: String,
    /// Preference among routes to the same prefix; the lower is preferred.
    pub distance: u8,
    /// Whether packets follow it.
    pub selected: bool,
    /// Packets that follow it are dropped.
    pub blackhole: bool,
    /// Where to, unless it is a blackhole.
    pub next_hops: Vec<RouteHop>,
    /// Since when, in seconds of wall time.
    pub age_s: u64,
}

/// A way that a route leads.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RouteHop {
    /// The next router; none where the destination itself is on the link.
    pub address: Option<IpAddr>,
    /// The interface.
    pub interface: String,
    /// Share relative to the route's other ways.
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

/// A port as configured, and whether it is up.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PortStatus {
    /// Name.
    pub name: String,
    /// `PORT.lanes`.
    pub lanes: Option<String>,
    /// `PORT.alias`.
    pub alias: Option<String>,
    /// Model speed in Mb/s.
    pub speed_mbps: u32,
    /// `PORT.mtu`.
    pub mtu: u32,
    /// `trunk` in a VLAN, `routed` outside of all, or the name of its LAG.
    pub vlan: String,
    /// `PORT.admin_status`.
    pub admin_up: bool,
    /// Configured up, and its device has a carrier.
    pub oper_up: bool,
    /// `PORT.pfc_asym`.
    pub pfc_asym: bool,
}

/// A LAG as configured, and whether it is up.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LagStatus {
    /// Name.
    pub name: String,
    /// Sum of its members' speeds in Mb/s.
    pub speed_mbps: u32,
    /// Smallest of its members' MTUs; none without members.
    pub mtu: Option<u32>,
    /// `trunk` in a VLAN, else `routed`.
    pub vlan: String,
    /// `PORTCHANNEL.admin_status`.
    pub admin_up: bool,
    /// Enough members are up.
    pub oper_up: bool,
    /// Its members.
    pub members: Vec<LagMember>,
}

/// A member of a LAG.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct LagMember {
    /// Name of the port.
    pub name: String,
    /// It is up.
    pub up: bool,
}

/// A router interface.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct RouterInterface {
    /// Name.
    pub name: String,
    /// MAC address.
    pub mac: String,
    /// MTU.
    pub mtu: u32,
    /// Addresses with the lengths of their networks, link-local ones too.
    pub addresses: Vec<String>,
    /// What it stands on is configured up.
    pub admin_up: bool,
    /// What it stands on is up.
    pub oper_up: bool,
}
