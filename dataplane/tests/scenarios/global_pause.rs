//! 802.3x PAUSE of a whole port, if no priority has PFC.

use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{DropReason, ForwardingResult, Picos, PortId};
use xoff_wire::mac_control::DESTINATION;
use xoff_wire::{MacControl, Pfc};

use crate::support::frames::{shortest_udp_frame, station_mac};
use crate::support::{Harness, config};

const PAUSE_QUANTUM: Picos = Picos(512_000);
/// Frames of one cell that put a lossless group of the test configuration into XOFF.
const FRAMES_TO_XOFF: usize = 2_052;

/// Creates ports without PFC that honour and send PAUSE.
fn config_without_pfc(ports: usize) -> SwitchConfig {
    let mut config = config::bridge_config(ports);
    for port in &mut config.ports {
        port.pfc.enabled = 0;
        port.pfc.global.honoured = true;
        port.pfc.global.generated = true;
    }
    config
}

fn pause_frame(quanta: u16) -> Vec<u8> {
    MacControl::Pause { quanta }.to_frame(station_mac(1)).to_vec()
}

/// Returns the time and quanta of the PAUSE frames that a port sent.
fn sent_pause_frames(harness: &Harness, port: u16) -> Vec<(Picos, u16)> {
    let sent = harness.sent(port).iter();
    sent.filter_map(|sent| match MacControl::parse(&sent.bytes) {
        Ok(MacControl::Pause { quanta }) => Some((sent.start, quanta)),
        _ => None,
    })
    .collect()
}

#[test]
fn a_global_pause_stops_all_queues_for_its_quanta() {
    let mut harness = Harness::with_learnt_addresses(&config_without_pfc(2));
    let start = harness.now();
    assert_eq!(harness.receive(1, &pause_frame(100)), ForwardingResult::Control);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0xff);
    for class in 0..8 {
        harness.receive(0, &shortest_udp_frame(0, 1, class));
    }
    harness.run();
    assert_eq!(harness.sent(1).len(), 8);
    assert_eq!(harness.sent(1)[0].start, start + Picos(100 * PAUSE_QUANTUM.0));
    let counters = harness.counters(1);
    assert_eq!((counters.pause_rx, counters.pfc_rx_frames), (1, 0));
    assert_eq!(counters.rx_global_pause_ps, 100 * PAUSE_QUANTUM.0);
    assert_eq!(counters.rx_pause_ps, [0; 8]);
}

#[test]
fn a_new_global_pause_replaces_the_timer_and_zero_ends_it() {
    let mut harness = Harness::with_learnt_addresses(&config_without_pfc(2));
    harness.receive(1, &pause_frame(100));
    harness.receive(0, &shortest_udp_frame(0, 1, 0));
    harness.run_for(Picos(50 * PAUSE_QUANTUM.0));
    harness.receive(1, &pause_frame(1_000));
    harness.run_for(Picos(500 * PAUSE_QUANTUM.0));
    assert!(harness.sent(1).is_empty());
    harness.receive(1, &pause_frame(0));
    assert_eq!(harness.sent(1)[0].start, harness.now());
    harness.run();
    assert_eq!(harness.counters(1).rx_global_pause_ps, 550 * PAUSE_QUANTUM.0);
}

#[test]
fn a_global_pause_is_accepted_at_the_own_address_and_from_any_source() {
    let mut harness = Harness::with_learnt_addresses(&config_without_pfc(2));
    let mut frame = pause_frame(100);
    frame[..6].copy_from_slice(&[2, 0xff, 0, 0, 1, 1]);
    frame[6..12].fill(0);
    assert_eq!(harness.receive(1, &frame), ForwardingResult::Control);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0xff);
    harness.run();
    frame[5] = 0;
    let ForwardingResult::Dropped(drop) = harness.receive(1, &frame) else {
        panic!("another port's address is none of this port's business");
    };
    assert_eq!(drop.reason, DropReason::MacControlUnknown);
    assert_eq!(harness.counters(1).pause_rx, 1);
    assert!(
        (0..2).all(|port| harness.sent(port).is_empty()),
        "never forwarded"
    );
}

#[test]
fn a_global_pause_is_ignored_if_disabled_or_if_pfc_is_enabled() {
    let mut off = config_without_pfc(2);
    off.ports[1].pfc.global.honoured = false;
    let mut on = config_without_pfc(2);
    on.ports[1].pfc.enabled = 1 << 3;
    let mut asymmetric = config_without_pfc(2);
    asymmetric.ports[1].pfc.asymmetric = true; // honours PFC, though it sends none
    for config in [off, on, asymmetric] {
        let mut harness = Harness::with_learnt_addresses(&config);
        assert_eq!(
            harness.receive(1, &pause_frame(0xffff)),
            ForwardingResult::Control
        );
        harness.receive(0, &shortest_udp_frame(0, 1, 0));
        assert_eq!(harness.sent(1).len(), 1);
        assert_eq!(harness.counters(1).pause_rx, 1);
        assert_eq!(harness.counters(1).rx_global_pause_ps, 0);
    }
}

#[test]
fn pfc_is_ignored_on_a_port_without_lossless_priorities() {
    let mut harness = Harness::with_learnt_addresses(&config_without_pfc(2));
    harness.receive_pfc(1, 0xff, [0xffff; 8]);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(harness.counters(1).pfc_rx, [1; 8]);
}

#[test]
fn xoff_of_any_group_sends_a_global_pause() {
    let mut harness = Harness::with_learnt_addresses(&config_without_pfc(2));
    harness.set_tx_enabled(1, false);
    harness.receive_many(FRAMES_TO_XOFF, 0, &shortest_udp_frame(0, 1, 3));
    let start = harness.now();
    assert_eq!(sent_pause_frames(&harness, 0), [(start, 0xffff)]);
    let frame = &harness.sent(0)[0].bytes;
    assert_eq!(frame[..6], DESTINATION);
    assert_eq!(frame[6..12], [2, 0xff, 0, 0, 1, 0], "the port's address");
    assert_eq!(frame[12..18], [0x88, 0x08, 0x00, 0x01, 0xff, 0xff]);
    harness.run_for(Picos::from_millis(40));
    let at = |ms| start + Picos::from_millis(ms);
    assert_eq!(
        sent_pause_frames(&harness, 0),
        [(at(0), 0xffff), (at(16), 0xffff), (at(32), 0xffff)]
    );
    harness.set_tx_enabled(1, true);
    harness.run();
    let (resumed, quanta) = *sent_pause_frames(&harness, 0).last().unwrap();
    assert_eq!(
        (resumed, quanta),
        (harness.sent(1)[7].start, 0),
        "8 cells below XOFF"
    );
    let counters = harness.counters(0);
    assert_eq!(
        (counters.pause_tx, counters.pfc_tx_frames, counters.pfc_tx),
        (4, 0, [0; 8])
    );
    assert_eq!(counters.tx_global_pause_ps, resumed.since(start).0);
    assert_eq!(counters.tx_pause_ps, [0; 8]);
    assert_eq!(counters.dropped_frames(), 0);
    harness.assert_empty();
}

#[test]
fn the_global_pause_ends_when_the_last_group_leaves_xoff() {
    let mut harness = Harness::with_learnt_addresses(&config_without_pfc(3));
    harness.set_queue_enabled(1, 3, false);
    harness.set_queue_enabled(1, 4, false);
    harness.receive_many(FRAMES_TO_XOFF, 0, &shortest_udp_frame(0, 1, 3));
    harness.receive_many(1_500, 0, &shortest_udp_frame(0, 1, 4));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 0b1_1000);
    harness.run_for(Picos::from_millis(1));
    assert_eq!(
        sent_pause_frames(&harness, 0).len(),
        1,
        "one pause says it for both"
    );
    harness.set_queue_enabled(1, 4, true);
    harness.run_for(Picos::from_millis(10));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    assert_eq!(
        sent_pause_frames(&harness, 0).len(),
        1,
        "the other is still congested"
    );
    harness.set_queue_enabled(1, 3, true);
    harness.run();
    let quanta: Vec<u16> = sent_pause_frames(&harness, 0).iter().map(|(_, q)| *q).collect();
    assert_eq!(quanta, [0xffff, 0]);
    harness.assert_empty();
}

#[test]
fn groups_without_headroom_and_disabled_ports_send_no_global_pause() {
    let mut quiet = config_without_pfc(2);
    quiet.ports[0].pfc.global.generated = false;
    for (config, class) in [(config_without_pfc(2), 0), (quiet, 3)] {
        let mut harness = Harness::with_learnt_addresses(&config);
        harness.set_tx_enabled(1, false);
        harness.receive_many(3_000, 0, &shortest_udp_frame(0, 1, class));
        harness.run_for(Picos::from_millis(40));
        assert!(harness.sent(0).is_empty());
    }
}

#[test]
fn a_change_between_pfc_and_global_pause_sends_the_current_state() {
    let (pfc, plain) = (config::bridge_config(2), config_without_pfc(2));
    let mut harness = Harness::with_learnt_addresses(&pfc);
    harness.set_tx_enabled(1, false);
    harness.receive_many(FRAMES_TO_XOFF, 0, &shortest_udp_frame(0, 1, 3));
    harness.receive_pfc(1, 1 << 3, [0xffff; 8]);
    harness.run_for(Picos::from_millis(1));
    harness.clear_sent();
    harness.apply(&plain);
    harness.run_for(Picos::from_millis(1));
    let xon = Pfc {
        enable: 1 << 3,
        quanta: [0; 8],
    };
    assert_eq!(harness.pfc_sent(0)[0].1, xon);
    assert_eq!(sent_pause_frames(&harness, 0).len(), 1);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0);
    harness.receive(1, &pause_frame(0xffff));
    harness.clear_sent();
    harness.apply(&pfc);
    harness.run_for(Picos::from_millis(1));
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0);
    let said: Vec<MacControl> = harness
        .sent(0)
        .iter()
        .filter_map(|sent| MacControl::parse(&sent.bytes).ok())
        .collect();
    assert!(said.contains(&MacControl::Pause { quanta: 0 }), "{said:?}");
    assert_eq!(harness.pfc_sent(0).last().unwrap().1.quanta[3], 0xffff);
    harness.set_tx_enabled(1, true);
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_global_pause_ends_when_the_link_goes_down() {
    let mut harness = Harness::with_learnt_addresses(&config_without_pfc(2));
    harness.receive(1, &pause_frame(0xffff));
    harness.set_link(1, false);
    harness.set_link(1, true);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0);
}
