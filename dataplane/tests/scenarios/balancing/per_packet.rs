//! Tests of schemes in which every packet selects a member.

use xoff_dataplane::config::{MemberSelection, SchemeConfig, SchemeKind, ShaperConfig};
use xoff_units::Picos;

use super::{
    balanced_config, fill_egress_queue, flow_frame, harness_with_neighbours, harness_with_scheme,
    packets_per_member, selected_port,
};
use crate::support::packets::{frame_to_router, refresh_checksum, udp_ipv4_packet};

const QUALITY_SCHEME: SchemeKind = SchemeKind::PerPacket {
    pick: MemberSelection::Quality,
};

/// Returns a frame of a lossless class.
fn lossless_frame() -> Vec<u8> {
    let mut packet = udp_ipv4_packet("10.0.0.9", "198.51.100.7", 64, 40);
    packet[1] = 3 << 2;
    refresh_checksum(&mut packet);
    frame_to_router(0, 0x0800, &packet)
}

#[test]
fn a_burst_of_one_flow_spreads_evenly_over_members() {
    let mut harness = harness_with_scheme(QUALITY_SCHEME);
    harness.receive_many(400, 0, &flow_frame(1));
    assert_eq!(packets_per_member(&harness), [100; 4]);
    assert_eq!(harness.switch().flow_moves().count(), 0);
}

#[test]
fn packets_select_idle_links_at_random() {
    let mut harness = harness_with_scheme(QUALITY_SCHEME);
    for _ in 0..400 {
        harness.receive(0, &flow_frame(1));
        harness.run_for(Picos::from_micros(50));
    }
    let counts = packets_per_member(&harness);
    assert!(
        counts.iter().all(|count| (70..=130).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn random_spraying_is_even_and_ignores_queues() {
    let mut harness = harness_with_scheme(SchemeKind::PerPacket {
        pick: MemberSelection::Random,
    });
    fill_egress_queue(&mut harness, 2, 100);
    harness.receive_many(1_000, 0, &flow_frame(1));
    let counts = packets_per_member(&harness);
    assert!(
        counts.iter().all(|count| (200..=300).contains(count)),
        "{counts:?}"
    );
    assert_ne!(counts, [250; 4]);
}

#[test]
fn a_long_queue_is_avoided_until_the_other_queues_are_as_long() {
    let mut harness = harness_with_scheme(QUALITY_SCHEME);
    fill_egress_queue(&mut harness, 2, 10);
    // Ten frames of 1 000 bytes wait. One of them is on the link, and each lasts as long as twelve short
    // frames.
    harness.receive_many(300, 0, &flow_frame(1));
    let counts = packets_per_member(&harness);
    assert_eq!(counts[1], 0, "{counts:?}");
    harness.receive_many(300, 0, &flow_frame(1));
    assert!(packets_per_member(&harness)[1] > 0);
}

#[test]
fn a_slower_link_receives_packets_up_to_its_capacity() {
    let mut config = balanced_config(SchemeConfig::new("quality", QUALITY_SCHEME));
    // 10 % of 1 Gb/s.
    config.ports[2].shaper = Some(ShaperConfig {
        bytes_per_second: 12_500_000,
        burst_bytes: 2_000,
    });
    let mut harness = harness_with_neighbours(&config);
    let mut frame = udp_ipv4_packet("10.0.0.9", "198.51.100.7", 64, 958);
    refresh_checksum(&mut frame);
    let frame = frame_to_router(0, 0x0800, &frame);
    // 90 % of the total capacity of 3.1 Gb/s.
    for _ in 0..3_400 {
        harness.receive(0, &frame);
        harness.run_for(Picos::from_nanos(2_940));
    }
    let counts = packets_per_member(&harness);
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
fn a_paused_link_receives_no_packets_of_the_paused_class() {
    let mut harness = harness_with_scheme(QUALITY_SCHEME);
    let mut quanta = [0; 8];
    quanta[3] = 0xffff;
    harness.receive_pfc(2, 1 << 3, quanta);
    for _ in 0..100 {
        assert_ne!(selected_port(&mut harness, &lossless_frame()), 2);
        harness.run_for(Picos::from_micros(20));
    }
    assert!(
        (0..100).any(|_| selected_port(&mut harness, &flow_frame(1)) == 2),
        "other classes go on"
    );
    quanta[3] = 0;
    harness.receive_pfc(2, 1 << 3, quanta);
    assert!((0..100).any(|_| selected_port(&mut harness, &lossless_frame()) == 2));
}

#[test]
fn the_shortest_queue_is_selected_when_all_links_are_paused() {
    let mut harness = harness_with_scheme(QUALITY_SCHEME);
    let mut quanta = [0; 8];
    quanta[3] = 0xffff;
    for port in 1..5 {
        harness.receive_pfc(port, 1 << 3, quanta);
    }
    harness.receive_many(40, 0, &lossless_frame());
    assert_eq!(packets_per_member(&harness), [10; 4]);
}

#[test]
fn a_link_is_used_as_soon_as_it_is_up_again() {
    let mut harness = harness_with_scheme(QUALITY_SCHEME);
    harness.set_link(2, false);
    harness.receive_many(300, 0, &flow_frame(1));
    assert_eq!(packets_per_member(&harness), [100, 0, 100, 100]);
    harness.set_link(2, true);
    super::send_arp_request_from(&mut harness, 2);
    harness.receive_many(60, 0, &flow_frame(1));
    assert!(
        packets_per_member(&harness)[1] >= 55,
        "its queue is empty: {:?}",
        packets_per_member(&harness)
    );
}
