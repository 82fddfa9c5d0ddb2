//! ICMP and ICMPv6 errors about packets that go no further: when they are sent, and what they look like.
//!
//! The quoted packet is the one that came in, octet by octet, so it is copied and not composed: smoltcp's representations
//! would write a header of their own for it. Around it, smoltcp's representations are used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr};

use super::addresses::Addresses;
use super::{ETHERNET_HEADER_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Punted, TTL, packet_frame};

/// Longest ICMP error over IPv4, IP header included (RFC 1812 4.3.2.3).
const IPV4_ERROR_LEN_MAX: usize = 576;
/// Longest ICMPv6 error, IP header included: the least MTU of IPv6 (RFC 4443 2.4 (c)).
const IPV6_ERROR_LEN_MAX: usize = 1_280;
/// The least MTU that IPv6 has, and so the least that is reported (RFC 8200 5).
const IPV6_MTU_MIN: u32 = 1_280;
const IPV4_HEADER_LEN: usize = 20;
const IPV6_HEADER_LEN: usize = 40;
/// Type, code, checksum, and four octets that depend on the type.
const ICMP_HEADER_LEN: usize = 8;
/// Precedence 6, internetwork control (RFC 1812 4.3.2.5), as a DSCP. ICMPv6 has no such rule; there it is 0.
const DSCP_CS6: u8 = 48;

/// What a sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Its packet has crossed too many routers.
    TimeExceeded,
    /// There is no route.
    NetUnreachable,
    /// The neighbour did not answer.
    HostUnreachable,
    /// The packet is longer than the way allows.
    TooBig {
        /// In octets.
        mtu: u32,
    },
    /// Nothing listens on that port of the switch.
    PortUnreachable,
    /// The switch does not speak that protocol; of IPv4.
    ProtocolUnreachable,
}

impl IcmpError {
    /// How many kinds there are.
    pub const COUNT: usize = 6;
    /// Their names in counters, by [`IcmpError::index`].
    pub const NAMES: [&'static str; IcmpError::COUNT] = [
        "time_exceeded",
        "net_unreachable",
        "host_unreachable",
        "packet_too_big",
        "port_unreachable",
        "protocol_unreachable",
    ];

    /// Its number among the kinds.
    pub const fn index(self) -> usize {
        match self {
            IcmpError::TimeExceeded => 0,
            IcmpError::NetUnreachable => 1,
            IcmpError::HostUnreachable => 2,
            IcmpError::TooBig { .. } => 3,
            IcmpError::PortUnreachable => 4,
            IcmpError::ProtocolUnreachable => 5,
        }
    }

    /// Type, code and the last four octets of the header in ICMP.
    fn v4(self) -> (u8, u8, [u8; 4]) {
        match self {
            IcmpError::TimeExceeded => (11, 0, [0; 4]),
            IcmpError::NetUnreachable => (3, 0, [0; 4]),
            IcmpError::HostUnreachable => (3, 1, [0; 4]),
            IcmpError::ProtocolUnreachable => (3, 2, [0; 4]),
            IcmpError::PortUnreachable => (3, 3, [0; 4]),
            IcmpError::TooBig { mtu } => {
                let [high, low] = u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes();
                (3, 4, [0, 0, high, low])
            }
        }
    }

    /// The same in ICMPv6. "Unrecognised next header" would need a pointer; the endpoint sends that one itself.
    fn v6(self) -> (u8, u8, [u8; 4]) {
        match self {
            IcmpError::TimeExceeded => (3, 0, [0; 4]),
            IcmpError::NetUnreachable => (1, 0, [0; 4]),
            IcmpError::HostUnreachable => (1, 3, [0; 4]),
            IcmpError::PortUnreachable | IcmpError::ProtocolUnreachable => (1, 4, [0; 4]),
            IcmpError::TooBig { mtu } => (2, 0, mtu.max(IPV6_MTU_MIN).to_be_bytes()),
        }
    }
}

macro_rules! suppressions {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// Why nobody is told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Suppression { $(#[doc = $doc] $variant,)* }

        impl Suppression {
            /// Every rule, in the order of their numbers.
            pub const ALL: &'static [Suppression] = &[$(Suppression::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in counters.
            pub const fn name(self) -> &'static str {
                match self { $(Suppression::$variant => $name,)* }
            }
        }
    };
}

suppressions! {
    Malformed = "suppressed_malformed", "It is no whole IP header.";
    AboutError = "suppressed_about_error", "The packet is an ICMP error itself, or of a type that may be one (RFC 1122 3.2.2, RFC 4443 2.4 (e.1), (e.2)).";
    ToGroup = "suppressed_to_group", "It was sent to a broadcast or multicast address (RFC 1122 3.2.2, RFC 4443 2.4 (e.3)).";
    LinkGroup = "suppressed_link_group", "It was sent to a broadcast or multicast address of the link (RFC 1122 3.2.2, RFC 4443 2.4 (e.4), (e.5)).";
    LaterFragment = "suppressed_later_fragment", "It is a fragment other than the first (RFC 1122 3.2.2).";
    SourceNoHost = "suppressed_source_no_host", "Its source is no single host (RFC 1812 4.3.2.7, RFC 4443 2.4 (e.6)), or is the switch itself.";
    NoAddress = "suppressed_no_address", "The switch has no address to speak from.";
}

/// The error's frame for the data plane to route, or the rule that forbids it.
pub(super) fn compose(
    error: IcmpError,
    punted: &Punted<'_>,
    addresses: &Addresses,
) -> Result<Vec<u8>, Suppression> {
    let l3 = punted.l3();
    let towards = match l3.first().ok_or(Suppression::Malformed)? >> 4 {
        4 => IpAddr::V4(judge_v4(punted, l3, addresses)?),
        6 => IpAddr::V6(judge_v6(error, punted, l3)?),
        _ => return Err(Suppression::Malformed),
    };
    if addresses.own(towards, punted.interface) {
        return Err(Suppression::SourceNoHost);
    }
    match (addresses.speaker(towards, punted.interface), towards) {
        (Some(IpAddr::V4(from)), IpAddr::V4(to)) => Ok(compose_v4(error, from, to, quotable_v4(l3))),
        (Some(IpAddr::V6(from)), IpAddr::V6(to)) => Ok(compose_v6(error, from, to, quotable_v6(l3))),
        _ => Err(Suppression::NoAddress),
    }
}

/// Whom to tell about an IPv4 packet. The last octets may not be stored, but a whole header is wanted.
fn judge_v4(punted: &Punted<'_>, l3: &[u8], addresses: &Addresses) -> Result<Ipv4Addr, Suppression> {
    if l3.len() < IPV4_HEADER_LEN {
        return Err(Suppression::Malformed);
    }
    let packet = Ipv4Packet::new_unchecked(l3);
    let header_len = usize::from(packet.header_len());
    if header_len < IPV4_HEADER_LEN || quotable_v4(l3).len() < header_len {
        return Err(Suppression::Malformed);
    }
    let (source, to) = (packet.src_addr(), packet.dst_addr());
    let first = packet.frag_offset() == 0;
    let icmp_type = quotable_v4(l3).get(header_len).copied();
    if first && packet.next_header() == IpProtocol::Icmp && !icmp_type.is_some_and(is_v4_question) {
        return Err(Suppression::AboutError);
    }
    if to.is_multicast() || to.is_broadcast() || addresses.directed_broadcast(to) {
        return Err(Suppression::ToGroup);
    }
    if punted.is_to_link_group() {
        return Err(Suppression::LinkGroup);
    }
    if !first {
        return Err(Suppression::LaterFragment);
    }
    if !is_v4_host(source) || addresses.directed_broadcast(source) {
        return Err(Suppression::SourceNoHost);
    }
    Ok(source)
}

/// Whom to tell about an IPv6 packet. Those to groups may be too big, since that is how senders find the way's MTU.
fn judge_v6(error: IcmpError, punted: &Punted<'_>, l3: &[u8]) -> Result<Ipv6Addr, Suppression> {
    if l3.len() < IPV6_HEADER_LEN {
        return Err(Suppression::Malformed);
    }
    let packet = Ipv6Packet::new_unchecked(l3);
    let too_big = matches!(error, IcmpError::TooBig { .. });
    if let Some(upper) = Upper::of(quotable_v6(l3))
        && upper.protocol == IpProtocol::Icmpv6
        && (upper.later_fragment || !upper.first_octet.is_some_and(is_v6_information))
    {
        return Err(Suppression::AboutError);
    }
    if packet.dst_addr().is_multicast() && !too_big {
        return Err(Suppression::ToGroup);
    }
    if punted.is_to_link_group() && !too_big {
        return Err(Suppression::LinkGroup);
    }
    match packet.src_addr() {
        source if is_v6_host(source) => Ok(source),
        _ => Err(Suppression::SourceNoHost),
    }
}

/// One host's address, as far as the address itself tells.
pub(super) fn is_v4_host(address: Ipv4Addr) -> bool {
    // 0.0.0.0/8 is "this network", 240.0.0.0/4 is class E and holds the limited broadcast.
    let first = address.octets()[0];
    first != 0 && first < 240 && !address.is_multicast() && !address.is_loopback()
}

/// The same for IPv6.
pub(super) fn is_v6_host(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
}

/// An ICMP type that is no error, as far as is known. RFC 1812 leaves the unknown ones open; silence is safe.
fn is_v4_question(icmp_type: u8) -> bool {
    // Echo, router discovery, timestamp, information, address mask, and the extended echo of RFC 8335.
    matches!(icmp_type, 0 | 8..=10 | 13..=18 | 42 | 43)
}

/// ICMPv6 marks errors by the type's highest bit; a redirect counts as one.
fn is_v6_information(icmp_type: u8) -> bool {
    const REDIRECT: u8 = 137;
    icmp_type & 0x80 != 0 && icmp_type != REDIRECT
}

/// What stands behind the extension headers of an IPv6 packet.
pub(super) struct Upper {
    pub(super) protocol: IpProtocol,
    /// There is a fragment header.
    pub(super) fragment: bool,
    /// It is of a fragment that does not hold the upper layer's header.
    pub(super) later_fragment: bool,
    /// Of the upper layer's header, if there is any.
    first_octet: Option<u8>,
}

impl Upper {
    /// `None` if the extension headers do not end within the packet.
    pub(super) fn of(packet: &[u8]) -> Option<Upper> {
        let mut protocol = IpProtocol::from(*packet.get(6)?);
        let mut rest = packet.get(IPV6_HEADER_LEN..)?;
        let mut fragment = false;
        // Every header is 8 octets or more, so this ends with the packet.
        loop {
            let len = match protocol {
                IpProtocol::HopByHop | IpProtocol::Ipv6Route | IpProtocol::Ipv6Opts => {
                    8 + 8 * usize::from(*rest.get(1)?)
                }
                IpProtocol::Ipv6Frag => 8,
                IpProtocol::IpSecAh => 8 + 4 * usize::from(*rest.get(1)?),
                _ => {
                    return Some(Upper {
                        protocol,
                        fragment,
                        later_fragment: false,
                        first_octet: rest.first().copied(),
                    });
                }
            };
            let next = IpProtocol::from(*rest.first()?);
            if protocol == IpProtocol::Ipv6Frag {
                fragment = true;
                let offset_and_flags = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]);
                if offset_and_flags & !7 != 0 {
                    return Some(Upper {
                        protocol: next,
                        fragment,
                        later_fragment: true,
                        first_octet: None,
                    });
                }
            }
            rest = rest.get(len..)?;
            protocol = next;
        }
    }
}

/// The packet without what pads its frame; as much of it as is stored.
fn quotable_v4(l3: &[u8]) -> &[u8] {
    let len = usize::from(Ipv4Packet::new_unchecked(l3).total_len());
    &l3[..len.min(l3.len())]
}

fn quotable_v6(l3: &[u8]) -> &[u8] {
    let len = Ipv6Packet::new_unchecked(l3).total_len();
    &l3[..len.min(l3.len())]
}

fn compose_v4(error: IcmpError, from: Ipv4Addr, to: Ipv4Addr, packet: &[u8]) -> Vec<u8> {
    let quoted = packet
        .len()
        .min(IPV4_ERROR_LEN_MAX - IPV4_HEADER_LEN - ICMP_HEADER_LEN);
    let ip = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Icmp,
        payload_len: ICMP_HEADER_LEN + quoted,
        hop_limit: TTL,
    };
    let mut frame = packet_frame(ETHERTYPE_IPV4, ip.buffer_len() + ip.payload_len);
    let mut header = Ipv4Packet::new_unchecked(&mut frame[ETHERNET_HEADER_LEN..]);
    ip.emit(&mut header, &ChecksumCapabilities::ignored());
    header.set_dscp(DSCP_CS6);
    header.fill_checksum();
    let message = header.payload_mut();
    write_message(message, error.v4(), &packet[..quoted]);
    Icmpv4Packet::new_unchecked(message).fill_checksum();
    frame
}

fn compose_v6(error: IcmpError, from: Ipv6Addr, to: Ipv6Addr, packet: &[u8]) -> Vec<u8> {
    let quoted = packet
        .len()
        .min(IPV6_ERROR_LEN_MAX - IPV6_HEADER_LEN - ICMP_HEADER_LEN);
    let ip = Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Icmpv6,
        payload_len: ICMP_HEADER_LEN + quoted,
        hop_limit: TTL,
    };
    let mut frame = packet_frame(ETHERTYPE_IPV6, ip.buffer_len() + ip.payload_len);
    let mut header = Ipv6Packet::new_unchecked(&mut frame[ETHERNET_HEADER_LEN..]);
    ip.emit(&mut header);
    let message = header.payload_mut();
    write_message(message, error.v6(), &packet[..quoted]);
    Icmpv6Packet::new_unchecked(message).fill_checksum(&from, &to);
    frame
}

/// Both families agree on where things are. The checksum is left to the caller.
fn write_message(message: &mut [u8], (kind, code, rest): (u8, u8, [u8; 4]), quoted: &[u8]) {
    message[0] = kind;
    message[1] = code;
    message[4..ICMP_HEADER_LEN].copy_from_slice(&rest);
    message[ICMP_HEADER_LEN..].copy_from_slice(quoted);
}
