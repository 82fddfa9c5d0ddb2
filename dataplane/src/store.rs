//! A store of plain memory, for tests, benches and runs without real ports.

use crate::frame::{HEADROOM_BYTES, Handle, Store};

/// Octets of a slot behind its headroom.
const SLOT_BYTES: usize = 10_240;
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Slot {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// The slot whose octets from `rest_from` to `rest_to` follow this prefix.
    rest: u32,
    rest_from: usize,
    rest_to: usize,
    /// The frame itself and the copies that share its rest.
    users: u32,
    /// Octets at the front that may still be edited; all of them until the frame is shared.
    editable: usize,
}

/// Frames in vectors. Slots are made on first use and kept; freed ones are used again, the latest first.
#[derive(Clone, Debug)]
pub struct VecStore {
    slots: Vec<Slot>,
    free: Vec<u32>,
    slots_max: usize,
    in_use: usize,
}

impl VecStore {
    /// A store for at most `slots_max` frames.
    pub fn new(slots_max: usize) -> VecStore {
        VecStore {
            slots: Vec::new(),
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
        let handle = self.take()?;
        let slot = &mut self.slots[handle.0 as usize];
        slot.end = slot.start + frame.len();
        slot.bytes[slot.start..slot.end].copy_from_slice(frame);
        Some(handle)
    }

    /// The whole frame, its shared rest included.
    pub fn contents(&self, frame: Handle) -> Vec<u8> {
        let slot = &self.slots[frame.0 as usize];
        let mut whole = slot.bytes[slot.start..slot.end].to_vec();
        if slot.rest != NONE {
            let rest = &self.slots[slot.rest as usize];
            whole.extend_from_slice(&rest.bytes[slot.rest_from..slot.rest_to]);
        }
        whole
    }

    /// Slots in use; a shared rest counts until its last user is released.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    fn take(&mut self) -> Option<Handle> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.slots_max => {
                self.slots.push(Slot {
                    bytes: vec![0; HEADROOM_BYTES + SLOT_BYTES].into_boxed_slice(),
                    start: HEADROOM_BYTES,
                    end: HEADROOM_BYTES,
                    rest: NONE,
                    rest_from: 0,
                    rest_to: 0,
                    users: 0,
                    editable: usize::MAX,
                });
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        self.in_use += 1;
        let slot = &mut self.slots[index as usize];
        (slot.start, slot.end) = (HEADROOM_BYTES, HEADROOM_BYTES);
        (slot.rest, slot.users, slot.editable) = (NONE, 1, usize::MAX);
        Some(Handle(index))
    }

    fn unuse(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        assert!(slot.users > 0, "frame {index} released twice");
        slot.users -= 1;
        if slot.users == 0 {
            self.in_use -= 1;
            self.free.push(index);
        }
    }
}

impl Store for VecStore {
    fn prefix(&self, frame: Handle) -> &[u8] {
        let slot = &self.slots[frame.0 as usize];
        &slot.bytes[slot.start..slot.end]
    }

    fn prefix_mut(&mut self, frame: Handle) -> &mut [u8] {
        let slot = &mut self.slots[frame.0 as usize];
        let end = slot.end.min(slot.start.saturating_add(slot.editable));
        &mut slot.bytes[slot.start..end]
    }

    fn frame_len(&self, frame: Handle) -> u32 {
        let slot = &self.slots[frame.0 as usize];
        let rest = match slot.rest {
            NONE => 0,
            _ => slot.rest_to - slot.rest_from,
        };
        (slot.end - slot.start + rest) as u32
    }

    fn allocate(&mut self, len: usize) -> Option<Handle> {
        if len > SLOT_BYTES {
            return None;
        }
        let handle = self.take()?;
        let slot = &mut self.slots[handle.0 as usize];
        slot.end = slot.start + len;
        slot.bytes[slot.start..slot.end].fill(0);
        Some(handle)
    }

    fn copy(&mut self, frame: Handle, prefix_len: usize) -> Option<Handle> {
        let copy = self.take()?;
        let Ok([source, target]) = self.slots.get_disjoint_mut([frame.0 as usize, copy.0 as usize]) else {
            unreachable!("a slot in use was taken");
        };
        // A copy of a copy stores its whole prefix: its rest begins where that ends.
        let stored = match source.rest {
            NONE => (source.end - source.start).min(prefix_len),
            _ => source.end - source.start,
        };
        target.end = target.start + stored;
        target.bytes[target.start..target.end]
            .copy_from_slice(&source.bytes[source.start..source.start + stored]);
        let (rest, from, to) = match source.rest {
            NONE if source.start + stored == source.end => (NONE, 0, 0),
            NONE => (frame.0, source.start + stored, source.end),
            rest => (rest, source.rest_from, source.rest_to),
        };
        (target.rest, target.rest_from, target.rest_to) = (rest, from, to);
        source.editable = source.editable.min(stored);
        if rest != NONE {
            self.slots[rest as usize].users += 1;
        }
        Some(copy)
    }

    fn push_front(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.start -= len;
        slot.editable = slot.editable.saturating_add(len);
        let start = slot.start;
        slot.bytes[start..start + len].fill(0);
    }

    fn pull_front(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.start += len;
        slot.editable = slot.editable.saturating_sub(len);
    }

    fn truncate(&mut self, frame: Handle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        let own = slot.end - slot.start;
        slot.end = slot.end.min(slot.start + len);
        if slot.rest == NONE {
            return;
        }
        slot.rest_to = slot.rest_to.min(slot.rest_from + len.saturating_sub(own));
        if slot.rest_to == slot.rest_from {
            let rest = core::mem::replace(&mut slot.rest, NONE);
            self.unuse(rest);
        }
    }

    fn release(&mut self, frame: Handle) {
        let rest = self.slots[frame.0 as usize].rest;
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
