//! IP packets, ARP and neighbour discovery for tests of the router.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::config::ROUTER_MAC;
use super::frames::{ipv4_checksum, station_mac};

pub fn parse_ipv4(address: &str) -> Ipv4Addr {
    address.parse().expect("an IPv4 address")
}

pub fn parse_ipv6(address: &str) -> Ipv6Addr {
    address.parse().expect("an IPv6 address")
}

/// Returns an Ethernet frame from the station at port `from` to the router.
pub fn frame_to_router(from: u8, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    frame_with_packet(ROUTER_MAC, station_mac(from), ethertype, packet)
}

/// Returns an Ethernet frame with a packet as its payload.
pub fn frame_with_packet(dst: [u8; 6], src: [u8; 6], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &ethertype.to_be_bytes(), packet].concat()
}

/// Returns a UDP packet over IPv4 with `payload` bytes of data. DF is set.
pub fn udp_ipv4_packet(src: &str, dst: &str, ttl: u8, payload: usize) -> Vec<u8> {
    let mut packet = vec![0; 28 + payload];
    let len = packet.len() as u16;
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[4..6].copy_from_slice(&0x1234_u16.to_be_bytes());
    packet[6] = 0x40;
    (packet[8], packet[9]) = (ttl, 17);
    packet[12..16].copy_from_slice(&parse_ipv4(src).octets());
    packet[16..20].copy_from_slice(&parse_ipv4(dst).octets());
    packet[20..22].copy_from_slice(&0xc000_u16.to_be_bytes());
    packet[22..24].copy_from_slice(&4791_u16.to_be_bytes());
    packet[24..26].copy_from_slice(&(8 + payload as u16).to_be_bytes());
    packet[28..]
        .iter_mut()
        .zip(1..)
        .for_each(|(octet, n)| *octet = n as u8);
    refresh_checksum(&mut packet);
    packet
}

/// Sets the header checksum of an IPv4 packet. The header may have options.
pub fn refresh_checksum(packet: &mut [u8]) {
    let header_len = usize::from(packet[0] & 15) * 4;
    let checksum = ipv4_checksum(&packet[..header_len]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns a UDP packet over IPv6.
pub fn udp_ipv6_packet(src: &str, dst: &str, hops: u8, payload: usize) -> Vec<u8> {
    let udp_len = 8 + payload as u16;
    let mut packet = vec![0; 48 + payload];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&udp_len.to_be_bytes());
    (packet[6], packet[7]) = (17, hops);
    packet[8..24].copy_from_slice(&parse_ipv6(src).octets());
    packet[24..40].copy_from_slice(&parse_ipv6(dst).octets());
    packet[40..42].copy_from_slice(&0xc000_u16.to_be_bytes());
    packet[42..44].copy_from_slice(&4791_u16.to_be_bytes());
    packet[44..46].copy_from_slice(&udp_len.to_be_bytes());
    packet
}

/// Returns an ARP packet. `operation` is 1 for a request and 2 for a reply.
pub fn arp_packet(operation: u8, sender: ([u8; 6], &str), target: ([u8; 6], &str)) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    for (mac, address) in [sender, target] {
        packet.extend(mac);
        packet.extend(parse_ipv4(address).octets());
    }
    packet
}

/// Returns the ARP reply of the station at port `n` to the router at `router`.
pub fn arp_reply_frame(n: u8, address: &str, router: &str) -> Vec<u8> {
    frame_to_router(
        n,
        0x0806,
        &arp_packet(2, (station_mac(n), address), (ROUTER_MAC, router)),
    )
}

/// Returns a neighbour solicitation (135) or advertisement (136) with the link-layer address option.
pub fn neighbour_discovery_packet(kind: u8, src: &str, dst: &str, target: &str, lladdr: [u8; 6]) -> Vec<u8> {
    let mut icmp = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    if kind == 136 {
        icmp[4] = 0x60; // solicited, override
    }
    icmp.extend(parse_ipv6(target).octets());
    icmp.extend([if kind == 135 { 1 } else { 2 }, 1]);
    icmp.extend(lladdr);
    let pseudo = [
        &parse_ipv6(src).octets()[..],
        &parse_ipv6(dst).octets(),
        &(icmp.len() as u32).to_be_bytes(),
        &[0, 0, 0, 58],
        &icmp,
    ]
    .concat();
    let mut sum: u32 = pseudo
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    icmp[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0, 0, icmp.len() as u8, 58, 255];
    packet.extend(parse_ipv6(src).octets());
    packet.extend(parse_ipv6(dst).octets());
    packet.extend(icmp);
    packet
}
