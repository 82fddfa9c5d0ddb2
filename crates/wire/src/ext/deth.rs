//! Datagrams.

use crate::{Error, be24, be32, put24, require};

pub(super) const LEN: usize = 8;

mod field {
    use core::ops::Range;

    pub(super) const Q_KEY: Range<usize> = 0..4;
    pub(super) const RESERVED: usize = 4;
    pub(super) const SOURCE_QP: Range<usize> = 5..8;
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Queue key.
    pub q_key: u32,
    /// Queue pair of the sender, 24 bits.
    pub source_qp: u32,
}

impl Deth {
    /// Reads the header from the front of `bytes`; [`Error::Truncated`] if it is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Deth, Error> {
        require("DETH", bytes, LEN)?;
        Ok(Deth::read(bytes))
    }

    #[inline]
    fn read(bytes: &[u8]) -> Deth {
        Deth {
            q_key: be32(bytes, field::Q_KEY),
            source_qp: be24(bytes, field::SOURCE_QP),
        }
    }

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[field::Q_KEY].copy_from_slice(&self.q_key.to_be_bytes());
        bytes[field::RESERVED] = 0;
        put24(bytes, field::SOURCE_QP, self.source_qp);
    }
}
