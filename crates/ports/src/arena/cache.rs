//! How backends get empty slots, and an I/O worker's stock of them.

use std::sync::Arc;

use xoff_dataplane::FrameHandle;

use super::{Arena, LARGE_FRAME_BYTES, Layout, NO_SLOT, SMALL_FRAME_BYTES, SlotClass};

/// Keeps [`SlotSource`] to this module.
pub trait Sealed {}
impl Sealed for SlotCache {}
impl Sealed for super::ArenaStore {}

/// Gives out empty slots and takes them back. The switch's worker has an [`ArenaStore`](super::ArenaStore), an
/// I/O worker a [`SlotCache`].
///
/// Sealed: backends write into what `take` returns, so it has to be true that nobody else holds it.
pub trait SlotSource: Sealed {
    /// The arena the slots are of.
    fn arena(&self) -> &Arena;

    /// A slot of exactly this class, with an empty frame. `None`: none is left.
    fn take_class(&mut self, class: SlotClass) -> Option<FrameHandle>;

    /// A slot that has room for `len` octets, with an empty frame. `None`: none is left, or no slot is that large.
    fn take(&mut self, len: usize) -> Option<FrameHandle> {
        match SlotClass::for_frame(len)? {
            SlotClass::Small => self
                .take_class(SlotClass::Small)
                .or_else(|| self.take_class(SlotClass::Large)),
            SlotClass::Large => self.take_class(SlotClass::Large),
        }
    }

    /// Takes a slot back whose frame shares nothing: one from [`take`](SlotSource::take), empty or filled.
    ///
    /// # Panics
    /// In debug builds, if the slot is free already or may be shared.
    fn put(&mut self, slot: FrameHandle);

    /// All octets of a taken slot behind its headroom. What is written here becomes a frame by
    /// [`set_frame`](SlotSource::set_frame).
    fn room(&mut self, slot: FrameHandle) -> &mut [u8] {
        // SAFETY: whoever took the slot holds its handle, `take` gives slots out unshared, and `&mut self` keeps this source
        // from giving a second reference.
        unsafe { self.arena().room(slot) }
    }

    /// Makes the first `len` octets of the room the slot's frame.
    ///
    /// # Panics
    /// If the room is shorter.
    fn set_frame(&mut self, slot: FrameHandle, len: usize) {
        let room = match self.arena().class(slot) {
            SlotClass::Small => SMALL_FRAME_BYTES,
            SlotClass::Large => LARGE_FRAME_BYTES,
        };
        assert!(
            len <= room,
            "a frame of {len} octets in a slot with room for {room}"
        );
        self.arena().set_layout(slot, Layout::whole(len as u16));
    }

    /// Stores a frame in a slot of its own; `None` as for [`take`](SlotSource::take).
    fn store(&mut self, frame: &[u8]) -> Option<FrameHandle> {
        let slot = self.take(frame.len())?;
        self.room(slot)[..frame.len()].copy_from_slice(frame);
        self.set_frame(slot, frame.len());
        Some(slot)
    }
}

/// An I/O worker's stock of empty slots. The driver refills it from the switch's worker, over a ring, with
/// [`put`](SlotSource::put), and drains it with
/// [`take_class`](SlotSource::take_class).
#[derive(Debug)]
pub struct SlotCache {
    arena: Arc<Arena>,
    small: Vec<FrameHandle>,
    large: Vec<FrameHandle>,
}

impl SlotCache {
    /// An empty stock that will hold `small` and `large` slots without allocating.
    pub fn new(arena: Arc<Arena>, small: usize, large: usize) -> SlotCache {
        SlotCache {
            arena,
            small: Vec::with_capacity(small),
            large: Vec::with_capacity(large),
        }
    }

    /// How many slots of a class are in stock.
    pub fn stock(&self, class: SlotClass) -> usize {
        match class {
            SlotClass::Small => self.small.len(),
            SlotClass::Large => self.large.len(),
        }
    }
}

impl SlotSource for SlotCache {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn take_class(&mut self, class: SlotClass) -> Option<FrameHandle> {
        let slot = match class {
            SlotClass::Small => self.small.pop(),
            SlotClass::Large => self.large.pop(),
        }?;
        self.arena.states.take(slot);
        self.arena.set_layout(slot, Layout::whole(0));
        Some(slot)
    }

    fn put(&mut self, slot: FrameHandle) {
        debug_assert_eq!(
            self.arena.layout(slot).rest_slot,
            NO_SLOT,
            "only the store frees shared slots"
        );
        self.arena.states.free(slot);
        match self.arena.class(slot) {
            SlotClass::Small => self.small.push(slot),
            SlotClass::Large => self.large.push(slot),
        }
    }
}
