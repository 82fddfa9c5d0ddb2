//! Tests of ARP, neighbour discovery and echo.

use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv6Packet, Ipv6Packet};
use xoff_wire::VlanTag;

use super::*;
use crate::config::Gateway;

/// Returns all frames that a host sends until `end`.
fn own_frames(host: &mut Host, end: Picos) -> Vec<SentFrame> {
    let mut frames = Vec::new();
    let mut buf = [0; 2048];
    let mut now = Picos::ZERO;
    while now < end {
        while let Some(len) = host.transmit(now, wall_ns(now), &mut buf) {
            frames.push(SentFrame {
                at: now,
                bytes: buf[..len].to_vec(),
            });
        }
        now = host.next_deadline();
    }
    frames
}

#[test]
fn a_host_announces_both_addresses_periodically() {
    let mut config = host_config(1);
    config.announce_interval = Picos::from_millis(4_000);
    config.vlan = Some(VlanTag::dot1q(0, 20));
    let frames = own_frames(&mut Host::new(&config).unwrap(), Picos::from_millis(10_000));
    // At 0, 1, 5 and 9 seconds.
    assert_eq!(frames.len(), 8);
    for pair in frames.chunks(2) {
        let parsed = parse(&pair[0].bytes);
        assert_eq!(parsed.tag.map(|tag| tag.vid()), Some(20));
        let arp = ArpRepr::parse(&ArpPacket::new_checked(&pair[0].bytes[18..]).unwrap()).unwrap();
        let expected = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr: EthernetAddress(mac(1)),
            source_protocol_addr: ipv4(1),
            target_hardware_addr: EthernetAddress([0; 6]),
            target_protocol_addr: ipv4(1),
        };
        assert_eq!(arp, expected);
        assert_eq!(pair[0].bytes[0..6], [0xff; 6]);

        assert_eq!(pair[1].bytes[0..6], [0x33, 0x33, 0, 0, 0, 1]);
        let ip = Ipv6Packet::new_checked(&pair[1].bytes[18..]).unwrap();
        let advert = Icmpv6Packet::new_checked(ip.payload()).unwrap();
        assert!(advert.verify_checksum(&ip.src_addr(), &ip.dst_addr()));
        assert_eq!((advert.target_addr(), ip.hop_limit()), (ipv6(1), 255));
    }
}

#[test]
fn flows_resolve_a_missing_mac_address() {
    for v6 in [false, true] {
        let mut asking = flow(3, 3);
        asking.dst_mac = None;
        asking.dst_ip = if v6 { ipv6(2).into() } else { ipv4(2).into() };
        let mut cable = Cable::new([sender(vec![asking]), receiver()], |_, f| vec![f]);
        assert_eq!(cable.hosts[0].unresolved().count(), 1);
        cable.hosts[0].start(Picos::ZERO);
        cable.run_and_drain(Picos::from_millis(5));
        let sent = cable.hosts[0].results(cable.now);
        assert!(
            sent.sent[0].resolved && sent.sent[0].sent_frames > 500,
            "{:?}",
            sent.sent
        );
        assert_eq!(cable.hosts[1].received_frames(), sent.sent[0].sent_frames);
    }
}

#[test]
fn packets_to_other_networks_use_the_gateway() {
    let mut far = flow(3, 3);
    (far.dst_mac, far.dst_ip) = (None, [192, 0, 2, 1].into());
    let mut near = flow(4, 3);
    (near.dst_mac, near.dst_ip) = (None, ipv4(2).into());
    let mut config = host_config(1);
    config.flows = vec![far, near];
    let network = "10.0.0.0/24".parse().unwrap();
    config.gateways = vec![Gateway {
        network,
        address: ipv4(2).into(),
    }];
    let mut cable = Cable::new([Host::new(&config).unwrap(), receiver()], |_, f| vec![f]);
    assert_eq!(
        cable.hosts[0].unresolved().count(),
        1,
        "merged need the same address"
    );
    cable.hosts[0].start(Picos::ZERO);
    cable.run_and_drain(Picos::from_millis(5));
    let sent = cable.hosts[0].results(cable.now).sent;
    assert!(
        sent.iter().all(|flow| flow.resolved && flow.sent_frames > 100),
        "{sent:?}"
    );
    config.gateways[0].address = [10, 0, 1, 1].into();
    assert!(Host::new(&config).is_err(), "a router that is not in the network");
}

#[test]
fn unanswered_requests_are_repeated_every_second() {
    let mut asking = flow(3, 3);
    (asking.dst_mac, asking.dst_ip) = (None, ipv4(9).into());
    let mut host = sender(vec![asking]);
    host.start(Picos::ZERO);
    let frames = own_frames(&mut host, Picos::from_millis(3_500));
    let questions = frames
        .iter()
        .filter_map(|frame| ArpRepr::parse(&ArpPacket::new_checked(&frame.bytes[14..]).ok()?).ok())
        .filter(|arp| matches!(arp, ArpRepr::EthernetIpv4 { target_protocol_addr, .. } if *target_protocol_addr == ipv4(9)))
        .count();
    assert_eq!(questions, 4);
    assert_eq!(host.sent_frames(), 0);
    assert!(!host.results(Picos::ZERO).sent[0].resolved);
}

#[test]
fn echo_replies_have_a_valid_checksum() {
    let mut host = receiver();
    own_frames(&mut host, Picos::from_millis(2_000));
    let mut request = Vec::new();
    request.extend_from_slice(&mac(2));
    request.extend_from_slice(&mac(1));
    request.extend_from_slice(&[
        8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 1, 0x66, 0xda, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    // Type 8, checksum, identifier 7, sequence 9, four bytes.
    request.extend_from_slice(&[8, 0, 0x29, 0x21, 0, 7, 0, 9, 0xde, 0xad, 0xef, 0xfe]);
    request.resize(60, 0);
    let now = Picos::from_millis(2_000);
    host.receive(now, 0, &request, &parse(&request));
    let mut buf = [0; 2048];
    let len = host.transmit(now, 0, &mut buf).unwrap();
    let reply = &buf[..len];
    assert_eq!((&reply[0..6], &reply[6..12]), (&mac(1)[..], &mac(2)[..]));
    assert_eq!(reply[26..34], [10, 0, 0, 2, 10, 0, 0, 1]);
    assert_eq!(reply[34], 0, "echo reply");
    let sum: u32 = reply[34..46]
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    assert_eq!(reply[42..46], request[42..46]);
}
