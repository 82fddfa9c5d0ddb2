//! The extension headers behind the base transport header (IBTA 9.3).

use core::fmt;

use super::bth::MASK_24;
use super::{Error, be24, be32, be64, put24, require};

/// Which extension header. Which of them a packet has follows from its opcode
/// ([`Opcode::extensions`](super::Opcode::extensions)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionKind {
    /// RDMA: where to write or read.
    Reth,
    /// Acknowledge.
    Aeth,
    /// Immediate data.
    ImmDt,
    /// Remote key to invalidate.
    Ieth,
    /// Atomic operation.
    AtomicEth,
    /// Original value of an atomic operation.
    AtomicAckEth,
    /// Datagram.
    Deth,
    /// Reliable datagram.
    Rdeth,
    /// Flush.
    Feth,
}

impl ExtensionKind {
    /// Every kind.
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

    /// Octets of the header.
    pub const fn header_len(self) -> usize {
        match self {
            ExtensionKind::Reth => 16,
            ExtensionKind::AtomicEth => 28,
            ExtensionKind::AtomicAckEth | ExtensionKind::Deth => 8,
            ExtensionKind::Aeth
            | ExtensionKind::ImmDt
            | ExtensionKind::Ieth
            | ExtensionKind::Rdeth
            | ExtensionKind::Feth => 4,
        }
    }

    /// Name in the IBTA manner.
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

/// An extension header, read or to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// RDMA: where to write or read.
    Reth(Reth),
    /// Acknowledge.
    Aeth(Aeth),
    /// Immediate data.
    ImmDt(u32),
    /// Remote key to invalidate.
    Ieth(u32),
    /// Atomic operation.
    AtomicEth(AtomicEth),
    /// Original value of an atomic operation.
    AtomicAckEth(u64),
    /// Datagram.
    Deth(Deth),
    /// Reliable datagram: end-to-end context, 24 bits.
    Rdeth(u32),
    /// Flush: placement type (low 4 bits) and selectivity (next 2), as the 32-bit word on the wire.
    Feth(u32),
}

impl Extension {
    /// Which header this is.
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

    /// Reads a header of `kind` from the front of `bytes`; [`Error::Truncated`] if it is not whole.
    pub fn parse(kind: ExtensionKind, bytes: &[u8]) -> Result<Extension, Error> {
        require(kind.name(), bytes, kind.header_len())?;
        Ok(match kind {
            ExtensionKind::Reth => Extension::Reth(Reth::read(bytes)),
            ExtensionKind::Aeth => Extension::Aeth(Aeth::read(bytes)),
            ExtensionKind::ImmDt => Extension::ImmDt(be32(bytes, 0..4)),
            ExtensionKind::Ieth => Extension::Ieth(be32(bytes, 0..4)),
            ExtensionKind::AtomicEth => Extension::AtomicEth(AtomicEth::read(bytes)),
            ExtensionKind::AtomicAckEth => Extension::AtomicAckEth(be64(bytes, 0..8)),
            ExtensionKind::Deth => Extension::Deth(Deth::read(bytes)),
            ExtensionKind::Rdeth => Extension::Rdeth(be24(bytes, 1..4)),
            ExtensionKind::Feth => Extension::Feth(be32(bytes, 0..4)),
        })
    }

    /// Writes the header to the front of `bytes`; [`Error::Truncated`] if there is no room. Returns its length.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let kind = self.kind();
        require(kind.name(), bytes, kind.header_len())?;
        match *self {
            Extension::Reth(reth) => reth.write(bytes),
            Extension::Aeth(aeth) => aeth.write(bytes),
            Extension::ImmDt(word) | Extension::Ieth(word) | Extension::Feth(word) => {
                bytes[..4].copy_from_slice(&word.to_be_bytes());
            }
            Extension::AtomicEth(atomic) => atomic.write(bytes),
            Extension::AtomicAckEth(value) => bytes[..8].copy_from_slice(&value.to_be_bytes()),
            Extension::Deth(deth) => deth.write(bytes),
            Extension::Rdeth(context) => bytes[..4].copy_from_slice(&(context & MASK_24).to_be_bytes()),
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
    fn read(bytes: &[u8]) -> Reth {
        Reth {
            virtual_address: be64(bytes, 0..8),
            rkey: be32(bytes, 8..12),
            dma_len: be32(bytes, 12..16),
        }
    }
    fn write(self, bytes: &mut [u8]) {
        bytes[0..8].copy_from_slice(&self.virtual_address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.dma_len.to_be_bytes());
    }
}

/// Acknowledge extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// What is acknowledged, and how.
    pub syndrome: Syndrome,
    /// Message sequence number: messages completed, 24 bits.
    pub msn: u32,
}

impl Aeth {
    fn read(bytes: &[u8]) -> Aeth {
        Aeth {
            syndrome: Syndrome::from_u8(bytes[0]),
            msn: be24(bytes, 1..4),
        }
    }
    fn write(self, bytes: &mut [u8]) {
        bytes[0] = self.syndrome.code();
        put24(bytes, 1..4, self.msn);
    }
}

/// AETH syndrome: bits 6 and 5 are the type, the rest its parameter (IBTA 9.7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Acknowledged. Credit code of the end-to-end flow control, 0 to 31.
    Ack {
        /// 31 says that credits are not used.
        credits: u8,
    },
    /// Receiver not ready: try again later.
    RnrNak {
        /// Timer code, 0 to 31: see [`rnr_timer_us`].
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// Reserved type, or the high bit set: the octet as it is.
    Reserved(u8),
}

impl Syndrome {
    /// Acknowledged, credits not used.
    pub const ACK: Syndrome = Syndrome::Ack { credits: 31 };

    /// From the octet on the wire.
    pub const fn from_u8(code: u8) -> Syndrome {
        let low = code & 0x1f;
        match code >> 5 {
            0 => Syndrome::Ack { credits: low },
            1 => Syndrome::RnrNak { timer: low },
            3 => Syndrome::Nak(NakCode::from_u8(low)),
            _ => Syndrome::Reserved(code),
        }
    }

    /// The octet on the wire. Parameters beyond 5 bits are cut.
    pub const fn code(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits & 0x1f,
            Syndrome::RnrNak { timer } => 0x20 | timer & 0x1f,
            Syndrome::Nak(code) => 0x60 | code.code() & 0x1f,
            Syndrome::Reserved(code) => code,
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Syndrome::Ack { credits: 31 } => write!(f, "ACK"),
            Syndrome::Ack { credits } => write!(f, "ACK credits {credits}"),
            Syndrome::RnrNak { timer } => write!(f, "RNR NAK {} us", rnr_timer_us(*timer)),
            Syndrome::Nak(NakCode::PsnSequenceError) => write!(f, "NAK PSN sequence error"),
            Syndrome::Nak(NakCode::InvalidRequest) => write!(f, "NAK invalid request"),
            Syndrome::Nak(NakCode::RemoteAccessError) => write!(f, "NAK remote access error"),
            Syndrome::Nak(NakCode::RemoteOperationalError) => write!(f, "NAK remote operational error"),
            Syndrome::Nak(NakCode::InvalidRdRequest) => write!(f, "NAK invalid RD request"),
            Syndrome::Nak(NakCode::Unknown(code)) => write!(f, "NAK code {code}"),
            Syndrome::Reserved(code) => write!(f, "reserved syndrome {code:#04x}"),
        }
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    /// A sequence number is missing: the requester goes back to it.
    PsnSequenceError,
    /// The request is malformed or not supported.
    InvalidRequest,
    /// The memory key or range is wrong.
    RemoteAccessError,
    /// The responder failed.
    RemoteOperationalError,
    /// Wrong key on a reliable datagram.
    InvalidRdRequest,
    /// Another code, 5 to 31.
    Unknown(u8),
}

impl NakCode {
    /// From the low 5 bits of the syndrome.
    pub const fn from_u8(code: u8) -> NakCode {
        match code & 0x1f {
            0 => NakCode::PsnSequenceError,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccessError,
            3 => NakCode::RemoteOperationalError,
            4 => NakCode::InvalidRdRequest,
            other => NakCode::Unknown(other),
        }
    }

    /// The low 5 bits of the syndrome.
    pub const fn code(self) -> u8 {
        match self {
            NakCode::PsnSequenceError => 0,
            NakCode::InvalidRequest => 1,
            NakCode::RemoteAccessError => 2,
            NakCode::RemoteOperationalError => 3,
            NakCode::InvalidRdRequest => 4,
            NakCode::Unknown(code) => code,
        }
    }
}

/// How long an RNR NAK asks to wait, in microseconds (IBTA table 45). The low 5 bits of `timer` count.
pub const fn rnr_timer_us(timer: u8) -> u32 {
    const MICROS: [u32; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
        5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760,
        327_680, 491_520,
    ];
    MICROS[(timer & 0x1f) as usize]
}

/// Atomic extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Address in the memory of the responder.
    pub virtual_address: u64,
    /// Key of the memory region there.
    pub rkey: u32,
    /// The new value, or what to add.
    pub swap_or_add: u64,
    /// The value expected there.
    pub compare: u64,
}

impl AtomicEth {
    fn read(bytes: &[u8]) -> AtomicEth {
        AtomicEth {
            virtual_address: be64(bytes, 0..8),
            rkey: be32(bytes, 8..12),
            swap_or_add: be64(bytes, 12..20),
            compare: be64(bytes, 20..28),
        }
    }
    fn write(self, bytes: &mut [u8]) {
        bytes[0..8].copy_from_slice(&self.virtual_address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.compare.to_be_bytes());
    }
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
    fn read(bytes: &[u8]) -> Deth {
        Deth {
            q_key: be32(bytes, 0..4),
            source_qp: be24(bytes, 5..8),
        }
    }
    fn write(self, bytes: &mut [u8]) {
        bytes[0..4].copy_from_slice(&self.q_key.to_be_bytes());
        bytes[4] = 0;
        put24(bytes, 5..8, self.source_qp);
    }
}
