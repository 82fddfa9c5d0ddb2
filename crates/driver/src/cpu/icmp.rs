//! Builds ICMP and ICMPv6 errors about packets that the switch does not forward. This module contains the
//! format of the errors, and the rules that suppress errors.
//!
//! An ICMP error quotes the packet that caused the error. This module copies the quoted packet byte by
//! byte, because smoltcp would change its header. The IP and ICMP headers of the error itself are built
//! with smoltcp.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr};
use xoff_wire::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6};

use super::addresses::InterfaceAddresses;
use super::{PuntedBytes, TTL, build_frame_with_zero_payload};

/// Maximum length of an ICMP error over IPv4 in bytes, with its IP header (RFC 1812 4.3.2.3).
const IPV4_ERROR_LEN_MAX: usize = 576;
/// Maximum length of an ICMPv6 error in bytes, with its IP header. The limit is the minimum MTU of IPv6 (RFC
/// 4443 2.4 (c)).
const IPV6_ERROR_LEN_MAX: usize = 1_280;
/// Smallest MTU of IPv6 in bytes. An ICMPv6 error never reports a smaller MTU (RFC 8200 5).
const IPV6_MTU_MIN: u32 = 1_280;
const IPV4_HEADER_LEN: usize = 20;
const IPV6_HEADER_LEN: usize = 40;
/// Length of an ICMP header in bytes: type, code, checksum, and four bytes that depend on the type.
const ICMP_HEADER_LEN: usize = 8;
/// DSCP of ICMP errors over IPv4: precedence 6, internetwork control (RFC 1812 4.3.2.5). ICMPv6 errors use
/// DSCP 0.
const DSCP_CS6: u8 = 48;

/// The ICMP error that the switch sends about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The TTL or hop limit of the packet has expired.
    TimeExceeded,
    /// No route to the destination exists.
    NetUnreachable,
    /// The next hop does not answer ARP or neighbour discovery.
    HostUnreachable,
    /// The packet is longer than the MTU of the egress interface.
    TooBig {
        /// MTU of the egress interface in bytes.
        mtu: u32,
    },
    /// The switch does not listen on the destination port of the packet.
    PortUnreachable,
    /// The switch does not implement the IPv4 protocol of the packet.
    ProtocolUnreachable,
}

impl IcmpError {
    /// Number of kinds of errors.
    pub const COUNT: usize = 6;
    /// Names of the kinds in counters, indexed by [`IcmpError::index`].
    pub const NAMES: [&'static str; IcmpError::COUNT] = [
        "time_exceeded",
        "net_unreachable",
        "host_unreachable",
        "packet_too_big",
        "port_unreachable",
        "protocol_unreachable",
    ];

    /// Returns the index of the kind in [`IcmpError::NAMES`] and in
    /// [`CpuCounters::errors`](super::CpuCounters::errors).
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

    /// Returns the type, the code and the last four bytes of the ICMP header.
    fn icmpv4_header(self) -> (u8, u8, [u8; 4]) {
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

    /// Returns the type, the code and the last four bytes of the ICMPv6 header. The smoltcp stack builds the
    /// error "unrecognized next header" itself, because this error contains a pointer into the packet.
    fn icmpv6_header(self) -> (u8, u8, [u8; 4]) {
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
        /// A rule that forbids an ICMP error about a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum IcmpErrorSuppressionReason { $(#[doc = $doc] $variant,)* }

        impl IcmpErrorSuppressionReason {
            /// All rules. The index of a rule is its number in
            /// [`CpuCounters::suppressed`](super::CpuCounters::suppressed).
            pub const ALL: &'static [IcmpErrorSuppressionReason] = &[$(IcmpErrorSuppressionReason::$variant,)*];
            /// Number of rules.
            pub const COUNT: usize = Self::ALL.len();

            /// Returns the name of the rule in counters.
            pub const fn name(self) -> &'static str {
                match self { $(IcmpErrorSuppressionReason::$variant => $name,)* }
            }
        }
    };
}

suppressions! {
    Malformed = "suppressed_malformed", "The packet has no complete IP header.";
    AboutError = "suppressed_about_error", "The packet is an ICMP error, or of a type that may be an error (RFC 1122 3.2.2, RFC 4443 2.4 (e.1), (e.2)).";
    ToGroup = "suppressed_to_group", "The packet was sent to a broadcast or multicast address (RFC 1122 3.2.2, RFC 4443 2.4 (e.3)).";
    LinkGroup = "suppressed_link_group", "The frame was sent to a broadcast or multicast MAC address (RFC 1122 3.2.2, RFC 4443 2.4 (e.4), (e.5)).";
    LaterFragment = "suppressed_later_fragment", "The packet is a fragment other than the first one (RFC 1122 3.2.2).";
    SourceNoHost = "suppressed_source_no_host", "The source address is not a single host (RFC 1812 4.3.2.7, RFC 4443 2.4 (e.6)), or is an address of the switch.";
    NoAddress = "suppressed_no_address", "The switch has no source address for the error.";
}

/// Builds the frame of an ICMP error for the data plane to route. If a rule forbids the error, returns
/// this rule.
pub(super) fn build_error(
    error: IcmpError,
    punt: &PuntedBytes<'_>,
    addresses: &InterfaceAddresses,
) -> Result<Vec<u8>, IcmpErrorSuppressionReason> {
    let l3 = punt.layer3_bytes();
    let destination = match l3.first().ok_or(IcmpErrorSuppressionReason::Malformed)? >> 4 {
        4 => IpAddr::V4(check_icmp_error_to_ipv4(punt, l3, addresses)?),
        6 => IpAddr::V6(check_icmp_error_to_ipv6(error, punt, l3)?),
        _ => return Err(IcmpErrorSuppressionReason::Malformed),
    };
    if addresses.is_own_address(destination, punt.interface) {
        return Err(IcmpErrorSuppressionReason::SourceNoHost);
    }
    match (addresses.source_address(destination, punt.interface), destination) {
        (Some(IpAddr::V4(from)), IpAddr::V4(to)) => {
            Ok(build_icmpv4(error, from, to, ipv4_without_padding(l3)))
        }
        (Some(IpAddr::V6(from)), IpAddr::V6(to)) => {
            Ok(build_icmpv6(error, from, to, ipv6_without_padding(l3)))
        }
        _ => Err(IcmpErrorSuppressionReason::NoAddress),
    }
}

/// Checks whether an ICMP error about an IPv4 packet is allowed. Returns the destination of the error, which
/// is the source of the packet. The packet may be truncated, but the IP header must be complete.
fn check_icmp_error_to_ipv4(
    punt: &PuntedBytes<'_>,
    l3: &[u8],
    addresses: &InterfaceAddresses,
) -> Result<Ipv4Addr, IcmpErrorSuppressionReason> {
    if l3.len() < IPV4_HEADER_LEN {
        return Err(IcmpErrorSuppressionReason::Malformed);
    }
    let packet = Ipv4Packet::new_unchecked(l3);
    let header_len = usize::from(packet.header_len());
    if header_len < IPV4_HEADER_LEN || ipv4_without_padding(l3).len() < header_len {
        return Err(IcmpErrorSuppressionReason::Malformed);
    }
    let (source, to) = (packet.src_addr(), packet.dst_addr());
    let is_first_fragment = packet.frag_offset() == 0;
    let icmp_type = ipv4_without_padding(l3).get(header_len).copied();
    if is_first_fragment
        && packet.next_header() == IpProtocol::Icmp
        && !icmp_type.is_some_and(is_icmpv4_query)
    {
        return Err(IcmpErrorSuppressionReason::AboutError);
    }
    if to.is_multicast() || to.is_broadcast() || addresses.is_directed_broadcast(to) {
        return Err(IcmpErrorSuppressionReason::ToGroup);
    }
    if punt.has_group_mac_destination() {
        return Err(IcmpErrorSuppressionReason::LinkGroup);
    }
    if !is_first_fragment {
        return Err(IcmpErrorSuppressionReason::LaterFragment);
    }
    if !is_ipv4_host(source) || addresses.is_directed_broadcast(source) {
        return Err(IcmpErrorSuppressionReason::SourceNoHost);
    }
    Ok(source)
}

/// Checks whether an ICMPv6 error about an IPv6 packet is allowed. Returns the destination of the error,
/// which is the source of the packet. The error "packet too big" is allowed even for multicast packets,
/// because path MTU discovery needs this error.
fn check_icmp_error_to_ipv6(
    error: IcmpError,
    punt: &PuntedBytes<'_>,
    l3: &[u8],
) -> Result<Ipv6Addr, IcmpErrorSuppressionReason> {
    if l3.len() < IPV6_HEADER_LEN {
        return Err(IcmpErrorSuppressionReason::Malformed);
    }
    let packet = Ipv6Packet::new_unchecked(l3);
    let is_too_big = matches!(error, IcmpError::TooBig { .. });
    if let Some(upper) = UpperLayerProtocol::find(ipv6_without_padding(l3))
        && upper.protocol == IpProtocol::Icmpv6
        && (upper.is_later_fragment || !upper.first_byte.is_some_and(is_icmpv6_informational))
    {
        return Err(IcmpErrorSuppressionReason::AboutError);
    }
    if packet.dst_addr().is_multicast() && !is_too_big {
        return Err(IcmpErrorSuppressionReason::ToGroup);
    }
    if punt.has_group_mac_destination() && !is_too_big {
        return Err(IcmpErrorSuppressionReason::LinkGroup);
    }
    match packet.src_addr() {
        source if is_ipv6_host(source) => Ok(source),
        _ => Err(IcmpErrorSuppressionReason::SourceNoHost),
    }
}

/// Returns whether an IPv4 address can belong to a single host. The function does not know the broadcast
/// addresses of networks, so the result is true for them.
pub(super) fn is_ipv4_host(address: Ipv4Addr) -> bool {
    // 0.0.0.0/8 is "this network". 240.0.0.0/4 is class E with the limited broadcast address.
    let first = address.octets()[0];
    first != 0 && first < 240 && !address.is_multicast() && !address.is_loopback()
}

/// Returns whether an IPv6 address can belong to a single host.
pub(super) fn is_ipv6_host(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
}

/// Returns whether an ICMP type is certainly not an error. The result is false for unknown types. RFC 1812
/// does not specify errors about packets of unknown types, so no error is sent.
fn is_icmpv4_query(icmp_type: u8) -> bool {
    // Echo, router discovery, timestamp, information, address mask and extended echo (RFC 8335).
    matches!(icmp_type, 0 | 8..=10 | 13..=18 | 42 | 43)
}

/// Returns whether an ICMPv6 type is informational. The highest bit of an error type is 0. A redirect is
/// treated as an error.
fn is_icmpv6_informational(icmp_type: u8) -> bool {
    const REDIRECT: u8 = 137;
    icmp_type & 0x80 != 0 && icmp_type != REDIRECT
}

/// The upper-layer protocol of an IPv6 packet, after its extension headers.
pub(super) struct UpperLayerProtocol {
    pub(super) protocol: IpProtocol,
    /// Whether the packet has a fragment header.
    pub(super) is_fragment: bool,
    /// Whether the packet is a fragment without the header of the upper layer.
    pub(super) is_later_fragment: bool,
    /// First byte of the upper-layer header. `None` if the packet ends before this header.
    first_byte: Option<u8>,
}

impl UpperLayerProtocol {
    /// Finds the upper-layer header of an IPv6 packet. Returns `None` if the packet ends inside its
    /// extension headers.
    pub(super) fn find(packet: &[u8]) -> Option<UpperLayerProtocol> {
        let mut protocol = IpProtocol::from(*packet.get(6)?);
        let mut rest = packet.get(IPV6_HEADER_LEN..)?;
        let mut is_fragment = false;
        // Every header has at least 8 bytes, so the loop ends with the packet.
        loop {
            let len = match protocol {
                IpProtocol::HopByHop | IpProtocol::Ipv6Route | IpProtocol::Ipv6Opts => {
                    8 + 8 * usize::from(*rest.get(1)?)
                }
                IpProtocol::Ipv6Frag => 8,
                IpProtocol::IpSecAh => 8 + 4 * usize::from(*rest.get(1)?),
                _ => {
                    return Some(UpperLayerProtocol {
                        protocol,
                        is_fragment,
                        is_later_fragment: false,
                        first_byte: rest.first().copied(),
                    });
                }
            };
            let next = IpProtocol::from(*rest.first()?);
            if protocol == IpProtocol::Ipv6Frag {
                is_fragment = true;
                let offset_and_flags = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]);
                if offset_and_flags & !7 != 0 {
                    return Some(UpperLayerProtocol {
                        protocol: next,
                        is_fragment,
                        is_later_fragment: true,
                        first_byte: None,
                    });
                }
            }
            rest = rest.get(len..)?;
            protocol = next;
        }
    }
}

/// Returns the stored bytes of an IPv4 packet, without the padding of the Ethernet frame.
fn ipv4_without_padding(l3: &[u8]) -> &[u8] {
    let len = usize::from(Ipv4Packet::new_unchecked(l3).total_len());
    &l3[..len.min(l3.len())]
}

fn ipv6_without_padding(l3: &[u8]) -> &[u8] {
    let len = Ipv6Packet::new_unchecked(l3).total_len();
    &l3[..len.min(l3.len())]
}

fn build_icmpv4(error: IcmpError, from: Ipv4Addr, to: Ipv4Addr, packet: &[u8]) -> Vec<u8> {
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
    let mut frame = build_frame_with_zero_payload(ETHERTYPE_IPV4, ip.buffer_len() + ip.payload_len);
    let mut header = Ipv4Packet::new_unchecked(&mut frame[ETHERNET_LEN..]);
    ip.emit(&mut header, &ChecksumCapabilities::ignored());
    header.set_dscp(DSCP_CS6);
    header.fill_checksum();
    let message = header.payload_mut();
    write_message(message, error.icmpv4_header(), &packet[..quoted]);
    Icmpv4Packet::new_unchecked(message).fill_checksum();
    frame
}

fn build_icmpv6(error: IcmpError, from: Ipv6Addr, to: Ipv6Addr, packet: &[u8]) -> Vec<u8> {
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
    let mut frame = build_frame_with_zero_payload(ETHERTYPE_IPV6, ip.buffer_len() + ip.payload_len);
    let mut header = Ipv6Packet::new_unchecked(&mut frame[ETHERNET_LEN..]);
    ip.emit(&mut header);
    let message = header.payload_mut();
    write_message(message, error.icmpv6_header(), &packet[..quoted]);
    Icmpv6Packet::new_unchecked(message).fill_checksum(&from, &to);
    frame
}

/// Writes an ICMP or ICMPv6 error without its checksum. Both protocols use the same layout.
fn write_message(message: &mut [u8], (kind, code, rest): (u8, u8, [u8; 4]), quoted: &[u8]) {
    message[0] = kind;
    message[1] = code;
    message[4..ICMP_HEADER_LEN].copy_from_slice(&rest);
    message[ICMP_HEADER_LEN..].copy_from_slice(quoted);
}
