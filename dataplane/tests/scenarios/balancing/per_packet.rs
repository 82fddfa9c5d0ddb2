//! Tests of schemes in which every packet selects a member.

use xoff_dataplane::config::{MemberSelection, SchemeConfig, SchemeKind, ShaperConfig};
use xoff_units::Picos;

use super::{balanced, chosen, flow, occupy, packets, up, with};
use crate::support::packets::{refresh_checksum, to_router, udp4};

const QUALITY: SchemeKind = SchemeKind::PerPacket {
    pick: MemberSelection::Quality,
};

/// A frame of a lossless class.
fn lossless() -> Vec<u8> {
    let mut packet = udp4("10.0.0.9", "198.51.100.7", 64, 40);
    packet[1] = 3 << 2;
    refresh_checksum(&mut packet);
    to_router(0, 0x0800, &packet)
}

#[test]
fn a_burst_of_one_flow_spreads_evenly_by_quality() {
    let mut harness = with(QUALITY);
    harness.receive_many(400, 0, &flow(1));
    assert_eq!(packets(&harness), [100; 4]);
    assert_eq!(harness.switch().flow_moves().count(), 0);
}

#[test]
fn packets_on_idle_links_are_drawn_at_random() {
    let mut harness = with(QUALITY);
    for _ in 0..400 {
        harness.receive(0, &flow(1));
        harness.run_for(Picos::from_micros(50));
    }
    let counts = packets(&harness);
    assert!(
        counts.iter().all(|count| (70..=130).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn random_spraying_is_even_and_heeds_no_queue() {
    let mut harness = with(SchemeKind::PerPacket {
        pick: MemberSelection::Random,
    });
    occupy(&mut harness, 2, 100);
    harness.receive_many(1_000, 0, &flow(1));
    let counts = packets(&harness);
    assert!(
        counts.iter().all(|count| (200..=300).contains(count)),
        "{counts:?}"
    );
    assert_ne!(counts, [250; 4]);
}

#[test]
fn a_queue_is_avoided_until_the_others_are_as_long() {
    let mut harness = with(QUALITY);
    occupy(&mut harness, 2, 10);
    // Ten frames of 1 000 bytes wait. One of them is on the link, and each lasts as long as twelve short
    // frames.
    harness.receive_many(300, 0, &flow(1));
    let counts = packets(&harness);
    assert_eq!(counts[1], 0, "{counts:?}");
    harness.receive_many(300, 0, &flow(1));
    assert!(packets(&harness)[1] > 0);
}

#[test]
fn a_slowed_link_gets_what_it_can_carry() {
    let mut config = balanced(SchemeConfig::new("quality", QUALITY));
    // 10 % of 1 Gb/s.
    config.ports[2].shaper = Some(ShaperConfig {
        bytes_per_second: 12_500_000,
        burst_bytes: 2_000,
    });
    let mut harness = up(&config);
    let mut frame = udp4("10.0.0.9", "198.51.100.7", 64, 958);
    refresh_checksum(&mut frame);
    let frame = to_router(0, 0x0800, &frame);
    // 90 % of the total capacity of 3.1 Gb/s.
    for _ in 0..3_400 {
        harness.receive(0, &frame);
        harness.run_for(Picos::from_nanos(2_940));
    }
    let counts = packets(&harness);
    assert!((100..=220).contains(&counts[1]), "{counts:?}");
    assert!(
        [0, 2, 3].iter().all(|&n| (1_000..=1_150).contains(&counts[n])),
        "{counts:?}"
    );
    assert_eq!(
        (1..5)
            .map(|port| harness.counters(port).dropped_frames())
            .sum::<u64>(),
        0
    );
}

#[test]
fn a_link_that_is_held_takes_no_packets_of_the_class_that_is_held() {
    let mut harness = with(QUALITY);
    let mut quanta = [0; 8];
    quanta[3] = 0xffff;
    harness.receive_pfc(2, 1 << 3, quanta);
    for _ in 0..100 {
        assert_ne!(chosen(&mut harness, &lossless()), 2);
        harness.run_for(Picos::from_micros(20));
    }
    assert!(
        (0..100).any(|_| chosen(&mut harness, &flow(1)) == 2),
        "other classes go on"
    );
    quanta[3] = 0;
    harness.receive_pfc(2, 1 << 3, quanta);
    assert!((0..100).any(|_| chosen(&mut harness, &lossless()) == 2));
}

#[test]
fn where_all_links_are_held_the_shortest_queue_is_taken() {
    let mut harness = with(QUALITY);
    let mut quanta = [0; 8];
    quanta[3] = 0xffff;
    for port in 1..5 {
        harness.receive_pfc(port, 1 << 3, quanta);
    }
    harness.receive_many(40, 0, &lossless());
    assert_eq!(packets(&harness), [10; 4]);
}

#[test]
fn a_link_that_comes_back_is_used_at_once() {
    let mut harness = with(QUALITY);
    harness.set_link(2, false);
    harness.receive_many(300, 0, &flow(1));
    assert_eq!(packets(&harness), [100, 0, 100, 100]);
    harness.set_link(2, true);
    super::introduce(&mut harness, 2);
    harness.receive_many(60, 0, &flow(1));
    assert!(
        packets(&harness)[1] >= 55,
        "its queue is empty: {:?}",
        packets(&harness)
    );
}
