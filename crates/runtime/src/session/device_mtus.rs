//! The MTUs of the devices of a running switch. A device can appear after the start, can be removed and created again,
//! and its MTU can change. A port without an MTU in the configuration follows its device. A written MTU stays, and a
//! smaller MTU of the device is reported.

use std::time::{Duration, Instant};

use super::missing_device::MissingDevice;
use super::switch_session::{SwitchSession, config_failure, lock, read, with_next_routes};
use crate::workers::RunningSwitch;
use xoff_config::{DeviceMtu, describe_lost_frames, resolve};
use xoff_telemetry::failure::Failure;

/// Time between two reads of the MTUs of existing devices.
const READ_INTERVAL: Duration = Duration::from_millis(500);

impl SwitchSession {
    /// Applies the MTUs of devices that have appeared, and of devices whose MTU has changed. Call this function often,
    /// because a new device waits for it up to 0.9 s.
    pub fn follow_device_mtus(&self) {
        let mut found = self.find_new_devices();
        found.extend(self.find_changed_devices());
        for (MissingDevice { port, device, .. }, mtu) in found {
            if let Err(failure) = self.use_device_mtu(&port, DeviceMtu::new(device, mtu)) {
                log::warn!("{port} keeps its MTU: {failure}");
            }
        }
    }

    /// Returns the devices that were missing and exist now, with their MTUs.
    fn find_new_devices(&self) -> Vec<(MissingDevice, u32)> {
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
        found
    }

    /// Returns the existing devices whose MTU differs from the last one. The devices are read twice a second.
    fn find_changed_devices(&self) -> Vec<(MissingDevice, u32)> {
        let mut last_read = lock(&self.device_mtus_read_at);
        if last_read.is_some_and(|at| at.elapsed() < READ_INTERVAL) {
            return Vec::new();
        }
        *last_read = Some(Instant::now());
        drop(last_read);
        let devices = lock(&self.devices).clone();
        let missing: Vec<String> = lock(&self.missing_devices)
            .iter()
            .map(|missing| missing.port.clone())
            .collect();
        let changed = |device: &MissingDevice| {
            let known = devices.mtu_by_port.get(&device.port)?;
            let mtu = device.read_mtu().filter(|mtu| *mtu != known.mtu)?;
            Some((device.clone(), mtu))
        };
        let existing = self.device_by_port.values();
        existing
            .filter(|device| !missing.contains(&device.port))
            .filter_map(changed)
            .collect()
    }

    /// Makes the MTU of a device the default of its port. A written MTU stays, also if the device is too small for it.
    fn use_device_mtu(&self, port: &str, mut device_mtu: DeviceMtu) -> Result<(), Failure> {
        let _change = lock(&self.changing);
        let current = self.current();
        let mut devices = lock(&self.devices).clone();
        let port_mtu = |ports: &[xoff_dataplane::config::PortConfig]| {
            let port = ports.iter().find(|candidate| candidate.name == port);
            port.map_or(0, |port| port.mtu)
        };
        let before = port_mtu(&current.config.ports);
        device_mtu.outlived_port_mtu = (before > device_mtu.mtu).then_some(before);
        devices.missing.remove(port);
        let known = devices.mtu_by_port.insert(port.to_owned(), device_mtu.clone());
        let options = self.resolve_options(&current, devices.clone());
        let resolved = resolve(&current.db, &options).map_err(config_failure)?;
        let config = with_next_routes(&resolved, &current)?;
        let after = port_mtu(&config.ports);
        // The configuration is applied even if no MTU changes, because a new device waits for its MTU.
        self.use_config(&current, current.db.clone(), config, resolved)?;
        if let Some(stored) = devices
            .mtu_by_port
            .get_mut(port)
            .filter(|stored| after <= stored.mtu)
        {
            stored.outlived_port_mtu = None;
        }
        *lock(&self.devices) = devices;
        if after > device_mtu.mtu {
            log::warn!("{port}: {}", describe_lost_frames(port, &device_mtu, after));
        } else if let Some(known) = known.filter(|_| before != after) {
            log::info!(
                "{port}: device '{}' has MTU {} now (was {}), and the port uses MTU {after}",
                device_mtu.device,
                device_mtu.mtu,
                known.mtu
            );
        }
        Ok(())
    }
}
