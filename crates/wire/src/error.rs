//! The error of the frame readers.

use core::fmt;

/// The reason why bytes are not a valid header or RoCEv2 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The frame ends inside a header.
    Truncated {
        /// Name of the header, such as `BTH`.
        header: &'static str,
        /// Length of the header in bytes.
        needed: usize,
        /// Number of bytes from the start of the header to the end of the frame or packet.
        available: usize,
    },
    /// The ethertype after the Ethernet header and its VLAN tags is neither IPv4 nor IPv6.
    NotIp {
        /// The ethertype found.
        ethertype: u16,
    },
    /// The version field of the IP header does not match the ethertype.
    IpVersion {
        /// The IP version of the ethertype.
        expected: u8,
        /// The version field of the IP header.
        found: u8,
    },
    /// The value of a length field is too small or too large. The value must cover at least the header and
    /// must not exceed the bytes present. The UDP length must be the length of the IP payload.
    Length {
        /// Name of the header that contains the length field.
        header: &'static str,
        /// The value of the field in bytes.
        value: usize,
        /// The smallest valid value in bytes.
        min: usize,
        /// The largest valid value in bytes.
        max: usize,
    },
    /// The IPv4 header has options. The ICRC of RoCEv2 is not defined for such a packet.
    Ipv4Options {
        /// Header length in bytes, 24 to 60.
        header_len: usize,
    },
    /// The packet is an IPv4 fragment. A fragment has no complete transport headers and no ICRC of its own.
    Fragment,
    /// The IP payload is not UDP. An IPv6 extension header also gives this error.
    NotUdp {
        /// Protocol field of IPv4 or next header field of IPv6.
        protocol: u8,
    },
    /// The UDP destination port is not 4791.
    NotRoce {
        /// The destination port found.
        port: u16,
    },
    /// The pad count is larger than the payload, or the length of payload and pad is not a multiple
    /// of four bytes.
    Padding {
        /// Pad count in the BTH.
        pad: u8,
        /// Length of payload and pad in bytes.
        available: usize,
    },
    /// The opcode of the BTH is not the expected opcode, for example in [`Cnp::parse`](crate::Cnp::parse).
    Opcode {
        /// The opcode found.
        found: u8,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Truncated {
                header,
                needed,
                available,
            } => {
                write!(f, "{header}: {needed} bytes needed, {available} present")
            }
            Error::NotIp { ethertype } => write!(f, "ethertype {ethertype:#06x} is neither IPv4 nor IPv6"),
            Error::IpVersion { expected, found } => {
                write!(f, "IP version {found} after the ethertype of IPv{expected}")
            }
            Error::Length {
                header,
                value,
                min,
                max,
            } => {
                write!(
                    f,
                    "{header}: length field is {value} bytes, expected {min} to {max}"
                )
            }
            Error::Ipv4Options { header_len } => {
                write!(
                    f,
                    "IPv4 header of {header_len} bytes: the ICRC is not defined for options"
                )
            }
            Error::Fragment => write!(f, "IPv4 fragment"),
            Error::NotUdp { protocol } => write!(f, "IP protocol {protocol} is not UDP"),
            Error::NotRoce { port } => write!(f, "UDP destination port {port} is not RoCEv2 (4791)"),
            Error::Padding { pad, available } => {
                write!(
                    f,
                    "BTH: pad count {pad} does not match the length of payload and pad, {available}"
                )
            }
            Error::Opcode { found } => write!(f, "BTH: unexpected opcode {found:#04x}"),
        }
    }
}

impl core::error::Error for Error {}
