//! Ports: where frames come in and go out.
//!
//! A [`Port`] receives and transmits bursts of frames that lie in the slots of an [`Arena`]. It is an enum, so
//! that the worker's loop calls its backend statically. A backend does what follows from a frame alone:
//! it puts VLAN tags back that the kernel took off, refuses what it cannot pass on unharmed, parses, and
//! counts. What the model does with a frame is the switch's.

mod ahead;
pub mod arena;
mod bell;
mod clock;
mod count;
mod courtesy;
mod device;
mod error;
mod guard;
mod judge;
mod link;
pub mod net;
mod packet;
mod pnet;
mod socket;
mod tap;
pub mod tester;
mod xdp;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_dataplane::{FrameHandle, Picos};
use xoff_wire::parse::ParsedHeaders;

use arena::LARGE_FRAME_BYTES;
pub use arena::{Arena, ArenaStore, SlotCache, SlotClass, SlotSource};
pub use bell::Bell;
pub use count::PortDrops;
pub use courtesy::Courtesy;
pub use error::PortError;
pub use link::Link;
pub use packet::Packet;
pub use pnet::Pnet;
pub use tap::{Tap, make_persistent_tap};
pub use xdp::Xdp;

/// Frames that are moved at once, at most: one system call's worth.
pub const BURST_FRAMES: usize = 64;

/// Octets of an Ethernet header without tags.
const ETHERNET_HEADER_BYTES: u32 = 14;

/// Octets of an Ethernet header and of the two VLAN tags that are not counted in an MTU.
const L2_HEADER_BYTES: u32 = ETHERNET_HEADER_BYTES + 2 * 4;

/// The largest port MTU: what a large slot holds, without Ethernet header and two tags.
pub const MTU_MAX: u32 = LARGE_FRAME_BYTES as u32 - L2_HEADER_BYTES;

/// How a port's device is driven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backend {
    /// The fastest that fits the device: `packet` for every netdev that exists.
    #[default]
    Auto,
    /// AF_PACKET with a TPACKET_V2 receive ring: veth, hardware, a tap that another process owns.
    Packet,
    /// A tap of our own, made if it does not exist.
    Tap,
    /// `pnet::datalink`: the simple reference. Loses VLAN tags.
    Pnet,
    /// AF_XDP in native mode: veth, hardware, a tap that another process owns. Takes root.
    Xdp,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Auto => "auto",
            Backend::Packet => "packet",
            Backend::Tap => "tap",
            Backend::Pnet => "pnet",
            Backend::Xdp => "xdp",
        })
    }
}

/// A word that is no backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no backend: use auto, packet, tap, pnet or xdp")]
pub struct UnknownBackend(pub String);

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(word: &str) -> Result<Backend, UnknownBackend> {
        match word {
            "auto" => Ok(Backend::Auto),
            "packet" => Ok(Backend::Packet),
            "tap" => Ok(Backend::Tap),
            "pnet" => Ok(Backend::Pnet),
            "xdp" => Ok(Backend::Xdp),
            _ => Err(UnknownBackend(word.to_owned())),
        }
    }
}

/// Which device a port of the switch is to use, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The port's name in the switch: `Ethernet0`.
    pub name: String,
    /// The netdev, by its name in the namespace of the thread that opens the port.
    pub device: String,
    /// How to drive it.
    pub backend: Backend,
    /// Largest layer-3 packet in octets (SONiC `PORT.mtu`), 68 to [`MTU_MAX`].
    pub mtu: u32,
}

impl PortSpec {
    /// Small slots that the port keeps for itself, besides those of frames that it has delivered.
    pub fn slots_held(&self) -> usize {
        match self.backend {
            Backend::Xdp => xdp::slots_held(self.mtu),
            Backend::Auto | Backend::Packet | Backend::Tap | Backend::Pnet => 0,
        }
    }
}

/// A port that is open, and what was found on the way.
#[derive(Debug)]
pub struct Opened {
    /// The port.
    pub port: Port,
    /// What was repaired on the device, or should be known of it, with the command that does it by hand.
    pub notes: Vec<String>,
}

/// A frame that came in.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The frame, as it was on the wire (without FCS).
    pub frame: FrameHandle,
    /// Its length in octets.
    pub frame_len: u32,
    /// What its headers say.
    pub parsed: ParsedHeaders,
    /// When it came, in nanoseconds of `CLOCK_MONOTONIC`: the kernel's time stamp where the backend has one, otherwise
    /// the time of the read.
    pub received_ns: u64,
    /// When it arrives in model time, where the sender has said so: it may lie ahead. Links in memory alone know it.
    pub arrives: Option<Picos>,
}

/// An open port.
#[derive(Debug)]
pub enum Port {
    /// AF_PACKET.
    Packet(Box<Packet>),
    /// A tap of our own.
    Tap(Box<Tap>),
    /// One end of a link in memory.
    Link(Box<Link>),
    /// `pnet::datalink`.
    Pnet(Box<Pnet>),
    /// AF_XDP.
    Xdp(Box<Xdp>),
}

/// Calls the backend, whichever it is.
macro_rules! each {
    ($port:expr, $backend:ident => $call:expr) => {
        match $port {
            Port::Packet($backend) => $call,
            Port::Tap($backend) => $call,
            Port::Link($backend) => $call,
            Port::Pnet($backend) => $call,
            Port::Xdp($backend) => $call,
        }
    };
}

impl Port {
    /// Opens a device in the calling thread's network namespace, after checking that frames will pass it unharmed
    /// and repairing what stands in the way. What was changed on the device is put back when the port is dropped.
    ///
    /// # Errors
    /// [`PortError`] says what is wrong, why it matters, and what to do.
    pub fn open(spec: &PortSpec) -> Result<Opened, PortError> {
        if !(68..=MTU_MAX).contains(&spec.mtu) {
            return Err(PortError::mtu_out_of_range(spec));
        }
        match spec.backend {
            Backend::Auto | Backend::Packet => Packet::open(spec),
            Backend::Tap => Tap::open(spec),
            Backend::Pnet => Pnet::open(spec),
            Backend::Xdp => Xdp::open(spec),
        }
    }

    /// Tells the port in which arena its frames are to lie; to be called once, before it is used. Until then, and until
    /// the first [`receive`](Port::receive) after it, a port that the kernel writes into slots for is down.
    ///
    /// # Errors
    /// The kernel refuses to work on the arena's memory.
    pub fn attach(&mut self, arena: &Arc<Arena>) -> Result<(), PortError> {
        match self {
            Port::Xdp(xdp) => xdp.attach(arena),
            Port::Link(link) => {
                link.attach(arena);
                Ok(())
            }
            Port::Packet(_) | Port::Tap(_) | Port::Pnet(_) => Ok(()),
        }
    }

    /// The two ends of a link in memory that holds up to `frames` frames each way. Each end is [attached](Port::attach) to
    /// its own arena, which may be the same one.
    pub fn link_pair(names: [&str; 2], mtu: u32, frames: usize) -> [Port; 2] {
        Link::pair(names, mtu, frames).map(|end| Port::Link(Box::new(end)))
    }

    /// Names the thread that is to be woken for frames of a port that has no [`fd`](Port::fd).
    pub fn wake_by(&mut self, bell: &Bell) {
        if let Port::Link(link) = self {
            link.wake_by(bell);
        }
    }

    /// Whether frames wait in this process: nothing that can be polled tells of them.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Port::Link(link) if link.is_waiting())
    }

    /// Appends up to `max` frames to `out` and returns how many; 0 when none is waiting. Where slots run out, frames stay
    /// in the device.
    ///
    /// # Errors
    /// Where [`is_gone`] holds for the error, the device does not exist any more and the port has to be opened
    /// again. A device that is merely down gives no frames and no error.
    pub fn receive(
        &mut self,
        slots: &mut impl SlotSource,
        max: usize,
        out: &mut Vec<Received>,
    ) -> io::Result<usize> {
        each!(self, backend => backend.receive(slots, max, out))
    }

    /// Takes frames from the front of `frames` and returns how many: sent, or refused by the device and counted.
    /// Fewer than all: the device is full or down, try the others later. The caller keeps the slots of all.
    ///
    /// # Errors
    /// As for [`Port::receive`].
    pub fn transmit(&mut self, arena: &Arena, frames: &[FrameHandle]) -> io::Result<usize> {
        each!(self, backend => backend.transmit(arena, frames))
    }

    /// As [`Port::transmit`]; `arrives` says of each frame when it is to arrive in model time, which a link in memory hands on.
    ///
    /// # Errors
    /// As for [`Port::receive`].
    pub fn transmit_timed(
        &mut self,
        arena: &Arena,
        frames: &[FrameHandle],
        arrives: &[Picos],
    ) -> io::Result<usize> {
        match self {
            Port::Link(link) => Ok(link.transmit_timed(arena, frames, |n| arrives.get(n).copied())),
            other => other.transmit(arena, frames),
        }
    }

    /// What `poll(2)` waits on for frames; `None` for a link in memory, whose other end rings a [`Bell`].
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Port::Packet(packet) => Some(packet.fd()),
            Port::Tap(tap) => Some(tap.fd()),
            Port::Link(_) => None,
            Port::Pnet(pnet) => Some(pnet.fd()),
            Port::Xdp(xdp) => Some(xdp.fd()),
        }
    }

    /// Small slots that the port keeps for itself, besides those of frames that it has delivered.
    pub fn slots_held(&self) -> usize {
        match self {
            Port::Xdp(xdp) => xdp.slots_held(),
            Port::Packet(_) | Port::Tap(_) | Port::Link(_) | Port::Pnet(_) => 0,
        }
    }

    /// Whether the device is up and has a carrier (for a link: whether the other end exists).
    pub fn link_up(&mut self) -> bool {
        each!(self, backend => backend.link_up())
    }

    /// What was dropped and lost since the last call. Costs a few system calls.
    pub fn drops(&mut self) -> PortDrops {
        each!(self, backend => backend.drops())
    }

    /// Ends the work of this port and puts the slots back that the backend holds; true when it holds none any more. Those
    /// that the other end of a link has are back only after that end was closed or dropped too.
    pub fn close(&mut self, slots: &mut impl SlotSource) -> bool {
        match self {
            Port::Link(link) => link.close(slots),
            Port::Xdp(xdp) => xdp.close(slots),
            Port::Packet(_) | Port::Tap(_) | Port::Pnet(_) => true,
        }
    }

    /// The backend's name in reports.
    pub fn backend(&self) -> &'static str {
        match self {
            Port::Packet(_) => "packet",
            Port::Tap(_) => "tap",
            Port::Link(_) => "link",
            Port::Pnet(_) => "pnet",
            Port::Xdp(_) => "xdp",
        }
    }

    /// The device's name when the port was opened.
    pub fn device(&self) -> &str {
        match self {
            Port::Packet(packet) => packet.device(),
            Port::Tap(tap) => tap.device(),
            Port::Link(link) => link.name(),
            Port::Pnet(pnet) => pnet.device(),
            Port::Xdp(xdp) => xdp.device(),
        }
    }
}

/// Whether an error of a port means that its device does not exist any more: it was removed, or moved to
/// another namespace. [`Port::open`] works again once a device of that name is back.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENODEV | libc::ENXIO | libc::ENETDOWN | libc::EBADFD)
    )
}

/// The longest frame a port of this MTU passes: more is no frame of this link but a superframe, or came from a
/// device with a larger MTU.
fn longest_frame(mtu: u32) -> u32 {
    mtu + L2_HEADER_BYTES
}
