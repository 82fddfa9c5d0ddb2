//! A frame store in ordinary memory, for tests, benches and runs without real ports.

use crate::frame::{FrameHandle, FrameStore, HEADROOM_BYTES};

/// Number of bytes for a frame in a large slot, without the free space in front of the frame.
const SLOT_BYTES: usize = 10_240;
/// Number of bytes for a frame in a small slot, without the free space in front of the frame. Two small slots
/// with their free space fit into one memory page, so fewer TLB entries are needed.
const SMALL_SLOT_BYTES: usize = 2_048 - HEADROOM_BYTES - LINE_BYTES;
const NONE: u32 = u32::MAX;
/// Size of a cache line in bytes. A frame begins at the start of a cache line, so that one cache line holds
/// all headers of the frame.
const LINE_BYTES: usize = 64;

/// The memory of one frame. Positions are byte offsets in `bytes`.
#[derive(Clone, Debug)]
#[repr(align(32))] // two in a cache line
struct FrameSlot {
    bytes: Box<[u8]>,
    /// Position at which a new frame begins.
    first: u32,
    start: u32,
    end: u32,
    /// Number of bytes at the start of the frame that may still be edited. `u32::MAX` if the frame shares
    /// no bytes.
    editable: u32,
}

const _: () = assert!(size_of::<FrameSlot>() == LINE_BYTES / 2);

/// The bytes that a slot shares with other slots.
#[derive(Clone, Copy, Debug)]
struct SharedBytes {
    /// The slot whose bytes `rest_from..rest_to` follow this prefix.
    rest: u32,
    rest_from: u32,
    rest_to: u32,
    /// Number of users of the slot: the frame itself and the copies that share its rest.
    users: u32,
}

impl SharedBytes {
    /// The value of a free slot.
    const NONE: SharedBytes = SharedBytes {
        rest: NONE,
        rest_from: 0,
        rest_to: 0,
        users: 0,
    };
}

impl FrameSlot {
    /// Creates a slot for frames of up to `len` bytes.
    fn new(len: usize) -> FrameSlot {
        let room = if len <= SMALL_SLOT_BYTES {
            SMALL_SLOT_BYTES
        } else {
            SLOT_BYTES
        };
        let bytes = vec![0; LINE_BYTES + HEADROOM_BYTES + room].into_boxed_slice();
        let to_line = (bytes.as_ptr() as usize + HEADROOM_BYTES).wrapping_neg() % LINE_BYTES;
        let first = (HEADROOM_BYTES + to_line) as u32;
        FrameSlot {
            bytes,
            first,
            start: first,
            end: first,
            editable: u32::MAX,
        }
    }

    /// Returns the longest frame that fits, in bytes.
    fn capacity(&self) -> usize {
        self.bytes.len() - LINE_BYTES - HEADROOM_BYTES
    }

    /// Returns the bytes at positions `from..to`.
    #[inline(always)]
    fn bytes_between(&self, from: u32, to: u32) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }

    #[inline(always)]
    fn bytes_between_mut(&mut self, from: u32, to: u32) -> &mut [u8] {
        &mut self.bytes[from as usize..to as usize]
    }
}

/// Stores frames in vectors. The memory of a slot is allocated when the slot is first used. If a longer frame
/// needs more space, the memory of the slot is allocated again. The slot that was released last is used
/// first. Methods panic if a frame does not exist or is released twice.
#[derive(Clone, Debug)]
pub struct VecStore {
    slots: Vec<FrameSlot>,
    /// One entry for each slot.
    shares: Vec<SharedBytes>,
    free: Vec<u32>,
    slots_max: usize,
    in_use: usize,
}

impl VecStore {
    /// Creates a store for at most `slots_max` frames.
    pub fn new(slots_max: usize) -> VecStore {
        VecStore {
            slots: Vec::new(),
            shares: Vec::new(),
            free: Vec::new(),
            slots_max,
            in_use: 0,
        }
    }

    /// Stores a frame. Returns `None` if all slots are in use or the frame is longer than 10 240 bytes.
    pub fn insert(&mut self, frame: &[u8]) -> Option<FrameHandle> {
        if frame.len() > SLOT_BYTES {
            return None;
        }
        let handle = self.take_slot(frame.len())?;
        let slot = &mut self.slots[handle.0 as usize];
        slot.end = slot.start + frame.len() as u32;
        slot.bytes_between_mut(slot.start, slot.end)
            .copy_from_slice(frame);
        Some(handle)
    }

    /// Returns all bytes of a frame, including the rest that it shares with copies.
    pub fn contents(&self, frame: FrameHandle) -> Vec<u8> {
        let slot = &self.slots[frame.0 as usize];
        let share = &self.shares[frame.0 as usize];
        let mut whole = slot.bytes_between(slot.start, slot.end).to_vec();
        if share.rest != NONE {
            let rest = &self.slots[share.rest as usize];
            whole.extend_from_slice(rest.bytes_between(share.rest_from, share.rest_to));
        }
        whole
    }

    /// Returns the number of slots in use. If copies of a frame share its bytes, its slot is in use until the
    /// last copy is released.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Takes a free slot with space for `len` bytes. Returns `None` if all slots are in use.
    fn take_slot(&mut self, len: usize) -> Option<FrameHandle> {
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                if slot.capacity() < len {
                    *slot = FrameSlot::new(len);
                }
                index
            }
            None if self.slots.len() < self.slots_max => {
                self.slots.push(FrameSlot::new(len));
                self.shares.push(SharedBytes::NONE);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        self.in_use += 1;
        let slot = &mut self.slots[index as usize];
        (slot.start, slot.end, slot.editable) = (slot.first, slot.first, u32::MAX);
        self.shares[index as usize] = SharedBytes {
            users: 1,
            ..SharedBytes::NONE
        };
        Some(FrameHandle(index))
    }

    fn release_user(&mut self, index: u32) {
        let share = &mut self.shares[index as usize];
        assert!(share.users > 0, "frame {index} released twice");
        share.users -= 1;
        if share.users == 0 {
            self.in_use -= 1;
            self.free.push(index);
        }
    }
}

impl FrameStore for VecStore {
    #[inline(always)]
    fn prefix(&self, frame: FrameHandle) -> &[u8] {
        let slot = &self.slots[frame.0 as usize];
        slot.bytes_between(slot.start, slot.end)
    }

    #[inline(always)]
    fn prefix_mut(&mut self, frame: FrameHandle) -> &mut [u8] {
        let slot = &mut self.slots[frame.0 as usize];
        let end = slot.end.min(slot.start.saturating_add(slot.editable));
        slot.bytes_between_mut(slot.start, end)
    }

    fn frame_len(&self, frame: FrameHandle) -> u32 {
        let slot = &self.slots[frame.0 as usize];
        let share = &self.shares[frame.0 as usize];
        let rest = match share.rest {
            NONE => 0,
            _ => share.rest_to - share.rest_from,
        };
        slot.end - slot.start + rest
    }

    fn allocate(&mut self, len: usize) -> Option<FrameHandle> {
        if len > SLOT_BYTES {
            return None;
        }
        let handle = self.take_slot(len)?;
        let slot = &mut self.slots[handle.0 as usize];
        slot.end = slot.start + len as u32;
        slot.bytes_between_mut(slot.start, slot.end).fill(0);
        Some(handle)
    }

    fn copy(&mut self, frame: FrameHandle, prefix_len: usize) -> Option<FrameHandle> {
        let source = &self.slots[frame.0 as usize];
        let copy = self.take_slot((source.end - source.start) as usize)?;
        let Ok([source, target]) = self.slots.get_disjoint_mut([frame.0 as usize, copy.0 as usize]) else {
            unreachable!("a slot in use was taken");
        };
        let shared = self.shares[frame.0 as usize];
        // A copy of a copy stores the whole prefix, because its shared rest begins where the prefix ends.
        let own = source.end - source.start;
        let stored = match shared.rest {
            NONE => own.min(prefix_len.min(SLOT_BYTES) as u32),
            _ => own,
        };
        target.end = target.start + stored;
        target
            .bytes_between_mut(target.start, target.end)
            .copy_from_slice(source.bytes_between(source.start, source.start + stored));
        let (rest, rest_from, rest_to) = match shared.rest {
            NONE if source.start + stored == source.end => (NONE, 0, 0),
            NONE => (frame.0, source.start + stored, source.end),
            rest => (rest, shared.rest_from, shared.rest_to),
        };
        source.editable = source.editable.min(stored);
        self.shares[copy.0 as usize] = SharedBytes {
            rest,
            rest_from,
            rest_to,
            users: 1,
        };
        if rest != NONE {
            self.shares[rest as usize].users += 1;
        }
        Some(copy)
    }

    fn push_front(&mut self, frame: FrameHandle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.start -= len as u32;
        slot.editable = slot.editable.saturating_add(len as u32);
        slot.bytes_between_mut(slot.start, slot.start + len as u32)
            .fill(0);
    }

    fn pull_front(&mut self, frame: FrameHandle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.start += len as u32;
        slot.editable = slot.editable.saturating_sub(len as u32);
    }

    fn truncate(&mut self, frame: FrameHandle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        let own = slot.end - slot.start;
        let len = len.min(u32::MAX as usize) as u32;
        slot.end = slot.end.min(slot.start.saturating_add(len));
        let share = &mut self.shares[frame.0 as usize];
        if share.rest == NONE {
            return;
        }
        share.rest_to = share
            .rest_to
            .min(share.rest_from.saturating_add(len.saturating_sub(own)));
        if share.rest_to == share.rest_from {
            let rest = core::mem::replace(&mut share.rest, NONE);
            self.release_user(rest);
        }
    }

    fn release(&mut self, frame: FrameHandle) {
        let rest = self.shares[frame.0 as usize].rest;
        self.release_user(frame.0);
        if rest != NONE {
            self.release_user(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncate_keeps_the_bytes_of_copies() {
        let bytes: Vec<u8> = (0..200).map(|n| n as u8).collect();
        for len in [1, 16, 17, 150, 200] {
            let mut store = VecStore::new(4);
            let original = store.insert(&bytes).unwrap();
            let copies = [(); 2].map(|()| store.copy(original, 16).unwrap());
            for cut in [original, copies[0]] {
                store.truncate(cut, len);
                assert_eq!(store.contents(cut), bytes[..len]);
                assert_eq!(store.frame_len(cut), len as u32);
            }
            store.release(original);
            let again = store.copy(copies[0], 16).unwrap();
            assert_eq!(store.contents(again), bytes[..len]);
            assert_eq!(store.contents(copies[1]), bytes);
            for frame in [copies[0], copies[1], again] {
                store.release(frame);
            }
            assert_eq!(store.in_use(), 0);
        }
    }

    #[test]
    fn copies_share_the_rest_and_outlive_the_original() {
        let mut store = VecStore::new(4);
        let bytes: Vec<u8> = (0..200).map(|n| n as u8).collect();
        let original = store.insert(&bytes).unwrap();
        let copy = store.copy(original, 16).unwrap();
        store.prefix_mut(copy)[0] = 0xaa;
        store.push_front(copy, 4);
        store.prefix_mut(original)[1] = 0xbb;
        store.release(original);
        assert_eq!(store.in_use(), 2, "the rest is still referred to");
        assert_eq!(store.frame_len(copy), 204);
        assert_eq!(store.contents(copy)[4..], [&[0xaa], &bytes[1..]].concat());
        store.release(copy);
        assert_eq!(store.in_use(), 0);
    }
}
