//! Frames of a virtual run: their headers, and how long they are.
//!
//! A frame of a queue pair is its headers alone, in a slot of fixed size; what stands behind them is a length. Longer
//! prefixes (frames of open-loop flows, whose payload is stamped, ARP, pings) lie beside the slots, whole.

use xoff_dataplane::{Handle, Picos, Store, prefetch};
use xoff_wire::parse::{ParsedHeaders, Payload, parse_prefix};
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_MAC_CONTROL};

use super::under_way::UnderWay;
use xoff_host::{Emitted, HEADERS_LEN_MAX};
use xoff_rdma::Telemetry;

/// Octets of a slot: the longest headers of RoCEv2 (Ethernet, tag, IPv6, UDP, BTH, RETH: 94) behind room for a tag.
const SLOT_BYTES: usize = 108;
/// Where a frame begins in a fresh slot: a tag fits in front, and Ethernet, IPv4 and the ports of UDP into the slot's first cache line.
const START: u8 = 5;
/// Longest prefix that a slot stores.
const PREFIX_MAX: usize = SLOT_BYTES - START as usize;
const _: () = assert!(HEADERS_LEN_MAX <= PREFIX_MAX);
/// Where IPv4's type of service lies in an untagged frame.
const TOS: usize = ETHERNET_LEN + 1;
/// Where IPv4's destination lies there.
const DESTINATION: usize = ETHERNET_LEN + 16;
/// Where the second cache line of a slot begins.
const SECOND_LINE: usize = 64 - std::mem::offset_of!(Slot, bytes);
const NONE: u32 = u32::MAX;

/// Two cache lines. The first one has all that a switch reads and writes of an untagged IPv4 packet.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Slot {
    /// Octets of the frame behind those that are stored.
    beyond: u32,
    /// Index of the prefix in `long`, if it is too long for a slot.
    long: u32,
    /// Index of what the frame has collected on its way.
    telemetry: u32,
    /// Hash of the flow, where the frame is [`KNOWN`].
    flow_hash: u32,
    start: u8,
    end: u8,
    /// [`IN_USE`] and the like.
    flags: u8,
    bytes: [u8; SLOT_BYTES],
}

/// It holds a frame.
const IN_USE: u8 = 1;
/// A link has damaged it.
const DAMAGED: u8 = 1 << 1;
/// Its headers have been read: an untagged IPv4 packet, well-formed, its Ethernet header at [`START`]. What nodes on its way write into it
/// (link addresses, hops left, DSCP, ECN) leaves it one, of the same flow.
const KNOWN: u8 = 1 << 2;
/// Its arrival at a host completes nothing there ([`Packet::completes_nothing`](xoff_rdma::Packet::completes_nothing)).
const COMPLETES_NOTHING: u8 = 1 << 3;

const FRESH: Slot = Slot {
    bytes: [0; SLOT_BYTES],
    beyond: 0,
    long: NONE,
    telemetry: NONE,
    flow_hash: 0,
    start: START,
    end: START,
    flags: 0,
};

/// Things with numbers, used again when they are free.
#[derive(Clone, Debug)]
struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.items[index as usize] = item;
                index
            }
            None => {
                self.items.push(item);
                self.items.len() as u32 - 1
            }
        }
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

/// All frames of a fabric. It grows with the frames that are under way at once.
#[derive(Clone, Debug, Default)]
pub struct FabricStore {
    slots: Slab<Slot>,
    long: Slab<Vec<u8>>,
    telemetry: Slab<Telemetry>,
    /// The wire that each frame is on, where somebody has said so.
    wires: Vec<u32>,
    pub(super) under_way: UnderWay,
}

impl FabricStore {
    /// An empty one, for a fabric whose parts are no further apart in time than a `window`.
    pub(super) fn new(window: Picos) -> FabricStore {
        FabricStore {
            under_way: UnderWay::new(window),
            ..FabricStore::default()
        }
    }

    /// Room for the headers of the next frame, which are stored by [`FabricStore::insert_written`]: what is written elsewhere in small
    /// pieces and then read in large ones has to wait for the writes.
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        let Slab { items, free } = &mut self.slots;
        let index = match free.last() {
            Some(index) => *index as usize,
            None => {
                items.push(FRESH);
                free.push(items.len() as u32 - 1);
                items.len() - 1
            }
        };
        &mut items[index].bytes[usize::from(START)..]
    }

    /// Stores a frame whose first octets stand in [`FabricStore::room`].
    #[inline]
    pub(super) fn insert_written(&mut self, emitted: &Emitted) -> Handle {
        let index = self.take();
        let slot = &mut self.slots.items[index as usize];
        slot.beyond = (emitted.frame_len - emitted.stored) as u32;
        slot.end = START + emitted.stored as u8;
        slot.flow_hash = emitted.flow_hash.unwrap_or(0);
        slot.flags |= COMPLETES_NOTHING * u8::from(emitted.completes_nothing);
        slot.flags |= KNOWN * u8::from(emitted.flow_hash.is_some());
        Handle(index)
    }

    /// Whether a frame's arrival at a host surely completes nothing there: its sender has said so, or it is a MAC control frame.
    #[inline]
    pub(super) fn completes_nothing(&self, frame: Handle) -> bool {
        let slot = &self.slots.items[frame.0 as usize];
        slot.flags & COMPLETES_NOTHING != 0 || is_mac_control(self.prefix(frame))
    }

    /// Stores the first octets of a frame of `frame_len` octets.
    #[inline]
    pub(super) fn insert(&mut self, prefix: &[u8], frame_len: u32) -> Handle {
        let index = self.take();
        let slot = &mut self.slots.items[index as usize];
        slot.beyond = frame_len - prefix.len() as u32;
        if prefix.len() <= PREFIX_MAX {
            slot.end = START + prefix.len() as u8;
            slot.bytes[usize::from(START)..usize::from(slot.end)].copy_from_slice(prefix);
        } else {
            slot.long = self.long.insert(prefix.to_vec());
        }
        Handle(index)
    }

    /// Whether its ICRC and FCS are right. A damaged frame is one that a link has damaged.
    pub(super) fn is_damaged(&self, frame: Handle) -> bool {
        self.slots.items[frame.0 as usize].flags & DAMAGED != 0
    }

    pub(super) fn damage(&mut self, frame: Handle) {
        self.slots.items[frame.0 as usize].flags |= DAMAGED;
    }

    /// The wire that a frame is on, as [`FabricStore::set_wire`] was told.
    pub(super) fn wire(&self, frame: Handle) -> u32 {
        self.wires[frame.0 as usize]
    }

    #[cold]
    pub(super) fn set_wire(&mut self, frame: Handle, wire: u32) {
        if self.wires.len() < self.slots.items.len() {
            self.wires.resize(self.slots.items.len(), NONE);
        }
        self.wires[frame.0 as usize] = wire;
    }

    /// What the headers of a frame say. They are read at one node of its way.
    #[inline]
    pub(super) fn parsed(&mut self, frame: Handle) -> ParsedHeaders {
        match self.known(frame) {
            Some(parsed) => parsed,
            None => self.parse(frame),
        }
    }

    /// What the headers of a frame say, where they have been read.
    #[inline]
    pub(super) fn known(&self, frame: Handle) -> Option<ParsedHeaders> {
        let slot = &self.slots.items[frame.0 as usize];
        if slot.flags & KNOWN == 0 {
            return None;
        }
        let parsed = ParsedHeaders {
            payload: Payload::Ipv4,
            tag: None,
            l3_offset: ETHERNET_LEN as u8,
            tos: slot.bytes[START as usize + TOS],
            flow_hash: slot.flow_hash,
        };
        debug_assert_eq!(
            parsed,
            parse_prefix(self.prefix(frame), self.frame_len(frame) as usize)
        );
        Some(parsed)
    }

    /// The destination of an IPv4 packet, where its headers have been read.
    #[inline]
    pub(super) fn destination(&self, frame: Handle) -> Option<u32> {
        let slot = self.slots.items.get(frame.0 as usize)?;
        let octets = slot.bytes[START as usize + DESTINATION..].first_chunk()?;
        (slot.flags & KNOWN != 0).then(|| u32::from_be_bytes(*octets))
    }

    #[inline(never)]
    fn parse(&mut self, frame: Handle) -> ParsedHeaders {
        let parsed = parse_prefix(self.prefix(frame), self.frame_len(frame) as usize);
        let slot = &mut self.slots.items[frame.0 as usize];
        if parsed.is_plain_ipv4() && slot.long == NONE && slot.start == START {
            slot.flags |= KNOWN;
            slot.flow_hash = parsed.flow_hash;
        }
        parsed
    }

    /// Whether some frame collects telemetry.
    #[inline]
    pub(super) fn has_telemetry(&self) -> bool {
        !self.telemetry.items.is_empty()
    }

    /// Fetches what a switch will read of a frame soon, without waiting for it; `whole`: what a host will.
    #[inline]
    pub(super) fn prefetch(&self, frame: Handle, whole: bool) {
        if let Some(slot) = self.slots.items.get(frame.0 as usize) {
            prefetch(slot);
            if whole {
                prefetch(&slot.bytes[SECOND_LINE]);
            }
        }
    }

    /// What a frame has collected on its way; `None` if it collects nothing.
    pub(super) fn telemetry(&self, frame: Handle) -> Option<&Telemetry> {
        self.telemetry
            .items
            .get(self.slots.items[frame.0 as usize].telemetry as usize)
    }

    pub(super) fn telemetry_mut(&mut self, frame: Handle) -> Option<&mut Telemetry> {
        let index = self.slots.items[frame.0 as usize].telemetry;
        self.telemetry.items.get_mut(index as usize)
    }

    /// Lets a frame collect telemetry, or carry what was collected.
    pub(super) fn set_telemetry(&mut self, frame: Handle, telemetry: Telemetry) {
        let index = self.telemetry.insert(telemetry);
        self.slots.items[frame.0 as usize].telemetry = index;
    }

    /// Gives back what a frame has beside its slot.
    #[inline(never)]
    fn release_beside(&mut self, frame: Handle) {
        let slot = &mut self.slots.items[frame.0 as usize];
        let long = std::mem::replace(&mut slot.long, NONE);
        let telemetry = std::mem::replace(&mut slot.telemetry, NONE);
        if long != NONE {
            self.long.items[long as usize] = Vec::new();
            self.long.free.push(long);
        }
        if telemetry != NONE {
            self.telemetry.free.push(telemetry);
        }
    }

    /// Frames in the store.
    pub fn in_use(&self) -> usize {
        self.under_way.now()
    }

    /// Most frames that were in it at once; what leaves within some nanoseconds of another one's arrival counts beside it.
    pub fn in_use_max(&self) -> usize {
        self.under_way.peak()
    }

    #[inline(always)]
    fn take(&mut self) -> u32 {
        self.under_way.add();
        let index = match self.slots.free.pop() {
            Some(index) => index,
            None => {
                self.slots.items.push(FRESH);
                self.slots.items.len() as u32 - 1
            }
        };
        let slot = &mut self.slots.items[index as usize];
        (slot.beyond, slot.start, slot.end, slot.flags) = (0, START, START, IN_USE);
        index
    }
}

impl Store for FabricStore {
    #[inline]
    fn prefix(&self, frame: Handle) -> &[u8] {
        let slot = &self.slots.items[frame.0 as usize];
        match slot.long {
            NONE => &slot.bytes[usize::from(slot.start)..usize::from(slot.end)],
            long => &self.long.items[long as usize],
        }
    }

    #[inline]
    fn prefix_mut(&mut self, frame: Handle) -> &mut [u8] {
        let slot = &mut self.slots.items[frame.0 as usize];
        match slot.long {
            NONE => &mut slot.bytes[usize::from(slot.start)..usize::from(slot.end)],
            long => &mut self.long.items[long as usize],
        }
    }

    #[inline]
    fn frame_len(&self, frame: Handle) -> u32 {
        let slot = &self.slots.items[frame.0 as usize];
        match slot.long {
            NONE => u32::from(slot.end - slot.start) + slot.beyond,
            long => self.long.items[long as usize].len() as u32 + slot.beyond,
        }
    }

    fn allocate(&mut self, len: usize) -> Option<Handle> {
        let index = self.take();
        if len <= PREFIX_MAX {
            let slot = &mut self.slots.items[index as usize];
            slot.end = START + len as u8;
            slot.bytes[usize::from(START)..usize::from(slot.end)].fill(0);
        } else {
            self.slots.items[index as usize].long = self.long.insert(vec![0; len]);
        }
        Some(Handle(index))
    }

    /// A copy stores all that the frame stores: there is nothing that would be shared.
    fn copy(&mut self, frame: Handle, _prefix_len: usize) -> Option<Handle> {
        let index = self.take();
        let source = self.slots.items[frame.0 as usize];
        let (long, telemetry) = (source.long, source.telemetry);
        self.slots.items[index as usize] = Slot {
            long: NONE,
            telemetry: NONE,
            ..source
        };
        if long != NONE {
            let bytes = self.long.items[long as usize].clone();
            self.slots.items[index as usize].long = self.long.insert(bytes);
        }
        if telemetry != NONE {
            let telemetry = self.telemetry.items[telemetry as usize];
            self.set_telemetry(Handle(index), telemetry);
        }
        Some(Handle(index))
    }

    fn push_front(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots.items[frame.0 as usize];
        slot.flags &= !KNOWN;
        if slot.long == NONE && len <= usize::from(slot.start) {
            slot.start -= len as u8;
            let start = usize::from(slot.start);
            slot.bytes[start..start + len].fill(0);
            return;
        }
        let mut bytes = vec![0; len];
        bytes.extend_from_slice(self.prefix(frame));
        match self.slots.items[frame.0 as usize].long {
            NONE => self.slots.items[frame.0 as usize].long = self.long.insert(bytes),
            long => self.long.items[long as usize] = bytes,
        }
    }

    fn pull_front(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots.items[frame.0 as usize];
        slot.flags &= !KNOWN;
        match slot.long {
            NONE => slot.start += len as u8,
            long => drop(self.long.items[long as usize].drain(..len)),
        }
    }

    fn truncate(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots.items[frame.0 as usize];
        slot.flags &= !(KNOWN | COMPLETES_NOTHING);
        let stored = match slot.long {
            NONE => {
                let stored = usize::from(slot.end - slot.start).min(len);
                slot.end = slot.start + stored as u8;
                stored
            }
            long => {
                let bytes = &mut self.long.items[long as usize];
                bytes.truncate(len);
                bytes.len()
            }
        };
        slot.beyond = slot.beyond.min((len - stored) as u32);
    }

    #[inline]
    fn release(&mut self, frame: Handle) {
        let slot = &mut self.slots.items[frame.0 as usize];
        assert!(slot.flags & IN_USE != 0, "frame {} released twice", frame.0);
        slot.flags = 0;
        self.under_way.remove();
        let beside = (slot.long, slot.telemetry);
        if beside != (NONE, NONE) {
            self.release_beside(frame);
        }
        self.slots.free.push(frame.0);
    }
}

/// Whether a frame says that it is MAC control.
fn is_mac_control(frame: &[u8]) -> bool {
    frame.get(ETHERNET_LEN - 2..ETHERNET_LEN) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_a_length_behind_them() {
        let mut store = FabricStore::default();
        let frame = store.insert(&[7; 70], 1_098);
        assert_eq!((store.prefix(frame).len(), store.frame_len(frame)), (70, 1_098));
        store.push_front(frame, 4);
        store.prefix_mut(frame)[0] = 1;
        let copy = store.copy(frame, 16).unwrap();
        store.pull_front(frame, 4);
        assert_eq!((store.prefix(frame)[0], store.frame_len(frame)), (7, 1_098));
        assert_eq!((store.prefix(copy)[0], store.frame_len(copy)), (1, 1_102));
        store.release(frame);
        store.release(copy);
        assert_eq!((store.in_use(), store.in_use_max()), (0, 2));
    }

    #[test]
    fn a_frame_can_be_cut_among_its_headers_and_behind_them() {
        let mut store = FabricStore::default();
        for (stored, len, left) in [
            (70, 1_098, 128),
            (70, 1_098, 64),
            (200, 1_098, 128),
            (200, 1_098, 256),
        ] {
            let frame = store.insert(&vec![7; stored], len);
            let copy = store.copy(frame, 16).unwrap();
            store.truncate(copy, left);
            assert_eq!(
                (store.frame_len(copy), store.frame_len(frame)),
                (left as u32, len)
            );
            assert_eq!(store.prefix(copy), vec![7; stored.min(left)]);
            for frame in [frame, copy] {
                store.release(frame);
            }
        }
    }

    #[test]
    fn long_frames_are_whole_and_give_their_memory_back() {
        let mut store = FabricStore::default();
        let bytes: Vec<u8> = (0..=255).cycle().take(1_082).collect();
        let frame = store.insert(&bytes, 1_082);
        let mut telemetry = Telemetry::default();
        telemetry.push(Default::default());
        store.set_telemetry(frame, telemetry);
        store.push_front(frame, 4);
        let copy = store.copy(frame, 16).unwrap();
        store.release(frame);
        assert_eq!(store.prefix(copy)[4..], bytes);
        assert_eq!(store.telemetry(copy).map(|t| t.hops().len()), Some(1));
        store.pull_front(copy, 4);
        assert_eq!(store.frame_len(copy), 1_082);
        store.release(copy);
        let again = store.insert(&bytes[..40], 40);
        assert!(store.telemetry(again).is_none() && !store.is_damaged(again));
        assert_eq!(store.slots.items.len(), 2, "slots are used again");
    }
}
