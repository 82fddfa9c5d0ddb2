//! The device watcher is a thread that opens devices that were missing at the start or were removed later. A
//! separate thread is necessary, because the kernel needs milliseconds to open a device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use xoff_dataplane::{Picos, PortId};

use xoff_ports::net::Netns;
use xoff_ports::{Arena, OpenedPort, Port, PortError, PortSpec, read_device_mtu};

/// Time between two attempts to open a missing device.
const RETRY: Duration = Duration::from_millis(100);
/// Number of attempts for which a new device waits for the MTU of its port. The session of the switch needs less
/// time to set this MTU.
const MTU_ATTEMPTS_MAX: u8 = 5;

/// A switch port and its device, with the network namespace of the device and the delay of the link.
#[derive(Clone, Debug)]
pub struct AttachedPort {
    /// The index of the port in the configuration of the switch.
    pub id: PortId,
    /// The names of port and device, the port backend and the MTU.
    pub spec: PortSpec,
    /// The network namespace of the device. `None` means the namespace of the thread that starts the switch.
    pub netns: Option<Arc<Netns>>,
    /// The one-way delay of the link in model time.
    pub delay: Picos,
    /// Whether the device does not exist yet and the session sets the MTU of the port when the device appears.
    pub awaits_mtu: bool,
}

impl AttachedPort {
    /// Returns the MTU of the device in bytes. Returns `None` if the device does not exist or its MTU cannot be
    /// read.
    pub(crate) fn device_mtu(&self) -> Option<u32> {
        let read = || read_device_mtu(&self.spec.device).ok().flatten();
        match &self.netns {
            None => read(),
            Some(netns) => netns.run(read).ok().flatten(),
        }
    }

    /// Opens the device in its namespace.
    pub(crate) fn open(&self) -> Result<OpenedPort, PortError> {
        match &self.netns {
            None => Port::open(&self.spec),
            Some(netns) => netns
                .run(|| Port::open(&self.spec))
                .map_err(|source| PortError::Net {
                    port: self.spec.name.clone(),
                    source,
                })?,
        }
    }
}

/// A request to the device watcher.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceRequest {
    /// Open the device of a port as soon as the device exists.
    Open(PortId),
    /// Use this MTU in bytes when the device of the port is opened the next time.
    SetMtu(PortId, u32),
}

/// A device that was opened for a port.
#[derive(Debug)]
pub(crate) struct OpenedDevice {
    pub(crate) port: PortId,
    pub(crate) device: Box<Port>,
}

/// Opens missing devices. Returns when every [`PortSet`](super::port_set::PortSet) is dropped. `owners` are
/// the channels to the port sets, by port. `arena` contains the frame slots of the ports.
pub(crate) fn watch_devices(
    mut attached: BTreeMap<PortId, AttachedPort>,
    owners: BTreeMap<PortId, Sender<OpenedDevice>>,
    requests: Receiver<DeviceRequest>,
    arena: &Arc<Arena>,
) {
    let mut missing: Vec<PortId> = Vec::new();
    // The last error of each device, so that an error is printed once and not ten times a second.
    let mut last_errors: BTreeMap<PortId, String> = BTreeMap::new();
    let mut mtu_attempts: BTreeMap<PortId, u8> = BTreeMap::new();
    loop {
        let request = if missing.is_empty() {
            requests.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            requests.recv_timeout(RETRY)
        };
        match request {
            Ok(DeviceRequest::Open(port)) if !missing.contains(&port) => missing.push(port),
            Ok(DeviceRequest::Open(_)) => {}
            Ok(DeviceRequest::SetMtu(port, mtu)) => {
                if let Some(attached) = attached.get_mut(&port) {
                    attached.spec.mtu = mtu;
                    attached.awaits_mtu = false;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                missing.retain(|port| {
                    must_wait_for_mtu(&attached, *port, &mut mtu_attempts)
                        || !try_open_device(&attached, &owners, *port, &mut last_errors, arena)
                });
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Returns whether a device that has just appeared waits for the MTU of its port. Without this wait, the device would
/// be opened with the wrong MTU, and then again.
fn must_wait_for_mtu(
    attached: &BTreeMap<PortId, AttachedPort>,
    port: PortId,
    attempts: &mut BTreeMap<PortId, u8>,
) -> bool {
    let waiting = attached.get(&port).filter(|attached| attached.awaits_mtu);
    if waiting.is_none_or(|attached| attached.device_mtu().is_none()) {
        return false;
    }
    let attempt = attempts.entry(port).or_default();
    *attempt = attempt.saturating_add(1);
    *attempt <= MTU_ATTEMPTS_MAX
}

fn try_open_device(
    attached: &BTreeMap<PortId, AttachedPort>,
    owners: &BTreeMap<PortId, Sender<OpenedDevice>>,
    port: PortId,
    last_errors: &mut BTreeMap<PortId, String>,
    arena: &Arc<Arena>,
) -> bool {
    let (Some(attached_port), Some(owner)) = (attached.get(&port), owners.get(&port)) else {
        return true;
    };
    let opened = attached_port.open().and_then(|mut opened| {
        opened.port.attach(arena)?;
        Ok(opened)
    });
    match opened {
        Ok(opened) => {
            last_errors.remove(&port);
            opened.notes.iter().for_each(|note| log::info!("{note}"));
            let device = Box::new(opened.port);
            owner.send(OpenedDevice { port, device }).is_ok()
        }
        Err(error) if error.is_absent() => false,
        Err(error) => {
            let message = error.to_string();
            if last_errors.get(&port) != Some(&message) {
                log::warn!(
                    "the device is back, and {} stays down: {message}",
                    attached_port.spec.name
                );
                last_errors.insert(port, message);
            }
            false
        }
    }
}
