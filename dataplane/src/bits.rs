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
