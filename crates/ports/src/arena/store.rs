//! The frame store of a switch worker. It allocates, copies and frees the slots of an arena.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xoff_dataplane::{FrameHandle, FrameStore};

use super::slot_source::{Sealed, SlotSource};
use super::{Arena, FrameLayout, NO_SLOT, SlotClass};

/// A bit in a share count. The bit is set if the slot has no handle but its bytes are still shared.
const RELEASED: u32 = 1 << 31;

/// The free lists and share counts of an arena. Only the switch worker uses these lists and counts: it copies
/// frames, and frees slots with shared bytes. I/O workers return sent frames to the switch worker.
#[derive(Debug)]
pub struct ArenaStore {
    arena: Arc<Arena>,
    /// The small free slots. A new frame gets the slot that was freed last, because the bytes of this slot
    /// are still in the CPU caches.
    small: Vec<FrameHandle>,
    large: Vec<FrameHandle>,
    slots: usize,
    /// Share count of each slot, by slot number: how many frames from different slots share bytes of this
    /// slot. The bit [`RELEASED`] is set when the slot has no handle.
    shares: Box<[u32]>,
}

impl ArenaStore {
    /// Creates a store that owns all slots of an arena.
    ///
    /// # Panics
    /// Panics if another store was created for this arena.
    pub fn new(arena: Arc<Arena>) -> ArenaStore {
        let is_owned = arena.is_owned_by_store.swap(true, Ordering::Relaxed);
        assert!(!is_owned, "the slots of an arena are taken once");
        let (small_slots, large_slots) = arena.slot_counts();
        let slots = small_slots + large_slots;
        let list = |from: usize, to: usize| (from..to).rev().map(|n| FrameHandle(n as u32)).collect();
        ArenaStore {
            small: list(0, small_slots),
            large: list(small_slots, slots),
            slots,
            shares: vec![0; slots].into(),
            arena,
        }
    }

    /// Returns the arena, for use in other threads.
    pub fn shared_arena(&self) -> Arc<Arena> {
        Arc::clone(&self.arena)
    }

    /// Returns two numbers: the number of free small slots and the number of free large slots.
    pub fn free_slots(&self) -> (usize, usize) {
        (self.small.len(), self.large.len())
    }

    /// Returns the number of slots that are not free. Such a slot holds a frame, is an empty slot of an I/O
    /// worker or a port, or belonged to a released frame whose bytes are still shared. At the end of a run,
    /// the number must be 0. A larger number means that slots have leaked.
    pub fn used_slots(&self) -> usize {
        self.slots - self.small.len() - self.large.len()
    }

    #[inline]
    fn push_free_slot(&mut self, slot: FrameHandle) {
        match self.arena.slot_class(slot) {
            SlotClass::Small => self.small.push(slot),
            SlotClass::Large => self.large.push(slot),
        }
    }

    /// Splits a frame into a prefix of `prefix_len` bytes and a read-only rest in the same slot.
    fn split_frame(&mut self, frame: FrameHandle, layout: FrameLayout, prefix_len: u16) {
        let split = FrameLayout {
            len: prefix_len,
            rest_start: layout.start + prefix_len,
            rest_len: layout.len - prefix_len,
            rest_slot: frame.0,
            ..layout
        };
        self.arena.set_layout(frame, split);
    }

    /// Decrements the share count of a slot. If the slot has no handle and no share is left, the slot
    /// is freed.
    fn release_share(&mut self, slot: u32) {
        let shares = &mut self.shares[slot as usize];
        debug_assert!(*shares & !RELEASED != 0, "slot {slot} has no share");
        *shares -= 1;
        if *shares == RELEASED {
            *shares = 0;
            self.arena.states.free_released_but_shared(FrameHandle(slot));
            self.push_free_slot(FrameHandle(slot));
        }
    }
}

impl Sealed for ArenaStore {}

impl SlotSource for ArenaStore {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    #[inline]
    fn take_slot_of(&mut self, class: SlotClass) -> Option<FrameHandle> {
        let slot = match class {
            SlotClass::Small => self.small.pop(),
            SlotClass::Large => self.large.pop(),
        }?;
        self.arena.states.mark_used(slot);
        self.arena.set_layout(slot, FrameLayout::unshared(0));
        Some(slot)
    }

    #[inline]
    fn return_slot(&mut self, slot: FrameHandle) {
        self.release(slot);
    }
}

impl FrameStore for ArenaStore {
    #[inline]
    fn prefix(&self, frame: FrameHandle) -> &[u8] {
        let layout = self.arena.layout(frame);
        self.arena
            .slot_bytes(frame.0, layout.start as usize, layout.len as usize)
    }

    #[inline]
    fn prefix_mut(&mut self, frame: FrameHandle) -> &mut [u8] {
        // SAFETY: the switch worker owns this store and holds the handle. `&mut self` excludes
        // other references.
        unsafe { self.arena.prefix_mut(frame) }
    }

    #[inline]
    fn prefetch_frame(&self, frame: FrameHandle) {
        self.arena.prefetch_headers(frame);
    }

    #[inline]
    fn frame_len(&self, frame: FrameHandle) -> u32 {
        self.arena.frame_len(frame) as u32
    }

    fn allocate(&mut self, len: usize) -> Option<FrameHandle> {
        let frame = self.take_slot(len)?;
        self.set_frame(frame, len);
        self.prefix_mut(frame).fill(0);
        Some(frame)
    }

    /// A frame never has more than two parts: own bytes and shared bytes. If the original frame already
    /// shares bytes, the copy gets at least as many own bytes as the original.
    fn copy(&mut self, frame: FrameHandle, prefix_len: usize) -> Option<FrameHandle> {
        let mut layout = self.arena.layout(frame);
        let total = layout.len as usize + layout.rest_len as usize;
        let mut own = prefix_len.min(total);
        if layout.rest_slot != NO_SLOT {
            own = own.max(layout.len as usize);
        }
        let copy = self.take_slot(own)?;
        self.set_frame(copy, own);
        if own < total && layout.rest_slot == NO_SLOT {
            self.split_frame(frame, layout, own as u16);
            layout = self.arena.layout(frame);
        }
        // SAFETY: the caller holds `frame`, and `copy` is new. The slot of the copy overlaps no part of
        // the frame.
        let (target, (first, second)) = unsafe { (self.arena.prefix_mut(copy), self.arena.segments(frame)) };
        let split = own.min(first.len());
        target[..split].copy_from_slice(&first[..split]);
        target[split..].copy_from_slice(&second[..own - split]);
        if own < total {
            let beyond = own as u16 - layout.len;
            let shared = FrameLayout {
                rest_slot: layout.rest_slot,
                rest_start: layout.rest_start + beyond,
                rest_len: layout.rest_len - beyond,
                ..FrameLayout::unshared(own as u16)
            };
            self.arena.set_layout(copy, shared);
            self.shares[layout.rest_slot as usize] += 1;
        }
        Some(copy)
    }

    fn push_front(&mut self, frame: FrameHandle, len: usize) {
        let mut layout = self.arena.layout(frame);
        assert!(
            len <= layout.start as usize,
            "{len} bytes do not fit in front of the frame"
        );
        layout.start -= len as u16;
        layout.len += len as u16;
        self.arena.set_layout(frame, layout);
        self.prefix_mut(frame)[..len].fill(0);
    }

    fn pull_front(&mut self, frame: FrameHandle, len: usize) {
        let mut layout = self.arena.layout(frame);
        let own = len.min(layout.len as usize);
        let beyond = len - own;
        assert!(
            beyond <= layout.rest_len as usize,
            "{len} bytes are more than the frame has"
        );
        layout.start += own as u16;
        layout.len -= own as u16;
        layout.rest_start += beyond as u16;
        layout.rest_len -= beyond as u16;
        self.arena.set_layout(frame, layout);
    }

    /// If frames from different slots share bytes of this frame's slot, the slot stays in use until the last
    /// of these frames is released.
    fn truncate(&mut self, frame: FrameHandle, len: usize) {
        let mut layout = self.arena.layout(frame);
        let own = len.min(layout.len as usize);
        layout.rest_len = layout.rest_len.min((len - own) as u16);
        layout.len = own as u16;
        let rest = layout.rest_slot;
        let is_rest_unused = rest != NO_SLOT && rest != frame.0 && layout.rest_len == 0;
        if is_rest_unused {
            layout.rest_slot = NO_SLOT;
        }
        self.arena.set_layout(frame, layout);
        if is_rest_unused {
            self.release_share(rest);
        }
    }

    #[inline]
    fn release(&mut self, frame: FrameHandle) {
        let rest_slot = self.arena.layout(frame).rest_slot;
        if rest_slot == frame.0 && self.shares[rest_slot as usize] != 0 {
            self.shares[rest_slot as usize] |= RELEASED;
            self.arena.states.mark_released_but_shared(frame);
            return;
        }
        self.arena.states.mark_free(frame);
        self.push_free_slot(frame);
        if rest_slot != NO_SLOT && rest_slot != frame.0 {
            self.release_share(rest_slot);
        }
    }
}
