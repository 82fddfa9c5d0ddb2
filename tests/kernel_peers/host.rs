//! A host: a namespace with a veth to a switch, and a kernel that is left as it is.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use ipnet::IpNet;
use libtest_mimic::Failed;
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use xoff_ports::net::{LinkChange, Netns, disable_ipv6, ethtool, set_link};

use crate::support::{Holder, check};

/// The host's end of its cable.
pub(crate) const DEVICE: &str = "eth0";

/// An address of the host, and the router behind which everything else is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: IpNet,
    pub(crate) router: Option<IpAddr>,
}

pub(crate) struct Host {
    pub(crate) netns: Netns,
    /// A process in the namespace, by which a switch finds it.
    holder: Option<Holder>,
}

/// Runs a netlink conversation in the namespace of the calling thread.
fn netlink(talk: impl AsyncFnOnce(Handle) -> Result<(), rtnetlink::Error>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(talk(handle).await?)
    })
}

/// A veth pair as the kernel makes it: all offloads are on. Both ends are down.
fn cable(name: &str, far: LinkMessageBuilder<LinkUnspec>, peer: &str, mtu: u32) -> Result<(), Failed> {
    let far = far.name(peer.to_owned()).mtu(mtu).build();
    let link = LinkVeth::new(name, peer)
        .mtu(mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(far)))
        .build();
    netlink(async |handle| handle.link().add(link).execute().await)
}

/// A cable between two switches of the calling thread's namespace.
pub(crate) fn trunk(name: &str, peer: &str, mtu: u32) -> Result<(), Failed> {
    cable(name, LinkMessageBuilder::default(), peer, mtu)?;
    // Or the kernel would speak on it before the switches have it.
    [name, peer]
        .into_iter()
        .try_for_each(|end| Ok::<_, Failed>(disable_ipv6(end)?))?;
    up(name)?;
    up(peer)
}

fn up(name: &str) -> Result<(), Failed> {
    let up = LinkChange {
        up: Some(true),
        ..LinkChange::default()
    };
    Ok(set_link(name, &up)?)
}

impl Host {
    /// A host whose cable ends as `name` in the calling thread's namespace. Where it is not `reachable`, a switch cannot
    /// find the namespace behind the cable.
    pub(crate) fn new(name: &str, mtu: u32, places: &[Place], reachable: bool) -> Result<Host, Failed> {
        let netns = Netns::create()?;
        let far = LinkMessageBuilder::<LinkUnspec>::default().setns_by_fd(netns.as_fd().as_raw_fd());
        // Addresses are there at once, without a second of duplicate address detection.
        netns.run(|| sysctl("default", "accept_dad", "0"))??;
        cable(name, far, DEVICE, mtu)?;
        up(name)?;
        let holder = netns.run(|| -> Result<_, Failed> {
            let offloads = ethtool::offloads(DEVICE)?;
            check(offloads.tx_csum && offloads.tso, || {
                format!("this kernel makes veths without offloads: {offloads:?}")
            })?;
            sysctl(DEVICE, "router_solicitations", "0")?;
            up(DEVICE)?;
            up("lo")?;
            places.iter().try_for_each(settle)?;
            Ok(match reachable {
                true => Some(Holder::start()?),
                false => None,
            })
        })??;
        Ok(Host { netns, holder })
    }

    /// What the host's kernel has counted, by `Protocol.Counter`, such as `Tcp.InCsumErrors`.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>, Failed> {
        self.netns.run(|| -> Result<_, Failed> {
            let mut counters = BTreeMap::new();
            for file in ["snmp", "netstat"] {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{file}"))?;
                let lines: Vec<&str> = text.lines().collect();
                for pair in lines.chunks_exact(2) {
                    counters.extend(paired(pair[0], pair[1]));
                }
            }
            let text = fs::read_to_string("/proc/thread-self/net/snmp6")?;
            counters.extend(text.lines().filter_map(|line| {
                let (name, value) = line.split_once(char::is_whitespace)?;
                Some((name.to_owned(), value.trim().parse().ok()?))
            }));
            Ok(counters)
        })?
    }

    pub(crate) fn stop(self) -> Result<(), Failed> {
        Ok(self.holder.map_or(Ok(()), Holder::stop)?)
    }
}

/// A line of names and a line of values, both behind the protocol's name.
fn paired(names: &str, values: &str) -> Vec<(String, u64)> {
    let Some((protocol, names)) = names.split_once(':') else {
        return Vec::new();
    };
    let values = values.split_whitespace().skip(1);
    names
        .split_whitespace()
        .zip(values)
        .filter_map(|(name, value)| Some((format!("{protocol}.{name}"), value.parse().ok()?)))
        .collect()
}

fn sysctl(device: &str, name: &str, value: &str) -> Result<(), Failed> {
    fs::write(format!("/proc/sys/net/ipv6/conf/{device}/{name}"), value)
        .map_err(|error| format!("{device}/{name}: {error}").into())
}

/// Gives the namespace of the calling thread an address, and its routes.
fn settle(place: &Place) -> Result<(), Failed> {
    let index = nix::net::if_::if_nametoindex(DEVICE)?;
    let (address, len) = (place.address.addr(), place.address.prefix_len());
    netlink(async |handle| handle.address().add(index, address, len).execute().await)?;
    match place.router {
        None => Ok(()),
        Some(IpAddr::V4(router)) => {
            let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(router).build();
            netlink(async |handle| handle.route().add(route).execute().await)
        }
        Some(IpAddr::V6(router)) => {
            let route = RouteMessageBuilder::<Ipv6Addr>::new().gateway(router).build();
            netlink(async |handle| handle.route().add(route).execute().await)
        }
    }
}
