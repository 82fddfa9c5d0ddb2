//! Tests of ARP and neighbour discovery.

use super::*;

const ARP_REQUEST: &str = "
    ffffffffffff020000000077080600010800060400010200000000770a000007
    0000000000000a000001000000000000000000000000000000000000";
const ARP_REPLY: &str = "
    0200000000770200000000a0080600010800060400020200000000a00a000001
    0200000000770a000007000000000000000000000000000000000000";
/// A solicitation for 2001:db8::1 from 2001:db8::7 to the solicited-node group.
const SOLICITATION: &str = "
    3333ff00000102000000007786dd6000000000203aff20010db8000000000000
    000000000007ff0200000000000000000001ff00000187001bad000000002001
    0db80000000000000000000000010101020000000077";
/// The advertisement with the flags R, S and O.
const ADVERTISEMENT: &str = "
    0200000000770200000000a086dd6000000000203aff20010db8000000000000
    00000000000120010db8000000000000000000000007880009cfe00000002001
    0db800000000000000000000000102010200000000a0";

fn punt_neighbour(bench: &mut CpuBench, interface: InterfaceId, bytes: &[u8]) -> Vec<Reply> {
    bench.punt_frame(interface, PuntReason::Neighbour, bytes)
}

fn frame_replies(interface: InterfaceId, text: &str) -> Vec<Reply> {
    vec![Reply::Frame {
        interface,
        bytes: hex(text),
    }]
}

#[test]
fn an_arp_request_gets_a_reply() {
    let mut bench = CpuBench::new();
    let replies = punt_neighbour(&mut bench, PORT, &hex(ARP_REQUEST));
    assert_eq!(replies, frame_replies(PORT, ARP_REPLY));
    assert_eq!(bench.cpu.counters().arp_replies, 1);
}

#[test]
fn a_tagged_arp_request_gets_the_same_reply() {
    let mut frame = hex(ARP_REQUEST);
    frame.splice(12..12, [0x81, 0, 0, 100]);
    let replies = CpuBench::new().punt(&PuntedBytes {
        interface: Some(PORT),
        reason: PuntReason::Neighbour,
        l3_offset: 18,
        bytes: &frame,
    });
    assert_eq!(replies, frame_replies(PORT, ARP_REPLY));
}

#[test]
fn an_arp_probe_gets_a_reply() {
    let mut frame = hex(ARP_REQUEST);
    frame[28..32].fill(0);
    let replies = punt_neighbour(&mut CpuBench::new(), PORT, &frame);
    let mut expected = hex(ARP_REPLY);
    expected[38..42].fill(0);
    assert_eq!(replies[0].bytes(), expected);
}

#[test]
fn arp_frames_about_other_addresses_get_no_reply() {
    let changes: [(&str, InterfaceId, usize, &[u8]); 8] = [
        ("another interface's address", VLAN, 0, &[]),
        ("the loopback's address", PORT, 38, &[10, 255, 0, 1]),
        ("an answer", PORT, 20, &[0, 2]),
        ("somebody who claims our address", PORT, 28, &[10, 0, 0, 1]),
        ("a group as sender", PORT, 28, &[224, 0, 0, 1]),
        ("a group as sender on the link", PORT, 22, &[1]),
        ("no sender on the link", PORT, 22, &[0; 6]),
        ("not Ethernet", PORT, 14, &[0, 6]),
    ];
    for (what, interface, offset, bytes) in changes {
        let mut bench = CpuBench::new();
        let mut frame = hex(ARP_REQUEST);
        frame[offset..offset + bytes.len()].copy_from_slice(bytes);
        assert_eq!(punt_neighbour(&mut bench, interface, &frame), [], "{what}");
        assert_eq!(bench.cpu.counters().neighbour_ignored, 1, "{what}");
    }
}

#[test]
fn a_solicitation_gets_an_advertisement() {
    let mut bench = CpuBench::new();
    let replies = punt_neighbour(&mut bench, PORT, &hex(SOLICITATION));
    assert_eq!(replies, frame_replies(PORT, ADVERTISEMENT));
    assert_eq!(bench.cpu.counters().neighbour_adverts, 1);
}

#[test]
fn duplicate_address_detection_gets_an_advertisement_to_all_nodes() {
    let probe = "
        3333ff00000102000000007786dd6000000000183aff00000000000000000000
        000000000000ff0200000000000000000001ff00000187004ced000000002001
        0db8000000000000000000000001";
    let expected = "
        3333000000010200000000a086dd6000000000203aff20010db8000000000000
        000000000001ff0200000000000000000000000000018800788ba00000002001
        0db800000000000000000000000102010200000000a0";
    let replies = punt_neighbour(&mut CpuBench::new(), PORT, &hex(probe));
    assert_eq!(replies, frame_replies(PORT, expected));
}

#[test]
fn a_unicast_probe_of_a_link_local_address_gets_an_advertisement() {
    let probe = "
        0200000000a002000000007786dd6000000000183afffe800000000000000000
        000000000077fe8000000000000000000000000000a087007b7300000000fe80
        00000000000000000000000000a0";
    let expected = "
        0200000000770200000000a086dd6000000000203afffe800000000000000000
        0000000000a0fe800000000000000000000000000077880095c9e0000000fe80
        00000000000000000000000000a002010200000000a0";
    let replies = punt_neighbour(&mut CpuBench::new(), PORT, &hex(probe));
    assert_eq!(replies, frame_replies(PORT, expected));
}

/// Builds a solicitation with changed bytes and a valid checksum.
fn changed_solicitation(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut frame = hex(SOLICITATION);
    for (offset, bytes) in changes {
        frame[*offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    let mut packet = Ipv6Packet::new_unchecked(&mut frame[14..]);
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    Icmpv6Packet::new_unchecked(packet.payload_mut()).fill_checksum(&from, &to);
    frame
}

#[test]
fn malformed_and_foreign_solicitations_get_no_advertisement() {
    let mut damaged = hex(SOLICITATION);
    damaged[56] ^= 1;
    let cases: [(&str, InterfaceId, Vec<u8>); 8] = [
        ("a wrong checksum", PORT, damaged),
        ("another interface's address", VLAN, hex(SOLICITATION)),
        (
            "from beyond a router",
            PORT,
            changed_solicitation(&[(21, &[254])]),
        ),
        ("a code", PORT, changed_solicitation(&[(55, &[1])])),
        (
            "a target that is not ours",
            PORT,
            changed_solicitation(&[(77, &[2])]),
        ),
        (
            "an option of no length",
            PORT,
            changed_solicitation(&[(79, &[0])]),
        ),
        ("a group for a station", PORT, changed_solicitation(&[(80, &[3])])),
        (
            "nobody, with an address on the link",
            PORT,
            changed_solicitation(&[(22, &[0; 16])]),
        ),
    ];
    for (what, interface, frame) in cases {
        assert_eq!(
            punt_neighbour(&mut CpuBench::new(), interface, &frame),
            [],
            "{what}"
        );
    }
}

#[test]
fn replies_use_the_addresses_of_the_new_configuration() {
    let mut bench = CpuBench::new();
    let mut config = routing_config();
    config.interfaces[0].addresses = vec!["10.0.0.2/24".parse().unwrap()];
    config.interfaces[0].mac = [2, 0, 0, 0, 0, 0xbb];
    bench.cpu.reconfigure(&config);
    let mut frame = hex(ARP_REQUEST);
    assert_eq!(punt_neighbour(&mut bench, PORT, &frame), []);
    frame[41] = 2;
    let replies = punt_neighbour(&mut bench, PORT, &frame);
    assert_eq!(replies[0].bytes()[6..12], [2, 0, 0, 0, 0, 0xbb]);
}
