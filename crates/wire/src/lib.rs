//! Wire formats: views over bytes, checked once.
//!
//! A view wraps the octets of a frame where they lie. `new_checked` looks at the lengths once and says why
//! it refuses; after that no accessor panics as long as the octets stay the same length. Nothing here
//! allocates, and nothing takes a frame apart to build it again: a switch edits the octets in place, because
//! the invariant CRC of RoCE covers fields that a re-emitted header would lose.
//!
//! Two strengths of check:
//! - *views* ([`Bth`], the extension headers, smoltcp's [`EthernetFrame`], [`Ipv4Packet`], [`Ipv6Packet`] and
//!   [`UdpPacket`]) ask only that their octets are there;
//! - *readers* of whole frames ([`RoceView`], [`MacControl::parse`], [`LinkQuality::parse`], [`icrc`]) also ask that the layers
//!   agree with each other, and name the one that does not.
//!
//! Ethernet II, IPv4, IPv6 and UDP are smoltcp's views. Its `Repr` types are not exported: their `emit`
//! clears DSCP, ECN and identification.
//!
//! Frames have no preamble and no FCS, as sockets see them.
#![forbid(unsafe_code)]

pub mod bth;
pub mod cnp;
mod error;
pub mod ext;
pub mod icrc;
pub mod link_quality;
pub mod mac_control;
pub mod parse;
pub mod rewrite;
pub mod roce;
mod summary;
pub mod vlan;

pub use bth::{Bth, BthFields, Opcode, Transport};
pub use cnp::Cnp;
pub use error::Error;
pub use ext::{Aeth, AtomicEth, Deth, Extension, ExtensionKind, NakCode, Reth, Syndrome};
pub use link_quality::LinkQuality;
pub use mac_control::{MacControl, Malformed, Pfc};
pub use rewrite::{Ecn, mark_ce, set_dscp};
pub use roce::{Addresses, BuildError, Path, RocePacket, RoceView};
pub use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket};
pub use summary::Summary;
pub use vlan::Tag;

use core::ops::Range;

/// PFC priorities of a port (IEEE 802.1Q).
pub const PRIORITIES: usize = 8;

/// Octets of an untagged Ethernet header.
pub const ETHERNET_LEN: usize = 14;
/// Octets of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;
/// Octets of the fixed IPv6 header.
pub const IPV6_LEN: usize = 40;
/// Octets of a UDP header.
pub const UDP_LEN: usize = 8;
/// Smallest frame without FCS that an Ethernet MAC sends (IEEE 802.3, 64 octets with FCS).
pub const MIN_FRAME_LEN: usize = 60;

/// Ethertype of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Ethertype of MAC control: PAUSE and PFC.
pub const ETHERTYPE_MAC_CONTROL: u16 = 0x8808;
/// IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// UDP destination port of RoCEv2 (IANA: roce).
pub const ROCE_UDP_PORT: u16 = 4791;

/// The big-endian number at `at`. Panics if it lies outside: callers have checked.
#[inline]
fn be16(bytes: &[u8], at: Range<usize>) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

#[inline]
fn be24(bytes: &[u8], at: Range<usize>) -> u32 {
    // Each such field is the end of a word of 32 bits: three octets by themselves would be put together by a dozen instructions.
    be32(bytes, at.start - 1..at.end) & 0x00ff_ffff
}

#[inline]
fn be32(bytes: &[u8], at: Range<usize>) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

#[inline]
fn be64(bytes: &[u8], at: Range<usize>) -> u64 {
    u64::from_be_bytes(array(bytes, at))
}

#[inline]
fn put24(bytes: &mut [u8], at: Range<usize>, value: u32) {
    bytes[at].copy_from_slice(&value.to_be_bytes()[1..]);
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: Range<usize>) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&bytes[at]);
    octets
}

/// Refuses a buffer that does not hold `needed` octets of `header`.
#[inline]
fn require(header: &'static str, bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() < needed {
        return Err(Error::Truncated {
            header,
            needed,
            available: bytes.len(),
        });
    }
    Ok(())
}
