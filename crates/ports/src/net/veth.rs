//! veth pairs: the cables between a switch port and a namespace.

use std::os::fd::AsRawFd;

use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::{LinkMessageBuilder, LinkUnspec, LinkVeth};

use super::link::check_name;
use super::netlink::talk;
use super::{LinkChange, Netns, Result, disable_ipv6, ethtool, link, links, set_link};

/// Makes a veth pair: `name`, the switch's end, in the calling thread's namespace, and `peer`, the host's
/// end, in `peer_ns` (or here as well). Both come up without addresses, with IPv6 and all offloads off: a
/// veth with offloads hands over unfinished checksums and frames of 64 KiB. The switch's end answers no ARP.
///
/// # Errors
/// Where either name is taken or bad, the MTU is out of range (68 to 65535 bytes), or we may not.
/// Nothing is left behind then.
pub fn add_veth(name: &str, peer: &str, peer_ns: Option<&Netns>, mtu: u32) -> Result<()> {
    check_name(name)?;
    check_name(peer)?;
    let mut far = LinkMessageBuilder::<LinkUnspec>::new()
        .name(peer.to_owned())
        .mtu(mtu);
    if let Some(ns) = peer_ns {
        far = far.setns_by_fd(ns.as_fd().as_raw_fd());
    }
    let message = LinkVeth::new(name, peer)
        .mtu(mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(far.build())))
        .build();
    let action = format!("make the veth pair '{name}' - '{peer}' with MTU {mtu}");
    talk(&action, name, async |handle| {
        handle.link().add(message).execute().await
    })?;
    let finish = || -> Result<()> {
        bring_up(name, false)?;
        match peer_ns {
            Some(ns) => ns.run(|| bring_up(peer, true))?,
            None => bring_up(peer, true),
        }
    };
    finish().inspect_err(|_| {
        // The first error is the one to tell; removing one end removes both.
        let _ = super::delete_link(name);
    })
}

/// IPv6 goes off before the link comes up, or the kernel would already have sent its solicitations.
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

/// What became of the offloads of a veth's other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerOffloads {
    /// The link is no veth: there is no far end to reach.
    NotVeth,
    /// They are off now; the name of the far end, and whether anything had to be changed.
    Off {
        /// The far end's name in its namespace.
        peer: String,
        /// Whether an offload was on before.
        changed: bool,
    },
    /// The far end is in a namespace that we were not given.
    OutOfReach {
        /// The far end's index in its namespace.
        peer_index: u32,
    },
}

/// Switches the offloads of the far end of the veth `name` off, where that end is in this namespace or in
/// one of `others`. Offloads of the *sender's* end decide whether we receive finished checksums.
///
/// # Errors
/// [`super::Error::NoSuchLink`], or a refusal by the kernel.
pub fn clear_peer_offloads(name: &str, others: &[&Netns]) -> Result<PeerOffloads> {
    at_peer(name, others, |far| {
        let changed = ethtool::offloads(far)? != ethtool::Offloads::OFF;
        if changed {
            ethtool::set_offloads(far, &ethtool::Offloads::OFF)?;
        }
        Ok(changed)
    })
}

/// As [`clear_peer_offloads`], for VLAN tags: the far end writes them into its frames, where a receiver that looks at the
/// bytes alone finds them.
///
/// # Errors
/// As there.
pub fn inline_peer_tags(name: &str, others: &[&Netns]) -> Result<PeerOffloads> {
    at_peer(name, others, ethtool::insert_tags)
}

/// Does something to the far end of a veth; it is told the name, and says whether it changed anything.
fn at_peer(
    name: &str,
    others: &[&Netns],
    change: impl Fn(&str) -> Result<bool> + Send + Sync,
) -> Result<PeerOffloads> {
    let near = link(name)?;
    let (Some("veth"), Some(peer_index)) = (near.kind.as_deref(), near.peer_index) else {
        return Ok(PeerOffloads::NotVeth);
    };
    let here = || -> Result<Option<PeerOffloads>> {
        // Indices repeat across namespaces: the two ends must point at each other.
        let far = links()?.into_iter().find(|far| {
            far.kind.as_deref() == Some("veth")
                && Some(far.index) == near.peer_index
                && far.peer_index == Some(near.index)
        });
        let Some(far) = far else { return Ok(None) };
        let changed = change(&far.name)?;
        Ok(Some(PeerOffloads::Off {
            peer: far.name,
            changed,
        }))
    };
    if near.peer_netns.is_none() {
        return Ok(here()?.unwrap_or(PeerOffloads::OutOfReach { peer_index }));
    }
    for ns in others {
        if let Some(done) = ns.run(here)?? {
            return Ok(done);
        }
    }
    Ok(PeerOffloads::OutOfReach { peer_index })
}
