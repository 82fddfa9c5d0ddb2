//! Creates and changes pairs of veth devices. A veth pair connects a switch port to a namespace.

use std::os::fd::AsRawFd;

use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkVeth};

use super::ethtool::Features;
use super::link::check_name;
use super::netlink::run_request;
use super::{LinkChange, Netns, Result, disable_ipv6, ethtool, list_links, read_link, set_link};

/// Creates a veth pair. `name` is the end for the switch, in the calling thread's namespace. `peer` is the
/// end for the host, in the namespace `peer_netns`. If `peer_netns` is `None`, both ends are in the calling
/// thread's namespace. `mtu` is the MTU of both ends in bytes, 68 to 65535.
///
/// Both ends are up and have no IP addresses. IPv6 and all offloads are off. With offloads, a veth would
/// deliver unfinished checksums and frames of 64 KiB. ARP is off at the end for the switch.
///
/// # Errors
/// Returns an error if a name exists or is not valid, the MTU is out of range, or a privilege is missing. No
/// device remains after an error.
pub fn add_veth(name: &str, peer: &str, peer_netns: Option<&Netns>, mtu: u32) -> Result<()> {
    check_name(name)?;
    check_name(peer)?;
    let mut peer_message = LinkMessageBuilder::<LinkUnspec>::new()
        .name(peer.to_owned())
        .mtu(mtu);
    if let Some(netns) = peer_netns {
        peer_message = peer_message.setns_by_fd(netns.as_fd().as_raw_fd());
    }
    let message = LinkVeth::new(name, peer)
        .mtu(mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(peer_message.build())))
        .build();
    let action = format!("make the veth pair '{name}' - '{peer}' with MTU {mtu}");
    run_request(&action, name, async |handle| {
        handle.link().add(message).execute().await
    })?;
    let finish = || -> Result<()> {
        bring_up(name, false)?;
        match peer_netns {
            Some(netns) => netns.run(|| bring_up(peer, true))?,
            None => bring_up(peer, true),
        }
    };
    finish().inspect_err(|_| {
        // The first error is reported. Deleting one end deletes both ends.
        let _ = super::delete_link(name);
    })
}

/// Brings a link up with IPv6 and all offloads off. IPv6 is turned off before the link comes up, because the
/// kernel sends router solicitations on a new link.
fn bring_up(name: &str, arp: bool) -> Result<()> {
    disable_ipv6(name)?;
    ethtool::set_offloads(name, &ethtool::Offloads::OFF)?;
    set_link(
        name,
        &LinkChange {
            up: Some(true),
            arp: Some(arp),
            ..LinkChange::default()
        },
    )
}

/// Result of a change at the other end of a veth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerChange {
    /// The link is not a veth and has no other end.
    NotVeth,
    /// The other end has the wanted settings.
    Applied {
        /// Name of the other end in its namespace.
        peer: String,
        /// The features of the other end before the call, for [`restore_peer_features`]. `None` if the other
        /// end already had all wanted settings, so nothing was changed.
        previous: Option<Features>,
    },
    /// The other end is in a namespace that the caller did not pass, so nothing was changed.
    Unreachable {
        /// Index of the other end in its namespace.
        peer_index: u32,
    },
}

/// Turns off the offloads of the other end of the veth `name`. Searches for the other end in the namespace
/// of the calling thread and in `peer_namespaces`. Returns [`PeerChange::Unreachable`] if the other end is
/// in none of these namespaces, and [`PeerChange::NotVeth`] if `name` is not a veth. In both cases, nothing
/// is changed.
///
/// The offloads of the sending end decide whether the receiving end gets complete checksums.
///
/// # Errors
/// Returns [`super::Error::NoSuchLink`] if `name` does not exist. Returns another [`super::Error`] if a
/// namespace cannot be entered, or if the kernel refuses a read or a change.
pub fn disable_peer_offloads(name: &str, peer_namespaces: &[&Netns]) -> Result<PeerChange> {
    change_peer(name, peer_namespaces, |peer| {
        if ethtool::offloads(peer)? == ethtool::Offloads::OFF {
            return Ok(None);
        }
        let previous = ethtool::features(peer)?;
        ethtool::set_offloads(peer, &ethtool::Offloads::OFF)?;
        Ok(Some(previous))
    })
}

/// Makes the other end of the veth `name` write VLAN tags into its frames. Receivers that cannot read the
/// metadata of the kernel then see the tags. Searches for the other end like [`disable_peer_offloads`], with
/// the same results.
///
/// # Errors
/// Returns the same errors as [`disable_peer_offloads`].
pub fn enable_inline_peer_tags(name: &str, peer_namespaces: &[&Netns]) -> Result<PeerChange> {
    change_peer(name, peer_namespaces, |peer| {
        let previous = ethtool::features(peer)?;
        Ok(ethtool::enable_inline_vlan_tags(peer)?.then_some(previous))
    })
}

/// Sets the features of the other end of the veth `name` to `features`, which
/// [`disable_peer_offloads`] or [`enable_inline_peer_tags`] returned. Searches for the other end like
/// [`disable_peer_offloads`], with the same results.
///
/// # Errors
/// Returns the same errors as [`disable_peer_offloads`].
pub fn restore_peer_features(
    name: &str,
    peer_namespaces: &[&Netns],
    features: &Features,
) -> Result<PeerChange> {
    change_peer(name, peer_namespaces, |peer| {
        ethtool::restore_features(peer, features)?;
        Ok(None)
    })
}

/// Calls `change` with the name of the other end of the veth `name`, in the namespace of the other end.
/// `change` returns the features before the change, or `None` if it has changed nothing.
fn change_peer(
    name: &str,
    peer_namespaces: &[&Netns],
    change: impl Fn(&str) -> Result<Option<Features>> + Send + Sync,
) -> Result<PeerChange> {
    let near = read_link(name)?;
    let (Some("veth"), Some(peer_index)) = (near.kind.as_deref(), near.peer_index) else {
        return Ok(PeerChange::NotVeth);
    };
    let change_here = || -> Result<Option<PeerChange>> {
        // Indices repeat across namespaces, so each end must refer to the other one.
        let far = list_links()?.into_iter().find(|far| {
            far.kind.as_deref() == Some("veth")
                && Some(far.index) == near.peer_index
                && far.peer_index == Some(near.index)
        });
        let Some(far) = far else { return Ok(None) };
        let previous = change(&far.name)?;
        Ok(Some(PeerChange::Applied {
            peer: far.name,
            previous,
        }))
    };
    if near.peer_netns.is_none() {
        return Ok(change_here()?.unwrap_or(PeerChange::Unreachable { peer_index }));
    }
    for netns in peer_namespaces {
        if let Some(result) = netns.run(change_here)?? {
            return Ok(result);
        }
    }
    Ok(PeerChange::Unreachable { peer_index })
}
