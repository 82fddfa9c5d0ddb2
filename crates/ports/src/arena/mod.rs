//! The arena: one page-aligned memory mapping with slots for the frames of a switch.
//!
//! Small slots (2 KiB) come first in the memory and large slots (16 KiB) follow. The number of a slot
//! therefore determines its class. Each frame starts [`HEADROOM_BYTES`] after the start of its slot, so that
//! headers can be added in front of the frame.
//!
//! # Ownership
//!
//! Only one part of the program holds a [`FrameHandle`] at a time, and only this holder reads and writes the
//! frame. A handle moves from one thread to another only over a ring, and rings order the memory accesses.
//! The compiler cannot check that a handle has only one holder, because `FrameHandle` must be `Copy` for the
//! queues of the data plane. Debug builds keep a state for each slot (`state.rs`). They panic on a double
//! free and on a use after free.
//!
//! # Shared bytes
//!
//! Frames share bytes only after [`ArenaStore::copy`](store::ArenaStore). This function splits the original
//! frame into two parts: a prefix that belongs to the frame alone, and a shared rest. The shared rest is
//! read-only. The store counts the frames that share the rest.

mod cache;
mod mapping;
mod slot_source;
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

use super::prefetch::prefetch;
pub use cache::SlotCache;
use mapping::Mapping;
pub use slot_source::SlotSource;
use state::SlotStates;
pub use store::ArenaStore;

/// Size of a small slot in bytes, including the [`HEADROOM_BYTES`] of free space in front of the frame.
pub const SMALL_SLOT_BYTES: usize = 2 * 1024;
/// Size of a large slot in bytes, including the [`HEADROOM_BYTES`] of free space in front of the frame.
pub const LARGE_SLOT_BYTES: usize = 16 * 1024;
/// Length of the longest frame in a small slot, in bytes: the slot without the free space in front of
/// the frame.
pub const SMALL_FRAME_BYTES: usize = SMALL_SLOT_BYTES - HEADROOM_BYTES;
/// Length of the longest frame in a large slot, in bytes. No port sends or receives longer frames.
pub const LARGE_FRAME_BYTES: usize = LARGE_SLOT_BYTES - HEADROOM_BYTES;

/// Number of bytes at the start of a frame that a switch reads. These bytes contain the link, network and
/// transport headers.
const HEADERS_BYTES: usize = 64;

/// Value of `rest_slot` for a frame without shared bytes.
const NO_SLOT: u32 = u32::MAX;

/// Position of a frame in the arena. The first `len` bytes of the frame are at offset `start` of its own
/// slot. The remaining `rest_len` bytes are shared. The shared bytes are at offset `rest_start` of slot
/// `rest_slot`. This slot may be the frame's own slot.
#[derive(Clone, Copy)]
struct FrameLayout {
    start: u16,
    len: u16,
    rest_start: u16,
    rest_len: u16,
    rest_slot: u32,
}

impl FrameLayout {
    /// Returns the layout of a frame with `len` bytes and without shared bytes. The frame starts
    /// [`HEADROOM_BYTES`] after the start of its slot.
    const fn unshared(len: u16) -> FrameLayout {
        FrameLayout {
            start: HEADROOM_BYTES as u16,
            len,
            rest_start: 0,
            rest_len: 0,
            rest_slot: NO_SLOT,
        }
    }
}

/// The size class of a slot: small or large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotClass {
    /// A slot of 2 KiB, for frames of up to [`SMALL_FRAME_BYTES`].
    Small,
    /// A slot of 16 KiB, for frames of up to [`LARGE_FRAME_BYTES`].
    Large,
}

impl SlotClass {
    /// Returns the smallest slot class for a frame of `frame_len` bytes. Returns `None` if `frame_len` is
    /// greater than [`LARGE_FRAME_BYTES`].
    pub const fn for_frame(frame_len: usize) -> Option<SlotClass> {
        if frame_len <= SMALL_FRAME_BYTES {
            Some(SlotClass::Small)
        } else if frame_len <= LARGE_FRAME_BYTES {
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

/// A memory mapping with frame slots, and the layout of each frame. Threads share an arena. Only the holder
/// of a handle may access the slot (see [Ownership](self#ownership)).
pub struct Arena {
    mapping: Mapping,
    small_slots: u32,
    large_slots: u32,
    layouts: Box<[UnsafeCell<FrameLayout>]>,
    states: SlotStates,
    is_owned_by_store: AtomicBool,
}

// SAFETY: the mapping is plain memory that lives as long as the `Arena`. Only the holder of a handle accesses
// the bytes and the layout of a slot. Handles move between threads only over rings, whose release and acquire
// operations order the accesses. Bytes that frames share are read-only.
unsafe impl Send for Arena {}
// SAFETY: the same reasons as for `Send`.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps an arena of `small_slots` slots of 2 KiB and `large_slots` slots of 16 KiB. The sum of both
    /// numbers is at most 2^31.
    ///
    /// The kernel allocates the memory of a slot when the slot is used for the first time. A new frame gets
    /// the slot that was freed last, so an idle arena uses little memory.
    ///
    /// # Errors
    /// Returns an error if the arena has too many slots, or the error of `memfd_create`, `ftruncate` or
    /// `mmap`. Usual causes of these errors are too little memory, too little address space, or too many
    /// open files.
    pub fn new(small_slots: usize, large_slots: usize) -> io::Result<Arc<Arena>> {
        let too_many = || io::Error::new(io::ErrorKind::InvalidInput, "an arena holds at most 2^31 slots");
        let slots = small_slots
            .checked_add(large_slots)
            .filter(|n| *n <= 1 << 31)
            .ok_or_else(too_many)?;
        // Large slots start at a page. An odd number of small slots would shift them by half a page.
        let small_bytes = (small_slots * SMALL_SLOT_BYTES).next_multiple_of(mapping::PAGE_BYTES);
        let mapping = Mapping::new(small_bytes + large_slots * LARGE_SLOT_BYTES)?;
        Ok(Arc::new(Arena {
            mapping,
            small_slots: small_slots as u32,
            large_slots: large_slots as u32,
            layouts: (0..slots)
                .map(|_| UnsafeCell::new(FrameLayout::unshared(0)))
                .collect(),
            states: SlotStates::new(slots),
            is_owned_by_store: AtomicBool::new(false),
        }))
    }

    /// Returns two numbers: the number of small slots and the number of large slots.
    pub fn slot_counts(&self) -> (usize, usize) {
        (self.small_slots as usize, self.large_slots as usize)
    }

    /// Returns the file descriptor of the memory. This process can pass the descriptor to a second process,
    /// which then maps the same memory. Returns `None` only under Miri.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.as_fd()
    }

    /// Returns the class of a slot. The function does not check that the slot exists.
    #[inline]
    pub fn slot_class(&self, frame: FrameHandle) -> SlotClass {
        if frame.0 < self.small_slots {
            SlotClass::Small
        } else {
            SlotClass::Large
        }
    }

    /// Returns the bytes of a frame in two parts: first the bytes in the frame's own slot, then the bytes in
    /// a slot that several frames share. The second part is often empty. Only the holder of the handle may
    /// call this function (see [Ownership](self#ownership)).
    ///
    /// # Panics
    /// Panics if the arena has no slot with this number. Debug builds also panic if the slot is free. A
    /// handle of another arena is not always detected.
    #[inline]
    pub fn segments(&self, frame: FrameHandle) -> (&[u8], &[u8]) {
        let layout = self.layout(frame);
        let own = (frame.0, layout.start as usize, layout.len as usize);
        if layout.rest_slot == frame.0 && layout.rest_start == layout.start + layout.len {
            let (slot, start, len) = own;
            return (self.slot_bytes(slot, start, len + layout.rest_len as usize), &[]);
        }
        let rest = match layout.rest_slot {
            NO_SLOT => &[][..],
            slot => self.slot_bytes(slot, layout.rest_start as usize, layout.rest_len as usize),
        };
        (self.slot_bytes(own.0, own.1, own.2), rest)
    }

    /// Returns the length of a frame in bytes without FCS, including shared bytes. Only the holder of the
    /// handle may call this function.
    ///
    /// # Panics
    /// Panics if the arena has no slot with this number. Debug builds also panic if the slot is free.
    pub fn frame_len(&self, frame: FrameHandle) -> usize {
        let layout = self.layout(frame);
        layout.len as usize + layout.rest_len as usize
    }

    /// Loads the layout and the headers of a frame into the CPU cache, without waiting. The call has no
    /// effect on the frame.
    ///
    /// # Panics
    /// Panics if the arena has no slot with this number.
    #[inline]
    pub fn prefetch_headers(&self, frame: FrameHandle) {
        let layout = &raw const self.layouts[frame.0 as usize];
        prefetch(layout.cast(), size_of::<FrameLayout>());
        let headers = self.slot_memory(frame.0, HEADROOM_BYTES, HEADERS_BYTES);
        prefetch(headers.cast(), HEADERS_BYTES);
    }

    /// Copies a frame to the front of `buffer` and returns the copied bytes. Returns `None` if the buffer is
    /// too short.
    ///
    /// # Panics
    /// Panics if the arena has no slot with this number. Debug builds also panic if the slot is free.
    pub fn gather_into<'a>(&self, frame: FrameHandle, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (own, rest) = self.segments(frame);
        let output = buffer.get_mut(..own.len() + rest.len())?;
        output[..own.len()].copy_from_slice(own);
        output[own.len()..].copy_from_slice(rest);
        Some(output)
    }

    /// Returns the memory of all small slots. Slot n starts at byte n * [`SMALL_SLOT_BYTES`].
    #[inline]
    pub(super) fn small_region(&self) -> *mut [u8] {
        self.mapping
            .slice(0, self.small_slots as usize * SMALL_SLOT_BYTES)
    }

    /// Returns the offset of `bytes` in [`small_region`](Arena::small_region). Returns `None` if the bytes
    /// are in a large slot.
    #[inline]
    pub(super) fn offset_in_small_region(&self, bytes: &[u8]) -> Option<u64> {
        let region = self.small_region();
        let offset = bytes.as_ptr().addr().wrapping_sub(region.addr());
        (offset < region.len()).then_some(offset as u64)
    }

    /// Copies a frame to the empty slot `slot` of the arena `target`, which may be this arena. Panics if the
    /// slot is too small.
    ///
    /// # Safety
    /// The caller holds both handles, and the slot shares no bytes.
    pub(super) unsafe fn copy_into_empty(&self, frame: FrameHandle, target: &Arena, slot: FrameHandle) {
        // SAFETY: the caller guarantees that it holds `slot` and that the slot shares no bytes.
        let space = unsafe { target.frame_space(slot) };
        let len = self.gather_into(frame, space).map(|copied| copied.len());
        let len = len.expect("the slot is large enough");
        target.set_layout(slot, FrameLayout::unshared(len as u16));
    }

    #[inline]
    fn layout(&self, frame: FrameHandle) -> FrameLayout {
        self.states.assert_used(frame);
        // SAFETY: the caller holds the handle, so no other thread writes this layout.
        unsafe { *self.layouts[frame.0 as usize].get() }
    }

    #[inline]
    fn set_layout(&self, frame: FrameHandle, layout: FrameLayout) {
        self.states.assert_used(frame);
        debug_assert!(layout.start as usize + layout.len as usize <= self.slot_class(frame).slot_bytes());
        // SAFETY: the caller holds the handle, so no other thread reads or writes this layout.
        unsafe { *self.layouts[frame.0 as usize].get() = layout }
    }

    /// Returns the bytes of a frame in its own slot, for writing.
    ///
    /// # Safety
    /// The caller holds the handle. While the result is in use, no other reference to the prefix exists.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller borrows the frame by its handle, not the arena; see the safety section"
    )]
    #[inline]
    unsafe fn prefix_mut(&self, frame: FrameHandle) -> &mut [u8] {
        let layout = self.layout(frame);
        let bytes = self.slot_memory(frame.0, layout.start as usize, layout.len as usize);
        // SAFETY: `bytes` is inside the mapping. It is the prefix of this frame, whose handle the caller
        // holds without a second reference. The shared bytes of other frames are behind the prefixes of
        // their slots.
        unsafe { &mut *bytes }
    }

    /// Returns the memory for a frame in an empty slot. The memory starts [`HEADROOM_BYTES`] after the start
    /// of the slot.
    ///
    /// # Safety
    /// Same as [`Arena::prefix_mut`]. In addition, the slot shares no bytes.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller borrows the frame by its handle, not the arena; see the safety section"
    )]
    #[inline]
    pub(super) unsafe fn frame_space(&self, slot: FrameHandle) -> &mut [u8] {
        debug_assert_eq!(
            self.layout(slot).rest_slot,
            NO_SLOT,
            "the slot's bytes may be shared"
        );
        let len = self.slot_class(slot).slot_bytes() - HEADROOM_BYTES;
        // SAFETY: the memory is inside the mapping. The caller holds the slot, which shares no bytes, so no
        // other part of the program accesses it.
        unsafe { &mut *self.slot_memory(slot.0, HEADROOM_BYTES, len) }
    }

    #[inline]
    fn slot_bytes(&self, slot: u32, start: usize, len: usize) -> &[u8] {
        // SAFETY: the memory is inside the mapping, and no thread writes it. The bytes are a prefix whose
        // handle the caller holds, or a shared rest. A rest is read-only until its last share is released,
        // and the frame of the caller is one of the shares.
        unsafe { &*self.slot_memory(slot, start, len) }
    }

    /// Returns a pointer to the `len` bytes at `start` of a slot.
    #[inline]
    fn slot_memory(&self, slot: u32, start: usize, len: usize) -> *mut [u8] {
        let (offset, slot_len) = if slot < self.small_slots {
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
        assert!(
            start + len <= slot_len,
            "bytes {start}+{len} of a slot of {slot_len}"
        );
        self.mapping.slice(offset + start, len)
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
