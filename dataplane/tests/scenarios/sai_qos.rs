//! The published QoS tests of SONiC (sonic-mgmt, `sai_qos_tests.py`), with exact numbers instead of margins.

use xoff_dataplane::counters::PortCounters;
use xoff_dataplane::{DropReason, PgId, Picos, PortId, QueueId};

use crate::support::frames::shortest_udp_frame;
use crate::support::{Harness, config};

/// Frames of one cell until XOFF of a lossless group: 4 reserved cells, alpha 1 of 4096 cells.
const TRIG_PFC: usize = 2_052;
/// The first frame that finds all 64 headroom cells in use.
const TRIG_INGR_DRP: usize = 2_117;
/// Frames of one cell that fill a lossy queue: alpha 1 of 2048 cells.
const TRIG_EGR_DRP: usize = 1_025;
/// Number of cells below the XOFF point at which a group resumes.
const XON_OFFSET_CELLS: usize = 8;

fn ingress_drops(counters: &PortCounters) -> u64 {
    counters.dropped_frames()
}

/// Returns the PFC frames of `class` sent by port 0, the drops on port 0 and the drops on port 1.
fn drop_and_pfc_counters(harness: &Harness, class: usize) -> (u64, u64, u64) {
    let (src, dst) = (harness.counters(0), harness.counters(1));
    (src.pfc_tx[class], ingress_drops(&src), dst.dropped_frames())
}

#[test]
fn pfc_xoff_limit() {
    for class in [3, 4] {
        let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
        let frame = shortest_udp_frame(0, 1, class);
        let class = usize::from(class);
        harness.set_tx_enabled(1, false);
        harness.receive_many(TRIG_PFC - 1, 0, &frame);
        harness.run_for(Picos::from_millis(100));
        assert_eq!(drop_and_pfc_counters(&harness, class), (0, 0, 0), "short of XOFF");
        harness.receive_many(1, 0, &frame);
        assert_eq!(drop_and_pfc_counters(&harness, class), (1, 0, 0), "XOFF");
        harness.run_for(Picos::from_millis(100));
        harness.receive_many(TRIG_INGR_DRP - TRIG_PFC - 1, 0, &frame);
        assert_eq!(
            drop_and_pfc_counters(&harness, class),
            (7, 0, 0),
            "short of drop, refreshed"
        );
        harness.receive_many(1, 0, &frame);
        assert_eq!(drop_and_pfc_counters(&harness, class), (7, 1, 0), "drop");
        let drops = harness.counters(0).pgs.map(|pg| pg.dropped_packets);
        let mut expected = [0; 8];
        expected[class] = 1;
        assert_eq!(drops, expected);
        harness.set_tx_enabled(1, true);
        harness.run();
        assert_eq!(harness.sent(1).len(), TRIG_INGR_DRP - 1);
        harness.assert_empty();
    }
}

#[test]
fn pfc_xon_limit() {
    let margin = 1;
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(4));
    (1..4).for_each(|port| harness.set_tx_enabled(port, false));
    harness.receive_many(
        TRIG_PFC - XON_OFFSET_CELLS - margin,
        0,
        &shortest_udp_frame(0, 1, 3),
    );
    harness.receive_many(XON_OFFSET_CELLS + 2 * margin - 1, 0, &shortest_udp_frame(0, 2, 3));
    harness.receive_many(1, 0, &shortest_udp_frame(0, 3, 3));
    assert_eq!(harness.counters(0).pfc_tx[3], 1);
    harness.set_tx_enabled(2, true);
    harness.run_for(Picos::from_millis(2_000));
    // 2044 cells are left, one of them at port 3: 8 below XOFF.
    assert_eq!(
        harness.pfc_sent(0).last().unwrap().1.quanta,
        [0; 8],
        "the XON frame"
    );
    harness.set_tx_enabled(3, true);
    harness.run_for(Picos::from_millis(2_000));
    let base = harness.counters(0).pfc_tx;
    harness.run_for(Picos::from_millis(30_000));
    assert_eq!(harness.counters(0).pfc_tx, base);
    assert!((0..4).all(|port| harness.counters(port).dropped_frames() == 0));
    harness.set_tx_enabled(1, true);
    harness.run();
    harness.assert_empty();
}

#[test]
fn a_group_one_cell_above_its_xon_point_stays_in_xoff() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(3));
    (1..3).for_each(|port| harness.set_tx_enabled(port, false));
    harness.receive_many(TRIG_PFC - XON_OFFSET_CELLS + 1, 0, &shortest_udp_frame(0, 1, 3));
    harness.receive_many(XON_OFFSET_CELLS - 1, 0, &shortest_udp_frame(0, 2, 3));
    harness.set_tx_enabled(2, true);
    harness.run_for(Picos::from_millis(100));
    assert_eq!(harness.switch().xoff_groups(PortId(0)), 1 << 3);
    assert_eq!(harness.counters(0).pfc_tx[3], 7, "refreshes go on");
}

#[test]
fn lossy_queue() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_tx_enabled(1, false);
    let frame = shortest_udp_frame(0, 1, 0);
    harness.receive_many(TRIG_EGR_DRP - 1, 0, &frame);
    assert_eq!(drop_and_pfc_counters(&harness, 0), (0, 0, 0));
    harness.receive_many(1, 0, &frame);
    assert_eq!(drop_and_pfc_counters(&harness, 0), (0, 0, 1));
    assert_eq!(harness.drop_count(1, DropReason::QueueDropped), 1);
    assert!(harness.sent(0).is_empty(), "no PFC");
    assert_eq!(
        harness.counters(0).pgs[0].packets,
        1 + TRIG_EGR_DRP as u64 - 1,
        "not charged"
    );
}

#[test]
fn pg_shared_and_headroom_watermarks() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    harness.set_tx_enabled(1, false);
    let group = PgId::new(PortId(0), 3);
    let mut sent = 0;
    for target in [4, 5, 516, 1_028, 1_540, 2_051, 2_052, 2_053, 2_068, 2_116, 2_126] {
        harness.receive_many(target - sent, 0, &shortest_udp_frame(0, 1, 3));
        sent = target;
        let marks = harness.switch().pg_buffers(group);
        let (shared, headroom) = (target.clamp(4, 2_052) - 4, target.clamp(2_052, 2_116) - 2_052);
        assert_eq!(marks.shared.peak_cells, shared as u32, "{target} sent");
        assert_eq!(marks.headroom.peak_cells, headroom as u32, "{target} sent");
        assert_eq!(
            harness
                .switch()
                .pool_buffers(config::INGRESS_POOL)
                .shared
                .peak_cells,
            shared as u32
        );
    }
    harness.set_tx_enabled(1, true);
    harness.run();
    let marks = harness.switch().pg_buffers(group);
    assert_eq!((marks.shared.peak_cells, marks.headroom.peak_cells), (2_048, 64));
    assert_eq!((marks.shared.current_cells, marks.headroom.current_cells), (0, 0));
    harness.switch_mut().clear_watermarks();
    assert_eq!(harness.switch().pg_buffers(group).shared.peak_cells, 0);
}

#[test]
fn queue_shared_watermark() {
    for (class, most) in [(3, 2_116), (0, 1_024)] {
        let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
        harness.set_tx_enabled(1, false);
        let queue = QueueId::new(PortId(1), class);
        for n in 1..=most + 10 {
            harness.receive(0, &shortest_udp_frame(0, 1, class));
            let marks = harness.switch().queue_buffers(queue);
            assert_eq!(marks.shared.peak_cells, n.min(most), "class {class}");
        }
    }
}

#[test]
fn dscp_to_queue_and_group_mapping() {
    let mut harness = Harness::with_learnt_addresses(&config::bridge_config(2));
    let (before_src, before_dst) = (harness.counters(0), harness.counters(1));
    for dscp in 0..64 {
        harness.receive(0, &shortest_udp_frame(0, 1, dscp));
        harness.run();
        assert_eq!(
            harness.sent(1).last().unwrap().bytes,
            shortest_udp_frame(0, 1, dscp)
        );
    }
    let (src, dst) = (harness.counters(0), harness.counters(1));
    let queues: Vec<u64> = (0..8)
        .map(|n| dst.queues[n].packets - before_dst.queues[n].packets)
        .collect();
    let groups: Vec<u64> = (0..8)
        .map(|n| src.pgs[n].packets - before_src.pgs[n].packets)
        .collect();
    assert_eq!(queues, [57, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(groups, queues);
}
