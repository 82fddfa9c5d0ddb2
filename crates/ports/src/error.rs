//! The error type of opening a port.

use std::{fmt, io};

use super::{MTU_MAX, PortSpec};

/// Error of opening a port. The message names the port, the device, the cause and the remedy, which are also available
/// as [`PortError::cause`] and [`PortError::fix`].
#[derive(Debug)]
pub enum PortError {
    /// The network namespace contains no device of this name.
    NoSuchDevice {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
    },
    /// The device carries no Ethernet frames, like `lo`.
    NotEthernet {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
    },
    /// The device is a member of a bridge, a bond or a similar device.
    InBridge {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
        /// The name of the bridge or bond.
        master: String,
    },
    /// The process lacks a capability that the backend needs.
    NoPrivilege {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
        /// The refused action, such as `open a packet socket`.
        action: &'static str,
        /// Names of the missing capabilities, such as `cap_net_raw`.
        capability: &'static str,
    },
    /// The MTU of the device is smaller than the MTU of the port. The device would refuse long frames.
    MtuTooSmall {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
        /// MTU of the device, in bytes.
        device_mtu: u32,
        /// MTU of the port, in bytes.
        port_mtu: u32,
    },
    /// The MTU of the port is out of range. The range is 68 to [`MTU_MAX`] bytes.
    MtuOutOfRange {
        /// The name of the port.
        port: String,
        /// The configured MTU, in bytes.
        mtu: u32,
    },
    /// Another process uses the tap.
    Busy {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
    },
    /// Another switch or host uses the device.
    InUse {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
        /// The process that uses the device, with its command line.
        user: String,
    },
    /// The device exists, but the device is not a tap.
    NotATap {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
    },
    /// The device or the kernel does not support backend `xdp`.
    NoXdp {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
        /// The cause, as a part of the message.
        why: String,
        /// The remedy, as a part of the message.
        fix: String,
    },
    /// The port cannot listen at the address of its stream.
    NoStream {
        /// The name of the port.
        port: String,
        /// The name of the device, such as `stream:/tmp/vm1.sock`.
        device: String,
        /// The cause, as a part of the message.
        why: String,
        /// The remedy, as a part of the message.
        fix: String,
    },
    /// A request to the network configuration of the kernel failed.
    Net {
        /// The name of the port.
        port: String,
        /// The error of the request.
        source: crate::net::Error,
    },
    /// A system call failed.
    Io {
        /// The name of the port.
        port: String,
        /// The name of the device.
        device: String,
        /// The failed action, such as `bind the packet socket`.
        action: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause())?;
        self.fix().map_or(Ok(()), |fix| write!(f, "; {fix}"))
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PortError::Net { source, .. } => Some(source),
            PortError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl PortError {
    /// Returns the cause, with the names of the port and the device.
    pub fn cause(&self) -> String {
        match self {
            PortError::NoSuchDevice { port, device } => {
                format!("port {port}: there is no network device '{device}' in this namespace")
            }
            PortError::NotEthernet { port, device } => {
                format!("port {port}: device '{device}' is not an Ethernet device")
            }
            PortError::InBridge { port, device, master } => format!(
                "port {port}: device '{device}' belongs to '{master}', which receives its frames first and consumes PFC"
            ),
            PortError::NoPrivilege {
                port,
                device,
                action,
                capability,
            } => format!("port {port}: not permitted to {action} on '{device}'; this needs {capability}"),
            PortError::MtuTooSmall {
                port,
                device,
                device_mtu,
                port_mtu,
            } => format!(
                "port {port}: device '{device}' has MTU {device_mtu}, and the port has MTU {port_mtu}: longer frames \
                 would be lost"
            ),
            PortError::MtuOutOfRange { port, mtu } => {
                format!("port {port}: mtu {mtu} is out of range: 68 to {MTU_MAX} bytes")
            }
            PortError::Busy { port, device } => {
                format!("port {port}: the tap '{device}' is in use by another process")
            }
            PortError::InUse { port, device, user } => {
                format!("port {port}: {user} uses the device '{device}'")
            }
            PortError::NotATap { port, device } => format!("port {port}: device '{device}' is not a tap"),
            PortError::NoXdp {
                port, device, why, ..
            } => format!("port {port}: backend xdp cannot drive '{device}': {why}"),
            PortError::NoStream {
                port, device, why, ..
            } => format!("port {port}: cannot listen at '{device}': {why}"),
            PortError::Net { port, source } => format!("port {port}: {source}"),
            PortError::Io {
                port,
                device,
                action,
                source,
            } => format!("port {port}: cannot {action} on '{device}': {source}"),
        }
    }

    /// Returns the action that solves the problem. `None` if no action is known.
    pub fn fix(&self) -> Option<String> {
        Some(match self {
            PortError::NoSuchDevice { .. } => {
                "look at `ip link`, or let xoff make a tap of that name with backend=tap".to_owned()
            }
            PortError::NotEthernet { .. } => {
                "name a veth, a tap or a network card: `ip -br link` lists the devices".to_owned()
            }
            PortError::InBridge { device, .. } => {
                format!("release it with `ip link set dev {device} nomaster`")
            }
            PortError::NoPrivilege { capability, .. } => format!(
                "run as root, inside a user namespace (`unshare -Urn`), or after `setcap {capability}+ep` on the program"
            ),
            PortError::MtuTooSmall {
                port,
                device,
                port_mtu,
                ..
            } => format!(
                "run `ip link set dev {device} mtu {port_mtu}` (and on its far end), or lower PORT|{port}|mtu"
            ),
            PortError::Busy { .. } => "open its netdev with backend=packet, or stop that process".to_owned(),
            PortError::InUse { .. } => "stop it, or give this port another device".to_owned(),
            PortError::NotATap { .. } => "open it with backend=packet, or choose another name".to_owned(),
            PortError::NoXdp { fix, .. } => format!("{fix}, or use backend=packet"),
            PortError::NoStream { fix, .. } => fix.clone(),
            PortError::MtuOutOfRange { .. } | PortError::Net { .. } | PortError::Io { .. } => return None,
        })
    }

    /// Returns true if the cause is a missing device. The device may appear later, and then the port can
    /// be opened.
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

    /// Converts the error of a system call to a [`PortError`]. `action` is the failed action. `capability` is
    /// the name of the capability that the system call needs.
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
