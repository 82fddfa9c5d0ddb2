//! The datagram extended transport header (DETH).

use crate::{Error, read_be24, read_be32, require_len, write_be24};

pub(super) const LEN: usize = 8;

mod field {
    use core::ops::Range;

    pub(super) const Q_KEY: Range<usize> = 0..4;
    pub(super) const RESERVED: usize = 4;
    pub(super) const SOURCE_QP: Range<usize> = 5..8;
}

/// Datagram extended transport header (DETH, IBTA 9.3) of the unreliable datagram service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Queue key, which the destination queue pair checks.
    pub q_key: u32,
    /// Queue pair number of the sender. Only the low 24 bits are used.
    pub source_qp: u32,
}

impl Deth {
    /// Reads the header from the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Truncated`] if `bytes` is shorter than the header.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Deth, Error> {
        require_len("DETH", bytes, LEN)?;
        Ok(Deth::read(bytes))
    }

    #[inline]
    fn read(bytes: &[u8]) -> Deth {
        Deth {
            q_key: read_be32(bytes, field::Q_KEY),
            source_qp: read_be24(bytes, field::SOURCE_QP),
        }
    }

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[field::Q_KEY].copy_from_slice(&self.q_key.to_be_bytes());
        bytes[field::RESERVED] = 0;
        write_be24(bytes, field::SOURCE_QP, self.source_qp);
    }
}
