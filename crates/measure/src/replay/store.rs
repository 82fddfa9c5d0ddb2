//! Frames of a capture while they are in the switch: what was stored of each, and where it came from.

use std::rc::Rc;

use xoff_dataplane::{FrameHandle, FrameStore, Picos, PortId};

/// Where a frame of the switch comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Its number in the capture, from 1.
    pub number: u64,
    /// The port it came in on.
    pub port: PortId,
    /// When it came in.
    pub at: Picos,
    /// Its traffic class there.
    pub tc: u8,
    /// Its priority group there.
    pub pg: u8,
    /// Its ECN bits then; 0 if it is not IP.
    pub ecn: u8,
    /// What was captured of it, as it came in.
    pub data: Rc<[u8]>,
    /// Its length then.
    pub len: u32,
}

#[derive(Debug, Default)]
struct Slot {
    /// What is stored of the frame as it is now: a frame that was captured in part has a rest that is only a length.
    stored: Vec<u8>,
    /// Bytes at the end of `stored` that were not captured. They complete an IP header, and are never written to a file.
    completion: u32,
    beyond: u32,
    /// `None`: the switch made it.
    origin: Option<Origin>,
    used: bool,
}

/// A store that remembers origins. It has no limit of its own: the switch's frame table and the wires have theirs.
///
/// A frame that is released can still be read until [`CaptureStore::reclaim`], so that what was dropped can be looked at.
#[derive(Debug, Default)]
pub struct CaptureStore {
    slots: Vec<Slot>,
    free: Vec<u32>,
    released: Vec<u32>,
}

impl CaptureStore {
    /// Stores a frame as it came in.
    pub fn insert(&mut self, origin: Origin) -> FrameHandle {
        self.insert_completed(origin, &[])
    }

    /// Stores a frame as it came in, with the bytes that complete its headers.
    pub fn insert_completed(&mut self, origin: Origin, completion: &[u8]) -> FrameHandle {
        let handle = self.take();
        let slot = &mut self.slots[handle.0 as usize];
        slot.stored.extend_from_slice(&origin.data);
        slot.stored.extend_from_slice(completion);
        slot.completion = completion.len() as u32;
        slot.beyond = origin.len.saturating_sub(slot.stored.len() as u32);
        slot.origin = Some(origin);
        handle
    }

    /// The bytes of a frame that were captured, as they are now.
    pub fn captured(&self, frame: FrameHandle) -> &[u8] {
        let slot = &self.slots[frame.0 as usize];
        &slot.stored[..slot.stored.len() - slot.completion as usize]
    }

    /// Where a frame comes from; `None` if the switch made it. May be asked of a frame that was just released.
    pub fn origin(&self, frame: FrameHandle) -> Option<&Origin> {
        self.slots[frame.0 as usize].origin.as_ref()
    }

    /// Frames that were released and not reclaimed yet.
    pub fn released(&self) -> impl Iterator<Item = FrameHandle> {
        self.released.iter().map(|index| FrameHandle(*index))
    }

    /// Makes the places of released frames free. Their handles mean nothing from here on.
    pub fn reclaim(&mut self) {
        for index in self.released.drain(..) {
            self.slots[index as usize].origin = None;
            self.free.push(index);
        }
    }

    /// Frames that have not been released.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len() - self.released.len()
    }

    fn take(&mut self) -> FrameHandle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.stored.clear();
        (slot.completion, slot.beyond, slot.used) = (0, 0, true);
        FrameHandle(index)
    }
}

impl FrameStore for CaptureStore {
    fn prefix(&self, frame: FrameHandle) -> &[u8] {
        &self.slots[frame.0 as usize].stored
    }

    fn prefix_mut(&mut self, frame: FrameHandle) -> &mut [u8] {
        &mut self.slots[frame.0 as usize].stored
    }

    fn frame_len(&self, frame: FrameHandle) -> u32 {
        let slot = &self.slots[frame.0 as usize];
        slot.stored.len() as u32 + slot.beyond
    }

    fn allocate(&mut self, len: usize) -> Option<FrameHandle> {
        let handle = self.take();
        self.slots[handle.0 as usize].stored.resize(len, 0);
        Some(handle)
    }

    fn copy(&mut self, frame: FrameHandle, _: usize) -> Option<FrameHandle> {
        let copy = self.take();
        let Ok([from, to]) = self.slots.get_disjoint_mut([frame.0 as usize, copy.0 as usize]) else {
            unreachable!("a slot in use was taken");
        };
        to.stored.extend_from_slice(&from.stored);
        (to.completion, to.beyond) = (from.completion, from.beyond);
        to.origin.clone_from(&from.origin);
        Some(copy)
    }

    fn push_front(&mut self, frame: FrameHandle, len: usize) {
        let stored = &mut self.slots[frame.0 as usize].stored;
        stored.splice(..0, std::iter::repeat_n(0, len));
    }

    fn pull_front(&mut self, frame: FrameHandle, len: usize) {
        self.slots[frame.0 as usize].stored.drain(..len);
    }

    fn truncate(&mut self, frame: FrameHandle, len: usize) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.completion = slot
            .completion
            .saturating_sub(slot.stored.len().saturating_sub(len) as u32);
        slot.stored.truncate(len);
        slot.beyond = slot.beyond.min((len - slot.stored.len()) as u32);
    }

    fn release(&mut self, frame: FrameHandle) {
        let slot = &mut self.slots[frame.0 as usize];
        assert!(slot.used, "frame {} released twice", frame.0);
        slot.used = false;
        self.released.push(frame.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_frame_can_be_looked_at_until_its_place_is_reclaimed() {
        let mut store = CaptureStore::default();
        let data: Rc<[u8]> = (0..100).collect();
        let frame = store.insert_completed(
            Origin {
                number: 7,
                port: PortId(1),
                at: Picos::ZERO,
                tc: 3,
                pg: 3,
                ecn: 0,
                data: Rc::clone(&data),
                len: 1_000,
            },
            &[0; 8],
        );
        assert_eq!((store.frame_len(frame), store.prefix(frame).len()), (1_000, 108));
        assert_eq!(store.captured(frame), &data[..]);
        let copy = store.copy(frame, 16).unwrap();
        store.push_front(copy, 4);
        store.release(frame);
        assert_eq!(store.allocate(60).map(|other| other == frame), Some(false));
        assert_eq!(store.origin(frame).map(|origin| origin.number), Some(7));
        store.reclaim();
        assert!(store.origin(frame).is_none());
        assert_eq!((store.frame_len(copy), store.in_use()), (1_004, 2));
        assert_eq!(store.captured(copy)[4..], data[..]);
        store.truncate(copy, 110);
        assert_eq!((store.frame_len(copy), store.captured(copy).len()), (110, 104));
        store.truncate(copy, 50);
        assert_eq!((store.frame_len(copy), store.captured(copy).len()), (50, 50));
    }
}
