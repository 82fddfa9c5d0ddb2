//! Devices of this machine that a lab borrows, and gives back as they were.
//!
//! Their state is recorded before anything is changed and handed to every process of the lab: whichever of
//! them is left at the end can give the devices back. Giving back twice does no harm.

use serde::{Deserialize, Serialize};

use xoff_ports::net::ethtool::{self, Features, Offloads, PauseParameters};
use xoff_ports::net::{self, LinkChange};
use xoff_telemetry::failure::Failure;

/// A device, with the state in which it is to be given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BorrowedDevice {
    name: String,
    /// Index, so that another device of the same name is left alone.
    index: u32,
    features: Features,
    pause: Option<PauseParameters>,
    up: bool,
    /// It is not the port itself but the other end of its cable, of which only the offloads matter.
    far_end: bool,
}

/// Records the devices in the calling thread's namespace.
///
/// # Errors
/// A device that is not there, that is part of a bridge, or a user who may not touch it.
pub(super) fn record(names: &[&str]) -> Result<Vec<BorrowedDevice>, Failure> {
    if !names.is_empty() && !nix::unistd::geteuid().is_root() {
        return Err(Failure::environment(format!(
            "the lab uses devices of this machine ({})",
            names.join(", ")
        ))
        .because("only root may change their settings and open them")
        .fix("run it with sudo, or without the external links"));
    }
    let mut devices = Vec::new();
    for name in names {
        let facts = net::read_link(name).map_err(|error| failure(name, &error))?;
        if let Some(master) = &facts.master {
            return Err(Failure::environment(format!("{name} is part of {master}"))
                .because("a bridge or bond takes its frames, and a bridge never forwards PFC")
                .fix(format!(
                    "take it out with `ip link set {name} nomaster`, or use another device"
                )));
        }
        devices.push(record_one(name, false)?);
        // The far end's offloads decide whether its frames come with finished checksums.
        if let (Some(index), None) = (facts.peer_index, facts.peer_netns) {
            let links = net::list_links().map_err(|error| failure(name, &error))?;
            if let Some(far) = links.iter().find(|link| link.index == index) {
                devices.push(record_one(&far.name, true)?);
            }
        }
    }
    Ok(devices)
}

fn record_one(name: &str, far_end: bool) -> Result<BorrowedDevice, Failure> {
    let record = || -> net::Result<BorrowedDevice> {
        let facts = net::read_link(name)?;
        Ok(BorrowedDevice {
            name: name.to_owned(),
            index: facts.index,
            features: ethtool::features(name)?,
            pause: ethtool::pause_parameters(name)?,
            up: facts.up,
            far_end,
        })
    };
    record().map_err(|error| failure(name, &error))
}

impl BorrowedDevice {
    /// Makes the device a port: up, no offloads, no pause of its own. Promiscuity is a membership of the
    /// port's socket and ends with it.
    pub(super) fn take(&self) -> Result<(), Failure> {
        let take = || -> net::Result<()> {
            ethtool::set_offloads(&self.name, &Offloads::OFF)?;
            if self.far_end {
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
        take().map_err(|error| failure(&self.name, &error))
    }

    /// Gives the device back as it was. What fails is said aloud; there is nothing else to be done about it.
    pub(super) fn give_back(&self) {
        match net::read_link(&self.name) {
            Ok(facts) if facts.index == self.index => {}
            // It has gone, or another one has its name now.
            _ => return,
        }
        let mut results = vec![ethtool::restore_features(&self.name, &self.features)];
        if let (Some(pause), false) = (&self.pause, self.far_end) {
            results.push(ethtool::set_pause_parameters(&self.name, pause));
        }
        if !self.up && !self.far_end {
            results.push(net::set_link(
                &self.name,
                &LinkChange {
                    up: Some(false),
                    ..LinkChange::default()
                },
            ));
        }
        for error in results.into_iter().filter_map(Result::err) {
            eprintln!("{}", failure(&self.name, &error));
        }
    }
}

/// Gives all devices back.
pub(super) fn give_back(devices: &[BorrowedDevice]) {
    devices.iter().for_each(BorrowedDevice::give_back);
}

fn failure(name: &str, error: &net::Error) -> Failure {
    Failure::environment(format!("cannot use the external device {name}")).because(error)
}
