//! Flooded frames: one charge at ingress, one charge for each egress queue, and independent copies.

use xoff_dataplane::config::{BridgingConfig, TaggingMode, VlanConfig, VlanMemberConfig};
use xoff_dataplane::{DropReason, ForwardingResult, PgId, PortId, QueueId};
use xoff_wire::Ecn;

use crate::support::frames::{ethernet_frame, insert_vlan_tag, shortest_udp_frame, station_mac, udp_frame};
use crate::support::{Harness, config};

fn broadcast_frame(len: usize) -> Vec<u8> {
    ethernet_frame([0xff; 6], station_mac(0), len)
}

#[test]
fn a_flooded_frame_is_charged_once_at_ingress_until_its_last_copy_leaves() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(4));
    (1..4).for_each(|port| harness.set_tx_enabled(port, false));
    let frame = broadcast_frame(1_000); // 1004 octets: 4 cells
    assert_eq!(
        harness.receive(0, &frame),
        ForwardingResult::Forwarded { copies: 3 }
    );
    let group = |h: &Harness| h.switch().pg_buffers(PgId::new(PortId(0), 0)).total.current_cells;
    let queue = |h: &Harness, port| {
        h.switch()
            .queue_buffers(QueueId::new(PortId(port), 0))
            .total
            .current_cells
    };
    assert_eq!(group(&harness), 4);
    assert_eq!([1, 2, 3].map(|port| queue(&harness, port)), [4, 4, 4]);
    for (port, left) in [(2, 4), (1, 4), (3, 0)] {
        harness.set_tx_enabled(port, true);
        assert_eq!(queue(&harness, port), 0);
        assert_eq!(group(&harness), left, "after port {port}");
    }
    assert_eq!(
        harness.counters(0).pgs[0].packets,
        1 + 1,
        "one learnt, one flooded"
    );
    harness.run();
    harness.assert_empty();
}

#[test]
fn only_edited_copies_of_a_flooded_frame_get_their_own_bytes() {
    let mut config = config::bridge_config(4);
    let member = |port, tagging| VlanMemberConfig { port, tagging };
    config.bridging = BridgingConfig::Vlans(vec![VlanConfig {
        id: 7,
        members: vec![
            member(0, TaggingMode::Untagged),
            member(1, TaggingMode::Tagged),
            member(2, TaggingMode::Untagged),
            member(3, TaggingMode::PriorityTagged),
        ],
    }]);
    // Copies to port 2 are marked. The other copies are not.
    config.ports[2].queues[0].wred = Some(config::wred_marking_above(0));
    let mut harness = Harness::new(&config);
    harness.set_tx_enabled(2, false);
    for len in [60, 128, 129, 1_500, 9_000] {
        harness.clear_sent();
        let mut frame = udp_frame(0, 0xff, 0, Ecn::Ect0, len);
        frame[..6].copy_from_slice(&[0xff; 6]);
        harness.receive(0, &frame);
        harness.receive(0, &frame);
        harness.set_tx_enabled(2, true);
        harness.run();
        harness.set_tx_enabled(2, false);
        let bytes = |port: u16| &harness.sent(port)[0].bytes;
        assert_eq!(*bytes(1), insert_vlan_tag(&frame, 0x8100, 7), "{len}");
        assert_eq!(*bytes(3), insert_vlan_tag(&frame, 0x8100, 0), "{len}");
        assert_eq!(bytes(2)[15] & 3, Ecn::Ce as u8, "{len}");
        assert_eq!(bytes(2)[26..], frame[26..], "{len}");
        assert_eq!(harness.sent(2)[1].bytes, frame, "{len}: nothing behind it");
        harness.assert_empty();
    }
}

#[test]
fn a_copy_for_a_full_queue_is_dropped_alone() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(4));
    harness.set_tx_enabled(1, false);
    // Alpha 1 of a pool of 2048 cells.
    assert_eq!(harness.receive_many(1_030, 2, &shortest_udp_frame(2, 1, 0)), 6);
    let before = harness.counters(0).dropped_frames();
    harness.clear_sent();
    assert_eq!(
        harness.receive(0, &broadcast_frame(60)),
        ForwardingResult::Forwarded { copies: 2 }
    );
    harness.run();
    assert_eq!(harness.sent(2).len() + harness.sent(3).len(), 2);
    assert_eq!(harness.drop_count(1, DropReason::QueueDropped), 6 + 1);
    assert_eq!(harness.counters(0).dropped_frames(), before);
    harness.set_tx_enabled(1, true);
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_copy_without_a_frame_slot_is_dropped_and_not_charged() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(4));
    (1..4).for_each(|port| harness.set_tx_enabled(port, false));
    *harness.store_mut() = xoff_dataplane::store::VecStore::new(2);
    assert_eq!(
        harness.receive(0, &broadcast_frame(60)),
        ForwardingResult::Forwarded { copies: 2 }
    );
    let none: u64 = (1..4)
        .map(|p| harness.drop_count(p, DropReason::NoBufferSpace))
        .sum();
    assert_eq!(none, 1);
    (1..4).for_each(|port| harness.set_tx_enabled(port, true));
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_flooded_lossless_frame_counts_towards_xoff_once() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(3));
    harness.set_tx_enabled(1, false);
    harness.set_tx_enabled(2, false);
    let mut frame = shortest_udp_frame(0, 9, 3);
    frame[..6].copy_from_slice(&[0xff; 6]);
    assert_eq!(harness.receive_many(2_051, 0, &frame), 0);
    assert!(harness.pfc_sent(0).is_empty());
    harness.receive(0, &frame);
    assert_eq!(harness.pfc_sent(0).len(), 1);
}
