//! Where frames live while they are in this process: one page-aligned mapping, cut into slots.
//!
//! Small slots (2 KiB) come first, large ones (16 KiB) behind them, so the number of a slot says its class.
//! Every frame is written [`HEADROOM_BYTES`] into its slot and may grow to the front.
//!
//! **The rule of ownership.** A [`FrameHandle`] is held in one place at a time, and whoever holds it may read and
//! edit its frame. It moves between threads only over rings, which order memory. `FrameHandle` is `Copy` because
//! the core keeps it in its queues, so this rule is the program's, not the compiler's: debug builds keep a
//! state per slot (`state.rs`) and stop at a double free and at a use after free.
//!
//! Frames share bytes only after [`ArenaStore::copy`](store::ArenaStore), which cuts the original into a
//! prefix of its own and a rest. Nobody can reach the rest for writing any more, the original's holder
//! included: sharing is of read-only bytes by construction, and share counts are kept by the store alone.

mod cache;
mod mapping;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use xoff_dataplane::FrameHandle;
use xoff_dataplane::frame::HEADROOM_BYTES;

use super::ahead;
pub use cache::{SlotCache, SlotSource};
use mapping::Mapping;
use state::States;
pub use store::ArenaStore;

/// Octets of a small slot, headroom included.
pub const SMALL_SLOT_BYTES: usize = 2 * 1024;
/// Octets of a large slot, headroom included.
pub const LARGE_SLOT_BYTES: usize = 16 * 1024;
/// Longest frame that fits in a small slot behind its headroom.
pub const SMALL_FRAME_BYTES: usize = SMALL_SLOT_BYTES - HEADROOM_BYTES;
/// Longest frame that fits in a large slot behind its headroom: the longest this program handles.
pub const LARGE_FRAME_BYTES: usize = LARGE_SLOT_BYTES - HEADROOM_BYTES;

/// Octets of a frame that a switch reads: link, network and transport header.
const HEADERS_BYTES: usize = 64;

/// "This frame has no shared rest."
const NO_SLOT: u32 = u32::MAX;

/// Where a frame lies: `len` octets at `start` of its own slot, then `rest_len` octets at `rest_start` of
/// slot `rest_slot`, which may be its own.
#[derive(Clone, Copy)]
struct Layout {
    start: u16,
    len: u16,
    rest_start: u16,
    rest_len: u16,
    rest_slot: u32,
}

impl Layout {
    /// A frame of `len` octets behind the headroom, nothing shared.
    const fn whole(len: u16) -> Layout {
        Layout {
            start: HEADROOM_BYTES as u16,
            len,
            rest_start: 0,
            rest_len: 0,
            rest_slot: NO_SLOT,
        }
    }
}

/// The class of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotClass {
    /// 2 KiB.
    Small,
    /// 16 KiB.
    Large,
}

impl SlotClass {
    /// The class for a frame of `len` octets, `None` if it is longer than [`LARGE_FRAME_BYTES`].
    pub const fn for_frame(len: usize) -> Option<SlotClass> {
        if len <= SMALL_FRAME_BYTES {
            Some(SlotClass::Small)
        } else if len <= LARGE_FRAME_BYTES {
            Some(SlotClass::Large)
        } else {
            None
        }
    }

    const fn slot_bytes(self) -> usize {
        match self {
            SlotClass::Small => SMALL_SLOT_BYTES,
            SlotClass::Large => LARGE_SLOT_BYTES,
        }
    }
}

/// One mapping with all frames of a process, and where each of them lies in its slot. Shared by threads;
/// who may touch which slot follows from who holds its handle (see the [module](self)).
pub struct Arena {
    mapping: Mapping,
    small_slots: u32,
    large_slots: u32,
    layouts: Box<[UnsafeCell<Layout>]>,
    states: States,
    handed_out: AtomicBool,
}

// SAFETY: the mapping is plain memory that lives as long as `Arena`, reached through `layouts`. Slots (bytes and
// layout alike) are touched only by the holder of their handle, and handles change threads only over rings,
// whose release and acquire order the accesses; bytes shared by frames are read only.
unsafe impl Send for Arena {}
// SAFETY: as for `Send`.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps an arena of `small_slots` slots of 2 KiB and `large_slots` of 16 KiB (at most 2^31 slots together).
    ///
    /// Memory is touched, and so taken from the machine, when a slot is first used; free slots are taken last in,
    /// first out, so an idle arena stays small.
    ///
    /// # Errors
    /// Those of `memfd_create`, `ftruncate` and `mmap`: out of memory or address space, too many open files.
    pub fn new(small_slots: usize, large_slots: usize) -> io::Result<Arc<Arena>> {
        let too_many = || io::Error::new(io::ErrorKind::InvalidInput, "an arena holds at most 2^31 slots");
        let slots = small_slots
            .checked_add(large_slots)
            .filter(|n| *n <= 1 << 31)
            .ok_or_else(too_many)?;
        // Large slots begin on a page: an odd number of small ones would shift them by half a page.
        let small_bytes = (small_slots * SMALL_SLOT_BYTES).next_multiple_of(mapping::PAGE_BYTES);
        let mapping = Mapping::new(small_bytes + large_slots * LARGE_SLOT_BYTES)?;
        Ok(Arc::new(Arena {
            mapping,
            small_slots: small_slots as u32,
            large_slots: large_slots as u32,
            layouts: (0..slots).map(|_| UnsafeCell::new(Layout::whole(0))).collect(),
            states: States::new(slots),
            handed_out: AtomicBool::new(false),
        }))
    }

    /// How many slots of each class there are: small, large.
    pub fn slots(&self) -> (usize, usize) {
        (self.small_slots as usize, self.large_slots as usize)
    }

    /// The file behind the mapping, for handing it to another process.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.as_fd()
    }

    /// The class of a slot.
    #[inline]
    pub fn class(&self, frame: FrameHandle) -> SlotClass {
        if frame.0 < self.small_slots {
            SlotClass::Small
        } else {
            SlotClass::Large
        }
    }

    /// The octets of a frame: what its own slot stores, then what it shares with others (often nothing).
    /// Only for the holder of the handle.
    ///
    /// # Panics
    /// If the handle is not of this arena; in debug builds also if its slot is free.
    #[inline]
    pub fn segments(&self, frame: FrameHandle) -> (&[u8], &[u8]) {
        let layout = self.layout(frame);
        let own = (frame.0, layout.start as usize, layout.len as usize);
        if layout.rest_slot == frame.0 && layout.rest_start == layout.start + layout.len {
            let (slot, start, len) = own;
            return (self.bytes(slot, start, len + layout.rest_len as usize), &[]);
        }
        let rest = match layout.rest_slot {
            NO_SLOT => &[][..],
            slot => self.bytes(slot, layout.rest_start as usize, layout.rest_len as usize),
        };
        (self.bytes(own.0, own.1, own.2), rest)
    }

    /// Length of a frame, its shared rest included. Only for the holder of the handle.
    pub fn frame_len(&self, frame: FrameHandle) -> usize {
        let layout = self.layout(frame);
        layout.len as usize + layout.rest_len as usize
    }

    /// Fetches what a switch reads first of a frame: where it lies, and its headers. Changes nothing but time.
    #[inline]
    pub fn fetch(&self, frame: FrameHandle) {
        let layout = &raw const self.layouts[frame.0 as usize];
        ahead::fetch(layout.cast(), size_of::<Layout>());
        let headers = self.slot_bytes(frame.0, HEADROOM_BYTES, HEADERS_BYTES);
        ahead::fetch(headers.cast(), HEADERS_BYTES);
    }

    /// Copies a frame to the front of `to` and returns its length; `None` if it does not fit.
    pub fn gather<'a>(&self, frame: FrameHandle, to: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (own, rest) = self.segments(frame);
        let to = to.get_mut(..own.len() + rest.len())?;
        to[..own.len()].copy_from_slice(own);
        to[own.len()..].copy_from_slice(rest);
        Some(to)
    }

    /// The memory of the small slots: the slot of number n is the n-th piece of [`SMALL_SLOT_BYTES`].
    #[inline]
    pub(super) fn small_region(&self) -> *mut [u8] {
        self.mapping
            .slice(0, self.small_slots as usize * SMALL_SLOT_BYTES)
    }

    /// Where in [`small_region`](Arena::small_region) octets of a frame lie; `None` if they lie in a large slot.
    #[inline]
    pub(super) fn place_in_small_region(&self, bytes: &[u8]) -> Option<u64> {
        let region = self.small_region();
        let offset = bytes.as_ptr().addr().wrapping_sub(region.addr());
        (offset < region.len()).then_some(offset as u64)
    }

    /// Copies a frame into a slot of `to` that holds none and is large enough. `to` may be this arena.
    ///
    /// # Safety
    /// The caller holds both handles, and nothing in the slot is shared.
    pub(super) unsafe fn copy_into_empty(&self, frame: FrameHandle, to: &Arena, slot: FrameHandle) {
        // SAFETY: as the caller promises.
        let room = unsafe { to.room(slot) };
        let len = self.gather(frame, room).map(|copied| copied.len());
        to.set_layout(slot, Layout::whole(len.expect("the slot is large enough") as u16));
    }

    #[inline]
    fn layout(&self, frame: FrameHandle) -> Layout {
        self.states.expect_used(frame);
        // SAFETY: the caller holds the handle, so nobody writes this layout now.
        unsafe { *self.layouts[frame.0 as usize].get() }
    }

    #[inline]
    fn set_layout(&self, frame: FrameHandle, layout: Layout) {
        self.states.expect_used(frame);
        debug_assert!(layout.start as usize + layout.len as usize <= self.class(frame).slot_bytes());
        // SAFETY: the caller holds the handle, so nobody reads or writes this layout now.
        unsafe { *self.layouts[frame.0 as usize].get() = layout }
    }

    /// The stored prefix of a frame, to be edited.
    ///
    /// # Safety
    /// The caller holds the handle, and no reference to the prefix exists as long as the result does.
    #[expect(
        clippy::mut_from_ref,
        reason = "the handle, not the arena, is what is borrowed: the contract above"
    )]
    #[inline]
    unsafe fn prefix_mut(&self, frame: FrameHandle) -> &mut [u8] {
        let layout = self.layout(frame);
        let bytes = self.slot_bytes(frame.0, layout.start as usize, layout.len as usize);
        // SAFETY: `bytes` lies in the mapping. It is this frame's own prefix: the holder is the caller, whom the contract
        // forbids a second reference; rests of other frames lie behind the prefixes of their slots.
        unsafe { &mut *bytes }
    }

    /// Everything behind the headroom of a slot that holds no frame yet.
    ///
    /// # Safety
    /// As for [`Arena::prefix_mut`], and nothing in the slot is shared.
    #[expect(
        clippy::mut_from_ref,
        reason = "the handle, not the arena, is what is borrowed: the contract above"
    )]
    #[inline]
    pub(super) unsafe fn room(&self, slot: FrameHandle) -> &mut [u8] {
        debug_assert_eq!(
            self.layout(slot).rest_slot,
            NO_SLOT,
            "the slot's bytes may be shared"
        );
        let len = self.class(slot).slot_bytes() - HEADROOM_BYTES;
        // SAFETY: in the mapping, and nobody else reads or writes this slot: the caller holds it unshared.
        unsafe { &mut *self.slot_bytes(slot.0, HEADROOM_BYTES, len) }
    }

    #[inline]
    fn bytes(&self, slot: u32, start: usize, len: usize) -> &[u8] {
        // SAFETY: in the mapping. Written by nobody now: either it is a prefix whose handle the caller holds, or a rest, which
        // is read only until its last share is released, and the caller's frame is one of the shares.
        unsafe { &*self.slot_bytes(slot, start, len) }
    }

    /// `len` octets at `start` of a slot.
    #[inline]
    fn slot_bytes(&self, slot: u32, start: usize, len: usize) -> *mut [u8] {
        let (at, room) = if slot < self.small_slots {
            (slot as usize * SMALL_SLOT_BYTES, SMALL_SLOT_BYTES)
        } else {
            let large = (slot - self.small_slots) as usize;
            assert!(
                slot - self.small_slots < self.large_slots,
                "a handle of another arena: slot {slot}"
            );
            let small_bytes =
                (self.small_slots as usize * SMALL_SLOT_BYTES).next_multiple_of(mapping::PAGE_BYTES);
            (small_bytes + large * LARGE_SLOT_BYTES, LARGE_SLOT_BYTES)
        };
        assert!(start + len <= room, "octets {start}+{len} of a slot of {room}");
        self.mapping.slice(at + start, len)
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena")
            .field("small_slots", &self.small_slots)
            .field("large_slots", &self.large_slots)
            .finish_non_exhaustive()
    }
}
