//! Reception of PFC: which queues stop, and for how long.

use xoff_dataplane::{DropReason, ForwardingResult, Picos, PortId};
use xoff_wire::{Ecn, MacControl};

use crate::support::frames::{ethernet_frame, shortest_udp_frame, station_mac, udp_frame};
use crate::support::{Harness, config};

/// One quantum of 512 bit times at 1 Gb/s.
const PAUSE_QUANTUM: Picos = Picos(512_000);

fn quanta_of_priority(priority: usize, quanta: u16) -> [u16; 8] {
    let mut all = [0; 8];
    all[priority] = quanta;
    all
}

/// Returns a switch whose port 1 has received a pause of priority 3 for `quanta`.
fn harness_with_paused_port(quanta: u16) -> Harness {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    assert_eq!(
        harness.receive_pfc(1, 1 << 3, quanta_of_priority(3, quanta)),
        ForwardingResult::Control
    );
    harness
}

fn quanta_to_time(quanta: u64) -> Picos {
    Picos(quanta * PAUSE_QUANTUM.0)
}

#[test]
fn a_pause_stops_only_its_priority_for_its_quanta() {
    let mut harness = harness_with_paused_port(100);
    let start = harness.now();
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.receive(0, &shortest_udp_frame(0, 1, 4));
    harness.run();
    let sent = harness.sent(1);
    assert_eq!(sent[0].bytes, shortest_udp_frame(0, 1, 4));
    assert_eq!(sent[0].start, start);
    assert_eq!(sent[1].bytes, shortest_udp_frame(0, 1, 3));
    assert_eq!(sent[1].start, start + quanta_to_time(100));
    let counters = harness.counters(1);
    assert_eq!(counters.rx_pause_ps[3], quanta_to_time(100).0);
    assert_eq!((counters.pfc_rx[3], counters.pfc_on2off_rx[3]), (1, 1));
}

#[test]
fn a_new_pause_replaces_the_timer_and_zero_ends_it() {
    let mut harness = harness_with_paused_port(100);
    let start = harness.now();
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.run_until(start + quanta_to_time(50));
    harness.receive_pfc(1, 1 << 3, quanta_of_priority(3, 100));
    harness.run_until(start + quanta_to_time(149));
    assert!(harness.sent(1).is_empty(), "50 + 100 quanta");
    harness.receive_pfc(1, 1 << 3, [0; 8]);
    assert_eq!(harness.sent(1)[0].start, start + quanta_to_time(149), "at once");
    assert_eq!(harness.counters(1).rx_pause_ps[3], quanta_to_time(149).0);
}

#[test]
fn a_shorter_pause_ends_the_pause_sooner() {
    let mut harness = harness_with_paused_port(0xffff);
    let start = harness.now();
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.run_for(PAUSE_QUANTUM);
    harness.receive_pfc(1, 1 << 3, quanta_of_priority(3, 1));
    harness.run_for(quanta_to_time(5));
    assert_eq!(harness.sent(1)[0].start, start + quanta_to_time(2));
}

#[test]
fn a_frame_in_transmission_completes_during_a_pause() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let start = harness.now();
    let frame = udp_frame(0, 1, 3, Ecn::NotEct, 1_500);
    harness.receive(0, &frame);
    harness.receive(0, &frame);
    harness.run_for(Picos::from_micros(1));
    harness.receive_pfc(1, 1 << 3, quanta_of_priority(3, 100));
    harness.run();
    let sent = harness.sent(1);
    assert_eq!(sent[0].end, start + Picos::from_nanos(1_524 * 8));
    assert_eq!(sent[1].start, start + Picos::from_micros(1) + quanta_to_time(100));
}

#[test]
fn a_pause_stops_the_queue_mapped_to_its_priority() {
    let mut config = config::bridge_config(2);
    config.ports[1].pfc.priority_to_queue[3] = 5;
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.receive_pfc(1, 1 << 3, quanta_of_priority(3, 100));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.receive(0, &shortest_udp_frame(0, 1, 5));
    harness.run_for(quanta_to_time(50));
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(harness.sent(1)[0].bytes, shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 1 << 3);
}

#[test]
fn a_queue_of_two_priorities_resumes_after_both_pauses() {
    let mut config = config::bridge_config(2);
    config.ports[1].pfc.priority_to_queue[4] = 3;
    let mut harness = Harness::with_learnt_addresses(&config);
    let start = harness.now();
    harness.receive_pfc(1, 0b1_1000, [0, 0, 0, 10, 20, 0, 0, 0]);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    harness.run();
    assert_eq!(harness.sent(1)[0].start, start + quanta_to_time(20));
}

#[test]
fn pauses_of_lossy_priorities_are_counted_and_ignored() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.receive_pfc(1, 0xff, [0xffff; 8]);
    for dscp in 0..8 {
        harness.receive(0, &shortest_udp_frame(0, 1, dscp));
    }
    harness.run_for(Picos::from_millis(1));
    let stopped = |n: &u8| {
        !harness
            .sent(1)
            .iter()
            .any(|s| s.bytes == shortest_udp_frame(0, 1, *n))
    };
    assert_eq!((0..8).filter(stopped).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(harness.counters(1).pfc_rx, [1; 8]);
}

#[test]
fn ports_with_asymmetric_pfc_honour_every_priority() {
    let mut config = config::bridge_config(2);
    config.ports[1].pfc.asymmetric = true;
    let mut harness = Harness::with_learnt_addresses(&config);
    harness.receive_pfc(1, 0xff, [0xffff; 8]);
    for dscp in 0..8 {
        harness.receive(0, &shortest_udp_frame(0, 1, dscp));
    }
    harness.run_for(Picos::from_millis(1));
    assert!(harness.sent(1).is_empty());
}

#[test]
fn received_pfc_frames_are_counted_per_priority_only() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(3));
    let before = harness.counters(1);
    for quanta in [0xffff, 0] {
        for n in 0..8 {
            for _ in 0..10 {
                harness.receive_pfc(1, 1 << n, quanta_of_priority(n, quanta));
            }
        }
    }
    let after = harness.counters(1);
    assert_eq!(after.pfc_rx, [20; 8]);
    assert_eq!(after.pfc_rx_frames, 160);
    assert_eq!(
        (after.rx_packets, after.dropped_frames()),
        (before.rx_packets, before.dropped_frames())
    );
    harness.run();
    assert!(
        (0..3).all(|port| harness.sent(port).is_empty()),
        "PFC is never forwarded"
    );
}

#[test]
fn an_empty_class_enable_vector_has_no_effect() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    assert_eq!(harness.receive_pfc(1, 0, [0xffff; 8]), ForwardingResult::Control);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(harness.counters(1).pfc_rx, [0; 8]);
}

#[test]
fn global_pause_is_counted_and_ignored() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let pause = MacControl::Pause { quanta: 0xffff }.to_frame(station_mac(1));
    assert_eq!(harness.receive(1, &pause), ForwardingResult::Control);
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.sent(1).len(), 1);
    let counters = harness.counters(1);
    assert_eq!(
        (counters.pause_rx, counters.pfc_rx_frames, counters.pfc_rx),
        (1, 0, [0; 8])
    );
}

#[test]
fn malformed_mac_control_frames_are_dropped_and_pause_nothing() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let good = MacControl::Pfc(xoff_wire::Pfc {
        enable: 0xff,
        quanta: [0xffff; 8],
    })
    .to_frame(station_mac(1));
    let mut opcode = good;
    opcode[15] = 0x02;
    let mut unicast = good;
    unicast[..6].copy_from_slice(&station_mac(0));
    let before = harness.counters(1).rx_packets;
    for frame in [&opcode[..], &unicast, &good[..33], &good[..16], &good[..14]] {
        let ForwardingResult::Dropped(drop) = harness.receive(1, frame) else {
            panic!("{} octets obeyed", frame.len());
        };
        assert_eq!(drop.reason, DropReason::MacControlUnknown);
    }
    assert_eq!(harness.drop_count(1, DropReason::MacControlUnknown), 5);
    assert_eq!(harness.counters(1).rx_packets, before + 5);
    assert_eq!(harness.counters(1).pfc_rx_frames, 0);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0);
    assert_eq!(
        harness.receive(1, &good[..34]),
        ForwardingResult::Control,
        "padding is not required"
    );
    assert_eq!(harness.store().in_use(), 0);
}

#[test]
fn pfc_is_accepted_from_any_source_to_the_reserved_address_only() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let mut frame = MacControl::Pfc(xoff_wire::Pfc {
        enable: 1 << 3,
        quanta: [100; 8],
    })
    .to_frame(station_mac(1));
    frame[6..12].fill(0);
    assert_eq!(harness.receive(1, &frame), ForwardingResult::Control);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 1 << 3);
    harness.run();
    // The port's own address is valid for PAUSE but not for PFC.
    frame[..6].copy_from_slice(&[2, 0xff, 0, 0, 1, 1]);
    let ForwardingResult::Dropped(drop) = harness.receive(1, &frame) else {
        panic!("obeyed or forwarded");
    };
    assert_eq!(drop.reason, DropReason::MacControlUnknown);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0);
    assert!((0..2).all(|port| harness.sent(port).is_empty()));
}

#[test]
fn a_tagged_pfc_frame_of_minimum_length_is_not_pfc() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let mut frame = ethernet_frame([0x01, 0x80, 0xc2, 0, 0, 1], station_mac(1), 64);
    frame[12..20].copy_from_slice(&[0x81, 0, 0, 5, 0x88, 0x08, 1, 1]);
    let ForwardingResult::Dropped(drop) = harness.receive(1, &frame) else {
        panic!("obeyed or forwarded");
    };
    assert_eq!(drop.reason, DropReason::DmacReserved);
}

#[test]
fn a_pause_ends_when_the_link_goes_down() {
    let mut harness = harness_with_paused_port(0xffff);
    harness.set_link(1, false);
    harness.set_link(1, true);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0);
    harness.receive(1, &shortest_udp_frame(1, 0, 0));
    harness.receive(0, &shortest_udp_frame(0, 1, 3));
    assert_eq!(harness.sent(1).len(), 1);
}

#[test]
fn raw_control_frames_are_sent_unchanged_and_received_ones_recorded() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let raw = ethernet_frame([0x01, 0x80, 0xc2, 0, 0, 1], station_mac(7), 60);
    let handle = harness.store_mut().insert(&raw).unwrap();
    let sent = harness.call_switch(|now, switch, store, outputs| {
        switch.send_mac_control(now, PortId(1), handle, store, outputs)
    });
    assert_eq!(sent, Ok(()));
    assert_eq!(harness.sent(1)[0].bytes, raw);
    let counters = [0, 1].map(|port| harness.counters(port).injected_control_frames);
    assert_eq!(counters, [0, 1], "the port counts the frame");
    harness.switch_mut().set_mac_control_recording(PortId(1), true);
    harness.receive_pfc(1, 1 << 3, quanta_of_priority(3, 7));
    harness.receive_pfc(0, 1 << 3, quanta_of_priority(3, 7));
    let records: Vec<_> = harness.switch().mac_control_records().collect();
    assert_eq!(records.len(), 1, "port 0 is not recorded");
    assert_eq!(records[0].frame_len, 60);
    assert_eq!(records[0].bytes[18 + 6..18 + 8], [0, 7]);
}
