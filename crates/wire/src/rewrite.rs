//! Functions that change header fields in place. They update the IPv4 header checksum incrementally (RFC
//! 1624), so a wrong checksum stays wrong. Most of the changed fields, such as DSCP, ECN, TTL and the
//! MAC addresses, are not covered by the ICRC. An exception is [`shorten_ip_packet`], which changes a
//! length field.

use super::read_be16;
use crate::parse::Payload;

/// The ECN field of IP (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not support ECN.
    #[default]
    NotEct = 0,
    /// ECN-capable transport, ECT(1).
    Ect1 = 1,
    /// ECN-capable transport, ECT(0). RoCE senders use this value.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Decodes the two low bits of the traffic class byte of IP.
    pub const fn from_tos(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

mod v4 {
    use core::ops::Range;

    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LEN: Range<usize> = 2..4;
    pub(super) const CHECKSUM: Range<usize> = 10..12;
}

/// Sets CE in an IP packet whose transport is ECN-capable. `l3` starts at the IP header
/// ([`ParsedHeaders::l3_offset`](crate::parse::ParsedHeaders::l3_offset)), and `payload` is the protocol that
/// the parser returned.
///
/// Returns true if the packet carries CE after the call. Returns false and changes nothing if the packet is
/// Not-ECT, not IP, or shorter than the fixed IP header.
pub fn mark_ce(l3: &mut [u8], payload: Payload) -> bool {
    match read_tos(l3, payload) {
        Some(old) if old & 3 != 0 => {
            replace_tos(l3, payload, old, old | 3);
            true
        }
        _ => false,
    }
}

/// Sets the DSCP of an IP packet to the low 6 bits of `dscp` and keeps ECN. `l3` and `payload` have the same
/// meaning as in [`mark_ce`]. Returns false and changes nothing if the packet is not IP or is shorter than
/// the fixed IP header.
pub fn set_dscp(l3: &mut [u8], payload: Payload, dscp: u8) -> bool {
    let Some(old) = read_tos(l3, payload) else {
        return false;
    };
    replace_tos(l3, payload, old, dscp << 2 | old & 3);
    true
}

/// Reads the traffic class byte of an IP packet: DSCP (6 bits) and ECN (2 bits). Returns `None` if the packet
/// is not IP or is shorter than the fixed IP header.
pub fn read_tos(l3: &[u8], payload: Payload) -> Option<u8> {
    match payload {
        Payload::Ipv4 if l3.len() >= super::IPV4_LEN => Some(l3[v4::TOS]),
        Payload::Ipv6 if l3.len() >= super::IPV6_LEN => Some(l3[0] << 4 | l3[1] >> 4),
        _ => None,
    }
}

fn replace_tos(l3: &mut [u8], payload: Payload, old: u8, new: u8) {
    if payload == Payload::Ipv6 {
        l3[0] = l3[0] & 0xf0 | new >> 4;
        l3[1] = l3[1] & 0x0f | new << 4;
        return;
    }
    let first = u16::from(l3[v4::VERSION_IHL]) << 8;
    let checksum = update_checksum(
        read_be16(l3, v4::CHECKSUM),
        first | u16::from(old),
        first | u16::from(new),
    );
    l3[v4::TOS] = new;
    l3[v4::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

/// Destination and source MAC address in the byte order of a frame. The addresses are stored as two words, so
/// writing them into a frame needs only two store instructions. If the bytes were stored one by one, the
/// processor would delay a later read of a whole word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    first: u64,
    rest: u32,
}

impl LinkAddresses {
    /// Packs the destination and the source MAC address of a frame.
    #[inline(always)]
    pub const fn new(destination: [u8; 6], source: [u8; 6]) -> LinkAddresses {
        let (destination, source) = (mac_to_u64(destination), mac_to_u64(source));
        LinkAddresses {
            first: destination | source << 48,
            rest: (source >> 16) as u32,
        }
    }

    #[inline(always)]
    fn write(self, bytes: &mut [u8; 12]) {
        bytes[..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..].copy_from_slice(&self.rest.to_le_bytes());
    }
}

#[inline(always)]
const fn mac_to_u64([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// Rewrites a frame for routing: sets both MAC addresses and decrements the TTL or hop limit. `l3_offset` and
/// `payload` are the fields of [`ParsedHeaders`](crate::parse::ParsedHeaders). The packet must have a
/// complete fixed IP header and a TTL or hop limit of at least 1. The function does not check this limit.
#[inline(always)]
pub fn rewrite_routed(frame: &mut [u8], l3_offset: u8, payload: Payload, addresses: LinkAddresses) {
    let Some((ethernet, l3)) = frame.split_at_mut_checked(usize::from(l3_offset)) else {
        return;
    };
    if let Some(bytes) = ethernet.first_chunk_mut::<12>() {
        addresses.write(bytes);
    }
    match payload {
        Payload::Ipv4 => {
            if let Some(header) = l3.first_chunk_mut() {
                decrement_ttl(header);
            }
        }
        Payload::Ipv6 if l3.len() >= super::IPV6_LEN => l3[7] = l3[7].wrapping_sub(1),
        _ => {}
    }
}

/// Rewrites an untagged IPv4 frame for routing, as [`rewrite_routed`] does. Returns false and changes nothing
/// if the frame is too short for both headers.
#[inline(always)]
pub fn rewrite_routed_ipv4(frame: &mut [u8], addresses: LinkAddresses) -> bool {
    let Some((ethernet, l3)) = frame.split_first_chunk_mut::<{ super::ETHERNET_LEN }>() else {
        return false;
    };
    let (Some(bytes), Some(header)) = (ethernet.first_chunk_mut(), l3.first_chunk_mut()) else {
        return false;
    };
    addresses.write(bytes);
    decrement_ttl(header);
    true
}

/// Decrements the TTL, which must not be 0, and corrects the checksum. Because the TTL changes by exactly 1,
/// the term `~m + m'` in the equation of [`update_checksum`] is always 0xfeff.
#[inline(always)]
fn decrement_ttl(header: &mut [u8; super::IPV4_LEN]) {
    const LESS: u32 = u16::from_ne_bytes([0xfe, 0xff]) as u32;
    header[8] = header[8].wrapping_sub(1);
    // A one's complement sum is the same in either byte order (RFC 1071, section 2 B).
    let sum = u32::from(!u16::from_ne_bytes([header[10], header[11]])) + LESS;
    let checksum = !((sum + (sum >> 16)) as u16);
    [header[10], header[11]] = checksum.to_ne_bytes();
}

/// Corrects the length field of an IP packet that was cut to `len` bytes, counted from the IP header. The
/// field is the total length of IPv4, with the checksum, or the payload length of IPv6. `l3` and
/// `payload` have the same meaning as in [`mark_ce`]. If the packet is not longer than `len`, the
/// function changes nothing.
pub fn shorten_ip_packet(l3: &mut [u8], payload: Payload, len: usize) {
    let field = match payload {
        Payload::Ipv4 if l3.len() >= super::IPV4_LEN => v4::TOTAL_LEN,
        Payload::Ipv6 if l3.len() >= super::IPV6_LEN => 4..6,
        _ => return,
    };
    let fixed = if payload == Payload::Ipv6 {
        super::IPV6_LEN
    } else {
        0
    };
    let old = read_be16(l3, field.clone());
    let new = len.saturating_sub(fixed).min(usize::from(old)) as u16;
    l3[field].copy_from_slice(&new.to_be_bytes());
    if payload == Payload::Ipv4 {
        let checksum = update_checksum(read_be16(l3, v4::CHECKSUM), old, new);
        l3[v4::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Updates an Internet checksum after one 16-bit word has changed (RFC 1624, equation 3: `HC' = ~(~HC + ~m +
/// m')`).
pub const fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    // Three 16-bit terms give at most two carries.
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4Packet, Ipv6Packet};

    const V4: [u8; 20] = [
        0x45, 0x6a, 0, 0x44, 0, 0, 0x40, 0, 0x40, 0x11, 0x26, 0x3d, 10, 0, 0, 1, 10, 0, 0, 2,
    ];

    fn v6(tos: u8) -> [u8; 40] {
        let mut header = [0x11; 40];
        header[0] = 0x60 | tos >> 4;
        header[1] = tos << 4 | 0x0a;
        header
    }

    #[test]
    fn routing_decrements_the_ttl_and_keeps_the_ipv4_checksum_valid() {
        for ttl in 1..=u8::MAX {
            for protocol in [0, 6, 17, 255] {
                let mut frame = [0xab; 14 + 20 + 4];
                frame[14..34].copy_from_slice(&V4);
                (frame[14 + 8], frame[14 + 9]) = (ttl, protocol);
                Ipv4Packet::new_unchecked(&mut frame[14..]).fill_checksum();
                let mut expected = frame;
                expected[..6].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
                expected[6..12].copy_from_slice(&[7, 8, 9, 10, 11, 12]);
                expected[14 + 8] -= 1;
                Ipv4Packet::new_unchecked(&mut expected[14..]).fill_checksum();
                let addresses = LinkAddresses::new([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]);
                rewrite_routed(&mut frame, 14, Payload::Ipv4, addresses);
                assert_eq!(frame[..24], expected[..24]);
                assert!(Ipv4Packet::new_unchecked(&frame[14..]).verify_checksum());
                assert_eq!(frame[26..], expected[26..]);
            }
        }
        let mut wrong = [0; 34];
        wrong[14..].copy_from_slice(&V4);
        wrong[24] ^= 1;
        rewrite_routed(&mut wrong, 14, Payload::Ipv4, LinkAddresses::new([0; 6], [0; 6]));
        assert!(
            !Ipv4Packet::new_unchecked(&wrong[14..]).verify_checksum(),
            "what was wrong stays wrong"
        );
        let mut six = [0; 54];
        six[14..].copy_from_slice(&v6(0));
        let mut expected = six;
        expected[14 + 7] -= 1;
        expected[..12].fill(9);
        rewrite_routed(&mut six, 14, Payload::Ipv6, LinkAddresses::new([9; 6], [9; 6]));
        assert_eq!(six, expected);
        for len in 0..34 {
            rewrite_routed(
                &mut [0; 34][..len],
                14,
                Payload::Ipv4,
                LinkAddresses::new([0; 6], [0; 6]),
            );
        }
    }

    #[test]
    fn decrement_ttl_equals_update_checksum() {
        for checksum in 0..=u16::MAX {
            for (ttl, protocol) in [(1, 0), (1, 17), (64, 6), (128, 255), (255, 17)] {
                let mut header = V4;
                (header[8], header[9]) = (ttl, protocol);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                decrement_ttl(&mut header);
                let word = u16::from_be_bytes([ttl, protocol]);
                let expected = update_checksum(checksum, word, word - 0x0100);
                assert_eq!(
                    header[8..12],
                    [[ttl - 1, protocol], expected.to_be_bytes()].concat()
                );
            }
        }
    }

    #[test]
    fn every_tos_and_dscp_keeps_the_ipv4_checksum_valid() {
        for tos in 0..=u8::MAX {
            let mut header = V4;
            header[1] = tos;
            Ipv4Packet::new_unchecked(&mut header).fill_checksum();
            let mut marked = header;
            assert_eq!(mark_ce(&mut marked, Payload::Ipv4), tos & 3 != 0);
            assert_eq!(marked[1], if tos & 3 == 0 { tos } else { tos | 3 });
            assert!(Ipv4Packet::new_unchecked(&marked).verify_checksum());
            for dscp in 0..64 {
                let mut rewritten = header;
                assert!(set_dscp(&mut rewritten, Payload::Ipv4, dscp));
                let view = Ipv4Packet::new_unchecked(&rewritten);
                assert_eq!((view.dscp(), view.ecn()), (dscp, tos & 3));
                assert!(view.verify_checksum());
                assert_eq!(
                    (&rewritten[2..10], &rewritten[12..]),
                    (&header[2..10], &header[12..])
                );
            }
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong() {
        for wrong in 0..=u16::MAX {
            let mut header = V4;
            header[10..12].copy_from_slice(&wrong.to_be_bytes());
            let right_before = Ipv4Packet::new_unchecked(&header).verify_checksum();
            assert!(mark_ce(&mut header, Payload::Ipv4));
            assert_eq!(
                Ipv4Packet::new_unchecked(&header).verify_checksum(),
                right_before,
                "{wrong:#06x}"
            );
        }
    }

    /// A checksum is the complement of a sum modulo 65535. A sum that is a positive multiple of 65535 counts
    /// as 0xFFFF.
    #[test]
    fn updated_checksums_equal_recomputed_checksums() {
        let edges = [0, 1, 2, 0x7fff, 0x8000, 0xfffd, 0xfffe, 0xffff];
        for (checksum, old, new) in edges
            .iter()
            .flat_map(|c| edges.iter().flat_map(move |o| edges.map(move |n| (*c, *o, n))))
        {
            let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
            let expected = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
            assert_eq!(
                update_checksum(checksum, old, new),
                !(expected as u16),
                "{checksum:#x} {old:#x} {new:#x}"
            );
        }
    }

    #[test]
    fn ipv6_keeps_version_and_flow_label() {
        for tos in 0..=u8::MAX {
            let mut header = v6(tos);
            assert_eq!(mark_ce(&mut header, Payload::Ipv6), tos & 3 != 0);
            assert_eq!(header, v6(if tos & 3 == 0 { tos } else { tos | 3 }));
            assert!(set_dscp(&mut header, Payload::Ipv6, 46));
            let view = Ipv6Packet::new_unchecked(&header);
            assert_eq!((view.version(), view.flow_label()), (6, 0xa_1111));
            assert_eq!(view.traffic_class() >> 2, 46);
        }
    }

    #[test]
    fn short_or_non_ip_packets_are_unchanged() {
        for (payload, needed) in [(Payload::Ipv4, 20), (Payload::Ipv6, 40), (Payload::Other, 64)] {
            for len in 0..needed {
                let mut bytes = [0xff; 64];
                assert!(!mark_ce(&mut bytes[..len], payload));
                assert!(!set_dscp(&mut bytes[..len], payload, 1));
                assert_eq!(bytes, [0xff; 64]);
            }
        }
    }

    #[test]
    fn ecn_codepoints() {
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            assert_eq!(Ecn::from_tos(0xfc | ecn as u8), ecn);
        }
    }
}
