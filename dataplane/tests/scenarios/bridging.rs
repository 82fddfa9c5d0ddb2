//! Tests of address learning, forwarding and ageing.

use xoff_dataplane::{ForwardingResult, LogicalPort, Picos, PortId, SwitchEventKind};

use crate::support::frames::{ethernet_frame, shortest_udp_frame, station_mac};
use crate::support::{Harness, config};

/// Returns the egress ports of a frame that arrives on `port` now.
fn egress_ports(harness: &mut Harness, port: u16, frame: &[u8]) -> Vec<u16> {
    harness.clear_sent();
    harness.receive(port, frame);
    harness.run_for(Picos::from_millis(1));
    let ports = harness.switch().port_count() as u16;
    (0..ports).filter(|&p| !harness.sent(p).is_empty()).collect()
}

#[test]
fn unknown_destinations_are_flooded_and_known_ones_forwarded() {
    let mut harness = Harness::new(&config::bridge_config(4));
    assert_eq!(
        egress_ports(&mut harness, 0, &shortest_udp_frame(0, 1, 0)),
        [1, 2, 3]
    );
    assert_eq!(egress_ports(&mut harness, 1, &shortest_udp_frame(1, 0, 0)), [0]);
    assert_eq!(egress_ports(&mut harness, 0, &shortest_udp_frame(0, 1, 0)), [1]);
}

#[test]
fn a_bridged_frame_is_unchanged() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    for len in [14, 15, 59, 60, 61, 1_514, 9_114] {
        let frame = ethernet_frame(station_mac(1), station_mac(0), len);
        harness.receive(0, &frame);
        harness.run();
        assert_eq!(harness.sent(1).last().unwrap().bytes, frame, "{len} octets");
    }
}

#[test]
fn a_moved_station_is_learnt_at_its_new_port() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(3));
    assert_eq!(egress_ports(&mut harness, 0, &shortest_udp_frame(0, 1, 0)), [1]);
    harness.receive(2, &shortest_udp_frame(1, 0, 0));
    assert_eq!(egress_ports(&mut harness, 0, &shortest_udp_frame(0, 1, 0)), [2]);
}

/// Sends `frames` frames of station 0, in turn on ports 0 and 2, and returns the reported moves. `gap` is the
/// time between two frames.
fn report_moves(frames: u16, gap: Picos) -> Vec<([u8; 6], u16, [PortId; 2])> {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(3));
    for n in 0..frames {
        harness.receive(2 * (n % 2), &shortest_udp_frame(0, 1, 0));
        harness.run_for(gap);
    }
    let moves = harness.switch_events.iter().filter_map(|event| match event.kind {
        SwitchEventKind::MacMoves { address, vlan, ports } => Some((address, vlan, ports)),
        _ => None,
    });
    moves.collect()
}

#[test]
fn an_address_that_moves_too_often_is_reported_once_with_both_ports() {
    // The first frame arrives on the port of the station, so 101 moves need 102 frames.
    assert_eq!(report_moves(101, Picos::from_millis(5)), []);
    // The 101st move is from port 0 to port 2.
    let expected = [(station_mac(0), 0, [PortId(0), PortId(2)])];
    assert_eq!(report_moves(102, Picos::from_millis(5)), expected);
    assert_eq!(report_moves(1_000, Picos::from_millis(5)), expected);
    assert_eq!(report_moves(1_000, Picos::from_millis(11)), []);
}

#[test]
fn addresses_expire_unless_they_are_seen_again() {
    let mut config = config::bridge_config(4);
    config.fdb_ageing = Picos::from_millis(300_000);
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.run_for(Picos::from_millis(200_000));
    harness.receive(1, &shortest_udp_frame(1, 0, 0));
    harness.run_for(Picos::from_millis(200_000));
    assert_eq!(
        egress_ports(&mut harness, 0, &shortest_udp_frame(0, 1, 0)),
        [1],
        "seen again"
    );
    assert_eq!(
        egress_ports(&mut harness, 0, &shortest_udp_frame(0, 2, 0)),
        [1, 2, 3],
        "too old"
    );
    let known: Vec<LogicalPort> = harness
        .switch()
        .fdb_entries(harness.now())
        .iter()
        .map(|e| e.2)
        .collect();
    assert_eq!(known, [LogicalPort(0), LogicalPort(1)]);
}

#[test]
fn a_full_address_table_floods_and_keeps_its_entries() {
    let mut config = config::bridge_config(3);
    config.fdb_entries_max = 2;
    let mut harness = Harness::with_learnt_addresses(&config);
    assert_eq!(harness.switch().fdb_entries(harness.now()).len(), 2);
    assert_eq!(egress_ports(&mut harness, 0, &shortest_udp_frame(0, 1, 0)), [1]);
    assert_eq!(
        egress_ports(&mut harness, 0, &shortest_udp_frame(0, 2, 0)),
        [1, 2]
    );
}

#[test]
fn broadcast_and_multicast_leave_by_all_other_ports() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(4));
    for group in [[0xff; 6], [0x01, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
        assert_eq!(
            egress_ports(&mut harness, 2, &ethernet_frame(group, station_mac(2), 60)),
            [0, 1, 3]
        );
    }
    assert_eq!(
        harness.receive(2, &ethernet_frame([0xff; 6], station_mac(2), 60)),
        ForwardingResult::Forwarded { copies: 3 }
    );
}
