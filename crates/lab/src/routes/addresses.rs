//! Assigns IPv4 addresses to hosts and links between switches.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

use super::{HostNetworks, RouterNode};
use crate::plan::{HostKind, HostPlan, RoutePlan};

/// First address of 172.16.0.0/12 (RFC 1918). Each link between switches gets a /31 network from this range
/// (RFC 3021).
const LINK_NETWORK: u32 = 0xac10_0000;
/// Largest number of links between switches: the number of /31 networks in 172.16.0.0/12.
const LINKS_MAX: u32 = 1 << 19;
/// First address of 10.0.0.0/8, the network of the hosts.
const HOST_NETWORK: u32 = 0x0a00_0000;
/// First address after 10.0.0.0/8.
const HOST_NETWORK_END: u64 = 0x0b00_0000;
/// Smallest number of addresses in the block of a switch: a /24 block, which has room for 128 hosts.
const BLOCK_SIZE_MIN: u32 = 256;

/// An error in the addresses of hosts, such as overlapping networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddressConflict {
    /// Index of the host with the invalid address. `None` if no single host causes the error.
    pub(crate) host: Option<usize>,
    /// The reason, for messages.
    pub(crate) reason: String,
}

/// Returns the addresses of both ends of a link between switches. Returns `None` if no address is left.
pub(super) fn switch_link_addresses(link_index: u32) -> Option<(Ipv4Addr, Ipv4Addr)> {
    (link_index < LINKS_MAX).then(|| {
        (
            Ipv4Addr::from(LINK_NETWORK + 2 * link_index),
            Ipv4Addr::from(LINK_NETWORK + 2 * link_index + 1),
        )
    })
}

/// Assigns an address and a gateway to each host, and returns the host networks of each switch. If `fixed` is
/// true for a host, the host keeps its address from the lab file.
pub(super) fn assign_host_addresses(
    routers: &[RouterNode],
    hosts: &mut [HostPlan],
    fixed: &[bool],
) -> Result<Vec<HostNetworks>, AddressConflict> {
    let mut taken = fixed_networks(hosts, fixed)?;
    taken.sort_unstable();
    let mut all = Vec::with_capacity(routers.len());
    let mut next = u64::from(HOST_NETWORK);
    for router in routers {
        let mut networks = HostNetworks::default();
        let free = router
            .host_ports
            .iter()
            .filter(|host_port| !fixed[host_port.host])
            .count() as u32;
        let mut address = 0;
        if free > 0 {
            let size = (2 * free).next_power_of_two().max(BLOCK_SIZE_MIN);
            let block = allocate_block(&mut next, size, &taken)?;
            address = block.addr().to_bits();
            networks.advertised.push(block);
        }
        for host_port in &router.host_ports {
            let host = &mut hosts[host_port.host];
            if fixed[host_port.host] {
                let network = host_network(host);
                networks
                    .gateways
                    .push((host_gateway(host, network), network.prefix_len()));
                networks.advertised.push(network);
            } else {
                host.ipv4 = Ipv4Addr::from(address + 1);
                host.ipv4_prefix = 31;
                networks.gateways.push((Ipv4Addr::from(address), 31));
                address += 2;
            }
            if let Some((gateway, _)) = networks.gateways.last() {
                set_gateway(host, *gateway);
            }
        }
        all.push(networks);
    }
    Ok(all)
}

/// Returns the next free block of `size` addresses, a power of two. The block does not overlap a network
/// in `taken`.
fn allocate_block(
    next: &mut u64,
    size: u32,
    taken: &[(u32, u32, usize)],
) -> Result<Ipv4Net, AddressConflict> {
    loop {
        let first = next.next_multiple_of(u64::from(size));
        let last = first + u64::from(size) - 1;
        if last >= HOST_NETWORK_END {
            let reason = "there are more hosts than addresses in 10.0.0.0/8".to_owned();
            return Err(AddressConflict { host: None, reason });
        }
        *next = last + 1;
        let hit = taken
            .iter()
            .any(|&(from, to, _)| u64::from(from) <= last && first <= u64::from(to));
        let prefix = 32 - size.trailing_zeros() as u8;
        if let (false, Ok(block)) = (hit, Ipv4Net::new(Ipv4Addr::from(first as u32), prefix)) {
            return Ok(block);
        }
    }
}

/// Returns the networks of `fixed` hosts, sorted: first address, last address and host index.
fn fixed_networks(hosts: &[HostPlan], fixed: &[bool]) -> Result<Vec<(u32, u32, usize)>, AddressConflict> {
    let mut taken = Vec::new();
    for (index, host) in hosts.iter().enumerate().filter(|(index, _)| fixed[*index]) {
        let network = host_network(host);
        taken.push((network.network().to_bits(), network.broadcast().to_bits(), index));
        if network.prefix_len() > 31 {
            let reason = format!(
                "{} has the network {network}, which has no address for a gateway",
                host.name
            );
            return Err(AddressConflict {
                host: Some(index),
                reason,
            });
        }
        let links = LINK_NETWORK..LINK_NETWORK + 2 * LINKS_MAX;
        if links.contains(&network.network().to_bits()) || links.contains(&network.broadcast().to_bits()) {
            let reason = format!(
                "{} is in {network}, but 172.16.0.0/12 is reserved for links between switches",
                host.name
            );
            return Err(AddressConflict {
                host: Some(index),
                reason,
            });
        }
    }
    taken.sort_unstable();
    for pair in taken.windows(2) {
        let [(.., to, other), (from, _, index)] = [pair[0], pair[1]];
        if from <= to {
            let (a, b) = (&hosts[other], &hosts[index]);
            let reason = format!(
                "{} and {} are in one network, {} and {}, behind different ports",
                a.name,
                b.name,
                host_network(a),
                host_network(b)
            );
            return Err(AddressConflict {
                host: Some(index.max(other)),
                reason,
            });
        }
    }
    Ok(taken)
}

/// Returns the IPv4 network of a host.
fn host_network(host: &HostPlan) -> Ipv4Net {
    // The prefix length was checked when the lab file was resolved.
    Ipv4Net::new(host.ipv4, host.ipv4_prefix).map_or(Ipv4Net::from(host.ipv4), |network| network.trunc())
}

/// Returns the gateway of a host. If the lab file sets no gateway, returns the first other address in the
/// network of the host.
fn host_gateway(host: &HostPlan, network: Ipv4Net) -> Ipv4Addr {
    if let Some(IpAddr::V4(gateway)) = ipv4_gateway(host) {
        return gateway;
    }
    let mut others = network.hosts().filter(|address| *address != host.ipv4);
    others.next().unwrap_or(host.ipv4)
}

/// Returns the IPv4 gateway of a host. Returns `None` if the lab file sets neither a `gateway` nor a
/// default route.
pub(crate) fn ipv4_gateway(host: &HostPlan) -> Option<IpAddr> {
    let plain = host.as_plain().map_or(&[][..], |plain| &plain.routes);
    let default = plain
        .iter()
        .filter(|route| route.prefix == 0)
        .map(|route| route.gateway);
    host.gateways.iter().copied().chain(default).find(IpAddr::is_ipv4)
}

/// Sets the IPv4 gateway of a host, unless the lab file sets one.
fn set_gateway(host: &mut HostPlan, gateway: Ipv4Addr) {
    if ipv4_gateway(host).is_some() {
        return;
    }
    match &mut host.kind {
        HostKind::Model => host.gateways.push(gateway.into()),
        HostKind::Plain(plain) => plain.routes.push(RoutePlan {
            destination: Ipv4Addr::UNSPECIFIED.into(),
            prefix: 0,
            gateway: gateway.into(),
        }),
        // The command line of a guest kernel cannot contain a route.
        HostKind::Vm(_) => {}
    }
}
