//! The parser of ARP packets, neighbour solicitations and neighbour advertisements.

use core::net::{IpAddr, Ipv6Addr};

use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, Icmpv6Message, Icmpv6Packet, NdiscRepr};

use super::frame::{NDISC_HOP_LIMIT, NeighbourFrame};
use crate::{Addresses, ETHERTYPE_ARP, ETHERTYPE_IPV6, IpProtocol, Ipv6Packet, read_be16};

/// A received ARP packet, neighbour solicitation or neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourMessage {
    /// True for an ARP request or a solicitation, false for an ARP reply or an advertisement.
    pub is_request: bool,
    /// True if the sender announces its address without a request (gratuitous ARP, RFC 5227; unsolicited
    /// advertisement, RFC 9131).
    pub is_announcement: bool,
    /// Whether a neighbour discovery message follows the rules of RFC 4861 7.1. The value is false if the hop
    /// limit is not 255, the code is not 0, an option is malformed or the advertised address is a multicast
    /// address. ARP packets are always valid.
    pub is_valid: bool,
    /// The IP address that belongs to `link_address`: the sender address of ARP, the source address of a
    /// solicitation, or the target address of an advertisement. An ARP probe (RFC 5227) and a solicitation
    /// for duplicate address detection (RFC 4862) have the unspecified address.
    pub sender: IpAddr,
    /// The MAC address of `sender`: the sender hardware address of ARP, or the link-layer address option of
    /// neighbour discovery. `None` if this option is missing.
    pub link_address: Option<[u8; 6]>,
    /// The requested address. In an advertisement this is the advertised address.
    pub target: IpAddr,
    /// Destination address of the IPv6 packet. For ARP, this field equals `target`.
    pub destination: IpAddr,
}

impl NeighbourMessage {
    /// Parses a frame. `l3_offset` is the offset of the ARP or IPv6 header, after the Ethernet header and all
    /// VLAN tags. Returns `None` if the frame is neither ARP nor neighbour discovery, is truncated, or has a
    /// wrong ICMPv6 checksum. If a message breaks a further rule of RFC 4861, it is still returned, but
    /// `is_valid` is false.
    pub fn parse(frame: &[u8], l3_offset: usize) -> Option<NeighbourMessage> {
        let l3 = frame.get(l3_offset..)?;
        match read_be16(frame, l3_offset.checked_sub(2)?..l3_offset) {
            ETHERTYPE_ARP => parse_arp(l3),
            ETHERTYPE_IPV6 => parse_ndisc(l3),
            _ => None,
        }
    }

    /// Builds the reply of the owner of `target` to this request. The reply goes to the MAC address
    /// `requester_mac`. If the request is for duplicate address detection, the reply is an advertisement to
    /// all nodes.
    pub fn reply(&self, requester_mac: [u8; 6], is_router: bool) -> Option<NeighbourFrame> {
        let has_address = self.sender != IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        Some(NeighbourFrame {
            is_request: false,
            addresses: Addresses::new(self.target, self.sender)?,
            receiver: has_address.then_some(requester_mac),
            is_router,
        })
    }
}

fn parse_arp(l3: &[u8]) -> Option<NeighbourMessage> {
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr,
        target_protocol_addr,
        ..
    } = ArpRepr::parse(&ArpPacket::new_checked(l3).ok()?).ok()?
    else {
        return None;
    };
    Some(NeighbourMessage {
        is_request: operation == ArpOperation::Request,
        is_announcement: source_protocol_addr == target_protocol_addr,
        is_valid: true,
        sender: source_protocol_addr.into(),
        link_address: Some(source_hardware_addr.0),
        target: target_protocol_addr.into(),
        destination: target_protocol_addr.into(),
    })
}

fn parse_ndisc(l3: &[u8]) -> Option<NeighbourMessage> {
    let packet = Ipv6Packet::new_checked(l3).ok()?;
    if packet.version() != 6 || packet.next_header() != IpProtocol::Icmpv6 {
        return None;
    }
    let (source, destination) = (packet.src_addr(), packet.dst_addr());
    let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    let is_request = match message.msg_type() {
        Icmpv6Message::NeighborSolicit => true,
        Icmpv6Message::NeighborAdvert => false,
        _ => return None,
    };
    if !message.verify_checksum(&source, &destination) {
        return None;
    }
    let target = message.target_addr();
    let fields = NdiscRepr::parse(&message).ok();
    let option = match fields {
        Some(NdiscRepr::NeighborSolicit { lladdr, .. } | NdiscRepr::NeighborAdvert { lladdr, .. }) => lladdr,
        _ => None,
    };
    Some(NeighbourMessage {
        is_request,
        is_announcement: !is_request && destination.is_multicast(),
        is_valid: packet.hop_limit() == NDISC_HOP_LIMIT
            && message.msg_code() == 0
            && fields.is_some()
            && (is_request || !target.is_multicast()),
        sender: if is_request { source } else { target }.into(),
        link_address: option.and_then(|address| address.as_bytes().try_into().ok()),
        target: target.into(),
        destination: destination.into(),
    })
}
