//! Port backends: they receive Ethernet frames from network devices and send frames to them.
//!
//! A [`Port`] receives and sends bursts of frames. The frames are stored in the slots of an [`Arena`],
//! which is one memory mapping. [`Port`] is an enum of all backends, so calls of a backend need no
//! virtual dispatch.
//!
//! A backend inserts the VLAN tags that the kernel has removed, and parses the headers of each frame. If the
//! switch cannot forward a frame unchanged, the backend drops and counts the frame. The switch does all
//! further work on a frame.

mod af_packet;
mod af_xdp;
pub mod arena;
mod clock;
mod custom_backend;
mod device_claim;
mod device_setup;
mod device_state;
mod drop_counts;
mod error;
mod frame_check;
mod huge_pages;
mod memory_link;
pub mod net;
mod packet_socket;
mod pnet_backend;
mod prefetch;
mod saved_settings;
mod sched_policy;
mod send_loss_meter;
mod stream;
mod tap;
pub mod tester;
mod waker;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_dataplane::{FrameHandle, LinkTiming, Picos};
use xoff_wire::parse::ParsedHeaders;

pub use af_packet::PacketPort;
pub use af_xdp::XdpPort;
use arena::LARGE_FRAME_BYTES;
pub use arena::{Arena, ArenaStore, SlotCache, SlotClass, SlotSource};
pub use custom_backend::PortBackend;
pub use device_state::read_device_mtu;
pub use drop_counts::{FramePriority, PortDrops, StreamCounts};
pub use error::PortError;
pub use huge_pages::HugePageHeap;
pub use memory_link::LinkPort;
pub use pnet_backend::PnetPort;
pub use sched_policy::{SchedPolicy, request_real_time_priority};
pub use send_loss_meter::SendLossMeter;
pub use stream::{InvalidStreamAddress, StreamAddress, StreamPort};
pub use tap::{TapPort, create_persistent_tap};
pub use waker::ThreadWaker;

/// Largest number of frames in a burst. A backend passes at most this number of frames to the kernel in one
/// system call.
pub const BURST_FRAMES: usize = 64;

/// Length of an Ethernet header without tags, in bytes.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// Length of an Ethernet header with two VLAN tags, in bytes. The MTU does not count these bytes.
const L2_HEADER_BYTES: u32 = ETHERNET_HEADER_BYTES + 2 * 4;

/// The largest MTU of a port: 16 106 bytes. The longest frame at this MTU has two VLAN tags and
/// [`arena::LARGE_FRAME_BYTES`] bytes.
pub const MTU_MAX: u32 = LARGE_FRAME_BYTES as u32 - L2_HEADER_BYTES;

/// The backend of a port: the kernel interface through which the port uses its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backend {
    /// The default. Uses `packet` for every device.
    #[default]
    Auto,
    /// AF_PACKET with TPACKET_V2 rings. Works with veth devices, hardware, and taps that another
    /// process owns.
    Packet,
    /// A tap that xoff owns. If the tap does not exist, xoff creates it.
    Tap,
    /// The crate `pnet` (`pnet::datalink`), as a simple reference for tests. This backend loses VLAN tags.
    Pnet,
    /// AF_XDP in native mode, which needs root and Linux 6.6. Works with veth devices, hardware with one
    /// receive queue, and taps that another process owns.
    Xdp,
    /// A stream socket at which a peer with QEMU's protocol connects. The name of the device is a [`StreamAddress`].
    Stream,
}

impl Backend {
    /// Returns whether the port itself creates its device. The device then has no MTU of its own, and exists as long as
    /// the port.
    pub fn creates_device(self) -> bool {
        matches!(self, Backend::Tap | Backend::Stream)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Auto => "auto",
            Backend::Packet => "packet",
            Backend::Tap => "tap",
            Backend::Pnet => "pnet",
            Backend::Xdp => "xdp",
            Backend::Stream => "stream",
        })
    }
}

/// Error of parsing a [`Backend`]: no port backend has this name. The field is the unknown name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a port backend: use auto, packet, tap, pnet, xdp or stream")]
pub struct UnknownBackend(pub String);

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<Backend, UnknownBackend> {
        match name {
            "auto" => Ok(Backend::Auto),
            "packet" => Ok(Backend::Packet),
            "tap" => Ok(Backend::Tap),
            "pnet" => Ok(Backend::Pnet),
            "xdp" => Ok(Backend::Xdp),
            "stream" => Ok(Backend::Stream),
            _ => Err(UnknownBackend(name.to_owned())),
        }
    }
}

/// The device and the backend of a switch port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Name of the port in the switch, such as `Ethernet0`.
    pub name: String,
    /// Name of the network device in the namespace of the thread that opens the port.
    pub device: String,
    /// The backend with which the port uses the device.
    pub backend: Backend,
    /// MTU of the port: length of the longest layer-3 packet in bytes, 68 to [`MTU_MAX`] (field `mtu` of the
    /// SONiC table `PORT`).
    pub mtu: u32,
}

impl PortSpec {
    /// Returns the number of small slots that the port occupies as long as it is open: 0 for all backends
    /// except `xdp`. Slots of delivered frames are not included.
    pub fn reserved_slots(&self) -> usize {
        match self.backend {
            Backend::Xdp => af_xdp::reserved_slots(self.mtu),
            Backend::Auto | Backend::Packet | Backend::Tap | Backend::Pnet | Backend::Stream => 0,
        }
    }
}

/// An open port, and messages about its device.
#[derive(Debug)]
pub struct OpenedPort {
    /// The open port.
    pub port: Port,
    /// Messages for the user about the device and its changed settings. A message about a setting contains
    /// the command with the same effect.
    pub notes: Vec<String>,
}

/// A frame that a port received.
#[derive(Clone, Copy, Debug)]
pub struct PortFrame {
    /// Handle of the frame. The arena stores the frame without FCS.
    pub frame: FrameHandle,
    /// Length of the frame in bytes, without FCS.
    pub frame_len: u32,
    /// The parsed headers of the frame.
    pub parsed: ParsedHeaders,
    /// Time of reception in nanoseconds of `CLOCK_MONOTONIC`. This is the time stamp of the kernel for the
    /// backend `packet`. For an in-memory link, it is the time of sending. For other backends, it is the time
    /// at which the backend read the frame.
    pub received_ns: u64,
    /// Time of arrival in model time, which may be in the future. An in-memory link sets this time if the
    /// sender knows it. In all remaining cases, the time is `None`.
    pub arrival: Option<Picos>,
}

/// An open port, with one variant for each backend.
#[derive(Debug)]
pub enum Port {
    /// A device with an AF_PACKET socket.
    Packet(Box<PacketPort>),
    /// A tap that this process owns.
    Tap(Box<TapPort>),
    /// One end of an in-memory link.
    Link(Box<LinkPort>),
    /// A device that the crate `pnet` drives.
    Pnet(Box<PnetPort>),
    /// A device with an AF_XDP socket.
    Xdp(Box<XdpPort>),
    /// A stream socket.
    Stream(Box<StreamPort>),
    /// A port backend from outside this crate.
    Custom(Box<dyn PortBackend>),
}

/// Evaluates an expression with the backend of a port.
macro_rules! with_backend {
    ($port:expr, $backend:ident => $call:expr) => {
        match $port {
            Port::Packet($backend) => $call,
            Port::Tap($backend) => $call,
            Port::Link($backend) => $call,
            Port::Pnet($backend) => $call,
            Port::Xdp($backend) => $call,
            Port::Stream($backend) => $call,
            Port::Custom($backend) => $call,
        }
    };
}

impl Port {
    /// Opens the device of `spec` in the network namespace of the calling thread. Checks that the device does
    /// not change frames, and changes the settings of the device if necessary. Dropping the port restores the
    /// previous settings.
    ///
    /// # Errors
    /// Returns a [`PortError`] if the MTU is out of range, the device is missing or not suitable, or the
    /// kernel refuses a request. The message contains the cause and the remedy.
    pub fn open(spec: &PortSpec) -> Result<OpenedPort, PortError> {
        if !(68..=MTU_MAX).contains(&spec.mtu) {
            return Err(PortError::mtu_out_of_range(spec));
        }
        match spec.backend {
            Backend::Auto | Backend::Packet => PacketPort::open(spec),
            Backend::Tap => TapPort::open(spec),
            Backend::Pnet => PnetPort::open(spec),
            Backend::Xdp => XdpPort::open(spec),
            Backend::Stream => StreamPort::open(spec),
        }
    }

    /// Sets the arena that stores the frames of the port. The caller must call this function once before it
    /// uses the port.
    ///
    /// An AF_XDP port is down until the first call of [`receive`](Port::receive) after this call. Before that
    /// call, the port has no slots into which the kernel could write received frames.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot use the memory of the arena. Only the backend `xdp`
    /// returns errors.
    pub fn attach(&mut self, arena: &Arc<Arena>) -> Result<(), PortError> {
        match self {
            Port::Xdp(xdp) => xdp.attach(arena),
            Port::Link(link) => {
                link.attach(arena);
                Ok(())
            }
            Port::Packet(_) | Port::Tap(_) | Port::Pnet(_) | Port::Stream(_) | Port::Custom(_) => Ok(()),
        }
    }

    /// Creates both ends of an in-memory link. The link holds up to `frames` frames in each direction.
    /// `names` are the names of the two ends in reports. `mtu` is the MTU of the link in bytes, at
    /// most [`MTU_MAX`].
    ///
    /// Each end must be [attached](Port::attach) to the arena of its switch. The two ends may use the
    /// same arena.
    pub fn link_pair(names: [&str; 2], mtu: u32, frames: usize) -> [Port; 2] {
        LinkPort::create_pair(names, mtu, frames).map(|end| Port::Link(Box::new(end)))
    }

    /// Sets the waker of the thread that receives from this port. Only in-memory links use the waker, because
    /// they have no [`fd`](Port::fd). For other ports the call does nothing.
    pub fn set_waker(&mut self, waker: &ThreadWaker) {
        if let Port::Link(link) = self {
            link.set_waker(waker);
        }
    }

    /// Makes a stream port the link partner of its switch port. From then on, the port reads frames no faster than a
    /// link with this timing, honours the pauses of the switch ([`Port::honour_pause`]), and passes no MAC control
    /// frames to its peer. Model time is `dilation` times slower than wall time. For other ports the call does nothing.
    pub fn set_stream_link(&mut self, timing: LinkTiming, dilation: u32) {
        if let Port::Stream(stream) = self {
            stream.set_link(timing, dilation);
        }
    }

    /// Changes the speed in Mb/s and the overhead in bytes of the link that [`Port::set_stream_link`] has set.
    pub fn change_stream_link(&mut self, speed_mbps: u32, overhead_bytes: u32) {
        if let Port::Stream(stream) = self {
            stream.change_link(speed_mbps, overhead_bytes);
        }
    }

    /// Returns whether the caller must call [`Port::honour_pause`]: after [`Port::set_stream_link`].
    pub fn honours_pauses(&self) -> bool {
        matches!(self, Port::Stream(stream) if stream.is_link_partner())
    }

    /// Honours a frame that the switch sends if it is a PFC or PAUSE frame. While a priority is paused, the port
    /// receives no frames, because one stream carries all classes. The caller calls this function once for each frame,
    /// as soon as the frame may be sent, also if earlier frames still wait for a full device.
    pub fn honour_pause(&mut self, arena: &Arena, frame: FrameHandle) {
        if let Port::Stream(stream) = self {
            stream.honour_pause(arena, frame);
        }
    }

    /// Returns whether frames wait at this end of an in-memory link. Returns false for all other ports.
    pub fn has_waiting_frames(&self) -> bool {
        matches!(self, Port::Link(link) if link.has_waiting_frames())
    }

    /// Receives up to `max` frames and appends them to `out`. Returns the number of received frames: 0 if no
    /// frame waits. If `slots` has no free slot, frames wait in the device. The backend `pnet` instead drops
    /// and counts the frame. The backend `tap` does the same with a frame that needs a large slot.
    ///
    /// # Errors
    /// Returns the error of the device. If [`is_device_removed`] is true for this error, the device does not
    /// exist any more and the port must be opened again. If the device exists but is down, the call returns
    /// no frames and no error.
    pub fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<PortFrame>,
    ) -> io::Result<usize> {
        with_backend!(self, backend => backend.receive(slots, max, out))
    }

    /// Sends frames from the front of `frames`. Returns the number of finished frames. A finished frame was
    /// either sent, or was refused by the device and counted. The caller keeps the slots of all frames.
    ///
    /// If the returned number is smaller than the length of `frames`, the device is full or down. The caller
    /// then passes the remaining frames again later.
    ///
    /// # Errors
    /// Returns the same errors as [`Port::receive`].
    pub fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        with_backend!(self, backend => backend.transmit(arena, frames))
    }

    /// Same as [`Port::transmit`], with the arrival time of each frame in model time. `arrivals` has the same
    /// order as `frames`. A frame without an entry has no arrival time. In-memory links pass the times to the
    /// receiver. Ports with a network device or a custom backend ignore the times.
    ///
    /// # Errors
    /// Returns the same errors as [`Port::receive`].
    pub fn transmit_with_arrivals(
        &mut self,
        arena: &Arena,
        frames: &[FrameHandle],
        arrivals: &[Picos],
    ) -> io::Result<usize> {
        match self {
            Port::Link(link) => {
                Ok(link.transmit_with_arrivals(arena, frames, |index| arrivals.get(index).copied()))
            }
            other => other.transmit(arena, frames),
        }
    }

    /// Returns the descriptor that becomes readable when frames arrive. Returns `None` for an in-memory link:
    /// instead of a descriptor, the far end of the link uses a [`ThreadWaker`] to wake the thread. A custom
    /// backend may also return `None`.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Port::Packet(packet) => Some(packet.fd()),
            Port::Tap(tap) => Some(tap.fd()),
            Port::Link(_) => None,
            Port::Pnet(pnet) => Some(pnet.fd()),
            Port::Xdp(xdp) => Some(xdp.fd()),
            Port::Stream(stream) => Some(stream.fd()),
            Port::Custom(custom) => custom.fd(),
        }
    }

    /// Returns the number of small slots that the port occupies as long as it is open: 0 for all backends
    /// except `xdp`. Slots of delivered frames are not included.
    pub fn reserved_slots(&self) -> usize {
        match self {
            Port::Xdp(xdp) => xdp.reserved_slots(),
            Port::Packet(_) | Port::Tap(_) | Port::Link(_) | Port::Pnet(_) => 0,
            Port::Stream(_) | Port::Custom(_) => 0,
        }
    }

    /// Returns whether the device is up and has a carrier. An in-memory link is up while its other end
    /// exists. An AF_XDP port is also down before its first [`receive`](Port::receive). A stream port is up while it has
    /// a peer. It receives the frames of a new peer only after this function has returned true.
    pub fn is_link_up(&mut self) -> bool {
        with_backend!(self, backend => backend.is_link_up())
    }

    /// Returns whether the network device of the port still exists in its namespace. In-memory links, taps and custom
    /// backends report a removed device only as an error of [`receive`](Port::receive).
    ///
    /// A device goes down before the kernel removes it, and a packet socket gets one error for both events. A port
    /// that has read this error too early therefore gets no other error. Ask this of a port whose link is down.
    pub fn device_exists(&mut self) -> bool {
        match self {
            Port::Packet(port) => port.device_exists(),
            Port::Xdp(port) => port.device_exists(),
            Port::Pnet(port) => port.device_exists(),
            Port::Tap(_) | Port::Link(_) | Port::Stream(_) | Port::Custom(_) => true,
        }
    }

    /// Returns the numbers of frames that were dropped or lost since the last call. The call makes a few
    /// system calls.
    pub fn take_drops(&mut self) -> PortDrops {
        with_backend!(self, backend => backend.take_drops())
    }

    /// Stops the port and returns its slots to `slots`. Returns true when the port holds no slot any more. If
    /// the result is false, the caller calls the function again later.
    ///
    /// An in-memory link can return false while its far end still holds slots of this end. The far end
    /// returns these slots when it is closed or dropped.
    pub fn close(&mut self, slots: &mut impl SlotSource) -> bool {
        match self {
            Port::Link(link) => link.close(slots),
            Port::Xdp(xdp) => xdp.close(slots),
            Port::Packet(_) | Port::Tap(_) | Port::Pnet(_) | Port::Stream(_) | Port::Custom(_) => true,
        }
    }

    /// Returns the name of the port backend as it appears in reports, such as `packet` or `link`.
    pub fn backend_name(&self) -> &'static str {
        match self {
            Port::Packet(_) => "packet",
            Port::Tap(_) => "tap",
            Port::Link(_) => "link",
            Port::Pnet(_) => "pnet",
            Port::Xdp(_) => "xdp",
            Port::Stream(_) => "stream",
            Port::Custom(custom) => custom.backend_name(),
        }
    }

    /// Returns the name of the device at the time when the port was opened. For an in-memory link, returns
    /// the name of this end.
    pub fn device_name(&self) -> &str {
        match self {
            Port::Packet(packet) => packet.device_name(),
            Port::Tap(tap) => tap.device_name(),
            Port::Link(link) => link.name(),
            Port::Pnet(pnet) => pnet.device_name(),
            Port::Xdp(xdp) => xdp.device_name(),
            Port::Stream(stream) => stream.device_name(),
            Port::Custom(custom) => custom.device_name(),
        }
    }
}

/// Returns whether an error of [`Port::receive`] or [`Port::transmit`] means that the device is gone: ENODEV,
/// ENXIO, ENETDOWN or EBADFD. A device is gone if it was removed or moved to another namespace. A backend
/// must not return ENETDOWN for a device that is only down. [`Port::open`] succeeds again as soon as a device
/// of this name exists.
pub fn is_device_removed(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENODEV | libc::ENXIO | libc::ENETDOWN | libc::EBADFD)
    )
}

/// Returns the length of the longest frame for an MTU, in bytes without FCS. A longer frame is a superframe,
/// or comes from a sender with a larger MTU.
fn frame_len_max(mtu: u32) -> u32 {
    mtu + L2_HEADER_BYTES
}
