//! The switch worker's view of an arena: it allocates, copies and frees.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xoff_dataplane::{FrameHandle, FrameStore};

use super::{Arena, Layout, NO_SLOT, SlotClass, SlotSource};

/// Set in a share count when the slot's own handle has been released.
const RELEASED: u32 = 1 << 31;

/// The free lists and share counts of an arena, kept by one thread: the switch's worker. It alone creates
/// copies and frees what may be shared; I/O workers hand sent frames back to it.
#[derive(Debug)]
pub struct ArenaStore {
    arena: Arc<Arena>,
    /// Taken last in, first out: what was used last is still in the CPU's caches.
    small: Vec<FrameHandle>,
    large: Vec<FrameHandle>,
    slots: usize,
    /// Per slot: how many copies share its bytes, and [`RELEASED`].
    shares: Box<[u32]>,
}

impl ArenaStore {
    /// Takes all slots of an arena.
    ///
    /// # Panics
    /// If they have been taken before: a slot has one owner.
    pub fn new(arena: Arc<Arena>) -> ArenaStore {
        let taken = arena.handed_out.swap(true, Ordering::Relaxed);
        assert!(!taken, "the slots of an arena are taken once");
        let (small_slots, large_slots) = arena.slots();
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

    /// The arena, for other threads.
    pub fn shared_arena(&self) -> Arc<Arena> {
        Arc::clone(&self.arena)
    }

    /// Free slots: small, large.
    pub fn free_slots(&self) -> (usize, usize) {
        (self.small.len(), self.large.len())
    }

    /// Slots that are not free: frames, shared bytes whose frame is gone, and empty slots given to I/O workers.
    /// After everything was released this is 0, or something has leaked.
    pub fn in_use(&self) -> usize {
        self.slots - self.small.len() - self.large.len()
    }

    #[inline]
    fn push_free(&mut self, slot: FrameHandle) {
        match self.arena.class(slot) {
            SlotClass::Small => self.small.push(slot),
            SlotClass::Large => self.large.push(slot),
        }
    }

    /// Cuts a frame into a stored prefix of `prefix_len` octets and a rest in its own slot, out of reach for edits.
    fn cut(&mut self, frame: FrameHandle, layout: Layout, prefix_len: u16) {
        let cut = Layout {
            len: prefix_len,
            rest_start: layout.start + prefix_len,
            rest_len: layout.len - prefix_len,
            rest_slot: frame.0,
            ..layout
        };
        self.arena.set_layout(frame, cut);
    }

    /// One share less of a slot's bytes.
    fn unshare(&mut self, slot: u32) {
        let shares = &mut self.shares[slot as usize];
        debug_assert!(*shares & !RELEASED != 0, "slot {slot} is shared by nobody");
        *shares -= 1;
        if *shares == RELEASED {
            *shares = 0;
            self.arena.states.free_lingering(FrameHandle(slot));
            self.push_free(FrameHandle(slot));
        }
    }
}

impl SlotSource for ArenaStore {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    #[inline]
    fn take_class(&mut self, class: SlotClass) -> Option<FrameHandle> {
        let slot = match class {
            SlotClass::Small => self.small.pop(),
            SlotClass::Large => self.large.pop(),
        }?;
        self.arena.states.take(slot);
        self.arena.set_layout(slot, Layout::whole(0));
        Some(slot)
    }

    #[inline]
    fn put(&mut self, slot: FrameHandle) {
        self.release(slot);
    }
}

impl FrameStore for ArenaStore {
    #[inline]
    fn prefix(&self, frame: FrameHandle) -> &[u8] {
        let layout = self.arena.layout(frame);
        self.arena
            .bytes(frame.0, layout.start as usize, layout.len as usize)
    }

    #[inline]
    fn prefix_mut(&mut self, frame: FrameHandle) -> &mut [u8] {
        // SAFETY: the switch's worker, which holds this store, holds the handle, and `&mut self` excludes other references.
        unsafe { self.arena.prefix_mut(frame) }
    }

    #[inline]
    fn prefetch_frame(&self, frame: FrameHandle) {
        self.arena.fetch(frame);
    }

    #[inline]
    fn frame_len(&self, frame: FrameHandle) -> u32 {
        self.arena.frame_len(frame) as u32
    }

    fn allocate(&mut self, len: usize) -> Option<FrameHandle> {
        let frame = self.take(len)?;
        self.set_frame(frame, len);
        self.prefix_mut(frame).fill(0);
        Some(frame)
    }

    /// Where the frame has shared bytes already, the copy stores as much as the original does, if that is more
    /// than `prefix_len`: a frame has two parts, never three.
    fn copy(&mut self, frame: FrameHandle, prefix_len: usize) -> Option<FrameHandle> {
        let mut layout = self.arena.layout(frame);
        let total = layout.len as usize + layout.rest_len as usize;
        let mut own = prefix_len.min(total);
        if layout.rest_slot != NO_SLOT {
            own = own.max(layout.len as usize);
        }
        let copy = self.take(own)?;
        self.set_frame(copy, own);
        if own < total && layout.rest_slot == NO_SLOT {
            self.cut(frame, layout, own as u16);
            layout = self.arena.layout(frame);
        }
        // SAFETY: both handles are held here. The copy's slot is new, so it overlaps neither part of the frame.
        let (to, (first, second)) = unsafe { (self.arena.prefix_mut(copy), self.arena.segments(frame)) };
        let split = own.min(first.len());
        to[..split].copy_from_slice(&first[..split]);
        to[split..].copy_from_slice(&second[..own - split]);
        if own < total {
            let beyond = own as u16 - layout.len;
            let shared = Layout {
                rest_slot: layout.rest_slot,
                rest_start: layout.rest_start + beyond,
                rest_len: layout.rest_len - beyond,
                ..Layout::whole(own as u16)
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
            "{len} octets do not fit in front of the frame"
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
            "{len} octets are more than the frame has"
        );
        layout.start += own as u16;
        layout.len -= own as u16;
        layout.rest_start += beyond as u16;
        layout.rest_len -= beyond as u16;
        self.arena.set_layout(frame, layout);
    }

    /// A frame whose own bytes are shared keeps them, out of its own reach, until the last copy is gone.
    fn truncate(&mut self, frame: FrameHandle, len: usize) {
        let mut layout = self.arena.layout(frame);
        let own = len.min(layout.len as usize);
        layout.rest_len = layout.rest_len.min((len - own) as u16);
        layout.len = own as u16;
        let rest = layout.rest_slot;
        let gone = rest != NO_SLOT && rest != frame.0 && layout.rest_len == 0;
        if gone {
            layout.rest_slot = NO_SLOT;
        }
        self.arena.set_layout(frame, layout);
        if gone {
            self.unshare(rest);
        }
    }

    #[inline]
    fn release(&mut self, frame: FrameHandle) {
        let rest_slot = self.arena.layout(frame).rest_slot;
        if rest_slot == frame.0 && self.shares[rest_slot as usize] != 0 {
            self.shares[rest_slot as usize] |= RELEASED;
            self.arena.states.linger(frame);
            return;
        }
        self.arena.states.free(frame);
        self.push_free(frame);
        if rest_slot != NO_SLOT && rest_slot != frame.0 {
            self.unshare(rest_slot);
        }
    }
}
