//! Exclusive use of network devices: two switches or hosts that use one device would both get its frames.
//!
//! A claim is a listening Unix socket with an abstract name, which contains the index of the device. Abstract names
//! belong to a network namespace, as indices of devices do. The kernel ends the claim with the process, also after
//! SIGKILL.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::{PortError, PortSpec};

/// Start of the abstract names. The index of the device follows.
const NAME_PREFIX: &str = "xoff-device-";
/// Number of attempts to claim a device. A port that is opened again, or a process that was killed, releases its claim
/// a few milliseconds later.
const ATTEMPTS_MAX: u32 = 12;
/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(20);
/// Largest length of the command line of another process in a message, in characters.
const COMMAND_LEN_MAX: usize = 100;

/// The exclusive use of a device. Dropping the value releases the device.
#[derive(Debug)]
pub(super) struct DeviceClaim {
    _listener: UnixListener,
}

impl DeviceClaim {
    /// Claims the device `index` of the calling thread's namespace for the port of `spec`.
    ///
    /// # Errors
    /// Returns [`PortError::InUse`] with the other process if another port uses the device.
    pub(super) fn acquire(spec: &PortSpec, index: u32) -> Result<DeviceClaim, PortError> {
        let failed = |error| PortError::io(spec, "claim the device", "cap_net_admin", error);
        let address = SocketAddr::from_abstract_name(format!("{NAME_PREFIX}{index}")).map_err(failed)?;
        let mut attempt = 1;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(DeviceClaim { _listener: listener }),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(failed(error)),
                Err(_) if attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    thread::sleep(RETRY);
                }
                Err(_) => {
                    return Err(PortError::InUse {
                        port: spec.name.clone(),
                        device: spec.device.clone(),
                        user: describe_owner(&address),
                    });
                }
            }
        }
    }
}

/// Describes the process that owns a claim, with its command line.
fn describe_owner(address: &SocketAddr) -> String {
    let owner = || {
        let stream = UnixStream::connect_addr(address).ok()?;
        let pid = getsockopt(&stream, PeerCredentials).ok()?.pid();
        // The process is in another PID namespace.
        (pid > 0).then_some(pid)
    };
    let Some(pid) = owner() else {
        return "another xoff process".to_owned();
    };
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = words
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .filter(|word| !word.is_empty())
        .collect();
    let command: String = words.join(" ").chars().take(COMMAND_LEN_MAX).collect();
    match command.is_empty() {
        true => format!("process {pid}"),
        false => format!("process {pid} (`{command}`)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;

    #[test]
    fn a_device_has_one_user_at_a_time() {
        let spec = PortSpec {
            name: "Ethernet0".to_owned(),
            device: "eth0".to_owned(),
            backend: Backend::Packet,
            mtu: 1500,
        };
        // No device has this index.
        let index = 3_000_000_000 + std::process::id();
        let claim = DeviceClaim::acquire(&spec, index).expect("the first user");
        let other = DeviceClaim::acquire(&spec, index + 1).expect("another device");
        let refused = DeviceClaim::acquire(&spec, index)
            .expect_err("the second user")
            .to_string();
        let own = format!("process {}", std::process::id());
        assert!(refused.contains("'eth0'") && refused.contains(&own), "{refused}");
        drop((claim, other));
        DeviceClaim::acquire(&spec, index).expect("the device is free again");
    }
}
