//! What is checked and repaired on a netdev before it becomes a port, and put back afterwards.
//!
//! Each guard answers a trap that silently changes or eats frames: a bridge that takes PFC away, checksums left to
//! hardware that does not exist, segments glued together, a kernel that answers what is meant for the switch.

use std::fs;

use crate::net::{self, LinkChange, LinkFacts, Netns, PeerOffloads, ethtool};

use super::device::Device;
use super::{PortError, PortSpec};

/// Frames that a tap of another program is to hold for it. The default is 500 or 1000.
const TAP_QUEUE_FRAMES: u32 = 10_000;

/// From this MTU on a frame with its headers may take a page.
const SCATTERED_MTU_MIN: u32 = 3_500;

/// What has to be put back on a device; done when it is dropped.
#[derive(Debug)]
pub(super) struct Guarded {
    device: Device,
    netns: Option<Netns>,
    /// The device has no queue: "no buffer" (ENOBUFS) then means that it dropped the frame and counted it, not that it
    /// would take it later.
    pub(super) noqueue: bool,
    /// Frames come with finished checksums: the far end is known to do so, or is a wire.
    pub(super) checksums_finished: bool,
    /// The device is a tap: its far end is a program, most likely a guest.
    pub(super) tap: bool,
    tx_queue_len: Option<u32>,
    features: Option<ethtool::Features>,
    arp_was_on: bool,
    ipv6_was_on: bool,
}

/// Checks the device of `spec` and repairs what can be repaired. Notes say what was done.
pub(super) fn guard(spec: &PortSpec, notes: &mut Vec<String>) -> Result<Guarded, PortError> {
    let link = check(spec)?;
    let mut guarded = Guarded {
        device: Device::here(&spec.device)
            .map_err(|error| PortError::io(spec, "find the device", "cap_net_raw", error))?,
        netns: Netns::current().ok(),
        noqueue: link.qdisc.as_deref() == Some("noqueue"),
        checksums_finished: false,
        tap: link.kind.as_deref() == Some("tun"),
        tx_queue_len: None,
        features: None,
        arp_was_on: false,
        ipv6_was_on: false,
    };
    // Before the device comes up, or the kernel would already have sent its own frames.
    silence_kernel(spec, &link, &mut guarded, notes);
    clear_own_offloads(spec, &mut guarded, notes);
    guarded.checksums_finished = clear_peer(spec, &link, notes);
    if guarded.tap {
        prepare_tap(spec, &link, &mut guarded, notes);
    }
    if !link.up {
        let up = LinkChange {
            up: Some(true),
            ..LinkChange::default()
        };
        net::set_link(&spec.device, &up).map_err(|error| PortError::net(spec, error))?;
        notes.push(format!(
            "{0}: device '{1}' was down: up now (`ip link set dev {1} up`)",
            spec.name, spec.device
        ));
    }
    Ok(guarded)
}

/// What cannot be repaired.
fn check(spec: &PortSpec) -> Result<LinkFacts, PortError> {
    let link = net::link(&spec.device).map_err(|error| PortError::net(spec, error))?;
    let (port, device) = (spec.name.clone(), spec.device.clone());
    if let Some(master) = link.master {
        return Err(PortError::InBridge { port, device, master });
    }
    if link.mtu < spec.mtu {
        return Err(PortError::mtu_too_small(spec, link.mtu));
    }
    Ok(link)
}

/// Keeps the kernel from answering on the switch's end: no IPv6, no ARP. Addresses are left alone, but told.
fn silence_kernel(spec: &PortSpec, link: &LinkFacts, guarded: &mut Guarded, notes: &mut Vec<String>) {
    let (port, device) = (&spec.name, &spec.device);
    if ipv6_enabled(device) {
        match net::disable_ipv6(device) {
            Ok(()) => {
                guarded.ipv6_was_on = true;
                notes.push(format!(
                    "{port}: the kernel's IPv6 on '{device}' is off now (`sysctl -w net.ipv6.conf.{device}.disable_ipv6=1`)"
                ));
            }
            Err(error) => notes.push(format!(
                "{port}: the kernel's IPv6 stays on and sends frames of its own on '{device}': {error}; run \
                 `sysctl -w net.ipv6.conf.{device}.disable_ipv6=1`"
            )),
        }
    }
    if !link.no_arp {
        let off = LinkChange {
            arp: Some(false),
            ..LinkChange::default()
        };
        match net::set_link(device, &off) {
            Ok(()) => {
                guarded.arp_was_on = true;
                notes.push(format!("{port}: ARP on '{device}' is off now (`ip link set dev {device} arp off`)"));
            }
            Err(error) => notes.push(format!(
                "{port}: the kernel answers ARP on '{device}' beside the switch: {error}; run `ip link set dev {device} arp off`"
            )),
        }
    }
    if has_address(device) {
        notes.push(format!(
            "{port}: '{device}' has an IP address: the kernel answers on it beside the switch; run `ip addr flush dev {device}`"
        ));
    }
}

fn ipv6_enabled(device: &str) -> bool {
    let path = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
}

/// An IPv4 address, or an IPv6 address that someone gave it (a link-local one goes with IPv6).
fn has_address(device: &str) -> bool {
    let Ok(addresses) = nix::ifaddrs::getifaddrs() else {
        return false;
    };
    addresses
        .filter(|entry| entry.interface_name == device)
        .filter_map(|entry| entry.address)
        .any(|address| {
            let v6 = address
                .as_sockaddr_in6()
                .is_some_and(|v6| !v6.ip().is_unicast_link_local());
            address.as_sockaddr_in().is_some() || v6
        })
}

/// Offloads of this end: those that glue received frames together. Scatter-gather stays as it is on a port of long frames: a
/// packet socket's frames of a page and more lie in pieces, and the kernel copies those together, into fresh memory, for a
/// device that does not take them so.
fn clear_own_offloads(spec: &PortSpec, guarded: &mut Guarded, notes: &mut Vec<String>) {
    let (port, device) = (&spec.name, &spec.device);
    let long_frames = spec.mtu >= SCATTERED_MTU_MIN;
    let clear = || -> net::Result<Option<ethtool::Features>> {
        let now = ethtool::offloads(device)?;
        let wanted = ethtool::Offloads {
            sg: now.sg && long_frames,
            ..ethtool::Offloads::OFF
        };
        if now == wanted {
            return Ok(None);
        }
        let before = ethtool::features(device)?;
        ethtool::set_offloads(device, &wanted)?;
        Ok(Some(before))
    };
    match clear() {
        Ok(None) => {}
        Ok(before) => {
            guarded.features = before;
            let sg = if long_frames { "" } else { "sg off " };
            notes.push(format!(
                "{port}: offloads of '{device}' are off now (`ethtool -K {device} rx off tx off {sg}tso off gso off gro off lro off`)"
            ));
        }
        Err(error) => notes.push(format!(
            "{port}: offloads of '{device}' could not all be switched off: {error}; frames glued together will be dropped"
        )),
    }
}

/// Offloads of a veth's other end, whose kernel leaves checksums unfinished and hands over superframes. Whether checksums
/// are finished now.
fn clear_peer(spec: &PortSpec, link: &LinkFacts, notes: &mut Vec<String>) -> bool {
    let (port, device) = (&spec.name, &spec.device);
    let elsewhere = net::peer_namespace(link);
    match net::clear_peer_offloads(device, elsewhere.as_ref().as_slice()) {
        Ok(PeerOffloads::Off { peer, changed }) => {
            if changed {
                notes.push(format!(
                    "{port}: offloads of '{peer}', the far end of '{device}', are off now (`ethtool -K {peer} tx off`)"
                ));
            }
            true
        }
        Ok(PeerOffloads::OutOfReach { peer_index }) => {
            notes.push(format!(
                "{port}: the far end of '{device}' (index {peer_index}) is in another namespace; if frames are dropped \
                 for unfinished checksums, run `ethtool -K DEV tx off` there"
            ));
            false
        }
        // Behind a tap is a machine that may leave them to us, behind anything else a wire.
        Ok(PeerOffloads::NotVeth) => link.kind.as_deref() != Some("tun"),
        Err(error) => {
            notes.push(format!(
                "{port}: offloads of the far end of '{device}' could not be switched off: {error}"
            ));
            false
        }
    }
}

/// For a backend that sees the bytes of a frame alone: the far end of a veth is to write VLAN tags into its frames.
pub(super) fn inline_tags(spec: &PortSpec, notes: &mut Vec<String>) {
    let (port, device) = (&spec.name, &spec.device);
    let inline = || -> net::Result<PeerOffloads> {
        let elsewhere = net::peer_namespace(&net::link(device)?);
        net::inline_peer_tags(device, elsewhere.as_ref().as_slice())
    };
    let command = "txvlan off tx-vlan-stag-hw-insert off";
    match inline() {
        Ok(PeerOffloads::Off { peer, changed: true }) => notes.push(format!(
            "{port}: '{peer}', the far end of '{device}', writes VLAN tags into its frames now (`ethtool -K {peer} {command}`)"
        )),
        Ok(PeerOffloads::Off { .. } | PeerOffloads::NotVeth) => {}
        Ok(PeerOffloads::OutOfReach { peer_index }) => notes.push(format!(
            "{port}: the far end of '{device}' (index {peer_index}) is in another namespace; frames that its kernel tags, or \
             forwards with a tag, would arrive without: run `ethtool -K DEV {command}` there"
        )),
        Err(error) => notes.push(format!(
            "{port}: VLAN tags that the far end's kernel puts on frames of '{device}' may be lost: {error}; run \
             `ethtool -K DEV {command}` there"
        )),
    }
}

/// A tap of another program: that one decides what its frames are like, so it can only be told of; but how many frames
/// wait for it is ours to say, and what does not find room is lost in silence.
fn prepare_tap(spec: &PortSpec, link: &LinkFacts, guarded: &mut Guarded, notes: &mut Vec<String>) {
    let (port, device) = (&spec.name, &spec.device);
    if link.vnet_hdr == Some(true) {
        notes.push(format!(
            "{port}: the program behind the tap '{device}' may send frames with unfinished checksums, or of several \
             segments (vnet_hdr): those are dropped. For a guest in QEMU add `vnet_hdr=off` to its `-netdev tap`, or run \
             `ethtool -K DEV tx off` in the guest; `ethtool -K {device}` here does not change what the guest sends"
        ));
    }
    if link.tx_queue_len >= TAP_QUEUE_FRAMES {
        return;
    }
    let longer = LinkChange {
        tx_queue_len: Some(TAP_QUEUE_FRAMES),
        ..LinkChange::default()
    };
    match net::set_link(device, &longer) {
        Ok(()) => {
            guarded.tx_queue_len = Some(link.tx_queue_len);
            notes.push(format!(
                "{port}: the tap '{device}' holds {TAP_QUEUE_FRAMES} frames now instead of {} (`ip link set dev {device} \
                 txqueuelen {TAP_QUEUE_FRAMES}`)",
                link.tx_queue_len
            ));
        }
        Err(error) => notes.push(format!(
            "{port}: the tap '{device}' drops what comes when {} frames wait: {error}; run `ip link set dev {device} \
             txqueuelen {TAP_QUEUE_FRAMES}`",
            link.tx_queue_len
        )),
    }
}

impl Drop for Guarded {
    /// Best effort. A device that is gone costs one system call: the thread that drops a port has frames to move.
    fn drop(&mut self) {
        let Some(netns) = self.netns.take() else { return };
        let untouched =
            self.features.is_none() && !self.arp_was_on && !self.ipv6_was_on && self.tx_queue_len.is_none();
        if untouched || !self.device.exists() {
            return;
        }
        let name = self.device.name();
        let _ = netns.run(|| {
            if let Some(features) = &self.features {
                let _ = ethtool::restore_features(name, features);
            }
            if self.arp_was_on || self.tx_queue_len.is_some() {
                let before = LinkChange {
                    arp: self.arp_was_on.then_some(true),
                    tx_queue_len: self.tx_queue_len,
                    ..LinkChange::default()
                };
                let _ = net::set_link(name, &before);
            }
            if self.ipv6_was_on {
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "0");
            }
        });
    }
}
