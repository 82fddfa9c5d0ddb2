//! Every drop has a reason, a port and a counter.

use xoff_dataplane::config::{BridgingConfig, EcnMarkPoint};
use xoff_dataplane::{DropReason, ForwardingResult, Picos, PortId};

use crate::support::frames::{ethernet_frame, insert_vlan_tag, shortest_udp_frame, station_mac, udp_frame};
use crate::support::{Harness, config};
use xoff_wire::Ecn;

/// Sends `frame` seven times and expects seven drops for `reason`, and no other effect.
fn assert_frames_are_dropped(harness: &mut Harness, port: u16, frame: &[u8], reason: DropReason) {
    let drops = |h: &Harness| -> u64 { (0..3).map(|p| h.counters(p).dropped_frames()).sum() };
    let (before, of_reason, rx) = (
        drops(harness),
        harness.drop_count(port, reason),
        harness.counters(port).rx_packets,
    );
    for _ in 0..7 {
        match harness.receive(port, frame) {
            ForwardingResult::Dropped(drop) => {
                assert_eq!((drop.reason, drop.port), (reason, PortId(port)));
                assert_eq!(drop.mac_len, 64.max(frame.len() as u32 + 4));
            }
            other => panic!("{reason:?}: {other:?}"),
        }
    }
    assert_eq!(harness.drop_count(port, reason), of_reason + 7, "{reason:?}");
    assert_eq!(
        drops(harness),
        before + 7,
        "{reason:?}: another reason counted too"
    );
    assert_eq!(harness.counters(port).rx_packets, rx + 7, "{reason:?}: received");
    assert_eq!(harness.store().in_use(), 0, "{reason:?}: a slot is lost");
    harness.switch().assert_consistent();
}

#[test]
fn each_ingress_drop_is_counted_with_its_reason() {
    let mut config = config::bridge_config(3);
    config.ports[0].mtu = 1_500;
    let mut harness = Harness::with_learnt_addresses(&config);
    let source = |src: [u8; 6]| ethernet_frame(station_mac(1), src, 60);
    assert_frames_are_dropped(
        &mut harness,
        0,
        &source([1, 0, 0, 0, 0, 9]),
        DropReason::SmacMulticast,
    );
    assert_frames_are_dropped(
        &mut harness,
        0,
        &source(station_mac(1)),
        DropReason::SmacEqualsDmac,
    );
    assert_frames_are_dropped(
        &mut harness,
        0,
        &shortest_udp_frame(9, 0, 0),
        DropReason::L2LoopbackFilter,
    );
    let long = |len| ethernet_frame(station_mac(1), station_mac(0), len);
    assert_frames_are_dropped(&mut harness, 0, &long(1_515), DropReason::ExceedsL2Mtu);
    let long_tagged = insert_vlan_tag(&long(1_515), 0x8100, 0);
    assert_frames_are_dropped(&mut harness, 0, &long_tagged, DropReason::ExceedsL2Mtu);
    for len in 0..14 {
        assert_frames_are_dropped(&mut harness, 0, &long(60)[..len], DropReason::Truncated);
    }
    harness.set_link(2, false);
    assert_frames_are_dropped(
        &mut harness,
        2,
        &shortest_udp_frame(2, 0, 0),
        DropReason::PortDown,
    );
}

#[test]
fn reserved_multicast_addresses_are_never_forwarded() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(3));
    for last in 0..=0x0f {
        let frame = ethernet_frame([0x01, 0x80, 0xc2, 0, 0, last], station_mac(0), 60);
        assert_frames_are_dropped(&mut harness, 0, &frame, DropReason::DmacReserved);
    }
    let beyond = ethernet_frame([0x01, 0x80, 0xc2, 0, 0, 0x10], station_mac(0), 60);
    assert_eq!(
        harness.receive(0, &beyond),
        ForwardingResult::Forwarded { copies: 2 }
    );
    harness.run();
    harness.clear_sent();
    harness.switch_mut().set_protocols_attached(true);
    let lldp = ethernet_frame([0x01, 0x80, 0xc2, 0, 0, 0x0e], station_mac(0), 60);
    assert_eq!(harness.receive(0, &lldp), ForwardingResult::Punted);
    let punt = harness.punts.pop().unwrap();
    assert_eq!(
        (punt.port, harness.store().contents(punt.frame)),
        (PortId(0), lldp)
    );
    assert!((0..3).all(|p| harness.sent(p).is_empty()));
}

#[test]
fn the_mtu_excludes_header_and_tags_and_applies_at_egress() {
    let mut config = config::bridge_config(2);
    config.ports[1].mtu = 1_500;
    let mut harness = Harness::with_learnt_addresses(&config);
    let fits = ethernet_frame(station_mac(1), station_mac(0), 1_514);
    let too_long = ethernet_frame(station_mac(1), station_mac(0), 1_515);
    for frame in [&fits, &insert_vlan_tag(&fits, 0x8100, 5)] {
        assert_eq!(
            harness.receive(0, frame),
            ForwardingResult::Forwarded { copies: 1 }
        );
    }
    for frame in [&too_long, &insert_vlan_tag(&too_long, 0x8100, 5)] {
        let ForwardingResult::Dropped(drop) = harness.receive(0, frame) else {
            panic!("forwarded {} octets", frame.len());
        };
        assert_eq!((drop.reason, drop.port), (DropReason::ExceedsL2Mtu, PortId(1)));
    }
    assert_eq!(harness.drop_count(1, DropReason::ExceedsL2Mtu), 2);
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_flooded_frame_without_egress_port_is_dropped_once() {
    let mut harness = Harness::new(&config::bridge_config(3));
    harness.set_link(1, false);
    harness.set_link(2, false);
    assert_frames_are_dropped(
        &mut harness,
        0,
        &shortest_udp_frame(0, 9, 0),
        DropReason::L2LoopbackFilter,
    );
}

#[test]
fn drops_at_a_limit_are_counted_at_its_group_or_queue() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_tx_enabled(1, false);
    assert_eq!(
        harness.receive_many(2_116 + 5, 0, &shortest_udp_frame(0, 1, 3)),
        5
    );
    assert_eq!(
        harness.receive_many(1_024 + 7, 0, &shortest_udp_frame(0, 1, 6)),
        7
    );
    let (ingress, egress) = (harness.counters(0), harness.counters(1));
    assert_eq!(harness.drop_count(0, DropReason::PriorityGroupDropped), 5);
    let groups: Vec<u64> = ingress.pgs.iter().map(|pg| pg.dropped_packets).collect();
    assert_eq!(groups, [0, 0, 0, 5, 0, 0, 0, 0]);
    assert_eq!(harness.drop_count(1, DropReason::QueueDropped), 7);
    assert_eq!(egress.queues[6].dropped_packets, 7);
    assert_eq!(egress.queues[6].dropped_bytes, 7 * 64);
    assert_eq!(egress.drops[DropReason::QueueDropped as usize][6], 7);
}

#[test]
fn without_pfc_lossless_frames_are_dropped_at_ingress_with_the_limit() {
    let mut config = config::bridge_config(2);
    config.ports.iter_mut().for_each(|port| port.pfc.enabled = 0);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    harness.receive_many(2_116, 0, &shortest_udp_frame(0, 1, 3));
    let ForwardingResult::Dropped(drop) = harness.receive(0, &shortest_udp_frame(0, 1, 3)) else {
        panic!("no limit");
    };
    assert_eq!(
        (drop.reason, drop.port, drop.tc),
        (DropReason::PriorityGroupDropped, PortId(0), 3)
    );
    let refusal = drop.refusal.unwrap();
    assert_eq!(
        refusal.to_string(),
        "headroom of the priority group: cells in use: 64 of 64, 1 wanted"
    );
    let last = harness
        .switch()
        .last_refusal(PortId(0), DropReason::PriorityGroupDropped);
    assert_eq!(last, Some(refusal));
    assert!(harness.sent(0).is_empty(), "no PFC");
}

#[test]
fn early_drops_apply_only_to_lossy_frames_without_ect() {
    for mark_point in [EcnMarkPoint::Dequeue, EcnMarkPoint::Enqueue] {
        let mut config = config::bridge_config(2);
        config.mark_point = mark_point;
        for queue in [0, 3] {
            let mut wred = config::wred_marking_above(640);
            wred.drop = true;
            config.ports[1].queues[queue].wred = Some(wred);
        }
        let mut harness = Harness::with_learnt_addresses(&config);
        harness.set_tx_enabled(1, false);
        assert_eq!(
            harness.receive_many(20, 0, &shortest_udp_frame(0, 1, 0)),
            9,
            "more than 640 octets"
        );
        assert_eq!(
            harness.receive_many(20, 0, &shortest_udp_frame(0, 1, 3)),
            0,
            "lossless"
        );
        assert_eq!(harness.receive_many(20, 0, &udp_frame(0, 1, 0, Ecn::Ect0, 60)), 0);
        assert_eq!(harness.drop_count(1, DropReason::WredDropped), 9);
        assert_eq!(harness.counters(1).queues[0].wred_dropped_packets, 9);
        // SAI's DROPPED_PACKETS includes early drops.
        let queue = harness.counters(1).queues[0];
        assert_eq!((queue.dropped_packets, queue.dropped_bytes), (9, 9 * 64));
    }
}

#[test]
fn a_full_frame_table_has_its_own_drop_reason() {
    let mut config = config::bridge_config(3);
    config.frames_max = 10;
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    assert_eq!(harness.receive_many(15, 0, &shortest_udp_frame(0, 1, 0)), 5);
    assert_eq!(harness.drop_count(0, DropReason::NoBufferSpace), 5);
    harness.set_tx_enabled(1, true);
    harness.run();
    harness.assert_empty();
}

#[test]
fn random_bytes_do_not_panic_the_switch() {
    let mut config = config::bridge_config(3);
    for bridging in [config.bridging.clone(), BridgingConfig::Vlans(Vec::new())] {
        config.bridging = bridging;
        let mut harness = Harness::new(&config);
        harness.switch_mut().set_protocols_attached(true);
        for ethertype in [0x0800_u16, 0x86dd, 0x8100, 0x88a8, 0x8808, 0x9100, 0] {
            for len in 0..80 {
                let mut frame = ethernet_frame([0x01, 0x80, 0xc2, 0, 0, 1], station_mac(0), 80);
                frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
                frame[14..16].copy_from_slice(&[0x01, 0x01]);
                harness.receive(0, &frame[..len]);
                frame[..6].copy_from_slice(&[0xff; 6]);
                frame[14] = 0x45;
                frame[18..20].copy_from_slice(&ethertype.to_be_bytes());
                harness.receive(0, &frame[..len]);
            }
        }
        harness.run_for(Picos::from_millis(1_000));
        harness.switch().assert_consistent();
        assert_eq!(harness.switch().queued_frames(), 0);
        assert_eq!(harness.store().in_use(), harness.punts.len());
    }
}
