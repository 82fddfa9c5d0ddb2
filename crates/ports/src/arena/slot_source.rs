//! The trait for sources of empty slots.

use xoff_dataplane::FrameHandle;

use super::{Arena, FrameLayout, LARGE_FRAME_BYTES, SMALL_FRAME_BYTES, SlotClass};

/// Limits implementations of [`SlotSource`] to this crate.
pub trait Sealed {}

/// A source of empty slots for backends. A switch worker uses an [`ArenaStore`](super::ArenaStore) as source,
/// and an I/O worker uses a [`SlotCache`](super::SlotCache).
///
/// The trait is sealed: only this crate can implement it. Backends write to the returned slots without
/// further checks, so a wrong implementation would be unsafe. Every implementation returns only slots that no
/// other part of the program holds.
pub trait SlotSource: Sealed {
    /// Returns the arena that contains the slots.
    fn arena(&self) -> &Arena;

    /// Takes an empty slot of exactly this class from the source. Returns `None` if no slot of the class
    /// is left.
    fn take_slot_of(&mut self, class: SlotClass) -> Option<FrameHandle>;

    /// Takes an empty slot for a frame of `frame_len` bytes. A short frame gets a large slot if no small slot
    /// is left. Returns `None` if no slot is left, or if `frame_len` is greater than [`LARGE_FRAME_BYTES`].
    fn take_slot(&mut self, frame_len: usize) -> Option<FrameHandle> {
        match SlotClass::for_frame(frame_len)? {
            SlotClass::Small => self
                .take_slot_of(SlotClass::Small)
                .or_else(|| self.take_slot_of(SlotClass::Large)),
            SlotClass::Large => self.take_slot_of(SlotClass::Large),
        }
    }

    /// Returns a slot to the source. The slot must be empty, or must have a frame whose bytes are not shared.
    ///
    /// # Panics
    /// Debug builds panic if the slot is already free or may share bytes.
    fn return_slot(&mut self, slot: FrameHandle);

    /// Returns the writable memory for a frame in a taken slot. The memory has [`SMALL_FRAME_BYTES`] or
    /// [`LARGE_FRAME_BYTES`], depending on the class of the slot. The caller writes a frame to the start of
    /// this memory, and then sets the length of the frame with [`set_frame`](SlotSource::set_frame).
    fn frame_space(&mut self, slot: FrameHandle) -> &mut [u8] {
        // SAFETY: the caller has taken the slot and holds its handle. The source gives out unshared slots
        // only, and `&mut self` prevents a second reference from this source.
        unsafe { self.arena().frame_space(slot) }
    }

    /// Makes the first `frame_len` bytes of [`frame_space`](SlotSource::frame_space) the frame of the slot.
    ///
    /// # Panics
    /// Panics if `frame_len` is greater than the length of this memory.
    fn set_frame(&mut self, slot: FrameHandle, frame_len: usize) {
        let space = match self.arena().slot_class(slot) {
            SlotClass::Small => SMALL_FRAME_BYTES,
            SlotClass::Large => LARGE_FRAME_BYTES,
        };
        assert!(
            frame_len <= space,
            "a frame of {frame_len} bytes in a slot with space for {space}"
        );
        self.arena()
            .set_layout(slot, FrameLayout::unshared(frame_len as u16));
    }

    /// Copies a frame to a new slot. Returns `None` if no slot is left, or if the frame is longer
    /// than [`LARGE_FRAME_BYTES`].
    fn store_frame(&mut self, frame: &[u8]) -> Option<FrameHandle> {
        let slot = self.take_slot(frame.len())?;
        self.frame_space(slot)[..frame.len()].copy_from_slice(frame);
        self.set_frame(slot, frame.len());
        Some(slot)
    }
}
