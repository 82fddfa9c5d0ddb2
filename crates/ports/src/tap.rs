//! A tap of our own: `/dev/net/tun` without packet information and without a vnet header, so that the kernel
//! finishes checksums and segments before a frame reaches us, and VLAN tags stay where they are.
//!
//! The netdev of the tap is the *far* end: the kernel's, or that of a namespace it was moved to. So nothing is
//! switched off on it. It lives as long as the port, unless somebody made it persistent.

use std::ffi::c_ulong;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use xoff_dataplane::{DropReason, FrameHandle};
use xoff_wire::parse::parse;

use crate::net::{self, LinkChange, Netns};

use super::arena::{LARGE_SLOT_BYTES, SMALL_FRAME_BYTES};
use super::clock::monotonic_ns;
use super::count::{DropCounts, Growing};
use super::device::Device;
use super::{Arena, Opened, Port, PortDrops, PortError, PortSpec, Received, SlotSource, longest_frame};

/// Frames the kernel keeps for us. With the default of 1000 a tap drops silently after 1000.
const QUEUE_FRAMES: u32 = 10_000;

/// A tap of our own.
#[derive(Debug)]
pub struct Tap {
    file: File,
    device: Device,
    /// The name at the opening, for reports.
    opened_as: String,
    longest: u32,
    drops: DropCounts,
    tx_dropped: Growing,
    /// Where the part of a frame goes that does not fit in a small slot, with a place for that slot's part in front.
    overflow: Box<[u8]>,
}

impl Tap {
    pub(super) fn open(spec: &PortSpec) -> Result<Opened, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_admin", error);
        let before = match net::link(&spec.device) {
            Ok(link) => Some(link),
            Err(net::Error::NoSuchLink { .. }) => None,
            Err(error) => return Err(PortError::net(spec, error)),
        };
        if let Some(master) = before.as_ref().and_then(|link| link.master.clone()) {
            let (port, device) = (spec.name.clone(), spec.device.clone());
            return Err(PortError::InBridge { port, device, master });
        }
        let file = open_tun(spec)?;
        attach(&file, spec)?;
        let mut notes = Vec::new();
        match &before {
            None => notes.push(format!(
                "{}: made the tap '{}'; it goes with the port",
                spec.name, spec.device
            )),
            Some(link) if link.mtu < spec.mtu => return Err(PortError::mtu_too_small(spec, link.mtu)),
            Some(_) => {}
        }
        let change = LinkChange {
            up: Some(true),
            mtu: before.is_none().then_some(spec.mtu),
            tx_queue_len: Some(before.map_or(0, |link| link.tx_queue_len).max(QUEUE_FRAMES)),
            ..LinkChange::default()
        };
        net::set_link(&spec.device, &change).map_err(|error| PortError::net(spec, error))?;
        let mut device = Device::here(&spec.device).map_err(|error| io("find the tap", error))?;
        let tap = Tap {
            tx_dropped: Growing::new(device.tx_dropped()),
            file,
            device,
            opened_as: spec.device.clone(),
            longest: longest_frame(spec.mtu),
            drops: DropCounts::new(),
            overflow: vec![0; SMALL_FRAME_BYTES + LARGE_SLOT_BYTES].into(),
        };
        let port = Port::Tap(Box::new(tap));
        Ok(Opened { port, notes })
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<Received>,
    ) -> io::Result<usize> {
        let mut received = 0;
        let mut received_ns = 0;
        for _ in 0..max {
            // No slot: the frame waits in the kernel's queue.
            let Some(slot) = slots.take(SMALL_FRAME_BYTES) else {
                break;
            };
            let frame_len = match self.read(slots.room(slot)) {
                Ok(frame_len) => frame_len,
                Err(error) => {
                    slots.put(slot);
                    match error.raw_os_error() {
                        Some(libc::EAGAIN | libc::EINTR) => break,
                        // Frames that were read are told first; the error comes again next time.
                        _ if received > 0 => break,
                        _ => return Err(error),
                    }
                }
            };
            if frame_len > self.longest as usize {
                self.drops.add(DropReason::Oversized);
                slots.put(slot);
                continue;
            }
            let Some(frame) = self.settle(slots, slot, frame_len) else {
                self.drops.add(DropReason::NoBufferSpace);
                continue;
            };
            if received == 0 {
                received_ns = monotonic_ns();
            }
            out.push(Received {
                frame,
                frame_len: frame_len as u32,
                parsed: parse(slots.arena().segments(frame).0),
                received_ns,
                arrives: None,
            });
            received += 1;
        }
        Ok(received)
    }

    /// Reads one frame: into a slot, and what does not fit behind its place in `overflow`.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut parts = [
            IoSliceMut::new(&mut room[..SMALL_FRAME_BYTES]),
            IoSliceMut::new(&mut self.overflow[SMALL_FRAME_BYTES..]),
        ];
        self.file.read_vectored(&mut parts)
    }

    /// Makes a frame that was read into `slot` and `overflow` lie in one slot.
    fn settle(
        &mut self,
        slots: &mut impl SlotSource,
        slot: FrameHandle,
        frame_len: usize,
    ) -> Option<FrameHandle> {
        if frame_len <= SMALL_FRAME_BYTES {
            slots.set_frame(slot, frame_len);
            return Some(slot);
        }
        self.overflow[..SMALL_FRAME_BYTES].copy_from_slice(&slots.room(slot)[..SMALL_FRAME_BYTES]);
        slots.put(slot);
        slots.store(&self.overflow[..frame_len])
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        for (taken, frame) in frames.iter().enumerate() {
            let (own, rest) = arena.segments(*frame);
            let written = match rest {
                [] => self.file.write(own),
                rest => self.file.write_vectored(&[IoSlice::new(own), IoSlice::new(rest)]),
            };
            let Err(error) = written else { continue };
            match error.raw_os_error() {
                // EIO: the netdev is down.
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM | libc::EIO) => {
                    return Ok(taken);
                }
                Some(libc::EBADFD) if taken == 0 => return Err(error),
                Some(libc::EBADFD) => return Ok(taken),
                _ => self.drops.add(DropReason::BackendRefused),
            }
        }
        Ok(frames.len())
    }

    /// Where the netdev was moved to another namespace, asks there from now on. That takes CAP_SYS_ADMIN over that
    /// namespace; without it the state reads as down and losses cannot be seen.
    fn follow(&mut self) -> Option<()> {
        if self.device.exists() {
            return Some(());
        }
        let netns = Netns::from_fd(self.device_netns().ok()?);
        let mut request = tap_request("");
        tun_ioctl(&self.file, libc::TUNGETIFF as c_ulong, &mut request).ok()?;
        let name: Vec<u8> = request
            .ifr_name
            .iter()
            .map(|c| *c as u8)
            .take_while(|c| *c != 0)
            .collect();
        let name = String::from_utf8(name).ok()?;
        self.device = netns.run(|| Device::here(&name)).ok()?.ok()?;
        Some(())
    }

    /// The namespace the netdev is in now.
    fn device_netns(&self) -> io::Result<OwnedFd> {
        // SAFETY: no memory is passed.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNGETDEVNETNS as _) } {
            // SAFETY: a new descriptor that nobody else has.
            fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn link_up(&mut self) -> bool {
        self.follow().is_some() && self.device.is_running()
    }

    pub(super) fn drops(&mut self) -> PortDrops {
        self.follow();
        PortDrops {
            by_reason: self.drops.take(),
            // What the kernel sent on the netdev and could not queue for us.
            lost: self.tx_dropped.growth(self.device.tx_dropped()),
            notes: Vec::new(),
        }
    }

    pub(super) fn device(&self) -> &str {
        &self.opened_as
    }
}

/// Makes a tap that stays when nobody holds it, for another program to be the far end of: up, and with this MTU, which a
/// tap that QEMU made itself would not have. It goes with its namespace.
///
/// # Errors
/// Without `/dev/net/tun` or the privilege, or where the name is taken by a link that is no tap.
pub fn make_persistent_tap(spec: &PortSpec) -> Result<(), PortError> {
    let io = |error| PortError::io(spec, "make a persistent tap", "cap_net_admin", error);
    let file = open_tun(spec)?;
    attach(&file, spec)?;
    // SAFETY: the argument is a number.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETPERSIST as _, 1) } {
        0 => {}
        _ => return Err(io(io::Error::last_os_error())),
    }
    let change = LinkChange {
        up: Some(true),
        mtu: Some(spec.mtu),
        tx_queue_len: Some(QUEUE_FRAMES),
        ..LinkChange::default()
    };
    net::disable_ipv6(&spec.device)
        .and_then(|()| net::set_link(&spec.device, &change))
        .map_err(|error| PortError::net(spec, error))
}

fn open_tun(spec: &PortSpec) -> Result<File, PortError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|error| no_tun(spec, error))
}

/// Makes `file` the one queue of the tap, which is created if it does not exist.
fn attach(file: &File, spec: &PortSpec) -> Result<(), PortError> {
    let (port, device) = (spec.name.clone(), spec.device.clone());
    let mut request = tap_request(&spec.device);
    tun_ioctl(file, libc::TUNSETIFF as c_ulong, &mut request).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EBUSY) => PortError::Busy { port, device },
            Some(libc::EINVAL | libc::EEXIST) => PortError::NotATap { port, device },
            _ => PortError::io(spec, "make a tap", "cap_net_admin", error),
        }
    })?;
    // A persistent tap keeps the offloads of its last owner.
    // SAFETY: the argument is a number.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0) } {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(PortError::io(
                spec,
                "switch the offloads off",
                "cap_net_admin",
                error,
            ))
        }
    }
}

fn no_tun(spec: &PortSpec, error: io::Error) -> PortError {
    let action = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO) => {
            "make a tap: there is no /dev/net/tun (`modprobe tun`, or give the device to the container)"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "make a tap: /dev/net/tun is closed to this user (`chmod 0666 /dev/net/tun` opens it)"
        }
        _ => "open /dev/net/tun",
    };
    PortError::Io {
        port: spec.name.clone(),
        device: spec.device.clone(),
        action,
        source: error,
    }
}

/// A request for the tap `name`, cut off at the kernel's longest name.
fn tap_request(name: &str) -> libc::ifreq {
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1]
        .iter_mut()
        .zip(name.bytes())
    {
        *to = from as libc::c_char;
    }
    request
}

/// `TUNSETIFF` or `TUNGETIFF`.
fn tun_ioctl(file: &File, command: c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: both commands read and write one `ifreq`, which is borrowed exclusively.
    match unsafe { libc::ioctl(file.as_raw_fd(), command as _, request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
