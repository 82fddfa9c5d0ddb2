//! The RDMA extended transport header (RETH).

use crate::{Error, read_be32, read_be64, require_len};

pub(super) const LEN: usize = 16;

mod field {
    use core::ops::Range;

    pub(super) const VIRTUAL_ADDRESS: Range<usize> = 0..8;
    pub(super) const RKEY: Range<usize> = 8..12;
    pub(super) const DMA_LEN: Range<usize> = 12..16;
}

/// RDMA extended transport header (RETH, IBTA 9.3). The header describes the memory region that an RDMA WRITE
/// or READ accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Address of the first byte in the memory of the responder.
    pub virtual_address: u64,
    /// Remote key of the memory region.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub dma_len: u32,
}

impl Reth {
    /// Reads the header from the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Truncated`] if `bytes` is shorter than the header.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Reth, Error> {
        require_len("RETH", bytes, LEN)?;
        Ok(Reth::read(bytes))
    }

    #[inline]
    fn read(bytes: &[u8]) -> Reth {
        Reth {
            virtual_address: read_be64(bytes, field::VIRTUAL_ADDRESS),
            rkey: read_be32(bytes, field::RKEY),
            dma_len: read_be32(bytes, field::DMA_LEN),
        }
    }

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[field::VIRTUAL_ADDRESS].copy_from_slice(&self.virtual_address.to_be_bytes());
        bytes[field::RKEY].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[field::DMA_LEN].copy_from_slice(&self.dma_len.to_be_bytes());
    }
}
