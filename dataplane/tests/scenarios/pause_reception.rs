//! Reception of PFC: which queues stop, and for how long.

use xoff_dataplane::{DropReason, ForwardingResult, Picos, PortId};
use xoff_wire::{Ecn, MacControl};

use crate::support::frames::{ethernet, mac, small, udp};
use crate::support::{Harness, config};

/// One quantum of 512 bit times at 1 Gb/s.
const QUANTUM: Picos = Picos(512_000);

fn only(priority: usize, quanta: u16) -> [u16; 8] {
    let mut all = [0; 8];
    all[priority] = quanta;
    all
}

/// A switch whose port 1 has received a pause of priority 3 for `quanta`.
fn paused(quanta: u16) -> Harness {
    let mut harness = Harness::learnt(&config::switch(2));
    assert_eq!(
        harness.receive_pfc(1, 1 << 3, only(3, quanta)),
        ForwardingResult::Control
    );
    harness
}

fn span(quanta: u64) -> Picos {
    Picos(quanta * QUANTUM.0)
}

#[test]
fn a_paused_class_waits_for_its_quanta_and_others_go_on() {
    let mut harness = paused(100);
    let start = harness.now();
    harness.receive(0, &small(0, 1, 3));
    harness.receive(0, &small(0, 1, 4));
    harness.run();
    let sent = harness.sent(1);
    assert_eq!(sent[0].bytes, small(0, 1, 4));
    assert_eq!(sent[0].start, start);
    assert_eq!(sent[1].bytes, small(0, 1, 3));
    assert_eq!(sent[1].start, start + span(100));
    let counters = harness.counters(1);
    assert_eq!(counters.rx_pause_ps[3], span(100).0);
    assert_eq!((counters.pfc_rx[3], counters.pfc_on2off_rx[3]), (1, 1));
}

#[test]
fn a_new_value_replaces_the_timer_and_zero_ends_it() {
    let mut harness = paused(100);
    let start = harness.now();
    harness.receive(0, &small(0, 1, 3));
    harness.run_until(start + span(50));
    harness.receive_pfc(1, 1 << 3, only(3, 100));
    harness.run_until(start + span(149));
    assert!(harness.sent(1).is_empty(), "50 + 100 quanta");
    harness.receive_pfc(1, 1 << 3, [0; 8]);
    assert_eq!(harness.sent(1)[0].start, start + span(149), "at once");
    assert_eq!(harness.counters(1).rx_pause_ps[3], span(149).0);
}

#[test]
fn a_shorter_value_ends_the_pause_sooner() {
    let mut harness = paused(0xffff);
    let start = harness.now();
    harness.receive(0, &small(0, 1, 3));
    harness.run_for(QUANTUM);
    harness.receive_pfc(1, 1 << 3, only(3, 1));
    harness.run_for(span(5));
    assert_eq!(harness.sent(1)[0].start, start + span(2));
}

#[test]
fn the_frame_in_flight_completes() {
    let mut harness = Harness::learnt(&config::switch(2));
    let start = harness.now();
    let frame = udp(0, 1, 3, Ecn::NotEct, 1_500);
    harness.receive(0, &frame);
    harness.receive(0, &frame);
    harness.run_for(Picos::from_micros(1));
    harness.receive_pfc(1, 1 << 3, only(3, 100));
    harness.run();
    let sent = harness.sent(1);
    assert_eq!(sent[0].end, start + Picos::from_nanos(1_524 * 8));
    assert_eq!(sent[1].start, start + Picos::from_micros(1) + span(100));
}

#[test]
fn priorities_stop_the_queue_they_are_mapped_to() {
    let mut config = config::switch(2);
    config.ports[1].pfc.priority_to_queue[3] = 5;
    let mut harness = Harness::learnt(&config);
    harness.receive_pfc(1, 1 << 3, only(3, 100));
    harness.receive(0, &small(0, 1, 3));
    harness.receive(0, &small(0, 1, 5));
    harness.run_for(span(50));
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(harness.sent(1)[0].bytes, small(0, 1, 3));
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 1 << 3);
}

#[test]
fn a_queue_of_two_priorities_goes_on_when_both_have_ended() {
    let mut config = config::switch(2);
    config.ports[1].pfc.priority_to_queue[4] = 3;
    let mut harness = Harness::learnt(&config);
    let start = harness.now();
    harness.receive_pfc(1, 0b1_1000, [0, 0, 0, 10, 20, 0, 0, 0]);
    harness.receive(0, &small(0, 1, 3));
    harness.run();
    assert_eq!(harness.sent(1)[0].start, start + span(20));
}

#[test]
fn priorities_that_are_not_enabled_are_counted_and_not_obeyed() {
    let mut harness = Harness::learnt(&config::switch(2));
    harness.receive_pfc(1, 0xff, [0xffff; 8]);
    for dscp in 0..8 {
        harness.receive(0, &small(0, 1, dscp));
    }
    harness.run_for(Picos::from_millis(1));
    let stopped = |n: &u8| !harness.sent(1).iter().any(|s| s.bytes == small(0, 1, *n));
    assert_eq!((0..8).filter(stopped).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(harness.counters(1).pfc_rx, [1; 8]);
}

#[test]
fn asymmetric_ports_obey_every_priority() {
    let mut config = config::switch(2);
    config.ports[1].pfc.asymmetric = true;
    let mut harness = Harness::learnt(&config);
    harness.receive_pfc(1, 0xff, [0xffff; 8]);
    for dscp in 0..8 {
        harness.receive(0, &small(0, 1, dscp));
    }
    harness.run_for(Picos::from_millis(1));
    assert!(harness.sent(1).is_empty());
}

#[test]
fn ten_frames_per_priority_are_ten_counts_and_no_ordinary_frames() {
    let mut harness = Harness::learnt(&config::switch(3));
    let before = harness.counters(1);
    for quanta in [0xffff, 0] {
        for n in 0..8 {
            for _ in 0..10 {
                harness.receive_pfc(1, 1 << n, only(n, quanta));
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
fn an_empty_enable_vector_does_nothing() {
    let mut harness = Harness::learnt(&config::switch(2));
    assert_eq!(harness.receive_pfc(1, 0, [0xffff; 8]), ForwardingResult::Control);
    harness.receive(0, &small(0, 1, 3));
    assert_eq!(harness.sent(1).len(), 1);
    assert_eq!(harness.counters(1).pfc_rx, [0; 8]);
}

#[test]
fn global_pause_is_counted_and_ignored() {
    let mut harness = Harness::learnt(&config::switch(2));
    let pause = MacControl::Pause { quanta: 0xffff }.to_frame(mac(1));
    assert_eq!(harness.receive(1, &pause), ForwardingResult::Control);
    harness.receive(0, &small(0, 1, 3));
    assert_eq!(harness.sent(1).len(), 1);
    let counters = harness.counters(1);
    assert_eq!(
        (counters.pause_rx, counters.pfc_rx_frames, counters.pfc_rx),
        (1, 0, [0; 8])
    );
}

#[test]
fn malformed_mac_control_is_a_counted_drop_and_pauses_nothing() {
    let mut harness = Harness::learnt(&config::switch(2));
    let good = MacControl::Pfc(xoff_wire::Pfc {
        enable: 0xff,
        quanta: [0xffff; 8],
    })
    .to_frame(mac(1));
    let mut opcode = good;
    opcode[15] = 0x02;
    let mut unicast = good;
    unicast[..6].copy_from_slice(&mac(0));
    let before = harness.counters(1).rx_packets;
    for frame in [&opcode[..], &unicast, &good[..33], &good[..16], &good[..14]] {
        let ForwardingResult::Dropped(drop) = harness.receive(1, frame) else {
            panic!("{} octets obeyed", frame.len());
        };
        assert_eq!(drop.reason, DropReason::MacControlUnknown);
    }
    assert_eq!(harness.drops(1, DropReason::MacControlUnknown), 5);
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
fn the_source_may_be_anything_and_the_destination_only_the_group() {
    let mut harness = Harness::learnt(&config::switch(2));
    let mut frame = MacControl::Pfc(xoff_wire::Pfc {
        enable: 1 << 3,
        quanta: [100; 8],
    })
    .to_frame(mac(1));
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
fn the_shortest_frame_that_claims_to_be_pfc_with_a_tag_is_not_pfc() {
    let mut harness = Harness::learnt(&config::switch(2));
    let mut frame = ethernet([0x01, 0x80, 0xc2, 0, 0, 1], mac(1), 64);
    frame[12..20].copy_from_slice(&[0x81, 0, 0, 5, 0x88, 0x08, 1, 1]);
    let ForwardingResult::Dropped(drop) = harness.receive(1, &frame) else {
        panic!("obeyed or forwarded");
    };
    assert_eq!(drop.reason, DropReason::DmacReserved);
}

#[test]
fn a_link_that_comes_back_is_not_paused() {
    let mut harness = paused(0xffff);
    harness.set_link(1, false);
    harness.set_link(1, true);
    assert_eq!(harness.switch().paused_priorities(PortId(1)), 0);
    harness.receive(1, &small(1, 0, 0));
    harness.receive(0, &small(0, 1, 3));
    assert_eq!(harness.sent(1).len(), 1);
}

#[test]
fn raw_control_frames_are_sent_as_they_are_and_received_ones_recorded() {
    let mut harness = Harness::learnt(&config::switch(2));
    let raw = ethernet([0x01, 0x80, 0xc2, 0, 0, 1], mac(7), 60);
    let handle = harness.store_mut().insert(&raw).unwrap();
    let sent = harness
        .with(|now, switch, store, outputs| switch.send_mac_control(now, PortId(1), handle, store, outputs));
    assert_eq!(sent, Ok(()));
    assert_eq!(harness.sent(1)[0].bytes, raw);
    harness.switch_mut().set_mac_control_recording(PortId(1), true);
    harness.receive_pfc(1, 1 << 3, only(3, 7));
    harness.receive_pfc(0, 1 << 3, only(3, 7));
    let records: Vec<_> = harness.switch().mac_control_records().collect();
    assert_eq!(records.len(), 1, "port 0 is not recorded");
    assert_eq!(records[0].frame_len, 60);
    assert_eq!(records[0].bytes[18 + 6..18 + 8], [0, 7]);
}
