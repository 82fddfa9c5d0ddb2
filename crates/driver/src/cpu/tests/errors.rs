//! ICMP errors, and the rules that forbid them.

use super::*;

const HOST: [u8; 4] = [10, 0, 0, 7];
const AWAY: [u8; 4] = [172, 16, 0, 9];
const HOST_V6: &str = "2001:db8::7";
const AWAY_V6: &str = "2001:db8:8::9";

/// From 10.0.0.7 to 172.16.0.9, ident 0xabcd, DSCP 26, time to live 1.
const LAST_HOP: &str = "
    0200000000a0020000000077080045680020abcd0000011157780a000007ac10
    00099c40829a000c000070696e670000000000000000000000000000";
const TIME_EXCEEDED: &str = "
    000000000000000000000000080045c0003c00004000400125fa0a0000010a00
    00070b00f7470000000045680020abcd0000011157780a000007ac1000099c40
    829a000c000070696e67";
/// From 2001:db8::7 to 2001:db8:8::9.
const LONG_V6: &str = "
    0200000000a002000000007786dd66812345000c110920010db8000000000000
    00000000000720010db80008000000000000000000099c40829a000c00007069
    6e67";
/// MTU 1500.
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

/// What a packet brings, or the one rule that was counted.
fn outcome(interface: InterfaceId, reason: PuntReason, frame: &[u8]) -> Result<Vec<u8>, Suppression> {
    let mut bench = Bench::new();
    let replies = bench.put(interface, reason, frame);
    let counters = bench.cpu.counters();
    assert_eq!(counters.errors_sent() + counters.errors_suppressed(), 1);
    match &replies[..] {
        [reply] => Ok(reply.bytes().to_vec()),
        [] => {
            let rule = counters.suppressed.iter().position(|&count| count == 1);
            Err(Suppression::ALL[rule.unwrap()])
        }
        more => panic!("{more:?}"),
    }
}

/// Type, code and the last four octets of the ICMP header.
fn message(bytes: &[u8]) -> (u8, u8, u32) {
    let at = if bytes[14] >> 4 == 4 { 34 } else { 54 };
    let rest = u32::from_be_bytes(*bytes[at + 4..].first_chunk().unwrap());
    (bytes[at], bytes[at + 1], rest)
}

#[test]
fn errors_are_what_the_rfcs_say() {
    let bytes = outcome(PORT, PuntReason::TimeExceeded, &hex(LAST_HOP)).unwrap();
    assert_eq!(bytes, hex(TIME_EXCEEDED));
    let bytes = outcome(PORT, PuntReason::TooBig { mtu: 1_500 }, &hex(LONG_V6)).unwrap();
    assert_eq!(bytes, hex(TOO_BIG_V6));
    let v4 = REASONS.map(|reason| message(&outcome(PORT, reason, &hex(LAST_HOP)).unwrap()));
    assert_eq!(v4, [(11, 0, 0), (3, 0, 0), (3, 1, 0), (3, 4, 1_400)]);
    let v6 = REASONS.map(|reason| message(&outcome(PORT, reason, &hex(LONG_V6)).unwrap()));
    assert_eq!(v6, [(3, 0, 0), (1, 0, 0), (1, 3, 0), (2, 0, 1_400)]);
}

#[test]
fn ipv6_reports_no_mtu_below_its_least() {
    let bytes = outcome(PORT, PuntReason::TooBig { mtu: 600 }, &hex(LONG_V6)).unwrap();
    assert_eq!(message(&bytes), (2, 0, 1_280));
}

#[test]
fn long_packets_are_quoted_as_far_as_an_error_may_go() {
    for (len, quoted) in [(548, 548), (549, 548), (9_000, 548)] {
        let packet = ipv4(HOST, AWAY, 17, &vec![0x5a; len - 20]);
        let bytes = outcome(PORT, PuntReason::TimeExceeded, &frame_of(&packet)).unwrap();
        assert_eq!(bytes[42..], packet[..quoted]);
    }
    for (len, quoted) in [(1_232, 1_232), (1_233, 1_232), (9_000, 1_232)] {
        let packet = ipv6(HOST_V6, AWAY_V6, 17, &vec![0x5a; len - 40]);
        let bytes = outcome(PORT, PuntReason::TimeExceeded, &frame_of(&packet)).unwrap();
        assert_eq!(bytes[62..], packet[..quoted]);
    }
}

#[test]
fn a_packet_that_is_not_stored_whole_is_quoted_as_far_as_it_is() {
    let packet = ipv4(HOST, AWAY, 17, &[0x5a; 1_400]);
    let frame = &frame_of(&packet)[..128];
    let bytes = outcome(PORT, PuntReason::TimeExceeded, frame).unwrap();
    assert_eq!(bytes[42..], packet[..114]);
}

#[test]
fn the_way_in_names_the_address_to_speak_from() {
    let from = |bytes: Vec<u8>| Ipv4Packet::new_unchecked(&bytes[14..]).src_addr().octets();
    let from_v6 = |bytes: Vec<u8>| Ipv6Packet::new_unchecked(&bytes[14..]).src_addr().to_string();
    let v4 = |source| frame_of(&ipv4(source, AWAY, 17, &[0; 8]));
    let v6 = |source| frame_of(&ipv6(source, AWAY_V6, 17, &[0; 8]));
    let told = |interface, frame: Vec<u8>| outcome(interface, PuntReason::NetUnreachable, &frame);
    // Of the sender's network if there is one, else the first.
    assert_eq!(from(told(VLAN, v4([192, 168, 2, 7])).unwrap()), [192, 168, 2, 1]);
    assert_eq!(from(told(VLAN, v4([172, 30, 0, 1])).unwrap()), [192, 168, 1, 1]);
    assert_eq!(
        from_v6(told(VLAN, v6("2001:db8:77::1")).unwrap()),
        "2001:db8:1::1"
    );
    assert_eq!(from_v6(told(VLAN, v6("fe80::77")).unwrap()), "fe80::a1");
    // Else a loopback's.
    assert_eq!(from(told(UNNUMBERED, v4(HOST)).unwrap()), [10, 255, 0, 1]);
    assert_eq!(from_v6(told(UNNUMBERED, v6(HOST_V6)).unwrap()), "2001:db8:ff::1");
    assert_eq!(from_v6(told(UNNUMBERED, v6("fe80::77")).unwrap()), "fe80::a3");
}

#[test]
fn without_a_loopback_a_link_local_address_must_do() {
    let mut config = config();
    config.interfaces[LOOPBACK.index()].addresses.clear();
    let mut bench = Bench::new();
    bench.cpu.reconfigure(&config);
    let packet = frame_of(&ipv6(HOST_V6, AWAY_V6, 17, &[0; 8]));
    let replies = bench.put(UNNUMBERED, PuntReason::TimeExceeded, &packet);
    let from = Ipv6Packet::new_unchecked(&replies[0].bytes()[14..]).src_addr();
    assert_eq!(from.to_string(), "fe80::a3");
    let packet = frame_of(&ipv4(HOST, AWAY, 17, &[0; 8]));
    assert_eq!(bench.put(UNNUMBERED, PuntReason::TimeExceeded, &packet), []);
    let rule = Suppression::NoAddress as usize;
    assert_eq!(bench.cpu.counters().suppressed[rule], 1);
}

#[test]
fn link_local_senders_are_told_on_their_link() {
    let packet = frame_of(&ipv6("fe80::77", AWAY_V6, 17, &[0; 8]));
    let replies = Bench::new().put(PORT, PuntReason::HostUnreachable, &packet);
    let [Reply::Packet { interface, bytes }] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert_eq!(*interface, Some(PORT));
    assert_eq!(
        Ipv6Packet::new_unchecked(&bytes[14..]).dst_addr().to_string(),
        "fe80::77"
    );
}

/// All four reasons are held back by the same rule.
fn suppressed(what: &str, rule: Suppression, frame: &[u8]) {
    for reason in REASONS {
        assert_eq!(outcome(PORT, reason, frame), Err(rule), "{what}, {reason:?}");
    }
}

#[test]
fn nobody_is_told_about_an_error() {
    for kind in [3, 4, 5, 11, 12, 41, 255] {
        let packet = ipv4(HOST, AWAY, 1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        suppressed("an ICMP error", Suppression::AboutError, &frame_of(&packet));
    }
    let cut = ipv4(HOST, AWAY, 1, &[]);
    suppressed("ICMP without a type", Suppression::AboutError, &frame_of(&cut));
    for kind in [1, 2, 3, 4, 127, 137] {
        let packet = ipv6(HOST_V6, AWAY_V6, 58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        suppressed("an ICMPv6 error", Suppression::AboutError, &frame_of(&packet));
        // Hop-by-hop options, then a first fragment.
        let behind = [44, 0, 1, 4, 0, 0, 0, 0, 58, 0, 0, 1, 0, 0, 0, 9, kind, 0];
        let packet = ipv6(HOST_V6, AWAY_V6, 0, &behind);
        suppressed("behind extensions", Suppression::AboutError, &frame_of(&packet));
    }
    let later = [58, 0, 0, 8, 0, 0, 0, 9, 128, 0];
    let packet = ipv6(HOST_V6, AWAY_V6, 44, &later);
    suppressed(
        "ICMPv6 of no known type",
        Suppression::AboutError,
        &frame_of(&packet),
    );
}

#[test]
fn pingers_are_told() {
    for kind in [0, 8, 13, 17, 42] {
        let packet = ipv4(HOST, AWAY, 1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        outcome(PORT, PuntReason::TimeExceeded, &frame_of(&packet)).unwrap();
    }
    for kind in [128, 129, 143] {
        let packet = ipv6(HOST_V6, AWAY_V6, 58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        outcome(PORT, PuntReason::TimeExceeded, &frame_of(&packet)).unwrap();
    }
}

#[test]
fn nobody_is_told_about_packets_to_groups() {
    for to in [
        [224, 0, 0, 9],
        [239, 1, 1, 1],
        [255; 4],
        [10, 0, 0, 255],
        [192, 168, 2, 127],
    ] {
        let packet = ipv4(HOST, to, 17, &[0; 8]);
        suppressed("to a group", Suppression::ToGroup, &frame_of(&packet));
    }
    let packet = frame_of(&ipv6(HOST_V6, "ff0e::1", 17, &[0; 8]));
    for reason in [
        PuntReason::TimeExceeded,
        PuntReason::NetUnreachable,
        PuntReason::HostUnreachable,
    ] {
        assert_eq!(outcome(PORT, reason, &packet), Err(Suppression::ToGroup));
    }
    let told = outcome(PORT, PuntReason::TooBig { mtu: 1_400 }, &packet).unwrap();
    assert_eq!(message(&told), (2, 0, 1_400), "the way's MTU is found that way");
}

#[test]
fn nobody_is_told_about_groups_of_the_link() {
    for mac in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
        let mut frame = hex(LAST_HOP);
        frame[..6].copy_from_slice(&mac);
        suppressed("to a group of the link", Suppression::LinkGroup, &frame);
        let mut frame = hex(LONG_V6);
        frame[..6].copy_from_slice(&mac);
        assert_eq!(
            outcome(PORT, PuntReason::TimeExceeded, &frame),
            Err(Suppression::LinkGroup)
        );
        outcome(PORT, PuntReason::TooBig { mtu: 1_400 }, &frame).unwrap();
    }
}

#[test]
fn nobody_is_told_about_later_fragments() {
    let mut packet = ipv4(HOST, AWAY, 17, &[0; 8]);
    Ipv4Packet::new_unchecked(&mut packet).set_frag_offset(8);
    suppressed("a later fragment", Suppression::LaterFragment, &frame_of(&packet));
    let mut packet = ipv4(HOST, AWAY, 17, &[0; 8]);
    Ipv4Packet::new_unchecked(&mut packet).set_more_frags(true);
    outcome(PORT, PuntReason::TimeExceeded, &frame_of(&packet)).unwrap();
}

#[test]
fn nobody_is_told_who_is_no_single_host() {
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
        let packet = ipv4(source, AWAY, 17, &[0; 8]);
        suppressed("from no host", Suppression::SourceNoHost, &frame_of(&packet));
    }
    for source in ["::", "::1", "ff02::1", "2001:db8::1", "fe80::a0"] {
        let packet = ipv6(source, AWAY_V6, 17, &[0; 8]);
        suppressed("from no host", Suppression::SourceNoHost, &frame_of(&packet));
    }
}

#[test]
fn what_is_no_packet_is_not_quoted() {
    let v4 = ipv4(HOST, AWAY, 17, &[0; 8]);
    let v6 = ipv6(HOST_V6, AWAY_V6, 17, &[0; 8]);
    let with = |at: usize, octet: u8| {
        let mut packet = v4.clone();
        packet[at] = octet;
        packet
    };
    let cases = [
        v4[..19].to_vec(),
        v6[..39].to_vec(),
        with(0, 0x44),
        with(0, 0x75),
        with(3, 19),
        vec![0x45],
    ];
    for packet in cases {
        let frame = frame_of(&packet);
        suppressed("no packet", Suppression::Malformed, &frame);
    }
    suppressed("no header at all", Suppression::Malformed, &[0; 14]);
}

#[test]
fn counters_have_names() {
    let mut bench = Bench::new();
    bench.put(PORT, PuntReason::TimeExceeded, &hex(LAST_HOP));
    bench.put(PORT, PuntReason::Protocol, &[0; 60]);
    let counted: Vec<_> = bench
        .cpu
        .counters()
        .named()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(counted, [("protocol_ignored", 1), ("time_exceeded", 1)]);
}
