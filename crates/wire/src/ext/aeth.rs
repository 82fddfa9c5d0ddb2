//! The acknowledge extended transport header (AETH) and its syndrome.

use core::fmt;

use super::MASK_24;
use crate::{Error, read_be24, require_len};

pub(super) const LEN: usize = 4;

mod field {
    use core::ops::Range;

    pub(super) const SYNDROME: usize = 0;
    pub(super) const MSN: Range<usize> = 1..4;
}

/// Acknowledge extended transport header (AETH, IBTA 9.3), 4 bytes. Acknowledgements, atomic
/// acknowledgements, and the first, last and only packets of READ responses have this header. Middle packets
/// of READ responses do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// The kind of acknowledgement and its parameter.
    pub syndrome: Syndrome,
    /// Message sequence number: the number of completed messages modulo 2^24. Only the low 24 bits are used.
    pub msn: u32,
}

impl Aeth {
    /// Reads the header from the start of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Truncated`] if `bytes` is shorter than the header.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Aeth, Error> {
        require_len("AETH", bytes, LEN)?;
        Ok(Aeth::read(bytes))
    }

    #[inline]
    fn read(bytes: &[u8]) -> Aeth {
        Aeth {
            syndrome: Syndrome::from_u8(bytes[field::SYNDROME]),
            msn: read_be24(bytes, field::MSN),
        }
    }
    #[inline]
    pub(super) fn write(self, bytes: &mut [u8]) {
        let word = u32::from(self.syndrome.code()) << 24 | self.msn & MASK_24;
        bytes[..LEN].copy_from_slice(&word.to_be_bytes());
    }
}

/// The syndrome of an AETH (IBTA 9.7.5.2). Bits 6 and 5 of the byte are the type, and bits 4 to 0 are
/// a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive acknowledgement.
    Ack {
        /// Credit code of the end-to-end flow control, 0 to 31. The value 31 means that the responder does
        /// not use credits.
        credits: u8,
    },
    /// Receiver not ready. The requester waits and repeats the request.
    RnrNak {
        /// Timer code, 0 to 31. [`rnr_timer_us`] converts it to microseconds.
        timer: u8,
    },
    /// Negative acknowledgement with its reason.
    Nak(NakCode),
    /// Reserved type, or bit 7 is set. The value is the whole syndrome byte.
    Reserved(u8),
}

impl Syndrome {
    /// A positive acknowledgement of a responder that does not use credits.
    pub const ACK: Syndrome = Syndrome::Ack { credits: 31 };

    /// Decodes a syndrome byte. Every byte is accepted.
    pub const fn from_u8(code: u8) -> Syndrome {
        let low = code & 0x1f;
        match code >> 5 {
            0 => Syndrome::Ack { credits: low },
            1 => Syndrome::RnrNak { timer: low },
            3 => Syndrome::Nak(NakCode::from_u8(low)),
            _ => Syndrome::Reserved(code),
        }
    }

    /// Encodes the syndrome byte. Only the low 5 bits of a parameter are used.
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

/// The reason of a negative acknowledgement (NAK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    /// A packet is missing. The requester sends all packets again, beginning with the missing packet.
    PsnSequenceError,
    /// The request is malformed or not supported.
    InvalidRequest,
    /// The memory key or the memory range is wrong.
    RemoteAccessError,
    /// The responder could not complete the request because of an error on its side.
    RemoteOperationalError,
    /// The key of a reliable datagram is wrong.
    InvalidRdRequest,
    /// A reserved code, 5 to 31.
    Unknown(u8),
}

impl NakCode {
    /// Decodes a NAK code from the low 5 bits of a syndrome byte.
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

    /// Returns the NAK code as a number, 0 to 4 for the known codes.
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

/// Returns the time in microseconds that an RNR NAK asks the requester to wait (IBTA 9.7.5.2.8, Linux
/// `rxe_comp.c`). Only the low 5 bits of `timer` are used.
pub const fn rnr_timer_us(timer: u8) -> u32 {
    const MICROS: [u32; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
        5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760,
        327_680, 491_520,
    ];
    MICROS[(timer & 0x1f) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_byte_round_trips() {
        for code in 0..=u8::MAX {
            let syndrome = Syndrome::from_u8(code);
            assert_eq!(syndrome.code(), code);
            let expected = match code {
                0x00..=0x1f => Syndrome::Ack { credits: code },
                0x20..=0x3f => Syndrome::RnrNak { timer: code - 0x20 },
                0x60 => Syndrome::Nak(NakCode::PsnSequenceError),
                0x61 => Syndrome::Nak(NakCode::InvalidRequest),
                0x62 => Syndrome::Nak(NakCode::RemoteAccessError),
                0x63 => Syndrome::Nak(NakCode::RemoteOperationalError),
                0x64 => Syndrome::Nak(NakCode::InvalidRdRequest),
                0x65..=0x7f => Syndrome::Nak(NakCode::Unknown(code - 0x60)),
                _ => Syndrome::Reserved(code),
            };
            assert_eq!(syndrome, expected);
        }
    }

    #[test]
    fn display_names_the_kind_of_acknowledgement() {
        assert_eq!(Syndrome::from_u8(0x1f).to_string(), "ACK");
        assert_eq!(Syndrome::from_u8(0x05).to_string(), "ACK credits 5");
        assert_eq!(Syndrome::from_u8(0x2c).to_string(), "RNR NAK 640 us");
        assert_eq!(Syndrome::from_u8(0x60).to_string(), "NAK PSN sequence error");
        assert_eq!(Syndrome::from_u8(0x40).to_string(), "reserved syndrome 0x40");
    }

    #[test]
    fn rnr_timers_grow_from_code_one_and_zero_is_the_longest() {
        assert!((1..31).all(|code| rnr_timer_us(code) < rnr_timer_us(code + 1)));
        assert!((1..32).all(|code| rnr_timer_us(code) < rnr_timer_us(0)));
        assert_eq!(
            (rnr_timer_us(1), rnr_timer_us(25), rnr_timer_us(31)),
            (10, 61_440, 491_520)
        );
        assert_eq!(rnr_timer_us(33), rnr_timer_us(1), "only five bits count");
    }
}
