//! Links: what they are, how they are changed, moved and removed.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use futures_util::TryStreamExt;
use nix::errno::Errno;
use rtnetlink::LinkUnspec;
use rtnetlink::packet_core::Nla;
use rtnetlink::packet_route::link::{
    InfoData, InfoTun, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State,
};

use super::netlink::talk;
use super::{Error, Netns, Result};

/// The attribute of a tap that says whether its owner gets and gives a vnet header (`linux/if_link.h`).
const IFLA_TUN_VNET_HDR: u16 = 5;

/// What the kernel says about a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFacts {
    /// Name, as in `ip link`.
    pub name: String,
    /// Interface index; unique within its namespace only.
    pub index: u32,
    /// Hardware address; zero where the link has none of six bytes.
    pub mac: [u8; 6],
    /// Largest layer-3 packet, bytes.
    pub mtu: u32,
    /// Transmit queue length of the qdisc, packets.
    pub tx_queue_len: u32,
    /// The root queueing discipline: `noqueue`, `pfifo_fast`, `mq`.
    pub qdisc: Option<String>,
    /// Administratively up.
    pub up: bool,
    /// The far end is there and up.
    pub carrier: bool,
    /// No address resolution on this link (`arp off`).
    pub no_arp: bool,
    /// Someone asked for all frames (IFF_PROMISC, or a packet socket's membership).
    pub promiscuous: bool,
    /// Driver kind: `veth`, `tun`, `bridge`; none for hardware.
    pub kind: Option<String>,
    /// The bridge, bond or VRF that the link belongs to.
    pub master: Option<String>,
    /// For a veth the index of its other end, in the namespace of that end.
    pub peer_index: Option<u32>,
    /// Set where that other end is in another namespace: its number as seen from here.
    pub peer_netns: Option<i32>,
    /// For a tap whether its owner may leave checksums and segments to us (IFF_VNET_HDR), where the kernel says.
    pub vnet_hdr: Option<bool>,
}

/// What [`set_link`] is to change; `None` leaves as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Administrative state.
    pub up: Option<bool>,
    /// Largest layer-3 packet, bytes.
    pub mtu: Option<u32>,
    /// Transmit queue length, packets.
    pub tx_queue_len: Option<u32>,
    /// Hardware address.
    pub mac: Option<[u8; 6]>,
    /// Address resolution (ARP and ND) by the kernel.
    pub arp: Option<bool>,
    /// Receive all frames (IFF_PROMISC). Not reverted when the process ends; a packet membership is.
    pub promiscuous: Option<bool>,
}

/// All links of the calling thread's namespace, by index.
///
/// # Errors
/// Where netlink is not to be had.
pub fn links() -> Result<Vec<LinkFacts>> {
    let messages = talk("list the network interfaces", "", async |handle| {
        handle
            .link()
            .get()
            .execute()
            .try_collect::<Vec<LinkMessage>>()
            .await
    })?;
    let mut links: Vec<(LinkFacts, Option<u32>)> = messages.iter().map(facts).collect();
    links.sort_by_key(|(link, _)| link.index);
    let names: Vec<(u32, String)> = links
        .iter()
        .map(|(link, _)| (link.index, link.name.clone()))
        .collect();
    for (link, master) in &mut links {
        link.master = master.map(|index| match names.iter().find(|(i, _)| *i == index) {
            Some((_, name)) => name.clone(),
            None => format!("if{index}"),
        });
    }
    Ok(links.into_iter().map(|(link, _)| link).collect())
}

/// One link of the calling thread's namespace.
///
/// # Errors
/// [`Error::NoSuchLink`].
pub fn link(name: &str) -> Result<LinkFacts> {
    check_name(name)?;
    let message = get(name)?;
    let (mut link, master) = facts(&message);
    if let Some(master) = master {
        let by_index = talk("read a network interface", name, async |handle| {
            handle.link().get().match_index(master).execute().try_next().await
        })?;
        link.master = Some(match by_index {
            Some(message) => facts(&message).0.name,
            None => format!("if{master}"),
        });
    }
    Ok(link)
}

/// Changes a link of the calling thread's namespace.
///
/// # Errors
/// [`Error::NoSuchLink`], [`Error::NotPermitted`], or the kernel's refusal, such as an MTU out of range.
pub fn set_link(name: &str, change: &LinkChange) -> Result<()> {
    let index = index_of(name)?;
    let mut message = LinkUnspec::new_with_index(index);
    if let Some(arp) = change.arp {
        message = message.arp(arp);
    }
    if let Some(promiscuous) = change.promiscuous {
        message = message.promiscuous(promiscuous);
    }
    if let Some(mtu) = change.mtu {
        message = message.mtu(mtu);
    }
    if let Some(packets) = change.tx_queue_len {
        message = message.txqueuelen(packets);
    }
    if let Some(mac) = change.mac {
        message = message.address(mac.to_vec());
    }
    message = match change.up {
        Some(true) => message.up(),
        Some(false) => message.down(),
        None => message,
    };
    let message = message.build();
    talk(
        &format!("change interface '{name}' ({change:?})"),
        name,
        async |handle| handle.link().set(message).execute().await,
    )
}

/// Moves a link into another namespace, under the name `new_name`. It arrives there down.
///
/// # Errors
/// [`Error::NoSuchLink`]; [`Error::Exists`] where the new name is taken over there.
pub fn move_link(name: &str, to: &Netns, new_name: &str) -> Result<()> {
    check_name(new_name)?;
    let index = index_of(name)?;
    let message = LinkUnspec::new_with_index(index)
        .setns_by_fd(to.as_fd().as_raw_fd())
        .name(new_name)
        .build();
    talk(
        &format!("move interface '{name}' to another namespace as '{new_name}'"),
        name,
        async |handle| handle.link().set(message).execute().await,
    )
}

/// Removes a link. Of a veth pair both ends go.
///
/// # Errors
/// [`Error::NoSuchLink`], [`Error::NotPermitted`].
pub fn delete_link(name: &str) -> Result<()> {
    let index = index_of(name)?;
    talk(&format!("remove interface '{name}'"), name, async |handle| {
        handle.link().del(index).execute().await
    })
}

/// Keeps the kernel's IPv6 off a link of the calling thread's namespace, so that it sends no router
/// solicitations and no MLD reports into the switch. A kernel without IPv6 needs nothing.
///
/// # Errors
/// Where `/proc/sys` is read-only, or the namespace is not ours.
pub fn disable_ipv6(name: &str) -> Result<()> {
    check_name(name)?;
    // `/proc/sys/net` shows the namespace of the thread that opens it.
    let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    match fs::write(&path, "1") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::from_io(
            &format!("switch IPv6 off by writing {path}"),
            name,
            &error,
        )),
    }
}

/// Refuses what `dev_valid_name` of the kernel refuses; without this the error would speak of attributes,
/// and a name with '/' would leave the directory it is pasted into.
pub fn check_name(name: &str) -> Result<()> {
    let bad = |byte: u8| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace();
    if name.is_empty() || name.len() > 15 || name == "." || name == ".." || name.bytes().any(bad) {
        return Err(Error::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

pub(super) fn index_of(name: &str) -> Result<u32> {
    check_name(name)?;
    match nix::net::if_::if_nametoindex(name) {
        Ok(index) => Ok(index),
        Err(Errno::ENODEV) => Err(Error::NoSuchLink {
            name: name.to_owned(),
        }),
        Err(errno) => Err(Error::from_errno("find the interface", name, errno as i32)),
    }
}

fn get(name: &str) -> Result<LinkMessage> {
    let found = talk("read a network interface", name, async |handle| {
        handle.link().get().match_name(name).execute().try_next().await
    })?;
    found.ok_or_else(|| Error::NoSuchLink {
        name: name.to_owned(),
    })
}

/// The facts of a message, and the index of the master, whose name takes a second look.
fn facts(message: &LinkMessage) -> (LinkFacts, Option<u32>) {
    let flags = message.header.flags;
    let mut master = None;
    let mut link = LinkFacts {
        name: String::new(),
        index: message.header.index,
        mac: [0; 6],
        mtu: 0,
        tx_queue_len: 0,
        qdisc: None,
        up: flags.contains(LinkFlags::Up),
        carrier: flags.contains(LinkFlags::LowerUp),
        no_arp: flags.contains(LinkFlags::Noarp),
        promiscuous: flags.contains(LinkFlags::Promisc),
        kind: None,
        master: None,
        peer_index: None,
        peer_netns: None,
        vnet_hdr: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(bytes) => link.mtu = *bytes,
            LinkAttribute::TxQueueLen(packets) => link.tx_queue_len = *packets,
            LinkAttribute::Qdisc(name) => link.qdisc = Some(name.clone()),
            LinkAttribute::Controller(index) => master = Some(*index),
            LinkAttribute::Link(index) => link.peer_index = Some(*index),
            LinkAttribute::LinkNetNsId(id) => link.peer_netns = Some(*id),
            LinkAttribute::Promiscuity(users) => link.promiscuous |= *users > 0,
            LinkAttribute::OperState(State::Down | State::LowerLayerDown) => link.carrier = false,
            LinkAttribute::Address(bytes) => {
                if let Ok(mac) = <[u8; 6]>::try_from(bytes.as_slice()) {
                    link.mac = mac;
                }
            }
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => link.kind = Some(kind.to_string()),
                        LinkInfo::Data(InfoData::Tun(facts)) => {
                            let vnet_hdr = |fact: &InfoTun| {
                                let mut value = [0; 1];
                                let told =
                                    fact.kind() == IFLA_TUN_VNET_HDR && fact.value_len() == value.len();
                                told.then(|| fact.emit_value(&mut value))?;
                                Some(value != [0])
                            };
                            link.vnet_hdr = facts.iter().find_map(vnet_hdr);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    // IFLA_LINK means something else on a VLAN or a tunnel.
    if link.kind.as_deref() != Some("veth") {
        link.peer_index = None;
        link.peer_netns = None;
    }
    (link, master)
}
