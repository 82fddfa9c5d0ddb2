//! The state of each slot in debug builds. The state reveals a double free and a use after free.

use xoff_dataplane::FrameHandle;

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU8, Ordering};

/// The slot is in a free list or in a slot cache.
#[cfg(debug_assertions)]
const FREE: u8 = 0;
/// A part of the program holds the handle.
#[cfg(debug_assertions)]
const USED: u8 = 1;
/// The handle was released, but copies still share the bytes of the slot.
#[cfg(debug_assertions)]
const LINGERING: u8 = 2;

/// The states of all slots. Empty in release builds.
pub(super) struct SlotStates {
    #[cfg(debug_assertions)]
    states: Box<[AtomicU8]>,
}

#[cfg(debug_assertions)]
impl SlotStates {
    pub(super) fn new(slots: usize) -> SlotStates {
        let states = (0..slots).map(|_| AtomicU8::new(FREE)).collect();
        SlotStates { states }
    }

    pub(super) fn mark_used(&self, slot: FrameHandle) {
        self.change_state(slot, FREE, USED);
    }

    pub(super) fn mark_free(&self, slot: FrameHandle) {
        self.change_state(slot, USED, FREE);
    }

    pub(super) fn mark_released_but_shared(&self, slot: FrameHandle) {
        self.change_state(slot, USED, LINGERING);
    }

    pub(super) fn free_released_but_shared(&self, slot: FrameHandle) {
        self.change_state(slot, LINGERING, FREE);
    }

    pub(super) fn assert_used(&self, slot: FrameHandle) {
        let state = self.states[slot.0 as usize].load(Ordering::Relaxed);
        assert_eq!(state, USED, "use after free of slot {}", slot.0);
    }

    fn change_state(&self, slot: FrameHandle, expected: u8, new: u8) {
        let found = self.states[slot.0 as usize].swap(new, Ordering::Relaxed);
        assert_eq!(
            found, expected,
            "slot {} was in state {found}, not {expected}: it was freed twice, or two owners held it",
            slot.0
        );
    }
}

#[cfg(not(debug_assertions))]
impl SlotStates {
    pub(super) fn new(_: usize) -> SlotStates {
        SlotStates {}
    }
    pub(super) fn mark_used(&self, _: FrameHandle) {}
    pub(super) fn mark_free(&self, _: FrameHandle) {}
    pub(super) fn mark_released_but_shared(&self, _: FrameHandle) {}
    pub(super) fn free_released_but_shared(&self, _: FrameHandle) {}
    pub(super) fn assert_used(&self, _: FrameHandle) {}
}
