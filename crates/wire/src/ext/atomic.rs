//! The atomic extended transport header (AtomicETH).

use crate::{read_be32, read_be64};

pub(super) const LEN: usize = 28;

mod field {
    use core::ops::Range;

    pub(super) const VIRTUAL_ADDRESS: Range<usize> = 0..8;
    pub(super) const RKEY: Range<usize> = 8..12;
    pub(super) const SWAP_OR_ADD: Range<usize> = 12..20;
    pub(super) const COMPARE: Range<usize> = 20..28;
}

/// Atomic extended transport header (AtomicETH, IBTA 9.3) of a compare-and-swap or fetch-and-add request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Address of the 8-byte operand in the memory of the responder. A valid address is a multiple of 8.
    pub virtual_address: u64,
    /// Remote key of the memory region.
    pub rkey: u32,
    /// The new value of a compare-and-swap, or the addend of a fetch-and-add.
    pub swap_or_add: u64,
    /// The value that a compare-and-swap expects in memory. A fetch-and-add does not use this field.
    pub compare: u64,
}

impl AtomicEth {
    pub(super) fn read(bytes: &[u8]) -> AtomicEth {
        AtomicEth {
            virtual_address: read_be64(bytes, field::VIRTUAL_ADDRESS),
            rkey: read_be32(bytes, field::RKEY),
            swap_or_add: read_be64(bytes, field::SWAP_OR_ADD),
            compare: read_be64(bytes, field::COMPARE),
        }
    }

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[field::VIRTUAL_ADDRESS].copy_from_slice(&self.virtual_address.to_be_bytes());
        bytes[field::RKEY].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[field::SWAP_OR_ADD].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[field::COMPARE].copy_from_slice(&self.compare.to_be_bytes());
    }
}
