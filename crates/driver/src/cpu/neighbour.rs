//! Replies to ARP requests and neighbour solicitations.
//!
//! The replies are built with smoltcp types, but without the smoltcp `Interface`, for several reasons. The
//! `Interface` answers neither ARP probes (RFC 5227, sender 0.0.0.0) nor duplicate address detection (RFC
//! 4862, source ::). The `Interface` supports only eight addresses and needs its own neighbour table. The
//! `Interface` also sends its advertisements as a host, without the router flag. RFC 4861 7.2.4 requires this
//! flag of a router. If a neighbour loses the flag, hosts remove their routes through this neighbour.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet,
    Ipv6Repr, NdiscNeighborFlags, NdiscRepr, RawHardwareAddress,
};

use super::addresses::CpuInterface;
use super::{ETHERNET_HEADER_LEN, ETHERTYPE_ARP, ETHERTYPE_IPV6, MIN_FRAME_LEN, PuntedBytes};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
/// Hop limit of neighbour discovery. A packet with another hop limit has crossed a router and is ignored (RFC
/// 4861).
const HOP_LIMIT: u8 = 255;

/// Builds the reply to an ARP request for an address of `own`. Returns `None` for other frames.
pub(super) fn answer_arp_request(own: &CpuInterface, l3: &[u8]) -> Option<Vec<u8>> {
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
        || !own.has_address(target_protocol_addr.into())
        || !is_station_address(source_hardware_addr)
        || !is_valid_sender(own, source_protocol_addr)
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
    let mut frame = build_frame(own, source_hardware_addr.0, ETHERTYPE_ARP, reply.buffer_len());
    reply.emit(&mut ArpPacket::new_unchecked(&mut frame[ETHERNET_HEADER_LEN..]));
    Some(frame)
}

/// Returns whether an ARP sender address is acceptable. The address must be a host address or 0.0.0.0 (a
/// probe), and must not be an address of `own`. If the sender uses an address of `own`, a host claims an
/// address of the switch.
fn is_valid_sender(own: &CpuInterface, sender: Ipv4Addr) -> bool {
    let is_host = !sender.is_multicast() && !sender.is_broadcast() && !sender.is_loopback();
    is_host && !own.has_address(sender.into())
}

/// Builds the advertisement that answers a solicitation for an address of `own` (RFC 4861 7.1.1 and 7.2.4).
pub(super) fn answer_solicitation(own: &CpuInterface, punt: &PuntedBytes<'_>) -> Option<Vec<u8>> {
    let packet = Ipv6Packet::new_checked(punt.layer3_bytes()).ok()?;
    let (source, to) = (packet.src_addr(), packet.dst_addr());
    if packet.version() != 6
        || packet.next_header() != IpProtocol::Icmpv6
        || packet.hop_limit() != HOP_LIMIT
        || own.has_address(source.into())
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
    if !own.has_address(IpAddr::V6(target_addr))
        || (to != target_addr && to != solicited_node_group(target_addr))
    {
        return None;
    }
    let (peer, peer_mac) = match source.is_unspecified() {
        // Duplicate address detection: another node wants the address. The reply goes to all nodes.
        true if lladdr.is_some() || to == target_addr => return None,
        true => (ALL_NODES, ALL_NODES_MAC),
        false => (source, solicitor_mac(lladdr, punt)?),
    };
    Some(build_advertisement(own, target_addr, peer, peer_mac))
}

/// Returns the MAC address of the sender of a solicitation. The address comes from the option of the message.
/// If the option is missing, as in a unicast probe, the address comes from the frame.
fn solicitor_mac(lladdr: Option<RawHardwareAddress>, punt: &PuntedBytes<'_>) -> Option<[u8; 6]> {
    let mac = match lladdr {
        Some(address) => *address.as_bytes().first_chunk::<6>()?,
        None => punt.source_mac()?,
    };
    is_station_address(EthernetAddress(mac)).then_some(mac)
}

fn build_advertisement(
    own: &CpuInterface,
    target_addr: Ipv6Addr,
    peer: Ipv6Addr,
    peer_mac: [u8; 6],
) -> Vec<u8> {
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
    let mut frame = build_frame(own, peer_mac, ETHERTYPE_IPV6, header_len + message_len);
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

fn solicited_node_group(target: Ipv6Addr) -> Ipv6Addr {
    let [.., high, middle, low] = target.octets();
    let octets = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, high, middle, low];
    Ipv6Addr::from(octets)
}

/// Returns whether a MAC address belongs to a single station. The result is false for group addresses and the
/// zero address.
fn is_station_address(mac: EthernetAddress) -> bool {
    mac.is_unicast() && mac.0 != [0; 6]
}

/// Builds a frame from `own` with `payload_len` zero bytes. The frame is padded to the minimum length of
/// Ethernet.
fn build_frame(own: &CpuInterface, destination: [u8; 6], ethertype: u16, payload_len: usize) -> Vec<u8> {
    let mut frame = vec![0; MIN_FRAME_LEN.max(ETHERNET_HEADER_LEN + payload_len)];
    frame[..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&own.mac);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}
