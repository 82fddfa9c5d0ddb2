//! The extension headers that follow the base transport header (IBTA 9.3).

mod aeth;
mod atomic;
mod deth;
mod reth;

use core::fmt;

use super::{Error, read_be24, read_be32, read_be64, require_len};

/// Mask of the 24-bit fields: packet sequence numbers and queue pair numbers.
pub const MASK_24: u32 = 0x00ff_ffff;
pub use aeth::{Aeth, NakCode, Syndrome, rnr_timer_us};
pub use atomic::AtomicEth;
pub use deth::Deth;
pub use reth::Reth;

/// Fields of the headers that consist of a single number.
mod field {
    use core::ops::Range;

    /// ImmDt, IETH, FETH, and RDETH with its reserved byte.
    pub(super) const WORD: Range<usize> = 0..4;
    pub(super) const EE_CONTEXT: Range<usize> = 1..4;
    pub(super) const ORIGINAL_VALUE: Range<usize> = 0..8;
}

/// The kind of an extension header. The opcode of a packet determines its extension
/// headers ([`Opcode::extensions`](super::Opcode::extensions)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionKind {
    /// RDMA extended transport header (RETH): memory address, key and length.
    Reth,
    /// Acknowledge extended transport header (AETH): syndrome and message sequence number.
    Aeth,
    /// Immediate data (ImmDt): 32 bits for the application of the receiver.
    ImmDt,
    /// Invalidate extended transport header (IETH): the remote key to invalidate.
    Ieth,
    /// Atomic extended transport header (AtomicETH): the operands of an atomic operation.
    AtomicEth,
    /// Atomic acknowledge extended transport header (AtomicAckETH): the value before the operation.
    AtomicAckEth,
    /// Datagram extended transport header (DETH): queue key and source queue pair.
    Deth,
    /// Reliable datagram extended transport header (RDETH): end-to-end context.
    Rdeth,
    /// Flush extended transport header (FETH): placement type and selectivity level.
    Feth,
}

impl ExtensionKind {
    /// All kinds of extension headers, in the order of the variants.
    pub const ALL: [ExtensionKind; 9] = [
        ExtensionKind::Reth,
        ExtensionKind::Aeth,
        ExtensionKind::ImmDt,
        ExtensionKind::Ieth,
        ExtensionKind::AtomicEth,
        ExtensionKind::AtomicAckEth,
        ExtensionKind::Deth,
        ExtensionKind::Rdeth,
        ExtensionKind::Feth,
    ];

    /// Returns the length of the header in bytes.
    pub const fn header_len(self) -> usize {
        match self {
            ExtensionKind::Reth => reth::LEN,
            ExtensionKind::AtomicEth => atomic::LEN,
            ExtensionKind::Aeth => aeth::LEN,
            ExtensionKind::Deth => deth::LEN,
            ExtensionKind::AtomicAckEth => field::ORIGINAL_VALUE.end,
            ExtensionKind::ImmDt | ExtensionKind::Ieth | ExtensionKind::Rdeth | ExtensionKind::Feth => {
                field::WORD.end
            }
        }
    }

    /// Returns the IBTA name of the header.
    pub const fn name(self) -> &'static str {
        match self {
            ExtensionKind::Reth => "RETH",
            ExtensionKind::Aeth => "AETH",
            ExtensionKind::ImmDt => "ImmDt",
            ExtensionKind::Ieth => "IETH",
            ExtensionKind::AtomicEth => "AtomicETH",
            ExtensionKind::AtomicAckEth => "AtomicAckETH",
            ExtensionKind::Deth => "DETH",
            ExtensionKind::Rdeth => "RDETH",
            ExtensionKind::Feth => "FETH",
        }
    }
}

/// An extension header of a received packet or of a packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// RDMA extended transport header: memory address, key and length.
    Reth(Reth),
    /// Acknowledge extended transport header: syndrome and message sequence number.
    Aeth(Aeth),
    /// Immediate data: 32 bits for the application of the receiver.
    ImmDt(u32),
    /// Invalidate extended transport header: the remote key to invalidate.
    Ieth(u32),
    /// Atomic extended transport header: the operands of an atomic operation.
    AtomicEth(AtomicEth),
    /// Atomic acknowledge extended transport header: the value in memory before the operation.
    AtomicAckEth(u64),
    /// Datagram extended transport header: queue key and source queue pair.
    Deth(Deth),
    /// Reliable datagram extended transport header: the end-to-end context. Only the low 24 bits are used.
    Rdeth(u32),
    /// Flush extended transport header: placement type (low 4 bits) and selectivity level (next 2 bits).
    Feth(u32),
}

impl Extension {
    /// Returns the kind of this header.
    pub const fn kind(&self) -> ExtensionKind {
        match self {
            Extension::Reth(_) => ExtensionKind::Reth,
            Extension::Aeth(_) => ExtensionKind::Aeth,
            Extension::ImmDt(_) => ExtensionKind::ImmDt,
            Extension::Ieth(_) => ExtensionKind::Ieth,
            Extension::AtomicEth(_) => ExtensionKind::AtomicEth,
            Extension::AtomicAckEth(_) => ExtensionKind::AtomicAckEth,
            Extension::Deth(_) => ExtensionKind::Deth,
            Extension::Rdeth(_) => ExtensionKind::Rdeth,
            Extension::Feth(_) => ExtensionKind::Feth,
        }
    }

    /// Reads a header of the given kind from the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Truncated`] if `bytes` is shorter than the header.
    pub fn parse(kind: ExtensionKind, bytes: &[u8]) -> Result<Extension, Error> {
        require_len(kind.name(), bytes, kind.header_len())?;
        Ok(match kind {
            ExtensionKind::Reth => Extension::Reth(Reth::parse(bytes)?),
            ExtensionKind::Aeth => Extension::Aeth(Aeth::parse(bytes)?),
            ExtensionKind::ImmDt => Extension::ImmDt(read_be32(bytes, field::WORD)),
            ExtensionKind::Ieth => Extension::Ieth(read_be32(bytes, field::WORD)),
            ExtensionKind::AtomicEth => Extension::AtomicEth(AtomicEth::read(bytes)),
            ExtensionKind::AtomicAckEth => Extension::AtomicAckEth(read_be64(bytes, field::ORIGINAL_VALUE)),
            ExtensionKind::Deth => Extension::Deth(Deth::parse(bytes)?),
            ExtensionKind::Rdeth => Extension::Rdeth(read_be24(bytes, field::EE_CONTEXT)),
            ExtensionKind::Feth => Extension::Feth(read_be32(bytes, field::WORD)),
        })
    }

    /// Writes the header to the start of `bytes` and returns its length.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Truncated`] if `bytes` is shorter than the header. `bytes` is unchanged in this case.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let kind = self.kind();
        require_len(kind.name(), bytes, kind.header_len())?;
        match *self {
            Extension::Reth(reth) => reth.write(bytes),
            Extension::Aeth(aeth) => aeth.write(bytes),
            Extension::ImmDt(word) | Extension::Ieth(word) | Extension::Feth(word) => {
                bytes[field::WORD].copy_from_slice(&word.to_be_bytes());
            }
            Extension::AtomicEth(atomic) => atomic.write(bytes),
            Extension::AtomicAckEth(value) => {
                bytes[field::ORIGINAL_VALUE].copy_from_slice(&value.to_be_bytes())
            }
            Extension::Deth(deth) => deth.write(bytes),
            Extension::Rdeth(context) => {
                bytes[field::WORD].copy_from_slice(&(context & MASK_24).to_be_bytes())
            }
        }
        Ok(kind.header_len())
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extension::Reth(reth) => {
                write!(
                    f,
                    "RETH va {:#x} rkey {:#x} len {}",
                    reth.virtual_address, reth.rkey, reth.dma_len
                )
            }
            Extension::Aeth(aeth) => write!(f, "AETH {} msn {}", aeth.syndrome, aeth.msn),
            Extension::ImmDt(data) => write!(f, "ImmDt {data:#x}"),
            Extension::Ieth(rkey) => write!(f, "IETH rkey {rkey:#x}"),
            Extension::AtomicEth(atomic) => write!(
                f,
                "AtomicETH va {:#x} rkey {:#x} swap {:#x} compare {:#x}",
                atomic.virtual_address, atomic.rkey, atomic.swap_or_add, atomic.compare
            ),
            Extension::AtomicAckEth(value) => write!(f, "AtomicAckETH {value:#x}"),
            Extension::Deth(deth) => write!(f, "DETH qkey {:#x} from qp {:#x}", deth.q_key, deth.source_qp),
            Extension::Rdeth(context) => write!(f, "RDETH ee {context:#x}"),
            Extension::Feth(word) => write!(f, "FETH {word:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_truncation_is_refused_with_the_length_needed() {
        let bytes = [0x5a; 64];
        for kind in ExtensionKind::ALL {
            let needed = kind.header_len();
            for available in 0..needed {
                let expected = Err(Error::Truncated {
                    header: kind.name(),
                    needed,
                    available,
                });
                assert_eq!(Extension::parse(kind, &bytes[..available]), expected);
            }
            let whole = Extension::parse(kind, &bytes[..needed]).unwrap();
            assert_eq!(whole.kind(), kind);
            for available in 0..needed {
                let mut room = [0; 64];
                let expected = Err(Error::Truncated {
                    header: kind.name(),
                    needed,
                    available,
                });
                assert_eq!(whole.emit(&mut room[..available]), expected);
                assert_eq!(room, [0; 64], "a refused header writes nothing");
            }
        }
    }

    #[test]
    fn layouts_are_those_of_the_specification() {
        let bytes: Vec<u8> = (1..=28).collect();
        let read = |kind| Extension::parse(kind, &bytes).unwrap();
        assert_eq!(
            read(ExtensionKind::Reth),
            Extension::Reth(Reth {
                virtual_address: 0x0102_0304_0506_0708,
                rkey: 0x090a_0b0c,
                dma_len: 0x0d0e_0f10
            })
        );
        assert_eq!(
            read(ExtensionKind::Aeth),
            Extension::Aeth(Aeth {
                syndrome: Syndrome::Ack { credits: 1 },
                msn: 0x02_0304
            })
        );
        assert_eq!(read(ExtensionKind::ImmDt), Extension::ImmDt(0x0102_0304));
        assert_eq!(read(ExtensionKind::Ieth), Extension::Ieth(0x0102_0304));
        assert_eq!(
            read(ExtensionKind::AtomicEth),
            Extension::AtomicEth(AtomicEth {
                virtual_address: 0x0102_0304_0506_0708,
                rkey: 0x090a_0b0c,
                swap_or_add: 0x0d0e_0f10_1112_1314,
                compare: 0x1516_1718_191a_1b1c
            })
        );
        assert_eq!(
            read(ExtensionKind::AtomicAckEth),
            Extension::AtomicAckEth(0x0102_0304_0506_0708)
        );
        assert_eq!(
            read(ExtensionKind::Deth),
            Extension::Deth(Deth {
                q_key: 0x0102_0304,
                source_qp: 0x06_0708
            })
        );
        assert_eq!(read(ExtensionKind::Rdeth), Extension::Rdeth(0x02_0304));
        assert_eq!(read(ExtensionKind::Feth), Extension::Feth(0x0102_0304));
    }
}
