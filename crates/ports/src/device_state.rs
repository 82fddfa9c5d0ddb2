//! The state of a network device with an open port: its existence, link state, MTU and drop counters.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Numbers of frames that a device has dropped since its creation, by direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceDrops {
    pub(super) rx: u64,
    pub(super) tx: u64,
}

/// A network device of one namespace. The socket and the file belong to the namespace in which they were
/// opened. The value therefore works in any thread, even if the namespace of the thread is different.
#[derive(Debug)]
pub(super) struct Device {
    name: String,
    index: u32,
    socket: OwnedFd,
    /// The file `/proc/net/dev` of the namespace. `None` if `/proc` is not mounted.
    statistics: Option<File>,
    /// Buffer for the content of `statistics`. A worker thread reads the file several times per second and
    /// uses the same buffer each time, so it allocates no memory.
    statistics_text: Vec<u8>,
}

impl Device {
    /// Opens the device `name` of the calling thread's namespace.
    pub(super) fn open(name: &str) -> io::Result<Device> {
        let socket = socket(
            AddressFamily::Inet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        Ok(Device {
            name: name.to_owned(),
            index: nix::net::if_::if_nametoindex(name)?,
            socket,
            statistics: File::open("/proc/thread-self/net/dev").ok(),
            statistics_text: vec![0; 4 * 1024],
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Returns whether the device is still in its namespace. If the device was renamed, the function stores
    /// the new name.
    pub(super) fn exists(&mut self) -> bool {
        let mut request = empty_request();
        request.ifr_ifru.ifru_ifindex = self.index as i32;
        if self.ioctl(libc::SIOCGIFNAME, &mut request).is_err() {
            return false;
        }
        let name: Vec<u8> = request
            .ifr_name
            .iter()
            .map(|c| *c as u8)
            .take_while(|c| *c != 0)
            .collect();
        if let Ok(name) = String::from_utf8(name)
            && name != self.name
        {
            self.name = name;
        }
        true
    }

    /// Returns whether the device exists, is up and has a carrier.
    pub(super) fn is_running(&mut self) -> bool {
        self.exists()
            && self
                .flags()
                .is_ok_and(|flags| flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0)
    }

    /// Returns the number of frames that the device has dropped instead of sending them, since its creation.
    /// Returns `None` if the kernel does not report the number.
    pub(super) fn tx_dropped(&mut self) -> Option<u64> {
        self.dropped_frames().map(|dropped| dropped.tx)
    }

    /// Returns the numbers of frames that the device has dropped since its creation. Returns `None` if the
    /// kernel does not report the numbers.
    pub(super) fn dropped_frames(&mut self) -> Option<DeviceDrops> {
        let file = self.statistics.as_ref()?;
        let mut len = 0;
        loop {
            match file.read_at(&mut self.statistics_text[len..], len as u64).ok()? {
                0 => break,
                n => len += n,
            }
            if len == self.statistics_text.len() {
                self.statistics_text.resize(2 * len, 0);
            }
        }
        let text = std::str::from_utf8(&self.statistics_text[..len]).ok()?;
        parse_device_drops(text, &self.name)
    }

    /// Returns the MTU of the device: the length of the longest packet in bytes, without the Ethernet header.
    pub(super) fn mtu(&self) -> io::Result<u32> {
        let mut request = self.named_request();
        self.ioctl(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has written this member, and every bit pattern is a valid `c_int`.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    fn flags(&self) -> io::Result<i32> {
        let mut request = self.named_request();
        self.ioctl(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has written this member, and every bit pattern is a valid `c_short`.
        Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }) & 0xffff)
    }

    fn named_request(&self) -> libc::ifreq {
        let mut request = empty_request();
        // The kernel returned or accepted this name, so the terminating zero fits behind it.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1]
            .iter_mut()
            .zip(self.name.bytes())
        {
            *to = from as libc::c_char;
        }
        request
    }

    fn ioctl(&self, command: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: every command used here reads and writes one `ifreq`, which is borrowed exclusively.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), command as _, request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Returns the MTU of a device of the calling thread's namespace: the length of the longest packet in bytes,
/// without the Ethernet header. Returns `None` if the namespace has no device of this name.
///
/// # Errors
/// Fails if the kernel refuses a socket or the request.
pub fn read_device_mtu(device: &str) -> io::Result<Option<u32>> {
    match Device::open(device).and_then(|device| device.mtu()) {
        Ok(mtu) => Ok(Some(mtu)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn empty_request() -> libc::ifreq {
    libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_ifindex: 0 },
    }
}

/// Parses the line of the device `name` in the text of `/proc/net/dev`. Reads the columns `drop` of `Receive`
/// and `Transmit`.
fn parse_device_drops(text: &str, name: &str) -> Option<DeviceDrops> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut columns = line.split_ascii_whitespace();
    Some(DeviceDrops {
        rx: columns.nth(3)?.parse().ok()?,
        tx: columns.nth(7)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
  lo:  10 1 0 0 0 0 0 0  10 1 0 0 0 0 0 0
  tap1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
  tap10:1 2 3 4 5 6 7 8 9 10 11 99 13 14 15 16
";

    #[test]
    fn drop_columns_are_read_from_the_line_of_the_device() {
        assert_eq!(
            parse_device_drops(TEXT, "tap1"),
            Some(DeviceDrops { rx: 4, tx: 12 })
        );
        assert_eq!(
            parse_device_drops(TEXT, "tap10"),
            Some(DeviceDrops { rx: 4, tx: 99 })
        );
        assert_eq!(parse_device_drops(TEXT, "tap"), None);
        assert_eq!(parse_device_drops("tap:1 2", "tap"), None);
    }

    #[test]
    fn loopback_exists_and_an_unknown_name_returns_enodev() {
        let mut lo = Device::open("lo").expect("every namespace has one");
        assert!(lo.exists());
        assert_eq!(lo.name, "lo");
        let error = Device::open("no-such-dev").expect_err("no such device");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
