//! The neighbour table stores the link (MAC) addresses of next hops. The table resolves and ages these
//! addresses (RFC 826, RFC 4861 section 7.3), and holds the frames that wait for an address.

use core::cmp::Reverse;
use core::hash::BuildHasherDefault;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use hashbrown::HashMap;

use crate::bridge::DeterministicHasher;
use crate::frame::FrameHandle;
use crate::ids::{InterfaceId, LogicalPort, PortId};
use xoff_units::Picos;
use xoff_wire::parse::ParsedHeaders;

/// Time between two requests for a link address (RFC 4861: RETRANS_TIMER).
pub const RETRANSMIT_INTERVAL: Picos = Picos::from_millis(1_000);
/// Number of unanswered requests after which a neighbour is unreachable (RFC 4861:
/// MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT).
pub const SOLICITATIONS_MAX: u8 = 3;
/// Time after the latest message of a neighbour at which the neighbour is probed again.
pub const REACHABLE_TIME: Picos = Picos::from_millis(300_000);

/// Largest number of frames that wait for all neighbours together.
pub const HELD_FRAMES_MAX: usize = 1_024;

/// Index of a neighbour in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeighbourId(u32);

/// State of the resolution of a neighbour's link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// The link address is not known, and no resolution is running.
    Unknown,
    /// The resolution is running: a request was sent and not answered yet.
    Incomplete,
    /// The neighbour has answered or sent a message in the last [`REACHABLE_TIME`].
    Reachable,
    /// The neighbour answered some time ago and is being probed. Its link address is still used.
    Probe,
    /// The configuration contains the link address.
    Static,
}

/// Snapshot of a neighbour ([`Switch::neighbour_entries`](crate::Switch::neighbour_entries)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourEntry {
    /// Router interface behind which the neighbour is.
    pub interface: InterfaceId,
    /// IP address of the neighbour.
    pub address: IpAddr,
    /// Link address of the neighbour. `None` while it is not known.
    pub mac: Option<[u8; 6]>,
    /// State of the resolution.
    pub state: NeighbourState,
    /// Port or LAG on which the latest message of the neighbour arrived. `None` if no message has arrived.
    pub port: Option<LogicalPort>,
    /// Time since the latest message of the neighbour, or since model time 0 if no message has arrived.
    pub age: Picos,
    /// Number of frames that wait for the link address of the neighbour.
    pub held: usize,
}

/// A frame that waits for the link address of a neighbour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldFrame {
    /// Ingress port. `None` for a frame of the switch itself.
    pub(crate) from: Option<PortId>,
    /// Router interface on which the frame arrived. `None` if it is not known.
    pub(crate) interface: Option<InterfaceId>,
    pub(crate) frame: FrameHandle,
    pub(crate) frame_len: u32,
    pub(crate) parsed: ParsedHeaders,
}

/// Key of a neighbour. IPv4 addresses are stored as IPv4-mapped IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NeighbourKey {
    interface: InterfaceId,
    address: u128,
}

impl core::hash::Hash for NeighbourKey {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        state.write_u64((self.address >> 64) as u64 ^ u64::from(self.interface.0) << 40);
        state.write_u64(self.address as u64);
    }
}

/// Returns the key of an address on an interface.
fn neighbour_key(interface: InterfaceId, address: IpAddr) -> NeighbourKey {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    NeighbourKey { interface, address }
}

/// Link address of a neighbour, and the port behind which it was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeighbourLink {
    pub(crate) mac: [u8; 6],
    /// Port or LAG on which the latest message of the neighbour arrived.
    pub(crate) port: Option<LogicalPort>,
}

/// State of a neighbour.
#[derive(Debug)]
struct Neighbour {
    key: NeighbourKey,
    link: NeighbourLink,
    state: NeighbourState,
    /// Number of unanswered requests.
    solicitations: u8,
    heard_at: Picos,
    /// Time of the next action for this neighbour, or [`Picos::NEVER`].
    due: Picos,
    /// Earliest time of this neighbour in the heap of deadlines. If `due` is later than this time, the
    /// neighbour is inserted again with the later time when this time is reached.
    scheduled: Picos,
    /// First frame that waits for this neighbour.
    held_first: u32,
    /// Last frame that waits for this neighbour.
    held_last: u32,
    /// Number of waiting frames.
    held: usize,
    /// True if the neighbour is a next hop of a route. Its slot must then not be freed.
    pinned: bool,
    /// True if the slot contains a neighbour.
    in_use: bool,
}

/// End of a list of frames.
const NO_FRAME: u32 = u32::MAX;

/// A slot for a waiting frame, with the next slot of its list.
#[derive(Debug)]
struct HeldFrameSlot {
    held: Option<HeldFrame>,
    next: u32,
}

/// Action that is due for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeighbourAction {
    /// Send a request for the link address. If an address is already known, the request goes to this address.
    /// Otherwise, the request goes to all stations.
    Solicit(NeighbourId),
    /// Drop the frames that wait for the neighbour, because it did not answer.
    Failed(NeighbourId),
}

/// All neighbours of a switch, at most `entries_max`.
#[derive(Debug)]
pub(crate) struct NeighbourTable {
    slots: Vec<Neighbour>,
    free: Vec<u32>,
    index: HashMap<NeighbourKey, u32, BuildHasherDefault<DeterministicHasher>>,
    /// Deadlines of neighbours, earliest first. Outdated entries are skipped.
    deadlines: BinaryHeap<Reverse<(Picos, u32)>>,
    entries_max: usize,
    hold_frames: usize,
    /// The waiting frames of all neighbours, and the list of free slots.
    held_slots: Vec<HeldFrameSlot>,
    free_held_slot: u32,
    held: usize,
    changes: u64,
}

impl NeighbourTable {
    /// Creates an empty table.
    pub(crate) fn new(entries_max: usize, hold_frames: usize) -> NeighbourTable {
        NeighbourTable {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashMap::default(),
            deadlines: BinaryHeap::new(),
            entries_max,
            hold_frames,
            held_slots: Vec::new(),
            free_held_slot: NO_FRAME,
            held: 0,
            changes: 0,
        }
    }

    /// Reserves the memory of all neighbours and waiting frames.
    pub(crate) fn reserve(&mut self) {
        let missing = self.entries_max.saturating_sub(self.slots.len());
        self.slots.reserve(missing);
        self.free.reserve(self.entries_max);
        // Twice the capacity, so that slots of removed entries are reclaimed without a reallocation.
        self.index.reserve(missing + self.entries_max);
        self.deadlines.reserve(2 * self.entries_max);
        self.held_slots.reserve(HELD_FRAMES_MAX);
    }

    /// Sets the largest number of neighbours, and the largest number of waiting frames for each neighbour.
    pub(crate) fn set_limits(&mut self, entries_max: usize, hold_frames: usize) {
        (self.entries_max, self.hold_frames) = (entries_max, hold_frames);
    }

    /// Returns a counter that changes with each input of an [`Adjacency`](super::adjacency::Adjacency).
    #[inline(always)]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Records that an input of adjacencies has changed. All cached adjacencies are then invalid.
    pub(crate) fn record_change(&mut self) {
        self.changes += 1;
    }

    /// Returns the number of waiting frames of all neighbours.
    pub(crate) fn held_frames(&self) -> usize {
        self.held
    }

    /// Returns the neighbour with this address on an interface. Returns `None` if it is not in the table.
    #[inline]
    pub(crate) fn find(&self, interface: InterfaceId, address: IpAddr) -> Option<NeighbourId> {
        self.index
            .get(&neighbour_key(interface, address))
            .copied()
            .map(NeighbourId)
    }

    /// Returns the neighbour with this address. If the neighbour does not exist, it is added. Returns `None`
    /// if the table is full.
    pub(crate) fn find_or_add(&mut self, interface: InterfaceId, address: IpAddr) -> Option<NeighbourId> {
        if let Some(found) = self.find(interface, address) {
            return Some(found);
        }
        if self.index.len() >= self.entries_max {
            return None;
        }
        self.record_change();
        let key = neighbour_key(interface, address);
        let neighbour = Neighbour {
            key,
            link: NeighbourLink {
                mac: [0; 6],
                port: None,
            },
            state: NeighbourState::Unknown,
            solicitations: 0,
            heard_at: Picos::ZERO,
            due: Picos::NEVER,
            scheduled: Picos::NEVER,
            held_first: NO_FRAME,
            held_last: NO_FRAME,
            held: 0,
            pinned: false,
            in_use: true,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = neighbour;
                slot
            }
            None => {
                self.slots.push(neighbour);
                self.slots.len() as u32 - 1
            }
        };
        self.index.insert(key, slot);
        Some(NeighbourId(slot))
    }

    /// Returns the link address of a neighbour. Returns `None` if it is not resolved.
    #[inline]
    pub(crate) fn resolved_link(&self, id: NeighbourId) -> Option<&NeighbourLink> {
        let neighbour = &self.slots[id.0 as usize];
        match neighbour.state {
            NeighbourState::Reachable | NeighbourState::Probe | NeighbourState::Static => {
                Some(&neighbour.link)
            }
            NeighbourState::Unknown | NeighbourState::Incomplete => None,
        }
    }

    /// Returns the interface of a neighbour.
    pub(crate) fn interface(&self, id: NeighbourId) -> InterfaceId {
        self.slots[id.0 as usize].key.interface
    }

    /// Returns the IP address of a neighbour.
    pub(crate) fn address(&self, id: NeighbourId) -> IpAddr {
        let address = std::net::Ipv6Addr::from_bits(self.slots[id.0 as usize].key.address);
        match address.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(address),
        }
    }

    /// Keeps the slot of a next hop, even while its address is not known.
    pub(crate) fn pin(&mut self, id: NeighbourId) {
        self.slots[id.0 as usize].pinned = true;
    }

    /// Removes all pins. The caller pins the current next hops again
    /// and calls [`NeighbourTable::remove_unused`].
    pub(crate) fn unpin_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.pinned = false);
    }

    /// Removes all neighbours in the state [`Unknown`](NeighbourState::Unknown) that are not pinned.
    pub(crate) fn remove_unused(&mut self) {
        for slot in 0..self.slots.len() {
            let neighbour = &self.slots[slot];
            if neighbour.in_use && neighbour.state == NeighbourState::Unknown && !neighbour.pinned {
                self.remove(NeighbourId(slot as u32));
            }
        }
    }

    /// Sets a static link address. Returns `None` if the table is full.
    pub(crate) fn set_static(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Option<NeighbourId> {
        let id = self.find_or_add(interface, address)?;
        self.record_change();
        let neighbour = &mut self.slots[id.0 as usize];
        (neighbour.link.mac, neighbour.state, neighbour.due) = (mac, NeighbourState::Static, Picos::NEVER);
        Some(id)
    }

    /// Removes all static link addresses.
    pub(crate) fn clear_static(&mut self) {
        self.record_change();
        for slot in 0..self.slots.len() {
            let neighbour = &mut self.slots[slot];
            if neighbour.in_use && neighbour.state == NeighbourState::Static {
                (neighbour.state, neighbour.due) = (NeighbourState::Unknown, Picos::NEVER);
            }
        }
    }

    /// Stores the link address that a message of a neighbour contains. If `known_only` is true, only an
    /// existing entry is updated. RFC 826 ("merge") and RFC 4861 section 7.2.5 require `known_only` for
    /// messages that are not requests for the router. Returns the neighbour if it is now resolved. The caller
    /// must then send the frames that have waited for this neighbour.
    pub(crate) fn update_from_message(
        &mut self,
        now: Picos,
        interface: InterfaceId,
        address: IpAddr,
        mac: [u8; 6],
        port: LogicalPort,
        known_only: bool,
    ) -> Option<NeighbourId> {
        let id = match known_only {
            true => self.find(interface, address)?,
            false => self.find_or_add(interface, address)?,
        };
        self.record_change();
        let neighbour = &mut self.slots[id.0 as usize];
        if neighbour.state == NeighbourState::Static {
            neighbour.link.port = Some(port);
            return None;
        }
        neighbour.link = NeighbourLink {
            mac,
            port: Some(port),
        };
        neighbour.heard_at = now;
        (neighbour.state, neighbour.solicitations) = (NeighbourState::Reachable, 0);
        self.set_deadline(id, now.saturating_add(REACHABLE_TIME));
        Some(id)
    }

    /// Starts the resolution of a neighbour, unless the neighbour is resolved or being resolved.
    pub(crate) fn start_resolution(&mut self, now: Picos, id: NeighbourId) {
        let neighbour = &mut self.slots[id.0 as usize];
        if neighbour.state == NeighbourState::Unknown {
            (neighbour.state, neighbour.solicitations) = (NeighbourState::Incomplete, 0);
            self.set_deadline(id, now);
        }
    }

    /// Keeps a frame until the link address of its neighbour is known. Returns the frame as an error if too
    /// many frames already wait.
    pub(crate) fn hold_frame(&mut self, id: NeighbourId, frame: HeldFrame) -> Result<(), HeldFrame> {
        let neighbour = &mut self.slots[id.0 as usize];
        if neighbour.held >= self.hold_frames {
            return Err(frame);
        }
        let held = HeldFrameSlot {
            held: Some(frame),
            next: NO_FRAME,
        };
        let mut slot = self.free_held_slot;
        if let Some(free) = self.held_slots.get_mut(slot as usize) {
            self.free_held_slot = std::mem::replace(free, held).next;
        } else if self.held_slots.len() < HELD_FRAMES_MAX {
            slot = self.held_slots.len() as u32;
            self.held_slots.push(held);
        } else {
            return Err(frame);
        }
        match neighbour.held_last {
            NO_FRAME => neighbour.held_first = slot,
            last => self.held_slots[last as usize].next = slot,
        }
        neighbour.held_last = slot;
        neighbour.held += 1;
        self.held += 1;
        Ok(())
    }

    /// Removes and returns the first frame that waits for a neighbour. Returns `None` if no frame waits.
    pub(crate) fn take_held_frame(&mut self, id: NeighbourId) -> Option<HeldFrame> {
        let neighbour = &mut self.slots[id.0 as usize];
        let first = neighbour.held_first;
        let slot = self.held_slots.get_mut(first as usize)?;
        neighbour.held_first = slot.next;
        if slot.next == NO_FRAME {
            neighbour.held_last = NO_FRAME;
        }
        slot.next = self.free_held_slot;
        self.free_held_slot = first;
        neighbour.held -= 1;
        self.held -= 1;
        slot.held.take()
    }

    /// Returns the number of frames that wait for a neighbour.
    pub(crate) fn held_frames_of(&self, id: NeighbourId) -> usize {
        self.slots[id.0 as usize].held
    }

    /// Returns the time of the next action, or [`Picos::NEVER`].
    pub(crate) fn next_deadline(&mut self) -> Picos {
        while let Some(&Reverse((at, slot))) = self.deadlines.peek() {
            let neighbour = &mut self.slots[slot as usize];
            if neighbour.scheduled != at {
                self.deadlines.pop();
                continue;
            }
            if neighbour.due == at {
                return at;
            }
            self.deadlines.pop();
            neighbour.scheduled = Picos::NEVER;
            let due = neighbour.due;
            self.set_deadline(NeighbourId(slot), due);
        }
        Picos::NEVER
    }

    /// Returns the next action that is due at `now`. Returns `None` if no action is due.
    pub(crate) fn next_action(&mut self, now: Picos) -> Option<NeighbourAction> {
        if self.next_deadline() > now {
            return None;
        }
        let Reverse((_, slot)) = self.deadlines.pop()?;
        self.record_change();
        let id = NeighbourId(slot);
        let neighbour = &mut self.slots[slot as usize];
        (neighbour.due, neighbour.scheduled) = (Picos::NEVER, Picos::NEVER);
        if neighbour.state == NeighbourState::Reachable {
            (neighbour.state, neighbour.solicitations) = (NeighbourState::Probe, 0);
        }
        if neighbour.solicitations >= SOLICITATIONS_MAX {
            neighbour.state = NeighbourState::Unknown;
            return Some(NeighbourAction::Failed(id));
        }
        neighbour.solicitations += 1;
        self.set_deadline(id, now.saturating_add(RETRANSMIT_INTERVAL));
        Some(NeighbourAction::Solicit(id))
    }

    /// Marks a neighbour as unknown. If the neighbour is not pinned (a next hop of a route), it is removed.
    /// No frame may wait for the neighbour.
    pub(crate) fn reset(&mut self, id: NeighbourId) {
        self.record_change();
        let neighbour = &mut self.slots[id.0 as usize];
        debug_assert_eq!(neighbour.held, 0);
        (neighbour.state, neighbour.due) = (NeighbourState::Unknown, Picos::NEVER);
        if !neighbour.pinned {
            self.remove(id);
        }
    }

    /// Returns the neighbours on an interface, except static neighbours.
    pub(crate) fn dynamic_neighbours_on(&self, interface: InterfaceId) -> Vec<NeighbourId> {
        let behind = |neighbour: &Neighbour| {
            neighbour.in_use
                && neighbour.key.interface == interface
                && neighbour.state != NeighbourState::Static
        };
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, neighbour)| behind(neighbour))
            .map(|(slot, _)| NeighbourId(slot as u32))
            .collect()
    }

    /// Returns snapshots of all neighbours, sorted by interface and address.
    pub(crate) fn entries(&self, now: Picos) -> Vec<NeighbourEntry> {
        let mut taken: Vec<_> = (0..self.slots.len() as u32)
            .filter(|&slot| self.slots[slot as usize].in_use)
            .map(NeighbourId)
            .collect();
        taken.sort_unstable_by_key(|id| {
            let key = &self.slots[id.0 as usize].key;
            (key.interface, key.address)
        });
        let entry = |id: NeighbourId| {
            let neighbour = &self.slots[id.0 as usize];
            NeighbourEntry {
                interface: neighbour.key.interface,
                address: self.address(id),
                mac: self.resolved_link(id).map(|known| known.mac),
                state: neighbour.state,
                port: neighbour.link.port,
                age: now.since(neighbour.heard_at),
                held: neighbour.held,
            }
        };
        taken.into_iter().map(entry).collect()
    }

    /// Removes a neighbour.
    fn remove(&mut self, id: NeighbourId) {
        let neighbour = &mut self.slots[id.0 as usize];
        (neighbour.in_use, neighbour.due, neighbour.scheduled) = (false, Picos::NEVER, Picos::NEVER);
        self.index.remove(&neighbour.key);
        self.free.push(id.0);
    }

    /// Sets the time of a neighbour's next action.
    fn set_deadline(&mut self, id: NeighbourId, at: Picos) {
        let neighbour = &mut self.slots[id.0 as usize];
        neighbour.due = at;
        if at < neighbour.scheduled {
            neighbour.scheduled = at;
            self.deadlines.push(Reverse((at, id.0)));
        }
    }
}
