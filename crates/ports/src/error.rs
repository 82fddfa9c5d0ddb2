//! Why a port cannot be opened.

use std::io;

use super::{MTU_MAX, PortSpec};

/// Why a port cannot be opened: what, where, why, and how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// There is no such device in this namespace.
    #[error(
        "port {port}: there is no network device '{device}' in this namespace; look at `ip link`, or let xoff make \
         a tap of that name with backend=tap"
    )]
    NoSuchDevice {
        /// The port.
        port: String,
        /// The device.
        device: String,
    },
    /// The device is a port of a bridge, bond or the like.
    #[error(
        "port {port}: device '{device}' belongs to '{master}', which takes its frames first and eats PFC; release it \
         with `ip link set dev {device} nomaster`"
    )]
    InBridge {
        /// The port.
        port: String,
        /// The device.
        device: String,
        /// What it belongs to.
        master: String,
    },
    /// The process may not do what the backend needs.
    #[error(
        "port {port}: not permitted to {action} on '{device}'; it takes {capability}: run as root, inside a user \
         namespace (`unshare -Urn`), or after `setcap {capability}+ep` on the program"
    )]
    NoPrivilege {
        /// The port.
        port: String,
        /// The device.
        device: String,
        /// What was tried.
        action: &'static str,
        /// The capability it takes.
        capability: &'static str,
    },
    /// The device would refuse frames that the port may forward.
    #[error(
        "port {port}: device '{device}' has MTU {device_mtu}, the port {port_mtu}: longer frames would be lost; run \
         `ip link set dev {device} mtu {port_mtu}` (and on its far end), or lower PORT|{port}|mtu"
    )]
    MtuTooSmall {
        /// The port.
        port: String,
        /// The device.
        device: String,
        /// MTU of the device, octets.
        device_mtu: u32,
        /// MTU of the port, octets.
        port_mtu: u32,
    },
    /// The port's MTU is out of range.
    #[error("port {port}: mtu {mtu} is out of range: 68 to {MTU_MAX} octets")]
    MtuOutOfRange {
        /// The port.
        port: String,
        /// The MTU asked for, octets.
        mtu: u32,
    },
    /// Another process has the tap.
    #[error(
        "port {port}: the tap '{device}' is in use by another process; open its netdev with backend=packet, or stop \
         that process"
    )]
    Busy {
        /// The port.
        port: String,
        /// The device.
        device: String,
    },
    /// The device exists, but is not a tap.
    #[error("port {port}: device '{device}' is no tap; open it with backend=packet, or choose another name")]
    NotATap {
        /// The port.
        port: String,
        /// The device.
        device: String,
    },
    /// The device or the kernel cannot do what backend `xdp` takes.
    #[error("port {port}: backend xdp cannot drive '{device}': {why}; {fix}, or use backend=packet")]
    NoXdp {
        /// The port.
        port: String,
        /// The device.
        device: String,
        /// What stands in the way.
        why: String,
        /// What removes it.
        fix: String,
    },
    /// The kernel's network configuration refused something.
    #[error("port {port}: {source}")]
    Net {
        /// The port.
        port: String,
        /// What was refused.
        source: crate::net::Error,
    },
    /// A system call failed.
    #[error("port {port}: cannot {action} on '{device}': {source}")]
    Io {
        /// The port.
        port: String,
        /// The device.
        device: String,
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl PortError {
    /// Whether the device is missing now but may appear later.
    pub fn is_absent(&self) -> bool {
        matches!(self, PortError::NoSuchDevice { .. })
    }

    pub(super) fn mtu_too_small(spec: &PortSpec, device_mtu: u32) -> PortError {
        PortError::MtuTooSmall {
            port: spec.name.clone(),
            device: spec.device.clone(),
            device_mtu,
            port_mtu: spec.mtu,
        }
    }

    pub(super) fn mtu_out_of_range(spec: &PortSpec) -> PortError {
        PortError::MtuOutOfRange {
            port: spec.name.clone(),
            mtu: spec.mtu,
        }
    }

    /// An error of a system call; `capability` is what the call takes.
    pub(super) fn io(
        spec: &PortSpec,
        action: &'static str,
        capability: &'static str,
        source: io::Error,
    ) -> PortError {
        let (port, device) = (spec.name.clone(), spec.device.clone());
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PortError::NoPrivilege {
                port,
                device,
                action,
                capability,
            },
            Some(libc::ENODEV | libc::ENXIO) => PortError::NoSuchDevice { port, device },
            _ => PortError::Io {
                port,
                device,
                action,
                source,
            },
        }
    }

    pub(super) fn net(spec: &PortSpec, source: crate::net::Error) -> PortError {
        let port = spec.name.clone();
        match source {
            crate::net::Error::NoSuchLink { .. } => PortError::NoSuchDevice {
                port,
                device: spec.device.clone(),
            },
            source => PortError::Net { port, source },
        }
    }
}
