//! Reads the speed of a device, through an ioctl of ethtool (`linux/ethtool.h`).

use super::ethtool::ioctl;
use super::{Error, Result};

/// `ETHTOOL_GSET`. Every kernel answers it, also for drivers with the newer `ETHTOOL_GLINKSETTINGS`.
const ETHTOOL_GSET: u32 = 0x01;
/// `SPEED_UNKNOWN` of the kernel.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// Reads the speed of the link `name` in Mb/s. Returns `None` if the driver does not report a speed, or if the
/// link is down and has no speed. The speed of a virtual device is a nominal value: 10 000 for a veth.
///
/// # Errors
/// Returns [`Error::NoSuchLink`] if the namespace has no link of this name, [`Error::BadName`] if the name is
/// not valid, or another [`Error`] if the kernel refuses the request.
pub fn read_link_speed_mbps(name: &str) -> Result<Option<u32>> {
    /// `struct ethtool_cmd`.
    #[repr(C)]
    #[derive(Default)]
    struct SettingsReadRequest {
        command: u32,
        link_modes: [u32; 2],
        speed: u16,
        connector: [u8; 6],
        max_packets: [u32; 2],
        speed_high: u16,
        crossover: [u8; 2],
        peer_link_modes: u32,
        reserved: [u32; 2],
    }
    let mut get = SettingsReadRequest {
        command: ETHTOOL_GSET,
        ..SettingsReadRequest::default()
    };
    match ioctl(name, &mut get, "read the speed") {
        Ok(()) => {
            let speed = u32::from(get.speed_high) << 16 | u32::from(get.speed);
            // Some drivers report the 16 bits of an unknown speed only.
            let is_known = !matches!(speed, 0 | 0xffff | SPEED_UNKNOWN);
            Ok(is_known.then_some(speed))
        }
        // A driver without settings refuses the request, and some drivers refuse it while the link is down.
        Err(Error::Refused {
            errno: libc::EOPNOTSUPP | libc::EINVAL,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}
