//! ARP (RFC 826) and neighbour discovery (RFC 4861): the questions a router asks, and what it learns from those of others.
//! Questions about the router's own addresses are answered behind the CPU port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    HardwareAddress, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscRepr,
};

use xoff_wire::{ETHERNET_LEN, IPV6_LEN, MIN_FRAME_LEN};

/// What a frame says about who is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Talk {
    /// Who says it, and where that station is, if it says so.
    pub(crate) sender: Option<(IpAddr, [u8; 6])>,
    /// The address that is asked about or spoken to.
    pub(crate) target: IpAddr,
    /// A question, rather than an answer.
    pub(crate) question: bool,
    /// Nobody asked: the sender says by itself where it is (gratuitous ARP, RFC 5227; unsolicited advertisement, RFC 9131).
    pub(crate) announcement: bool,
}

/// Reads an ARP packet; `None` if it is none for Ethernet and IPv4, or malformed.
pub(crate) fn read_arp(l3: &[u8]) -> Option<Talk> {
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
    Some(Talk {
        // Without a source it is a probe for a duplicate (RFC 5227).
        sender: says.then_some((source_protocol_addr.into(), source_hardware_addr.0)),
        target: target_protocol_addr.into(),
        question: operation == ArpOperation::Request,
        announcement: source_protocol_addr == target_protocol_addr,
    })
}

/// Reads a neighbour solicitation or advertisement; `None` if the packet is none, or not valid (RFC 4861 7.1).
pub(crate) fn read_discovery(l3: &[u8]) -> Option<Talk> {
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
        NdiscRepr::NeighborSolicit { target_addr, lladdr } => Some(Talk {
            sender: lladdr
                .and_then(mac)
                .filter(|_| !source.is_unspecified())
                .map(|mac| (source.into(), mac)),
            target: target_addr.into(),
            question: true,
            announcement: false,
        }),
        NdiscRepr::NeighborAdvert {
            target_addr, lladdr, ..
        } if !target_addr.is_multicast() => Some(Talk {
            sender: lladdr.and_then(mac).map(|mac| (target_addr.into(), mac)),
            target: destination.into(),
            question: false,
            announcement: destination.is_multicast(),
        }),
        _ => None,
    }
}

/// A question to be sent: who has `target`? To `known`, or to everybody.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    Arp { source: Ipv4Addr, target: Ipv4Addr },
    Solicitation { source: Ipv6Addr, target: Ipv6Addr },
}

/// Octets of a neighbour solicitation with its source link-layer address option.
const SOLICITATION_LEN: usize = ETHERNET_LEN + IPV6_LEN + 32;

impl Question {
    /// Length of the frame in octets.
    pub(crate) fn frame_len(&self) -> usize {
        match self {
            Question::Arp { .. } => MIN_FRAME_LEN,
            Question::Solicitation { .. } => SOLICITATION_LEN,
        }
    }

    /// Writes the frame into `bytes`, which are zero and [`Question::frame_len`] long.
    pub(crate) fn emit(&self, mac: [u8; 6], known: Option<[u8; 6]>, bytes: &mut [u8]) {
        let own = EthernetAddress(mac);
        let ethernet = |dst_addr: EthernetAddress, ethertype| EthernetRepr {
            src_addr: own,
            dst_addr: known.map_or(dst_addr, EthernetAddress),
            ethertype,
        };
        match *self {
            Question::Arp { source, target } => {
                let header = ethernet(EthernetAddress::BROADCAST, EthernetProtocol::Arp);
                header.emit(&mut EthernetFrame::new_unchecked(&mut *bytes));
                let request = ArpRepr::EthernetIpv4 {
                    operation: ArpOperation::Request,
                    source_hardware_addr: own,
                    source_protocol_addr: source,
                    target_hardware_addr: EthernetAddress([0; 6]),
                    target_protocol_addr: target,
                };
                request.emit(&mut ArpPacket::new_unchecked(&mut bytes[ETHERNET_LEN..]));
            }
            Question::Solicitation { source, target } => {
                let group = solicited_node(target);
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

/// RFC 4291 2.7.1: ff02::1:ff00:0/104 with the low 24 bits of the address.
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(GROUP | address.to_bits() & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn frame(question: Question, known: Option<[u8; 6]>) -> Vec<u8> {
        let mut bytes = vec![0; question.frame_len()];
        question.emit(OWN, known, &mut bytes);
        bytes
    }

    #[test]
    fn an_arp_request_octet_by_octet() {
        let question = Question::Arp {
            source: [10, 0, 0, 1].into(),
            target: [10, 0, 0, 2].into(),
        };
        let bytes = frame(question, None);
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0,
            0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
        ];
        assert_eq!(bytes[..42], expected);
        assert_eq!(bytes[42..], [0; 18]);
        assert_eq!(frame(question, Some(OTHER))[..6], OTHER);
        let talk = read_arp(&bytes[14..]).unwrap();
        assert_eq!(talk.sender, Some(([10, 0, 0, 1].into(), OWN)));
        assert_eq!((talk.target, talk.question), ([10, 0, 0, 2].into(), true));
    }

    #[test]
    fn a_solicitation_is_read_as_it_was_meant() {
        let source: Ipv6Addr = "fe80::1".parse().unwrap();
        let target: Ipv6Addr = "2001:db8::1:2:3".parse().unwrap();
        let question = Question::Solicitation { source, target };
        let bytes = frame(question, None);
        assert_eq!(bytes[..6], [0x33, 0x33, 0xff, 2, 0, 3]);
        let talk = read_discovery(&bytes[14..]).unwrap();
        assert_eq!(talk.sender, Some((source.into(), OWN)));
        assert_eq!((talk.target, talk.question), (target.into(), true));
        assert_eq!(read_discovery(&frame(question, Some(OTHER))[14..]), Some(talk));
        for bit in 8 * (14 + 40)..8 * bytes.len() {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                read_discovery(&bad[14..]),
                None,
                "bit {bit}: the checksum is wrong"
            );
        }
        let mut far = bytes.clone();
        far[14 + 7] = 254;
        assert_eq!(read_discovery(&far[14..]), None, "came through a router");
    }

    #[test]
    fn what_is_cut_off_says_nothing() {
        let arp = Question::Arp {
            source: [10, 0, 0, 1].into(),
            target: [10, 0, 0, 2].into(),
        };
        let bytes = frame(arp, None);
        (14..42).for_each(|end| assert_eq!(read_arp(&bytes[14..end]), None));
        let solicitation = Question::Solicitation {
            source: Ipv6Addr::from_bits(0xfe80 << 112 | 1),
            target: Ipv6Addr::from_bits(0xfe80 << 112 | 2),
        };
        let bytes = frame(solicitation, None);
        (14..bytes.len()).for_each(|end| assert_eq!(read_discovery(&bytes[14..end]), None));
    }
}
