//! Reads, changes, moves and deletes network links.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use futures_util::TryStreamExt;
use nix::errno::Errno;
use rtnetlink::LinkUnspec;
use rtnetlink::packet_core::Nla;
use rtnetlink::packet_route::link::{
    InfoData, InfoTun, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, Prop, State,
};

use super::netlink::run_request;
use super::{Error, Netns, Result};

/// Netlink attribute of a tap: whether the owner of the tap uses a vnet header (`linux/if_link.h`).
const IFLA_TUN_VNET_HDR: u16 = 5;

/// State of a network link, as the kernel reports it (`ip -details link`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    /// Name of the link, as in `ip link`.
    pub name: String,
    /// Index of the interface. The index is unique within the namespace.
    pub index: u32,
    /// Hardware address (MAC address). All bytes are zero if the link has no address of six bytes.
    pub mac: [u8; 6],
    /// Whether the link carries Ethernet frames (ARPHRD_ETHER). False for `lo`, for tunnels and for tun devices of
    /// layer 3.
    pub is_ethernet: bool,
    /// MTU: length of the longest layer-3 packet, in bytes.
    pub mtu: u32,
    /// Length of the transmit queue, in packets. Some queueing disciplines use this length as their limit.
    pub tx_queue_len: u32,
    /// Root queueing discipline, such as `noqueue`, `pfifo_fast` or `mq`. `None` if the kernel reports none.
    pub qdisc: Option<String>,
    /// Whether the link is administratively up.
    pub up: bool,
    /// Whether the link has a carrier: its far end exists and is up.
    pub carrier: bool,
    /// Whether ARP and neighbour discovery of the kernel are off on this link (`arp off`).
    pub no_arp: bool,
    /// Whether the link receives frames to any destination address. This is so if a process has set
    /// IFF_PROMISC, or has a packet socket with a promiscuous membership.
    pub promiscuous: bool,
    /// Kind of the link (`IFLA_INFO_KIND`), such as `veth`, `tun` or `bridge`. `None` if the kernel reports
    /// no kind, as for hardware and for `lo`.
    pub kind: Option<String>,
    /// Name of the bridge, bond or VRF that contains the link, or `if` and its index if the name is unknown.
    /// `None` if the link belongs to no bridge, bond or VRF.
    pub master: Option<String>,
    /// Index of the other end of a veth pair. The index is valid in the namespace of that end. `None` if the
    /// link is not a veth.
    pub peer_index: Option<u32>,
    /// Number of the namespace in which the other end of a veth pair is. The namespace of this end assigns
    /// the number (`ip netns list-id`). `None` if both ends are in the same namespace, or if the link is not
    /// a veth.
    pub peer_netns: Option<i32>,
    /// Whether the owner of a tap may send unfinished checksums and superframes (IFF_VNET_HDR). `None` if the
    /// link is not a tap or the kernel does not report the value.
    pub vnet_hdr: Option<bool>,
    /// Alternative names of the link (`ip link property`).
    pub alt_names: Vec<String>,
}

/// Changes of a link for [`set_link`]. `None` keeps the present value of a setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Whether the link becomes administratively up (true) or down (false).
    pub up: Option<bool>,
    /// New MTU: length of the longest layer-3 packet, in bytes.
    pub mtu: Option<u32>,
    /// New length of the transmit queue, in packets.
    pub tx_queue_len: Option<u32>,
    /// New hardware address (MAC address).
    pub mac: Option<[u8; 6]>,
    /// Whether the kernel resolves addresses with ARP and ND.
    pub arp: Option<bool>,
    /// Whether the link receives frames to any destination address (IFF_PROMISC). This flag stays set after
    /// the process ends. In contrast, a promiscuous membership of a packet socket ends with the process.
    pub promiscuous: Option<bool>,
}

/// Returns all links of the calling thread's namespace, sorted by index.
///
/// # Errors
/// Returns an error if netlink is not available.
pub fn list_links() -> Result<Vec<LinkState>> {
    let messages = run_request("list the network interfaces", "", async |handle| {
        handle
            .link()
            .get()
            .execute()
            .try_collect::<Vec<LinkMessage>>()
            .await
    })?;
    let mut links: Vec<(LinkState, Option<u32>)> = messages.iter().map(parse_link_state).collect();
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

/// Returns the state of the link `name` of the calling thread's namespace.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the namespace has no link of this name, [`Error::BadName`] if the name is
/// not valid, or another [`Error`] if the request to the kernel fails.
pub fn read_link(name: &str) -> Result<LinkState> {
    check_name(name)?;
    let message = request_link(name)?;
    let (mut link, master) = parse_link_state(&message);
    if let Some(master) = master {
        let by_index = run_request("read a network interface", name, async |handle| {
            handle.link().get().match_index(master).execute().try_next().await
        })?;
        link.master = Some(match by_index {
            Some(message) => parse_link_state(&message).0.name,
            None => format!("if{master}"),
        });
    }
    Ok(link)
}

/// Changes settings of the link `name` in the calling thread's namespace.
///
/// # Errors
/// Returns [`Error::NoSuchLink`], [`Error::BadName`], [`Error::NotPermitted`], or another [`Error`] if the
/// kernel refuses a value. For example, the MTU may be out of range.
pub fn set_link(name: &str, change: &LinkChange) -> Result<()> {
    let index = link_index(name)?;
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
    run_request(
        &format!("change interface '{name}' ({change:?})"),
        name,
        async |handle| handle.link().set(message).execute().await,
    )
}

/// Moves the link `name` of the calling thread's namespace to the namespace `netns`, and renames the link to
/// `new_name`. The link is down after the move.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the link does not exist, [`Error::Exists`] if the namespace `netns`
/// already has a link `new_name`, or [`Error::BadName`] if a name is not valid.
pub fn move_link(name: &str, netns: &Netns, new_name: &str) -> Result<()> {
    check_name(new_name)?;
    let index = link_index(name)?;
    let message = LinkUnspec::new_with_index(index)
        .setns_by_fd(netns.as_fd().as_raw_fd())
        .name(new_name)
        .build();
    run_request(
        &format!("move interface '{name}' to another namespace as '{new_name}'"),
        name,
        async |handle| handle.link().set(message).execute().await,
    )
}

/// Deletes the link `name` of the calling thread's namespace. If the link is one end of a veth pair, both
/// ends are deleted.
///
/// # Errors
/// Returns [`Error::NoSuchLink`], [`Error::BadName`], [`Error::NotPermitted`], or another [`Error`] if the
/// kernel refuses the request.
pub fn delete_link(name: &str) -> Result<()> {
    let index = link_index(name)?;
    run_request(&format!("remove interface '{name}'"), name, async |handle| {
        handle.link().del(index).execute().await
    })
}

/// Gives the link with the index `index` of the calling thread's namespace an alternative name.
///
/// # Errors
/// Returns [`Error::Exists`] if a link of the namespace has this name, or another [`Error`] if the kernel refuses the
/// request.
pub(crate) fn add_alt_name(index: u32, name: &str) -> Result<()> {
    run_request("add an alternative name", name, async |handle| {
        handle
            .link()
            .property_add(index)
            .alt_ifname(&[name])
            .execute()
            .await
    })
}

/// Removes an alternative name of the link with the index `index` of the calling thread's namespace.
///
/// # Errors
/// Returns an [`Error`] if the link does not have this name, or if the kernel refuses the request.
pub(crate) fn remove_alt_name(index: u32, name: &str) -> Result<()> {
    run_request("remove an alternative name", name, async |handle| {
        handle
            .link()
            .property_del(index)
            .alt_ifname(&[name])
            .execute()
            .await
    })
}

/// Turns off IPv6 of the kernel on the link `name` of the calling thread's namespace. The kernel then sends
/// no router solicitations and no MLD reports to the switch. If the kernel has no IPv6 or the link does not
/// exist, the function succeeds and does nothing.
///
/// # Errors
/// Returns [`Error::BadName`] if the name is not valid, or another [`Error`] if `/proc/sys` is read-only or
/// does not belong to the user namespace of this process.
pub fn disable_ipv6(name: &str) -> Result<()> {
    check_name(name)?;
    // `/proc/sys/net` shows the namespace of the calling thread.
    let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    match fs::write(&path, "1") {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::from_io(
            &format!("turn IPv6 off by writing {path}"),
            name,
            &error,
        )),
    }
}

/// Checks that the kernel accepts a name for an interface (`dev_valid_name`): 1 to 15 bytes without `/`, `:`,
/// white space and zero bytes, and neither `.` nor `..`. This check gives a better error message than the
/// kernel. A `/` in the name would also change the directory of a path in `/proc/sys`.
///
/// # Errors
/// Returns [`Error::BadName`] if the name is not valid.
pub fn check_name(name: &str) -> Result<()> {
    let is_bad = |byte: u8| byte == b'/' || byte == b':' || byte == 0 || byte.is_ascii_whitespace();
    if name.is_empty() || name.len() > 15 || name == "." || name == ".." || name.bytes().any(is_bad) {
        return Err(Error::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// Returns the interface index of a link in the calling thread's namespace.
pub(super) fn link_index(name: &str) -> Result<u32> {
    check_name(name)?;
    match nix::net::if_::if_nametoindex(name) {
        Ok(index) => Ok(index),
        Err(Errno::ENODEV) => Err(Error::NoSuchLink {
            name: name.to_owned(),
        }),
        Err(errno) => Err(Error::from_errno("find the interface", name, errno as i32)),
    }
}

fn request_link(name: &str) -> Result<LinkMessage> {
    let message = run_request("read a network interface", name, async |handle| {
        handle.link().get().match_name(name).execute().try_next().await
    })?;
    message.ok_or_else(|| Error::NoSuchLink {
        name: name.to_owned(),
    })
}

/// Converts a netlink message to the state of a link. Also returns the index of the bridge, bond or VRF that
/// contains the link. The caller looks up the name of this master device.
fn parse_link_state(message: &LinkMessage) -> (LinkState, Option<u32>) {
    let flags = message.header.flags;
    let mut master = None;
    let mut link = LinkState {
        name: String::new(),
        index: message.header.index,
        mac: [0; 6],
        is_ethernet: message.header.link_layer_type == LinkLayerType::Ether,
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
        alt_names: Vec::new(),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::PropList(properties) => {
                let name = |property: &Prop| match property {
                    Prop::AltIfName(name) => Some(name.clone()),
                    _ => None,
                };
                link.alt_names = properties.iter().filter_map(name).collect();
            }
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
                        LinkInfo::Data(InfoData::Tun(attributes)) => {
                            let vnet_hdr = |attribute: &InfoTun| {
                                let mut value = [0; 1];
                                let is_vnet_hdr = attribute.kind() == IFLA_TUN_VNET_HDR
                                    && attribute.value_len() == value.len();
                                is_vnet_hdr.then(|| attribute.emit_value(&mut value))?;
                                Some(value != [0])
                            };
                            link.vnet_hdr = attributes.iter().find_map(vnet_hdr);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    // IFLA_LINK has another meaning on a VLAN or a tunnel.
    if link.kind.as_deref() != Some("veth") {
        link.peer_index = None;
        link.peer_netns = None;
    }
    (link, master)
}
