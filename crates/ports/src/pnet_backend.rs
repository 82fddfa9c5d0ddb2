//! Backend on the crate `pnet` (`pnet::datalink`). It is a simple reference for tests of the fast backends.
//!
//! The backend makes one system call and one additional copy for each frame. The backend cannot read the
//! metadata that the kernel has about a frame. The backend therefore loses the VLAN tags that the kernel
//! removes, and accepts frames with unfinished checksums.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use ::pnet::datalink::{self, Channel, DataLinkReceiver, DataLinkSender};
use xoff_dataplane::{DropReason, FrameHandle};
use xoff_wire::parse::parse;

use super::arena::LARGE_SLOT_BYTES;
use super::clock::monotonic_ns;
use super::device_setup::{DeviceSetup, set_up_device};
use super::device_state::Device;
use super::drop_counts::{DropCounts, FramePriority, KernelCounter};
use super::{
    Arena, OpenedPort, Port, PortDrops, PortError, PortFrame, PortSpec, SlotSource, frame_len_max,
    is_device_removed, packet_socket,
};

/// A network device that the crate `pnet` drives.
pub struct PnetPort {
    device: Device,
    /// Name of the device when the port was opened, for reports.
    initial_device_name: String,
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
    /// The socket that `sender` and `receiver` use.
    socket: OwnedFd,
    frame_len_max: u32,
    /// Buffer in which the two segments of a frame with shared bytes are joined.
    gather_buffer: Box<[u8]>,
    drops: DropCounts,
    tx_dropped: KernelCounter,
    setup: DeviceSetup,
}

impl PnetPort {
    pub(super) fn open(spec: &PortSpec) -> Result<OpenedPort, PortError> {
        let io = |action, error| PortError::io(spec, action, "cap_net_raw", error);
        // A socket without a protocol. The socket of pnet would receive from all interfaces until it
        // is bound.
        let socket =
            packet_socket::open_packet_socket().map_err(|error| io("open a packet socket", error))?;
        let mut notes = vec![format!(
            "{}: backend pnet loses VLAN tags; it is a reference for tests only",
            spec.name
        )];
        let setup = set_up_device(spec, &mut notes)?;
        packet_socket::configure_without_ring(&socket)
            .map_err(|error| io("configure the packet socket", error))?;
        let mut device = Device::open(&spec.device).map_err(|error| io("find the device", error))?;
        let interface = datalink::interfaces()
            .into_iter()
            .find(|interface| interface.name == spec.device);
        let interface = interface.ok_or_else(|| PortError::NoSuchDevice {
            port: spec.name.clone(),
            device: spec.device.clone(),
        })?;
        let duplicate = socket
            .try_clone()
            .map_err(|error| io("open a packet socket", error))?;
        let config = datalink::Config {
            // One byte more than the longest frame. A read that fills the buffer is a frame that is too long.
            read_buffer_size: frame_len_max(spec.mtu) as usize + 1,
            write_buffer_size: frame_len_max(spec.mtu) as usize,
            read_timeout: Some(Duration::ZERO),
            write_timeout: Some(Duration::ZERO),
            promiscuous: true,
            socket_fd: Some(duplicate.into_raw_fd()),
            ..datalink::Config::default()
        };
        let channel =
            datalink::channel(&interface, config).map_err(|error| io("open a pnet channel", error))?;
        let Channel::Ethernet(sender, receiver) = channel else {
            return Err(io("open a pnet channel", io::ErrorKind::Unsupported.into()));
        };
        let port = PnetPort {
            tx_dropped: KernelCounter::new(device.tx_dropped()),
            device,
            initial_device_name: spec.device.clone(),
            sender,
            receiver,
            socket,
            frame_len_max: frame_len_max(spec.mtu),
            gather_buffer: vec![0; LARGE_SLOT_BYTES].into(),
            drops: DropCounts::new(),
            setup,
        };
        let port = Port::Pnet(Box::new(port));
        Ok(OpenedPort { port, notes })
    }

    pub(super) fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        let mut received = 0;
        for _ in 0..max {
            let bytes = match self.receiver.next() {
                Ok(bytes) => bytes,
                Err(error) if is_retryable(&error) || received > 0 => break,
                Err(error) => return self.check_socket_error(error).map(|()| 0),
            };
            if bytes.len() > self.frame_len_max as usize {
                self.drops
                    .add_received(DropReason::Oversized, FramePriority::of_frame(bytes, None));
                continue;
            }
            let Some(frame) = slots.store_frame(bytes) else {
                self.drops.add(DropReason::NoBufferSpace);
                continue;
            };
            out.push(PortFrame {
                frame,
                frame_len: bytes.len() as u32,
                parsed: parse(bytes),
                received_ns: monotonic_ns(),
                arrival: None,
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
                    .gather_into(*frame, &mut self.gather_buffer)
                    .map_or(&[][..], |bytes| &*bytes),
            };
            let Some(Err(error)) = self.sender.send_to(bytes, None) else {
                continue;
            };
            if error.raw_os_error() == Some(libc::ENOBUFS) && self.setup.has_no_queue {
                // The device has dropped and counted the frame. `take_drops` reports it.
                continue;
            }
            if is_retryable(&error) || error.raw_os_error() == Some(libc::ENOBUFS) {
                return Ok(taken);
            }
            if error.raw_os_error().is_none() || is_device_removed(&error) {
                if taken == 0 {
                    self.check_socket_error(error)?;
                }
                return Ok(taken);
            }
            self.drops.add(DropReason::BackendRefused);
        }
        Ok(frames.len())
    }

    /// Reads the pending error of the socket, which shows the cause of `error`. The error message of `pnet`,
    /// "unexpected poll event", does not contain the cause.
    fn check_socket_error(&mut self, error: io::Error) -> io::Result<()> {
        let cause = packet_socket::take_error(&self.socket)?;
        if !self.device.exists() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        match cause {
            Some(cause) if !is_device_removed(&cause) => Err(cause),
            // The device is down.
            Some(_) => Ok(()),
            None if error.raw_os_error().is_none() || is_device_removed(&error) => Ok(()),
            None => Err(error),
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn device_exists(&mut self) -> bool {
        self.device.exists()
    }

    pub(super) fn is_link_up(&mut self) -> bool {
        self.device.is_running()
    }

    pub(super) fn take_drops(&mut self) -> PortDrops {
        let socket_drops = packet_socket::take_ring_drops(&self.socket).unwrap_or(0);
        let mut drops = PortDrops {
            lost: u64::from(socket_drops) + self.tx_dropped.update(self.device.tx_dropped()),
            ..PortDrops::default()
        };
        self.drops.take_counts(&mut drops);
        drops
    }

    pub(super) fn device_name(&self) -> &str {
        &self.initial_device_name
    }
}

/// Returns whether the operation can be repeated after an error. Such an error means that no frame waits, or
/// that no space for sending is free.
fn is_retryable(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock | Interrupted)
}

impl fmt::Debug for PnetPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PnetPort")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
