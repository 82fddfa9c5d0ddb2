//! Comparison with pnet, which shares no code with this crate. Each side reads frames that the other
//! side has written.

use core::net::{Ipv4Addr, Ipv6Addr};

use pnet::packet::Packet as _;
use pnet::packet::ethernet::{EtherType, EtherTypes, EthernetPacket, MutableEthernetPacket};
use pnet::packet::ip::IpNextHeaderProtocols;
use pnet::packet::ipv4::{self, Ipv4Packet, MutableIpv4Packet};
use pnet::packet::ipv6::{Ipv6Packet, MutableIpv6Packet};
use pnet::packet::udp::{self, MutableUdpPacket, UdpPacket};
use pnet::packet::vlan::{ClassOfService, MutableVlanPacket};
use pnet::util::MacAddr;
use proptest::prelude::*;
use xoff_wire::parse::{Payload, parse};
use xoff_wire::{Addresses, mark_ce, set_dscp};

use crate::packets::packet;

/// The header values of a datagram that pnet writes.
#[derive(Clone, Debug)]
struct Datagram {
    macs: ([u8; 6], [u8; 6]),
    vlan: Option<(u8, u16)>,
    tos: u8,
    ports: (u16, u16),
    hosts: (u32, u32),
    payload: Vec<u8>,
}

fn datagram() -> impl Strategy<Value = Datagram> {
    (
        any::<([u8; 6], [u8; 6])>(),
        prop::option::of((0..8_u8, 0..4096_u16)),
        any::<u8>(),
        any::<(u16, u16)>(),
        any::<(u32, u32)>(),
        prop::collection::vec(any::<u8>(), 0..64),
    )
        .prop_map(|(macs, vlan, tos, ports, hosts, payload)| Datagram {
            macs,
            vlan,
            tos,
            ports,
            hosts,
            payload,
        })
}

/// Builds a frame: Ethernet header, optional VLAN tag, and `l3`.
fn ethernet(datagram: &Datagram, ethertype: EtherType, l3: &[u8]) -> Vec<u8> {
    let (mut body, mut outer) = (l3.to_vec(), ethertype);
    if let Some((pcp, vid)) = datagram.vlan {
        let mut bytes = vec![0; 4 + l3.len()];
        let mut tag = MutableVlanPacket::new(&mut bytes).unwrap();
        tag.set_priority_code_point(ClassOfService(pcp));
        tag.set_vlan_identifier(vid);
        tag.set_ethertype(ethertype);
        tag.set_payload(l3);
        (body, outer) = (bytes, EtherTypes::Vlan);
    }
    let mut bytes = vec![0; 14 + body.len()];
    let mut frame = MutableEthernetPacket::new(&mut bytes).unwrap();
    frame.set_destination(MacAddr::from(datagram.macs.0));
    frame.set_source(MacAddr::from(datagram.macs.1));
    frame.set_ethertype(outer);
    frame.set_payload(&body);
    bytes
}

fn udp(datagram: &Datagram) -> Vec<u8> {
    let mut bytes = vec![0; 8 + datagram.payload.len()];
    let mut udp = MutableUdpPacket::new(&mut bytes).unwrap();
    udp.set_source(datagram.ports.0);
    udp.set_destination(datagram.ports.1);
    udp.set_length(8 + datagram.payload.len() as u16);
    udp.set_payload(&datagram.payload);
    bytes
}

fn ipv4_frame(datagram: &Datagram) -> Vec<u8> {
    let l4 = udp(datagram);
    let mut bytes = vec![0; 20 + l4.len()];
    let mut ip = MutableIpv4Packet::new(&mut bytes).unwrap();
    ip.set_version(4);
    ip.set_header_length(5);
    ip.set_dscp(datagram.tos >> 2);
    ip.set_ecn(datagram.tos & 3);
    ip.set_total_length(20 + l4.len() as u16);
    ip.set_ttl(64);
    ip.set_next_level_protocol(IpNextHeaderProtocols::Udp);
    ip.set_source(Ipv4Addr::from(datagram.hosts.0));
    ip.set_destination(Ipv4Addr::from(datagram.hosts.1));
    ip.set_payload(&l4);
    let checksum = ipv4::checksum(&ip.to_immutable());
    ip.set_checksum(checksum);
    ethernet(datagram, EtherTypes::Ipv4, &bytes)
}

fn ipv6_frame(datagram: &Datagram) -> Vec<u8> {
    let l4 = udp(datagram);
    let mut bytes = vec![0; 40 + l4.len()];
    let mut ip = MutableIpv6Packet::new(&mut bytes).unwrap();
    ip.set_version(6);
    ip.set_traffic_class(datagram.tos);
    ip.set_payload_length(l4.len() as u16);
    ip.set_next_header(IpNextHeaderProtocols::Udp);
    ip.set_hop_limit(64);
    ip.set_source(Ipv6Addr::from(u128::from(datagram.hosts.0)));
    ip.set_destination(Ipv6Addr::from(u128::from(datagram.hosts.1)));
    ip.set_payload(&l4);
    ethernet(datagram, EtherTypes::Ipv6, &bytes)
}

proptest! {
    #[test]
    fn frames_of_pnet_are_read(datagram in datagram()) {
        for (frame, payload) in [
            (ipv4_frame(&datagram), Payload::Ipv4),
            (ipv6_frame(&datagram), Payload::Ipv6),
            (ethernet(&datagram, EtherTypes::Arp, &[0; 28]), Payload::Other),
        ] {
            let parsed = parse(&frame);
            prop_assert_eq!(parsed.payload, payload);
            prop_assert_eq!(parsed.tag.map(|tag| (tag.pcp(), tag.vid())), datagram.vlan);
            prop_assert_eq!(parsed.tos, if payload == Payload::Other { 0 } else { datagram.tos });
            prop_assert_eq!(usize::from(parsed.l3_offset), if datagram.vlan.is_some() { 18 } else { 14 });
        }
    }

    #[test]
    fn one_bit_of_the_flow_changes_the_hash(datagram in datagram(), port_bit in 0..16, host_bit in 0..32) {
        let mut others = vec![datagram.clone(); 4];
        others[0].ports.0 ^= 1_u16 << port_bit;
        others[1].ports.1 ^= 1_u16 << port_bit;
        others[2].hosts.0 ^= 1_u32 << host_bit;
        others[3].hosts.1 ^= 1_u32 << host_bit;
        for encode in [ipv4_frame, ipv6_frame] {
            let hash = parse(&encode(&datagram)).flow_hash;
            for other in &others {
                prop_assert_ne!(parse(&encode(other)).flow_hash, hash);
            }
            let same = Datagram {
                tos: !datagram.tos,
                vlan: None,
                macs: Default::default(),
                payload: vec![],
                ..datagram.clone()
            };
            prop_assert_eq!(parse(&encode(&same)).flow_hash, hash);
        }
    }

    #[test]
    fn rewritten_headers_equal_those_of_pnet(datagram in datagram(), dscp in 0..64_u8) {
        let l3 = if datagram.vlan.is_some() { 18 } else { 14 };
        let ecn = if datagram.tos & 3 == 0 { 0 } else { 3 };
        let expected = Datagram { tos: dscp << 2 | ecn, ..datagram.clone() };
        for (encode, payload) in
            [(ipv4_frame as fn(&Datagram) -> Vec<u8>, Payload::Ipv4), (ipv6_frame, Payload::Ipv6)]
        {
            let mut frame = encode(&datagram);
            mark_ce(&mut frame[l3..], payload);
            set_dscp(&mut frame[l3..], payload, dscp);
            prop_assert_eq!(frame, encode(&expected));
        }
    }

    #[test]
    fn pnet_reads_built_packets(packet in packet()) {
        let frame = packet.frame();
        let ethernet = EthernetPacket::new(&frame).unwrap();
        prop_assert_eq!(ethernet.get_destination(), MacAddr::from(packet.headers.dst_mac));
        prop_assert_eq!(ethernet.get_source(), MacAddr::from(packet.headers.src_mac));
        let l3 = &frame[if packet.headers.tag.is_some() { 18 } else { 14 }..];
        let l4 = match packet.headers.addresses {
            Addresses::V4 { src, dst } => {
                let ip = Ipv4Packet::new(l3).unwrap();
                prop_assert_eq!((ip.get_source(), ip.get_destination()), (src, dst));
                prop_assert_eq!((ip.get_dscp(), ip.get_ecn()), (packet.headers.dscp, packet.headers.ecn as u8));
                prop_assert_eq!((ip.get_ttl(), ip.get_flags()), (packet.headers.hop_limit, 0b010));
                prop_assert_eq!(ip.get_checksum(), ipv4::checksum(&ip));
                prop_assert_eq!(usize::from(ip.get_total_length()), l3.len());
                l3[20..].to_vec()
            }
            Addresses::V6 { src, dst } => {
                let ip = Ipv6Packet::new(l3).unwrap();
                prop_assert_eq!((ip.get_source(), ip.get_destination()), (src, dst));
                prop_assert_eq!(ip.get_traffic_class(), packet.headers.dscp << 2 | packet.headers.ecn as u8);
                prop_assert_eq!(ip.get_flow_label(), packet.headers.flow_label);
                prop_assert_eq!(ip.get_hop_limit(), packet.headers.hop_limit);
                ip.payload().to_vec()
            }
        };
        let udp = UdpPacket::new(&l4).unwrap();
        prop_assert_eq!((udp.get_source(), udp.get_destination()), (packet.headers.udp_src_port, 4791));
        prop_assert_eq!(usize::from(udp.get_length()), l4.len());
        prop_assert_eq!(udp.get_checksum(), 0);
    }
}

/// The UDP checksum of the public vector A is correct according to pnet, so both sides agree about UDP.
#[test]
fn pnet_agrees_about_the_udp_checksum_of_vector_a() {
    let frame = crate::common::hex(crate::common::VECTOR_A);
    let ip = Ipv4Packet::new(&frame[14..]).unwrap();
    let datagram = UdpPacket::new(ip.payload()).unwrap();
    let expected = udp::ipv4_checksum(&datagram, &ip.get_source(), &ip.get_destination());
    assert_eq!((datagram.get_checksum(), expected), (0xaca2, 0xaca2));
}
