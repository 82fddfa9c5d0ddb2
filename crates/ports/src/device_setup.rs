//! Checks a network device and changes its settings before the device becomes a port. The settings are
//! restored when the port closes. Until then, they are stored at the device too ([`SavedSettings`]), because a killed
//! process cannot restore them.
//!
//! The changed settings protect frames against silent changes and losses. Without the changes, a bridge can
//! consume PFC frames, checksums can stay incomplete, several frames can be coalesced, and the kernel can
//! answer frames that are for the switch.

use std::fs;
use std::path::PathBuf;

use crate::net::{self, LinkChange, LinkState, Netns, PeerChange, PeerNamespace, ethtool};

use super::device_claim::DeviceClaim;
use super::device_state::Device;
use super::saved_settings::{SavedSettings, forget_settings};
use super::{PortError, PortSpec};

/// Queue length in frames that the setup gives to a tap device of another program (for example QEMU). The
/// default of the kernel is 500 or 1000 frames.
const TAP_QUEUE_FRAMES: u32 = 10_000;

/// Smallest MTU of a port at which a frame can fill a whole page of memory, in bytes.
const SCATTERED_MTU_MIN: u32 = 3_500;

/// Properties of a device, and its previous settings. Dropping the value restores the previous settings.
#[derive(Debug)]
pub(super) struct DeviceSetup {
    device: Device,
    netns: Option<Netns>,
    /// Whether the device has no queueing discipline. This decides the meaning of the error ENOBUFS. Without
    /// a queueing discipline, the device has dropped and counted the frame. With a queueing discipline, the
    /// frame can be sent again later.
    pub(super) has_no_queue: bool,
    /// Whether received frames have finished checksums. True if the device is hardware, or if the far end is
    /// known to complete checksums.
    pub(super) has_finished_checksums: bool,
    /// Whether the device is a tap. The far end of a tap is a program, usually a virtual machine.
    pub(super) is_tap: bool,
    previous_tx_queue_len: Option<u32>,
    previous_features: Option<ethtool::Features>,
    arp_was_on: bool,
    ipv6_was_on: bool,
    /// Whether the device was administratively down before the setup.
    was_down: bool,
    /// The settings of the far end before the setup. `None` if they were not changed.
    changed_peer: Option<ChangedPeer>,
    /// The exclusive use of the device. It ends after the settings are restored.
    _claim: DeviceClaim,
}

/// The far end of a veth with changed features.
#[derive(Debug)]
struct ChangedPeer {
    /// The path of the namespace of the far end. `None` if both ends are in the same namespace. An open namespace
    /// would keep the far end alive after the user has deleted the namespace.
    netns_path: Option<PathBuf>,
    previous_features: ethtool::Features,
}

/// Checks the device of `spec` and changes its settings. Adds a message to `notes` for each change.
pub(super) fn set_up_device(spec: &PortSpec, notes: &mut Vec<String>) -> Result<DeviceSetup, PortError> {
    let link = check_device(spec)?;
    let claim = DeviceClaim::acquire(spec, link.index)?;
    let mut setup = DeviceSetup {
        device: Device::open(&spec.device)
            .map_err(|error| PortError::io(spec, "find the device", "cap_net_raw", error))?,
        netns: Netns::current().ok(),
        has_no_queue: link.qdisc.as_deref() == Some("noqueue"),
        has_finished_checksums: false,
        is_tap: link.kind.as_deref() == Some("tun"),
        previous_tx_queue_len: None,
        previous_features: None,
        arp_was_on: false,
        ipv6_was_on: false,
        was_down: false,
        changed_peer: None,
        _claim: claim,
    };
    // Done before the device comes up. Otherwise the kernel would already have sent its own frames.
    disable_kernel_protocols(spec, &link, &mut setup, notes);
    disable_own_offloads(spec, &mut setup, notes);
    setup.has_finished_checksums = disable_peer_offloads(spec, &link, &mut setup, notes);
    if setup.is_tap {
        configure_foreign_tap(spec, &link, &mut setup, notes);
    }
    if !link.up {
        let up = LinkChange {
            up: Some(true),
            ..LinkChange::default()
        };
        net::set_link(&spec.device, &up).map_err(|error| PortError::net(spec, error))?;
        setup.was_down = true;
        notes.push(format!(
            "{0}: device '{1}' was down and is up now (`ip link set dev {1} up`)",
            spec.name, spec.device
        ));
    }
    if let Some(saved) = SavedSettings::find(&link) {
        setup.add_saved_settings(saved, &link);
        notes.push(format!(
            "{}: a process that was killed has changed settings of '{}'; they are restored at the end of this one",
            spec.name, spec.device
        ));
    }
    setup.save();
    Ok(setup)
}

/// Checks for problems that a changed setting cannot solve. Returns an error if the device carries no
/// Ethernet frames, belongs to a bridge or has a smaller MTU than the port. Otherwise returns the state of the device.
fn check_device(spec: &PortSpec) -> Result<LinkState, PortError> {
    let link = net::read_link(&spec.device).map_err(|error| PortError::net(spec, error))?;
    let (port, device) = (spec.name.clone(), spec.device.clone());
    if !link.is_ethernet {
        return Err(PortError::NotEthernet { port, device });
    }
    if let Some(master) = link.master {
        return Err(PortError::InBridge { port, device, master });
    }
    if link.mtu < spec.mtu {
        return Err(PortError::mtu_too_small(spec, link.mtu));
    }
    Ok(link)
}

/// Turns off IPv6 and ARP of the kernel on the device of the port. IP addresses are not removed, but `notes`
/// gets a message about them.
fn disable_kernel_protocols(
    spec: &PortSpec,
    link: &LinkState,
    setup: &mut DeviceSetup,
    notes: &mut Vec<String>,
) {
    let (port, device) = (&spec.name, &spec.device);
    if is_ipv6_enabled(device) {
        match net::disable_ipv6(device) {
            Ok(()) => {
                setup.ipv6_was_on = true;
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
                setup.arp_was_on = true;
                notes.push(format!("{port}: ARP on '{device}' is off now (`ip link set dev {device} arp off`)"));
            }
            Err(error) => notes.push(format!(
                "{port}: the kernel answers ARP on '{device}' in addition to xoff: {error}; run `ip link set dev {device} arp off`"
            )),
        }
    }
    if has_address(device) {
        notes.push(format!(
            "{port}: '{device}' has an IP address, so the kernel answers in addition to xoff; run `ip addr flush dev {device}`"
        ));
    }
}

fn is_ipv6_enabled(device: &str) -> bool {
    let path = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "0")
}

/// Returns whether the device has an IPv4 address, or an IPv6 address that is not link-local. Link-local
/// addresses are not counted. The setup turns off IPv6, and the link-local addresses then disappear.
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

/// Turns off the offloads of the device of the port. These offloads coalesce received frames.
///
/// Scatter-gather stays on if the port has a large MTU. In this case, a packet socket stores a frame of a
/// page or more in several pieces. Without scatter-gather, the kernel would copy the pieces of each frame to
/// new memory.
fn disable_own_offloads(spec: &PortSpec, setup: &mut DeviceSetup, notes: &mut Vec<String>) {
    let (port, device) = (&spec.name, &spec.device);
    let has_long_frames = spec.mtu >= SCATTERED_MTU_MIN;
    let disable = || -> net::Result<Option<ethtool::Features>> {
        let now = ethtool::offloads(device)?;
        let wanted = ethtool::Offloads {
            sg: now.sg && has_long_frames,
            ..ethtool::Offloads::OFF
        };
        if now == wanted {
            return Ok(None);
        }
        let previous = ethtool::features(device)?;
        ethtool::set_offloads(device, &wanted)?;
        Ok(Some(previous))
    };
    match disable() {
        Ok(None) => {}
        Ok(previous) => {
            setup.previous_features = previous;
            let sg = if has_long_frames { "" } else { "sg off " };
            notes.push(format!(
                "{port}: offloads of '{device}' are off now (`ethtool -K {device} rx off tx off {sg}tso off gso off gro off lro off`)"
            ));
        }
        Err(error) => notes.push(format!(
            "{port}: some offloads of '{device}' could not be turned off: {error}; coalesced frames will be dropped"
        )),
    }
}

/// Turns off the offloads of the other end of a veth pair. With these offloads, the kernel at the other end
/// would send superframes and incomplete checksums. Returns whether received frames have finished checksums
/// from now on.
fn disable_peer_offloads(
    spec: &PortSpec,
    link: &LinkState,
    setup: &mut DeviceSetup,
    notes: &mut Vec<String>,
) -> bool {
    let (port, device) = (&spec.name, &spec.device);
    let found = net::peer_namespace(link);
    let netns = found.as_ref().map(|found| &found.netns);
    match net::disable_peer_offloads(device, netns.as_slice()) {
        Ok(PeerChange::Applied { peer, previous }) => {
            if let Some(previous) = previous {
                let far_end = describe_far_end(&peer, found.as_ref());
                let prefix = command_prefix(found.as_ref());
                notes.push(format!(
                    "{port}: offloads of the far end of '{device}' ({far_end}) are off now (`{prefix}ethtool -K {peer} tx off`)"
                ));
                setup.record_peer(found, previous);
            }
            true
        }
        Ok(PeerChange::Unreachable { peer_index }) => {
            notes.push(format!(
                "{port}: the far end of '{device}' (index {peer_index}) is in another namespace; if frames are dropped \
                 for unfinished checksums, run `ethtool -K DEV tx off` there"
            ));
            false
        }
        // A program behind a tap may leave checksums to this end. Hardware completes them.
        Ok(PeerChange::NotVeth) => link.kind.as_deref() != Some("tun"),
        Err(error) => {
            notes.push(format!(
                "{port}: offloads of the far end of '{device}' could not be turned off: {error}"
            ));
            false
        }
    }
}

/// Makes the far end of a veth pair write VLAN tags into its frames. Otherwise a tag is only in the metadata
/// of the frame, and some backends cannot read this metadata.
pub(super) fn enable_inline_vlan_tags(spec: &PortSpec, setup: &mut DeviceSetup, notes: &mut Vec<String>) {
    let (port, device) = (&spec.name, &spec.device);
    let enable = || -> net::Result<(PeerChange, Option<PeerNamespace>)> {
        let found = net::peer_namespace(&net::read_link(device)?);
        let netns = found.as_ref().map(|found| &found.netns);
        Ok((net::enable_inline_peer_tags(device, netns.as_slice())?, found))
    };
    let command = "txvlan off tx-vlan-stag-hw-insert off";
    match enable() {
        Ok((
            PeerChange::Applied {
                peer,
                previous: Some(previous),
            },
            found,
        )) => {
            let far_end = describe_far_end(&peer, found.as_ref());
            let prefix = command_prefix(found.as_ref());
            notes.push(format!(
                "{port}: the far end of '{device}' ({far_end}) writes VLAN tags into its frames now (`{prefix}ethtool -K \
                 {peer} {command}`)"
            ));
            setup.record_peer(found, previous);
            setup.save();
        }
        Ok((PeerChange::Applied { .. } | PeerChange::NotVeth, _)) => {}
        Ok((PeerChange::Unreachable { peer_index }, _)) => notes.push(format!(
            "{port}: the far end of '{device}' (index {peer_index}) is in another namespace; frames that its kernel tags \
             would arrive without their tag: run `ethtool -K DEV {command}` there"
        )),
        Err(error) => notes.push(format!(
            "{port}: VLAN tags that the kernel of the far end adds to frames of '{device}' may be lost: {error}; run \
             `ethtool -K DEV {command}` there"
        )),
    }
}

/// Names the far end of a veth, with its namespace: several namespaces can have a device of the same name.
fn describe_far_end(peer: &str, netns: Option<&PeerNamespace>) -> String {
    match netns {
        Some(found) => format!("'{peer}' in {}", found.describe()),
        None => format!("'{peer}'"),
    }
}

/// Returns the words before a command for the far end, or nothing if both ends are in the same namespace.
fn command_prefix(netns: Option<&PeerNamespace>) -> String {
    netns.map_or_else(String::new, PeerNamespace::command_prefix)
}

/// Increases the queue length of a tap that another program owns. A tap with a full queue silently
/// drops frames.
///
/// The owner of the tap, such as QEMU, decides about checksum and segmentation offloads. The function does
/// not change these offloads, but adds a note about them.
fn configure_foreign_tap(
    spec: &PortSpec,
    link: &LinkState,
    setup: &mut DeviceSetup,
    notes: &mut Vec<String>,
) {
    let (port, device) = (&spec.name, &spec.device);
    if link.vnet_hdr == Some(true) {
        notes.push(format!(
            "{port}: the program behind the tap '{device}' may send frames with unfinished checksums, or with several \
             segments (vnet_hdr). These frames are dropped. For a guest in QEMU add `vnet_hdr=off` to its `-netdev tap`, \
             or run `ethtool -K DEV tx off` in the guest; `ethtool -K {device}` here does not change what the guest sends"
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
            setup.previous_tx_queue_len = Some(link.tx_queue_len);
            notes.push(format!(
                "{port}: the tap '{device}' holds {TAP_QUEUE_FRAMES} frames now instead of {} (`ip link set dev {device} \
                 txqueuelen {TAP_QUEUE_FRAMES}`)",
                link.tx_queue_len
            ));
        }
        Err(error) => notes.push(format!(
            "{port}: the tap '{device}' drops frames that exceed its queue length of {}: {error}; run `ip link set dev {device} \
             txqueuelen {TAP_QUEUE_FRAMES}`",
            link.tx_queue_len
        )),
    }
}

impl DeviceSetup {
    /// Adds the settings that an earlier process has changed and not restored, as far as they are still changed.
    fn add_saved_settings(&mut self, saved: SavedSettings, link: &LinkState) {
        self.arp_was_on |= saved.arp_was_on;
        self.ipv6_was_on |= saved.ipv6_was_on;
        self.was_down |= saved.was_down && link.up;
        let is_queue_changed = link.tx_queue_len == TAP_QUEUE_FRAMES;
        self.previous_tx_queue_len = self
            .previous_tx_queue_len
            .or(saved.tx_queue_len.filter(|_| is_queue_changed));
        self.previous_features = saved.features.or_else(|| self.previous_features.take());
        if let Some(previous_features) = saved.peer_features {
            let netns_path = self.changed_peer.take().and_then(|peer| peer.netns_path);
            self.changed_peer = Some(ChangedPeer {
                netns_path,
                previous_features,
            });
        }
    }

    /// Returns the settings that [`Drop`] restores.
    fn saved_settings(&self) -> SavedSettings {
        SavedSettings {
            tx_queue_len: self.previous_tx_queue_len,
            features: self.previous_features.clone(),
            peer_features: self
                .changed_peer
                .as_ref()
                .map(|peer| peer.previous_features.clone()),
            arp_was_on: self.arp_was_on,
            ipv6_was_on: self.ipv6_was_on,
            was_down: self.was_down,
        }
    }

    /// Stores the previous settings at the device, for the case that this process is killed. Kernels without
    /// alternative names keep the changed settings then.
    fn save(&self) {
        if let Ok(link) = net::read_link(self.device.name()) {
            let _ = self.saved_settings().store(&link);
        }
    }

    /// Stores the features that the far end had before its first change.
    fn record_peer(&mut self, netns: Option<PeerNamespace>, previous_features: ethtool::Features) {
        self.changed_peer.get_or_insert(ChangedPeer {
            netns_path: netns.map(|found| found.path().to_owned()),
            previous_features,
        });
    }
}

impl ChangedPeer {
    /// Restores the features of the far end of `device`, which is in the namespace of the calling thread. Does
    /// nothing if the far end cannot be found.
    fn restore(&self, device: &str) {
        let restore = |netns: Option<&Netns>| {
            net::restore_peer_features(device, netns.as_slice(), &self.previous_features)
        };
        let path = self.netns_path.as_ref();
        let netns = path.and_then(|path| Some(Netns::from_fd(fs::File::open(path).ok()?.into())));
        if let Ok(PeerChange::Unreachable { .. }) = restore(netns.as_ref())
            && let Ok(link) = net::read_link(device)
        {
            // The process that gave the namespace its path has ended.
            let _ = restore(net::peer_namespace(&link).as_ref().map(|found| &found.netns));
        }
    }
}

impl Drop for DeviceSetup {
    /// Restores the previous settings and ignores errors. The thread that drops a port also forwards frames.
    /// If the device was removed, the function therefore makes only one system call.
    fn drop(&mut self) {
        let Some(netns) = self.netns.take() else { return };
        let is_unchanged = self.saved_settings() == SavedSettings::default();
        if is_unchanged || !self.device.exists() {
            return;
        }
        let name = self.device.name();
        let _ = netns.run(|| {
            if let Some(features) = &self.previous_features {
                let _ = ethtool::restore_features(name, features);
            }
            // The device goes down before IPv6 is on again. Otherwise the kernel would send frames of its own.
            let previous = LinkChange {
                up: self.was_down.then_some(false),
                arp: self.arp_was_on.then_some(true),
                tx_queue_len: self.previous_tx_queue_len,
                ..LinkChange::default()
            };
            if previous != LinkChange::default() {
                let _ = net::set_link(name, &previous);
            }
            if self.ipv6_was_on {
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "0");
            }
            if let Some(peer) = &self.changed_peer {
                peer.restore(name);
            }
            let _ = forget_settings(name);
        });
    }
}
