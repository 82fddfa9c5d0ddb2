//! Tests of the CPU stack. An independent encoder has built the literal frames.

mod errors;
mod fuzz;
mod local;
mod neighbour;

use std::sync::Arc;

use ipnet::IpNet;
use smoltcp::wire::{Icmpv4Packet, Icmpv6Packet, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket};
use xoff_dataplane::config::{InterfaceAttachment, InterfaceConfig, RoutingConfig};
use xoff_dataplane::ids::InterfaceId;
use xoff_dataplane::{Picos, PuntReason};
use xoff_wire::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, MIN_FRAME_LEN};

use super::*;

/// A port with addresses of all kinds and MTU 9100.
const PORT: InterfaceId = InterfaceId(0);
/// A VLAN interface with MTU 1500.
const VLAN: InterfaceId = InterfaceId(1);
const LOOPBACK: InterfaceId = InterfaceId(2);
/// A port with only an IPv6 link-local address.
const UNNUMBERED: InterfaceId = InterfaceId(3);
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

fn interface_config(
    name: &str,
    attachment: InterfaceAttachment,
    mac: u8,
    mtu: u32,
    addresses: &[&str],
) -> InterfaceConfig {
    InterfaceConfig {
        name: name.to_owned(),
        attachment,
        mac: [2, 0, 0, 0, 0, mac],
        mtu,
        addresses: addresses.iter().map(|a| a.parse::<IpNet>().unwrap()).collect(),
    }
}

fn routing_config() -> RoutingConfig {
    let port = ["10.0.0.1/24", "2001:db8::1/64", "fe80::a0/64"];
    let vlan = [
        "192.168.1.1/24",
        "192.168.2.1/25",
        "fe80::a1/64",
        "2001:db8:1::1/64",
    ];
    RoutingConfig {
        interfaces: vec![
            interface_config("Ethernet0", InterfaceAttachment::Port(0), 0xa0, 9_100, &port),
            interface_config("Vlan100", InterfaceAttachment::Vlan(100), 0xa1, 1_500, &vlan),
            interface_config(
                "Loopback0",
                InterfaceAttachment::Loopback,
                0xa2,
                9_216,
                &["10.255.0.1/32", "2001:db8:ff::1/128"],
            ),
            interface_config(
                "Ethernet8",
                InterfaceAttachment::Port(8),
                0xa3,
                1_500,
                &["fe80::a3/64"],
            ),
        ],
        fib: Arc::default(),
        ..RoutingConfig::default()
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A CPU stack under test.
struct CpuBench {
    cpu: CpuStack,
    now: Picos,
}

impl CpuBench {
    fn new() -> CpuBench {
        CpuBench {
            cpu: CpuStack::new(&routing_config()),
            now: Picos::ZERO,
        }
    }

    /// Punts an untagged frame and returns the replies, which must be well-formed.
    fn punt_frame(&mut self, interface: InterfaceId, reason: PuntReason, bytes: &[u8]) -> Vec<Reply> {
        self.punt(&PuntedBytes {
            interface: Some(interface),
            reason,
            l3_offset: 14,
            bytes,
        })
    }

    fn punt(&mut self, punt: &PuntedBytes<'_>) -> Vec<Reply> {
        let mut replies = Vec::new();
        self.cpu.handle_punt(self.now, punt, &mut replies);
        replies.iter().for_each(assert_well_formed);
        replies
    }
}

/// Asserts that lengths and checksums are valid, and that the Ethernet addresses of a packet are zero.
fn assert_well_formed(reply: &Reply) {
    let bytes = reply.bytes();
    let ethertype = u16::from_be_bytes([bytes[12], bytes[13]]);
    let l3 = &bytes[ETHERNET_LEN..];
    match reply {
        Reply::Packet { bytes, .. } => assert_eq!(bytes[..12], [0; 12]),
        Reply::Frame { bytes, .. } => {
            assert!(bytes.len() >= MIN_FRAME_LEN);
            assert_eq!(bytes[6..11], [2, 0, 0, 0, 0], "from an interface");
        }
    }
    match ethertype {
        ETHERTYPE_ARP => {}
        ETHERTYPE_IPV4 => assert_valid_ipv4(l3),
        ETHERTYPE_IPV6 => assert_valid_ipv6(l3),
        other => panic!("ethertype {other:#06x}"),
    }
}

fn assert_valid_ipv4(l3: &[u8]) {
    let packet = Ipv4Packet::new_checked(l3).unwrap();
    assert!(packet.verify_checksum());
    assert_eq!(usize::from(packet.total_len()), l3.len());
    assert_eq!((packet.version(), packet.hop_limit()), (4, TTL));
    if packet.more_frags() || packet.frag_offset() != 0 {
        return;
    }
    let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
    match packet.next_header() {
        IpProtocol::Icmp => assert!(
            Icmpv4Packet::new_checked(packet.payload())
                .unwrap()
                .verify_checksum()
        ),
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload()).unwrap();
            assert!(segment.verify_checksum(&from, &to));
        }
        other => panic!("protocol {other}"),
    }
}

fn assert_valid_ipv6(l3: &[u8]) {
    let packet = Ipv6Packet::new_checked(l3).unwrap();
    assert_eq!(packet.total_len(), l3.len());
    assert_eq!(packet.version(), 6);
    assert!([TTL, 255].contains(&packet.hop_limit()));
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    match packet.next_header() {
        IpProtocol::Icmpv6 => {
            let message = Icmpv6Packet::new_checked(packet.payload()).unwrap();
            assert!(message.verify_checksum(&from, &to));
        }
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(packet.payload()).unwrap();
            assert!(segment.verify_checksum(&from.into(), &to.into()));
        }
        other => panic!("next header {other}"),
    }
}

/// Builds an Ethernet frame from the host to the switch with a packet.
fn frame_with_packet(packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 {
        ETHERTYPE_IPV4
    } else {
        ETHERTYPE_IPV6
    };
    let mut frame = vec![2, 0, 0, 0, 0, 0xa0];
    frame.extend(HOST_MAC);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}

/// Builds an IPv4 packet with TTL 1.
fn ipv4_packet(from: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20 + payload.len()];
    let len = bytes.len() as u16;
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
    packet.set_version(4);
    packet.set_header_len(20);
    packet.set_total_len(len);
    packet.set_hop_limit(1);
    packet.set_next_header(protocol.into());
    packet.set_src_addr(from.into());
    packet.set_dst_addr(to.into());
    packet.fill_checksum();
    packet.payload_mut().copy_from_slice(payload);
    bytes
}

/// Builds an IPv6 packet with hop limit 1.
fn ipv6_packet(from: &str, to: &str, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 40 + payload.len()];
    let mut packet = Ipv6Packet::new_unchecked(&mut bytes);
    packet.set_version(6);
    packet.set_payload_len(payload.len() as u16);
    packet.set_next_header(next_header.into());
    packet.set_hop_limit(1);
    packet.set_src_addr(from.parse().unwrap());
    packet.set_dst_addr(to.parse().unwrap());
    packet.payload_mut().copy_from_slice(payload);
    bytes
}

/// Builds a UDP datagram with a valid checksum for these addresses.
fn udp_datagram(from: IpAddr, to: IpAddr, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; 8 + len];
    let datagram_len = bytes.len() as u16;
    let mut datagram = UdpPacket::new_unchecked(&mut bytes);
    datagram.set_src_port(40_000);
    datagram.set_dst_port(33_434);
    datagram.set_len(datagram_len);
    datagram.fill_checksum(&from.into(), &to.into());
    bytes
}

/// Builds a TCP header with these flags and a valid checksum for these addresses.
fn tcp_header(from: IpAddr, to: IpAddr, flags: u8) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    bytes[12..14].copy_from_slice(&[0x50, flags]);
    TcpPacket::new_unchecked(&mut bytes[..]).fill_checksum(&from.into(), &to.into());
    bytes
}
