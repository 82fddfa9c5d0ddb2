//! A host: a namespace with a veth link to a switch and an unchanged kernel configuration.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use ipnet::IpNet;
use libtest_mimic::Failed;
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};
use xoff_ports::net::{LinkChange, Netns, disable_ipv6, ethtool, set_link};

use crate::support::{NamespaceHolder, check};

/// Name of the host's end of its cable.
pub(crate) const DEVICE: &str = "eth0";

/// An address of the host, and the router to all other networks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostAddress {
    pub(crate) address: IpNet,
    pub(crate) router: Option<IpAddr>,
}

pub(crate) struct Host {
    pub(crate) netns: Netns,
    /// A process in the namespace. A switch finds the namespace through it.
    holder: Option<NamespaceHolder>,
}

/// Runs netlink requests in the namespace of the calling thread.
fn run_netlink(request: impl AsyncFnOnce(Handle) -> Result<(), rtnetlink::Error>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(request(handle).await?)
    })
}

/// Creates a veth pair with the kernel's defaults: all offloads are on. Both ends are down.
fn add_cable(name: &str, far: LinkMessageBuilder<LinkUnspec>, peer: &str, mtu: u32) -> Result<(), Failed> {
    let far = far.name(peer.to_owned()).mtu(mtu).build();
    let link = LinkVeth::new(name, peer)
        .mtu(mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(far)))
        .build();
    run_netlink(async |handle| handle.link().add(link).execute().await)
}

/// Creates a cable between two switches in the namespace of the calling thread.
pub(crate) fn add_trunk(name: &str, peer: &str, mtu: u32) -> Result<(), Failed> {
    add_cable(name, LinkMessageBuilder::default(), peer, mtu)?;
    // Without this setting, the kernel would send IPv6 frames before the switches own the devices.
    [name, peer]
        .into_iter()
        .try_for_each(|end| Ok::<_, Failed>(disable_ipv6(end)?))?;
    set_link_up(name)?;
    set_link_up(peer)
}

fn set_link_up(name: &str) -> Result<(), Failed> {
    let up = LinkChange {
        up: Some(true),
        ..LinkChange::default()
    };
    Ok(set_link(name, &up)?)
}

impl Host {
    /// Creates a host whose cable ends as `name` in the namespace of the calling thread. If the host is not
    /// `reachable`, a switch cannot find the namespace of the far end.
    pub(crate) fn new(
        name: &str,
        mtu: u32,
        addresses: &[HostAddress],
        reachable: bool,
    ) -> Result<Host, Failed> {
        let netns = Netns::create()?;
        let far = LinkMessageBuilder::<LinkUnspec>::default().setns_by_fd(netns.as_fd().as_raw_fd());
        // Without duplicate address detection, addresses are usable at once instead of after a second.
        netns.run(|| set_sysctl("default", "accept_dad", "0"))??;
        add_cable(name, far, DEVICE, mtu)?;
        set_link_up(name)?;
        let holder = netns.run(|| -> Result<_, Failed> {
            let offloads = ethtool::offloads(DEVICE)?;
            check(offloads.tx_csum && offloads.tso, || {
                format!("this kernel makes veths without offloads: {offloads:?}")
            })?;
            set_sysctl(DEVICE, "router_solicitations", "0")?;
            set_link_up(DEVICE)?;
            set_link_up("lo")?;
            addresses.iter().try_for_each(add_address_and_routes)?;
            Ok(match reachable {
                true => Some(NamespaceHolder::start()?),
                false => None,
            })
        })??;
        Ok(Host { netns, holder })
    }

    /// Returns the counters of the host's kernel by `Protocol.Counter`, such as `Tcp.InCsumErrors`.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>, Failed> {
        self.netns.run(|| -> Result<_, Failed> {
            let mut counters = BTreeMap::new();
            for file in ["snmp", "netstat"] {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{file}"))?;
                let lines: Vec<&str> = text.lines().collect();
                for pair in lines.chunks_exact(2) {
                    counters.extend(pair_names_and_values(pair[0], pair[1]));
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
        Ok(self.holder.map_or(Ok(()), NamespaceHolder::stop)?)
    }
}

/// Returns the counters of a line of names and a line of values. Both lines start with the name
/// of the protocol.
fn pair_names_and_values(names: &str, values: &str) -> Vec<(String, u64)> {
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

fn set_sysctl(device: &str, name: &str, value: &str) -> Result<(), Failed> {
    fs::write(format!("/proc/sys/net/ipv6/conf/{device}/{name}"), value)
        .map_err(|error| format!("{device}/{name}: {error}").into())
}

/// Adds an address and its routes to the namespace of the calling thread.
fn add_address_and_routes(host_address: &HostAddress) -> Result<(), Failed> {
    let index = nix::net::if_::if_nametoindex(DEVICE)?;
    let (address, len) = (host_address.address.addr(), host_address.address.prefix_len());
    run_netlink(async |handle| handle.address().add(index, address, len).execute().await)?;
    match host_address.router {
        None => Ok(()),
        Some(IpAddr::V4(router)) => {
            let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(router).build();
            run_netlink(async |handle| handle.route().add(route).execute().await)
        }
        Some(IpAddr::V6(router)) => {
            let route = RouteMessageBuilder::<Ipv6Addr>::new().gateway(router).build();
            run_netlink(async |handle| handle.route().add(route).execute().await)
        }
    }
}
