//! Why a frame cannot be read.

use core::fmt;

/// Why octets are not what a view or reader was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The octets end inside a header.
    Truncated {
        /// The header.
        header: &'static str,
        /// Octets it needs.
        needed: usize,
        /// Octets there are.
        available: usize,
    },
    /// Behind the Ethernet header and its tags there is neither IPv4 nor IPv6.
    NotIp {
        /// The ethertype found.
        ethertype: u16,
    },
    /// The version field of the IP header does not match the ethertype.
    IpVersion {
        /// What the ethertype promises.
        expected: u8,
        /// What the header says.
        found: u8,
    },
    /// A length field is smaller than its own header or larger than the octets there are.
    Length {
        /// The header that holds the field.
        header: &'static str,
        /// What it says, in octets.
        says: usize,
        /// The least that makes sense.
        least: usize,
        /// The most that makes sense.
        most: usize,
    },
    /// The IPv4 header has options: the ICRC of RoCEv2 is not defined over them.
    Ipv4Options {
        /// Header length, in octets.
        header_len: usize,
    },
    /// The packet is an IPv4 fragment, so neither ports nor ICRC can be found in it.
    Fragment,
    /// The IP payload is not UDP. IPv6 extension headers are reported here as well.
    NotUdp {
        /// Protocol (IPv4) or next header (IPv6).
        protocol: u8,
    },
    /// The UDP destination port is not 4791.
    NotRoce {
        /// The port found.
        port: u16,
    },
    /// The pad count is larger than what follows the headers, or the padded payload is no multiple of four
    /// octets.
    Padding {
        /// Pad count of the BTH.
        pad: u8,
        /// Octets of payload and pad.
        available: usize,
    },
    /// The BTH carries another opcode than the reader expects.
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
                write!(f, "{header}: needs {needed} octets, {available} are there")
            }
            Error::NotIp { ethertype } => write!(f, "ethertype {ethertype:#06x} is neither IPv4 nor IPv6"),
            Error::IpVersion { expected, found } => {
                write!(f, "IP version {found} behind the ethertype of IPv{expected}")
            }
            Error::Length {
                header,
                says,
                least,
                most,
            } => {
                write!(
                    f,
                    "{header}: length field says {says} octets, possible are {least} to {most}"
                )
            }
            Error::Ipv4Options { header_len } => {
                write!(
                    f,
                    "IPv4 header of {header_len} octets: an ICRC over options is not defined"
                )
            }
            Error::Fragment => write!(f, "IPv4 fragment"),
            Error::NotUdp { protocol } => write!(f, "IP protocol {protocol} is not UDP"),
            Error::NotRoce { port } => write!(f, "UDP destination port {port} is not RoCEv2 (4791)"),
            Error::Padding { pad, available } => {
                write!(
                    f,
                    "BTH: pad count {pad} does not fit {available} octets of payload and pad"
                )
            }
            Error::Opcode { found } => write!(f, "BTH: unexpected opcode {found:#04x}"),
        }
    }
}

impl core::error::Error for Error {}
