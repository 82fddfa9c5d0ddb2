//! A frame store for captured frames. The store remembers the origin of each frame.

use std::rc::Rc;

use xoff_dataplane::{FrameHandle, FrameStore, Picos, PortId};

/// A captured frame as it was received. Frames of the switch refer to their origin.
#[derive(Clone, Debug)]
pub struct FrameOrigin {
    /// Number of the frame in the capture, from 1.
    pub number: u64,
    /// Ingress port of the frame.
    pub port: PortId,
    /// Model time at which the frame is offered to the switch, or at which a tester starts to send it.
    pub at: Picos,
    /// Traffic class at ingress, 0 to 7. 0 if it was not determined.
    pub tc: u8,
    /// Priority group at ingress, 0 to 7. 0 if it was not determined.
    pub pg: u8,
    /// ECN bits of the IP header at ingress, 0 to 3. 0 if the frame is not IP.
    pub ecn: u8,
    /// Captured bytes of the frame, as received, without FCS.
    pub data: Rc<[u8]>,
    /// Length of the whole frame at ingress, without FCS, in bytes.
    pub len: u32,
}

#[derive(Debug, Default)]
struct FrameSlot {
    /// The captured bytes of the frame in its current form, followed by the completion.
    stored: Vec<u8>,
    /// Number of bytes at the end of `stored` that were added to complete the headers. These bytes were not
    /// captured and are never written to a file.
    completion: u32,
    /// Number of bytes of the frame that follow `stored` and are not stored.
    beyond: u32,
    /// The captured frame, or `None` if the switch created the frame.
    origin: Option<FrameOrigin>,
    used: bool,
}

/// A frame store without a size limit. The frame table of the switch and the links limit the number
/// of frames.
///
/// A released frame stays readable until [`CaptureStore::reclaim_released`], so that the replay can still
/// write a dropped frame to a file.
#[derive(Debug, Default)]
pub struct CaptureStore {
    slots: Vec<FrameSlot>,
    free: Vec<u32>,
    released: Vec<u32>,
}

impl CaptureStore {
    /// Stores a received frame and returns its handle.
    pub fn insert(&mut self, origin: FrameOrigin) -> FrameHandle {
        self.insert_with_completion(origin, &[])
    }

    /// Stores a received frame, and the bytes that complete
    /// its headers ([`CapturedHeaders::completion`](super::CapturedHeaders::completion)).
    pub fn insert_with_completion(&mut self, origin: FrameOrigin, completion: &[u8]) -> FrameHandle {
        let handle = self.claim_slot();
        let slot = &mut self.slots[handle.0 as usize];
        slot.stored.extend_from_slice(&origin.data);
        slot.stored.extend_from_slice(completion);
        slot.completion = completion.len() as u32;
        slot.beyond = origin.len.saturating_sub(slot.stored.len() as u32);
        slot.origin = Some(origin);
        handle
    }

    /// Returns the captured bytes of a frame in its current form, without the completion.
    ///
    /// # Panics
    /// The store has no frame with this handle.
    pub fn captured_bytes(&self, frame: FrameHandle) -> &[u8] {
        let slot = &self.slots[frame.0 as usize];
        &slot.stored[..slot.stored.len() - slot.completion as usize]
    }

    /// Returns the captured frame from which a frame was made. Returns `None` if the switch created the
    /// frame. The frame may already be released, but not reclaimed.
    ///
    /// # Panics
    /// The store has no frame with this handle.
    pub fn origin(&self, frame: FrameHandle) -> Option<&FrameOrigin> {
        self.slots[frame.0 as usize].origin.as_ref()
    }

    /// Returns the frames that are released but not reclaimed.
    pub fn released_frames(&self) -> impl Iterator<Item = FrameHandle> {
        self.released.iter().map(|index| FrameHandle(*index))
    }

    /// Frees the slots of released frames. Their handles become invalid.
    pub fn reclaim_released(&mut self) {
        for index in self.released.drain(..) {
            self.slots[index as usize].origin = None;
            self.free.push(index);
        }
    }

    /// Returns the number of stored frames that are not released.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len() - self.released.len()
    }

    fn claim_slot(&mut self) -> FrameHandle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(FrameSlot::default());
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
        let handle = self.claim_slot();
        self.slots[handle.0 as usize].stored.resize(len, 0);
        Some(handle)
    }

    fn copy(&mut self, frame: FrameHandle, _: usize) -> Option<FrameHandle> {
        let copy = self.claim_slot();
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
    fn released_frame_is_readable_until_reclaimed() {
        let mut store = CaptureStore::default();
        let data: Rc<[u8]> = (0..100).collect();
        let frame = store.insert_with_completion(
            FrameOrigin {
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
        assert_eq!(store.captured_bytes(frame), &data[..]);
        let copy = store.copy(frame, 16).unwrap();
        store.push_front(copy, 4);
        store.release(frame);
        assert_eq!(store.allocate(60).map(|other| other == frame), Some(false));
        assert_eq!(store.origin(frame).map(|origin| origin.number), Some(7));
        store.reclaim_released();
        assert!(store.origin(frame).is_none());
        assert_eq!((store.frame_len(copy), store.in_use()), (1_004, 2));
        assert_eq!(store.captured_bytes(copy)[4..], data[..]);
        store.truncate(copy, 110);
        assert_eq!(
            (store.frame_len(copy), store.captured_bytes(copy).len()),
            (110, 104)
        );
        store.truncate(copy, 50);
        assert_eq!(
            (store.frame_len(copy), store.captured_bytes(copy).len()),
            (50, 50)
        );
    }
}
