//! The addresses of stream ports.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The text before the address in the name of a device.
pub(super) const PREFIX: &str = "stream:";
/// Longest path or name of a Unix socket in bytes: the size of `sun_path` without its zero byte.
const UNIX_NAME_BYTES_MAX: usize = 107;

/// The address at which a stream port listens. Its text form is the name of the device: `stream:PATH`,
/// `stream:@NAME` or `stream:127.0.0.1:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAddress {
    /// A Unix socket with a file. Only the user of the process can connect.
    Path(PathBuf),
    /// A Unix socket with an abstract name. Every process in the network namespace can connect. The socket has no
    /// file, so nothing remains after the process.
    Abstract(String),
    /// A TCP port of the loopback interface. Every process in the network namespace can connect.
    Loopback(SocketAddr),
}

/// A text that is not the address of a stream port. The field is the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidStreamAddress(String);

impl StreamAddress {
    /// Returns whether the name of a device begins with `stream:`, so that it is the address of a stream port.
    pub fn is_stream_device(device: &str) -> bool {
        device.starts_with(PREFIX)
    }

    /// Returns the QEMU option for a network device at this address. `id` is the name of the device in QEMU.
    pub fn qemu_netdev(&self, id: &str) -> String {
        // QEMU separates options with commas. A comma in a value is written twice.
        let address = match self {
            StreamAddress::Path(path) => format!(
                "addr.type=unix,addr.path={}",
                path.display().to_string().replace(',', ",,")
            ),
            StreamAddress::Abstract(name) => format!(
                "addr.type=unix,addr.abstract=on,addr.path={}",
                name.replace(',', ",,")
            ),
            StreamAddress::Loopback(address) => format!(
                "addr.type=inet,addr.host={},addr.port={}",
                address.ip(),
                address.port()
            ),
        };
        format!("stream,id={id},server=off,{address}")
    }
}

impl FromStr for StreamAddress {
    type Err = InvalidStreamAddress;

    fn from_str(device: &str) -> Result<StreamAddress, InvalidStreamAddress> {
        let invalid = |reason: &str| InvalidStreamAddress(format!("'{device}' is no stream: {reason}"));
        let address = device
            .strip_prefix(PREFIX)
            .ok_or_else(|| invalid("write stream:PATH, such as stream:/tmp/vm1.sock"))?;
        if let Ok(address) = address.parse::<SocketAddr>() {
            return match address.ip().is_loopback() {
                true => Ok(StreamAddress::Loopback(address)),
                false => Err(invalid(
                    "a TCP address is a loopback address, such as 127.0.0.1:7000",
                )),
            };
        }
        let name = address.strip_prefix('@').unwrap_or(address);
        if name.is_empty() {
            return Err(invalid("the path is missing, as in stream:/tmp/vm1.sock"));
        }
        if name.len() > UNIX_NAME_BYTES_MAX {
            return Err(invalid("the path of a Unix socket has at most 107 bytes"));
        }
        if name.contains('\0') {
            return Err(invalid("a path has no zero bytes"));
        }
        Ok(match address.starts_with('@') {
            true => StreamAddress::Abstract(name.to_owned()),
            false => StreamAddress::Path(PathBuf::from(name)),
        })
    }
}

impl fmt::Display for StreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamAddress::Path(path) => write!(f, "{PREFIX}{}", path.display()),
            StreamAddress::Abstract(name) => write!(f, "{PREFIX}@{name}"),
            StreamAddress::Loopback(address) => write!(f, "{PREFIX}{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_text_form_and_a_qemu_option() {
        for (device, option) in [
            (
                "stream:/tmp/a,b.sock",
                "stream,id=n0,server=off,addr.type=unix,addr.path=/tmp/a,,b.sock",
            ),
            (
                "stream:@lab/p1",
                "stream,id=n0,server=off,addr.type=unix,addr.abstract=on,addr.path=lab/p1",
            ),
            (
                "stream:127.0.0.1:7000",
                "stream,id=n0,server=off,addr.type=inet,addr.host=127.0.0.1,addr.port=7000",
            ),
        ] {
            let address: StreamAddress = device.parse().expect("valid");
            assert_eq!(address.to_string(), device);
            assert_eq!(address.qemu_netdev("n0"), option);
        }
        let long = format!("stream:/{}", "a".repeat(107));
        for device in [
            "/tmp/a",
            "stream:",
            "stream:@",
            "stream:192.0.2.1:7",
            "stream:a\0b",
            &long,
        ] {
            assert!(device.parse::<StreamAddress>().is_err(), "{device}");
        }
    }
}
