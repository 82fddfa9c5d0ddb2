//! A store of plain memory, for tests, benches and runs without real ports.

use crate::frame::{HEADROOM_BYTES, Handle, Store};

/// Octets of a slot behind its headroom.
const SLOT_BYTES: usize = 10_240;
/// The same of a slot that has held no longer frame: two of them in a page, headroom included, for fewer entries of a TLB.
const SMALL_SLOT_BYTES: usize = 2_048 - HEADROOM_BYTES - LINE_BYTES;
const NONE: u32 = u32::MAX;
/// A frame begins at the start of a cache line, so that its headers lie in one.
const LINE_BYTES: usize = 64;

/// Where a frame lies: all that reading and editing it takes. Places are octets of `bytes`.
#[derive(Clone, Debug)]
#[repr(align(32))] // two in a cache line
struct Slot {
    bytes: Box<[u8]>,
    /// Where a new frame begins.
    first: u32,
    start: u32,
    end: u32,
    /// Octets at the front that may still be edited; all of them until the frame is shared.
    editable: u32,
}

const _: () = assert!(size_of::<Slot>() == LINE_BYTES / 2);

/// What a slot shares with others.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// The slot whose octets from `rest_from` to `rest_to` follow this prefix.
    rest: u32,
    rest_from: u32,
    rest_to: u32,
    /// The frame itself and the copies that share its rest.
    users: u32,
}

impl Share {
    /// Of a slot that nobody uses.
    const NONE: Share = Share {
        rest: NONE,
        rest_from: 0,
        rest_to: 0,
        users: 0,
    };
}

impl Slot {
    /// For frames of up to `len` octets.
    fn new(len: usize) -> Slot {
        let room = if len <= SMALL_SLOT_BYTES {
            SMALL_SLOT_BYTES
        } else {
            SLOT_BYTES
        };
        let bytes = vec![0; LINE_BYTES + HEADROOM_BYTES + room].into_boxed_slice();
        let to_line = (bytes.as_ptr() as usize + HEADROOM_BYTES).wrapping_neg() % LINE_BYTES;
        let first = (HEADROOM_BYTES + to_line) as u32;
        Slot {
            bytes,
            first,
            start: first,
            end: first,
            editable: u32::MAX,
        }
    }

    /// How long a frame may be in it.
    fn room(&self) -> usize {
        self.bytes.len() - LINE_BYTES - HEADROOM_BYTES
    }

    /// The octets of a range of places.
    #[inline(always)]
    fn octets(&self, from: u32, to: u32) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }

    #[inline(always)]
    fn octets_mut(&mut self, from: u32, to: u32) -> &mut [u8] {
        &mut self.bytes[from as usize..to as usize]
    }
}

/// Frames in vectors. Slots are made on first use, or when a frame longer than before is to lie in one, and kept; freed ones are used
/// again, the latest first.
#[derive(Clone, Debug)]
pub struct VecStore {
    slots: Vec<Slot>,
    /// Of each slot.
    shares: Vec<Share>,
    free: Vec<u32>,
    slots_max: usize,
    in_use: usize,
}

impl VecStore {
    /// A store for at most `slots_max` frames.
    pub fn new(slots_max: usize) -> VecStore {
        VecStore {
            slots: Vec::new(),
            shares: Vec::new(),
            free: Vec::new(),
            slots_max,
            in_use: 0,
        }
    }

    /// Stores a frame; `None` if there is no room, or the frame is longer than a slot (10 240 octets).
    pub fn insert(&mut self, frame: &[u8]) -> Option<Handle> {
        if frame.len() > SLOT_BYTES {
            return None;
        }
        let handle = self.take(frame.len())?;
        let slot = &mut self.slots[handle.0 as usize];
        slot.end = slot.start + frame.len() as u32;
        slot.octets_mut(slot.start, slot.end).copy_from_slice(frame);
        Some(handle)
    }

    /// The whole frame, its shared rest included.
    pub fn contents(&self, frame: Handle) -> Vec<u8> {
        let slot = &self.slots[frame.0 as usize];
        let share = &self.shares[frame.0 as usize];
        let mut whole = slot.octets(slot.start, slot.end).to_vec();
        if share.rest != NONE {
            let rest = &self.slots[share.rest as usize];
            whole.extend_from_slice(rest.octets(share.rest_from, share.rest_to));
        }
        whole
    }

    /// Slots in use; a shared rest counts until its last user is released.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// A slot with room for `len` octets.
    fn take(&mut self, len: usize) -> Option<Handle> {
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                if slot.room() < len {
                    *slot = Slot::new(len);
                }
                index
            }
            None if self.slots.len() < self.slots_max => {
                self.slots.push(Slot::new(len));
                self.shares.push(Share::NONE);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        self.in_use += 1;
        let slot = &mut self.slots[index as usize];
        (slot.start, slot.end, slot.editable) = (slot.first, slot.first, u32::MAX);
        self.shares[index as usize] = Share {
            users: 1,
            ..Share::NONE
        };
        Some(Handle(index))
    }

    fn unuse(&mut self, index: u32) {
        let share = &mut self.shares[index as usize];
        assert!(share.users > 0, "frame {index} released twice");
        share.users -= 1;
        if share.users == 0 {
            self.in_use -= 1;
            self.free.push(index);
        }
    }
}

impl Store for VecStore {
    #[inline(always)]
    fn prefix(&self, frame: Handle) -> &[u8] {
        let slot = &self.slots[frame.0 as usize];
        slot.octets(slot.start, slot.end)
    }

    #[inline(always)]
    fn prefix_mut(&mut self, frame: Handle) -> &mut [u8] {
        let slot = &mut self.slots[frame.0 as usize];
        let end = slot.end.min(slot.start.saturating_add(slot.editable));
        slot.octets_mut(slot.start, end)
    }

    fn frame_len(&self, frame: Handle) -> u32 {
        let slot = &self.slots[frame.0 as usize];
        let share = &self.shares[frame.0 as usize];
        let rest = match share.rest {
            NONE => 0,
            _ => share.rest_to - share.rest_from,
        };
        slot.end - slot.start + rest
    }

    fn allocate(&mut self, len: usize) -> Option<Handle> {
        if len > SLOT_BYTES {
            return None;
        }
        let handle = self.take(len)?;
        let slot = &mut self.slots[handle.0 as usize];
        slot.end = slot.start + len as u32;
        slot.octets_mut(slot.start, slot.end).fill(0);
        Some(handle)
    }

    fn copy(&mut self, frame: Handle, prefix_len: usize) -> Option<Handle> {
        let source = &self.slots[frame.0 as usize];
        let copy = self.take((source.end - source.start) as usize)?;
        let Ok([source, target]) = self.slots.get_disjoint_mut([frame.0 as usize, copy.0 as usize]) else {
            unreachable!("a slot in use was taken");
        };
        let shared = self.shares[frame.0 as usize];
        // A copy of a copy stores its whole prefix: its rest begins where that ends.
        let own = source.end - source.start;
        let stored = match shared.rest {
            NONE => own.min(prefix_len.min(SLOT_BYTES) as u32),
            _ => own,
        };
        target.end = target.start + stored;
        target
            .octets_mut(target.start, target.end)
            .copy_from_slice(source.octets(source.start, source.start + stored));
        let (rest, rest_from, rest_to) = match shared.rest {
            NONE if source.start + stored == source.end => (NONE, 0, 0),
            NONE => (frame.0, source.start + stored, source.end),
            rest => (rest, shared.rest_from, shared.rest_to),
        };
        source.editable = source.editable.min(stored);
        self.shares[copy.0 as usize] = Share {
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

    fn push_front(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.start -= len as u32;
        slot.editable = slot.editable.saturating_add(len as u32);
        slot.octets_mut(slot.start, slot.start + len as u32).fill(0);
    }

    fn pull_front(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.start += len as u32;
        slot.editable = slot.editable.saturating_sub(len as u32);
    }

    fn truncate(&mut self, frame: Handle, len: usize) {
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
            self.unuse(rest);
        }
    }

    fn release(&mut self, frame: Handle) {
        let rest = self.shares[frame.0 as usize].rest;
        self.unuse(frame.0);
        if rest != NONE {
            self.unuse(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_one_frame_stays_with_those_that_share_it() {
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
