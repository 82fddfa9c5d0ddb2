//! Tests of packets to the switch's own addresses.

use super::*;

/// A frame from 10.9.8.7 to 10.255.0.1 with DSCP 46, padded to the shortest length.
const ECHO_REQUEST: &str = "
    0200000000a0020000000077080045b80023beef00003f019f230a0908070aff
    00010800549712340007616263646566670000000000000000000000";
const ECHO_REPLY: &str = "
    0000000000000000000000000800450000230000400040011dcb0aff00010a09
    080700005c971234000761626364656667";
const ECHO_REQUEST_V6: &str = "
    0200000000a002000000007786dd60000000000f3a3f20010db8000900000000
    00000000000720010db800ff0000000000000000000180007fcb123400076162
    6364656667";
const ECHO_REPLY_V6: &str = "
    00000000000000000000000086dd60000000000f3a4020010db800ff00000000
    00000000000120010db800090000000000000000000781007ecb123400076162
    6364656667";

fn punt_local(bench: &mut CpuBench, interface: InterfaceId, bytes: &[u8]) -> Vec<Reply> {
    bench.punt_frame(interface, PuntReason::Local, bytes)
}

fn packet_replies(interface: InterfaceId, bytes: Vec<u8>) -> [Reply; 1] {
    let interface = Some(interface);
    [Reply::Packet { interface, bytes }]
}

/// Builds an IPv4 echo request with `len` data bytes.
fn echo_request_v4(from: [u8; 4], to: [u8; 4], len: usize) -> Vec<u8> {
    let mut message: Vec<u8> = (0..8 + len).map(|n| n as u8).collect();
    message[..4].copy_from_slice(&[8, 0, 0, 0]);
    Icmpv4Packet::new_unchecked(&mut message[..]).fill_checksum();
    ipv4_packet(from, to, 1, &message)
}

fn echo_request_v6(from: &str, to: &str, len: usize) -> Vec<u8> {
    let mut message: Vec<u8> = (0..8 + len).map(|n| n as u8).collect();
    message[..4].copy_from_slice(&[128, 0, 0, 0]);
    let (source, target) = (from.parse().unwrap(), to.parse().unwrap());
    Icmpv6Packet::new_unchecked(&mut message[..]).fill_checksum(&source, &target);
    ipv6_packet(from, to, 58, &message)
}

#[test]
fn an_echo_reply_comes_from_the_requested_address() {
    let mut bench = CpuBench::new();
    let replies = punt_local(&mut bench, PORT, &hex(ECHO_REQUEST));
    let bytes = hex(ECHO_REPLY);
    assert_eq!(replies, packet_replies(PORT, bytes));
    let replies = punt_local(&mut bench, PORT, &hex(ECHO_REQUEST_V6));
    let bytes = hex(ECHO_REPLY_V6);
    assert_eq!(replies, packet_replies(PORT, bytes));
    assert_eq!(bench.cpu.counters().echo_replies, 2);
}

#[test]
fn an_echo_request_of_mtu_length_gets_a_complete_reply() {
    let mut bench = CpuBench::new();
    let request = echo_request_v4([10, 0, 0, 7], [10, 0, 0, 1], 9_100 - 28);
    let replies = punt_local(&mut bench, PORT, &frame_with_packet(&request));
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].bytes().len(), 14 + 9_100);
    assert_eq!(replies[0].bytes()[38..], request[24..]);
    let request = echo_request_v6("2001:db8::7", "2001:db8::1", 9_100 - 48);
    let replies = punt_local(&mut bench, PORT, &frame_with_packet(&request));
    assert_eq!(replies[0].bytes().len(), 14 + 9_100);
    assert_eq!(replies[0].bytes()[58..], request[44..]);
}

/// Fragments a packet as a router does for an MTU.
fn fragment_packet(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let step = (mtu - 20) / 8 * 8;
    let payload = &packet[20..];
    let cut = |(n, part): (usize, &[u8])| {
        let mut fragment = [&packet[..20], part].concat();
        let len = fragment.len() as u16;
        let mut header = Ipv4Packet::new_unchecked(&mut fragment);
        header.set_total_len(len);
        header.set_frag_offset((n * step) as u16);
        header.set_more_frags((n + 1) * step < payload.len());
        header.fill_checksum();
        fragment
    };
    payload.chunks(step).enumerate().map(cut).collect()
}

#[test]
fn a_fragmented_echo_request_gets_a_fragmented_reply() {
    let request = echo_request_v4([192, 168, 1, 7], [192, 168, 1, 1], 20_000);
    let parts = fragment_packet(&request, 1_500);
    let (last, others) = parts.split_last().unwrap();
    let mut bench = CpuBench::new();
    for part in others {
        assert_eq!(punt_local(&mut bench, VLAN, &frame_with_packet(part)), []);
    }
    let replies = punt_local(&mut bench, VLAN, &frame_with_packet(last));
    assert_eq!(replies.len(), parts.len());
    let mut payload = Vec::new();
    for reply in &replies {
        assert!(reply.bytes().len() <= 14 + 1_500);
        let packet = Ipv4Packet::new_checked(&reply.bytes()[14..]).unwrap();
        assert_eq!(usize::from(packet.frag_offset()), payload.len());
        payload.extend_from_slice(packet.payload());
    }
    assert!(Icmpv4Packet::new_checked(&payload[..]).unwrap().verify_checksum());
    assert_eq!(payload[4..], request[24..]);
    assert_eq!(bench.cpu.counters().echo_replies, 1);
}

#[test]
fn fragments_of_incomplete_packets_expire() {
    let request = echo_request_v4([192, 168, 1, 7], [192, 168, 1, 1], 2_000);
    let parts = fragment_packet(&request, 1_500);
    let mut bench = CpuBench::new();
    assert_eq!(punt_local(&mut bench, VLAN, &frame_with_packet(&parts[0])), []);
    bench.now = Picos::from_millis(31_000);
    assert_eq!(punt_local(&mut bench, VLAN, &frame_with_packet(&parts[1])), []);
    bench.now = Picos::from_millis(62_000);
    assert_eq!(punt_local(&mut bench, VLAN, &frame_with_packet(&parts[0])), []);
    assert_eq!(
        punt_local(&mut bench, VLAN, &frame_with_packet(&parts[1])).len(),
        2
    );
}

#[test]
fn packets_without_a_reply_are_counted_as_ignored() {
    let broadcast = {
        let mut frame = frame_with_packet(&echo_request_v4([10, 0, 0, 7], [10, 0, 0, 1], 8));
        frame[..6].fill(0xff);
        frame
    };
    let damaged = |at: usize| {
        let mut frame = hex(ECHO_REQUEST);
        frame[at] ^= 1;
        frame
    };
    let host = [10, 0, 0, 7];
    let reset = tcp_header(host.into(), [10, 0, 0, 1].into(), 4);
    let mut cases = vec![
        ("a wrong ICMP checksum", damaged(45)),
        ("a wrong IP checksum", damaged(18)),
        ("a broadcast on the link", broadcast),
        (
            "a reset",
            frame_with_packet(&ipv4_packet(host, [10, 0, 0, 1], 6, &reset)),
        ),
        (
            "no next header",
            frame_with_packet(&ipv6_packet("2001:db8::7", "2001:db8::1", 59, &[])),
        ),
        (
            "a fragment of IPv6",
            frame_with_packet(&ipv6_packet(
                "2001:db8::7",
                "2001:db8::1",
                44,
                &[58, 0, 0, 1, 0, 0, 0, 0, 128, 0],
            )),
        ),
        (
            "from a group",
            frame_with_packet(&echo_request_v6("ff02::7", "2001:db8::1", 8)),
        ),
        (
            "from nobody",
            frame_with_packet(&echo_request_v6("::", "2001:db8::1", 8)),
        ),
        (
            "another link's address",
            frame_with_packet(&echo_request_v6("fe80::77", "fe80::a1", 8)),
        ),
        (
            "a group of IPv6",
            frame_with_packet(&echo_request_v6("fe80::77", "ff02::1", 8)),
        ),
        ("no packet", frame_with_packet(&[0x45])),
    ];
    for to in [[255; 4], [10, 0, 0, 255], [10, 0, 0, 9], [224, 0, 0, 1]] {
        cases.push((
            "an address that is not ours",
            frame_with_packet(&echo_request_v4(host, to, 8)),
        ));
    }
    for from in [
        [0; 4],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [240, 0, 0, 1],
        [255; 4],
        [10, 0, 0, 255],
    ] {
        cases.push((
            "from no host",
            frame_with_packet(&echo_request_v4(from, [10, 0, 0, 1], 8)),
        ));
    }
    for (what, frame) in cases {
        let mut bench = CpuBench::new();
        assert_eq!(punt_local(&mut bench, PORT, &frame), [], "{what}: {frame:02x?}");
        assert_eq!(bench.cpu.counters().local_ignored, 1, "{what}");
    }
}

#[test]
fn link_local_requests_are_answered_on_their_link() {
    let request = frame_with_packet(&echo_request_v6("fe80::77", "fe80::a1", 8));
    let replies = punt_local(&mut CpuBench::new(), VLAN, &request);
    let [Reply::Packet { interface, bytes }] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert_eq!(*interface, Some(VLAN));
    assert_eq!(bytes[54], 129, "an echo reply");
}

#[test]
fn the_error_about_a_udp_packet_quotes_the_packet_unchanged() {
    let mut bench = CpuBench::new();
    let datagram = udp_datagram([10, 0, 0, 7].into(), [10, 255, 0, 1].into(), 4);
    let mut packet = ipv4_packet([10, 0, 0, 7], [10, 255, 0, 1], 17, &datagram);
    let mut header = Ipv4Packet::new_unchecked(&mut packet);
    header.set_ident(0xbeef);
    header.set_dscp(26);
    header.fill_checksum();
    let replies = punt_local(&mut bench, PORT, &frame_with_packet(&packet));
    let bytes = replies[0].bytes();
    assert_eq!(bytes[34..36], [3, 3]);
    assert_eq!(bytes[42..], packet);
    let (from, to) = ("2001:db8::7", "2001:db8:ff::1");
    let datagram = udp_datagram(from.parse().unwrap(), to.parse().unwrap(), 4);
    let packet = ipv6_packet(from, to, 17, &datagram);
    let replies = punt_local(&mut bench, PORT, &frame_with_packet(&packet));
    let bytes = replies[0].bytes();
    assert_eq!(bytes[54..56], [1, 4]);
    assert_eq!(bytes[62..], packet);
    let port = IcmpError::PortUnreachable.index();
    assert_eq!(bench.cpu.counters().errors[port], 2);
}

#[test]
fn packets_of_unknown_protocols_are_refused() {
    let mut bench = CpuBench::new();
    let packet = ipv4_packet([10, 0, 0, 7], [10, 0, 0, 1], 89, &[0; 16]);
    let replies = punt_local(&mut bench, PORT, &frame_with_packet(&packet));
    assert_eq!(replies[0].bytes()[34..36], [3, 2]);
    let packet = ipv6_packet("2001:db8::7", "2001:db8::1", 89, &[0; 16]);
    let replies = punt_local(&mut bench, PORT, &frame_with_packet(&packet));
    assert_eq!(replies[0].bytes()[54..56], [4, 1]);
    assert_eq!(bench.cpu.counters().other_replies, 1);
}

#[test]
fn a_tcp_segment_is_answered_with_a_reset() {
    let (from, to) = ([10, 0, 0, 7], [10, 0, 0, 1]);
    let segment = tcp_header(from.into(), to.into(), 2);
    let mut bench = CpuBench::new();
    let replies = punt_local(
        &mut bench,
        PORT,
        &frame_with_packet(&ipv4_packet(from, to, 6, &segment)),
    );
    let answer = TcpPacket::new_checked(&replies[0].bytes()[34..]).unwrap();
    assert!(answer.rst() && answer.ack());
    assert_eq!(bench.cpu.counters().tcp_resets, 1);
}

#[test]
fn a_packet_without_ingress_interface_is_answered() {
    let replies = CpuBench::new().punt(&PuntedBytes {
        interface: None,
        reason: PuntReason::Local,
        l3_offset: 14,
        bytes: &hex(ECHO_REQUEST),
    });
    assert_eq!(replies[0].bytes(), hex(ECHO_REPLY));
}
