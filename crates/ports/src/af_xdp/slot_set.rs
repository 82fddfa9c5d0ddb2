//! A set of slots. An AF_XDP socket stores in it which slots it holds.

use xoff_dataplane::FrameHandle;

/// A set of slots of one arena.
#[derive(Debug)]
pub(super) struct SlotSet {
    words: Box<[u64]>,
    count: usize,
}

impl SlotSet {
    /// Creates an empty set. The set can contain the slots 0 to `slots` - 1.
    pub(super) fn new(slots: usize) -> SlotSet {
        SlotSet {
            words: vec![0; slots.div_ceil(64)].into(),
            count: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn insert(&mut self, slot: FrameHandle) {
        let (word, bit) = word_and_bit(slot);
        debug_assert_eq!(self.words[word] & bit, 0, "slot {} is already in the set", slot.0);
        self.words[word] |= bit;
        self.count += 1;
    }

    /// Removes a slot from the set. Returns whether the slot was in the set. The slot number may be out of
    /// range, for example if the kernel returned a wrong number. The result is then `false`.
    pub(super) fn remove(&mut self, slot: FrameHandle) -> bool {
        let (word, bit) = word_and_bit(slot);
        match self.words.get_mut(word) {
            Some(word) if *word & bit != 0 => {
                *word &= !bit;
                self.count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Removes and returns all slots.
    pub(super) fn take_all(&mut self) -> Vec<FrameHandle> {
        let words = self.words.iter_mut().enumerate();
        let slots = words.flat_map(|(index, word)| {
            let bits = std::mem::take(word);
            let set = (0..64).filter(move |bit| bits & 1 << bit != 0);
            set.map(move |bit| FrameHandle(64 * index as u32 + bit))
        });
        self.count = 0;
        slots.collect()
    }
}

fn word_and_bit(slot: FrameHandle) -> (usize, u64) {
    (slot.0 as usize / 64, 1 << (slot.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_inserted_slot_is_removed_once() {
        let mut set = SlotSet::new(130);
        for slot in [0, 63, 64, 129] {
            set.insert(FrameHandle(slot));
        }
        assert!(set.remove(FrameHandle(63)));
        assert!(!set.remove(FrameHandle(63)));
        assert!(!set.remove(FrameHandle(1)));
        assert!(!set.remove(FrameHandle(u32::MAX)), "no slot at all");
        assert_eq!(set.len(), 3);
        assert_eq!(
            set.take_all(),
            [FrameHandle(0), FrameHandle(64), FrameHandle(129)]
        );
        assert_eq!((set.len(), set.take_all()), (0, vec![]));
    }
}
