//! ECN marking: which frames are marked, when, and which fields stay unchanged.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use xoff_dataplane::config::{EcnMarkPoint, SwitchConfig};
use xoff_dataplane::{Picos, PortId};
use xoff_wire::parse::parse;
use xoff_wire::rewrite::update_checksum;
use xoff_wire::{Addresses, BthFields, Ecn, Extension, FlowHeaders, Opcode, Reth, RocePacket, icrc};

use crate::support::frames::{ipv4_checksum, read_capture, station_mac, udp_frame};
use crate::support::{Harness, SentFrame, config};

fn ecn_field(frame: &[u8]) -> u8 {
    parse(frame).tos & 3
}

/// Returns a switch whose queues mark when more than `bytes` bytes wait.
fn marking_config(ports: usize, bytes: u64) -> SwitchConfig {
    let mut config = config::bridge_config(ports);
    for port in &mut config.ports {
        for queue in &mut port.queues {
            queue.wred = Some(config::wred_marking_above(bytes));
        }
    }
    config
}

#[test]
fn dequeue_marking_depends_on_the_remaining_queue() {
    // sonic-mgmt test_dequeue_ecn: kmin 50000, kmax 51000, pmax 100 %, 101 packets.
    let mut config = config::bridge_config(2);
    let mut wred = config::wred_marking_above(50_000);
    wred.max_bytes = 51_000;
    config.ports[1].queues[3].wred = Some(wred);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    harness.receive_many(101, 0, &udp_frame(0, 1, 3, Ecn::Ect0, 1_020));
    harness.set_tx_enabled(1, true);
    harness.run();
    let marked: Vec<bool> = harness.sent(1).iter().map(|s| ecn_field(&s.bytes) == 3).collect();
    assert_eq!(marked.len(), 101);
    assert!(marked[0] && !marked[100]);
    // 1024 bytes each: up to 48 frames behind are below kmin, 50 and more are above kmax.
    assert!(marked[..51].iter().all(|&m| m) && !marked[52..].iter().any(|&m| m));
    let counters = harness.counters(1);
    let count = marked.iter().filter(|&&m| m).count() as u64;
    assert_eq!(counters.ecn_marked, count);
    assert_eq!(counters.queues[3].wred_ecn_marked_packets, count);
    assert_eq!(counters.queues[3].wred_ecn_marked_bytes, count * 1_024);
}

#[test]
fn enqueue_marking_depends_on_the_queue_before_the_frame() {
    let mut config = marking_config(2, 50_000);
    config.mark_point = EcnMarkPoint::Enqueue;
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    let frame = udp_frame(0, 1, 3, Ecn::Ect1, 1_020);
    harness.receive_many(49, 0, &frame);
    assert!(harness.call_switch(|_, switch, _, _| switch.ports_marking_ce_on_arrival().is_empty()));
    harness.receive_many(52, 0, &frame);
    assert!(harness.call_switch(|_, switch, _, _| switch.ports_marking_ce_on_arrival() == [PortId(1)]));
    assert_eq!(harness.counters(1).ecn_marked, 52, "before any of them leaves");
    harness.set_tx_enabled(1, true);
    harness.run();
    let first = harness.sent(1).iter().position(|s| ecn_field(&s.bytes) == 3);
    assert_eq!(first, Some(49), "49 times 1024 octets wait");
    assert!(harness.sent(1)[49..].iter().all(|s| ecn_field(&s.bytes) == 3));
}

#[test]
fn frames_without_ect_are_never_marked() {
    let mut harness = Harness::with_learnt_addresses(&marking_config(2, 0));
    harness.set_tx_enabled(1, false);
    let frame = udp_frame(0, 1, 3, Ecn::NotEct, 1_020);
    harness.receive_many(100, 0, &frame);
    harness.set_tx_enabled(1, true);
    harness.run();
    assert!(harness.sent(1).iter().all(|sent| sent.bytes == frame));
    assert_eq!(harness.counters(1).ecn_marked, 0);
}

#[test]
fn the_marking_probability_is_linear_between_the_thresholds() {
    // sonic-mgmt RED accuracy: kmin 500 KB, kmax 900 KB, pmax 5 %, 910 packets of 1024 bytes, 200 rounds.
    let mut config = config::bridge_config(2);
    config.pools[0].size_bytes = 1 << 24;
    config.ports[1].link = xoff_units::LinkTiming::ethernet(400_000);
    let wred = xoff_dataplane::config::WredProfile {
        min_bytes: 500_000,
        max_bytes: 900_000,
        max_probability: (1 << 32) / 20,
        ecn: true,
        drop: false,
    };
    config.ports[1].queues[3].wred = Some(wred);
    let mut harness = Harness::with_learnt_addresses(&config);
    let (mut marks, mut expected, mut variance) = (0_usize, 0.0, 0.0);
    for _ in 0..200 {
        harness.set_tx_enabled(1, false);
        harness.receive_many(910, 0, &udp_frame(0, 1, 3, Ecn::Ect0, 1_020));
        harness.set_tx_enabled(1, true);
        harness.run();
        marks += harness
            .sent(1)
            .iter()
            .filter(|s| ecn_field(&s.bytes) == 3)
            .count();
        harness.clear_sent();
        for behind in 0..910 {
            let p = match behind as f64 * 1_024.0 {
                bytes if bytes > 900_000.0 => 1.0,
                bytes => ((bytes - 500_000.0) / 400_000.0 * 0.05).max(0.0),
            };
            expected += p;
            variance += p * (1.0 - p);
        }
    }
    let deviation = (marks as f64 - expected).abs() / f64::sqrt(variance);
    assert!(
        deviation < 4.0,
        "{marks} marks, {expected} expected, {deviation} sigma"
    );
}

/// Forwards the frames of a capture while both directions are blocked until all have arrived. Returns the
/// sent frames in the order of arrival per port and queue.
fn forward_under_congestion(config: &SwitchConfig, frames: &[Vec<u8>]) -> (Harness, Vec<Vec<SentFrame>>) {
    let mut harness = Harness::new(config);
    harness.set_tx_enabled(0, false);
    harness.set_tx_enabled(1, false);
    let first_station = &frames[0][6..12];
    for frame in frames {
        let port = u16::from(frame[6..12] != *first_station);
        harness.receive(port, frame);
    }
    harness.set_tx_enabled(0, true);
    harness.set_tx_enabled(1, true);
    harness.run_for(Picos::from_millis(1_000));
    harness.assert_empty();
    let sent = (0..2).map(|port| harness.data_sent(port)).collect();
    (harness, sent)
}

/// Returns true for each frame with more than `threshold` bytes of the same class behind it.
fn frames_above_threshold(sent: &[SentFrame], threshold: usize) -> Vec<bool> {
    let class = |s: &SentFrame| (parse(&s.bytes).tos >> 2) & 7;
    let behind = |n: usize| -> usize {
        let same = sent[n + 1..].iter().filter(|s| class(s) == class(&sent[n]));
        same.map(|s| s.bytes.len() + 4).sum()
    };
    (0..sent.len()).map(|n| behind(n) > threshold).collect()
}

fn set_ect0(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let ip = usize::from(parse(&frame).l3_offset);
    let before = u16::from_be_bytes([frame[ip], frame[ip + 1]]);
    let sum = u16::from_be_bytes([frame[ip + 10], frame[ip + 11]]);
    frame[ip + 1] |= Ecn::Ect0 as u8;
    let after = u16::from_be_bytes([frame[ip], frame[ip + 1]]);
    frame[ip + 10..ip + 12].copy_from_slice(&update_checksum(sum, before, after).to_be_bytes());
    frame
}

fn assert_ipv4_checksum(frame: &[u8]) {
    let ip = usize::from(parse(frame).l3_offset);
    let header = &frame[ip..ip + 20];
    assert_eq!(header[0], 0x45);
    assert_eq!(header[10..12], ipv4_checksum(header).to_be_bytes());
}

#[test]
fn soft_roce_frames_without_ect_are_not_marked() {
    let frames = read_capture("softroce.pcap");
    assert_eq!(frames.len(), 262);
    let (harness, sent) = forward_under_congestion(&marking_config(2, 0), &frames);
    let out: HashSet<&[u8]> = sent.iter().flatten().map(|s| &s.bytes[..]).collect();
    assert!(frames.iter().all(|frame| out.contains(&frame[..])));
    assert_eq!(sent.iter().map(Vec::len).sum::<usize>(), 262);
    assert_eq!(harness.counters(0).ecn_marked + harness.counters(1).ecn_marked, 0);
}

#[test]
fn soft_roce_frames_with_ect_are_marked_above_the_threshold_and_stay_valid() {
    const THRESHOLD: usize = 4_000;
    let frames: Vec<_> = read_capture("softroce.pcap")
        .iter()
        .map(|frame| set_ect0(frame))
        .collect();
    frames.iter().for_each(|frame| assert_ipv4_checksum(frame));
    let (harness, sent) = forward_under_congestion(&marking_config(2, THRESHOLD as u64), &frames);
    let mut marked = 0;
    for sent in &sent {
        for (sent, expected) in sent.iter().zip(frames_above_threshold(sent, THRESHOLD)) {
            let ce = ecn_field(&sent.bytes) == Ecn::Ce as u8;
            assert_eq!(ce, expected);
            assert_eq!(icrc::verify_icrc(&sent.bytes), Ok(true));
            assert_ipv4_checksum(&sent.bytes);
            marked += u64::from(ce);
        }
    }
    assert_eq!(sent.iter().map(Vec::len).sum::<usize>(), 262);
    assert!(marked > 50, "{marked}");
    let counted = harness.counters(0).ecn_marked + harness.counters(1).ecn_marked;
    assert_eq!(counted, marked);
}

/// Creates `count` RC WRITE frames over IPv6 from station 0 to station 1.
fn ipv6_write_frames(count: u32, ecn: Ecn) -> Vec<Vec<u8>> {
    let addresses = Addresses::V6 {
        src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    };
    let mut path = FlowHeaders::new(station_mac(0), station_mac(1), addresses);
    (path.ecn, path.dscp, path.flow_label) = (ecn, 3, 0xabcde);
    let frame = |psn| {
        let reth = Reth {
            virtual_address: 0x1000,
            rkey: 7,
            dma_len: 1_024,
        };
        let packet = RocePacket {
            headers: &path,
            bth: BthFields::new(Opcode::RcWriteOnly, 17, psn),
            extensions: &[Extension::Reth(reth)],
        };
        let mut frame = vec![0; packet.frame_len(1_023)];
        let fill = |payload: &mut [u8]| payload.fill(psn as u8);
        assert_eq!(packet.emit(&mut frame, 1_023, fill), Ok(frame.len()));
        frame
    };
    (0..count).map(frame).collect()
}

#[test]
fn ipv6_frames_are_marked_above_the_threshold_and_stay_valid() {
    const THRESHOLD: usize = 20_000;
    let frames = ipv6_write_frames(100, Ecn::Ect0);
    let (_, sent) = forward_under_congestion(&marking_config(2, THRESHOLD as u64), &frames);
    let expected = frames_above_threshold(&sent[1], THRESHOLD);
    assert!(expected[0] && !expected[99]);
    for ((sent, original), expected) in sent[1].iter().zip(&frames).zip(expected) {
        assert_eq!(icrc::verify_icrc(&sent.bytes), Ok(true));
        let mut unmarked = sent.bytes.clone();
        if expected {
            assert_eq!(ecn_field(&unmarked), Ecn::Ce as u8);
            // The ECN field is in the low bits of the traffic class: bits 4 and 5 of byte 1.
            unmarked[15] &= !0x10;
        }
        assert_eq!(unmarked, *original, "nothing else has changed");
    }
    let frames = ipv6_write_frames(100, Ecn::NotEct);
    let (_, sent) = forward_under_congestion(&marking_config(2, 0), &frames);
    let out: Vec<_> = sent[1].iter().map(|s| s.bytes.clone()).collect();
    assert_eq!(out, frames);
}
