//! A first-in first-out queue with a fixed capacity. The queue costs little time, so the loads do not distort
//! the measurement.

/// A queue of at most `CAPACITY` items. `CAPACITY` must be a power of two. The user must not add an item to a
/// full ring, because the new item would overwrite the oldest item. Debug builds panic in this case.
#[derive(Debug)]
pub(super) struct SlotRing<T, const CAPACITY: usize> {
    slots: Box<[T; CAPACITY]>,
    /// Number of items removed so far.
    removed: usize,
    /// Number of items added so far.
    added: usize,
}

impl<T: Copy, const CAPACITY: usize> SlotRing<T, CAPACITY> {
    const MASK: usize = {
        assert!(CAPACITY.is_power_of_two());
        CAPACITY - 1
    };

    /// Creates an empty ring. `filler` is the initial value of the unused slots.
    pub(super) fn new(filler: T) -> SlotRing<T, CAPACITY> {
        SlotRing {
            slots: Box::new([filler; CAPACITY]),
            removed: 0,
            added: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        self.slots[self.added & Self::MASK] = item;
        self.added += 1;
        debug_assert!(self.len() <= CAPACITY);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.removed == self.added {
            return None;
        }
        let item = self.slots[self.removed & Self::MASK];
        self.removed += 1;
        Some(item)
    }

    /// Returns the item with this index, counted from the oldest item. Returns `None` if the ring has
    /// fewer items.
    #[inline]
    pub(super) fn peek_mut(&mut self, index: usize) -> Option<&mut T> {
        (index < self.len()).then(|| &mut self.slots[(self.removed + index) & Self::MASK])
    }

    /// Returns the oldest item, or `None` if the ring is empty.
    pub(super) fn first(&self) -> Option<&T> {
        (self.len() > 0).then(|| &self.slots[self.removed & Self::MASK])
    }

    pub(super) fn len(&self) -> usize {
        self.added - self.removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_leave_in_the_order_of_arrival_when_the_ring_wraps_around() {
        let mut ring: SlotRing<u32, 4> = SlotRing::new(0);
        for n in 0..10 {
            ring.push(2 * n);
            ring.push(2 * n + 1);
            assert_eq!(
                (ring.len(), ring.pop(), ring.pop(), ring.pop()),
                (2, Some(2 * n), Some(2 * n + 1), None)
            );
        }
    }
}
