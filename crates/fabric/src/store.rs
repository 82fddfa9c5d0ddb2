//! Stores the frames of a run in virtual time: headers and lengths.
//!
//! For a frame of a queue pair, the store contains only the headers and the payload length, in a slot of
//! fixed size. Frames that do not belong to a queue pair, such as open-loop flows, ARP and pings, are stored
//! completely. If a complete frame does not fit into a slot, its bytes are in separate memory.

mod long_prefixes;

use xoff_dataplane::{FrameHandle, FrameStore, prefetch};
use xoff_wire::parse::{ParsedHeaders, Payload, parse_prefix};
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_MAC_CONTROL};

use super::in_flight::{FrameChanges, SliceSizes};
use long_prefixes::LongPrefixes;
use xoff_host::{EmittedFrame, HEADERS_LEN_MAX};
use xoff_rdma::Telemetry;

/// Number of frame bytes in a slot. The slot has space for the longest RoCEv2 headers and for one more tag.
/// These headers have 94 bytes: Ethernet, tag, IPv6, UDP, BTH and RETH.
const SLOT_BYTES: usize = 108;
/// Start of a frame in a new slot. The space before the frame is for a VLAN tag. With this start, the first
/// cache line contains the Ethernet header, the IPv4 header and the UDP ports.
const START: u8 = 5;
/// Longest prefix (stored first bytes of a frame) that fits into a slot.
const PREFIX_MAX: usize = SLOT_BYTES - START as usize;
const _: () = assert!(HEADERS_LEN_MAX <= PREFIX_MAX);
/// Offset of the IPv4 type of service field in an untagged frame.
const TOS: usize = ETHERNET_LEN + 1;
/// Offset of the IPv4 destination address in an untagged frame.
const DESTINATION: usize = ETHERNET_LEN + 16;
/// Offset of the word that ends with the destination queue pair of the BTH, in an untagged IPv4 packet.
const DESTINATION_QP: usize = ETHERNET_LEN + 20 + 8 + 4;
/// Offset of the second cache line in the bytes of a slot.
const SECOND_LINE: usize = 64 - std::mem::offset_of!(FrameSlot, bytes);
const NONE: u32 = u32::MAX;
/// Peak memory of a frame in bytes, without its bytes outside the slot: the slot, its number in the list of free slots,
/// and the event of its arrival. The slot counts twice: the list of slots is copied when it grows, because the system
/// moves memory without a copy only for alignments of at most 16 bytes.
const FRAME_MEMORY: u64 = 2 * size_of::<FrameSlot>() as u64 + 4 + 16;

/// A stored frame, in two cache lines. For an untagged IPv4 packet, a switch reads and writes only fields in
/// the first cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct FrameSlot {
    /// Number of frame bytes that follow the stored bytes.
    unstored_bytes: u32,
    /// Index of the stored bytes in `long_prefixes` if they do not fit into the slot. [`NONE`] otherwise.
    long: u32,
    /// Index of the telemetry that the frame has collected, or [`NONE`].
    telemetry: u32,
    /// Hash of the flow. Valid only if the flag [`PARSED`] is set.
    flow_hash: u32,
    start: u8,
    end: u8,
    /// Flags such as [`IN_USE`].
    flags: u8,
    bytes: [u8; SLOT_BYTES],
}

/// The slot contains a frame.
const IN_USE: u8 = 1;
/// A link has corrupted the frame.
const DAMAGED: u8 = 1 << 1;
/// The headers have been parsed. The frame is a valid untagged IPv4 packet, and its Ethernet header starts at
/// [`START`]. Switches change the MAC addresses, the TTL, the DSCP and the ECN field. These changes affect
/// neither this flag nor the flow hash.
const PARSED: u8 = 1 << 2;
/// The arrival of the frame at a host causes no completion
/// ([`Packet::completes_no_message`](xoff_rdma::Packet::completes_no_message)).
const COMPLETES_NO_MESSAGE: u8 = 1 << 3;

const FRESH_SLOT: FrameSlot = FrameSlot {
    bytes: [0; SLOT_BYTES],
    unstored_bytes: 0,
    long: NONE,
    telemetry: NONE,
    flow_hash: 0,
    start: START,
    end: START,
    flags: 0,
};

/// Items with numbers. The number of a removed item is used again.
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

/// A frame on its way to the store of another shard.
#[derive(Debug)]
pub(super) struct MovedFrame {
    slot: FrameSlot,
    /// Memory of the frame outside its slot. Few frames have such memory.
    extra: Option<Box<ExtraMemory>>,
}

/// Memory that a frame uses outside its slot.
#[derive(Debug)]
struct ExtraMemory {
    long_prefix: Option<Vec<u8>>,
    telemetry: Option<Telemetry>,
}

/// The frames of a shard of a fabric. The memory grows with the peak number of frames in flight and does not shrink.
#[derive(Clone, Debug, Default)]
pub struct FabricStore {
    slots: Slab<FrameSlot>,
    long_prefixes: LongPrefixes,
    telemetry: Slab<Telemetry>,
    /// Link direction of each frame, by handle. Used only if events are ordered by insertion.
    directions: Vec<u32>,
    /// Numbers of frames added and removed. A move to another shard does not count.
    pub(super) changes: FrameChanges,
}

impl FabricStore {
    /// Creates an empty store. `slices` divides the time in which the frames in flight are counted.
    pub(super) fn new(slices: SliceSizes) -> FabricStore {
        FabricStore {
            changes: FrameChanges::new(slices),
            ..FabricStore::default()
        }
    }

    /// Returns the peak memory of the frames in bytes, with the events of their arrivals. Free slots count.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.slots.items.len() as u64 * FRAME_MEMORY
            + self.long_prefixes.memory_bytes()
            + size_of_val(&self.telemetry.items[..]) as u64
    }

    /// Returns space for the headers of the next frame. The caller writes the headers and then calls
    /// [`FabricStore::insert_written`]. The headers are written in place. With a copy, the processor would
    /// read large words directly after small writes to the same bytes, and would stall.
    #[inline]
    pub(super) fn header_space(&mut self) -> &mut [u8] {
        let Slab { items, free } = &mut self.slots;
        let index = match free.last() {
            Some(index) => *index as usize,
            None => {
                items.push(FRESH_SLOT);
                free.push(items.len() as u32 - 1);
                items.len() - 1
            }
        };
        &mut items[index].bytes[usize::from(START)..]
    }

    /// Stores a frame. Its first bytes have been written to [`FabricStore::header_space`].
    #[inline]
    pub(super) fn insert_written(&mut self, emitted: &EmittedFrame) -> FrameHandle {
        let index = self.allocate_slot();
        let slot = &mut self.slots.items[index as usize];
        slot.unstored_bytes = (emitted.frame_len - emitted.stored) as u32;
        slot.end = START + emitted.stored as u8;
        slot.flow_hash = emitted.flow_hash.unwrap_or(0);
        slot.flags |= COMPLETES_NO_MESSAGE * u8::from(emitted.completes_no_message);
        slot.flags |= PARSED * u8::from(emitted.flow_hash.is_some());
        FrameHandle(index)
    }

    /// Returns true if the arrival of the frame at a host certainly causes no completion. The result is true
    /// for MAC control frames, and for frames that the sender has marked as frames without a completion.
    #[inline]
    pub(super) fn completes_no_message(&self, frame: FrameHandle) -> bool {
        let slot = &self.slots.items[frame.0 as usize];
        slot.flags & COMPLETES_NO_MESSAGE != 0 || is_mac_control(self.prefix(frame))
    }

    /// Stores a frame of `frame_len` bytes. `prefix` contains the first bytes, which are stored.
    #[inline]
    pub(super) fn insert(&mut self, prefix: &[u8], frame_len: u32) -> FrameHandle {
        let index = self.allocate_slot();
        let slot = &mut self.slots.items[index as usize];
        slot.unstored_bytes = frame_len - prefix.len() as u32;
        if prefix.len() <= PREFIX_MAX {
            slot.end = START + prefix.len() as u8;
            slot.bytes[usize::from(START)..usize::from(slot.end)].copy_from_slice(prefix);
        } else {
            slot.long = self.long_prefixes.insert(prefix.to_vec());
        }
        FrameHandle(index)
    }

    /// Returns the number of frame bytes that are not stored. For a frame of a queue pair, these bytes are
    /// the payload.
    #[inline]
    pub(super) fn unstored_bytes(&self, frame: FrameHandle) -> u32 {
        self.slots.items[frame.0 as usize].unstored_bytes
    }

    /// Returns whether a link has corrupted a frame. If not, the ICRC and the FCS of the frame count
    /// as correct.
    pub(super) fn is_damaged(&self, frame: FrameHandle) -> bool {
        self.slots.items[frame.0 as usize].flags & DAMAGED != 0
    }

    pub(super) fn set_damaged(&mut self, frame: FrameHandle) {
        self.slots.items[frame.0 as usize].flags |= DAMAGED;
    }

    /// Returns the link direction that [`FabricStore::set_direction`] has set for the frame.
    pub(super) fn direction(&self, frame: FrameHandle) -> u32 {
        self.directions[frame.0 as usize]
    }

    #[cold]
    pub(super) fn set_direction(&mut self, frame: FrameHandle, direction: u32) {
        if self.directions.len() < self.slots.items.len() {
            self.directions.resize(self.slots.items.len(), NONE);
        }
        self.directions[frame.0 as usize] = direction;
    }

    /// Returns the parsed headers of a frame. An untagged IPv4 packet is parsed only once on its path.
    #[inline]
    pub(super) fn parsed(&mut self, frame: FrameHandle) -> ParsedHeaders {
        match self.known_headers(frame) {
            Some(parsed) => parsed,
            None => self.parse(frame),
        }
    }

    /// Returns the headers of a frame if they are already known. Returns `None` if the frame must be parsed.
    #[inline]
    pub(super) fn known_headers(&self, frame: FrameHandle) -> Option<ParsedHeaders> {
        let slot = &self.slots.items[frame.0 as usize];
        if slot.flags & PARSED == 0 {
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

    /// Returns the IPv4 destination address of a parsed packet. Returns `None` for other frames.
    #[inline]
    pub(super) fn destination(&self, frame: FrameHandle) -> Option<u32> {
        let slot = self.slots.items.get(frame.0 as usize)?;
        let bytes = slot.bytes[START as usize + DESTINATION..].first_chunk()?;
        (slot.flags & PARSED != 0).then(|| u32::from_be_bytes(*bytes))
    }

    /// Returns the number of the destination queue pair of a packet, 24 bits. Returns `None` for frames that are not
    /// parsed. The packet must be a RoCE packet.
    #[inline]
    pub(super) fn destination_qp(&self, frame: FrameHandle) -> Option<u32> {
        let slot = self.slots.items.get(frame.0 as usize)?;
        let [_, number @ ..] = slot.bytes[START as usize + DESTINATION_QP..].first_chunk::<4>()?;
        let [high, middle, low] = number.map(u32::from);
        (slot.flags & PARSED != 0).then_some(high << 16 | middle << 8 | low)
    }

    /// Returns the flow hash of a frame for which [`FabricStore::destination`] returns an address.
    #[inline]
    pub(super) fn flow_hash(&self, frame: FrameHandle) -> u32 {
        self.slots.items[frame.0 as usize].flow_hash
    }

    #[inline(never)]
    fn parse(&mut self, frame: FrameHandle) -> ParsedHeaders {
        let parsed = parse_prefix(self.prefix(frame), self.frame_len(frame) as usize);
        let slot = &mut self.slots.items[frame.0 as usize];
        if parsed.is_plain_ipv4() && slot.long == NONE && slot.start == START {
            slot.flags |= PARSED;
            slot.flow_hash = parsed.flow_hash;
        }
        parsed
    }

    /// Returns whether any frame collects telemetry.
    #[inline]
    pub(super) fn has_telemetry(&self) -> bool {
        !self.telemetry.items.is_empty()
    }

    /// Prefetches the part of a frame that a switch reads. If `all_headers` is true, also prefetches the
    /// rest, which a host reads.
    #[inline]
    pub(super) fn prefetch(&self, frame: FrameHandle, all_headers: bool) {
        if let Some(slot) = self.slots.items.get(frame.0 as usize) {
            prefetch(slot);
            if all_headers {
                prefetch(&slot.bytes[SECOND_LINE]);
            }
        }
    }

    /// Returns the telemetry of a frame, or `None` if it collects none.
    pub(super) fn telemetry(&self, frame: FrameHandle) -> Option<&Telemetry> {
        self.telemetry
            .items
            .get(self.slots.items[frame.0 as usize].telemetry as usize)
    }

    pub(super) fn telemetry_mut(&mut self, frame: FrameHandle) -> Option<&mut Telemetry> {
        let index = self.slots.items[frame.0 as usize].telemetry;
        self.telemetry.items.get_mut(index as usize)
    }

    /// Sets the telemetry of a frame. Switches on the path then add records to it.
    pub(super) fn set_telemetry(&mut self, frame: FrameHandle, telemetry: Telemetry) {
        let index = self.telemetry.insert(telemetry);
        self.slots.items[frame.0 as usize].telemetry = index;
    }

    /// Removes the memory that a frame uses outside its slot.
    #[inline(never)]
    fn take_extra_memory(&mut self, frame: FrameHandle) -> ExtraMemory {
        let slot = &mut self.slots.items[frame.0 as usize];
        let long = std::mem::replace(&mut slot.long, NONE);
        let telemetry = std::mem::replace(&mut slot.telemetry, NONE);
        if telemetry != NONE {
            self.telemetry.free.push(telemetry);
        }
        ExtraMemory {
            long_prefix: (long != NONE).then(|| self.long_prefixes.remove(long)),
            telemetry: self.telemetry.items.get(telemetry as usize).copied(),
        }
    }

    /// Removes a frame from this store, to move it to the store of another shard.
    pub(super) fn take_frame(&mut self, frame: FrameHandle) -> MovedFrame {
        let index = frame.0 as usize;
        let slot = self.slots.items[index];
        let mut extra = None;
        if (slot.long, slot.telemetry) != (NONE, NONE) {
            extra = Some(Box::new(self.take_extra_memory(frame)));
        }
        self.slots.items[index].flags = 0;
        self.slots.free.push(frame.0);
        MovedFrame { slot, extra }
    }

    /// Adds a frame that [`FabricStore::take_frame`] has taken from another store.
    pub(super) fn put_frame(&mut self, moved: MovedFrame) -> FrameHandle {
        let index = self.slots.insert(moved.slot);
        if let Some(extra) = moved.extra {
            let long = extra.long_prefix.map(|bytes| self.long_prefixes.insert(bytes));
            let telemetry = extra.telemetry.map(|telemetry| self.telemetry.insert(telemetry));
            let slot = &mut self.slots.items[index as usize];
            (slot.long, slot.telemetry) = (long.unwrap_or(NONE), telemetry.unwrap_or(NONE));
        }
        FrameHandle(index)
    }

    #[inline(always)]
    fn allocate_slot(&mut self) -> u32 {
        self.changes.add();
        let index = match self.slots.free.pop() {
            Some(index) => index,
            None => {
                self.slots.items.push(FRESH_SLOT);
                self.slots.items.len() as u32 - 1
            }
        };
        let slot = &mut self.slots.items[index as usize];
        (slot.unstored_bytes, slot.start, slot.end, slot.flags) = (0, START, START, IN_USE);
        index
    }
}

impl FrameStore for FabricStore {
    #[inline]
    fn prefix(&self, frame: FrameHandle) -> &[u8] {
        let slot = &self.slots.items[frame.0 as usize];
        match slot.long {
            NONE => &slot.bytes[usize::from(slot.start)..usize::from(slot.end)],
            long => self.long_prefixes.get(long),
        }
    }

    #[inline]
    fn prefix_mut(&mut self, frame: FrameHandle) -> &mut [u8] {
        let slot = &mut self.slots.items[frame.0 as usize];
        match slot.long {
            NONE => &mut slot.bytes[usize::from(slot.start)..usize::from(slot.end)],
            long => self.long_prefixes.get_mut(long),
        }
    }

    #[inline]
    fn frame_len(&self, frame: FrameHandle) -> u32 {
        let slot = &self.slots.items[frame.0 as usize];
        match slot.long {
            NONE => u32::from(slot.end - slot.start) + slot.unstored_bytes,
            long => self.long_prefixes.get(long).len() as u32 + slot.unstored_bytes,
        }
    }

    fn allocate(&mut self, len: usize) -> Option<FrameHandle> {
        let index = self.allocate_slot();
        if len <= PREFIX_MAX {
            let slot = &mut self.slots.items[index as usize];
            slot.end = START + len as u8;
            slot.bytes[usize::from(START)..usize::from(slot.end)].fill(0);
        } else {
            self.slots.items[index as usize].long = self.long_prefixes.insert(vec![0; len]);
        }
        Some(FrameHandle(index))
    }

    /// Copies all stored bytes of the frame, because frames share no memory.
    fn copy(&mut self, frame: FrameHandle, _prefix_len: usize) -> Option<FrameHandle> {
        let index = self.allocate_slot();
        let source = self.slots.items[frame.0 as usize];
        let (long, telemetry) = (source.long, source.telemetry);
        self.slots.items[index as usize] = FrameSlot {
            long: NONE,
            telemetry: NONE,
            ..source
        };
        if long != NONE {
            let bytes = self.long_prefixes.get(long).to_vec();
            self.slots.items[index as usize].long = self.long_prefixes.insert(bytes);
        }
        if telemetry != NONE {
            let telemetry = self.telemetry.items[telemetry as usize];
            self.set_telemetry(FrameHandle(index), telemetry);
        }
        Some(FrameHandle(index))
    }

    fn push_front(&mut self, frame: FrameHandle, len: usize) {
        let slot = &mut self.slots.items[frame.0 as usize];
        slot.flags &= !PARSED;
        if slot.long == NONE && len <= usize::from(slot.start) {
            slot.start -= len as u8;
            let start = usize::from(slot.start);
            slot.bytes[start..start + len].fill(0);
            return;
        }
        let mut bytes = vec![0; len];
        bytes.extend_from_slice(self.prefix(frame));
        let slot = &mut self.slots.items[frame.0 as usize];
        if slot.long != NONE {
            self.long_prefixes.remove(slot.long);
        }
        slot.long = self.long_prefixes.insert(bytes);
    }

    fn pull_front(&mut self, frame: FrameHandle, len: usize) {
        let slot = &mut self.slots.items[frame.0 as usize];
        slot.flags &= !PARSED;
        match slot.long {
            NONE => slot.start += len as u8,
            long => self.long_prefixes.remove_front(long, len),
        }
    }

    fn truncate(&mut self, frame: FrameHandle, len: usize) {
        let slot = &mut self.slots.items[frame.0 as usize];
        slot.flags &= !(PARSED | COMPLETES_NO_MESSAGE);
        let stored = match slot.long {
            NONE => {
                let stored = usize::from(slot.end - slot.start).min(len);
                slot.end = slot.start + stored as u8;
                stored
            }
            long => self.long_prefixes.truncate(long, len),
        };
        slot.unstored_bytes = slot.unstored_bytes.min((len - stored) as u32);
    }

    #[inline]
    fn release(&mut self, frame: FrameHandle) {
        let slot = &mut self.slots.items[frame.0 as usize];
        assert!(slot.flags & IN_USE != 0, "frame {} released twice", frame.0);
        slot.flags = 0;
        self.changes.remove();
        let beside = (slot.long, slot.telemetry);
        if beside != (NONE, NONE) {
            drop(self.take_extra_memory(frame));
        }
        self.slots.free.push(frame.0);
    }
}

/// Returns whether the ethertype of a frame is MAC control.
fn is_mac_control(frame: &[u8]) -> bool {
    frame.get(ETHERNET_LEN - 2..ETHERNET_LEN) == Some(&ETHERTYPE_MAC_CONTROL.to_be_bytes())
}

#[cfg(test)]
mod tests;
