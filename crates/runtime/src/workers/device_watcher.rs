//! The device watcher is a thread that opens devices that were missing at the start or were removed later. A
//! separate thread is necessary, because the kernel needs milliseconds to open a device.

use std::collections::{BTreeMap, BTreeSet};
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
const MTU_ATTEMPTS_MAX: u8 = 9;

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
    /// Whether the session sets the MTU of the port each time its device appears.
    pub adopts_mtu: bool,
    /// Whether the device does not exist and the session sets the MTU of the port when the device appears.
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
    /// The device of a port was removed. Open the device again as soon as it exists.
    OpenRemoved(PortId),
    /// Use this MTU in bytes when the device of the port is opened the next time.
    SetMtu(PortId, u32),
}

/// A device that was opened for a port.
#[derive(Debug)]
pub(crate) struct OpenedDevice {
    pub(crate) port: PortId,
    /// The MTU in bytes with which the device was opened.
    pub(crate) mtu: u32,
    pub(crate) device: Box<Port>,
}

/// Opens missing devices, and reports removed devices.
#[derive(Debug)]
pub(crate) struct DeviceWatcher {
    /// The ports with devices.
    attached: BTreeMap<PortId, AttachedPort>,
    /// The channels to the port sets, by port.
    owners: BTreeMap<PortId, Sender<OpenedDevice>>,
    /// The frame slots of the ports.
    arena: Arc<Arena>,
    /// Channel to the session: the ports whose device was removed and whose MTU the session sets.
    removed: Sender<PortId>,
    missing: Vec<PortId>,
    /// The last error of each device, so that an error is printed once and not ten times a second.
    last_errors: BTreeMap<PortId, String>,
    /// Number of attempts for which a new device has waited for its MTU.
    mtu_attempts: BTreeMap<PortId, u8>,
    /// The ports that were without a device, because it was missing at the start or was removed.
    detached: BTreeSet<PortId>,
}

impl DeviceWatcher {
    /// Creates a watcher for these ports.
    pub(crate) fn new(
        attached: BTreeMap<PortId, AttachedPort>,
        owners: BTreeMap<PortId, Sender<OpenedDevice>>,
        arena: Arc<Arena>,
        removed: Sender<PortId>,
    ) -> DeviceWatcher {
        DeviceWatcher {
            attached,
            owners,
            arena,
            removed,
            missing: Vec::new(),
            last_errors: BTreeMap::new(),
            mtu_attempts: BTreeMap::new(),
            detached: BTreeSet::new(),
        }
    }

    /// Handles requests until every [`PortSet`](super::port_set::PortSet) is dropped.
    pub(crate) fn run(mut self, requests: &Receiver<DeviceRequest>) {
        loop {
            let request = if self.missing.is_empty() {
                requests.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                requests.recv_timeout(RETRY)
            };
            match request {
                Ok(request) => self.handle_request(request),
                Err(RecvTimeoutError::Timeout) => {
                    let missing = std::mem::take(&mut self.missing);
                    self.missing = missing
                        .into_iter()
                        .filter(|port| self.must_wait_for_mtu(*port) || !self.try_open(*port))
                        .collect();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn handle_request(&mut self, request: DeviceRequest) {
        match request {
            DeviceRequest::Open(port) => self.add_missing(port),
            DeviceRequest::OpenRemoved(port) => {
                self.report_removal(port);
                self.add_missing(port);
            }
            DeviceRequest::SetMtu(port, mtu) => {
                if let Some(attached) = self.attached.get_mut(&port) {
                    attached.spec.mtu = mtu;
                    attached.awaits_mtu = false;
                }
            }
        }
    }

    fn add_missing(&mut self, port: PortId) {
        if !self.missing.contains(&port) {
            self.missing.push(port);
        }
    }

    /// Prints that the device of a port was removed. The next device of this name can have another MTU, so the
    /// session sets the MTU of the port again.
    fn report_removal(&mut self, port: PortId) {
        let Some(attached) = self.attached.get_mut(&port) else {
            return;
        };
        let (name, device) = (&attached.spec.name, &attached.spec.device);
        log::warn!(
            "{name}: device '{device}' was removed or moved to another namespace; {name} is down until a device of this \
             name exists"
        );
        self.detached.insert(port);
        if attached.adopts_mtu {
            attached.awaits_mtu = true;
            self.mtu_attempts.remove(&port);
            // The session may have ended.
            let _ = self.removed.send(port);
        }
    }

    /// Returns whether a device that has just appeared waits for the MTU of its port. Without this wait, the device
    /// would be opened with the wrong MTU, and then again.
    fn must_wait_for_mtu(&mut self, port: PortId) -> bool {
        let waiting = self.attached.get(&port).filter(|attached| attached.awaits_mtu);
        if waiting.is_none_or(|attached| attached.device_mtu().is_none()) {
            return false;
        }
        let attempt = self.mtu_attempts.entry(port).or_default();
        *attempt = attempt.saturating_add(1);
        *attempt <= MTU_ATTEMPTS_MAX
    }

    /// Opens the device of a port and passes it to the port set. Returns false if the device is still missing or
    /// cannot be used.
    fn try_open(&mut self, port: PortId) -> bool {
        let (Some(attached_port), Some(owner)) = (self.attached.get(&port), self.owners.get(&port)) else {
            return true;
        };
        let (name, mtu) = (&attached_port.spec.name, attached_port.spec.mtu);
        let opened = attached_port.open().and_then(|mut opened| {
            opened.port.attach(&self.arena)?;
            Ok(opened)
        });
        match opened {
            Ok(opened) => {
                self.last_errors.remove(&port);
                if self.detached.remove(&port) {
                    log::info!("{name}: device '{}' is attached", attached_port.spec.device);
                }
                opened.notes.iter().for_each(|note| log::info!("{note}"));
                let device = Box::new(opened.port);
                owner.send(OpenedDevice { port, mtu, device }).is_ok()
            }
            Err(error) if error.is_absent() => {
                self.detached.insert(port);
                false
            }
            Err(error) => {
                let message = error.to_string();
                if self.last_errors.get(&port) != Some(&message) {
                    log::warn!("the device is back, and {name} stays down: {message}");
                    self.last_errors.insert(port, message);
                }
                false
            }
        }
    }
}
