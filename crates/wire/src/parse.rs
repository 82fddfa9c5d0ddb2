//! What follows from the bytes of a frame alone. I/O workers do this; no configuration is read.

mod flow_hash;

pub use crate::vlan::Tag;

use crate::vlan::{TAG_LEN, is_tpid};
use crate::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MAC_CONTROL, IPV4_LEN, IPV6_LEN, PROTOCOL_TCP,
    PROTOCOL_UDP,
};

/// Most tags that are looked behind. A frame with more is [`Payload::Other`].
pub const TAGS_MAX: usize = 2;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// IPv4 with a whole, well-formed header.
    Ipv4,
    /// IPv6 with a whole fixed header.
    Ipv6,
    /// MAC control (ethertype 0x8808), always untagged.
    MacControl,
    /// Anything else, malformed IP included.
    Other,
    /// Shorter than an Ethernet header: no address can be read.
    Truncated,
}

/// What the headers of a frame say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// What the frame carries.
    pub payload: Payload,
    /// Outermost tag.
    pub tag: Option<Tag>,
    /// Offset of the header behind the Ethernet header and its tags (at most two).
    pub l3_offset: u8,
    /// Traffic class octet of IP: DSCP (6 bits), ECN (2); 0 for others.
    pub tos: u8,
    /// Hash of IP addresses and protocol, and of the ports of unfragmented UDP and TCP; of MAC addresses for
    /// what is not IP. The same on every machine and in every release.
    pub flow_hash: u32,
}

impl Parsed {
    /// DSCP, if the frame is IP.
    pub const fn dscp(&self) -> Option<u8> {
        match self.payload {
            Payload::Ipv4 | Payload::Ipv6 => Some(self.tos >> 2),
            _ => None,
        }
    }

    /// Whether it is an untagged IPv4 packet: its header is right behind the Ethernet header.
    pub const fn is_plain_ipv4(&self) -> bool {
        matches!(self.payload, Payload::Ipv4) && self.l3_offset as usize == ETHERNET_LEN
    }

    /// Whether the frame may be marked CE: ECT(0), ECT(1) or CE already.
    pub const fn ecn_capable(&self) -> bool {
        matches!(self.payload, Payload::Ipv4 | Payload::Ipv6) && self.tos & 3 != 0
    }
}

/// Reads the headers of a frame (no FCS). Never fails: what cannot be read is [`Payload::Other`] or
/// [`Payload::Truncated`].
#[inline(always)]
pub fn parse(frame: &[u8]) -> Parsed {
    parse_prefix(frame, frame.len())
}

/// As [`parse`], for a frame of which only the first octets are stored: lengths are checked against
/// `frame_len`, the length of the whole frame, and only what lies in `prefix` is read.
#[inline(always)] // into what takes the result: a copy of it would wait for its fields
pub fn parse_prefix(prefix: &[u8], frame_len: usize) -> Parsed {
    // Put together in one place, of values that lie in registers.
    let (payload, tag, l3_offset, tos, flow_hash) = fields(prefix, frame_len);
    Parsed {
        payload,
        tag: unpacked(tag),
        l3_offset,
        tos,
        flow_hash,
    }
}

/// What a [`Parsed`] is made of, in its order. The tag is one word, see [`packed`].
type Fields = (Payload, u32, u8, u8, u32);

/// A tag as a word, 0 for none: no protocol id is 0. Where frames with and without IPv4 meet, an `Option` of a tag would lie in memory,
/// written in halves, and be read as a whole, which waits until the halves have been stored.
const fn packed(tag: Option<Tag>) -> u32 {
    match tag {
        Some(Tag { tpid, tci }) => (tpid as u32) << 16 | tci as u32,
        None => 0,
    }
}

#[inline(always)]
const fn unpacked(tag: u32) -> Option<Tag> {
    match tag {
        0 => None,
        _ => Some(Tag {
            tpid: (tag >> 16) as u16,
            tci: tag as u16,
        }),
    }
}

#[inline(always)]
fn fields(prefix: &[u8], frame_len: usize) -> Fields {
    let Some(ethernet) = prefix.first_chunk::<ETHERNET_LEN>() else {
        return (Payload::Truncated, 0, 0, 0, 0);
    };
    if u16::from_be_bytes([ethernet[12], ethernet[13]]) != ETHERTYPE_IPV4 {
        return fields_of_others(prefix, ethernet, frame_len);
    }
    let found = ipv4(&prefix[ETHERNET_LEN..], frame_len.saturating_sub(ETHERNET_LEN));
    fields_at(ETHERNET_LEN, None, found, ethernet)
}

/// What the header at `at` says, or the link addresses where that is no IP.
#[inline(always)]
fn fields_at(
    at: usize,
    tag: Option<Tag>,
    (payload, tos, ip_hash): (Payload, u8, Option<u32>),
    ethernet: &[u8; ETHERNET_LEN],
) -> Fields {
    let flow_hash = match ip_hash {
        Some(hash) => hash,
        None => flow_hash::ethernet(ethernet),
    };
    (payload, packed(tag), at as u8, tos, flow_hash)
}

/// The fields of a frame that is not IPv4 right behind its addresses.
#[inline(never)]
fn fields_of_others(prefix: &[u8], ethernet: &[u8; ETHERNET_LEN], frame_len: usize) -> Fields {
    let mut ethertype = u16::from_be_bytes([ethernet[12], ethernet[13]]);
    let mut at = ETHERNET_LEN;
    let mut tag = None;
    for _ in 0..TAGS_MAX {
        if !is_tpid(ethertype) {
            break;
        }
        // A tag whose ethertype is cut off is no tag: nothing could be said about what follows.
        let Some(&[a, b, c, d]) = prefix[at..].first_chunk::<TAG_LEN>() else {
            break;
        };
        tag = tag.or(Some(Tag {
            tpid: ethertype,
            tci: u16::from_be_bytes([a, b]),
        }));
        ethertype = u16::from_be_bytes([c, d]);
        at += TAG_LEN;
    }
    let l3 = &prefix[at..];
    let l3_len = frame_len.saturating_sub(at);
    let found = match ethertype {
        ETHERTYPE_IPV4 => ipv4(l3, l3_len),
        ETHERTYPE_IPV6 => ipv6(l3, l3_len),
        ETHERTYPE_MAC_CONTROL if tag.is_none() => (Payload::MacControl, 0, None),
        _ => OTHER,
    };
    fields_at(at, tag, found, ethernet)
}

const OTHER: (Payload, u8, Option<u32>) = (Payload::Other, 0, None);

/// `len`: octets from the IP header to the end of the frame, stored or not.
#[inline(always)]
fn ipv4(l3: &[u8], len: usize) -> (Payload, u8, Option<u32>) {
    let Some(header) = l3.first_chunk::<IPV4_LEN>() else {
        return OTHER;
    };
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < IPV4_LEN || total_len < header_len || total_len > len {
        return OTHER;
    }
    // Options that are not stored are unknown, not malformed; ports behind them are then not read.
    let ports = match header[9] {
        // More fragments, or an offset: later fragments have no ports, so the first may not use its own.
        PROTOCOL_UDP | PROTOCOL_TCP if u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0 => {
            ports(l3, header_len, total_len)
        }
        _ => 0,
    };
    (Payload::Ipv4, header[1], Some(flow_hash::ipv4(header, ports)))
}

fn ipv6(l3: &[u8], len: usize) -> (Payload, u8, Option<u32>) {
    let Some(header) = l3.first_chunk::<IPV6_LEN>() else {
        return OTHER;
    };
    if header[0] >> 4 != 6 {
        return OTHER;
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let ports = match header[6] {
        PROTOCOL_UDP | PROTOCOL_TCP => ports(l3, IPV6_LEN, len.min(IPV6_LEN + payload_len)),
        _ => 0,
    };
    let tos = header[0] << 4 | header[1] >> 4;
    (Payload::Ipv6, tos, Some(flow_hash::ipv6(header, ports)))
}

/// Both ports of UDP or TCP as they lie on the wire, 0 when they lie outside the packet or are not stored.
fn ports(l3: &[u8], at: usize, packet_len: usize) -> u32 {
    match l3.get(at..).and_then(|l4| l4.first_chunk::<4>()) {
        Some(ports) if at + 4 <= packet_len => u32::from_be_bytes(*ports),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
