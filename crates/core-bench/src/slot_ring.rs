//! First in, first out, in a place of fixed size: so cheap that a load costs little beside what it measures.

/// At most `PLACES` items, a power of two; one more overwrites the oldest.
#[derive(Debug)]
pub(super) struct SlotRing<T, const PLACES: usize> {
    places: Box<[T; PLACES]>,
    first: usize,
    end: usize,
}

impl<T: Copy, const PLACES: usize> SlotRing<T, PLACES> {
    const MASK: usize = {
        assert!(PLACES.is_power_of_two());
        PLACES - 1
    };

    /// Empty; what lies in the places meanwhile.
    pub(super) fn new(meanwhile: T) -> SlotRing<T, PLACES> {
        SlotRing {
            places: Box::new([meanwhile; PLACES]),
            first: 0,
            end: 0,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        self.places[self.end & Self::MASK] = item;
        self.end += 1;
        debug_assert!(self.len() <= PLACES);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.first == self.end {
            return None;
        }
        let item = self.places[self.first & Self::MASK];
        self.first += 1;
        Some(item)
    }

    /// What comes out after so many others.
    #[inline]
    pub(super) fn peek_mut(&mut self, behind: usize) -> Option<&mut T> {
        (behind < self.len()).then(|| &mut self.places[(self.first + behind) & Self::MASK])
    }

    /// The item that comes out next.
    pub(super) fn first(&self) -> Option<&T> {
        (self.len() > 0).then(|| &self.places[self.first & Self::MASK])
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_first_goes_first_also_round_the_end() {
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
