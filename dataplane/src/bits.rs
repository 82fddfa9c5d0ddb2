//! Iteration over bit masks of priorities and queues.

use crate::ids::PRIORITIES;

/// Returns the numbers of the set bits (0 to 7), lowest first.
pub fn iter_set_bits(mut mask: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let lowest = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (lowest < PRIORITIES).then_some(lowest)
    })
}

/// Returns the number of the lowest set bit above bit `after`. After the highest bit, the search continues
/// with bit 0. Returns `after` if this is the only set bit.
pub(crate) fn next_set_bit(mask: u8, after: usize) -> usize {
    let above = mask.rotate_right(after as u32 + 1);
    (after + 1 + above.trailing_zeros() as usize) % PRIORITIES
}
