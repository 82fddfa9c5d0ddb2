//! Frame formats of lossless Ethernet: RoCEv2, PFC and 802.3x PAUSE, VLAN tags, link quality messages, ARP
//! and neighbour discovery, LLDP with the TLVs of DCBX.
//!
//! The crate reads and edits frames in place and allocates no memory, except for the contents of LLDP frames
//! ([`lldp`]) and for the LLDP and DCBX state of a port ([`lldp_port`], [`dcbx`]). A view such as [`Bth`] wraps the
//! bytes of a frame. `new_checked` checks the length of the bytes once, so the accessors of the view do not panic.
//!
//! A switch must edit RoCE packets in place, because the invariant CRC (ICRC) covers fields such as the IPv4
//! identification. Parsing a header into a struct and writing it again can lose such fields. For example,
//! `emit` of the `Repr` types of smoltcp clears DSCP, ECN and identification. This crate does not export
//! these types.
//!
//! Two kinds of readers exist:
//!
//! - Header views check only the length of one header. Examples are [`Bth`], the extension headers and the
//!   views of smoltcp ([`EthernetFrame`], [`Ipv4Packet`], [`Ipv6Packet`] and [`UdpPacket`]).
//! - Frame readers also check that the fields of all layers agree, such as ethertype and IP version. These
//!   are [`RoceView`], [`MacControl::parse`], [`LinkQuality::parse`], [`lldp::Lldpdu::parse`] and the functions
//!   of [`icrc`]. The errors of frame readers name the layer with the wrong field.
//!
//! A frame in this crate has neither preamble nor FCS, like a frame of a packet socket.
//!
//! # Examples
//!
//! Build a PFC frame that pauses priority 3, and parse it:
//!
//! ```
//! use xoff_wire::{MacControl, Pfc};
//!
//! let mut pfc = Pfc { enable: 1 << 3, ..Pfc::default() };
//! pfc.quanta[3] = 0xffff;
//! let frame = MacControl::Pfc(pfc).to_frame([2, 0, 0, 0, 0, 1]);
//!
//! assert_eq!(MacControl::parse(&frame), Ok(MacControl::Pfc(pfc)));
//! assert!(pfc.is_xoff());
//! ```
#![forbid(unsafe_code)]

pub mod bth;
pub mod cnp;
pub mod dcbx;
pub mod echo;
mod error;
pub mod ext;
mod hex_bytes;
pub mod icrc;
pub mod link_quality;
pub mod lldp;
pub mod lldp_port;
mod mac_address;
pub mod mac_control;
pub mod neighbour;
pub mod parse;
pub mod rewrite;
pub mod roce;
mod roce_layout;
mod summary;
pub mod vlan;

pub use bth::{Bth, BthFields, Opcode, Transport};
pub use cnp::Cnp;
pub use echo::EchoRequest;
pub use error::Error;
pub use ext::{Aeth, AtomicEth, Deth, Extension, ExtensionKind, NakCode, Reth, Syndrome};
pub use hex_bytes::parse_hex_bytes;
pub use link_quality::LinkQuality;
pub use mac_address::{DisplayMac, parse_unicast_mac};
pub use mac_control::{MacControl, MacControlError, Pfc};
pub use neighbour::{NeighbourFrame, NeighbourMessage};
pub use rewrite::{Ecn, mark_ce, set_dscp};
pub use roce::{Addresses, BuildError, FlowHeaders, RocePacket, RoceView};
pub use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, UdpPacket};
pub use summary::FrameSummary;
pub use vlan::VlanTag;

use core::ops::Range;

/// Number of PFC priorities of a port (IEEE 802.1Q).
pub const PRIORITIES: usize = 8;

/// Length of an Ethernet header without a VLAN tag, in bytes.
pub const ETHERNET_LEN: usize = 14;
/// Length of an IPv4 header without options, in bytes.
pub const IPV4_LEN: usize = 20;
/// Length of the fixed IPv6 header, in bytes.
pub const IPV6_LEN: usize = 40;
/// Length of a UDP header, in bytes.
pub const UDP_LEN: usize = 8;
/// Length of the ICRC of a RoCEv2 packet, in bytes.
pub const ICRC_LEN: usize = 4;
/// Length of the shortest Ethernet frame without FCS, in bytes (IEEE 802.3: 64 bytes with FCS).
pub const MIN_FRAME_LEN: usize = 60;

/// Ethertype of an IPv4 packet.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// Ethertype of an ARP packet.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// Ethertype of an IPv6 packet.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Ethertype of a MAC control frame: PAUSE or PFC.
pub const ETHERTYPE_MAC_CONTROL: u16 = 0x8808;
/// IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// UDP destination port of RoCEv2 (IANA service name `roce`).
pub const ROCE_UDP_PORT: u16 = 4791;

/// Writes an Ethernet header with an optional VLAN tag. Returns the length of the header in bytes.
#[inline]
fn emit_ethernet_header(
    frame: &mut [u8],
    destination: [u8; 6],
    source: [u8; 6],
    tag: Option<VlanTag>,
    ethertype: u16,
) -> usize {
    frame[0..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&source);
    let mut at = 12;
    if let Some(tag) = tag {
        frame[12..14].copy_from_slice(&tag.tpid.to_be_bytes());
        frame[14..16].copy_from_slice(&tag.tci.to_be_bytes());
        at += vlan::TAG_LEN;
    }
    frame[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
    at + 2
}

/// Reads a big-endian number. Panics if the range ends beyond `bytes`, so callers check the length first.
#[inline]
fn read_be16(bytes: &[u8], range: Range<usize>) -> u16 {
    u16::from_be_bytes(read_array(bytes, range))
}

#[inline]
fn read_be24(bytes: &[u8], range: Range<usize>) -> u32 {
    // All 24-bit fields are the low bytes of an aligned 32-bit word. One 32-bit load is faster than three
    // byte loads.
    read_be32(bytes, range.start - 1..range.end) & 0x00ff_ffff
}

#[inline]
fn read_be32(bytes: &[u8], range: Range<usize>) -> u32 {
    u32::from_be_bytes(read_array(bytes, range))
}

#[inline]
fn read_be64(bytes: &[u8], range: Range<usize>) -> u64 {
    u64::from_be_bytes(read_array(bytes, range))
}

#[inline]
fn write_be24(bytes: &mut [u8], range: Range<usize>, value: u32) {
    bytes[range].copy_from_slice(&value.to_be_bytes()[1..]);
}

#[inline]
fn read_array<const N: usize>(bytes: &[u8], range: Range<usize>) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[range]);
    array
}

/// Returns [`Error::Truncated`] if `bytes` is shorter than `needed`. `header` names the header in the error.
#[inline]
fn require_len(header: &'static str, bytes: &[u8], needed: usize) -> Result<(), Error> {
    if bytes.len() < needed {
        return Err(Error::Truncated {
            header,
            needed,
            available: bytes.len(),
        });
    }
    Ok(())
}
