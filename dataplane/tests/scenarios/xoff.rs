//! Sending of PFC: XOFF, refresh and XON.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::store::VecStore;
use xoff_dataplane::{ForwardingResult, Picos, PortId, QueueId};
use xoff_wire::mac_control::{DESTINATION, OPCODE_PFC};

use crate::support::frames::{shortest_udp_frame, udp_frame};
use crate::support::{Harness, config};
use xoff_wire::{Ecn, Pfc};

/// Frames of one cell that put a lossless group of the test configuration into XOFF.
const FRAMES_TO_XOFF: usize = 2_052;

/// Creates a switch whose port 1 is blocked and whose port 0 is one frame below XOFF.
fn harness_one_frame_below_xoff(config: &SwitchConfig) -> Harness {
    let mut harness = Harness::with_learnt_addresses(config);
    harness.set_tx_enabled(1, false);
    assert_eq!(
        harness.receive_many(FRAMES_TO_XOFF - 1, 0, &shortest_udp_frame(0, 1, 3)),
        0
    );
    assert!(harness.sent(0).is_empty());
    harness
}

fn xoff_frame(priority: usize) -> Pfc {
    let mut quanta = [0; 8];
    quanta[priority] = 0xffff;
    Pfc {
        enable: 1 << priority,
        quanta,
    }
}

fn xon_frame(priority: usize) -> Pfc {
    Pfc {
        enable: 1 << priority,
        quanta: [0; 8],
    }
}

#[test]
fn xoff_is_sent_in_the_call_that_reaches_the_threshold() {
    let mut harness = harness_one_frame_below_xoff(&config::bridge_config(2));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.pfc_sent(0), [(harness.now(), xoff_frame(3))]);
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    let frame = &harness.sent(0)[0].bytes;
    assert_eq!(frame.len(), 60);
    assert_eq!(frame[..6], DESTINATION);
    assert_eq!(frame[6..12], [2, 0xff, 0, 0, 1, 0], "the port's address");
    assert_eq!(frame[12..16], [0x88, 0x08, 0x01, 0x01]);
    assert_eq!(OPCODE_PFC, 0x0101);
    assert!(frame[34..].iter().all(|&octet| octet == 0), "padding");
    let counters = harness.counters(0);
    assert_eq!((counters.pfc_tx_frames, counters.pfc_tx[3]), (1, 1));
    assert_eq!(counters.tx_class_packets[3], 0, "not an ordinary frame");
    assert_eq!(counters.pgs[3].xoff_transitions, 1);
}

#[test]
fn xoff_waits_only_for_the_frame_in_transmission() {
    let mut harness = harness_one_frame_below_xoff(&config::bridge_config(2));
    for _ in 0..10 {
        harness.receive(1, &udp_frame(1, 0, 0, Ecn::NotEct, 1_500));
    }
    let in_flight_until = harness.sent(0)[0].end;
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert!(harness.pfc_sent(0).is_empty(), "the link is busy");
    harness.run_for(Picos::from_millis(1));
    assert_eq!(harness.pfc_sent(0), [(in_flight_until, xoff_frame(3))]);
    assert_eq!(harness.sent(0).len(), 11);
    assert_eq!(
        harness.sent(0)[2].start,
        harness.sent(0)[1].end,
        "data goes on behind it"
    );
}

#[test]
fn xoff_is_sent_from_a_paused_or_blocked_port() {
    let mut harness = harness_one_frame_below_xoff(&config::bridge_config(2));
    harness.receive_pfc(0, 0xff, [0xffff; 8]);
    harness.set_tx_enabled(0, false);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.pfc_sent(0).len(), 1);
}

#[test]
fn xoff_is_refreshed_while_the_group_is_congested() {
    let mut harness = harness_one_frame_below_xoff(&config::bridge_config(2));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    let start = harness.now();
    harness.run_for(Picos::from_millis(100));
    let times: Vec<u64> = harness
        .pfc_sent(0)
        .iter()
        .map(|(at, _)| at.since(start).0)
        .collect();
    let expected: Vec<u64> = (0..7).map(|n| n * 16_000_000_000).collect();
    assert_eq!(times, expected);
    assert!(harness.pfc_sent(0).iter().all(|(_, pfc)| *pfc == xoff_frame(3)));
    assert_eq!(harness.counters(0).pgs[3].xoff_transitions, 1, "one transition");
    assert_eq!(
        harness.counters(0).tx_pause_ps[3],
        Picos::from_millis(100).0,
        "the pause in progress counts"
    );
}

#[test]
fn xon_is_sent_at_the_xon_threshold_and_ends_the_refresh() {
    let mut harness = harness_one_frame_below_xoff(&config::bridge_config(2));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.run_for(Picos::from_millis(20));
    harness.clear_sent();
    harness.set_tx_enabled(1, true);
    harness.run_for(Picos::from_millis(100));
    // 8 cells below XOFF: at the start of the eighth transmission.
    assert_eq!(harness.pfc_sent(0), [(harness.sent(1)[7].start, xon_frame(3))]);
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0);
    harness.assert_empty();
}

#[test]
fn one_pfc_frame_carries_all_congested_priorities() {
    let mut harness = harness_one_frame_below_xoff(&config::bridge_config(2));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.receive_many(1_100, 0, &shortest_udp_frame(0, 1, 4));
    harness.run_for(Picos::from_millis(16));
    let both = Pfc {
        enable: 0b1_1000,
        quanta: [0, 0, 0, 0xffff, 0xffff, 0, 0, 0],
    };
    let last = harness.pfc_sent(0).pop().unwrap();
    assert_eq!(last.1, both);
}

#[test]
fn lossy_and_disabled_priorities_cause_no_pfc() {
    let mut config = config::bridge_config(2);
    config.ports[0].pfc.enabled = 1 << 4;
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.set_tx_enabled(1, false);
    harness.receive_many(5_000, 0, &shortest_udp_frame(0, 1, 3));
    harness.receive_many(5_000, 0, &shortest_udp_frame(0, 1, 0));
    assert!(harness.sent(0).is_empty());
    assert_eq!(harness.counters(0).pfc_tx_frames, 0);
}

#[test]
fn asymmetric_ports_send_pfc_for_enabled_priorities_only() {
    let mut config = config::bridge_config(2);
    config.ports[0].pfc.asymmetric = true;
    config.ports[0].pfc.enabled = 1 << 3;
    let mut harness = harness_one_frame_below_xoff(&config);
    harness.receive_many(2_000, 0, &shortest_udp_frame(0, 1, 4));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.pfc_sent(0).last().unwrap().1, xoff_frame(3));
}

#[test]
fn pfc_priorities_follow_the_priority_to_group_map() {
    let mut config = config::bridge_config(2);
    config.ports[0].pfc.enabled = 0b0110_0000;
    config.ports[0].pfc.priority_to_pg[5] = 3;
    config.ports[0].pfc.priority_to_pg[6] = 3;
    let mut harness = harness_one_frame_below_xoff(&config);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    let pfc = harness.pfc_sent(0)[0].1;
    assert_eq!(pfc.enable, 0b0110_0000);
}

#[test]
fn an_xoff_that_ends_while_the_link_is_busy_is_not_sent() {
    let mut config = config::bridge_config(2);
    config.ports[1].link = xoff_units::LinkTiming::ethernet(100_000);
    let mut harness = harness_one_frame_below_xoff(&config);
    harness.receive(1, &udp_frame(1, 0, 0, Ecn::NotEct, 9_000));
    assert_eq!(harness.sent(0).len(), 1, "72 us in flight on port 0");
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    harness.set_tx_enabled(1, true);
    harness.run_for(Picos::from_millis(100));
    assert!(harness.pfc_sent(0).is_empty());
    assert_eq!(harness.counters(0).pgs[3].xoff_transitions, 1);
    harness.assert_empty();
}

#[test]
fn a_due_refresh_behind_a_long_frame_is_replaced_by_xon() {
    let mut config = config::bridge_config(2);
    config.ports[1].link = xoff_units::LinkTiming::ethernet(100_000);
    let mut harness = harness_one_frame_below_xoff(&config);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.run_for(Picos::from_micros(15_990));
    harness.clear_sent();
    harness.receive(1, &udp_frame(1, 0, 0, Ecn::NotEct, 9_000)); // until 16.06 ms
    harness.run_for(Picos::from_micros(20)); // the refresh is due and waits
    assert!(harness.pfc_sent(0).is_empty());
    harness.set_tx_enabled(1, true); // drains in microseconds
    harness.run_for(Picos::from_millis(100));
    let after_the_frame = harness.sent(0)[0].end;
    assert_eq!(harness.pfc_sent(0), [(after_the_frame, xon_frame(3))]);
}

#[test]
fn congestion_before_a_pending_xon_is_sent_causes_xoff() {
    let mut config = config::bridge_config(2);
    config.ports[1].link = xoff_units::LinkTiming::ethernet(100_000);
    let mut harness = harness_one_frame_below_xoff(&config);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.run_for(Picos::from_millis(1));
    harness.clear_sent();
    harness.receive(1, &udp_frame(1, 0, 0, Ecn::NotEct, 9_000));
    harness.set_tx_enabled(1, true);
    harness.run_for(Picos::from_micros(2));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0, "XON is owed");
    harness.set_tx_enabled(1, false);
    harness.receive_many(FRAMES_TO_XOFF, 0, &shortest_udp_frame(0, 1, 3));
    harness.run_for(Picos::from_millis(10));
    let said: Vec<Pfc> = harness.pfc_sent(0).iter().map(|(_, pfc)| *pfc).collect();
    assert_eq!(said, [xoff_frame(3)]);
}

#[test]
fn a_pfc_frame_without_a_frame_slot_is_sent_later() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_tx_enabled(1, false);
    *harness.store_mut() = VecStore::new(FRAMES_TO_XOFF);
    harness.receive_many(FRAMES_TO_XOFF, 0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    assert!(harness.pfc_sent(0).is_empty(), "the last slot is taken");
    harness.set_tx_enabled(1, true); // one departure, one slot
    harness.set_tx_enabled(1, false);
    harness.run_for(Picos::from_micros(10));
    assert_eq!(harness.pfc_sent(0).len(), 1);
}

#[test]
fn every_group_of_the_pool_resumes_when_the_pool_has_room() {
    // Ports 0 and 2 are in XOFF because the pool is full. The draining frames came from port 0.
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(4));
    harness.set_tx_enabled(1, false);
    harness.set_tx_enabled(3, false);
    harness.receive_many(1_370, 0, &shortest_udp_frame(0, 1, 3));
    harness.receive_many(1_369, 2, &shortest_udp_frame(2, 3, 3));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(
        harness.switch().xoff_groups(PortId(0)) & harness.switch().xoff_groups(PortId(2)),
        1 << 3
    );
    harness.clear_sent();
    harness.set_tx_enabled(1, true);
    harness.run_for(Picos::from_millis(5));
    let xons = |port| {
        let pfc = harness.pfc_sent(port);
        pfc.iter().filter(|(_, pfc)| *pfc == xon_frame(3)).count()
    };
    assert_eq!((xons(0), xons(2)), (1, 1));
    let left = harness.switch().queue_buffers(QueueId::new(PortId(3), 3));
    assert_eq!(
        left.total.current_cells, 1_369,
        "its own frames are all still there"
    );
}

#[test]
fn pfc_is_not_sent_while_the_port_is_down_and_sent_when_it_is_up() {
    let mut harness = harness_one_frame_below_xoff(&config::bridge_config(2));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.set_link(0, false);
    harness.clear_sent();
    harness.run_for(Picos::from_millis(100));
    assert!(harness.sent(0).is_empty());
    assert!(matches!(
        harness.receive(0, &shortest_udp_frame(0, 1, 3)),
        ForwardingResult::Dropped(_)
    ));
    harness.set_link(0, true);
    assert_eq!(harness.pfc_sent(0), [(harness.now(), xoff_frame(3))]);
    harness.run_for(Picos::from_millis(16));
    assert_eq!(harness.pfc_sent(0).len(), 2, "and repeated");
}
