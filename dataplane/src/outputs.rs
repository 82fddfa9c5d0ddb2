//! What comes out of the switch: frames to transmit, deadlines, frames for the CPU, and what became of a frame.

use crate::config::WatchdogAction;
use crate::drops::DropReason;
use crate::frame::Handle;
use crate::ids::{InterfaceId, PortId, QueueId, TimerId};
use crate::mmu::Refusal;
use xoff_units::Picos;

/// Filled by calls into the switch, which only ever adds to it. The driver drains deadlines, punts and events before the next call;
/// transmits may gather over several.
///
/// Frames in `transmits` and `punts` belong to the driver: it gives their slots back when the backend is done.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Frames whose transmission starts, in the order of their starts per port.
    pub transmits: Vec<Transmit>,
    /// Deadlines to hand back to [`crate::Switch::expire`]. A later one for the same id does not cancel an earlier one.
    pub deadlines: Vec<Deadline>,
    /// Frames for the switch's own protocols.
    pub punts: Vec<Punt>,
    /// What has happened that an operator wants to know, in the order of its times.
    pub events: Vec<SwitchEvent>,
}

/// Room for what one call usually tells.
const EVENTS: usize = 16;

impl Outputs {
    /// With room for a burst, so that nothing is allocated later.
    pub fn with_capacity(burst: usize) -> Outputs {
        Outputs {
            transmits: Vec::with_capacity(burst),
            deadlines: Vec::with_capacity(burst),
            punts: Vec::with_capacity(burst),
            events: Vec::with_capacity(EVENTS),
        }
    }
}

/// Something that an operator wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchEvent {
    /// When, in model time.
    pub at: Picos,
    /// What.
    pub kind: SwitchEventKind,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchEventKind {
    /// The watchdog has found a PFC storm.
    StormDetected {
        /// The queue that its peer holds.
        queue: QueueId,
        /// What is done about it.
        action: WatchdogAction,
        /// How long it had been paused, or without progress if that is shorter.
        paused: Picos,
    },
    /// A storm is over.
    StormRestored {
        /// The queue.
        queue: QueueId,
    },
    /// The big red switch was thrown or taken back.
    BigRedSwitch {
        /// Whether it is on.
        on: bool,
    },
}

/// A frame whose transmission starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The port it leaves by.
    pub port: PortId,
    /// Its bytes.
    pub frame: Handle,
    /// First bit on the link; the buffer cells are free from here on.
    pub start: Picos,
    /// The link is free again: preamble, frame, FCS and gap have passed.
    pub end: Picos,
    /// The switch has decided to mark it, and it carries CE.
    pub marked: bool,
}

/// The core wants to be called at `at` with `timer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// When, in model time; never in the past of the call that asked for it.
    pub at: Picos,
    /// Which.
    pub timer: TimerId,
}

/// A frame for what stands behind the CPU port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punt {
    /// The port it came in on.
    pub port: PortId,
    /// The router interface it came in on, if it did.
    pub interface: Option<InterfaceId>,
    /// What is wanted of the CPU.
    pub reason: PuntReason,
    /// Its bytes, as they came in.
    pub frame: Handle,
    /// Where its layer-3 header begins.
    pub l3_offset: u8,
}

/// Why the CPU gets a frame. The last four are copies of frames that were dropped and counted; their senders are to be
/// told, by the rules of RFC 1812 and RFC 4443.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntReason {
    /// To a reserved group address: LLDP, LACP and their like.
    Protocol,
    /// ARP or neighbour discovery that concerns an address of the switch.
    Neighbour,
    /// An IP packet to an address of the switch.
    Local,
    /// Its time to live or hop limit would have reached zero.
    TimeExceeded,
    /// No route, or one that says so.
    NetUnreachable,
    /// The neighbour did not answer.
    HostUnreachable,
    /// Too long for the interface it would have left by.
    TooBig {
        /// That interface's MTU in octets.
        mtu: u32,
    },
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Queued on this many ports.
    Forwarded {
        /// Copies, one for unicast.
        copies: u16,
    },
    /// A MAC control frame or link quality message: obeyed or ignored, counted, gone.
    Control,
    /// For the switch itself: handed to the CPU port, or read and done with.
    Punted,
    /// Waits until its next hop is found.
    Held,
    /// Dropped, counted, its slot released.
    Dropped(Drop),
}

/// A drop: where, why, and the limit that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// Why.
    pub reason: DropReason,
    /// The port that counts it: the ingress port for ingress reasons, the egress port for egress reasons.
    pub port: PortId,
    /// Traffic class of the frame.
    pub tc: u8,
    /// Length of the frame there (`mac_len`).
    pub mac_len: u32,
    /// The buffer limit, where one decided.
    pub refusal: Option<Refusal>,
}
