//! The state of each slot, kept in debug builds only, to catch double frees and uses after free.

use xoff_dataplane::FrameHandle;

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU8, Ordering};

/// In a free list or in a stock of empty slots.
#[cfg(debug_assertions)]
const FREE: u8 = 0;
/// Its handle is held by somebody.
#[cfg(debug_assertions)]
const USED: u8 = 1;
/// Its handle was released, but copies still share its bytes.
#[cfg(debug_assertions)]
const LINGERING: u8 = 2;

/// One state per slot in debug builds, nothing in others.
pub(super) struct States {
    #[cfg(debug_assertions)]
    states: Box<[AtomicU8]>,
}

#[cfg(debug_assertions)]
impl States {
    pub(super) fn new(slots: usize) -> States {
        let states = (0..slots).map(|_| AtomicU8::new(FREE)).collect();
        States { states }
    }

    pub(super) fn take(&self, slot: FrameHandle) {
        self.change(slot, FREE, USED);
    }

    pub(super) fn free(&self, slot: FrameHandle) {
        self.change(slot, USED, FREE);
    }

    pub(super) fn linger(&self, slot: FrameHandle) {
        self.change(slot, USED, LINGERING);
    }

    pub(super) fn free_lingering(&self, slot: FrameHandle) {
        self.change(slot, LINGERING, FREE);
    }

    pub(super) fn expect_used(&self, slot: FrameHandle) {
        let state = self.states[slot.0 as usize].load(Ordering::Relaxed);
        assert_eq!(state, USED, "use after free of slot {}", slot.0);
    }

    fn change(&self, slot: FrameHandle, from: u8, to: u8) {
        let was = self.states[slot.0 as usize].swap(to, Ordering::Relaxed);
        assert_eq!(
            was, from,
            "slot {} was in state {was}, not {from}: freed twice, or in two places",
            slot.0
        );
    }
}

#[cfg(not(debug_assertions))]
impl States {
    pub(super) fn new(_: usize) -> States {
        States {}
    }
    pub(super) fn take(&self, _: FrameHandle) {}
    pub(super) fn free(&self, _: FrameHandle) {}
    pub(super) fn linger(&self, _: FrameHandle) {}
    pub(super) fn free_lingering(&self, _: FrameHandle) {}
    pub(super) fn expect_used(&self, _: FrameHandle) {}
}
