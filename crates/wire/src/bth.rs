//! The base transport header (BTH) of InfiniBand and RoCE (IBTA 9.2).

use core::fmt;

use super::ext::ExtensionKind;
pub use super::ext::MASK_24;
use super::{Error, read_be16, read_be24, require_len, write_be24};

/// Length of the base transport header in bytes.
pub const LEN: usize = 12;
/// The default partition key 0xFFFF: partition 0x7FFF with full membership. RoCE hosts use this key if no key
/// is configured.
pub const DEFAULT_P_KEY: u16 = 0xffff;
mod field {
    use core::ops::Range;

    pub(super) const OPCODE: usize = 0;
    /// Solicited event (1 bit), MigReq (1), pad count (2), transport version (4).
    pub(super) const FLAGS: usize = 1;
    pub(super) const P_KEY: Range<usize> = 2..4;
    /// FECN (1 bit), BECN (1), reserved (6). The ICRC does not cover this byte.
    pub(super) const CONGESTION: usize = 4;
    pub(super) const DEST_QP: Range<usize> = 5..8;
    /// AckReq (1 bit), reserved (7).
    pub(super) const ACK_REQ: usize = 8;
    pub(super) const PSN: Range<usize> = 9..12;
}

/// The transport service of a packet, from the three high bits of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification (RoCEv2, IBTA annex A17).
    Cnp,
    /// Extended reliable connection.
    Xrc,
    /// The three high bits are 6 or 7: reserved, or defined by a manufacturer.
    Other,
}

macro_rules! opcodes {
    ($($code:literal $variant:ident $name:literal [$($extension:ident),*];)*) => {
        /// The opcode byte of a BTH (IBTA 9.2.1). Every operation of RC, UC and UD has a constant, and so has
        /// CNP. Other values are possible but have no name.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct Opcode(u8);

        // The type is a plain number and not an enumeration, because the number is the index in the table
        // below. A `match` over an enumeration would compile to an unpredictable branch for each packet. The
        // constants are named like variants.
        #[allow(non_upper_case_globals)]
        impl Opcode {
            $(
                #[doc = concat!("`", $name, "`, ", stringify!($code), ".")]
                pub const $variant: Opcode = Opcode($code);
            )*

            /// All opcodes with a name, in ascending order.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant,)*];
        }

        /// Name and extension headers of each of the 256 opcodes.
        static OPCODE_INFO: [OpcodeInfo; 256] = {
            let mut all = [OpcodeInfo::new("UNKNOWN", &[]); 256];
            $(all[$code] = OpcodeInfo::new($name, &[$(ExtensionKind::$extension),*]);)*
            all
        };
    };
}

/// Name and extension headers of one opcode.
#[derive(Clone, Copy)]
struct OpcodeInfo {
    name: &'static str,
    extensions: &'static [ExtensionKind],
    extensions_len: usize,
}

impl OpcodeInfo {
    const fn new(name: &'static str, extensions: &'static [ExtensionKind]) -> OpcodeInfo {
        let (mut extensions_len, mut n) = (0, 0);
        while n < extensions.len() {
            extensions_len += extensions[n].header_len();
            n += 1;
        }
        OpcodeInfo {
            name,
            extensions,
            extensions_len,
        }
    }
}

// Source: IBTA 9.2.1 and Linux `ib_pack.h`. Opcode 0x15 is reserved.
opcodes! {
    0x00 RcSendFirst "RC_SEND_FIRST" [];
    0x01 RcSendMiddle "RC_SEND_MIDDLE" [];
    0x02 RcSendLast "RC_SEND_LAST" [];
    0x03 RcSendLastImm "RC_SEND_LAST_IMM" [ImmDt];
    0x04 RcSendOnly "RC_SEND_ONLY" [];
    0x05 RcSendOnlyImm "RC_SEND_ONLY_IMM" [ImmDt];
    0x06 RcWriteFirst "RC_WRITE_FIRST" [Reth];
    0x07 RcWriteMiddle "RC_WRITE_MIDDLE" [];
    0x08 RcWriteLast "RC_WRITE_LAST" [];
    0x09 RcWriteLastImm "RC_WRITE_LAST_IMM" [ImmDt];
    0x0a RcWriteOnly "RC_WRITE_ONLY" [Reth];
    0x0b RcWriteOnlyImm "RC_WRITE_ONLY_IMM" [Reth, ImmDt];
    0x0c RcReadRequest "RC_READ_REQUEST" [Reth];
    0x0d RcReadResponseFirst "RC_READ_RESPONSE_FIRST" [Aeth];
    0x0e RcReadResponseMiddle "RC_READ_RESPONSE_MIDDLE" [];
    0x0f RcReadResponseLast "RC_READ_RESPONSE_LAST" [Aeth];
    0x10 RcReadResponseOnly "RC_READ_RESPONSE_ONLY" [Aeth];
    0x11 RcAcknowledge "RC_ACKNOWLEDGE" [Aeth];
    0x12 RcAtomicAcknowledge "RC_ATOMIC_ACKNOWLEDGE" [Aeth, AtomicAckEth];
    0x13 RcCompareSwap "RC_COMPARE_SWAP" [AtomicEth];
    0x14 RcFetchAdd "RC_FETCH_ADD" [AtomicEth];
    0x16 RcSendLastInvalidate "RC_SEND_LAST_INVALIDATE" [Ieth];
    0x17 RcSendOnlyInvalidate "RC_SEND_ONLY_INVALIDATE" [Ieth];
    0x1c RcFlush "RC_FLUSH" [Feth, Reth];
    0x1d RcAtomicWrite "RC_ATOMIC_WRITE" [Reth];
    0x20 UcSendFirst "UC_SEND_FIRST" [];
    0x21 UcSendMiddle "UC_SEND_MIDDLE" [];
    0x22 UcSendLast "UC_SEND_LAST" [];
    0x23 UcSendLastImm "UC_SEND_LAST_IMM" [ImmDt];
    0x24 UcSendOnly "UC_SEND_ONLY" [];
    0x25 UcSendOnlyImm "UC_SEND_ONLY_IMM" [ImmDt];
    0x26 UcWriteFirst "UC_WRITE_FIRST" [Reth];
    0x27 UcWriteMiddle "UC_WRITE_MIDDLE" [];
    0x28 UcWriteLast "UC_WRITE_LAST" [];
    0x29 UcWriteLastImm "UC_WRITE_LAST_IMM" [ImmDt];
    0x2a UcWriteOnly "UC_WRITE_ONLY" [Reth];
    0x2b UcWriteOnlyImm "UC_WRITE_ONLY_IMM" [Reth, ImmDt];
    0x64 UdSendOnly "UD_SEND_ONLY" [Deth];
    0x65 UdSendOnlyImm "UD_SEND_ONLY_IMM" [Deth, ImmDt];
    0x81 Cnp "CNP" [];
}

impl Opcode {
    /// Returns the transport service: the three high bits of the opcode.
    pub const fn transport(self) -> Transport {
        match self.code() >> 5 {
            0 => Transport::Rc,
            1 => Transport::Uc,
            2 => Transport::Rd,
            3 => Transport::Ud,
            4 => Transport::Cnp,
            5 => Transport::Xrc,
            _ => Transport::Other,
        }
    }

    /// Makes an opcode from the opcode byte of a BTH. Every byte is accepted.
    pub const fn from_u8(code: u8) -> Opcode {
        Opcode(code)
    }

    /// Returns the opcode byte of a BTH.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns the IBTA name of the operation, or `UNKNOWN` for an opcode without a constant.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the extension headers that follow the BTH, in the order in which they appear in the packet.
    /// The result is empty for an unknown opcode.
    pub const fn extensions(self) -> &'static [ExtensionKind] {
        self.info().extensions
    }

    /// Returns the total length of the extension headers in bytes, 0 for an unknown opcode.
    pub const fn extensions_len(self) -> usize {
        self.info().extensions_len
    }

    const fn info(self) -> &'static OpcodeInfo {
        &OPCODE_INFO[self.0 as usize]
    }

    /// Returns whether this opcode has a constant.
    pub fn is_known(self) -> bool {
        Opcode::ALL.contains(&self)
    }
}

impl From<u8> for Opcode {
    fn from(code: u8) -> Opcode {
        Opcode::from_u8(code)
    }
}

impl From<Opcode> for u8 {
    fn from(opcode: Opcode) -> u8 {
        opcode.code()
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_known() {
            true => f.write_str(self.name()),
            false => write!(f, "opcode {:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A view of the base transport header at the start of a buffer. The buffer may contain more bytes after
/// the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Bth<T> {
    /// Makes a view of the header at the start of a buffer. Only the length is checked.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Truncated`] if the buffer is shorter than [`LEN`] bytes.
    pub fn new_checked(buffer: T) -> Result<Bth<T>, Error> {
        require_len("BTH", buffer.as_ref(), LEN)?;
        Ok(Bth { buffer })
    }

    /// Makes a view without a length check. The caller must have checked that the buffer has at least
    /// [`LEN`] bytes.
    pub(super) const fn new_unchecked(buffer: T) -> Bth<T> {
        Bth { buffer }
    }

    /// Returns the operation of the packet.
    pub fn opcode(&self) -> Opcode {
        Opcode::from_u8(self.buffer.as_ref()[field::OPCODE])
    }
    /// Returns the solicited event bit. With this bit, the sender asks the receiving NIC to notify the
    /// application about this message.
    pub fn solicited(&self) -> bool {
        self.is_flag_set(field::FLAGS, 0x80)
    }
    /// Returns the migration request bit (MigReq). The bit is set while the path is in the state "migrated",
    /// which is the normal state.
    pub fn mig_req(&self) -> bool {
        self.is_flag_set(field::FLAGS, 0x40)
    }
    /// Returns the number of pad bytes after the payload, 0 to 3.
    pub fn pad(&self) -> u8 {
        self.buffer.as_ref()[field::FLAGS] >> 4 & 3
    }
    /// Returns the transport header version (4 bits). Only version 0 is defined.
    pub fn version(&self) -> u8 {
        self.buffer.as_ref()[field::FLAGS] & 0x0f
    }
    /// Returns the partition key of the packet.
    pub fn p_key(&self) -> u16 {
        read_be16(self.buffer.as_ref(), field::P_KEY)
    }
    /// Returns the forward explicit congestion notification (FECN, IBTA 9.2): true if the packet met
    /// congestion on its path. The ICRC does not cover this bit.
    pub fn fecn(&self) -> bool {
        self.is_flag_set(field::CONGESTION, 0x80)
    }
    /// Returns the backward explicit congestion notification (BECN, IBTA 9.2): true if the packet tells a
    /// sender to reduce its rate, as a CNP does. The ICRC does not cover this bit.
    pub fn becn(&self) -> bool {
        self.is_flag_set(field::CONGESTION, 0x40)
    }
    /// Returns the destination queue pair number, 24 bits.
    pub fn dest_qp(&self) -> u32 {
        read_be24(self.buffer.as_ref(), field::DEST_QP)
    }
    /// Returns whether the requester asks for an acknowledgement (AckReq).
    pub fn ack_req(&self) -> bool {
        self.is_flag_set(field::ACK_REQ, 0x80)
    }
    /// Returns the packet sequence number, 24 bits.
    pub fn psn(&self) -> u32 {
        read_be24(self.buffer.as_ref(), field::PSN)
    }

    /// Returns a copy of all fields of the header except pad count and version.
    pub fn fields(&self) -> BthFields {
        BthFields {
            opcode: self.opcode(),
            solicited: self.solicited(),
            mig_req: self.mig_req(),
            p_key: self.p_key(),
            fecn: self.fecn(),
            becn: self.becn(),
            dest_qp: self.dest_qp(),
            ack_req: self.ack_req(),
            psn: self.psn(),
        }
    }

    fn is_flag_set(&self, byte: usize, bit: u8) -> bool {
        self.buffer.as_ref()[byte] & bit != 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Bth<T> {
    /// Sets or clears FECN. The ICRC stays valid, because it does not cover this bit.
    pub fn set_fecn(&mut self, on: bool) {
        self.set_flag(field::CONGESTION, 0x80, on);
    }
    /// Sets or clears BECN. The ICRC stays valid, because it does not cover this bit.
    pub fn set_becn(&mut self, on: bool) {
        self.set_flag(field::CONGESTION, 0x40, on);
    }
    /// Sets the packet sequence number. Only the low 24 bits of `psn` are used. The ICRC is then wrong until
    /// the caller writes it again.
    pub fn set_psn(&mut self, psn: u32) {
        write_be24(self.buffer.as_mut(), field::PSN, psn);
    }

    fn set_flag(&mut self, byte: usize, bit: u8, on: bool) {
        let byte = &mut self.buffer.as_mut()[byte];
        *byte = if on { *byte | bit } else { *byte & !bit };
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Bth<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, pad {}", self.fields(), self.pad())
    }
}

/// The fields of a base transport header that a sender can choose. Two fields are missing here: the pad
/// count, which follows from the payload length, and the version, which is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BthFields {
    /// The operation of the packet.
    pub opcode: Opcode,
    /// Solicited event bit: the receiving NIC notifies the application about this message.
    pub solicited: bool,
    /// Migration request bit (MigReq). The bit is set in the normal state.
    pub mig_req: bool,
    /// Partition key of the packet. Bit 15 is set for full membership.
    pub p_key: u16,
    /// Forward explicit congestion notification (FECN, IBTA 9.2): true if the packet met congestion on its
    /// path. The ICRC does not cover this bit.
    pub fecn: bool,
    /// Backward explicit congestion notification (BECN, IBTA 9.2): true in a CNP, which tells a sender to
    /// reduce its rate. The ICRC does not cover this bit.
    pub becn: bool,
    /// Destination queue pair number. Only the low 24 bits are used.
    pub dest_qp: u32,
    /// Whether the requester asks for an acknowledgement (AckReq).
    pub ack_req: bool,
    /// Packet sequence number. Only the low 24 bits are used.
    pub psn: u32,
}

impl BthFields {
    /// Makes a header with the usual values: the default partition key, MigReq set and all other flags clear.
    /// Only the low 24 bits of `dest_qp` and `psn` are used.
    pub const fn new(opcode: Opcode, dest_qp: u32, psn: u32) -> BthFields {
        BthFields {
            opcode,
            solicited: false,
            mig_req: true,
            p_key: DEFAULT_P_KEY,
            fecn: false,
            becn: false,
            dest_qp,
            ack_req: false,
            psn,
        }
    }

    /// Writes the header. The low 2 bits of `pad` are the pad count, and the version is 0.
    #[inline]
    pub fn emit(&self, pad: u8, header: &mut [u8; LEN]) {
        let bit = |on: bool, at: u8| u32::from(on) << at;
        let flags = bit(self.solicited, 23) | bit(self.mig_req, 22) | u32::from(pad & 3) << 20;
        // Three 32-bit words. Each word is built from its first field to its last field.
        let words = [
            u32::from(self.opcode.code()) << 24 | flags | u32::from(self.p_key),
            bit(self.fecn, 31) | bit(self.becn, 30) | self.dest_qp & MASK_24,
            bit(self.ack_req, 31) | self.psn & MASK_24,
        ];
        let (places, _) = header.as_chunks_mut();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
    }
}

impl fmt::Display for BthFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} qp {:#x} psn {}", self.opcode, self.dest_qp, self.psn)?;
        for (on, name) in [
            (self.solicited, " SE"),
            (self.ack_req, " AckReq"),
            (self.fecn, " FECN"),
            (self.becn, " BECN"),
        ] {
            if on {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opcode, name and length of extension headers, from Linux `ib_pack.h`. CNP is not in this table.
    const TABLE: [(u8, &str, usize); 39] = [
        (0x00, "RC_SEND_FIRST", 0),
        (0x01, "RC_SEND_MIDDLE", 0),
        (0x02, "RC_SEND_LAST", 0),
        (0x03, "RC_SEND_LAST_IMM", 4),
        (0x04, "RC_SEND_ONLY", 0),
        (0x05, "RC_SEND_ONLY_IMM", 4),
        (0x06, "RC_WRITE_FIRST", 16),
        (0x07, "RC_WRITE_MIDDLE", 0),
        (0x08, "RC_WRITE_LAST", 0),
        (0x09, "RC_WRITE_LAST_IMM", 4),
        (0x0a, "RC_WRITE_ONLY", 16),
        (0x0b, "RC_WRITE_ONLY_IMM", 20),
        (0x0c, "RC_READ_REQUEST", 16),
        (0x0d, "RC_READ_RESPONSE_FIRST", 4),
        (0x0e, "RC_READ_RESPONSE_MIDDLE", 0),
        (0x0f, "RC_READ_RESPONSE_LAST", 4),
        (0x10, "RC_READ_RESPONSE_ONLY", 4),
        (0x11, "RC_ACKNOWLEDGE", 4),
        (0x12, "RC_ATOMIC_ACKNOWLEDGE", 12),
        (0x13, "RC_COMPARE_SWAP", 28),
        (0x14, "RC_FETCH_ADD", 28),
        (0x16, "RC_SEND_LAST_INVALIDATE", 4),
        (0x17, "RC_SEND_ONLY_INVALIDATE", 4),
        (0x1c, "RC_FLUSH", 20),
        (0x1d, "RC_ATOMIC_WRITE", 16),
        (0x20, "UC_SEND_FIRST", 0),
        (0x21, "UC_SEND_MIDDLE", 0),
        (0x22, "UC_SEND_LAST", 0),
        (0x23, "UC_SEND_LAST_IMM", 4),
        (0x24, "UC_SEND_ONLY", 0),
        (0x25, "UC_SEND_ONLY_IMM", 4),
        (0x26, "UC_WRITE_FIRST", 16),
        (0x27, "UC_WRITE_MIDDLE", 0),
        (0x28, "UC_WRITE_LAST", 0),
        (0x29, "UC_WRITE_LAST_IMM", 4),
        (0x2a, "UC_WRITE_ONLY", 16),
        (0x2b, "UC_WRITE_ONLY_IMM", 20),
        (0x64, "UD_SEND_ONLY", 8),
        (0x65, "UD_SEND_ONLY_IMM", 12),
    ];

    #[test]
    fn every_opcode_byte_round_trips_and_the_table_is_complete() {
        for code in 0..=u8::MAX {
            let opcode = Opcode::from_u8(code);
            assert_eq!(opcode.code(), code);
            match TABLE.iter().find(|(known, ..)| *known == code) {
                Some(&(_, name, len)) => assert_eq!((opcode.name(), opcode.extensions_len()), (name, len)),
                None if code == 0x81 => assert_eq!((opcode, opcode.extensions_len()), (Opcode::Cnp, 0)),
                None => {
                    assert!(!opcode.is_known() && opcode.extensions_len() == 0 && opcode.name() == "UNKNOWN")
                }
            }
        }
        assert_eq!(Opcode::ALL.len(), TABLE.len() + 1);
        assert_eq!(Opcode::from_u8(0x15).to_string(), "opcode 0x15");
    }

    #[test]
    fn transports_are_the_three_high_bits() {
        for opcode in Opcode::ALL {
            let expected = match opcode.name().split('_').next() {
                Some("RC") => Transport::Rc,
                Some("UC") => Transport::Uc,
                Some("UD") => Transport::Ud,
                _ => Transport::Cnp,
            };
            assert_eq!(opcode.transport(), expected, "{opcode}");
        }
        assert_eq!(Opcode::from_u8(0x5f).transport(), Transport::Rd);
        assert_eq!(Opcode::from_u8(0xbf).transport(), Transport::Xrc);
        assert_eq!(Opcode::from_u8(0xc0).transport(), Transport::Other);
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = [0xff; LEN];
        for available in 0..LEN {
            let expected = Err(Error::Truncated {
                header: "BTH",
                needed: LEN,
                available,
            });
            assert_eq!(Bth::new_checked(&bytes[..available]), expected);
        }
        let all_ones = Bth::new_checked(&bytes[..]).unwrap();
        assert_eq!(
            (all_ones.pad(), all_ones.version(), all_ones.p_key()),
            (3, 15, 0xffff)
        );
        assert_eq!((all_ones.dest_qp(), all_ones.psn()), (MASK_24, MASK_24));
    }

    #[test]
    fn setters_change_only_their_bits() {
        let mut bth = Bth::new_checked([0; LEN]).unwrap();
        bth.set_fecn(true);
        bth.set_becn(true);
        bth.set_psn(0xff12_3456);
        assert_eq!(bth.buffer, [0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0x12, 0x34, 0x56]);
        bth.set_fecn(false);
        assert_eq!((bth.fecn(), bth.becn()), (false, true));
    }
}
