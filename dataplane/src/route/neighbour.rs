//! Neighbours: the link addresses of next hops, how they are found out and kept (RFC 826, RFC 4861 7.3), and the frames
//! that wait meanwhile.

use core::cmp::Reverse;
use core::hash::BuildHasherDefault;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use hashbrown::HashMap;

use crate::bridge::FixedHasher;
use crate::frame::Handle;
use crate::ids::{InterfaceId, LogicalPort, PortId};
use xoff_units::Picos;
use xoff_wire::parse::ParsedHeaders;

/// From one request to the next (RFC 4861: RETRANS_TIMER).
pub const RETRANSMIT: Picos = Picos::from_millis(1_000);
/// Requests before a neighbour counts as unreachable (MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT).
pub const SOLICITATIONS_MAX: u8 = 3;
/// How long a neighbour is believed to be where it was before it is asked again.
pub const REACHABLE: Picos = Picos::from_millis(300_000);

/// Frames that may wait for neighbours in all.
pub const HELD_FRAMES_MAX: usize = 1_024;

/// A place in the table of neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeighbourId(u32);

/// How much is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourState {
    /// Nothing, and nobody has asked.
    Unknown,
    /// It is being looked for.
    Incomplete,
    /// It was heard recently.
    Reachable,
    /// It was heard, and is asked whether it is still there.
    Probe,
    /// It was told by the configuration.
    Static,
}

/// A neighbour as the table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourEntry {
    /// The interface behind which it is.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its address on the link, once known.
    pub mac: Option<[u8; 6]>,
    /// How much is known.
    pub state: NeighbourState,
    /// The port or LAG behind which it was heard.
    pub port: Option<LogicalPort>,
    /// Since it was last heard.
    pub age: Picos,
    /// Frames that wait for it.
    pub held: usize,
}

/// A frame that waits for a neighbour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Where it came in; `None`: from the switch itself.
    pub(crate) from: Option<PortId>,
    /// The router interface it came in on.
    pub(crate) interface: Option<InterfaceId>,
    pub(crate) frame: Handle,
    pub(crate) frame_len: u32,
    pub(crate) parsed: ParsedHeaders,
}

/// IPv4 as IPv4-mapped IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    interface: InterfaceId,
    address: u128,
}

impl core::hash::Hash for Key {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        state.write_u64((self.address >> 64) as u64 ^ u64::from(self.interface.0) << 40);
        state.write_u64(self.address as u64);
    }
}

fn key(interface: InterfaceId, address: IpAddr) -> Key {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    Key { interface, address }
}

/// Where a neighbour is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) mac: [u8; 6],
    /// The port or LAG behind which it was heard.
    pub(crate) port: Option<LogicalPort>,
}

#[derive(Debug)]
struct Neighbour {
    key: Key,
    known: Known,
    state: NeighbourState,
    /// Requests sent without an answer.
    solicited: u8,
    heard_at: Picos,
    /// When something is to be done about it; [`Picos::NEVER`] if not.
    due: Picos,
    /// The earliest entry for it in the heap of deadlines: it is looked at then, and entered again if it is not yet due.
    noted: Picos,
    /// First and last of the frames that wait for it, and how many they are.
    held_first: u32,
    held_last: u32,
    held: usize,
    /// A next hop of some route: its place stays.
    pinned: bool,
    /// The place is taken.
    in_use: bool,
}

/// No frame: the end of a list.
const NO_FRAME: u32 = u32::MAX;

/// A frame that waits, and the one behind it.
#[derive(Debug)]
struct HeldPlace {
    held: Option<Held>,
    next: u32,
}

fn free_place(next: u32) -> HeldPlace {
    let next = if next < HELD_FRAMES_MAX as u32 {
        next
    } else {
        NO_FRAME
    };
    HeldPlace { held: None, next }
}

/// What time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// To ask a neighbour: its own link address if one is known, everybody otherwise.
    Solicit(NeighbourId),
    /// To give up the frames that wait for it.
    Failed(NeighbourId),
}

/// All of them, up to a limit.
#[derive(Debug)]
pub(crate) struct Neighbours {
    places: Vec<Neighbour>,
    free: Vec<u32>,
    index: HashMap<Key, u32, BuildHasherDefault<FixedHasher>>,
    /// Earliest first; entries that were overtaken are skipped.
    due: BinaryHeap<Reverse<(Picos, u32)>>,
    places_max: usize,
    hold_frames: usize,
    /// Frames that wait, of all neighbours, and the list of free places among them.
    waiting: Vec<HeldPlace>,
    waiting_free: u32,
    held: usize,
    changes: u64,
}

impl Neighbours {
    pub(crate) fn new(places_max: usize, hold_frames: usize) -> Neighbours {
        Neighbours {
            places: Vec::with_capacity(places_max),
            free: Vec::with_capacity(places_max),
            // Twice the room: places of removed entries are then cleaned up in place, never by growing.
            index: HashMap::with_capacity_and_hasher(2 * places_max, BuildHasherDefault::default()),
            due: BinaryHeap::with_capacity(2 * places_max),
            places_max,
            hold_frames,
            waiting: (1..=HELD_FRAMES_MAX as u32).map(free_place).collect(),
            waiting_free: 0,
            held: 0,
            changes: 0,
        }
    }

    pub(crate) fn set_limits(&mut self, places_max: usize, hold_frames: usize) {
        (self.places_max, self.hold_frames) = (places_max, hold_frames);
    }

    /// Counts changes to who is known where, and to what else makes an [`Adjacency`](super::adjacency::Adjacency).
    #[inline(always)]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Something has changed that makes an adjacency.
    pub(crate) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Frames that wait, in all.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    #[inline]
    pub(crate) fn find(&self, interface: InterfaceId, address: IpAddr) -> Option<NeighbourId> {
        self.index.get(&key(interface, address)).copied().map(NeighbourId)
    }

    /// As [`Neighbours::find`]; a new place if there is none. `None`: the table is full.
    pub(crate) fn enter(&mut self, interface: InterfaceId, address: IpAddr) -> Option<NeighbourId> {
        if let Some(found) = self.find(interface, address) {
            return Some(found);
        }
        if self.index.len() >= self.places_max {
            return None;
        }
        self.changed();
        let key = key(interface, address);
        let neighbour = Neighbour {
            key,
            known: Known {
                mac: [0; 6],
                port: None,
            },
            state: NeighbourState::Unknown,
            solicited: 0,
            heard_at: Picos::ZERO,
            due: Picos::NEVER,
            noted: Picos::NEVER,
            held_first: NO_FRAME,
            held_last: NO_FRAME,
            held: 0,
            pinned: false,
            in_use: true,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = neighbour;
                place
            }
            None => {
                self.places.push(neighbour);
                self.places.len() as u32 - 1
            }
        };
        self.index.insert(key, place);
        Some(NeighbourId(place))
    }

    /// Where a neighbour is, as far as that is believed.
    #[inline]
    pub(crate) fn resolved(&self, id: NeighbourId) -> Option<&Known> {
        let neighbour = &self.places[id.0 as usize];
        match neighbour.state {
            NeighbourState::Reachable | NeighbourState::Probe | NeighbourState::Static => {
                Some(&neighbour.known)
            }
            NeighbourState::Unknown | NeighbourState::Incomplete => None,
        }
    }

    pub(crate) fn interface(&self, id: NeighbourId) -> InterfaceId {
        self.places[id.0 as usize].key.interface
    }

    pub(crate) fn address(&self, id: NeighbourId) -> IpAddr {
        let address = std::net::Ipv6Addr::from_bits(self.places[id.0 as usize].key.address);
        match address.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(address),
        }
    }

    /// Keeps the place of a next hop, also while nothing is known of it.
    pub(crate) fn pin(&mut self, id: NeighbourId) {
        self.places[id.0 as usize].pinned = true;
    }

    /// No place is a next hop's any more; [`Neighbours::pin`] those that are again, then [`Neighbours::sweep`].
    pub(crate) fn unpin_all(&mut self) {
        self.places.iter_mut().for_each(|place| place.pinned = false);
    }

    /// Frees places that nothing is known of and nobody waits for.
    pub(crate) fn sweep(&mut self) {
        for place in 0..self.places.len() {
            let neighbour = &self.places[place];
            if neighbour.in_use && neighbour.state == NeighbourState::Unknown && !neighbour.pinned {
                self.remove(NeighbourId(place as u32));
            }
        }
    }

    /// Tells a neighbour's address once and for all.
    pub(crate) fn tell(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Option<NeighbourId> {
        let id = self.enter(interface, address)?;
        self.changed();
        let neighbour = &mut self.places[id.0 as usize];
        (neighbour.known.mac, neighbour.state, neighbour.due) = (mac, NeighbourState::Static, Picos::NEVER);
        Some(id)
    }

    /// Forgets what the configuration told.
    pub(crate) fn untell_all(&mut self) {
        self.changed();
        for place in 0..self.places.len() {
            let neighbour = &mut self.places[place];
            if neighbour.in_use && neighbour.state == NeighbourState::Static {
                (neighbour.state, neighbour.due) = (NeighbourState::Unknown, Picos::NEVER);
            }
        }
    }

    /// A neighbour has said where it is. `known_only`: it was not asked, so that only an entry that exists is brought up
    /// to date (RFC 826's merge, RFC 4861 7.2.5). The frames that waited for it are then the caller's to take.
    pub(crate) fn heard(
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
            false => self.enter(interface, address)?,
        };
        self.changed();
        let neighbour = &mut self.places[id.0 as usize];
        if neighbour.state == NeighbourState::Static {
            neighbour.known.port = Some(port);
            return None;
        }
        neighbour.known = Known {
            mac,
            port: Some(port),
        };
        neighbour.heard_at = now;
        (neighbour.state, neighbour.solicited) = (NeighbourState::Reachable, 0);
        self.set_due(id, now.saturating_add(REACHABLE));
        Some(id)
    }

    /// Has a neighbour looked for, unless it is known or looked for already.
    pub(crate) fn look_for(&mut self, now: Picos, id: NeighbourId) {
        let neighbour = &mut self.places[id.0 as usize];
        if neighbour.state == NeighbourState::Unknown {
            (neighbour.state, neighbour.solicited) = (NeighbourState::Incomplete, 0);
            self.set_due(id, now);
        }
    }

    /// Keeps a frame until its neighbour is found; gives it back if too many wait already.
    pub(crate) fn hold(&mut self, id: NeighbourId, frame: Held) -> Result<(), Held> {
        let neighbour = &mut self.places[id.0 as usize];
        let place = self.waiting_free;
        if neighbour.held >= self.hold_frames || place == NO_FRAME {
            return Err(frame);
        }
        self.waiting_free = self.waiting[place as usize].next;
        self.waiting[place as usize] = HeldPlace {
            held: Some(frame),
            next: NO_FRAME,
        };
        match neighbour.held_last {
            NO_FRAME => neighbour.held_first = place,
            last => self.waiting[last as usize].next = place,
        }
        neighbour.held_last = place;
        neighbour.held += 1;
        self.held += 1;
        Ok(())
    }

    /// The next frame that waited for a neighbour.
    pub(crate) fn take_held(&mut self, id: NeighbourId) -> Option<Held> {
        let neighbour = &mut self.places[id.0 as usize];
        let first = neighbour.held_first;
        let place = self.waiting.get_mut(first as usize)?;
        neighbour.held_first = place.next;
        if place.next == NO_FRAME {
            neighbour.held_last = NO_FRAME;
        }
        place.next = self.waiting_free;
        self.waiting_free = first;
        neighbour.held -= 1;
        self.held -= 1;
        place.held.take()
    }

    /// How many frames wait for a neighbour.
    pub(crate) fn held_for(&self, id: NeighbourId) -> usize {
        self.places[id.0 as usize].held
    }

    /// When time asks for something next.
    pub(crate) fn next_due(&mut self) -> Picos {
        while let Some(&Reverse((at, place))) = self.due.peek() {
            let neighbour = &mut self.places[place as usize];
            if neighbour.noted != at {
                self.due.pop();
                continue;
            }
            if neighbour.due == at {
                return at;
            }
            self.due.pop();
            neighbour.noted = Picos::NEVER;
            let due = neighbour.due;
            self.set_due(NeighbourId(place), due);
        }
        Picos::NEVER
    }

    /// What is due by `now`, one thing at a time.
    pub(crate) fn take_due(&mut self, now: Picos) -> Option<Due> {
        if self.next_due() > now {
            return None;
        }
        let Reverse((_, place)) = self.due.pop()?;
        self.changed();
        let id = NeighbourId(place);
        let neighbour = &mut self.places[place as usize];
        (neighbour.due, neighbour.noted) = (Picos::NEVER, Picos::NEVER);
        if neighbour.state == NeighbourState::Reachable {
            (neighbour.state, neighbour.solicited) = (NeighbourState::Probe, 0);
        }
        if neighbour.solicited >= SOLICITATIONS_MAX {
            neighbour.state = NeighbourState::Unknown;
            return Some(Due::Failed(id));
        }
        neighbour.solicited += 1;
        self.set_due(id, now.saturating_add(RETRANSMIT));
        Some(Due::Solicit(id))
    }

    /// Frees a place, unless it is a next hop's. Nothing may wait there.
    pub(crate) fn forget(&mut self, id: NeighbourId) {
        self.changed();
        let neighbour = &mut self.places[id.0 as usize];
        debug_assert_eq!(neighbour.held, 0);
        (neighbour.state, neighbour.due) = (NeighbourState::Unknown, Picos::NEVER);
        if !neighbour.pinned {
            self.remove(id);
        }
    }

    /// The neighbours behind an interface that are not told by the configuration.
    pub(crate) fn dynamic_behind(&self, interface: InterfaceId) -> Vec<NeighbourId> {
        let behind = |neighbour: &Neighbour| {
            neighbour.in_use
                && neighbour.key.interface == interface
                && neighbour.state != NeighbourState::Static
        };
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, neighbour)| behind(neighbour))
            .map(|(place, _)| NeighbourId(place as u32))
            .collect()
    }

    /// Everything known at `now`, sorted by interface and address.
    pub(crate) fn entries(&self, now: Picos) -> Vec<NeighbourEntry> {
        let mut taken: Vec<_> = (0..self.places.len() as u32)
            .filter(|&place| self.places[place as usize].in_use)
            .map(NeighbourId)
            .collect();
        taken.sort_unstable_by_key(|id| {
            let key = &self.places[id.0 as usize].key;
            (key.interface, key.address)
        });
        let entry = |id: NeighbourId| {
            let neighbour = &self.places[id.0 as usize];
            NeighbourEntry {
                interface: neighbour.key.interface,
                address: self.address(id),
                mac: self.resolved(id).map(|known| known.mac),
                state: neighbour.state,
                port: neighbour.known.port,
                age: now.since(neighbour.heard_at),
                held: neighbour.held,
            }
        };
        taken.into_iter().map(entry).collect()
    }

    fn remove(&mut self, id: NeighbourId) {
        let neighbour = &mut self.places[id.0 as usize];
        (neighbour.in_use, neighbour.due, neighbour.noted) = (false, Picos::NEVER, Picos::NEVER);
        self.index.remove(&neighbour.key);
        self.free.push(id.0);
    }

    fn set_due(&mut self, id: NeighbourId, at: Picos) {
        let neighbour = &mut self.places[id.0 as usize];
        neighbour.due = at;
        if at < neighbour.noted {
            neighbour.noted = at;
            self.due.push(Reverse((at, id.0)));
        }
    }
}
