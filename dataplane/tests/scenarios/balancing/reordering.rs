//! Counts of reordering, per queue pair and in total.

use xoff_dataplane::balance::{ReorderCounts, ReorderingView};
use xoff_dataplane::config::SwitchConfig;
use xoff_dataplane::{Picos, config::SchemeConfig, config::SchemeKind};

use super::{balanced_config, queue_pair_frame};
use crate::support::Harness;

const WRITE_MIDDLE: u8 = 0x07;
const READ_RESPONSE: u8 = 0x0e;
const ACK: u8 = 0x11;
const UD_SEND: u8 = 0x64;
const CNP: u8 = 0x81;
const PSN_MASK: u32 = 0xff_ffff;

fn config_counting_reordering(streams: u32) -> SwitchConfig {
    let mut config = balanced_config(SchemeConfig::new("hash", SchemeKind::Hash));
    config.balancing.reordering_flows = streams;
    config
}

fn reordering_view(harness: &Harness) -> ReorderingView {
    harness.switch().reordering().expect("it counts")
}

/// Returns the counts after these packet sequence numbers of one queue pair.
fn counts_after_psns(opcode: u8, numbers: impl IntoIterator<Item = u32>) -> ReorderCounts {
    let mut harness = Harness::new(&config_counting_reordering(8));
    for psn in numbers {
        harness.receive(0, &queue_pair_frame(9, opcode, psn & PSN_MASK));
    }
    reordering_view(&harness).total
}

fn reorder_counts(packets: u64, out_of_order: u64, repeated: u64, extent_max: u32) -> ReorderCounts {
    ReorderCounts {
        packets,
        out_of_order,
        repeated,
        extent_max,
    }
}

#[test]
fn packets_in_sequence_are_counted_in_order() {
    // Wrap-around of sequence numbers. Gaps do not count.
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, PSN_MASK - 5..PSN_MASK + 5),
        reorder_counts(10, 0, 0, 0)
    );
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, [7, 9, 5_000, 5_001]),
        reorder_counts(4, 0, 0, 0)
    );
}

#[test]
fn late_packets_are_counted_with_their_reordering_extent() {
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, [1, 3, 2, 4]),
        reorder_counts(4, 1, 0, 1)
    );
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, [1, 2, 8, 3, 9, 4, 10]),
        reorder_counts(7, 2, 0, 5)
    );
    let around = [PSN_MASK - 1, PSN_MASK + 2, PSN_MASK, PSN_MASK + 1, PSN_MASK + 3];
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, around),
        reorder_counts(5, 2, 0, 2)
    );
    // The first known packet may be late itself.
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, [5, 4, 6]),
        reorder_counts(3, 1, 0, 1)
    );
    // Two paths with a skew of ten packets.
    let two_ways = (0..100).flat_map(|n| {
        if n < 10 {
            vec![2 * n + 1]
        } else {
            vec![2 * n + 1, 2 * (n - 10)]
        }
    });
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, two_ways),
        reorder_counts(190, 90, 0, 21)
    );
}

#[test]
fn retransmissions_are_counted_as_repeated() {
    // Lost behind the switch: all packets arrived before.
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, (1..10).chain(4..12)),
        reorder_counts(17, 0, 6, 0)
    );
    // Lost before the switch, with go-back-N: the lost packets, then the packets after them again.
    let lost = [1, 2, 5, 6, 7].into_iter().chain(3..12);
    assert_eq!(counts_after_psns(WRITE_MIDDLE, lost), reorder_counts(14, 0, 5, 0));
    // The latest packet again.
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, [1, 2, 2, 3]),
        reorder_counts(4, 0, 1, 0)
    );
    // Too old to be known.
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, [1, 1_000, 2]),
        reorder_counts(3, 0, 1, 0)
    );
}

#[test]
fn a_much_lower_psn_starts_a_new_connection() {
    let numbers = (500_000..500_010).chain(1_000..1_010).chain([1_012, 1_011]);
    assert_eq!(
        counts_after_psns(WRITE_MIDDLE, numbers),
        reorder_counts(22, 1, 0, 1)
    );
}

#[test]
fn repeated_psns_of_acknowledgements_and_naks_are_not_counted() {
    assert_eq!(
        counts_after_psns(ACK, [1, 4, 4, 9, 9, 9]),
        reorder_counts(6, 0, 0, 0)
    );
    assert_eq!(counts_after_psns(ACK, [1, 9, 4, 10]), reorder_counts(4, 1, 0, 5));
    let mut harness = Harness::new(&config_counting_reordering(8));
    let mut nak = queue_pair_frame(9, ACK, 50);
    let aeth = 14 + 20 + 8 + 12;
    nak.resize(aeth + 4, 0);
    nak[aeth] = 0x60;
    harness.receive(0, &queue_pair_frame(9, ACK, 50));
    nak[aeth - 1] = 10;
    harness.receive(0, &nak);
    assert_eq!(reordering_view(&harness).total, reorder_counts(1, 0, 0, 0));
}

#[test]
fn requests_and_responses_are_ordered_separately() {
    let mut harness = Harness::new(&config_counting_reordering(8));
    for psn in 0..5 {
        harness.receive(0, &queue_pair_frame(9, WRITE_MIDDLE, 1_000 + psn));
        harness.receive(0, &queue_pair_frame(9, READ_RESPONSE, 100 + psn));
    }
    harness.receive(0, &queue_pair_frame(9, UD_SEND, 3));
    harness.receive(0, &queue_pair_frame(9, CNP, 0));
    let view = reordering_view(&harness);
    assert_eq!(view.total, reorder_counts(10, 0, 0, 0));
    let streams: Vec<_> = view
        .streams
        .iter()
        .map(|stream| (stream.destination_qp, stream.responses))
        .collect();
    assert_eq!(streams, [(9, false), (9, true)]);
    let ends = (
        view.streams[0].source.to_string(),
        view.streams[0].destination.to_string(),
    );
    assert_eq!(ends, ("10.0.0.9".to_owned(), "198.51.100.7".to_owned()));
}

#[test]
fn a_full_reordering_table_counts_overflow_and_expires_idle_streams() {
    let mut harness = Harness::new(&config_counting_reordering(2));
    for qp in [5, 6, 7] {
        harness.receive(0, &queue_pair_frame(qp, WRITE_MIDDLE, 2));
        harness.receive(0, &queue_pair_frame(qp, WRITE_MIDDLE, 1));
    }
    assert_eq!(reordering_view(&harness).untracked_packets, 2);
    harness.run_for(Picos::from_millis(1_500));
    harness.receive(0, &queue_pair_frame(7, WRITE_MIDDLE, 3));
    let view = reordering_view(&harness);
    assert_eq!(view.total, reorder_counts(5, 2, 0, 1));
    let mut known: Vec<_> = view.streams.iter().map(|stream| stream.destination_qp).collect();
    known.sort_unstable();
    assert!(known.len() == 2 && known.contains(&7), "{known:?}");
}

#[test]
fn reordering_is_counted_only_if_configured() {
    let mut harness = Harness::new(&config_counting_reordering(0));
    assert_eq!(harness.switch().reordering(), None);
    harness.apply(&config_counting_reordering(4));
    harness.receive(0, &queue_pair_frame(9, WRITE_MIDDLE, 1));
    assert_eq!(reordering_view(&harness).total.packets, 1);
    harness.apply(&config_counting_reordering(4));
    assert_eq!(reordering_view(&harness).total.packets, 1, "counts go on");
}
