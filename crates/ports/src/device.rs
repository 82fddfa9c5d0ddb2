//! What the kernel says of a device while its port is open: whether it exists, is up, and what it dropped.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Frames that a device has dropped, by direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) rx: u64,
    pub(super) tx: u64,
}

/// A device of one namespace. Socket and file stay in the namespace they were opened in, so every thread may ask.
#[derive(Debug)]
pub(super) struct Device {
    name: String,
    index: u32,
    socket: OwnedFd,
    /// `/proc/net/dev` of that namespace; `None` where there is no `/proc`.
    statistics: Option<File>,
    /// Kept for reading it: this is done several times a second by a thread that has frames to move.
    text: Vec<u8>,
}

impl Device {
    /// The device `name` of the calling thread's namespace.
    pub(super) fn here(name: &str) -> io::Result<Device> {
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
            text: vec![0; 4 * 1024],
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Whether the device is still in its namespace; under whichever name, which is remembered.
    pub(super) fn exists(&mut self) -> bool {
        let mut request = empty_request();
        request.ifr_ifru.ifru_ifindex = self.index as i32;
        if self.ask(libc::SIOCGIFNAME, &mut request).is_err() {
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

    /// Whether the device exists, is up and has a carrier.
    pub(super) fn is_running(&mut self) -> bool {
        self.exists()
            && self
                .flags()
                .is_ok_and(|flags| flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0)
    }

    /// Frames the device dropped instead of sending them, since it was made.
    pub(super) fn tx_dropped(&mut self) -> Option<u64> {
        self.dropped().map(|dropped| dropped.tx)
    }

    /// Frames the device dropped, since it was made.
    pub(super) fn dropped(&mut self) -> Option<Dropped> {
        let file = self.statistics.as_ref()?;
        let mut len = 0;
        loop {
            match file.read_at(&mut self.text[len..], len as u64).ok()? {
                0 => break,
                n => len += n,
            }
            if len == self.text.len() {
                self.text.resize(2 * len, 0);
            }
        }
        dropped_of(std::str::from_utf8(&self.text[..len]).ok()?, &self.name)
    }

    /// The largest packet the device sends, without Ethernet header.
    pub(super) fn mtu(&self) -> io::Result<u32> {
        let mut request = self.named_request();
        self.ask(libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has written this member, and any bits are a valid `c_int`.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    fn flags(&self) -> io::Result<i32> {
        let mut request = self.named_request();
        self.ask(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS has written this member, and any bits are a valid `c_short`.
        Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }) & 0xffff)
    }

    fn named_request(&self) -> libc::ifreq {
        let mut request = empty_request();
        // A name the kernel gave or accepted, so it leaves room for the terminating zero.
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1]
            .iter_mut()
            .zip(self.name.bytes())
        {
            *to = from as libc::c_char;
        }
        request
    }

    fn ask(&self, question: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: all questions asked here read and write an `ifreq`, which is borrowed exclusively.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), question as _, request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn empty_request() -> libc::ifreq {
    libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_ifindex: 0 },
    }
}

/// The columns `drop` of `Receive` and `Transmit` in `/proc/net/dev`.
fn dropped_of(text: &str, name: &str) -> Option<Dropped> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut columns = line.split_ascii_whitespace();
    Some(Dropped {
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
    fn the_drop_columns_of_the_right_device_are_read() {
        assert_eq!(dropped_of(TEXT, "tap1"), Some(Dropped { rx: 4, tx: 12 }));
        assert_eq!(dropped_of(TEXT, "tap10"), Some(Dropped { rx: 4, tx: 99 }));
        assert_eq!(dropped_of(TEXT, "tap"), None);
        assert_eq!(dropped_of("tap:1 2", "tap"), None);
    }

    #[test]
    fn loopback_exists_and_no_other_device_of_a_made_up_name() {
        let mut lo = Device::here("lo").expect("every namespace has one");
        assert!(lo.exists());
        assert_eq!(lo.name, "lo");
        let error = Device::here("no-such-dev").expect_err("no such device");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
