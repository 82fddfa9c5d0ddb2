//! Backend on a tap that xoff owns. The tap is opened through `/dev/net/tun`.
//!
//! The tap has no packet information and no vnet header. The kernel therefore completes the checksum and the
//! segmentation of a frame before the backend reads the frame. VLAN tags stay in the frame.
//!
//! The network device of the tap is the far end of the port. The kernel or another namespace uses this
//! device, so the backend does not turn off the offloads of the device. The tap is removed with the port,
//! unless the tap is persistent.

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
use super::device_state::Device;
use super::drop_counts::{DropCounts, FramePriority, KernelCounter};
use super::{Arena, OpenedPort, Port, PortDrops, PortError, PortFrame, PortSpec, SlotSource, frame_len_max};

/// Queue length of the tap in frames. The default of the kernel is 1000 frames. A tap with a full queue
/// silently drops frames.
const QUEUE_LEN_FRAMES: u32 = 10_000;

/// A tap that xoff owns.
#[derive(Debug)]
pub struct TapPort {
    file: File,
    device: Device,
    /// Name of the device when the port was opened, for reports.
    initial_device_name: String,
    frame_len_max: u32,
    drops: DropCounts,
    tx_dropped: KernelCounter,
    /// Buffer for the end of a frame that does not fit in a small slot. The first part of the frame is read
    /// into the slot. The front of the buffer has space for a copy of this part.
    overflow: Box<[u8]>,
    /// The settings that an existing tap had before the port. `None` if xoff has made the tap, or changed nothing.
    previous: Option<PreviousTapSettings>,
}

/// Settings of an existing tap that the port has changed.
#[derive(Debug)]
struct PreviousTapSettings {
    netns: Netns,
    change: LinkChange,
}

impl TapPort {
    pub(super) fn open(spec: &PortSpec) -> Result<OpenedPort, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_admin", error);
        let existing = match net::read_link(&spec.device) {
            Ok(link) => Some(link),
            Err(net::Error::NoSuchLink { .. }) => None,
            Err(error) => return Err(PortError::net(spec, error)),
        };
        if let Some(master) = existing.as_ref().and_then(|link| link.master.clone()) {
            let (port, device) = (spec.name.clone(), spec.device.clone());
            return Err(PortError::InBridge { port, device, master });
        }
        let file = open_tun_device(spec)?;
        attach_queue(&file, spec)?;
        let mut notes = Vec::new();
        match &existing {
            None => notes.push(format!(
                "{}: made the tap '{}'; it is removed with the port",
                spec.name, spec.device
            )),
            Some(link) if link.mtu < spec.mtu => return Err(PortError::mtu_too_small(spec, link.mtu)),
            Some(_) => {}
        }
        let change = LinkChange {
            up: Some(true),
            mtu: existing.is_none().then_some(spec.mtu),
            tx_queue_len: Some(
                existing
                    .as_ref()
                    .map_or(0, |link| link.tx_queue_len)
                    .max(QUEUE_LEN_FRAMES),
            ),
            ..LinkChange::default()
        };
        let previous = existing.map(|link| LinkChange {
            up: (!link.up).then_some(false),
            tx_queue_len: (link.tx_queue_len < QUEUE_LEN_FRAMES).then_some(link.tx_queue_len),
            ..LinkChange::default()
        });
        let previous = previous.filter(|change| *change != LinkChange::default());
        net::set_link(&spec.device, &change).map_err(|error| PortError::net(spec, error))?;
        let mut device = Device::open(&spec.device).map_err(|error| io("find the tap", error))?;
        let tap = TapPort {
            tx_dropped: KernelCounter::new(device.tx_dropped()),
            file,
            device,
            initial_device_name: spec.device.clone(),
            frame_len_max: frame_len_max(spec.mtu),
            drops: DropCounts::new(),
            overflow: vec![0; SMALL_FRAME_BYTES + LARGE_SLOT_BYTES].into(),
            previous: previous.and_then(|change| {
                let netns = Netns::current().ok()?;
                Some(PreviousTapSettings { netns, change })
            }),
        };
        let port = Port::Tap(Box::new(tap));
        Ok(OpenedPort { port, notes })
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        let mut received = 0;
        let mut received_ns = 0;
        for _ in 0..max {
            // Without a free slot, the frame stays in the queue of the kernel.
            let Some(slot) = slots.take_slot(SMALL_FRAME_BYTES) else {
                break;
            };
            let frame_len = match self.read_frame(slots.frame_space(slot)) {
                Ok(frame_len) => frame_len,
                Err(error) => {
                    slots.return_slot(slot);
                    match error.raw_os_error() {
                        Some(libc::EAGAIN | libc::EINTR) => break,
                        // The frames read so far are reported first. The next call returns the error again.
                        _ if received > 0 => break,
                        _ => return Err(error),
                    }
                }
            };
            if frame_len > self.frame_len_max as usize {
                let start = &slots.frame_space(slot)[..SMALL_FRAME_BYTES];
                let priority = FramePriority::of_frame(start, None);
                self.drops.add_received(DropReason::Oversized, priority);
                slots.return_slot(slot);
                continue;
            }
            let Some(frame) = self.join_overflow(slots, slot, frame_len) else {
                self.drops.add(DropReason::NoBufferSpace);
                continue;
            };
            if received == 0 {
                received_ns = monotonic_ns();
            }
            out.push(PortFrame {
                frame,
                frame_len: frame_len as u32,
                parsed: parse(slots.arena().segments(frame).0),
                received_ns,
                arrival: None,
            });
            received += 1;
        }
        Ok(received)
    }

    /// Reads one frame into `slot_space`, and the part that does not fit into `overflow`. Returns the length
    /// of the frame in bytes.
    fn read_frame(&mut self, slot_space: &mut [u8]) -> io::Result<usize> {
        let mut buffers = [
            IoSliceMut::new(&mut slot_space[..SMALL_FRAME_BYTES]),
            IoSliceMut::new(&mut self.overflow[SMALL_FRAME_BYTES..]),
        ];
        self.file.read_vectored(&mut buffers)
    }

    /// Returns one slot with the complete frame. Before the call, the bytes of the frame are in `slot` and
    /// `overflow`. Returns `None` if no large slot is free.
    fn join_overflow(
        &mut self,
        slots: &mut impl SlotSource,
        slot: FrameHandle,
        frame_len: usize,
    ) -> Option<FrameHandle> {
        if frame_len <= SMALL_FRAME_BYTES {
            slots.set_frame(slot, frame_len);
            return Some(slot);
        }
        let own = &slots.frame_space(slot)[..SMALL_FRAME_BYTES];
        self.overflow[..SMALL_FRAME_BYTES].copy_from_slice(own);
        slots.return_slot(slot);
        slots.store_frame(&self.overflow[..frame_len])
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
                // EIO means that the network device is down.
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

    /// Finds the network device again after it was moved to a new namespace. This needs CAP_SYS_ADMIN over
    /// the new namespace. Without this capability, the function returns `None`. The device then counts as
    /// down, and its losses are not visible.
    fn reopen_moved_device(&mut self) -> Option<()> {
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
        self.device = netns.run(|| Device::open(&name)).ok()?.ok()?;
        Some(())
    }

    /// Returns the current namespace of the network device.
    fn device_netns(&self) -> io::Result<OwnedFd> {
        // SAFETY: the call passes no memory.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), libc::TUNGETDEVNETNS as _) } {
            // SAFETY: the descriptor is new, and no other value owns it.
            fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn is_link_up(&mut self) -> bool {
        self.reopen_moved_device().is_some() && self.device.is_running()
    }

    pub(super) fn take_drops(&mut self) -> PortDrops {
        self.reopen_moved_device();
        let mut drops = PortDrops {
            // Frames that the kernel sent on the network device and could not queue for the tap.
            lost: self.tx_dropped.update(self.device.tx_dropped()),
            ..PortDrops::default()
        };
        self.drops.take_counts(&mut drops);
        drops
    }

    pub(super) fn device_name(&self) -> &str {
        &self.initial_device_name
    }
}

impl Drop for TapPort {
    /// Restores the settings of a tap that existed before the port, and ignores errors.
    fn drop(&mut self) {
        let Some(PreviousTapSettings { netns, change }) = self.previous.take() else {
            return;
        };
        if self.device.exists() {
            let _ = netns.run(|| net::set_link(self.device.name(), &change));
        }
    }
}

/// Creates a persistent tap, which exists without an owner until its namespace is removed. A program such as
/// QEMU can then open the tap. The tap is up and has the MTU of `spec`. In contrast, a tap that QEMU creates
/// has the default MTU.
///
/// # Errors
/// Returns an error if `/dev/net/tun` or a privilege is missing, another process has opened the tap, or a
/// link with this name exists and is not a tap.
pub fn create_persistent_tap(spec: &PortSpec) -> Result<(), PortError> {
    let io = |error| PortError::io(spec, "make a persistent tap", "cap_net_admin", error);
    let file = open_tun_device(spec)?;
    attach_queue(&file, spec)?;
    // SAFETY: the argument is an integer.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETPERSIST as _, 1) } {
        0 => {}
        _ => return Err(io(io::Error::last_os_error())),
    }
    let change = LinkChange {
        up: Some(true),
        mtu: Some(spec.mtu),
        tx_queue_len: Some(QUEUE_LEN_FRAMES),
        ..LinkChange::default()
    };
    net::disable_ipv6(&spec.device)
        .and_then(|()| net::set_link(&spec.device, &change))
        .map_err(|error| PortError::net(spec, error))
}

fn open_tun_device(spec: &PortSpec) -> Result<File, PortError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|error| tun_open_error(spec, error))
}

/// Makes `file` the only queue of the tap in `spec`. If the tap does not exist, the function creates it.
fn attach_queue(file: &File, spec: &PortSpec) -> Result<(), PortError> {
    let (port, device) = (spec.name.clone(), spec.device.clone());
    let mut request = tap_request(&spec.device);
    tun_ioctl(file, libc::TUNSETIFF as c_ulong, &mut request).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EBUSY) => PortError::Busy { port, device },
            Some(libc::EINVAL | libc::EEXIST) => PortError::NotATap { port, device },
            _ => PortError::io(spec, "make a tap", "cap_net_admin", error),
        }
    })?;
    // A persistent tap keeps the offloads of its previous owner.
    // SAFETY: the argument is an integer.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0) } {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(PortError::io(
                spec,
                "turn the offloads off",
                "cap_net_admin",
                error,
            ))
        }
    }
}

fn tun_open_error(spec: &PortSpec, error: io::Error) -> PortError {
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

/// Builds a request for the tap `name`. If the name is too long for the kernel, the end of the name is
/// cut off.
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

/// Calls `ioctl(2)` with the command `TUNSETIFF` or `TUNGETIFF`.
fn tun_ioctl(file: &File, command: c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: both commands read and write one `ifreq`, which is borrowed exclusively.
    match unsafe { libc::ioctl(file.as_raw_fd(), command as _, request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
