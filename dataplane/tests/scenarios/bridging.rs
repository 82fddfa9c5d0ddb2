//! Tests of address learning, forwarding and ageing.

use xoff_dataplane::{ForwardingResult, LogicalPort, Picos};

use crate::support::frames::{ethernet, mac, small};
use crate::support::{Harness, config};

/// The egress ports of a frame that arrives on `port` now.
fn ways_out(harness: &mut Harness, port: u16, frame: &[u8]) -> Vec<u16> {
    harness.clear_sent();
    harness.receive(port, frame);
    harness.run_for(Picos::from_millis(1));
    let ports = harness.switch().port_count() as u16;
    (0..ports).filter(|&p| !harness.sent(p).is_empty()).collect()
}

#[test]
fn unknown_destinations_flood_and_known_ones_do_not() {
    let mut harness = Harness::new(&config::switch(4));
    assert_eq!(ways_out(&mut harness, 0, &small(0, 1, 0)), [1, 2, 3]);
    assert_eq!(ways_out(&mut harness, 1, &small(1, 0, 0)), [0]);
    assert_eq!(ways_out(&mut harness, 0, &small(0, 1, 0)), [1]);
}

#[test]
fn a_frame_leaves_byte_for_byte_as_it_came() {
    let mut harness = Harness::learnt(&config::switch(2));
    for len in [14, 15, 59, 60, 61, 1_514, 9_114] {
        let frame = ethernet(mac(1), mac(0), len);
        harness.receive(0, &frame);
        harness.run();
        assert_eq!(harness.sent(1).last().unwrap().bytes, frame, "{len} octets");
    }
}

#[test]
fn a_station_that_moves_is_found_at_its_new_port() {
    let mut harness = Harness::learnt(&config::switch(3));
    assert_eq!(ways_out(&mut harness, 0, &small(0, 1, 0)), [1]);
    harness.receive(2, &small(1, 0, 0));
    assert_eq!(ways_out(&mut harness, 0, &small(0, 1, 0)), [2]);
}

#[test]
fn addresses_age_unless_they_are_seen() {
    let mut config = config::switch(4);
    config.fdb_ageing = Picos::from_millis(300_000);
    let mut harness = Harness::learnt(&config);
    harness.run_for(Picos::from_millis(200_000));
    harness.receive(1, &small(1, 0, 0));
    harness.run_for(Picos::from_millis(200_000));
    assert_eq!(ways_out(&mut harness, 0, &small(0, 1, 0)), [1], "seen again");
    assert_eq!(ways_out(&mut harness, 0, &small(0, 2, 0)), [1, 2, 3], "too old");
    let known: Vec<LogicalPort> = harness
        .switch()
        .fdb_entries(harness.now())
        .iter()
        .map(|e| e.2)
        .collect();
    assert_eq!(known, [LogicalPort(0), LogicalPort(1)]);
}

#[test]
fn a_full_table_floods_instead_of_forgetting() {
    let mut config = config::switch(3);
    config.fdb_entries_max = 2;
    let mut harness = Harness::learnt(&config);
    assert_eq!(harness.switch().fdb_entries(harness.now()).len(), 2);
    assert_eq!(ways_out(&mut harness, 0, &small(0, 1, 0)), [1]);
    assert_eq!(ways_out(&mut harness, 0, &small(0, 2, 0)), [1, 2]);
}

#[test]
fn broadcast_and_multicast_go_everywhere_but_back() {
    let mut harness = Harness::learnt(&config::switch(4));
    for group in [[0xff; 6], [0x01, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
        assert_eq!(ways_out(&mut harness, 2, &ethernet(group, mac(2), 60)), [0, 1, 3]);
    }
    assert_eq!(
        harness.receive(2, &ethernet([0xff; 6], mac(2), 60)),
        ForwardingResult::Forwarded { copies: 3 }
    );
}
