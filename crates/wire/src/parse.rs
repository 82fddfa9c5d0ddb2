//! The parser of frame headers on the packet path. The result depends only on the frame and not on
//! the configuration.

mod flow_hash;

pub use crate::vlan::VlanTag;

use crate::vlan::{TAG_LEN, is_tpid};
use crate::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MAC_CONTROL, IPV4_LEN, IPV6_LEN, PROTOCOL_TCP,
    PROTOCOL_UDP,
};

/// Largest number of VLAN tags that the parser reads. A frame with more tags has the
/// payload [`Payload::Other`].
pub const TAGS_MAX: usize = 2;

/// The protocol that a frame carries after its Ethernet header and VLAN tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// IPv4 with a complete fixed header and valid length fields. The checksum is not verified.
    Ipv4,
    /// IPv6 with a complete fixed header. The payload length is not checked.
    Ipv6,
    /// MAC control without a VLAN tag (ethertype 0x8808).
    MacControl,
    /// Any other protocol, malformed IP, or a frame with more than [`TAGS_MAX`] VLAN tags.
    Other,
    /// The frame is shorter than an Ethernet header. Its addresses are not readable.
    Truncated,
}

/// The header fields of a frame that a switch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedHeaders {
    /// The protocol that the frame carries.
    pub payload: Payload,
    /// The outermost VLAN tag. `None` for a frame without a tag.
    pub tag: Option<VlanTag>,
    /// Offset in bytes of the header after the Ethernet header and at most [`TAGS_MAX`] VLAN tags. The value
    /// is 0 for [`Payload::Truncated`].
    pub l3_offset: u8,
    /// Traffic class byte of IP: DSCP (6 bits) and ECN (2 bits). The value is 0 if the frame is not an
    /// IP packet.
    pub tos: u8,
    /// Hash of the flow. For IP, the hash covers the addresses, the protocol and the ports of unfragmented
    /// UDP and TCP. If the frame is not an IP packet, the hash covers the MAC addresses. The hash is the same
    /// on every machine and in every release. The value is 0 for [`Payload::Truncated`].
    pub flow_hash: u32,
}

impl ParsedHeaders {
    /// Returns the DSCP of an IP packet, or `None` for other protocols.
    pub const fn dscp(&self) -> Option<u8> {
        match self.payload {
            Payload::Ipv4 | Payload::Ipv6 => Some(self.tos >> 2),
            _ => None,
        }
    }

    /// Returns whether the frame carries IPv4 without a VLAN tag.
    pub const fn is_plain_ipv4(&self) -> bool {
        matches!(self.payload, Payload::Ipv4) && self.l3_offset as usize == ETHERNET_LEN
    }

    /// Returns whether the frame is an IP packet whose ECN field is ECT(0), ECT(1) or CE. A switch may mark
    /// such a packet CE.
    pub const fn is_ecn_capable(&self) -> bool {
        matches!(self.payload, Payload::Ipv4 | Payload::Ipv6) && self.tos & 3 != 0
    }
}

/// Reads the headers of a frame without FCS. This function does not fail: a frame that is not readable is
/// [`Payload::Other`] or [`Payload::Truncated`].
#[inline(always)]
pub fn parse(frame: &[u8]) -> ParsedHeaders {
    parse_prefix(frame, frame.len())
}

/// Reads the headers of a frame like [`parse`]. Only the first bytes of the frame need to be stored. `prefix`
/// contains these bytes. `frame_len` is the length of the whole frame without FCS in bytes. The parser
/// compares length fields with `frame_len`.
#[inline(always)] // into what takes the result: a copy of it would wait for its fields
pub fn parse_prefix(prefix: &[u8], frame_len: usize) -> ParsedHeaders {
    // The struct is built in one place from values in registers.
    let (payload, tag, l3_offset, tos, flow_hash) = read_fields(prefix, frame_len);
    ParsedHeaders {
        payload,
        tag: unpack_tag(tag),
        l3_offset,
        tos,
        flow_hash,
    }
}

/// The fields of [`ParsedHeaders`], in the same order as in that struct. The VLAN tag is packed into one
/// word ([`pack_tag`]).
type PackedHeaders = (Payload, u32, u8, u8, u32);

/// Packs a tag into one word. The value 0 means no tag, because no TPID is 0.
///
/// The compiler would write an `Option<VlanTag>` to memory in two halves and then read the whole value. The
/// processor delays such a read until both halves are stored.
const fn pack_tag(tag: Option<VlanTag>) -> u32 {
    match tag {
        Some(VlanTag { tpid, tci }) => (tpid as u32) << 16 | tci as u32,
        None => 0,
    }
}

#[inline(always)]
const fn unpack_tag(tag: u32) -> Option<VlanTag> {
    match tag {
        0 => None,
        _ => Some(VlanTag {
            tpid: (tag >> 16) as u16,
            tci: tag as u16,
        }),
    }
}

#[inline(always)]
fn read_fields(prefix: &[u8], frame_len: usize) -> PackedHeaders {
    let Some(ethernet) = prefix.first_chunk::<ETHERNET_LEN>() else {
        return (Payload::Truncated, 0, 0, 0, 0);
    };
    if u16::from_be_bytes([ethernet[12], ethernet[13]]) != ETHERTYPE_IPV4 {
        return read_fields_of_other_frames(prefix, ethernet, frame_len);
    }
    let found = read_ipv4(&prefix[ETHERNET_LEN..], frame_len.saturating_sub(ETHERNET_LEN));
    fields_with_hash(ETHERNET_LEN, None, found, ethernet)
}

/// Builds the fields of a frame whose network header is at offset `at`. If the frame has no IP header to
/// hash, the flow hash covers the MAC addresses.
#[inline(always)]
fn fields_with_hash(
    at: usize,
    tag: Option<VlanTag>,
    (payload, tos, ip_hash): (Payload, u8, Option<u32>),
    ethernet: &[u8; ETHERNET_LEN],
) -> PackedHeaders {
    let flow_hash = match ip_hash {
        Some(hash) => hash,
        None => flow_hash::hash_ethernet(ethernet),
    };
    (payload, pack_tag(tag), at as u8, tos, flow_hash)
}

/// Reads the fields of a frame that is not untagged IPv4.
#[inline(never)]
fn read_fields_of_other_frames(
    prefix: &[u8],
    ethernet: &[u8; ETHERNET_LEN],
    frame_len: usize,
) -> PackedHeaders {
    let mut ethertype = u16::from_be_bytes([ethernet[12], ethernet[13]]);
    let mut at = ETHERNET_LEN;
    let mut tag = None;
    for _ in 0..TAGS_MAX {
        if !is_tpid(ethertype) {
            break;
        }
        // A VLAN tag counts only if the ethertype after it is present.
        let Some(&[a, b, c, d]) = prefix[at..].first_chunk::<TAG_LEN>() else {
            break;
        };
        tag = tag.or(Some(VlanTag {
            tpid: ethertype,
            tci: u16::from_be_bytes([a, b]),
        }));
        ethertype = u16::from_be_bytes([c, d]);
        at += TAG_LEN;
    }
    let l3 = &prefix[at..];
    let l3_len = frame_len.saturating_sub(at);
    let found = match ethertype {
        ETHERTYPE_IPV4 => read_ipv4(l3, l3_len),
        ETHERTYPE_IPV6 => read_ipv6(l3, l3_len),
        ETHERTYPE_MAC_CONTROL if tag.is_none() => (Payload::MacControl, 0, None),
        _ => OTHER_PROTOCOL,
    };
    fields_with_hash(at, tag, found, ethernet)
}

const OTHER_PROTOCOL: (Payload, u8, Option<u32>) = (Payload::Other, 0, None);

/// Reads an IPv4 header. `len` is the number of bytes from the IP header to the end of the frame. Bytes that
/// are not stored count as well.
#[inline(always)]
fn read_ipv4(l3: &[u8], len: usize) -> (Payload, u8, Option<u32>) {
    let Some(header) = l3.first_chunk::<IPV4_LEN>() else {
        return OTHER_PROTOCOL;
    };
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < IPV4_LEN || total_len < header_len || total_len > len {
        return OTHER_PROTOCOL;
    }
    // Options that are not stored do not make the packet malformed. The ports after them are not read.
    let ports = match header[9] {
        // Later fragments have no ports. All fragments of a packet must have the same hash, so the parser
        // ignores the ports of the first fragment.
        PROTOCOL_UDP | PROTOCOL_TCP if u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0 => {
            read_ports(l3, header_len, total_len)
        }
        _ => 0,
    };
    (
        Payload::Ipv4,
        header[1],
        Some(flow_hash::hash_ipv4(header, ports)),
    )
}

fn read_ipv6(l3: &[u8], len: usize) -> (Payload, u8, Option<u32>) {
    let Some(header) = l3.first_chunk::<IPV6_LEN>() else {
        return OTHER_PROTOCOL;
    };
    if header[0] >> 4 != 6 {
        return OTHER_PROTOCOL;
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let ports = match header[6] {
        PROTOCOL_UDP | PROTOCOL_TCP => read_ports(l3, IPV6_LEN, len.min(IPV6_LEN + payload_len)),
        _ => 0,
    };
    let tos = header[0] << 4 | header[1] >> 4;
    (Payload::Ipv6, tos, Some(flow_hash::hash_ipv6(header, ports)))
}

/// Returns both ports of UDP or TCP in one word. The result is 0 if the ports are outside the packet or are
/// not stored.
fn read_ports(l3: &[u8], at: usize, packet_len: usize) -> u32 {
    match l3.get(at..).and_then(|l4| l4.first_chunk::<4>()) {
        Some(ports) if at + 4 <= packet_len => u32::from_be_bytes(*ports),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
