//! Packet trimming, with the criteria of SONiC's packet_trimming tests and exact numbers.

use xoff_dataplane::config::{
    AclRule, AclTable, BridgingConfig, BufferProfile, BufferThreshold, SwitchConfig, TaggingMode, TrimDscp,
    TrimQueue, TrimmingConfig, VlanConfig, VlanMemberConfig,
};
use xoff_dataplane::counters::{PortCounters, TrimCounters};
use xoff_dataplane::{DropReason, ForwardingResult, PgId, PortId, QueueId};
use xoff_wire::parse::parse;
use xoff_wire::{Ecn, Ipv4Packet, Ipv6Packet, UdpPacket};

use crate::support::frames::{ethernet_frame, insert_vlan_tag, station_mac, udp_frame};
use crate::support::packets::{frame_with_packet, udp_ipv6_packet};
use crate::support::{Harness, config};

const TRIM_BYTES: usize = 256;
const TRIM_DSCP: u8 = 48;
const TRIM_QUEUE: usize = 6;
/// The class and queue that trims. Its 64 cells hold 16 frames of 1000 bytes, 4 cells each.
const FULL_CLASS: u8 = 1;
const FRAMES_TO_FULL: usize = 16;

/// Creates the trimming configuration of the upstream tests: 256 bytes, DSCP 48, queue 6. Queue 1
/// has 64 cells.
fn trimming_config(ports: usize) -> SwitchConfig {
    let mut config = config::bridge_config(ports);
    let profile = |name: &str, cells: u64, trim| BufferProfile {
        name: name.into(),
        threshold: BufferThreshold::Static(cells * u64::from(config::CELL_BYTES)),
        trim,
        ..config.profiles[config::EGRESS_LOSSY].clone()
    };
    let (full, room) = (profile("trims", 64, true), profile("trimmed", 40, false));
    let first = config.profiles.len() as u16;
    config.profiles.extend([full, room]);
    for port in &mut config.ports {
        port.queues[usize::from(FULL_CLASS)].profile = first;
        port.queues[TRIM_QUEUE].profile = first + 1;
        port.classify.dscp_to_tc[usize::from(TRIM_DSCP)] = 6;
    }
    config.trimming = Some(TrimmingConfig {
        size_bytes: TRIM_BYTES as u32,
        dscp: TrimDscp::Fixed(TRIM_DSCP),
        queue: TrimQueue::Fixed(TRIM_QUEUE as u8),
        exempt: Vec::new(),
    });
    config
}

/// Creates a switch whose port 1 is blocked and whose trimming queue at port 1 is full.
fn harness_with_full_queue(config: &SwitchConfig) -> Harness {
    let mut harness = Harness::with_learnt_addresses(config);
    harness.set_tx_enabled(1, false);
    fill_queue(&mut harness);
    harness
}

fn fill_queue(harness: &mut Harness) {
    assert_eq!(
        harness.receive_many(FRAMES_TO_FULL, 0, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 1_000)),
        0
    );
}

fn trim_counters(counters: &PortCounters, queue: usize) -> [u64; 3] {
    let queue = &counters.queues[queue];
    [
        queue.trim_packets,
        queue.tx_trim_packets,
        queue.dropped_trim_packets,
    ]
}

/// Unblocks port 1 and returns the frames that leave it, without those that filled the queue.
fn release_trimmed_frames(harness: &mut Harness) -> Vec<Vec<u8>> {
    harness.clear_sent();
    harness.set_tx_enabled(1, true);
    harness.run();
    let of_queue = |bytes: &Vec<u8>| parse(bytes).dscp() != Some(FULL_CLASS);
    let sent = harness.data_sent(1).into_iter().map(|sent| sent.bytes);
    sent.filter(of_queue).collect()
}

#[test]
fn only_packets_longer_than_the_trim_size_are_trimmed() {
    let mut harness = harness_with_full_queue(&trimming_config(2));
    let long = [400, 5_000, TRIM_BYTES + 1].map(|len| udp_frame(0, 1, FULL_CLASS, Ecn::Ect1, len));
    for frame in &long {
        assert_eq!(
            harness.receive(0, frame),
            ForwardingResult::Forwarded { copies: 1 }
        );
    }
    for len in [100, TRIM_BYTES] {
        let ForwardingResult::Dropped(drop) =
            harness.receive(0, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect1, len))
        else {
            panic!("{len} octets were not dropped");
        };
        assert_eq!(
            (drop.reason, drop.mac_len),
            (DropReason::QueueDropped, len as u32 + 4)
        );
    }
    let sent = release_trimmed_frames(&mut harness);
    assert_eq!(sent.len(), long.len());
    for (sent, whole) in sent.iter().zip(&long) {
        assert_eq!(sent.len(), TRIM_BYTES);
        let ip = Ipv4Packet::new_checked(&sent[14..]).expect("an IPv4 packet of the right length");
        assert!(ip.verify_checksum());
        assert_eq!(usize::from(ip.total_len()), TRIM_BYTES - 14);
        assert_eq!((ip.dscp(), ip.ecn()), (TRIM_DSCP, Ecn::Ect1 as u8));
        let udp = UdpPacket::new_unchecked(ip.payload());
        assert_eq!(
            usize::from(udp.len()),
            whole.len() - 34,
            "how long the packet was"
        );
        assert_eq!(sent[26..], whole[26..TRIM_BYTES]);
    }
    harness.assert_empty();
}

#[test]
fn frames_are_not_trimmed_while_the_queue_has_room() {
    let mut harness = Harness::with_learnt_addresses(&trimming_config(2));
    let frame = udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 1_000);
    harness.receive(0, &frame);
    harness.run();
    assert_eq!(harness.sent(1)[0].bytes, frame);
    assert_eq!(harness.switch().trim_counters(), TrimCounters::default());
}

#[test]
fn trimmed_packets_are_charged_by_their_new_length() {
    let mut harness = harness_with_full_queue(&trimming_config(2));
    let group = |h: &Harness| {
        h.switch()
            .pg_buffers(PgId::new(PortId(0), FULL_CLASS))
            .total
            .current_cells
    };
    let queue = |h: &Harness, n: usize| {
        let id = QueueId::new(PortId(1), n as u8);
        h.switch().queue_buffers(id).total.current_cells
    };
    assert_eq!((group(&harness), queue(&harness, 1)), (64, 64));
    harness.receive(0, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 5_000));
    // 256 bytes and the FCS need two cells of 256 bytes.
    assert_eq!(
        (group(&harness), queue(&harness, 1), queue(&harness, TRIM_QUEUE)),
        (66, 64, 2)
    );
    harness.set_tx_enabled(1, true);
    harness.run();
    harness.assert_empty();
}

#[test]
fn trim_counters_belong_to_the_queue_that_refused_the_packet() {
    let mut harness = harness_with_full_queue(&trimming_config(3));
    let received = harness.counters(0).rx_packets;
    let before = harness.counters(1).tx_packets;
    let dropped = harness.receive_many(25, 0, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 1_000));
    assert_eq!(dropped, 5, "40 cells take 20 trimmed packets");
    let counters = harness.counters(1);
    // SAI counts all three events at the queue that refused the packets.
    assert_eq!(trim_counters(&counters, 1), [25, 0, 5]);
    assert_eq!(trim_counters(&counters, TRIM_QUEUE), [0, 0, 0]);
    let queue = &counters.queues[1];
    assert_eq!((queue.dropped_packets, queue.dropped_bytes), (25, 25 * 1_004));
    assert_eq!(harness.drop_count(1, DropReason::TrimDropped), 5);
    assert_eq!(counters.dropped_frames(), 5);
    let refusal = harness
        .switch()
        .last_refusal(PortId(1), DropReason::TrimDropped)
        .expect("the limit");
    assert_eq!((refusal.limit_cells, refusal.wanted_cells), (40, 2));
    assert_eq!(release_trimmed_frames(&mut harness).len(), 20);
    let counters = harness.counters(1);
    assert_eq!(trim_counters(&counters, 1), [25, 20, 5]);
    assert_eq!(trim_counters(&counters, TRIM_QUEUE), [0, 0, 0]);
    assert_eq!(
        counters.trim_counters(),
        TrimCounters {
            trimmed: 25,
            sent: 20,
            dropped: 5
        }
    );
    assert_eq!(
        harness.switch().trim_counters(),
        counters.trim_counters(),
        "port and switch agree"
    );
    let sent = counters.tx_packets - before;
    assert_eq!(
        harness.counters(0).rx_packets - received,
        sent + 5 - FRAMES_TO_FULL as u64,
        "received is sent and dropped"
    );
    assert_eq!(
        counters.tx_class_packets[usize::from(FULL_CLASS)],
        sent,
        "a trimmed packet keeps its class"
    );
    harness.assert_empty();
}

#[test]
fn trimmed_packets_use_the_dscp_map_of_the_egress_port() {
    let mut config = trimming_config(3);
    config.ports[1].tc_to_dscp[5] = Some(10);
    config.ports[2].tc_to_dscp[5] = Some(20);
    for port in &mut config.ports {
        port.classify.dscp_to_tc[10] = 6;
        port.classify.dscp_to_tc[20] = 2;
    }
    let trimming = config.trimming.as_mut().expect("it trims");
    (trimming.dscp, trimming.queue) = (TrimDscp::FromTc(5), TrimQueue::Dynamic);
    let mut harness = Harness::with_learnt_addresses(&config);
    for (port, dscp, queue) in [(1, 10, 6), (2, 20, 2)] {
        let frame = udp_frame(0, port as u8, FULL_CLASS, Ecn::Ect0, 1_000);
        harness.set_tx_enabled(port, false);
        harness.receive_many(FRAMES_TO_FULL + 1, 0, &frame);
        harness.set_tx_enabled(port, true);
        harness.run();
        let sent = harness.data_sent(port);
        let dscps: Vec<u8> = sent.iter().filter_map(|sent| parse(&sent.bytes).dscp()).collect();
        assert_eq!(dscps.iter().filter(|d| **d == dscp).count(), 1, "{dscps:?}");
        let counters = harness.counters(port);
        assert_eq!(trim_counters(&counters, 1), [1, 1, 0]);
        assert_eq!(counters.queues[queue].packets, 1);
    }
    // Port 0 has no DSCP for this class.
    harness.set_tx_enabled(0, false);
    let dropped = harness.receive_many(
        FRAMES_TO_FULL + 2,
        1,
        &udp_frame(1, 0, FULL_CLASS, Ecn::Ect0, 1_000),
    );
    assert_eq!((dropped, harness.counters(0).trim_counters().trimmed), (2, 0));
}

#[test]
fn ipv6_and_tagged_packets_are_trimmed_in_their_egress_form() {
    let mut config = trimming_config(2);
    config.bridging = BridgingConfig::Vlans(vec![VlanConfig {
        id: 7,
        members: vec![
            VlanMemberConfig {
                port: 0,
                tagging: TaggingMode::Untagged,
            },
            VlanMemberConfig {
                port: 1,
                tagging: TaggingMode::Tagged,
            },
        ],
    }]);
    let mut harness = harness_with_full_queue(&config);
    let mut packet = udp_ipv6_packet("2001:db8::1", "2001:db8::2", 64, 1_000);
    (packet[0], packet[1]) = (0x60 | FULL_CLASS >> 2, (FULL_CLASS & 3) << 6 | 0x0a);
    let six = frame_with_packet(station_mac(1), station_mac(0), 0x86dd, &packet);
    for whole in [&six, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, TRIM_BYTES - 3)] {
        assert_eq!(
            harness.receive(0, whole),
            ForwardingResult::Forwarded { copies: 1 }
        );
    }
    // With its tag, the packet is not longer than the trimmed size.
    assert_eq!(
        harness.receive_many(1, 0, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, TRIM_BYTES - 4)),
        1
    );
    let sent = release_trimmed_frames(&mut harness);
    assert_eq!(
        sent.iter().map(Vec::len).collect::<Vec<_>>(),
        [TRIM_BYTES, TRIM_BYTES]
    );
    assert!(sent.iter().all(|sent| sent[12..16] == [0x81, 0, 0, 7]));
    let ip = Ipv6Packet::new_checked(&sent[0][18..]).expect("an IPv6 packet of the right length");
    assert_eq!(usize::from(ip.payload_len()), TRIM_BYTES - 18 - 40);
    assert_eq!((ip.traffic_class(), ip.flow_label()), (TRIM_DSCP << 2, 0xa_0000));
    assert_eq!(sent[0][26..], six[22..TRIM_BYTES - 4]);
    harness.assert_empty();
}

#[test]
fn packets_with_incomplete_ip_headers_are_not_trimmed() {
    let mut config = trimming_config(2);
    config.trimming.as_mut().expect("it trims").size_bytes = 64;
    config.ports[0].classify.dot1p_to_tc[0] = FULL_CLASS;
    let mut harness = harness_with_full_queue(&config);
    let no_ip = insert_vlan_tag(&ethernet_frame(station_mac(1), station_mac(0), 1_000), 0x8100, 0);
    let mut options = udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 1_000);
    options[14] = 0x4f;
    for frame in [&no_ip, &options] {
        assert_eq!(harness.receive_many(1, 0, frame), 1);
    }
    assert_eq!(harness.drop_count(1, DropReason::QueueDropped), 2);
    options[14] = 0x4c; // 48 octets, to octet 62
    assert_eq!(harness.receive_many(1, 0, &options), 0);
    assert_eq!(
        release_trimmed_frames(&mut harness),
        [{
            let mut left = options[..64].to_vec();
            left[15] = TRIM_DSCP << 2 | Ecn::Ect0 as u8;
            left[16..18].copy_from_slice(&50_u16.to_be_bytes());
            let words = |at: usize| u32::from(u16::from_be_bytes([options[at], options[at + 1]]));
            let fixed = |sum: u32| (sum & 0xffff) + (sum >> 16);
            let sum = (0xffff - words(24)) + (0xffff - words(16)) + 50;
            let sum = sum + (0xffff - words(14)) + u32::from(u16::from_be_bytes([left[14], left[15]]));
            left[24..26].copy_from_slice(&(!(fixed(fixed(sum)) as u16)).to_be_bytes());
            left
        }]
    );
}

#[test]
fn exempt_flows_are_dropped_and_earlier_rules_take_precedence() {
    let rule = |source: &str, exempts| AclRule {
        source: Some(source.parse().expect("a prefix")),
        exempts,
        ..AclRule::default()
    };
    let table = |rules| AclTable {
        ports: vec![0],
        rules,
    };
    let roce = AclRule {
        protocol: Some(17),
        source_ports: Some((0xc000, 0xc000)),
        destination_ports: Some((4_790, 4_791)),
        dscp: Some(FULL_CLASS),
        destination: Some("10.0.0.0/30".parse().expect("a prefix")),
        ..rule("10.0.0.0/24", true)
    };
    for (rules, trimmed) in [
        (vec![rule("10.0.0.0/32", true)], 0),
        (vec![rule("10.0.0.1/32", true)], 1),
        (vec![rule("10.0.0.0/31", false), rule("10.0.0.0/8", true)], 1),
        (vec![rule("10.0.0.0/31", true), rule("10.0.0.0/8", false)], 0),
        (vec![rule("::/0", true)], 1),
        (vec![roce.clone()], 0),
        (
            vec![AclRule {
                dscp: Some(2),
                ..roce.clone()
            }],
            1,
        ),
        (
            vec![AclRule {
                protocol: Some(6),
                ..roce.clone()
            }],
            1,
        ),
        (
            vec![AclRule {
                source_ports: Some((0, 0xbfff)),
                ..roce
            }],
            1,
        ),
    ] {
        let mut config = trimming_config(2);
        config.trimming.as_mut().expect("it trims").exempt = vec![table(rules.clone())];
        let mut harness = harness_with_full_queue(&config);
        let dropped = harness.receive_many(1, 0, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 1_000));
        assert_eq!(dropped, 1 - trimmed, "{rules:?}");
        assert_eq!(
            harness.drop_count(1, DropReason::QueueDropped),
            dropped as u64,
            "{rules:?}"
        );
        assert_eq!(release_trimmed_frames(&mut harness).len(), trimmed, "{rules:?}");
    }
    // An ACL table applies to its own ports only.
    let mut config = trimming_config(3);
    let everything = table(vec![rule("0.0.0.0/0", true)]);
    config.trimming.as_mut().expect("it trims").exempt = vec![everything];
    let mut harness = harness_with_full_queue(&config);
    assert_eq!(
        harness.receive_many(1, 2, &udp_frame(2, 1, FULL_CLASS, Ecn::Ect0, 1_000)),
        0
    );
}

#[test]
fn enabling_and_disabling_trimming_under_traffic_keeps_counters_exact() {
    let on = trimming_config(2);
    let off = SwitchConfig {
        trimming: None,
        ..on.clone()
    };
    let mut harness = harness_with_full_queue(&on);
    let frame = udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 1_000);
    let (mut trimmed, mut dropped) = (0, 0);
    for toggle in 0..10 {
        harness.apply(if toggle % 2 == 0 { &off } else { &on });
        let lost = harness.receive_many(3, 0, &frame) as u64;
        assert_eq!(lost, if toggle % 2 == 0 { 3 } else { 0 });
        (trimmed, dropped) = (trimmed + 3 - lost, dropped + lost);
        assert_eq!(
            harness.counters(1).trim_counters().trimmed,
            trimmed,
            "counters go on"
        );
        assert_eq!(harness.drop_count(1, DropReason::QueueDropped), dropped);
        harness.switch().assert_consistent();
    }
    assert_eq!(release_trimmed_frames(&mut harness).len() as u64, trimmed);
    assert_eq!(harness.counters(1).trim_counters().sent, trimmed);
    harness.assert_empty();
}

#[test]
fn copies_of_a_flooded_packet_are_trimmed_separately() {
    let mut config = trimming_config(4);
    config.ports[3].queues[1].profile = config::EGRESS_LOSSY as u16;
    let mut flooded = udp_frame(0, 9, FULL_CLASS, Ecn::Ect0, 3_000);
    flooded[..6].copy_from_slice(&[0xff; 6]);
    for (blocked, whole) in [(&[1][..], 2), (&[1, 2], 1), (&[1, 2, 3], 0)] {
        let mut harness = Harness::with_learnt_addresses(&config);
        for &port in blocked {
            harness.set_tx_enabled(port, false);
            let frames = if port == 3 { 1_100 } else { FRAMES_TO_FULL };
            harness.receive_many(frames, 0, &udp_frame(0, port as u8, FULL_CLASS, Ecn::Ect0, 1_000));
        }
        let trims_there = blocked.len() - usize::from(blocked.contains(&3));
        let before = harness.switch().trim_counters().trimmed;
        let ForwardingResult::Forwarded { copies } = harness.receive(0, &flooded) else {
            panic!("a way out was left");
        };
        assert_eq!(usize::from(copies), trims_there + whole);
        assert_eq!(
            harness.switch().trim_counters().trimmed - before,
            trims_there as u64
        );
        harness.clear_sent();
        blocked
            .iter()
            .for_each(|port| harness.set_tx_enabled(*port, true));
        harness.run();
        let of_flood = |port: u16| -> Vec<Vec<u8>> {
            let sent = harness.data_sent(port).into_iter().map(|sent| sent.bytes);
            sent.filter(|bytes| bytes[0] == 0xff).collect()
        };
        for port in [1, 2].into_iter().filter(|port| blocked.contains(port)) {
            let sent = of_flood(port);
            assert_eq!((sent.len(), sent[0].len()), (1, TRIM_BYTES));
            assert_eq!(sent[0][26..], flooded[26..TRIM_BYTES]);
        }
        harness.assert_empty();
    }
}

#[test]
fn lossless_frames_and_early_drops_are_not_trimmed() {
    let mut config = trimming_config(2);
    let profile = config.ports[1].queues[1].profile;
    config.ports[1].queues[3].profile = profile;
    let mut wred = config::wred_marking_above(0);
    (wred.ecn, wred.drop) = (false, true);
    config.ports[1].queues[1].wred = Some(wred);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    assert_eq!(
        harness.receive_many(100, 0, &udp_frame(0, 1, 3, Ecn::Ect0, 1_000)),
        0
    );
    assert_eq!(
        harness.receive_many(5, 0, &udp_frame(0, 1, FULL_CLASS, Ecn::NotEct, 1_000)),
        4
    );
    assert_eq!(harness.drop_count(1, DropReason::WredDropped), 4);
    assert_eq!(harness.switch().trim_counters(), TrimCounters::default());
}

#[test]
fn trimmed_packets_on_a_port_that_goes_down_are_counted_as_dropped() {
    let mut harness = harness_with_full_queue(&trimming_config(2));
    harness.receive_many(4, 0, &udp_frame(0, 1, FULL_CLASS, Ecn::Ect0, 1_000));
    harness.set_link(1, false);
    assert_eq!(
        harness.switch().trim_counters(),
        TrimCounters {
            trimmed: 4,
            sent: 0,
            dropped: 4
        }
    );
    harness.assert_empty();
}
