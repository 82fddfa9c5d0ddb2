//! Answers to ARP requests and neighbour solicitations.
//!
//! These are composed with smoltcp's representations, and not by its `Interface`, which answers neither ARP probes
//! (RFC 5227, sender 0.0.0.0) nor duplicate address detection (RFC 4862, source ::), knows only eight addresses,
//! advertises itself as a host (no router flag: RFC 4861 7.2.4 wants it, and hosts drop their routes through a neighbour
//! that loses it), and needs a neighbour table of its own to find the asker.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet,
    Ipv6Repr, NdiscNeighborFlags, NdiscRepr, RawHardwareAddress,
};

use super::addresses::Interface;
use super::{ETHERNET_HEADER_LEN, ETHERTYPE_ARP, ETHERTYPE_IPV6, MIN_FRAME_LEN, Punted};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
/// RFC 4861: neighbour discovery with any other hop limit has crossed a router, and is ignored.
const HOP_LIMIT: u8 = 255;

/// The reply to a request for an address of `own`; `None` if it is none.
pub(super) fn answer_arp(own: &Interface, l3: &[u8]) -> Option<Vec<u8>> {
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
    if operation != ArpOperation::Request
        || !own.has(target_protocol_addr.into())
        || !is_station(source_hardware_addr)
        || !asks_for_itself(own, source_protocol_addr)
    {
        return None;
    }
    let reply = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(own.mac),
        source_protocol_addr: target_protocol_addr,
        target_hardware_addr: source_hardware_addr,
        target_protocol_addr: source_protocol_addr,
    };
    let mut frame = frame(own, source_hardware_addr.0, ETHERTYPE_ARP, reply.buffer_len());
    reply.emit(&mut ArpPacket::new_unchecked(&mut frame[ETHERNET_HEADER_LEN..]));
    Some(frame)
}

/// A host's address, or none yet (a probe); not one that is ours, which somebody else claims.
fn asks_for_itself(own: &Interface, sender: Ipv4Addr) -> bool {
    let host = !sender.is_multicast() && !sender.is_broadcast() && !sender.is_loopback();
    host && !own.has(sender.into())
}

/// The advertisement that answers a solicitation for an address of `own` (RFC 4861 7.1.1 and 7.2.4).
pub(super) fn answer_solicitation(own: &Interface, punted: &Punted<'_>) -> Option<Vec<u8>> {
    let packet = Ipv6Packet::new_checked(punted.l3()).ok()?;
    let (source, to) = (packet.src_addr(), packet.dst_addr());
    if packet.version() != 6
        || packet.next_header() != IpProtocol::Icmpv6
        || packet.hop_limit() != HOP_LIMIT
        || own.has(source.into())
        || source.is_multicast()
    {
        return None;
    }
    let message = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    let caps = ChecksumCapabilities::default();
    let Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) =
        Icmpv6Repr::parse(&source, &to, &message, &caps).ok()?
    else {
        return None;
    };
    if !own.has(IpAddr::V6(target_addr)) || (to != target_addr && to != solicited_node(target_addr)) {
        return None;
    }
    let (peer, peer_mac) = match source.is_unspecified() {
        // Duplicate address detection: somebody else wants our address, and hears so with all other nodes.
        true if lladdr.is_some() || to == target_addr => return None,
        true => (ALL_NODES, ALL_NODES_MAC),
        false => (source, asker(lladdr, punted)?),
    };
    Some(advertise(own, target_addr, peer, peer_mac))
}

/// The asker's address on the link: as it says, else as the frame says, which a unicast probe may rely on.
fn asker(lladdr: Option<RawHardwareAddress>, punted: &Punted<'_>) -> Option<[u8; 6]> {
    let mac = match lladdr {
        Some(address) => *address.as_bytes().first_chunk::<6>()?,
        None => punted.source_mac()?,
    };
    is_station(EthernetAddress(mac)).then_some(mac)
}

fn advertise(own: &Interface, target_addr: Ipv6Addr, peer: Ipv6Addr, peer_mac: [u8; 6]) -> Vec<u8> {
    let mut flags = NdiscNeighborFlags::ROUTER | NdiscNeighborFlags::OVERRIDE;
    flags.set(NdiscNeighborFlags::SOLICITED, peer != ALL_NODES);
    let message = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
        flags,
        target_addr,
        lladdr: Some(EthernetAddress(own.mac).into()),
    });
    let ip = Ipv6Repr {
        src_addr: target_addr,
        dst_addr: peer,
        next_header: IpProtocol::Icmpv6,
        payload_len: message.buffer_len(),
        hop_limit: HOP_LIMIT,
    };
    let (header_len, message_len) = (ip.buffer_len(), message.buffer_len());
    let mut frame = frame(own, peer_mac, ETHERTYPE_IPV6, header_len + message_len);
    let l3 = &mut frame[ETHERNET_HEADER_LEN..];
    ip.emit(&mut Ipv6Packet::new_unchecked(&mut *l3));
    message.emit(
        &target_addr,
        &peer,
        &mut Icmpv6Packet::new_unchecked(&mut l3[header_len..][..message_len]),
        &ChecksumCapabilities::default(),
    );
    frame
}

fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., high, middle, low] = target.octets();
    let octets = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, high, middle, low];
    Ipv6Addr::from(octets)
}

/// The address of one station; not a group, not nothing.
fn is_station(mac: EthernetAddress) -> bool {
    mac.is_unicast() && mac.0 != [0; 6]
}

/// A frame from `own` with room for `len` octets, as long as Ethernet wants it to be.
fn frame(own: &Interface, to: [u8; 6], ethertype: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![0; MIN_FRAME_LEN.max(ETHERNET_HEADER_LEN + len)];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&own.mac);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}
