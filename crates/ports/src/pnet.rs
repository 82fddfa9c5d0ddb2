//! `pnet::datalink`: the simple reference that fast backends are held against.
//!
//! One system call and one more copy per frame. It cannot see what the kernel says beside a frame: VLAN tags
//! that were taken off are lost, and unfinished checksums pass.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use ::pnet::datalink::{self, Channel, DataLinkReceiver, DataLinkSender};
use xoff_dataplane::{DropReason, FrameHandle};
use xoff_wire::parse::parse;

use super::arena::LARGE_SLOT_BYTES;
use super::clock::monotonic_ns;
use super::count::{DropCounts, Growing};
use super::device::Device;
use super::guard::{Guarded, guard};
use super::{
    Arena, Opened, Port, PortDrops, PortError, PortSpec, Received, SlotSource, is_gone, longest_frame, socket,
};

/// A netdev driven through `pnet::datalink`.
pub struct Pnet {
    device: Device,
    /// The name at the opening, for reports.
    opened_as: String,
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
    /// The same socket as theirs.
    socket: OwnedFd,
    longest: u32,
    /// Where frames that share bytes are put together.
    gathered: Box<[u8]>,
    drops: DropCounts,
    tx_dropped: Growing,
    guarded: Guarded,
}

impl Pnet {
    pub(super) fn open(spec: &PortSpec) -> Result<Opened, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_raw", error);
        // Our own socket, without a protocol: pnet's would hear every interface until it is bound.
        let socket = socket::create().map_err(|error| io("open a packet socket", error))?;
        let mut notes = vec![format!(
            "{}: backend pnet loses VLAN tags; it is a reference, not for use",
            spec.name
        )];
        let guarded = guard(spec, &mut notes)?;
        socket::configure_without_ring(&socket).map_err(|error| io("configure the packet socket", error))?;
        let mut device = Device::here(&spec.device).map_err(|error| io("find the device", error))?;
        let interface = datalink::interfaces()
            .into_iter()
            .find(|interface| interface.name == spec.device);
        let interface = interface.ok_or_else(|| PortError::NoSuchDevice {
            port: spec.name.clone(),
            device: spec.device.clone(),
        })?;
        let same = socket
            .try_clone()
            .map_err(|error| io("open a packet socket", error))?;
        let config = datalink::Config {
            // Exactly as long as a frame may be, and one: what fills it is too long.
            read_buffer_size: longest_frame(spec.mtu) as usize + 1,
            write_buffer_size: longest_frame(spec.mtu) as usize,
            read_timeout: Some(Duration::ZERO),
            write_timeout: Some(Duration::ZERO),
            promiscuous: true,
            socket_fd: Some(same.into_raw_fd()),
            ..datalink::Config::default()
        };
        let channel =
            datalink::channel(&interface, config).map_err(|error| io("open a pnet channel", error))?;
        let Channel::Ethernet(sender, receiver) = channel else {
            return Err(io("open a pnet channel", io::ErrorKind::Unsupported.into()));
        };
        let port = Pnet {
            tx_dropped: Growing::new(device.tx_dropped()),
            device,
            opened_as: spec.device.clone(),
            sender,
            receiver,
            socket,
            longest: longest_frame(spec.mtu),
            gathered: vec![0; LARGE_SLOT_BYTES].into(),
            drops: DropCounts::new(),
            guarded,
        };
        let port = Port::Pnet(Box::new(port));
        Ok(Opened { port, notes })
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<Received>,
    ) -> io::Result<usize> {
        let mut received = 0;
        for _ in 0..max {
            let bytes = match self.receiver.next() {
                Ok(bytes) => bytes,
                Err(error) if is_nothing(&error) || received > 0 => break,
                Err(error) => return self.explain(error).map(|()| 0),
            };
            if bytes.len() > self.longest as usize {
                self.drops.add(DropReason::Oversized);
                continue;
            }
            let Some(frame) = slots.store(bytes) else {
                self.drops.add(DropReason::NoBufferSpace);
                continue;
            };
            out.push(Received {
                frame,
                frame_len: bytes.len() as u32,
                parsed: parse(bytes),
                received_ns: monotonic_ns(),
                arrives: None,
            });
            received += 1;
        }
        Ok(received)
    }

    pub(super) fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        for (taken, frame) in frames.iter().enumerate() {
            let bytes = match arena.segments(*frame) {
                (own, []) => own,
                _ => arena
                    .gather(*frame, &mut self.gathered)
                    .map_or(&[][..], |bytes| &*bytes),
            };
            let Some(Err(error)) = self.sender.send_to(bytes, None) else {
                continue;
            };
            if error.raw_os_error() == Some(libc::ENOBUFS) && self.guarded.noqueue {
                // The device has dropped it and counted it, and `drops` will tell.
                continue;
            }
            if is_nothing(&error) || error.raw_os_error() == Some(libc::ENOBUFS) {
                return Ok(taken);
            }
            if error.raw_os_error().is_none() || is_gone(&error) {
                if taken == 0 {
                    self.explain(error)?;
                }
                return Ok(taken);
            }
            self.drops.add(DropReason::BackendRefused);
        }
        Ok(frames.len())
    }

    /// pnet reports a waiting error of the socket as "unexpected poll event"; this asks for the error itself.
    fn explain(&mut self, error: io::Error) -> io::Result<()> {
        let cause = socket::take_error(&self.socket)?;
        if !self.device.exists() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        match cause {
            Some(cause) if !is_gone(&cause) => Err(cause),
            // The device is down.
            Some(_) => Ok(()),
            None if error.raw_os_error().is_none() || is_gone(&error) => Ok(()),
            None => Err(error),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn link_up(&mut self) -> bool {
        self.device.is_running()
    }

    pub(super) fn drops(&mut self) -> PortDrops {
        let socket_drops = socket::take_drops(&self.socket).unwrap_or(0);
        PortDrops {
            by_reason: self.drops.take(),
            lost: u64::from(socket_drops) + self.tx_dropped.growth(self.device.tx_dropped()),
            notes: Vec::new(),
        }
    }

    pub(super) fn device(&self) -> &str {
        &self.opened_as
    }
}

/// Nothing to read, or no room to write, now.
fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock | Interrupted)
}

impl fmt::Debug for Pnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pnet")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
