//! Which addresses are the switch's own, and which one it speaks from.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use xoff_dataplane::config::{InterfaceAttachment, InterfaceConfig, RoutingConfig};
use xoff_dataplane::ids::InterfaceId;

/// Longest IPv4 prefix whose network has a broadcast address (RFC 3021: /31 has none).
const BROADCAST_PREFIX_MAX: u8 = 30;

/// A router interface as the CPU sees it.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) mac: [u8; 6],
    pub(super) mtu: u32,
    pub(super) loopback: bool,
    addresses: Vec<IpNet>,
}

impl Interface {
    fn new(config: &InterfaceConfig) -> Interface {
        Interface {
            mac: config.mac,
            mtu: config.mtu,
            loopback: config.attachment == InterfaceAttachment::Loopback,
            addresses: config.addresses.clone(),
        }
    }

    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.addr() == address)
    }

    /// The address to speak from to `towards`: of its network if there is one, else the first; link-local addresses
    /// speak to their like alone.
    fn speaker(&self, towards: IpAddr) -> Option<IpAddr> {
        let fits = |own: &&IpNet| {
            own.addr().is_ipv4() == towards.is_ipv4()
                && super::is_link_local(own.addr()) == super::is_link_local(towards)
        };
        let mut own = self.addresses.iter().filter(fits);
        let near = own.clone().find(|own| own.contains(&towards));
        near.or_else(|| own.next()).map(|own| own.addr())
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Addresses(Vec<Interface>);

impl Addresses {
    pub(super) fn new(config: &RoutingConfig) -> Addresses {
        Addresses(config.interfaces.iter().map(Interface::new).collect())
    }

    pub(super) fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.0.get(id.index())
    }

    /// The MTUs of interfaces that packets come in on.
    pub(super) fn mtus(&self) -> impl Iterator<Item = u32> {
        self.0.iter().filter(|own| !own.loopback).map(|own| own.mtu)
    }

    /// Whether a packet that came in on `from` is for the switch. An IPv6 link-local address is known on its own link.
    pub(super) fn own(&self, address: IpAddr, from: Option<InterfaceId>) -> bool {
        match super::is_link_local(address) {
            true => from
                .and_then(|id| self.interface(id))
                .is_some_and(|own| own.has(address)),
            false => self.0.iter().any(|own| own.has(address)),
        }
    }

    /// Whether an IPv4 address means all hosts of a network that the switch is in.
    pub(super) fn directed_broadcast(&self, address: Ipv4Addr) -> bool {
        let nets = self.0.iter().flat_map(|own| &own.addresses);
        nets.into_iter().any(|net| match net {
            IpNet::V4(net) => net.prefix_len() <= BROADCAST_PREFIX_MAX && net.broadcast() == address,
            IpNet::V6(_) => false,
        })
    }

    /// Where an ICMP error to `towards` about a packet that came in on `from` is sent from: an address of that interface,
    /// else one of a loopback interface. An interface with nothing but an IPv6 link-local address uses that one last,
    /// since it means nothing beyond its link (RFC 7404 2.2).
    pub(super) fn speaker(&self, towards: IpAddr, from: Option<InterfaceId>) -> Option<IpAddr> {
        let interface = from.and_then(|id| self.interface(id));
        let loopbacks = self.0.iter().filter(|own| own.loopback);
        let link_local = || {
            let addresses = interface?.addresses.iter().map(IpNet::addr);
            addresses
                .into_iter()
                .find(|own| towards.is_ipv6() && super::is_link_local(*own))
        };
        interface
            .into_iter()
            .chain(loopbacks)
            .find_map(|own| own.speaker(towards))
            .or_else(link_local)
    }
}
