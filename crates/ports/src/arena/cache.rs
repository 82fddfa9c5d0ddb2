//! The store of empty slots in an I/O worker.

use std::sync::Arc;

use xoff_dataplane::FrameHandle;

use super::slot_source::{Sealed, SlotSource};
use super::{Arena, FrameLayout, NO_SLOT, SlotClass};

/// The empty slots of an I/O worker, which is a thread that owns some ports of a switch. The slots
/// belong to the switch worker. The switch worker sends empty slots to the I/O worker over a ring.
/// The I/O worker adds a slot with [`return_slot`](SlotSource::return_slot) and removes a slot
/// with [`take_slot_of`](SlotSource::take_slot_of).
#[derive(Debug)]
pub struct SlotCache {
    arena: Arc<Arena>,
    small: Vec<FrameHandle>,
    large: Vec<FrameHandle>,
}

impl SlotCache {
    /// Creates an empty cache for slots of `arena`. The cache has space for `small` small slots and `large`
    /// large slots. More slots need an allocation of memory.
    pub fn new(arena: Arc<Arena>, small: usize, large: usize) -> SlotCache {
        SlotCache {
            arena,
            small: Vec::with_capacity(small),
            large: Vec::with_capacity(large),
        }
    }

    /// Returns the number of slots of a class in the cache.
    pub fn slot_count(&self, class: SlotClass) -> usize {
        match class {
            SlotClass::Small => self.small.len(),
            SlotClass::Large => self.large.len(),
        }
    }
}

impl Sealed for SlotCache {}

impl SlotSource for SlotCache {
    fn arena(&self) -> &Arena {
        &self.arena
    }

    fn take_slot_of(&mut self, class: SlotClass) -> Option<FrameHandle> {
        let slot = match class {
            SlotClass::Small => self.small.pop(),
            SlotClass::Large => self.large.pop(),
        }?;
        self.arena.states.mark_used(slot);
        self.arena.set_layout(slot, FrameLayout::unshared(0));
        Some(slot)
    }

    fn return_slot(&mut self, slot: FrameHandle) {
        debug_assert_eq!(
            self.arena.layout(slot).rest_slot,
            NO_SLOT,
            "only the store frees shared slots"
        );
        self.arena.states.mark_free(slot);
        match self.arena.slot_class(slot) {
            SlotClass::Small => self.small.push(slot),
            SlotClass::Large => self.large.push(slot),
        }
    }
}
