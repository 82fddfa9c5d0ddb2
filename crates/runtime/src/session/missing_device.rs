//! A port whose device is missing: it did not exist at the start of the switch, or was removed later.

use std::sync::Arc;

use xoff_ports::net::Netns;
use xoff_ports::read_device_mtu;

/// A port and its device, which did not exist at the start of the switch or was removed later.
#[derive(Clone, Debug)]
pub(super) struct MissingDevice {
    pub(super) port: String,
    pub(super) device: String,
    /// The network namespace of the device. `None` means that of the calling thread.
    pub(super) netns: Option<Arc<Netns>>,
}

impl MissingDevice {
    /// Returns the MTU of the device in bytes, or `None` as long as the device does not exist.
    pub(super) fn read_mtu(&self) -> Option<u32> {
        let read = || read_device_mtu(&self.device).ok().flatten();
        match &self.netns {
            None => read(),
            Some(netns) => netns.run(read).ok().flatten(),
        }
    }
}
