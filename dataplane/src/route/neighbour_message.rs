//! ARP (RFC 826) and neighbour discovery (RFC 4861): builds requests and parses received messages. The stack
//! behind the CPU port answers requests for the switch's own addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    HardwareAddress, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscRepr,
};

use xoff_wire::{ETHERNET_LEN, IPV6_LEN, MIN_FRAME_LEN};

/// An ARP packet, a neighbour solicitation or a neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighbourMessage {
    /// IP address and link address of the sender, if the message has them.
    pub(crate) sender: Option<(IpAddr, [u8; 6])>,
    /// The requested or addressed IP address.
    pub(crate) target: IpAddr,
    /// True for a request, false for an answer.
    pub(crate) is_request: bool,
    /// The sender announces its address without a request. Examples are gratuitous ARP (RFC 5227) and
    /// unsolicited advertisements (RFC 9131).
    pub(crate) is_announcement: bool,
}

/// Parses an ARP packet. Returns `None` if the packet is malformed or is not for Ethernet and IPv4.
pub(crate) fn parse_arp(l3: &[u8]) -> Option<NeighbourMessage> {
    let packet = ArpPacket::new_checked(l3).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr,
        target_protocol_addr,
        ..
    } = ArpRepr::parse(&packet).ok()?
    else {
        return None;
    };
    let says = !source_protocol_addr.is_unspecified() && !source_hardware_addr.is_multicast();
    Some(NeighbourMessage {
        // A packet without a source address is a probe for duplicates (RFC 5227).
        sender: says.then_some((source_protocol_addr.into(), source_hardware_addr.0)),
        target: target_protocol_addr.into(),
        is_request: operation == ArpOperation::Request,
        is_announcement: source_protocol_addr == target_protocol_addr,
    })
}

/// Parses a neighbour solicitation or advertisement. Returns `None` for other packets and for invalid
/// messages (RFC 4861 7.1).
pub(crate) fn parse_neighbour_discovery(l3: &[u8]) -> Option<NeighbourMessage> {
    let packet = Ipv6Packet::new_checked(l3).ok()?;
    if packet.next_header() != IpProtocol::Icmpv6 || packet.hop_limit() != 255 {
        return None;
    }
    let (source, destination) = (packet.src_addr(), packet.dst_addr());
    let icmp = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    let checked = ChecksumCapabilities::default();
    let Ok(Icmpv6Repr::Ndisc(message)) = Icmpv6Repr::parse(&source, &destination, &icmp, &checked) else {
        return None;
    };
    let mac = |address: smoltcp::wire::RawHardwareAddress| {
        let octets: [u8; 6] = address.as_bytes().try_into().ok()?;
        (octets[0] & 1 == 0).then_some(octets)
    };
    match message {
        NdiscRepr::NeighborSolicit { target_addr, lladdr } => Some(NeighbourMessage {
            sender: lladdr
                .and_then(mac)
                .filter(|_| !source.is_unspecified())
                .map(|mac| (source.into(), mac)),
            target: target_addr.into(),
            is_request: true,
            is_announcement: false,
        }),
        NdiscRepr::NeighborAdvert {
            target_addr, lladdr, ..
        } if !target_addr.is_multicast() => Some(NeighbourMessage {
            sender: lladdr.and_then(mac).map(|mac| (target_addr.into(), mac)),
            target: destination.into(),
            is_request: false,
            is_announcement: destination.is_multicast(),
        }),
        _ => None,
    }
}

/// A request for the link address of `target`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AddressRequest {
    Arp { source: Ipv4Addr, target: Ipv4Addr },
    Solicitation { source: Ipv6Addr, target: Ipv6Addr },
}

/// Length of a neighbour solicitation with its source link-layer address option, in bytes.
const SOLICITATION_LEN: usize = ETHERNET_LEN + IPV6_LEN + 32;

impl AddressRequest {
    /// Returns the length of the frame in bytes.
    pub(crate) fn frame_len(&self) -> usize {
        match self {
            AddressRequest::Arp { .. } => MIN_FRAME_LEN,
            AddressRequest::Solicitation { .. } => SOLICITATION_LEN,
        }
    }

    /// Writes the frame into `bytes`, which must be zero and have the length [`AddressRequest::frame_len`].
    /// If the link address is known, the request is unicast. Otherwise, the request goes to all stations.
    pub(crate) fn emit(&self, mac: [u8; 6], known: Option<[u8; 6]>, bytes: &mut [u8]) {
        let own = EthernetAddress(mac);
        let ethernet = |dst_addr: EthernetAddress, ethertype| EthernetRepr {
            src_addr: own,
            dst_addr: known.map_or(dst_addr, EthernetAddress),
            ethertype,
        };
        match *self {
            AddressRequest::Arp { source, target } => {
                let header = ethernet(EthernetAddress::BROADCAST, EthernetProtocol::Arp);
                header.emit(&mut EthernetFrame::new_unchecked(&mut *bytes));
                let arp = ArpRepr::EthernetIpv4 {
                    operation: ArpOperation::Request,
                    source_hardware_addr: own,
                    source_protocol_addr: source,
                    target_hardware_addr: EthernetAddress([0; 6]),
                    target_protocol_addr: target,
                };
                arp.emit(&mut ArpPacket::new_unchecked(&mut bytes[ETHERNET_LEN..]));
            }
            AddressRequest::Solicitation { source, target } => {
                let group = solicited_node_address(target);
                let [.., a, b, c, d] = group.octets();
                let header = ethernet(EthernetAddress([0x33, 0x33, a, b, c, d]), EthernetProtocol::Ipv6);
                header.emit(&mut EthernetFrame::new_unchecked(&mut *bytes));
                let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
                    target_addr: target,
                    lladdr: Some(HardwareAddress::Ethernet(own).into()),
                });
                let dst_addr = if known.is_some() { target } else { group };
                let ip = Ipv6Repr {
                    src_addr: source,
                    dst_addr,
                    next_header: IpProtocol::Icmpv6,
                    payload_len: message.buffer_len(),
                    hop_limit: 255,
                };
                let mut packet = Ipv6Packet::new_unchecked(&mut bytes[ETHERNET_LEN..]);
                ip.emit(&mut packet);
                let mut icmp = Icmpv6Packet::new_unchecked(packet.payload_mut());
                message.emit(&source, &dst_addr, &mut icmp, &ChecksumCapabilities::default());
            }
        }
    }
}

/// Returns the solicited-node multicast address (RFC 4291 2.7.1). The result has the prefix
/// ff02::1:ff00:0/104 and the low 24 bits of the address.
fn solicited_node_address(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | address.to_bits() & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn request_frame(request: AddressRequest, known: Option<[u8; 6]>) -> Vec<u8> {
        let mut bytes = vec![0; request.frame_len()];
        request.emit(OWN, known, &mut bytes);
        bytes
    }

    #[test]
    fn an_arp_request_has_the_expected_bytes() {
        let request = AddressRequest::Arp {
            source: [10, 0, 0, 1].into(),
            target: [10, 0, 0, 2].into(),
        };
        let bytes = request_frame(request, None);
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0,
            0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
        ];
        assert_eq!(bytes[..42], expected);
        assert_eq!(bytes[42..], [0; 18]);
        assert_eq!(request_frame(request, Some(OTHER))[..6], OTHER);
        let message = parse_arp(&bytes[14..]).unwrap();
        assert_eq!(message.sender, Some(([10, 0, 0, 1].into(), OWN)));
        assert_eq!((message.target, message.is_request), ([10, 0, 0, 2].into(), true));
    }

    #[test]
    fn a_solicitation_is_parsed_with_its_fields() {
        let source: Ipv6Addr = "fe80::1".parse().unwrap();
        let target: Ipv6Addr = "2001:db8::1:2:3".parse().unwrap();
        let request = AddressRequest::Solicitation { source, target };
        let bytes = request_frame(request, None);
        assert_eq!(bytes[..6], [0x33, 0x33, 0xff, 2, 0, 3]);
        let message = parse_neighbour_discovery(&bytes[14..]).unwrap();
        assert_eq!(message.sender, Some((source.into(), OWN)));
        assert_eq!((message.target, message.is_request), (target.into(), true));
        assert_eq!(
            parse_neighbour_discovery(&request_frame(request, Some(OTHER))[14..]),
            Some(message)
        );
        for bit in 8 * (14 + 40)..8 * bytes.len() {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                parse_neighbour_discovery(&bad[14..]),
                None,
                "bit {bit}: the checksum is wrong"
            );
        }
        let mut far = bytes.clone();
        far[14 + 7] = 254;
        assert_eq!(
            parse_neighbour_discovery(&far[14..]),
            None,
            "came through a router"
        );
    }

    #[test]
    fn truncated_messages_are_refused() {
        let arp = AddressRequest::Arp {
            source: [10, 0, 0, 1].into(),
            target: [10, 0, 0, 2].into(),
        };
        let bytes = request_frame(arp, None);
        (14..42).for_each(|end| assert_eq!(parse_arp(&bytes[14..end]), None));
        let solicitation = AddressRequest::Solicitation {
            source: Ipv6Addr::from_bits(0xfe80 << 112 | 1),
            target: Ipv6Addr::from_bits(0xfe80 << 112 | 2),
        };
        let bytes = request_frame(solicitation, None);
        (14..bytes.len()).for_each(|end| assert_eq!(parse_neighbour_discovery(&bytes[14..end]), None));
    }
}
