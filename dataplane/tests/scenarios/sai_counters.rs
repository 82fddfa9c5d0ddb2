//! SAI's counters of bytes and pools (docs/counters.md).

use xoff_dataplane::{DropReason, PgId, PortId};
use xoff_wire::Ecn;

use crate::support::frames::{ethernet_frame, shortest_udp_frame, station_mac, udp_frame};
use crate::support::{Harness, config};

/// Bytes of a frame check sequence.
const FCS: u64 = 4;

#[test]
fn byte_counters_of_ports_groups_and_queues_equal_the_frame_bytes() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let (before_in, before_out) = (harness.counters(0), harness.counters(1));
    let frames = [(3, 200), (3, 1_000), (0, 64), (6, 1_500)]
        .map(|(tc, len)| (tc, udp_frame(0, 1, tc, Ecn::Ect0, len)));
    for (_, frame) in &frames {
        harness.receive(0, frame);
    }
    // A PFC frame is not counted in any of these.
    harness.receive_pfc(0, 1 << 3, [100; 8]);
    harness.run();
    let (ingress, egress) = (harness.counters(0), harness.counters(1));
    let octets = |tc: Option<u8>| -> u64 {
        let chosen = frames.iter().filter(|(of, _)| tc.is_none_or(|tc| tc == *of));
        chosen.map(|(_, frame)| frame.len() as u64 + FCS).sum()
    };
    assert_eq!(ingress.rx_bytes - before_in.rx_bytes, octets(None));
    assert_eq!(egress.tx_bytes - before_out.tx_bytes, octets(None));
    assert_eq!(ingress.pfc_rx[3], 1);
    for (tc, count) in [(3, 2), (6, 1)] {
        let (group, queue) = (&ingress.pgs[usize::from(tc)], &egress.queues[usize::from(tc)]);
        assert_eq!(
            (group.packets, group.bytes),
            (count, octets(Some(tc))),
            "class {tc}"
        );
        assert_eq!(
            (queue.packets, queue.bytes),
            (count, octets(Some(tc))),
            "class {tc}"
        );
    }
}

#[test]
fn broadcast_and_multicast_frames_are_counted_apart() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let before = harness.counters(0);
    let ipv6_multicast = [0x33, 0x33, 0, 0, 0, 1];
    for destination in [[0xff; 6], ipv6_multicast, station_mac(1), station_mac(99)] {
        harness.receive(0, &ethernet_frame(destination, station_mac(0), 64));
    }
    let after = harness.counters(0);
    assert_eq!(after.rx_packets - before.rx_packets, 4);
    assert_eq!(after.rx_non_unicast_packets - before.rx_non_unicast_packets, 2);
}

#[test]
fn drops_of_a_port_backend_have_the_class_of_their_headers() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    for tc in [0, 3, 6] {
        // The class of a frame that the switch receives, and of the same frame dropped by the backend.
        let frame = udp_frame(0, 1, tc, Ecn::NotEct, 9_000);
        let before = harness.counters(0).rx_class_packets;
        harness.receive(0, &frame);
        let class = (0..16).find(|&n| harness.counters(0).rx_class_packets[n] > before[n]);
        let dscp = xoff_wire::parse::parse(&frame).dscp();
        harness
            .switch_mut()
            .add_backend_drops(PortId(0), DropReason::Oversized, (dscp, None), 5);
        let drops = harness.counters(0).drops[DropReason::Oversized as usize];
        assert_eq!(drops[class.expect("a class")], 5, "class {tc}: {drops:?}");
    }
    harness
        .switch_mut()
        .add_backend_drops(PortId(1), DropReason::BackendRefused, (None, None), 2);
    assert_eq!(
        harness.counters(1).drops[DropReason::BackendRefused as usize][0],
        2
    );
}

#[test]
fn pool_occupancy_equals_shared_and_headroom_cells() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_tx_enabled(1, false);
    // Fill to the end of headroom.
    harness.receive_many(3_000, 0, &shortest_udp_frame(0, 1, 3));
    let group = harness.switch().pg_buffers(PgId::new(PortId(0), 3));
    let pool = harness.switch().pool_buffers(config::INGRESS_POOL);
    assert!(group.shared.current_cells > 0 && group.headroom.current_cells > 0);
    assert_eq!(pool.shared.current_cells, group.shared.current_cells);
    assert_eq!(pool.headroom.current_cells, group.headroom.current_cells);
    assert!(
        group.total.current_cells > group.shared.current_cells + group.headroom.current_cells,
        "reserved cells"
    );
    harness.set_tx_enabled(1, true);
    harness.run();
    let after = harness.switch().pool_buffers(config::INGRESS_POOL);
    assert_eq!((after.shared.current_cells, after.headroom.current_cells), (0, 0));
    assert_eq!(
        (after.shared.peak_cells, after.headroom.peak_cells),
        (pool.shared.peak_cells, pool.headroom.peak_cells)
    );
}
