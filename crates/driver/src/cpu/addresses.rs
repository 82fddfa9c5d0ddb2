//! Addresses of the switch, and the selection of source addresses for its packets.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use xoff_dataplane::config::{InterfaceAttachment, InterfaceConfig, RoutingConfig};
use xoff_dataplane::ids::InterfaceId;

/// Longest IPv4 prefix with a broadcast address. A /31 network has none (RFC 3021).
const BROADCAST_PREFIX_MAX: u8 = 30;

/// A router interface of the CPU stack.
#[derive(Clone, Debug)]
pub(super) struct CpuInterface {
    pub(super) mac: [u8; 6],
    pub(super) mtu: u32,
    pub(super) is_loopback: bool,
    addresses: Vec<IpNet>,
}

impl CpuInterface {
    fn new(config: &InterfaceConfig) -> CpuInterface {
        CpuInterface {
            mac: config.mac,
            mtu: config.mtu,
            is_loopback: config.attachment == InterfaceAttachment::Loopback,
            addresses: config.addresses.clone(),
        }
    }

    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.addr() == address)
    }

    /// Returns the source address for a packet to `destination`. The first choice is an address in the
    /// network of the destination, and the second choice is the first address of the interface. Link-local
    /// addresses are used only for link-local destinations. Returns `None` if no address is suitable.
    fn source_address(&self, destination: IpAddr) -> Option<IpAddr> {
        let is_suitable = |own: &&IpNet| {
            own.addr().is_ipv4() == destination.is_ipv4()
                && super::is_link_local(own.addr()) == super::is_link_local(destination)
        };
        let mut own = self.addresses.iter().filter(is_suitable);
        let same_network = own.clone().find(|own| own.contains(&destination));
        same_network.or_else(|| own.next()).map(|own| own.addr())
    }
}

/// The addresses of all router interfaces.
#[derive(Clone, Debug)]
pub(super) struct InterfaceAddresses(Vec<CpuInterface>);

impl InterfaceAddresses {
    pub(super) fn new(config: &RoutingConfig) -> InterfaceAddresses {
        InterfaceAddresses(config.interfaces.iter().map(CpuInterface::new).collect())
    }

    pub(super) fn interface(&self, id: InterfaceId) -> Option<&CpuInterface> {
        self.0.get(id.index())
    }

    /// Returns the MTUs of all interfaces that receive packets.
    pub(super) fn mtus(&self) -> impl Iterator<Item = u32> {
        self.0.iter().filter(|own| !own.is_loopback).map(|own| own.mtu)
    }

    /// Returns whether an address belongs to the switch. `ingress` is the interface on which the packet
    /// arrived. An IPv6 link-local address belongs to the switch only on the link of its own interface.
    pub(super) fn is_own_address(&self, address: IpAddr, ingress: Option<InterfaceId>) -> bool {
        match super::is_link_local(address) {
            true => ingress
                .and_then(|id| self.interface(id))
                .is_some_and(|own| own.has_address(address)),
            false => self.0.iter().any(|own| own.has_address(address)),
        }
    }

    /// Returns whether an IPv4 address is the broadcast address of a network of the switch.
    pub(super) fn is_directed_broadcast(&self, address: Ipv4Addr) -> bool {
        let nets = self.0.iter().flat_map(|own| &own.addresses);
        nets.into_iter().any(|net| match net {
            IpNet::V4(net) => net.prefix_len() <= BROADCAST_PREFIX_MAX && net.broadcast() == address,
            IpNet::V6(_) => false,
        })
    }

    /// Returns the source address of an ICMP error to `destination`. The packet that caused the error arrived
    /// on the interface `ingress`. Returns `None` if no address is suitable.
    ///
    /// The first choice is an address of `ingress`, and the second choice is an address of a loopback
    /// interface. An IPv6 link-local address of `ingress` is the last choice, because hosts on other links
    /// than that of `ingress` cannot reach this address (RFC 7404 2.2).
    pub(super) fn source_address(&self, destination: IpAddr, ingress: Option<InterfaceId>) -> Option<IpAddr> {
        let interface = ingress.and_then(|id| self.interface(id));
        let loopbacks = self.0.iter().filter(|own| own.is_loopback);
        let link_local = || {
            let addresses = interface?.addresses.iter().map(IpNet::addr);
            addresses
                .into_iter()
                .find(|own| destination.is_ipv6() && super::is_link_local(*own))
        };
        interface
            .into_iter()
            .chain(loopbacks)
            .find_map(|own| own.source_address(destination))
            .or_else(link_local)
    }
}
