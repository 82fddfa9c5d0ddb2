//! Reads and checks the IP header of a packet before routing. The checks follow RFC 1812 sections 4.2.2 and
//! 5.2, RFC 4291 and RFC 6890.

use std::net::IpAddr;

use crate::drops::DropReason;
use xoff_wire::{IPV4_LEN, IPV6_LEN};

/// The header fields that routing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpHeaderFields {
    pub(crate) destination: IpDestination,
    /// Scope of both addresses. A packet with a link-local address is not forwarded, but may be for the
    /// switch itself.
    pub(crate) scope: AddressScope,
    /// Time to live or hop limit.
    pub(crate) ttl: u8,
    /// Length of the packet in bytes, including its IP header.
    pub(crate) len: u32,
    /// True if the packet must not be fragmented. If such a packet exceeds the MTU, the switch reports this
    /// to the sender. The value is always true for IPv6, because routers do not fragment IPv6 packets.
    pub(crate) dont_fragment: bool,
}

/// Destination address of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpDestination {
    V4(u32),
    V6(u128),
}

impl IpDestination {
    pub(crate) fn address(self) -> IpAddr {
        match self {
            IpDestination::V4(address) => IpAddr::V4(address.into()),
            IpDestination::V6(address) => IpAddr::V6(address.into()),
        }
    }
}

/// Scope of the source and destination addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressScope {
    /// The packet may be forwarded.
    Global,
    /// The packet must stay on its link. The value is the drop reason if the packet would be forwarded.
    Link(DropReason),
}

/// For each first byte of an IPv4 address: true if an address with this byte needs further checks as source
/// or destination.
const SPECIAL_IPV4_FIRST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    (table[0], table[127], table[169]) = (true, true, true);
    let mut octet = 224;
    while octet < 256 {
        table[octet] = true;
        octet += 1;
    }
    table
};

/// Checks an IPv4 header that the parser accepted ([`xoff_wire::parse::Payload::Ipv4`]), and
/// reads its fields.
#[inline(always)]
pub(crate) fn parse_ipv4(l3: &[u8]) -> Result<IpHeaderFields, DropReason> {
    let Some(header) = l3.first_chunk::<IPV4_LEN>() else {
        return Err(DropReason::IpHeaderError);
    };
    let header_len = usize::from(header[0] & 15) * 4;
    let sum = match header_len {
        IPV4_LEN => ones_complement_sum_20(header),
        // Options that are not stored cannot be checked. A complete frame always contains them.
        _ => l3.get(..header_len).map_or(0xffff, ones_complement_sum),
    };
    if sum != 0xffff {
        return Err(DropReason::IpHeaderError);
    }
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (source, destination) = (word(12), word(16));
    let mut scope = AddressScope::Global;
    if SPECIAL_IPV4_FIRST_BYTES[(source >> 24) as usize]
        || SPECIAL_IPV4_FIRST_BYTES[(destination >> 24) as usize]
    {
        scope = check_special_ipv4(source, destination)?;
    }
    if source == destination {
        return Err(DropReason::SipEqualsDip);
    }
    Ok(IpHeaderFields {
        destination: IpDestination::V4(destination),
        scope,
        ttl: header[8],
        len: u32::from(u16::from_be_bytes([header[2], header[3]])),
        dont_fragment: header[6] & 0x40 != 0,
    })
}

/// Checks IPv4 addresses of special-purpose ranges.
#[cold]
fn check_special_ipv4(source: u32, destination: u32) -> Result<AddressScope, DropReason> {
    match source >> 24 {
        0 => return Err(DropReason::SipUnspecified),
        127 => return Err(DropReason::SipLoopback),
        224..=239 => return Err(DropReason::SipMulticast),
        240.. if source == u32::MAX => return Err(DropReason::SipBroadcast),
        240.. => return Err(DropReason::SipClassE),
        _ => {}
    }
    match destination >> 24 {
        127 => return Err(DropReason::DipLoopback),
        0 | 240.. => return Err(DropReason::NonRoutable),
        224..=239 => return Err(DropReason::McDmacMismatch),
        _ => {}
    }
    const LINK_LOCAL: u32 = 0xa9fe; // 169.254/16, RFC 3927
    Ok(match (source >> 16, destination >> 16) {
        (LINK_LOCAL, _) => AddressScope::Link(DropReason::SipLinkLocal),
        (_, LINK_LOCAL) => AddressScope::Link(DropReason::DipLinkLocal),
        _ => AddressScope::Global,
    })
}

/// Checks a complete IPv6 header ([`xoff_wire::parse::Payload::Ipv6`]), and reads its fields. `available` is
/// the number of bytes from the header to the end of the frame.
#[inline]
pub(crate) fn parse_ipv6(l3: &[u8], available: u32) -> Result<IpHeaderFields, DropReason> {
    let Some(header) = l3.first_chunk::<IPV6_LEN>() else {
        return Err(DropReason::IpHeaderError);
    };
    let len = IPV6_LEN as u32 + u32::from(u16::from_be_bytes([header[4], header[5]]));
    if len > available {
        return Err(DropReason::IpHeaderError);
    }
    let address = |at: usize| {
        header[at..]
            .first_chunk()
            .map_or(0, |octets| u128::from_be_bytes(*octets))
    };
    let (source, destination) = (address(8), address(24));
    let mut scope = AddressScope::Global;
    // Global unicast is 2000::/3. The range fc00::/7 is routed too.
    if source >> 125 != 1 || destination >> 125 != 1 {
        scope = check_special_ipv6(source, destination)?;
    }
    if source == destination {
        return Err(DropReason::SipEqualsDip);
    }
    Ok(IpHeaderFields {
        destination: IpDestination::V6(destination),
        scope,
        ttl: header[7],
        len,
        dont_fragment: true,
    })
}

/// Checks IPv6 addresses outside the global unicast range.
#[cold]
fn check_special_ipv6(source: u128, destination: u128) -> Result<AddressScope, DropReason> {
    let multicast = |address: u128| address >> 120 == 0xff;
    let link_local = |address: u128| address >> 118 == 0xfe80 >> 6;
    let mapped_ipv4 = |address: u128| address >> 32 == 0xffff;
    if multicast(source) {
        return Err(DropReason::SipMulticast);
    }
    match source {
        0 => return Err(DropReason::SipUnspecified),
        1 => return Err(DropReason::SipLoopback),
        _ => {}
    }
    match destination {
        0 => return Err(DropReason::NonRoutable),
        1 => return Err(DropReason::DipLoopback),
        _ if multicast(destination) => return Err(DropReason::McDmacMismatch),
        _ if mapped_ipv4(source) || mapped_ipv4(destination) => return Err(DropReason::NonRoutable),
        _ => {}
    }
    Ok(if link_local(source) {
        AddressScope::Link(DropReason::SipLinkLocal)
    } else if link_local(destination) {
        AddressScope::Link(DropReason::DipLinkLocal)
    } else {
        AddressScope::Global
    })
}

/// Returns the one's complement sum of a header without options. With a correct checksum, the sum is 0xffff.
#[inline(always)]
fn ones_complement_sum_20(header: &[u8; IPV4_LEN]) -> u16 {
    let (words, _) = header.as_chunks::<8>();
    let first = u64::from_ne_bytes(words[0]);
    let (sum, carry) = first.overflowing_add(u64::from_ne_bytes(words[1]));
    let [.., a, b, c, d] = *header;
    let rest = u64::from(u32::from_ne_bytes([a, b, c, d])) + u64::from(carry);
    // After a carry the sum is small, so the addition below cannot overflow.
    let (sum, carry) = sum.overflowing_add(rest);
    fold_to_16_bits(sum + u64::from(carry))
}

/// Returns the one's complement sum of a header with options.
fn ones_complement_sum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0.iter();
    fold_to_16_bits(words.map(|word| u64::from(u16::from_ne_bytes(*word))).sum())
}

/// Folds a checksum to 16 bits. The result is compared with all ones, so the byte order has no influence (RFC
/// 1071 section 2 B).
#[inline(always)]
fn fold_to_16_bits(sum: u64) -> u16 {
    // Both halves are added in the upper half, so the carry of the lower sum is included.
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use xoff_wire::Ipv4Packet;

    #[test]
    fn folding_gives_the_ones_complement_sum() {
        let edges = [
            0,
            1,
            0xfffe,
            0xffff,
            0x1_0000,
            0xffff_ffff,
            0x1_0000_0000,
            u64::MAX - 1,
            u64::MAX,
        ];
        let sums = edges.iter().flat_map(|a| edges.map(|b| a.wrapping_add(b)));
        for sum in sums.chain((0..100_000).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))) {
            let expected = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
            assert_eq!(u64::from(fold_to_16_bits(sum)), expected, "{sum:#x}");
        }
    }

    fn ipv4_header(source: [u8; 4], destination: [u8; 4]) -> [u8; 20] {
        let mut header = [
            0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        header[12..16].copy_from_slice(&source);
        header[16..].copy_from_slice(&destination);
        Ipv4Packet::new_unchecked(&mut header).fill_checksum();
        header
    }

    #[test]
    fn every_single_bit_error_in_a_header_is_detected() {
        let mut good = [0; 60]; // whole whatever length a flipped bit claims
        good[..20].copy_from_slice(&ipv4_header([10, 0, 0, 1], [10, 0, 1, 1]));
        assert!(parse_ipv4(&good).is_ok());
        for bit in 0..160 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(parse_ipv4(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn martian_ipv4_addresses_give_their_drop_reason() {
        use DropReason::*;
        let host = [10, 0, 0, 1];
        for (source, destination, reason) in [
            ([0, 0, 0, 0], host, SipUnspecified),
            ([0, 1, 2, 3], host, SipUnspecified),
            ([127, 0, 0, 1], host, SipLoopback),
            ([224, 0, 0, 1], host, SipMulticast),
            ([239, 255, 255, 255], host, SipMulticast),
            ([240, 0, 0, 1], host, SipClassE),
            ([255, 255, 255, 255], host, SipBroadcast),
            (host, host, SipEqualsDip),
            (host, [127, 1, 1, 1], DipLoopback),
            (host, [0, 0, 0, 0], NonRoutable),
            (host, [255, 255, 255, 255], NonRoutable),
            (host, [241, 0, 0, 1], NonRoutable),
            (host, [225, 0, 0, 1], McDmacMismatch),
        ] {
            assert_eq!(
                parse_ipv4(&ipv4_header(source, destination)),
                Err(reason),
                "{source:?} {destination:?}"
            );
        }
        for (source, destination, reason) in [
            ([169, 254, 1, 1], host, SipLinkLocal),
            (host, [169, 254, 1, 1], DipLinkLocal),
        ] {
            let packet = parse_ipv4(&ipv4_header(source, destination)).unwrap();
            assert_eq!(packet.scope, AddressScope::Link(reason));
        }
        assert_eq!(
            parse_ipv4(&ipv4_header([169, 1, 1, 1], host)).unwrap().scope,
            AddressScope::Global
        );
    }

    #[test]
    fn martian_ipv6_addresses_give_their_drop_reason() {
        use DropReason::*;
        let host = 0x2001_0db8_u128 << 96 | 1;
        let local = 0xfd00_u128 << 112 | 1;
        let header = |source: u128, destination: u128| {
            let mut header = [0; 40];
            (header[0], header[7]) = (0x60, 64);
            header[8..24].copy_from_slice(&source.to_be_bytes());
            header[24..].copy_from_slice(&destination.to_be_bytes());
            header
        };
        for (source, destination, reason) in [
            (0, host, SipUnspecified),
            (1, host, SipLoopback),
            (0xff02 << 112 | 1, host, SipMulticast),
            (host, host, SipEqualsDip),
            (host, 0, NonRoutable),
            (host, 1, DipLoopback),
            (host, 0xff05 << 112 | 1, McDmacMismatch),
            (0xffff_0a00_0001, host, NonRoutable),
            (host, 0xffff_0a00_0001, NonRoutable),
        ] {
            assert_eq!(
                parse_ipv6(&header(source, destination), 40),
                Err(reason),
                "{source:x} {destination:x}"
            );
        }
        let scope = |source, destination| parse_ipv6(&header(source, destination), 40).unwrap().scope;
        assert_eq!(scope(0xfe80 << 112 | 1, host), AddressScope::Link(SipLinkLocal));
        assert_eq!(scope(host, 0xfebf << 112 | 1), AddressScope::Link(DipLinkLocal));
        assert_eq!(scope(local, host), AddressScope::Global);
        assert_eq!(
            parse_ipv6(&header(host, local), 39),
            Err(IpHeaderError),
            "longer than its frame"
        );
    }

    #[test]
    fn options_are_part_of_the_checksum() {
        let mut header = [0; 24];
        header[..20].copy_from_slice(&ipv4_header([10, 0, 0, 1], [10, 0, 1, 1]));
        (header[0], header[3], header[20]) = (0x46, 24, 0x94);
        header[10..12].fill(0);
        let right = !ones_complement_sum(&header);
        header[10..12].copy_from_slice(&right.to_ne_bytes());
        assert!(parse_ipv4(&header).is_ok());
        header[23] ^= 1;
        assert_eq!(parse_ipv4(&header), Err(DropReason::IpHeaderError));
    }
}
