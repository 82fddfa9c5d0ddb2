//! Tests of ICMP errors and of the rules that suppress them.

use super::*;

const HOST: [u8; 4] = [10, 0, 0, 7];
const REMOTE: [u8; 4] = [172, 16, 0, 9];
const HOST_V6: &str = "2001:db8::7";
const REMOTE_V6: &str = "2001:db8:8::9";

/// A frame from 10.0.0.7 to 172.16.0.9 with identification 0xabcd, DSCP 26 and TTL 1.
const EXPIRED_FRAME: &str = "
    0200000000a0020000000077080045680020abcd0000011157780a000007ac10
    00099c40829a000c000070696e670000000000000000000000000000";
const TIME_EXCEEDED: &str = "
    000000000000000000000000080045c0003c00004000400125fa0a0000010a00
    00070b00f7470000000045680020abcd0000011157780a000007ac1000099c40
    829a000c000070696e67";
/// A frame from 2001:db8::7 to 2001:db8:8::9.
const LONG_V6: &str = "
    0200000000a002000000007786dd66812345000c110920010db8000000000000
    00000000000720010db80008000000000000000000099c40829a000c00007069
    6e67";
/// The error about `LONG_V6` with MTU 1500.
const TOO_BIG_V6: &str = "
    00000000000000000000000086dd60000000003c3a4020010db8000000000000
    00000000000120010db80000000000000000000000070200a815000005dc6681
    2345000c110920010db800000000000000000000000720010db8000800000000
    0000000000099c40829a000c000070696e67";

const REASONS: [PuntReason; 4] = [
    PuntReason::TimeExceeded,
    PuntReason::NetUnreachable,
    PuntReason::HostUnreachable,
    PuntReason::TooBig { mtu: 1_400 },
];

/// Returns the error about a packet, or the rule that suppressed it.
fn error_or_suppression(
    interface: InterfaceId,
    reason: PuntReason,
    frame: &[u8],
) -> Result<Vec<u8>, IcmpErrorSuppressionReason> {
    let mut bench = CpuBench::new();
    let replies = bench.punt_frame(interface, reason, frame);
    let counters = bench.cpu.counters();
    assert_eq!(counters.errors_sent() + counters.errors_suppressed(), 1);
    match &replies[..] {
        [reply] => Ok(reply.bytes().to_vec()),
        [] => {
            let rule = counters.suppressed.iter().position(|&count| count == 1);
            Err(IcmpErrorSuppressionReason::ALL[rule.unwrap()])
        }
        more => panic!("{more:?}"),
    }
}

/// Returns the type, the code and the last four bytes of the ICMP header.
fn icmp_header(bytes: &[u8]) -> (u8, u8, u32) {
    let at = if bytes[14] >> 4 == 4 { 34 } else { 54 };
    let rest = u32::from_be_bytes(*bytes[at + 4..].first_chunk().unwrap());
    (bytes[at], bytes[at + 1], rest)
}

#[test]
fn errors_have_the_format_of_the_rfcs() {
    let bytes = error_or_suppression(PORT, PuntReason::TimeExceeded, &hex(EXPIRED_FRAME)).unwrap();
    assert_eq!(bytes, hex(TIME_EXCEEDED));
    let bytes = error_or_suppression(PORT, PuntReason::TooBig { mtu: 1_500 }, &hex(LONG_V6)).unwrap();
    assert_eq!(bytes, hex(TOO_BIG_V6));
    let v4 =
        REASONS.map(|reason| icmp_header(&error_or_suppression(PORT, reason, &hex(EXPIRED_FRAME)).unwrap()));
    assert_eq!(v4, [(11, 0, 0), (3, 0, 0), (3, 1, 0), (3, 4, 1_400)]);
    let v6 = REASONS.map(|reason| icmp_header(&error_or_suppression(PORT, reason, &hex(LONG_V6)).unwrap()));
    assert_eq!(v6, [(3, 0, 0), (1, 0, 0), (1, 3, 0), (2, 0, 1_400)]);
}

#[test]
fn icmpv6_errors_report_at_least_the_smallest_mtu() {
    let bytes = error_or_suppression(PORT, PuntReason::TooBig { mtu: 600 }, &hex(LONG_V6)).unwrap();
    assert_eq!(icmp_header(&bytes), (2, 0, 1_280));
}

#[test]
fn quoted_packets_are_limited_to_the_longest_error() {
    for (len, quoted) in [(548, 548), (549, 548), (9_000, 548)] {
        let packet = ipv4_packet(HOST, REMOTE, 17, &vec![0x5a; len - 20]);
        let bytes =
            error_or_suppression(PORT, PuntReason::TimeExceeded, &frame_with_packet(&packet)).unwrap();
        assert_eq!(bytes[42..], packet[..quoted]);
    }
    for (len, quoted) in [(1_232, 1_232), (1_233, 1_232), (9_000, 1_232)] {
        let packet = ipv6_packet(HOST_V6, REMOTE_V6, 17, &vec![0x5a; len - 40]);
        let bytes =
            error_or_suppression(PORT, PuntReason::TimeExceeded, &frame_with_packet(&packet)).unwrap();
        assert_eq!(bytes[62..], packet[..quoted]);
    }
}

#[test]
fn a_truncated_packet_is_quoted_up_to_its_stored_length() {
    let packet = ipv4_packet(HOST, REMOTE, 17, &[0x5a; 1_400]);
    let frame = &frame_with_packet(&packet)[..128];
    let bytes = error_or_suppression(PORT, PuntReason::TimeExceeded, frame).unwrap();
    assert_eq!(bytes[42..], packet[..114]);
}

#[test]
fn the_ingress_interface_selects_the_source_address() {
    let from = |bytes: Vec<u8>| Ipv4Packet::new_unchecked(&bytes[14..]).src_addr().octets();
    let from_v6 = |bytes: Vec<u8>| Ipv6Packet::new_unchecked(&bytes[14..]).src_addr().to_string();
    let v4 = |source| frame_with_packet(&ipv4_packet(source, REMOTE, 17, &[0; 8]));
    let v6 = |source| frame_with_packet(&ipv6_packet(source, REMOTE_V6, 17, &[0; 8]));
    let told =
        |interface, frame: Vec<u8>| error_or_suppression(interface, PuntReason::NetUnreachable, &frame);
    // An address in the network of the sender is preferred, otherwise the first address is used.
    assert_eq!(from(told(VLAN, v4([192, 168, 2, 7])).unwrap()), [192, 168, 2, 1]);
    assert_eq!(from(told(VLAN, v4([172, 30, 0, 1])).unwrap()), [192, 168, 1, 1]);
    assert_eq!(
        from_v6(told(VLAN, v6("2001:db8:77::1")).unwrap()),
        "2001:db8:1::1"
    );
    assert_eq!(from_v6(told(VLAN, v6("fe80::77")).unwrap()), "fe80::a1");
    // Without a suitable address, an address of a loopback interface is used.
    assert_eq!(from(told(UNNUMBERED, v4(HOST)).unwrap()), [10, 255, 0, 1]);
    assert_eq!(from_v6(told(UNNUMBERED, v6(HOST_V6)).unwrap()), "2001:db8:ff::1");
    assert_eq!(from_v6(told(UNNUMBERED, v6("fe80::77")).unwrap()), "fe80::a3");
}

#[test]
fn a_link_local_address_is_used_without_a_loopback_address() {
    let mut config = routing_config();
    config.interfaces[LOOPBACK.index()].addresses.clear();
    let mut bench = CpuBench::new();
    bench.cpu.reconfigure(&config);
    let packet = frame_with_packet(&ipv6_packet(HOST_V6, REMOTE_V6, 17, &[0; 8]));
    let replies = bench.punt_frame(UNNUMBERED, PuntReason::TimeExceeded, &packet);
    let from = Ipv6Packet::new_unchecked(&replies[0].bytes()[14..]).src_addr();
    assert_eq!(from.to_string(), "fe80::a3");
    let packet = frame_with_packet(&ipv4_packet(HOST, REMOTE, 17, &[0; 8]));
    assert_eq!(
        bench.punt_frame(UNNUMBERED, PuntReason::TimeExceeded, &packet),
        []
    );
    let rule = IcmpErrorSuppressionReason::NoAddress as usize;
    assert_eq!(bench.cpu.counters().suppressed[rule], 1);
}

#[test]
fn a_link_local_sender_gets_the_error_on_its_link() {
    let packet = frame_with_packet(&ipv6_packet("fe80::77", REMOTE_V6, 17, &[0; 8]));
    let replies = CpuBench::new().punt_frame(PORT, PuntReason::HostUnreachable, &packet);
    let [Reply::Packet { interface, bytes }] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert_eq!(*interface, Some(PORT));
    assert_eq!(
        Ipv6Packet::new_unchecked(&bytes[14..]).dst_addr().to_string(),
        "fe80::77"
    );
}

/// Asserts that the same rule suppresses the error for all four reasons.
fn assert_suppressed(what: &str, rule: IcmpErrorSuppressionReason, frame: &[u8]) {
    for reason in REASONS {
        assert_eq!(
            error_or_suppression(PORT, reason, frame),
            Err(rule),
            "{what}, {reason:?}"
        );
    }
}

#[test]
fn errors_about_icmp_errors_are_suppressed() {
    for kind in [3, 4, 5, 11, 12, 41, 255] {
        let packet = ipv4_packet(HOST, REMOTE, 1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_suppressed(
            "an ICMP error",
            IcmpErrorSuppressionReason::AboutError,
            &frame_with_packet(&packet),
        );
    }
    let cut = ipv4_packet(HOST, REMOTE, 1, &[]);
    assert_suppressed(
        "ICMP without a type",
        IcmpErrorSuppressionReason::AboutError,
        &frame_with_packet(&cut),
    );
    for kind in [1, 2, 3, 4, 127, 137] {
        let packet = ipv6_packet(HOST_V6, REMOTE_V6, 58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_suppressed(
            "an ICMPv6 error",
            IcmpErrorSuppressionReason::AboutError,
            &frame_with_packet(&packet),
        );
        // Hop-by-hop options, then a first fragment.
        let behind = [44, 0, 1, 4, 0, 0, 0, 0, 58, 0, 0, 1, 0, 0, 0, 9, kind, 0];
        let packet = ipv6_packet(HOST_V6, REMOTE_V6, 0, &behind);
        assert_suppressed(
            "behind extensions",
            IcmpErrorSuppressionReason::AboutError,
            &frame_with_packet(&packet),
        );
    }
    let later = [58, 0, 0, 8, 0, 0, 0, 9, 128, 0];
    let packet = ipv6_packet(HOST_V6, REMOTE_V6, 44, &later);
    assert_suppressed(
        "ICMPv6 of no known type",
        IcmpErrorSuppressionReason::AboutError,
        &frame_with_packet(&packet),
    );
}

#[test]
fn errors_about_icmp_queries_are_sent() {
    for kind in [0, 8, 13, 17, 42] {
        let packet = ipv4_packet(HOST, REMOTE, 1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        error_or_suppression(PORT, PuntReason::TimeExceeded, &frame_with_packet(&packet)).unwrap();
    }
    for kind in [128, 129, 143] {
        let packet = ipv6_packet(HOST_V6, REMOTE_V6, 58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        error_or_suppression(PORT, PuntReason::TimeExceeded, &frame_with_packet(&packet)).unwrap();
    }
}

#[test]
fn errors_about_multicast_and_broadcast_packets_are_suppressed() {
    for to in [
        [224, 0, 0, 9],
        [239, 1, 1, 1],
        [255; 4],
        [10, 0, 0, 255],
        [192, 168, 2, 127],
    ] {
        let packet = ipv4_packet(HOST, to, 17, &[0; 8]);
        assert_suppressed(
            "to a group",
            IcmpErrorSuppressionReason::ToGroup,
            &frame_with_packet(&packet),
        );
    }
    let packet = frame_with_packet(&ipv6_packet(HOST_V6, "ff0e::1", 17, &[0; 8]));
    for reason in [
        PuntReason::TimeExceeded,
        PuntReason::NetUnreachable,
        PuntReason::HostUnreachable,
    ] {
        assert_eq!(
            error_or_suppression(PORT, reason, &packet),
            Err(IcmpErrorSuppressionReason::ToGroup)
        );
    }
    let told = error_or_suppression(PORT, PuntReason::TooBig { mtu: 1_400 }, &packet).unwrap();
    assert_eq!(
        icmp_header(&told),
        (2, 0, 1_400),
        "path MTU discovery needs the error"
    );
}

#[test]
fn errors_about_link_layer_multicast_are_suppressed() {
    for mac in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        let mut frame = hex(EXPIRED_FRAME);
        frame[..6].copy_from_slice(&mac);
        assert_suppressed(
            "to a group of the link",
            IcmpErrorSuppressionReason::LinkGroup,
            &frame,
        );
        let mut frame = hex(LONG_V6);
        frame[..6].copy_from_slice(&mac);
        assert_eq!(
            error_or_suppression(PORT, PuntReason::TimeExceeded, &frame),
            Err(IcmpErrorSuppressionReason::LinkGroup)
        );
        error_or_suppression(PORT, PuntReason::TooBig { mtu: 1_400 }, &frame).unwrap();
    }
}

#[test]
fn errors_about_later_fragments_are_suppressed() {
    let mut packet = ipv4_packet(HOST, REMOTE, 17, &[0; 8]);
    Ipv4Packet::new_unchecked(&mut packet).set_frag_offset(8);
    assert_suppressed(
        "a later fragment",
        IcmpErrorSuppressionReason::LaterFragment,
        &frame_with_packet(&packet),
    );
    let mut packet = ipv4_packet(HOST, REMOTE, 17, &[0; 8]);
    Ipv4Packet::new_unchecked(&mut packet).set_more_frags(true);
    error_or_suppression(PORT, PuntReason::TimeExceeded, &frame_with_packet(&packet)).unwrap();
}

#[test]
fn errors_to_sources_that_are_no_single_host_are_suppressed() {
    let nobody = [
        [0; 4],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [224, 0, 0, 1],
        [240, 0, 0, 1],
        [255; 4],
    ];
    let ours = [[10, 0, 0, 1], [10, 255, 0, 1], [192, 168, 1, 255]];
    for source in nobody.into_iter().chain(ours) {
        let packet = ipv4_packet(source, REMOTE, 17, &[0; 8]);
        assert_suppressed(
            "from no host",
            IcmpErrorSuppressionReason::SourceNoHost,
            &frame_with_packet(&packet),
        );
    }
    for source in ["::", "::1", "ff02::1", "2001:db8::1", "fe80::a0"] {
        let packet = ipv6_packet(source, REMOTE_V6, 17, &[0; 8]);
        assert_suppressed(
            "from no host",
            IcmpErrorSuppressionReason::SourceNoHost,
            &frame_with_packet(&packet),
        );
    }
}

#[test]
fn errors_about_malformed_packets_are_suppressed() {
    let v4 = ipv4_packet(HOST, REMOTE, 17, &[0; 8]);
    let v6 = ipv6_packet(HOST_V6, REMOTE_V6, 17, &[0; 8]);
    let with_byte = |offset: usize, byte: u8| {
        let mut packet = v4.clone();
        packet[offset] = byte;
        packet
    };
    let cases = [
        v4[..19].to_vec(),
        v6[..39].to_vec(),
        with_byte(0, 0x44),
        with_byte(0, 0x75),
        with_byte(3, 19),
        vec![0x45],
    ];
    for packet in cases {
        let frame = frame_with_packet(&packet);
        assert_suppressed("no packet", IcmpErrorSuppressionReason::Malformed, &frame);
    }
    assert_suppressed(
        "no header at all",
        IcmpErrorSuppressionReason::Malformed,
        &[0; 14],
    );
}

#[test]
fn counters_have_names_in_reports() {
    let mut bench = CpuBench::new();
    bench.punt_frame(PORT, PuntReason::TimeExceeded, &hex(EXPIRED_FRAME));
    bench.punt_frame(PORT, PuntReason::Protocol, &[0; 60]);
    let counted: Vec<_> = bench
        .cpu
        .counters()
        .named_counts()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(counted, [("protocol_ignored", 1), ("time_exceeded", 1)]);
}
