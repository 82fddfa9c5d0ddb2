//! RDMA: where to write or read.

use crate::{Error, be32, be64, require};

pub(super) const LEN: usize = 16;

mod field {
    use core::ops::Range;

    pub(super) const VIRTUAL_ADDRESS: Range<usize> = 0..8;
    pub(super) const RKEY: Range<usize> = 8..12;
    pub(super) const DMA_LEN: Range<usize> = 12..16;
}

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Address in the memory of the responder.
    pub virtual_address: u64,
    /// Key of the memory region there.
    pub rkey: u32,
    /// Octets of the whole message.
    pub dma_len: u32,
}

impl Reth {
    /// Reads the header from the front of `bytes`; [`Error::Truncated`] if it is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Reth, Error> {
        require("RETH", bytes, LEN)?;
        Ok(Reth::read(bytes))
    }

    #[inline]
    fn read(bytes: &[u8]) -> Reth {
        Reth {
            virtual_address: be64(bytes, field::VIRTUAL_ADDRESS),
            rkey: be32(bytes, field::RKEY),
            dma_len: be32(bytes, field::DMA_LEN),
        }
    }

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[field::VIRTUAL_ADDRESS].copy_from_slice(&self.virtual_address.to_be_bytes());
        bytes[field::RKEY].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[field::DMA_LEN].copy_from_slice(&self.dma_len.to_be_bytes());
    }
}
