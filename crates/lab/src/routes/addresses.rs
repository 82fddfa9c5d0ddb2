//! Which addresses everything has.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;

use super::{Networks, Router};
use crate::plan::{HostKind, HostPlan, RoutePlan};

/// Links between switches: 172.16.0.0/12 (RFC 1918), a /31 each (RFC 3021).
const LINKS: u32 = 0xac10_0000;
const LINKS_MAX: u32 = 1 << 19;
/// Hosts: 10.0.0.0/8.
const HOSTS: u32 = 0x0a00_0000;
const HOSTS_END: u64 = 0x0b00_0000;
/// Smallest block of a switch with hosts: a /24 is 128 hosts, and good to read.
const BLOCK_MIN: u32 = 256;

/// Two networks that overlap, or one that does not fit any more: what, and what with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// The host that is to blame, if it is one.
    pub(crate) host: Option<usize>,
    /// What is wrong.
    pub(crate) what: String,
}

/// The addresses of the ends of the `n`-th link between switches; `None` if there is none left.
pub(super) fn of_link(n: u32) -> Option<(Ipv4Addr, Ipv4Addr)> {
    (n < LINKS_MAX).then(|| (Ipv4Addr::from(LINKS + 2 * n), Ipv4Addr::from(LINKS + 2 * n + 1)))
}

pub(super) fn give(
    routers: &[Router],
    hosts: &mut [HostPlan],
    fixed: &[bool],
) -> Result<Vec<Networks>, Overlap> {
    let mut taken = taken(hosts, fixed)?;
    taken.sort_unstable();
    let mut all = Vec::with_capacity(routers.len());
    let mut next = u64::from(HOSTS);
    for router in routers {
        let mut networks = Networks::default();
        let free = router.hosts.iter().filter(|access| !fixed[access.host]).count() as u32;
        let mut address = 0;
        if free > 0 {
            let size = (2 * free).next_power_of_two().max(BLOCK_MIN);
            let block = block(&mut next, size, &taken)?;
            address = block.addr().to_bits();
            networks.advertised.push(block);
        }
        for access in &router.hosts {
            let host = &mut hosts[access.host];
            if fixed[access.host] {
                let network = network_of(host);
                networks
                    .gateways
                    .push((gateway(host, network), network.prefix_len()));
                networks.advertised.push(network);
            } else {
                host.ipv4 = Ipv4Addr::from(address + 1);
                host.ipv4_prefix = 31;
                networks.gateways.push((Ipv4Addr::from(address), 31));
                address += 2;
            }
            if let Some((gateway, _)) = networks.gateways.last() {
                tell(host, *gateway);
            }
        }
        all.push(networks);
    }
    Ok(all)
}

/// The next free block of a size, which is a power of two.
fn block(next: &mut u64, size: u32, taken: &[(u32, u32, usize)]) -> Result<Ipv4Net, Overlap> {
    loop {
        let first = next.next_multiple_of(u64::from(size));
        let last = first + u64::from(size) - 1;
        if last >= HOSTS_END {
            let what = "there are more hosts than addresses in 10.0.0.0/8".to_owned();
            return Err(Overlap { host: None, what });
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

/// The networks that the file itself gives to hosts: first and last address, and the host.
fn taken(hosts: &[HostPlan], fixed: &[bool]) -> Result<Vec<(u32, u32, usize)>, Overlap> {
    let mut taken = Vec::new();
    for (index, host) in hosts.iter().enumerate().filter(|(index, _)| fixed[*index]) {
        let network = network_of(host);
        taken.push((network.network().to_bits(), network.broadcast().to_bits(), index));
        if network.prefix_len() > 31 {
            let what = format!(
                "{} has {network} alone, and there is no room for its gateway",
                host.name
            );
            return Err(Overlap {
                host: Some(index),
                what,
            });
        }
        let links = LINKS..LINKS + 2 * LINKS_MAX;
        if links.contains(&network.network().to_bits()) || links.contains(&network.broadcast().to_bits()) {
            let what = format!(
                "{} is in {network}, and 172.16.0.0/12 is for links between switches",
                host.name
            );
            return Err(Overlap {
                host: Some(index),
                what,
            });
        }
    }
    taken.sort_unstable();
    for pair in taken.windows(2) {
        let [(.., to, other), (from, _, index)] = [pair[0], pair[1]];
        if from <= to {
            let (a, b) = (&hosts[other], &hosts[index]);
            let what = format!(
                "{} and {} are in one network, {} and {}, behind different ports",
                a.name,
                b.name,
                network_of(a),
                network_of(b)
            );
            return Err(Overlap {
                host: Some(index.max(other)),
                what,
            });
        }
    }
    Ok(taken)
}

fn network_of(host: &HostPlan) -> Ipv4Net {
    // The prefix was checked when the address was read.
    Ipv4Net::new(host.ipv4, host.ipv4_prefix).map_or(Ipv4Net::from(host.ipv4), |network| network.trunc())
}

/// The gateway that the file gives a host, or the first other address of its network.
fn gateway(host: &HostPlan, network: Ipv4Net) -> Ipv4Addr {
    if let Some(IpAddr::V4(gateway)) = told(host) {
        return gateway;
    }
    let mut others = network.hosts().filter(|address| *address != host.ipv4);
    others.next().unwrap_or(host.ipv4)
}

/// The IPv4 gateway that a host has already.
pub(crate) fn told(host: &HostPlan) -> Option<IpAddr> {
    let plain = host.plain().map_or(&[][..], |plain| &plain.routes);
    let default = plain
        .iter()
        .filter(|route| route.prefix == 0)
        .map(|route| route.gateway);
    host.gateways.iter().copied().chain(default).find(IpAddr::is_ipv4)
}

fn tell(host: &mut HostPlan, gateway: Ipv4Addr) {
    if told(host).is_some() {
        return;
    }
    match &mut host.kind {
        HostKind::Model => host.gateways.push(gateway.into()),
        HostKind::Plain(plain) => plain.routes.push(RoutePlan {
            destination: Ipv4Addr::UNSPECIFIED.into(),
            prefix: 0,
            gateway: gateway.into(),
        }),
        // A guest's kernel takes no route from its command line.
        HostKind::Vm(_) => {}
    }
}
