//! Devices that did not exist at the start of a switch, or were removed later. When such a device appears, its port
//! gets the MTU of the device, unless the configuration contains an MTU.

use super::missing_device::MissingDevice;
use super::switch_session::{SwitchSession, config_failure, lock, read, with_next_routes};
use crate::workers::RunningSwitch;
use xoff_config::{DeviceMtu, resolve};
use xoff_telemetry::failure::Failure;

impl SwitchSession {
    /// Applies the MTUs of devices that were missing and exist now. A port without `PORT.mtu` then uses the MTU of its
    /// device. Call this function often, because a new device waits for it up to 0.5 s.
    pub fn adopt_mtus_of_new_devices(&self) {
        let mut found = Vec::new();
        let removed = read(&self.running)
            .as_ref()
            .map(RunningSwitch::take_removed_devices);
        let mut missing_devices = lock(&self.missing_devices);
        for device in removed
            .iter()
            .flatten()
            .filter_map(|port| self.device_by_port.get(port))
        {
            if missing_devices.iter().all(|missing| missing.port != device.port) {
                missing_devices.push(device.clone());
            }
        }
        missing_devices.retain(|missing| {
            let mtu = missing.read_mtu();
            found.extend(mtu.map(|mtu| (missing.clone(), mtu)));
            mtu.is_none()
        });
        drop(missing_devices);
        for (MissingDevice { port, device, .. }, mtu) in found {
            if let Err(failure) = self.adopt_device_mtu(&port, DeviceMtu { device, mtu }) {
                log::warn!("{port} keeps its MTU: {failure}");
            }
        }
    }

    fn adopt_device_mtu(&self, port: &str, mtu: DeviceMtu) -> Result<(), Failure> {
        let _change = lock(&self.changing);
        let current = self.current();
        let mut devices = lock(&self.devices).clone();
        devices.missing.remove(port);
        devices.mtu_by_port.insert(port.to_owned(), mtu);
        let options = self.resolve_options(&current, devices.clone());
        let resolved = resolve(&current.db, &options).map_err(config_failure)?;
        let config = with_next_routes(&resolved, &current)?;
        // The configuration is applied even if no MTU changes, because the device waits for its MTU.
        self.use_config(&current, current.db.clone(), config, resolved)?;
        *lock(&self.devices) = devices;
        Ok(())
    }
}
