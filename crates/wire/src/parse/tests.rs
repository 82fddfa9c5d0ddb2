use super::*;
use crate::vlan;

/// An Ethernet header from host 1 to host 2.
fn ethernet_header(ethertype: u16) -> Vec<u8> {
    let mut header = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    header.extend(ethertype.to_be_bytes());
    header
}

/// A packet from 10.0.0.1 to 10.0.0.2 with ports 0xC001 and 4791 and TOS 0x6A. The checksum is not valid.
fn ipv4_frame(protocol: u8) -> Vec<u8> {
    let mut frame = ethernet_header(0x0800);
    frame.extend([
        0x45, 0x6a, 0, 28, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([0xc0, 0x01, 0x12, 0xb7, 0, 8, 0, 0]);
    frame
}

/// A packet from fd00::1 to fd00::2 with the same ports and traffic class.
fn ipv6_frame(next_header: u8) -> Vec<u8> {
    let mut frame = ethernet_header(0x86dd);
    frame.extend([0x66, 0xaf, 0xff, 0xff, 0, 8, next_header, 64]);
    for host in [1, 2] {
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    frame.extend([0xc0, 0x01, 0x12, 0xb7, 0, 8, 0, 0]);
    frame
}

fn with_tags(frame: &[u8], tags: &[VlanTag]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for &tag in tags.iter().rev() {
        frame.splice(0..0, [0; TAG_LEN]);
        assert!(vlan::write_outer_tag(&mut frame, tag));
    }
    frame
}

fn parse_changed(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> ParsedHeaders {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    parse(&frame)
}

#[test]
fn ip_headers_are_read() {
    let v4 = parse(&ipv4_frame(17));
    assert_eq!(
        (v4.payload, v4.tag, v4.l3_offset, v4.tos),
        (Payload::Ipv4, None, 14, 0x6a)
    );
    assert_eq!((v4.dscp(), v4.is_ecn_capable()), (Some(26), true));
    let v6 = parse(&ipv6_frame(17));
    assert_eq!(
        (v6.payload, v6.tag, v6.l3_offset, v6.tos),
        (Payload::Ipv6, None, 14, 0x6a)
    );
}

/// The values were computed once by an independent implementation that is not written in Rust. Do not
/// adjust the values: a changed hash changes the paths of flows, and therefore the results of runs with the
/// same seed.
#[test]
fn flow_hashes_are_fixed() {
    assert_eq!(parse(&ipv4_frame(17)).flow_hash, 0x0487_2e91);
    assert_eq!(parse(&ipv4_frame(1)).flow_hash, 0x7fb0_c110);
    assert_eq!(parse(&ipv6_frame(17)).flow_hash, 0x1ae3_382e);
    assert_eq!(parse(&ipv6_frame(44)).flow_hash, 0x12d0_d3db);
    assert_eq!(parse(&ethernet_header(0x0806)).flow_hash, 0x1d8b_d7cc);
    assert_eq!(
        parse_changed(ipv4_frame(17), 20, &[0x20, 0]).flow_hash,
        0x43ce_5d8f,
        "more fragments follow"
    );
}

#[test]
fn ports_count_for_whole_udp_and_tcp_only() {
    for (protocol, counts) in [(6, true), (17, true), (1, false), (50, false)] {
        let differs = |frame: Vec<u8>, at| {
            parse_changed(frame.clone(), at, &[0xff]).flow_hash != parse(&frame).flow_hash
        };
        for port in [34, 36] {
            assert_eq!(
                differs(ipv4_frame(protocol), port),
                counts,
                "IPv4 protocol {protocol}"
            );
        }
        for port in [54, 56] {
            assert_eq!(
                differs(ipv6_frame(protocol), port),
                counts,
                "IPv6 next header {protocol}"
            );
        }
        assert!(
            differs(ipv4_frame(protocol), 26) && differs(ipv4_frame(protocol), 30),
            "addresses always count"
        );
        assert!(
            differs(ipv6_frame(protocol), 22) && differs(ipv6_frame(protocol), 38),
            "addresses always count"
        );
        assert!(
            !differs(ipv4_frame(protocol), 15) && !differs(ipv4_frame(protocol), 22),
            "TOS and TTL never do"
        );
    }
}

#[test]
fn all_fragments_of_a_packet_hash_alike() {
    let first = parse_changed(ipv4_frame(17), 20, &[0x20, 0x00]);
    let mut later = ipv4_frame(17);
    later[34..38].fill(0x99);
    let later = parse_changed(later, 20, &[0x00, 0xb9]);
    assert_eq!(first.flow_hash, later.flow_hash);
    assert_ne!(first.flow_hash, parse(&ipv4_frame(17)).flow_hash);
    let dont_fragment = parse_changed(ipv4_frame(17), 20, &[0x00, 0x00]);
    assert_eq!(
        dont_fragment.flow_hash,
        parse(&ipv4_frame(17)).flow_hash,
        "DF is no fragment"
    );
}

#[test]
fn ports_outside_the_packet_are_padding() {
    let no_ports = parse_changed(ipv4_frame(17), 34, &[0; 4]).flow_hash;
    for (len, has_ports) in [(20, false), (23, false), (24, true)] {
        let hash = parse_changed(ipv4_frame(17), 16, &[0, len]).flow_hash;
        assert_eq!(hash != no_ports, has_ports, "total length {len}");
    }
    let no_ports = parse_changed(ipv6_frame(17), 54, &[0; 4]).flow_hash;
    for (len, has_ports) in [(0, false), (3, false), (4, true)] {
        let hash = parse_changed(ipv6_frame(17), 18, &[0, len]).flow_hash;
        assert_eq!(hash != no_ports, has_ports, "payload length {len}");
    }
}

#[test]
fn ipv4_options_are_skipped() {
    let mut frame = ipv4_frame(17);
    frame.splice(34..34, [1, 1, 1, 0]);
    frame[14] = 0x46;
    frame[17] = 32;
    assert_eq!(parse(&frame), parse(&ipv4_frame(17)));
}

#[test]
fn malformed_ip_is_other() {
    for (at, byte, why) in [
        (14, 0x55, "version 5"),
        (14, 0x44, "header of 16 bytes"),
        (14, 0x48, "header longer than the packet"),
        (17, 19, "total length below the header"),
        (17, 29, "total length beyond the frame"),
    ] {
        let parsed = parse_changed(ipv4_frame(17), at, &[byte]);
        assert_eq!(
            (parsed.payload, parsed.tos, parsed.dscp()),
            (Payload::Other, 0, None),
            "{why}"
        );
        assert!(!parsed.is_ecn_capable());
        assert_eq!(
            parsed.flow_hash,
            parse(&ethernet_header(0x0806)).flow_hash,
            "{why}: addresses of Ethernet"
        );
    }
    assert_eq!(parse_changed(ipv6_frame(17), 14, &[0x46]).payload, Payload::Other);
}

#[test]
fn padding_behind_the_packet_changes_nothing() {
    for frame in [ipv4_frame(17), ipv6_frame(17)] {
        let padded = [&frame[..], &[0; 30]].concat();
        assert_eq!(parse(&padded), parse(&frame));
    }
}

#[test]
fn tags_are_read_up_to_two() {
    let tag = |tpid, vid: u16| VlanTag {
        tpid,
        tci: 0xa000 | vid,
    };
    for tpid in [0x8100, 0x88a8, 0x9100, 0x9200] {
        for frame in [ipv4_frame(17), ipv6_frame(17)] {
            let plain = parse(&frame);
            let one = parse(&with_tags(&frame, &[tag(tpid, 7)]));
            assert_eq!(
                one,
                ParsedHeaders {
                    tag: Some(tag(tpid, 7)),
                    l3_offset: 18,
                    ..plain
                }
            );
            let two = parse(&with_tags(&frame, &[tag(tpid, 7), tag(0x8100, 9)]));
            assert_eq!(
                two,
                ParsedHeaders {
                    tag: Some(tag(tpid, 7)),
                    l3_offset: 22,
                    ..plain
                }
            );
            let three = parse(&with_tags(&frame, &[tag(tpid, 7); 3]));
            assert_eq!((three.payload, three.tag), (Payload::Other, Some(tag(tpid, 7))));
            assert_eq!(three.l3_offset, 22);
        }
    }
    assert_eq!((tag(0x8100, 7).pcp(), tag(0x8100, 7).vid()), (5, 7));
}

#[test]
fn tagged_mac_control_is_not_mac_control() {
    let pause = ethernet_header(0x8808);
    assert_eq!(parse(&pause).payload, Payload::MacControl);
    assert_eq!(
        parse(&with_tags(&pause, &[VlanTag::dot1q(0, 1)])).payload,
        Payload::Other
    );
}

#[test]
fn truncated_frames_are_parsed_as_far_as_possible() {
    for frame in [ipv4_frame(17), ipv6_frame(17)] {
        let tagged = with_tags(&frame, &[VlanTag::dot1q(3, 5), VlanTag::dot1q(3, 6)]);
        let l3_len = if frame == ipv4_frame(17) { 28 } else { 40 };
        for len in 0..tagged.len() {
            let parsed = parse(&tagged[..len]);
            match len {
                0..14 => {
                    let nothing = (
                        parsed.payload,
                        parsed.tag,
                        parsed.l3_offset,
                        parsed.tos,
                        parsed.flow_hash,
                    );
                    assert_eq!(nothing, (Payload::Truncated, None, 0, 0, 0));
                }
                14..18 => assert_eq!((parsed.tag, parsed.l3_offset), (None, 14)),
                18..22 => assert_eq!((parsed.tag.map(VlanTag::vid), parsed.l3_offset), (Some(5), 18)),
                _ => assert_eq!((parsed.tag.map(VlanTag::vid), parsed.l3_offset), (Some(5), 22)),
            }
            let whole = len >= 22 + l3_len;
            assert_eq!(
                matches!(parsed.payload, Payload::Ipv4 | Payload::Ipv6),
                whole,
                "{len} bytes"
            );
        }
    }
}

#[test]
fn a_stored_prefix_is_read_like_the_whole_frame() {
    let mut jumbo = ipv4_frame(17);
    jumbo[16..18].copy_from_slice(&8_000_u16.to_be_bytes());
    let frame_len = 14 + 8_000;
    let prefix = jumbo.clone();
    jumbo.resize(frame_len, 0x77);
    assert_eq!(parse_prefix(&prefix, frame_len), parse(&jumbo));
    assert_eq!(parse_prefix(&prefix, frame_len - 1).payload, Payload::Other);
    assert_eq!(
        parse_prefix(&prefix[..34], frame_len).payload,
        Payload::Ipv4,
        "ports not stored"
    );
}

/// The flows of a lab often differ in one field by small steps. If such flows use eight paths, no path gets
/// more than 125 % of its share.
#[test]
fn flows_spread_over_paths() {
    type Change = fn(&mut [u8], u16);
    let fields: [(&str, Change); 3] = [
        ("source port", |frame, n| {
            frame[34..36].copy_from_slice(&(0xc000 + n).to_be_bytes())
        }),
        ("source address", |frame, n| {
            frame[28..30].copy_from_slice(&n.to_be_bytes())
        }),
        ("destination address", |frame, n| {
            frame[32..34].copy_from_slice(&n.to_be_bytes())
        }),
    ];
    for (field, change) in fields {
        let mut paths = [0_u32; 8];
        for n in 0..4_096 {
            let mut frame = ipv4_frame(17);
            change(&mut frame, n);
            paths[parse(&frame).flow_hash as usize % paths.len()] += 1;
        }
        assert!(
            paths.iter().all(|&flows| (384..=640).contains(&flows)),
            "{field}: {paths:?}"
        );
    }
}
