//! Changes the settings of external devices (network devices of the machine that a lab uses as switch ports).
//! Restores the settings at the end of the lab.
//!
//! The original settings are recorded before any change, and all processes of the lab receive them. If the
//! launcher is killed, another process can therefore restore the devices. It does no harm if two processes
//! restore the same device.

use serde::{Deserialize, Serialize};

use xoff_ports::net::ethtool::{self, Features, Offloads, PauseParameters};
use xoff_ports::net::{self, LinkChange};
use xoff_telemetry::failure::Failure;

/// An external device with the settings that it had before the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedExternalDevice {
    name: String,
    /// Interface index of the device. Another device can later have the same name, but not the same index.
    index: u32,
    features: Features,
    pause: Option<PauseParameters>,
    up: bool,
    /// Whether the device is the veth peer of an external device. If so, the lab changes the offloads of the
    /// device but none of its other settings.
    is_peer: bool,
}

/// Records the settings of a device in the network namespace of the calling thread, and those of its peer if it is a
/// veth whose peer is in the same namespace.
///
/// # Errors
/// Fails if the device does not exist or is part of a bridge or bond, or if the user is not root.
pub(super) fn record_device_and_peer(name: &str) -> Result<Vec<SavedExternalDevice>, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err(
            Failure::environment(format!("the lab uses the device {name} of this machine"))
                .because("only root may change its settings and open it")
                .fix("run it with sudo, or without the external links"),
        );
    }
    let facts = net::read_link(name).map_err(|error| device_failure(name, &error))?;
    if !facts.is_ethernet {
        return Err(Failure::environment(format!("{name} is not an Ethernet device"))
            .fix("name a veth, a tap or a network card: `ip -br link` lists the devices"));
    }
    if let Some(master) = &facts.master {
        return Err(Failure::environment(format!("{name} is part of {master}"))
            .because("a bridge or bond receives its frames, and a bridge never forwards PFC frames")
            .fix(format!(
                "remove it with `ip link set {name} nomaster`, or use another device"
            )));
    }
    let mut devices = vec![record_device(name, false)?];
    // The offloads of the peer decide whether its frames arrive with complete checksums.
    if let (Some(index), None) = (facts.peer_index, facts.peer_netns) {
        let links = net::list_links().map_err(|error| device_failure(name, &error))?;
        if let Some(peer) = links.iter().find(|link| link.index == index) {
            devices.push(record_device(&peer.name, true)?);
        }
    }
    Ok(devices)
}

fn record_device(name: &str, is_peer: bool) -> Result<SavedExternalDevice, Failure> {
    let record = || -> net::Result<SavedExternalDevice> {
        let facts = net::read_link(name)?;
        Ok(SavedExternalDevice {
            name: name.to_owned(),
            index: facts.index,
            features: ethtool::features(name)?,
            pause: ethtool::pause_parameters(name)?,
            up: facts.up,
            is_peer,
        })
    };
    record().map_err(|error| device_failure(name, &error))
}

impl SavedExternalDevice {
    /// Prepares the device as a switch port: sets the link up and disables offloads and 802.3x PAUSE. The
    /// socket of the port enables promiscuous mode later. This mode ends when the socket closes.
    ///
    /// # Errors
    /// Fails if the kernel rejects a setting.
    pub(super) fn prepare_as_port(&self) -> Result<(), Failure> {
        let prepare = || -> net::Result<()> {
            ethtool::set_offloads(&self.name, &Offloads::OFF)?;
            if self.is_peer {
                return Ok(());
            }
            if self.pause.is_some_and(|pause| pause.rx || pause.tx) {
                ethtool::set_pause_parameters(
                    &self.name,
                    &PauseParameters {
                        autoneg: false,
                        rx: false,
                        tx: false,
                    },
                )?;
            }
            if !self.up {
                net::set_link(
                    &self.name,
                    &LinkChange {
                        up: Some(true),
                        ..LinkChange::default()
                    },
                )?;
            }
            Ok(())
        };
        prepare().map_err(|error| device_failure(&self.name, &error))
    }

    /// Restores the settings of the device and logs failures. Does nothing if the device was removed.
    pub(super) fn restore(&self) {
        match net::read_link(&self.name) {
            Ok(facts) if facts.index == self.index => {}
            // The device was removed, or another device has its name.
            _ => return,
        }
        let mut results = vec![ethtool::restore_features(&self.name, &self.features)];
        if let (Some(pause), false) = (&self.pause, self.is_peer) {
            results.push(ethtool::set_pause_parameters(&self.name, pause));
        }
        if !self.up && !self.is_peer {
            results.push(net::set_link(
                &self.name,
                &LinkChange {
                    up: Some(false),
                    ..LinkChange::default()
                },
            ));
        }
        for error in results.into_iter().filter_map(Result::err) {
            log::error!("{}", device_failure(&self.name, &error));
        }
    }
}

/// Restores the settings of all devices.
pub(super) fn restore_devices(devices: &[SavedExternalDevice]) {
    devices.iter().for_each(SavedExternalDevice::restore);
}

fn device_failure(name: &str, error: &net::Error) -> Failure {
    let failure = Failure::environment(format!("cannot use the external device {name}"));
    match error {
        net::Error::NoSuchLink { .. } => failure
            .because("this network namespace has no such device")
            .fix("look at `ip link`, and check the namespace"),
        _ => failure.because(error),
    }
}
