//! The results of a call into the switch: frames to transmit, deadlines, frames for the CPU port, and events.

use crate::config::WatchdogAction;
use crate::drops::DropReason;
use crate::frame::FrameHandle;
use crate::ids::{InterfaceId, PortId, QueueId, TimerId};
use crate::mmu::BufferRefusal;
use xoff_units::Picos;
use xoff_wire::lldp_port::LldpEvent;

/// Collects the results of calls into the switch. Each call only appends results. Before the next call, the
/// driver must drain `deadlines`, `punts` and `events`. `transmits` may collect the results of several calls.
///
/// The frames in `transmits` and `punts` belong to the driver. The driver releases the slot of a frame after
/// the backend has sent the frame, or after the CPU has read it.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Frames whose transmission starts. For each port, the frames are in the order of their start times.
    pub transmits: Vec<Transmit>,
    /// Deadlines for [`crate::Switch::expire`]. If a timer has several deadlines, the driver must handle all
    /// of them. A later deadline does not cancel an earlier deadline.
    pub deadlines: Vec<Deadline>,
    /// Frames for the CPU port.
    pub punts: Vec<PuntedFrame>,
    /// Events for the operator, in the order of their times. The PFC watchdog, address learning and the LLDP
    /// agent create events.
    pub events: Vec<SwitchEvent>,
}

/// Initial capacity of [`Outputs::events`].
const EVENTS: usize = 16;

impl Outputs {
    /// Creates empty lists with memory for the results of `burst` frames, so that later calls do
    /// not allocate.
    pub fn with_capacity(burst: usize) -> Outputs {
        Outputs {
            transmits: Vec::with_capacity(burst),
            deadlines: Vec::with_capacity(burst),
            punts: Vec::with_capacity(burst),
            events: Vec::with_capacity(EVENTS),
        }
    }
}

/// An event for the operator, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchEvent {
    /// Model time of the event.
    pub at: Picos,
    /// Kind of the event, with its details.
    pub kind: SwitchEventKind,
}

/// An event of the PFC watchdog, of address learning or of LLDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchEventKind {
    /// The watchdog has detected a PFC storm at a queue.
    StormDetected {
        /// The queue that the peer keeps paused.
        queue: QueueId,
        /// The configured action for this storm.
        action: WatchdogAction,
        /// Time for which the queue was paused without progress. If the queue still sent frames at the start
        /// of the pause, this time is shorter than the pause.
        paused: Picos,
    },
    /// A storm has ended.
    StormRestored {
        /// The queue that was in the storm.
        queue: QueueId,
    },
    /// The big red switch was turned on or off.
    BigRedSwitch {
        /// True if the big red switch is on.
        on: bool,
    },
    /// A MAC address has moved between ports more than 100 times within a second of model time. Usually the
    /// network has a loop, or two stations have the same address. The switch reports each address once, and at
    /// most 64 addresses.
    MacMoves {
        /// The address, in transmission order.
        address: [u8; 6],
        /// The VLAN of the address. 0 if the switch has no VLANs.
        vlan: u16,
        /// The ports before and after the latest move. For a LAG, its first member or the member on which the
        /// frame arrived.
        ports: [PortId; 2],
    },
    /// A change of the LLDP neighbours or of the DCBX negotiation at a port. The LLDP agent of the CPU port
    /// reports it.
    Lldp {
        /// The port.
        port: PortId,
        /// The change.
        event: LldpEvent,
    },
}

/// A frame whose transmission starts, and the time for which it occupies the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The egress port.
    pub port: PortId,
    /// The frame to send. The driver releases it after sending.
    pub frame: FrameHandle,
    /// Model time at which the first bit is on the link. From this time on, the buffer cells of the frame
    /// are free.
    pub start: Picos,
    /// Model time at which the link is free again, after preamble, frame, FCS and interframe gap.
    pub end: Picos,
    /// True if the switch has marked the frame CE at departure.
    pub marked: bool,
}

/// A request of the switch: at time `at`, the driver calls [`crate::Switch::expire`] with `timer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// Model time at which the driver must make this call. The time is not earlier than the time of the call
    /// that requested the deadline.
    pub at: Picos,
    /// The timer to pass to [`crate::Switch::expire`].
    pub timer: TimerId,
}

/// A frame that the switch hands to the CPU port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntedFrame {
    /// The ingress port.
    pub port: PortId,
    /// The router interface on which the frame arrived. `None` if the frame was not addressed to the router.
    pub interface: Option<InterfaceId>,
    /// Reason for which the CPU receives the frame.
    pub reason: PuntReason,
    /// The received frame, unchanged. The driver releases it. Not valid if [`PuntReason::has_frame`] is false.
    pub frame: FrameHandle,
    /// Offset of the header after the Ethernet header and at most two VLAN tags, in bytes from the start of
    /// the frame: 14, 18 or 22. In a frame without IP or ARP, this is the offset of the payload.
    pub l3_offset: u8,
}

impl PuntedFrame {
    /// Returns an entry for the CPU that has no frame.
    pub(crate) fn without_frame(reason: PuntReason) -> PuntedFrame {
        PuntedFrame {
            port: PortId(0),
            interface: None,
            reason,
            frame: FrameHandle(u32::MAX),
            l3_offset: 0,
        }
    }
}

/// Reason for which the CPU receives a frame. For the four reasons from `TimeExceeded` to `TooBig`, the switch has
/// already counted the frame as dropped. The CPU then sends an ICMP error to the sender of the frame (RFC
/// 1812, RFC 4443).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntReason {
    /// The destination is a reserved group address, such as those of LLDP and LACP.
    Protocol,
    /// ARP or neighbour discovery for an address of the switch.
    Neighbour,
    /// An IP packet to an address of the switch.
    Local,
    /// The TTL or hop limit would reach zero.
    TimeExceeded,
    /// No route matches the destination.
    NetUnreachable,
    /// The next hop did not answer ARP or neighbour discovery, or its interface went down.
    HostUnreachable,
    /// The packet is longer than the MTU of its egress interface.
    TooBig {
        /// The MTU of the egress interface in bytes.
        mtu: u32,
    },
    /// The time of [`crate::Switch::request_cpu_timer`] is reached. No frame belongs to this entry.
    Timer,
    /// The state of a port has changed, and a CPU handles protocols
    /// ([`crate::Switch::set_protocols_attached`]). No frame belongs to this entry.
    LinkChange,
}

impl PuntReason {
    /// Returns whether an entry with this reason has a frame.
    pub const fn has_frame(self) -> bool {
        !matches!(self, PuntReason::Timer | PuntReason::LinkChange)
    }
}

/// The result of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardingResult {
    /// The frame is queued or in transmission at one or more ports.
    Forwarded {
        /// Number of copies. The number is 1 for a unicast frame.
        copies: u16,
    },
    /// The frame is a MAC control frame or a link quality message. The switch has processed, counted and
    /// released the frame.
    Control,
    /// The frame is for the switch itself. The frame is in [`Outputs::punts`], or the switch has processed
    /// and released the frame.
    Punted,
    /// The frame waits until the link address of its next hop is resolved.
    Held,
    /// The frame is dropped and counted. The switch has released the frame, unless it is in
    /// [`Outputs::punts`] for an ICMP error.
    Dropped(DroppedFrame),
}

/// A dropped frame, with the reason, the port that counts the drop, and the buffer limit that
/// refused the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedFrame {
    /// The reason of the drop.
    pub reason: DropReason,
    /// The port that counts the drop. This is the ingress port for ingress reasons and the egress port for
    /// egress reasons.
    pub port: PortId,
    /// Traffic class of the frame, 0 to 15.
    pub tc: u8,
    /// Length of the frame at `port` in bytes, with FCS (`mac_len`).
    pub mac_len: u32,
    /// The buffer limit that refused the frame. `None` for drops with another cause.
    pub refusal: Option<BufferRefusal>,
}
